/* autograd/history.c, and what record.c keeps for it: views of several, changes through a view, operands in place. */
#include "autograd_rig.h"

#include "autograd/internal.h"

enum { HALVES = 2 };

static bool
halves_of(struct task *me, struct tensor *whole, struct tensor **out)
{
    static const int64_t lengths[HALVES] = { 2, 2 };
    return tensor_split(me, whole, &(struct pieces){ 0, HALVES, lengths, false }, out);
}

static bool
base_changed_under_several_views(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 4, (const double[]){ 1, 2, 3, 4 }), *b = tensor_mul_number(me, a, 1);
    struct tensor *halves[HALVES];
    expect(me, rig, halves_of(me, b, halves), "split");
    expect(me, rig, tensor_mul_(me, halves[0], 2) == NULL &&
           raised(me, "Output 0 of SplitBackward0 is a view and is being modified inplace."), "one of several in place");
    expect(me, rig, tensor_mul_(me, tensor_narrow(me, halves[0], 0, 0, 1), 2) == NULL &&
           raised(me, "Output 0 of SliceBackward0 is a view and is being modified inplace."), "a view of that");
    expect(me, rig, tensor_mul_(me, b, 2) == b, "the base in place");
    return expect(me, rig, tensor_mul_number(me, halves[1], 3) == NULL &&
                  raised(me, "Output 1 of SplitBackward0 is a view and its base or another view"), "then a view is used");
}

static bool
view_takes_second_output(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 4, (const double[]){ 1, 2, 3, 4 });
    struct tensor *plain = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ 3 });
    struct tensor *halves[HALVES];
    expect(me, rig, halves_of(me, tensor_mul_number(me, a, 1), halves), "split");
    expect(me, rig, tensor_add_(me, tensor_narrow(me, plain, 0, 1, 2), halves[1], 5) != NULL, "add_ through a view");
    expect(me, rig, backward(me, tensor_sum(me, plain)), "backward through CopySlices");
    return expect(me, rig, holds(me, a->grad, 4, (const double[]){ 0, 0, 5, 5 }), "the gradient is the second half's");
}

static void
several_views_have_one_node(void **state)
{
    (void)state;
    in_both(base_changed_under_several_views);
    in_both(view_takes_second_output);
}

/* The operand that is overwritten is needed for the other's gradient: its copy is kept. */
static bool
overwritten_operand_is_kept(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 2, 3 }), *c = vector(me, 2, (const double[]){ 5, 7 });
    struct tensor *b = tensor_mul_number(me, a, 10);
    expect(me, rig, tensor_in_place(me, OP_mul, &(struct op_args){ .in = { b, c } }) == b, "b *= c");
    expect(me, rig, backward(me, tensor_sum(me, b)), "backward");
    expect(me, rig, holds(me, a->grad, 2, (const double[]){ 50, 70 }), "10 c");
    return expect(me, rig, holds(me, c->grad, 2, (const double[]){ 20, 30 }), "b as it was");
}

static bool
operand_that_is_the_target_is_gone(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 2, 3 }), *b = tensor_mul_number(me, a, 10);
    expect(me, rig, tensor_in_place(me, OP_mul, &(struct op_args){ .in = { b, b } }) == b, "b *= b");
    return expect(me, rig, !backward(me, tensor_sum(me, b)) && raised(me, "one of the variables needed"),
                  "b was needed as it had been");
}

static void
a_change_in_place_knows_what_it_overwrites(void **state)
{
    (void)state;
    in_both(overwritten_operand_is_kept);
    in_both(operand_that_is_the_target_is_gone);
}

/* A view of a view is one of the same base: what is changed through it is changed there. */
static bool
view_of_a_view(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 4, (const double[]){ 1, 2, 3, 4 }), *b = tensor_mul_number(me, a, 1);
    struct tensor *inner = tensor_narrow(me, tensor_narrow(me, b, 0, 0, 3), 0, 0, 2);
    expect(me, rig, tensor_mul_(me, inner, 5) == inner, "in place");
    return expect(me, rig, backward(me, tensor_sum(me, b)) && holds(me, a->grad, 4, (const double[]){ 5, 5, 1, 1 }),
                  "two levels down");
}

/* Nothing in one dimension joins anything, as long ago, and has no part in the gradient. */
static bool
joined_with_nothing(struct task *me, struct rig *rig)
{
    static const int64_t none = 0, square[] = { 2, 2 };
    struct tensor *empty = leaf(me, DTYPE_F32, 1, &none, (const double[]){ 0 });
    struct tensor *a = leaf(me, DTYPE_F32, 2, square, (const double[]){ 1, 2, 3, 4 });
    struct tensor *all = tensor_cat(me, (struct tensor *[]){ empty, a }, 2, 0);
    return expect(me, rig, backward(me, tensor_sum(me, all)) && holds(me, a->grad, 4, (const double[]){ 1, 1, 1, 1 }),
                  "the square's gradient");
}

static bool
overlapping_copy(struct task *me, struct rig *rig)
{
    struct tensor *a = tensor_detach(me, vector(me, 4, (const double[]){ 1, 2, 3, 4 }));
    struct tensor *low = tensor_narrow(me, a, 0, 0, 3), *high = tensor_narrow(me, a, 0, 1, 3);
    expect(me, rig, tensor_copy_(me, high, low) == NULL && raised(me, "copy_: the tensor that is read"), "shared memory");
    return expect(me, rig, holds(me, a, 4, (const double[]){ 1, 2, 3, 4 }), "nothing was copied");
}

static void
what_shares_memory_is_known(void **state)
{
    static const struct { struct strided at; bool overlaps; } cases[] = {
        { { 2, { 2, 3 }, { 3, 1 }, 0 }, false }, { { 2, { 2, 3 }, { 1, 2 }, 0 }, false },
        { { 2, { 2, 2 }, { 1, 1 }, 0 }, true },  { { 2, { 2, 3 }, { 2, 1 }, 0 }, true },
        { { 2, { 1, 3 }, { 1, 1 }, 0 }, false }, { { 2, { 2, 3 }, { 0, 1 }, 0 }, false },
    };
    (void)state;
    in_both(view_of_a_view);
    in_both(overlapping_copy);
    in_both(joined_with_nothing);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(strides_overlap(&cases[i].at, false), cases[i].overlaps);
    assert_true(strides_overlap(&cases[5].at, true));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_shares_memory_is_known),
        cmocka_unit_test(several_views_have_one_node),
        cmocka_unit_test(a_change_in_place_knows_what_it_overwrites),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

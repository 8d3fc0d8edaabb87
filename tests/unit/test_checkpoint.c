/* Checkpoints as the engine sees them: how often the function runs, what it gets, who keeps what for how long. What a
 * lesson sees is compared with PyTorch's in tests/parity/twins/checkpoint. */
#include "autograd_rig.h"
#include "autograd/checkpoint.h"
#include "autograd/node.h"

/* A function of one tensor, which it calls so often. */
struct told {
    int            calls, drops;
    bool           recorded;      /* with grad mode on, the last time */
    struct tensor *(*of)(struct task *me, struct told *told, struct tensor *x);
    struct told   *inner;
    bool           reentrant;
};

static bool
run_told(struct task *me, void *context, const struct passed *inputs, struct passed *outputs)
{
    struct told *told = context;
    told->calls++;
    told->recorded      = grad_enabled(me);
    struct tensor *made = told->of(me, told, inputs->at[0]);
    return made != NULL && passed_add(me, outputs, made);
}

static void
drop_told(struct task *me, void *context)
{
    (void)me;
    ((struct told *)context)->drops++;
}

/* Its result, in me's scope; NULL: failed. */
static struct tensor *
checkpointed(struct task *me, struct told *told, struct tensor *x)
{
    struct checkpointed what = { run_told, drop_told, told, told->reentrant, true, true, true };
    struct passed       in = { 0 }, out = { 0 };
    struct checkpoint  *made = checkpoint_new(me, &what);
    bool ok = made != NULL && passed_add(me, &in, x) && checkpoint_forward(me, made, &in, &out);
    struct tensor *result = ok ? tensor_born(me, tensor_ref(out.at[0])) : NULL;
    passed_clear(me, &in);
    passed_clear(me, &out);
    checkpoint_unref(me, made);
    return result;
}

static bool
backward_of(struct task *me, struct tensor *root, bool keep)
{
    struct backward_options options = { .keep_graph = keep };
    return root != NULL && autograd_backward(me, &root, NULL, 1, &options);
}

static struct tensor *
fourth_power(struct task *me, struct told *told, struct tensor *x)
{
    (void)told;
    struct tensor *square = tensor_mul(me, x, x);
    return tensor_mul(me, square, square);
}

static bool
both_ways(struct task *me, struct rig *rig)
{
    for (int way = 0; way < 2; way++) {
        struct told    told = { .of = fourth_power, .reentrant = way == 1 };
        size_t         mark = scope_mark(me);
        struct tensor *x = vector(me, 2, (const double[]){ 1, 2 });
        struct tensor *loss = tensor_sum(me, checkpointed(me, &told, x));
        expect(me, rig, loss != NULL && told.calls == 1 && told.recorded != told.reentrant,
               "the forward records unless it is reentrant");
        expect(me, rig, backward_of(me, loss, true) && told.calls == 2 && told.recorded, "one recomputation, recorded");
        expect(me, rig, holds(me, x->grad, 2, (const double[]){ 4, 32 }), "4 x^3");
        expect(me, rig, backward_of(me, loss, false) && told.calls == 3, "one more in each backward");
        expect(me, rig, holds(me, x->grad, 2, (const double[]){ 8, 64 }), "twice 4 x^3");
        expect(me, rig, told.drops == (way == 0), "place holders go with the graph, a node with its tensor");
        scope_release(me, mark);
        expect(me, rig, told.drops == 1, "and then nobody keeps the function");
    }
    return true;
}

static void
the_function_runs_once_more_in_each_backward(void **state)
{
    (void)state;
    in_both(both_ways);
}

static struct tensor *
calls_inner(struct task *me, struct told *told, struct tensor *x)
{
    told->inner->reentrant = told->reentrant;
    return tensor_mul(me, checkpointed(me, told->inner, tensor_mul_number(me, x, 3)), x);
}

static bool
nested(struct task *me, struct rig *rig)
{
    for (int way = 0; way < 2; way++) {
        struct told    inner = { .of = fourth_power }, outer = { .of = calls_inner, .inner = &inner };
        size_t         mark = scope_mark(me);
        struct tensor *x = vector(me, 1, (const double[]){ 2 });
        outer.reentrant = way == 1;
        expect(me, rig, backward_of(me, tensor_sum(me, checkpointed(me, &outer, x)), false), "backward of a nest");
        expect(me, rig, holds(me, x->grad, 1, (const double[]){ 5 * 81 * 16 }), "405 x^4");
        expect(me, rig, outer.calls == 2 && inner.calls == 3, "the inner function runs in both recomputations");
        scope_release(me, mark);
        expect(me, rig, outer.drops == 1 && inner.drops == 2, "the graph of a recomputation ends with it");
    }
    return true;
}

static void
an_inner_checkpoint_is_recomputed_in_the_outer_one(void **state)
{
    (void)state;
    in_both(nested);
}

static struct tensor *
on_two_devices(struct task *me, struct told *told, struct tensor *x)
{
    (void)told;
    struct tensor *a = tensor_copy_to(me, x, 1, DTYPE_F32), *b = tensor_copy_to(me, x, 2, DTYPE_F32);
    a = tensor_copy_to(me, tensor_mul(me, a, a), DEVICE_CPU, DTYPE_F32);
    b = tensor_copy_to(me, tensor_mul(me, tensor_mul(me, b, b), b), DEVICE_CPU, DTYPE_F32);
    return tensor_add(me, a, b);
}

static bool
two_workers(struct task *me, struct rig *rig)
{
    for (int i = 0; i < 10; i++) {
        struct told    told = { .of = on_two_devices };
        size_t         mark = scope_mark(me);
        struct tensor *x = vector(me, 2, (const double[]){ 1, 2 });
        expect(me, rig, backward_of(me, tensor_sum(me, checkpointed(me, &told, x)), false) && told.calls == 2,
               "two workers, one recomputation");
        expect(me, rig, holds(me, x->grad, 2, (const double[]){ 5, 16 }), "2 x + 3 x^2");
        scope_release(me, mark);
        expect(me, rig, told.drops == 1, "and nobody keeps the function");
    }
    return true;
}

static void
the_workers_of_two_devices_share_a_recomputation(void **state)
{
    (void)state;
    in_both(two_workers);
}

static struct tensor *
fails_again(struct task *me, struct told *told, struct tensor *x)
{
    return told->calls == 1 ? tensor_mul(me, x, x) : failed_null(me, E_VALUE, "not again");
}

static struct tensor *
saves_less(struct task *me, struct told *told, struct tensor *x)
{
    return told->calls == 1 ? tensor_mul(me, tensor_mul(me, x, x), x) : tensor_mul_number(me, x, 2);
}

static bool
errors(struct task *me, struct rig *rig)
{
    for (int way = 0; way < 2; way++) {
        struct told    told = { .of = fails_again, .reentrant = way == 1 };
        size_t         mark = scope_mark(me);
        struct tensor *x = vector(me, 2, (const double[]){ 1, 2 });
        struct tensor *loss = tensor_sum(me, checkpointed(me, &told, x));
        expect(me, rig, !backward_of(me, loss, false) && me->error.kind == E_VALUE, "the function's own error is raised");
        task_clear_error(me);
        expect(me, rig, grad_enabled(me) && me->slots[SLOT_SAVING] == 0, "and all is as it was");
        scope_release(me, mark);
    }
    size_t         mark = scope_mark(me);
    struct told    told = { .of = saves_less };
    struct tensor *loss = tensor_sum(me, checkpointed(me, &told, vector(me, 2, (const double[]){ 1, 2 })));
    expect(me, rig, !backward_of(me, loss, false) && me->error.kind == E_CHECKPOINT, "another number of tensors");
    task_clear_error(me);
    struct told    whole = { .of = fourth_power, .reentrant = true };
    struct tensor *x = vector(me, 2, (const double[]){ 1, 2 }), *grad = NULL;
    struct backward_options options = { .inputs = &x, .input_count = 1, .results = &grad };
    loss = tensor_sum(me, checkpointed(me, &whole, x));
    expect(me, rig, !autograd_backward(me, &loss, NULL, 1, &options) && me->error.kind == E_RUNTIME,
           "autograd.grad does not go through a reentrant one");
    task_clear_error(me);
    scope_release(me, mark);
    return expect(me, rig, told.drops == 1 && whole.drops == 1, "and nobody keeps the functions");
}

static void
what_goes_wrong_is_said_and_leaves_nothing_behind(void **state)
{
    (void)state;
    in_both(errors);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_function_runs_once_more_in_each_backward),
        cmocka_unit_test(an_inner_checkpoint_is_recomputed_in_the_outer_one),
        cmocka_unit_test(the_workers_of_two_devices_share_a_recomputation),
        cmocka_unit_test(what_goes_wrong_is_said_and_leaves_nothing_behind),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* autograd/graph.c: which of several ready nodes runs first, in the calling task and in a device's worker; what becomes
 * of gradients that meet. A cat hands out all its gradients at once: everything behind it is ready at the same time. */
#include "autograd_rig.h"

enum { PARTS = 6 };

struct order { char text[256]; };
struct named { struct order *order; const char *name; };

static bool
hook_writes_its_name(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    struct named *named = context;
    (void)me, (void)node, (void)grads, (void)count;
    strncat(named->order->text, named->name, sizeof named->order->text - strlen(named->order->text) - 1);
    return true;
}

/* Its name is written when its node's turn comes. */
static bool
name_turn(struct task *me, struct rig *rig, struct tensor *tensor, struct named *named)
{
    struct hook hook = { .run = hook_writes_its_name, .context = named };
    return expect(me, rig, tensor_add_hook(me, tensor, &hook, NULL), "a hook that writes a name");
}

static struct tensor *
leaf_on(struct task *me, int device)
{
    struct tensor *made = tensor_filled(me, tensor_empty(me, DTYPE_F32, device, 1, (const int64_t[]){ 1 }), 1);
    if (made != NULL)
        made->requires_grad = true;
    return made;
}

static bool
all_ran_on(const struct rig *rig, int device)
{
    for (int i = 0; i < rig->node_count; i++)
        if (rig->nodes[i].device != device)
            return false;
    return rig->node_count > 0;
}

/* Backward from the sum of all parts, which are ready in the order of the list. */
static bool
backward_of_all(struct task *me, struct rig *rig, struct tensor *const *parts, int device)
{
    rig_forget(rig);
    expect(me, rig, backward(me, tensor_sum(me, tensor_cat(me, parts, PARTS, 0))), "backward of a cat");
    return expect(me, rig, all_ran_on(rig, device), "one task works for the device, the caller for the CPU");
}

/* Recorded in one order, ready in another: what was recorded last goes first. */
static bool
recorded_last_goes_first(struct task *me, struct rig *rig, int device)
{
    static const int ready[PARTS] = { 3, 0, 5, 1, 4, 2 };
    struct tensor   *a = leaf_on(me, device), *made[PARTS], *parts[PARTS];
    for (int i = 0; i < PARTS; i++)
        made[i] = tensor_mul_number(me, a, i + 1);
    for (int i = 0; i < PARTS; i++)
        parts[i] = made[ready[i]];
    backward_of_all(me, rig, parts, device);
    expect(me, rig, ran(rig, PARTS + 3, (const int[]){ 7, 6, 5, 4, 3, 2, 1, 0, -1 }), "by falling sequence number");
    return expect(me, rig, at(me, a->grad, 0) == 21, "1 + 2 + ... + 6");
}

/* AccumulateGrads have one number: as PyTorch's heap sifts them, which is neither as they became ready nor as the leaves
 * were made. 2.15 gives this order for torch.cat of six leaves. */
static bool
leaves_in_order_of_the_heap(struct task *me, struct rig *rig, int device)
{
    static const char *const names[PARTS] = { "a", "b", "c", "d", "e", "f" };
    struct order   order = { "" };
    struct named   named[PARTS];
    struct tensor *parts[PARTS];
    for (int i = PARTS - 1; i >= 0; i--) {
        named[i] = (struct named){ &order, names[i] };
        parts[i] = leaf_on(me, device);
        name_turn(me, rig, parts[i], &named[i]);
    }
    backward_of_all(me, rig, parts, device);
    return expect(me, rig, strcmp(order.text, "acfebd") == 0, order.text);
}

/* Each task counts its own nodes, so that those of replicas may have one number: then the heap's order, too. */
static bool
equal_numbers_in_order_of_the_heap(struct task *me, struct rig *rig, int device)
{
    static const char *const names[PARTS] = { "a", "b", "c", "d", "e", "f" };
    struct order   order = { "" };
    struct named   named[PARTS];
    struct tensor *a = leaf_on(me, device), *parts[PARTS];
    for (int i = PARTS - 1; i >= 0; i--) {
        named[i] = (struct named){ &order, names[i] };
        me->slots[SLOT_SEQUENCE_NR] = 40;
        parts[i] = tensor_mul_number(me, a, 2);
        name_turn(me, rig, parts[i], &named[i]);
    }
    backward_of_all(me, rig, parts, device);
    return expect(me, rig, strcmp(order.text, "acfebd") == 0, order.text);
}

/* An AccumulateGrad that becomes ready last goes before nodes that wait already. */
static bool
leaves_go_before_all(struct task *me, struct rig *rig, int device)
{
    struct tensor *a = leaf_on(me, device), *parts[PARTS];
    for (int i = 0; i < PARTS - 1; i++)
        parts[i] = tensor_mul_number(me, a, 2);
    parts[PARTS - 1] = leaf_on(me, device);
    backward_of_all(me, rig, parts, device);
    return expect(me, rig, ran(rig, PARTS + 3, (const int[]){ 6, 5, -1, 4, 3, 2, 1, 0, -1 }), "the leaf, then the rest");
}

static bool
order_on_the_cpu(struct task *me, struct rig *rig)
{
    recorded_last_goes_first(me, rig, DEVICE_CPU);
    leaves_in_order_of_the_heap(me, rig, DEVICE_CPU);
    return equal_numbers_in_order_of_the_heap(me, rig, DEVICE_CPU);
}

static bool
order_on_a_device(struct task *me, struct rig *rig)
{
    recorded_last_goes_first(me, rig, 1);
    leaves_in_order_of_the_heap(me, rig, 1);
    return equal_numbers_in_order_of_the_heap(me, rig, 1);
}

static bool
leaves_first_on_the_cpu(struct task *me, struct rig *rig)
{
    return leaves_go_before_all(me, rig, DEVICE_CPU);
}

static bool
leaves_first_on_a_device(struct task *me, struct rig *rig)
{
    return leaves_go_before_all(me, rig, 1);
}

static void
of_ready_nodes_the_last_recorded_goes_first_ties_as_the_heap_sifts(void **state)
{
    (void)state;
    in_both(order_on_the_cpu);
}

static void
a_device_worker_keeps_the_same_order(void **state)
{
    (void)state;
    in_both(order_on_a_device);
}

static void
accumulate_grad_overtakes_what_waits(void **state)
{
    (void)state;
    in_both(leaves_first_on_the_cpu);
    in_both(leaves_first_on_a_device);
}

/* ---- two gradients for one input ---- */

/* The first to come is a view of what the caller gave: the sum goes elsewhere. */
static bool
gradient_of_the_caller_is_left_alone(struct task *me, struct rig *rig)
{
    const int64_t  square[2] = { 2, 2 };
    struct tensor *a = leaf(me, DTYPE_F32, 2, square, (const double[]){ 1, 2, 3, 4 }), *b = tensor_mul_number(me, a, 1);
    struct tensor *roots[2], *grads[2];
    roots[0] = tensor_mul_number(me, b, 10);
    roots[1] = tensor_t(me, b);
    grads[0] = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, square), 1);
    grads[1] = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, square), 1);
    expect(me, rig, autograd_backward(me, roots, grads, 2, NULL), "backward from two roots");
    expect(me, rig, holds(me, a->grad, 4, (const double[]){ 11, 11, 11, 11 }), "10 + 1");
    return expect(me, rig, holds(me, grads[0], 4, (const double[]){ 1, 1, 1, 1 }) &&
                  holds(me, grads[1], 4, (const double[]){ 1, 1, 1, 1 }), "as they were given");
}

static void
a_sum_overwrites_only_what_nobody_else_sees(void **state)
{
    (void)state;
    in_both(gradient_of_the_caller_is_left_alone);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_ready_nodes_the_last_recorded_goes_first_ties_as_the_heap_sifts),
        cmocka_unit_test(a_device_worker_keeps_the_same_order),
        cmocka_unit_test(accumulate_grad_overtakes_what_waits),
        cmocka_unit_test(a_sum_overwrites_only_what_nobody_else_sees),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

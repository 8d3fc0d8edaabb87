/* autograd/engine.c, hooks.c: what happens around a node and around a backward. The order of nodes is in test_graph.c. */
#include "autograd_rig.h"

struct log { char text[256]; };
struct named { struct log *log; const char *name; struct tensor *tensor; int id; };

static void
write_name(struct log *log, const char *name)
{
    strncat(log->text, name, sizeof log->text - strlen(log->text) - 1);
}

static bool
writes(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    struct named *named = context;
    (void)me, (void)node, (void)grads, (void)count;
    write_name(named->log, named->name);
    return true;
}

static bool
writes_and_goes(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    struct named *named = context;
    return writes(me, context, node, grads, count) && tensor_remove_hook(me, named->tensor, named->id);
}

static bool
add_hook(struct task *me, struct rig *rig, struct named *named)
{
    struct hook hook = { .run = writes, .context = named };
    return expect(me, rig, tensor_add_hook(me, named->tensor, &hook, &named->id), named->name);
}

/* ---- hooks ---- */

static bool
hook_removes_itself(struct task *me, struct rig *rig)
{
    struct log     log = { "" };
    struct tensor *a = vector(me, 1, (const double[]){ 2 }), *b = tensor_mul_number(me, a, 3);
    struct tensor *tensors[] = { a, b };
    for (int i = 0; i < 2; i++) {
        struct named named[] = { { &log, "once ", tensors[i], 0 }, { &log, "always ", tensors[i], 0 } };
        struct hook  once = { .run = writes_and_goes, .context = &named[0] };
        struct backward_options keep = { .keep_graph = true };
        log.text[0] = '\0';
        expect(me, rig, tensor_add_hook(me, tensors[i], &once, &named[0].id), "a hook");
        add_hook(me, rig, &named[1]);
        for (int times = 0; times < 2; times++)
            expect(me, rig, autograd_backward(me, &b, NULL, 1, &keep), "backward");
        expect(me, rig, strcmp(log.text, "once always always ") == 0, log.text);
        tensor_remove_hook(me, tensors[i], named[1].id);
    }
    return true;
}

static bool
hooks_around_a_node(struct task *me, struct rig *rig)
{
    struct log     log = { "" };
    struct tensor *a = vector(me, 1, (const double[]){ 2 }), *b = tensor_mul_number(me, a, 3);
    struct named   tensors = { &log, "tensor ", b, 0 }, after = { &log, "node ", b, 0 };
    struct named   leaf_first = { &log, "leaf ", a, 0 }, updated = { &log, "updated ", a, 0 };
    struct hook    post = { .run = writes, .context = &after }, done = { .run = writes, .context = &updated };
    expect(me, rig, node_add_post_hook(me, b->grad_fn, &post, NULL), "a hook after the node");
    expect(me, rig, tensor_add_post_accumulate_hook(me, a, &done, NULL), "one of the updated leaf");
    add_hook(me, rig, &tensors);
    add_hook(me, rig, &leaf_first);
    expect(me, rig, backward(me, b), "backward");
    return expect(me, rig, strcmp(log.text, "tensor node leaf updated ") == 0, log.text);
}

/* What wanted its gradient may be gone; a tensor that has its place by now gets none. */
static bool
retained_and_gone(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 1, (const double[]){ 2 });
    size_t         mark = scope_mark(me);
    struct tensor *b = tensor_mul_number(me, a, 3);
    expect(me, rig, tensor_retain_grad(me, b), "retain_grad");
    struct tensor *c = tensor_ref(tensor_mul_number(me, b, 5));
    scope_release(me, mark);
    struct tensor *others[8];
    for (int i = 0; i < 8; i++)
        others[i] = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ 1 }), 1);
    expect(me, rig, backward(me, c), "backward");
    for (int i = 0; i < 8; i++)
        expect(me, rig, others[i]->grad == NULL, "a gradient for whoever came later");
    tensor_unref(me, c);
    return expect(me, rig, at(me, a->grad, 0) == 15, "3 * 5");
}

static void
hooks_have_their_places(void **state)
{
    (void)state;
    in_both(hook_removes_itself);
    in_both(hooks_around_a_node);
    in_both(retained_and_gone);
}

/* ---- roots, callbacks, dtypes ---- */

static bool
second_of_several_as_root(struct task *me, struct rig *rig)
{
    static const int64_t lengths[] = { 1, 1 };
    struct tensor *a = vector(me, 2, (const double[]){ 2, 3 }), *halves[2];
    expect(me, rig, tensor_split(me, tensor_mul_number(me, a, 4), &(struct pieces){ 0, 2, lengths, false }, halves), "split");
    return expect(me, rig, backward(me, halves[1]) && holds(me, a->grad, 2, (const double[]){ 0, 4 }), "the second");
}

static bool
second_callback(struct task *me, void *context)
{
    (void)me;
    write_name(context, "second ");
    return true;
}

static bool
first_callback(struct task *me, void *context)
{
    write_name(context, "first ");
    return autograd_queue_callback(me, second_callback, context);
}

static bool
queue_first(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    (void)node, (void)grads, (void)count;
    return autograd_queue_callback(me, first_callback, context);
}

static bool
callback_queues_another(struct task *me, struct rig *rig)
{
    struct log     log = { "" };
    struct hook    hook = { .run = queue_first, .context = &log };
    struct tensor *a = vector(me, 1, (const double[]){ 1 });
    expect(me, rig, tensor_add_hook(me, a, &hook, NULL), "a hook");
    return expect(me, rig, backward(me, a) && strcmp(log.text, "first second ") == 0, log.text);
}

static bool
gradient_of_another_dtype(struct task *me, struct rig *rig)
{
    const int64_t  one = 1;
    struct tensor *a = vector(me, 1, (const double[]){ 2 }), *b = tensor_mul_number(me, a, 1);
    struct tensor *wide = leaf(me, DTYPE_F64, 1, &one, (const double[]){ 3 });
    expect(me, rig, tensor_retain_grad(me, b) && backward(me, tensor_mul(me, b, wide)), "float32 times float64");
    return expect(me, rig, b->grad->dtype == DTYPE_F32 && wide->grad->dtype == DTYPE_F64, "each gets its own dtype");
}

static void
a_backward_begins_and_ends_as_asked(void **state)
{
    (void)state;
    in_both(second_of_several_as_root);
    in_both(callback_queues_another);
    in_both(gradient_of_another_dtype);
}

/* ---- devices ---- */

static bool
grad_mode_of_workers(struct task *me, struct rig *rig)
{
    struct backward_options create = { .create_graph = true };
    struct tensor *a = tensor_filled(me, tensor_empty(me, DTYPE_F32, 1, 1, (const int64_t[]){ 1 }), 3);
    a->requires_grad = true;
    expect(me, rig, backward(me, tensor_mul(me, a, a)) && a->grad->grad_fn == NULL, "nothing is recorded");
    tensor_drop(me, &a->grad);
    struct tensor *square = tensor_mul(me, a, a);
    expect(me, rig, autograd_backward(me, &square, NULL, 1, &create) && a->grad->grad_fn != NULL, "create_graph");
    tensor_drop(me, &a->grad); /* else a holds its graph, which holds a */
    return true;
}

/* Who reads a gradient on the device's own stream after the backward needs no event for it. */
static bool
caller_waits_for_streams(struct task *me, struct rig *rig)
{
    struct tensor *a = tensor_filled(me, tensor_empty(me, DTYPE_F32, 1, 1, (const int64_t[]){ 3 }), 2);
    a->requires_grad = true;
    struct stream *home = stream_current(me, 1), *side = stream_new(me, 1, "side");
    struct event  *event = event_new(me);
    bool ok = stream_record(me, home, event) && stream_wait_event(me, side, event) && stream_make_current(me, side);
    struct tensor *loss = tensor_sum(me, tensor_mul(me, a, a));
    ok = ok && stream_make_current(me, home);
    event_free(me, event);
    expect(me, rig, ok && backward(me, loss), "a forward on a stream at the side");
    return expect(me, rig, holds(me, a->grad, 3, (const double[]){ 4, 4, 4 }), "no race with the reader");
}

static void
workers_are_as_their_caller(void **state)
{
    (void)state;
    in_both(grad_mode_of_workers);
    in_both(caller_waits_for_streams);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hooks_have_their_places),
        cmocka_unit_test(a_backward_begins_and_ends_as_asked),
        cmocka_unit_test(workers_are_as_their_caller),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

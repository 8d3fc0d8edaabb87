/* autograd/engine.c, hooks.c: what happens around a node and around a backward. The order of nodes is in test_graph.c. */
#include "autograd_rig.h"

#include "autograd/history.h"
#include "autograd/inplace.h"
#include "functional/functional.h"

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

/* ---- nodes of one's own ---- */

/* What such a node does in a backward, and what it was given. */
struct own { bool given[2], silent, elsewhere, fails; double us; struct tensor *recorded; };

static bool
own_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct own *own = node->context;
    sched_advance(me, cost_us(own->us));
    for (int i = 0; i < node->output_count; i++)
        own->given[i] = grad_out[i] != NULL;
    if (own->fails)
        return failed(me, E_VALUE, "the node of device %d", node->device);
    if (own->recorded != NULL) {
        grad_set_enabled(me, true);
        grad_in[0] = tensor_mul_number(me, own->recorded, 1);
        grad_set_enabled(me, false);
    } else if (!own->silent) {
        grad_in[0] = own->elsewhere ? tensor_copy_to(me, grad_out[0], 1, DTYPE_F32) : grad_out[0];
    }
    return true;
}

/* It takes `input`, and its outputs are copies of it. */
static struct node *
own_node(struct task *me, struct own *own, struct tensor *input, struct tensor **outputs, int count)
{
    struct node *node = node_new(me, "OwnBackward", own_backward, 1, count);
    node->context = own;
    node->device  = tensor_device(input);
    node_connect(me, node, 0, input);
    grad_set_enabled(me, false);
    for (int i = 0; i < count; i++)
        node_output(me, node, outputs[i] = tensor_clone(me, input), i);
    grad_set_enabled(me, true);
    return node;
}

/* A gradient that is none comes to an end without a sum; who waits for the leaf hears that nothing comes any more. */
static bool
no_gradient(struct task *me, struct rig *rig)
{
    struct log     log = { "" };
    struct own     own = { .silent = true };
    struct tensor *a = vector(me, 1, (const double[]){ 2 }), *out;
    struct named   updated = { &log, "updated ", a, 0 };
    struct hook    done = { .run = writes, .context = &updated };
    struct node   *node = own_node(me, &own, a, &out, 1);
    expect(me, rig, tensor_add_post_accumulate_hook(me, a, &done, NULL) && backward(me, out), "backward");
    node_unref(me, node);
    return expect(me, rig, a->grad == NULL && strcmp(log.text, "updated ") == 0, "a hook behind nothing");
}

static bool
absent_gradients(struct task *me, struct rig *rig)
{
    for (int fills = 0; fills < 2; fills++) {
        struct own     own = { .us = 0 };
        struct tensor *a = vector(me, 1, (const double[]){ 2 }), *out[2];
        struct node   *node = own_node(me, &own, a, out, 2);
        node->fill_missing = fills == 1;
        expect(me, rig, backward(me, out[0]), "backward from the first output");
        expect(me, rig, own.given[0] && own.given[1] == (fills == 1), "zeros for the second only where they are asked for");
        node_unref(me, node);
    }
    return true;
}

static bool
gradient_elsewhere(struct task *me, struct rig *rig)
{
    struct own     own = { .elsewhere = true };
    struct tensor *a = vector(me, 2, (const double[]){ 2, 3 }), *out, *ones = vector(me, 2, (const double[]){ 1, 1 });
    struct node   *node = own_node(me, &own, a, &out, 1);
    expect(me, rig, !autograd_backward(me, &out, &ones, 1, &(struct backward_options){ 0 }) &&
           raised(me, "Function OwnBackward returned an invalid gradient at index 0 - expected device -1 but got 1"), "on another device");
    node_unref(me, node);
    return true;
}

/* Both devices fail, the second one first. */
static bool
first_error_is_raised(struct task *me, struct rig *rig)
{
    struct own     own[2] = { { .fails = true, .us = 900 }, { .fails = true } };
    struct tensor *out[2], *ones[2];
    struct node   *nodes[2];
    for (int i = 0; i < 2; i++) {
        struct tensor *a = tensor_filled(me, tensor_empty(me, DTYPE_F32, 1 + i, 1, (const int64_t[]){ 1 }), 1);
        ones[i] = tensor_clone(me, a);
        a->requires_grad = true;
        nodes[i] = own_node(me, &own[i], a, &out[i], 1);
    }
    bool failed_there = !autograd_backward(me, out, ones, 2, &(struct backward_options){ 0 });
    expect(me, rig, failed_there && (!rig->stepped || strstr(me->error.message, "the node of device 2") != NULL),
           "the error that was found first");
    task_clear_error(me);
    for (int i = 0; i < 2; i++)
        node_unref(me, nodes[i]);
    return true;
}

static void
nodes_of_ones_own_are_asked_as_pytorchs_functions(void **state)
{
    (void)state;
    in_both(no_gradient);
    in_both(absent_gradients);
    in_both(gradient_elsewhere);
    in_both(first_error_is_raised);
}

/* ---- leaves ---- */

/* What is part of a graph is copied, also where nobody else holds it: a leaf's gradient has no history. */
static bool
gradient_with_a_history(struct task *me, struct rig *rig)
{
    struct own     own = { .recorded = vector(me, 1, (const double[]){ 5 }) };
    struct tensor *a = vector(me, 1, (const double[]){ 2 }), *out;
    struct node   *node = own_node(me, &own, a, &out, 1);
    expect(me, rig, backward(me, out), "a gradient that has a history");
    node_unref(me, node);
    return expect(me, rig, at(me, a->grad, 0) == 5 && a->grad->grad_fn == NULL, "is copied without it");
}

static bool
detached_in_place(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 2, 3 }), *rows[2];
    struct own     own = { .us = 0 };
    struct node   *node = own_node(me, &own, a, rows, 2);
    expect(me, rig, rows[1]->output_nr == 1 && tensor_detach_(me, rows[1]) == rows[1], "the second of two outputs");
    expect(me, rig, rows[1]->output_nr == 0 && !rows[1]->requires_grad && rows[1]->grad_fn == NULL, "is a leaf again");
    node_unref(me, node);
    return true;
}

/* A reshaped gradient is a view; the leaf that takes it over keeps the elements alone. */
static bool
stolen_view(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 4, (const double[]){ 1, 2, 3, 4 });
    struct tensor *square = tensor_reshape(me, a, 2, (const int64_t[]){ 2, 2 });
    expect(me, rig, backward(me, tensor_sum(me, tensor_mul_number(me, square, 3))), "backward");
    return expect(me, rig, holds(me, a->grad, 4, (const double[]){ 3, 3, 3, 3 }) && a->grad->base == NULL &&
                  tensor_detach_(me, a->grad) == a->grad, "a leaf's gradient is no view");
}

/* Two rows that are one: whether each comes once is known of one row at most. */
static bool
sparse_rows(struct task *me, struct rig *rig)
{
    static const int64_t rows[] = { 1, 1 }, sizes[] = { 3, 2 };
    for (int64_t count = 1; count <= 2; count++) {
        struct tensor *table  = leaf(me, DTYPE_F32, 2, sizes, (const double[]){ 1, 2, 3, 4, 5, 6 });
        struct tensor *picked = embedding_with(me, table, tensor_from(me, DTYPE_I64, 1, &count, rows),
                                               &(struct embedding_options){ .padding_idx = -1, .sparse = true });
        expect(me, rig, backward(me, tensor_sum(me, picked)), "backward");
        expect(me, rig, table->grad->coalesced == (count == 1), "coalesced");
    }
    return true;
}

static bool
retained_twice(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 1, (const double[]){ 2 }), *b = tensor_mul_number(me, a, 3), *seed;
    expect(me, rig, tensor_retain_grad(me, b) && tensor_retain_grad(me, b), "retain_grad");
    seed = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ 1 }), 5);
    expect(me, rig, autograd_backward(me, &b, &seed, 1, &(struct backward_options){ 0 }), "backward");
    return expect(me, rig, at(me, b->grad, 0) == 5 && b->grad->storage != seed->storage, "once, and a copy");
}

static void
leaves_are_alone(void **state)
{
    (void)state;
    in_both(stolen_view);
    in_both(sparse_rows);
    in_both(retained_twice);
    in_both(gradient_with_a_history);
    in_both(detached_in_place);
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
        cmocka_unit_test(nodes_of_ones_own_are_asked_as_pytorchs_functions),
        cmocka_unit_test(leaves_are_alone),
        cmocka_unit_test(workers_are_as_their_caller),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

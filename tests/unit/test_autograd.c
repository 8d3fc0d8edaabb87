/* autograd: the order of nodes, hooks, accumulation, versions, views, errors, devices.
 * What the gradients are is checked in test_gradients.c. */
#include "autograd_rig.h"
#include "functional/functional.h"

/* ---- order ---- */

static bool
diamond(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 1, 2 });
    struct tensor *b = tensor_mul_number(me, a, 2), *c = tensor_mul_number(me, a, 3);
    bool ok = backward(me, tensor_sum(me, tensor_add(me, b, c)));
    expect(me, rig, ok, "backward of a diamond");
    expect(me, rig, ran(rig, 5, (const int[]){ 3, 2, 1, 0, -1 }),
           "of two ready nodes the one recorded later goes first");
    return expect(me, rig, holds(me, a->grad, 2, (const double[]){ 5, 5 }), "2 + 3 is 5");
}

static void
of_two_ready_nodes_the_later_goes_first(void **state)
{
    (void)state;
    in_both(diamond);
}

static bool
two_branches(struct task *me, struct rig *rig)
{
    struct tensor *leaves[4];
    for (int i = 0; i < 4; i++)
        leaves[i] = vector(me, 1, (const double[]){ 2 + i });
    struct tensor *x = tensor_mul(me, leaves[0], leaves[1]), *y = tensor_mul(me, leaves[2], leaves[3]);
    expect(me, rig, backward(me, tensor_add(me, x, y)), "backward of two branches");
    expect(me, rig, ran(rig, 7, (const int[]){ 2, 1, -1, -1, 0, -1, -1 }), "AccumulateGrad goes before any other node");
    return expect(me, rig, at(me, leaves[0]->grad, 0) == 3 && at(me, leaves[3]->grad, 0) == 4, "products");
}

static bool
short_and_long(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 1, (const double[]){ 1.5 });
    struct tensor *s = tensor_mul_number(me, a, 5);
    struct tensor *l = tensor_abs(me, tensor_neg(me, tensor_mul_number(me, a, 2)));
    expect(me, rig, backward(me, tensor_add(me, s, l)), "short branch made first");
    expect(me, rig, ran(rig, 6, (const int[]){ 4, 3, 2, 1, 0, -1 }), "the short branch waits when it was made first");
    rig_forget(rig);
    tensor_drop(me, &a->grad);
    l = tensor_abs(me, tensor_neg(me, tensor_mul_number(me, a, 2)));
    s = tensor_mul_number(me, a, 5);
    expect(me, rig, backward(me, tensor_add(me, s, l)), "short branch made last");
    return expect(me, rig, ran(rig, 6, (const int[]){ 9, 8, 7, 6, 5, -1 }), "it goes first when it was made last");
}

static void
accumulation_goes_before_all_others(void **state)
{
    (void)state;
    in_both(two_branches);
    in_both(short_and_long);
}

static bool
mlp(struct task *me, struct rig *rig)
{
    const double   n[12] = { .1, .2, .3, -.4, .5, .6, .7, -.8, .9, 1, 1.1, 1.2 };
    struct tensor *x = leaf(me, DTYPE_F32, 2, (const int64_t[]){ 4, 3 }, n);
    x->requires_grad = false;
    struct tensor *w1 = leaf(me, DTYPE_F32, 2, (const int64_t[]){ 2, 3 }, n), *b1 = vector(me, 2, n);
    struct tensor *w2 = leaf(me, DTYPE_F32, 2, (const int64_t[]){ 1, 2 }, n + 3), *b2 = vector(me, 1, n);
    struct tensor *out = linear(me, tensor_relu(me, linear(me, x, w1, b1)), w2, b2);
    expect(me, rig, backward(me, tensor_sum(me, out)), "backward of an MLP");
    /* sum addmm2 b2 t2 w2 relu addmm1 b1 t1 w1 */
    expect(me, rig, ran(rig, 10, (const int[]){ 5, 4, -1, 3, -1, 2, 1, -1, 0, -1 }),
           "last layer first, bias before weight");
    expect(me, rig, b2->grad != NULL && at(me, b2->grad, 0) == 4, "bias sums over rows");
    return expect(me, rig, w1->grad != NULL && tensor_is_contiguous(w1->grad), "a weight's gradient is row-major");
}

static void
in_an_mlp_the_bias_comes_before_the_weight(void **state)
{
    (void)state;
    in_both(mlp);
}

/* ---- hooks ---- */

struct log { char text[256]; double seen; };
struct named_hook { struct log *log; const char *name; double factor, plus; };

static bool
hook_logs(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    struct named_hook *hook = context;
    (void)node;
    strncat(hook->log->text, hook->name, sizeof hook->log->text - strlen(hook->log->text) - 1);
    if (count > 0)
        hook->log->seen = at(me, grads[0], 0);
    if (hook->factor != 0)
        grads[0] = tensor_add_number(me, tensor_mul_number(me, grads[0], hook->factor), hook->plus);
    return !task_failed(me);
}

static bool
hooks_in_order(struct task *me, struct rig *rig)
{
    struct log        log = { "", 0 };
    struct named_hook names[] = { { &log, "c ", 0, 0 }, { &log, "b1 ", 10, 0 }, { &log, "b2 ", 1, 1 },
                                  { &log, "a ", 0, 0 }, { &log, "A ", 0, 0 } };
    struct tensor *a = vector(me, 2, (const double[]){ 1, 2 }), *b = tensor_mul_number(me, a, 2),
           *c = tensor_sum(me, b);
    int            ids[5];
    for (int i = 0; i < 4; i++) {
        struct hook hook = { .run = hook_logs, .context = &names[i] };
        expect(me, rig, tensor_add_hook(me, i == 0 ? c : i == 3 ? a : b, &hook, &ids[i]), "a tensor hook");
    }
    expect(me, rig, tensor_retain_grad(me, b), "retain_grad");
    struct node *accumulator = node_accumulator(me, a);
    struct hook  hook = { .run = hook_logs, .context = &names[4] };
    expect(me, rig, node_add_post_hook(me, accumulator, &hook, NULL), "a node hook");
    struct backward_options keep = { .keep_graph = true };
    expect(me, rig, autograd_backward(me, &c, NULL, 1, &keep), "backward with hooks");
    expect(me, rig, strcmp(log.text, "c b1 b2 a A ") == 0, log.text);
    expect(me, rig, holds(me, a->grad, 2, (const double[]){ 22, 22 }), "hooks replace the gradient");
    expect(me, rig, holds(me, b->grad, 2, (const double[]){ 11, 11 }), "retain_grad keeps what came out of all hooks");
    log.text[0] = '\0';
    expect(me, rig, tensor_remove_hook(me, b, ids[1]) && !tensor_remove_hook(me, b, ids[1]), "a hook is removed once");
    expect(me, rig, backward(me, c) && strcmp(log.text, "c b2 a A ") == 0, "a removed hook is silent");
    node_unref(me, accumulator);
    return true;
}

static bool
hook_sees_the_total(struct task *me, struct rig *rig)
{
    struct log        log = { "", 0 };
    struct named_hook name = { &log, "b", 0, 0 };
    struct tensor *a = vector(me, 1, (const double[]){ 3 }), *b = tensor_mul_number(me, a, 1);
    struct hook hook = { .run = hook_logs, .context = &name };
    expect(me, rig, tensor_add_hook(me, b, &hook, NULL), "a hook");
    struct tensor *o = tensor_add(me, tensor_add(me, tensor_mul_number(me, b, 2), tensor_mul_number(me, b, 5)), b);
    expect(me, rig, backward(me, o), "fan-out");
    return expect(me, rig, log.seen == 8, "a hook sees 2 + 5 + 1");
}

static void
hooks_run_in_order_and_replace(void **state)
{
    (void)state;
    in_both(hooks_in_order);
    in_both(hook_sees_the_total);
}

/* ---- accumulation ---- */

static bool
accumulates(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 1, 2 });
    expect(me, rig, backward(me, tensor_sum(me, tensor_mul_number(me, a, 2))), "first backward");
    struct tensor  *first = tensor_ref(a->grad);
    struct storage *storage = first->storage;
    expect(me, rig, backward(me, tensor_sum(me, tensor_mul_number(me, a, 3))), "second backward");
    expect(me, rig, a->grad == first && a->grad->storage == storage, "the same tensor, the same storage");
    expect(me, rig, holds(me, a->grad, 2, (const double[]){ 5, 5 }), "2 + 3");
    tensor_unref(me, first);

    struct tensor *b = vector(me, 2, (const double[]){ 1, 2 }), *c = vector(me, 2, (const double[]){ 3, 4 });
    struct tensor *up = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ 2 }), 7);
    expect(me, rig, autograd_backward(me, &b, &up, 1, NULL), "backward of a leaf");
    expect(me, rig, b->grad->storage != up->storage, "what the caller holds is not stolen");
    tensor_drop(me, &b->grad);
    struct tensor *sum = tensor_add(me, b, c);
    expect(me, rig, autograd_backward(me, &sum, &up, 1, NULL), "backward of a sum");
    return expect(me, rig, b->grad->storage != c->grad->storage && b->grad->storage != up->storage &&
                  c->grad->storage != up->storage, "one gradient for two leaves is copied");
}

static bool
steals(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 1, 2 });
    expect(me, rig, backward(me, tensor_sum(me, tensor_mul_number(me, a, 2))), "backward");
    for (int i = 0; i < rig->other_count; i++)
        if (rig->others[i].kind == KIND_autograd_accumulate && rig->others[i].phase == PHASE_END)
            return expect(me, rig, rig->others[i].args[2] == stage_text_id(me, "steal"),
                   "nobody else holds it: stolen");
    return expect(me, rig, false, "an accumulate stage");
}

static bool
accumulates_for_create_graph(struct task *me, struct rig *rig)
{
    struct backward_options create = { .create_graph = true };
    struct tensor *a = vector(me, 1, (const double[]){ 1 });
    struct tensor *b = tensor_mul(me, a, a);
    expect(me, rig, autograd_backward(me, &b, NULL, 1, &create), "create_graph");
    struct tensor *first = tensor_ref(a->grad);
    expect(me, rig, autograd_backward(me, &b, NULL, 1, &create), "create_graph again");
    expect(me, rig, a->grad != first && a->grad->requires_grad, "out of place, with a history");
    expect(me, rig, at(me, a->grad, 0) == 4 && at(me, first, 0) == 2, "2 + 2");
    tensor_unref(me, first);
    tensor_drop(me, &a->grad); /* else a holds its graph, which holds a */
    return true;
}

static void
gradients_accumulate_in_place(void **state)
{
    (void)state;
    in_both(accumulates);
    in_both(steals);
    in_both(accumulates_for_create_graph);
}

/* ---- errors ---- */

static bool
errors(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 1, 2 });
    struct tensor *b = tensor_sum(me, tensor_mul(me, a, a));
    struct backward_options keep = { .keep_graph = true };
    expect(me, rig, autograd_backward(me, &b, NULL, 1, &keep) && backward(me, b), "twice with retain_graph");
    expect(me, rig, !backward(me, b) && raised(me, "Trying to backward through the graph a second time"), "twice");
    struct tensor *plain = tensor_sum(me, tensor_add_number(me, a, 1));
    expect(me, rig, backward(me, plain) && backward(me, plain), "twice, nothing saved");
    expect(me, rig, !backward(me, tensor_mul_number(me, a, 2)) &&
           raised(me, "grad can be implicitly created only for scalar outputs"), "no scalar");
    a->requires_grad = false;
    expect(me, rig, !backward(me, tensor_sum(me, a)) &&
           raised(me, "element 0 of tensors does not require grad and does not have a grad_fn"), "no grad_fn");
    a->requires_grad = true;
    expect(me, rig, tensor_add_(me, a, a, 1) == NULL &&
           raised(me, "a leaf Variable that requires grad is being used in an in-place operation."), "leaf in place");
    struct tensor *view = tensor_narrow(me, a, 0, 0, 1);
    expect(me, rig, tensor_mul_(me, view, 2) == NULL && raised(me, "a view of a leaf Variable that requires grad"),
           "view");
    grad_set_enabled(me, false);
    expect(me, rig, tensor_mul_(me, a, 2) == a, "under no_grad");
    grad_set_enabled(me, true);
    return expect(me, rig, tensor_version(a) == 1 && tensor_version(view) == 1, "a view shares the version");
}

static bool
versions(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 1, (const double[]){ 1 }), *b = tensor_mul_number(me, a, 3);
    struct tensor *y = tensor_relu(me, b);
    expect(me, rig, tensor_mul_(me, y, 2) == y, "relu's result in place");
    expect(me, rig, !backward(me, y) && raised(me,
           "one of the variables needed for gradient computation has been modified by an inplace operation: "
           "[torch.FloatTensor [1]], which is output 0 of ReluBackward0, is at version 1; expected version 0 "
           "instead."), "relu saves its result");
    b = tensor_mul_number(me, a, 3);
    y = tensor_relu(me, b);
    expect(me, rig, tensor_mul_(me, b, 2) == b && backward(me, y), "relu does not need its input");
    b = tensor_mul_number(me, a, 3);
    y = tensor_mul(me, b, b);
    expect(me, rig, tensor_mul_(me, b, 2) == b && !backward(me, y) &&
           raised(me, "one of the variables needed"), "b * b saves both");
    b = tensor_mul_number(me, a, 3);
    y = tensor_add_number(me, b, 1);
    tensor_drop(me, &a->grad);
    expect(me, rig, tensor_mul_(me, b, 2) == b && backward(me, y) && at(me, a->grad, 0) == 3, "b + 1 saves nothing");
    struct tensor *h = tensor_mul_number(me, tensor_mul(me, a, b), 1), *o = tensor_mul(me, h, a);
    grad_set_enabled(me, false);
    expect(me, rig, tensor_add_(me, a, a, 1) == a, "a step between forward and backward");
    grad_set_enabled(me, true);
    return expect(me, rig, !backward(me, o) && raised(me, "one of the variables needed"), "an operand was stepped");
}

static bool
bad_hook(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    (void)context, (void)node, (void)grads, (void)count;
    return failed(me, E_VALUE, "boom");
}

static bool
errors_in_a_branch(struct task *me, struct rig *rig)
{
    struct hook    bad = { .run = bad_hook };
    struct tensor *p = vector(me, 1, (const double[]){ 1 }), *q = vector(me, 1, (const double[]){ 1 });
    struct tensor *first = tensor_mul_number(me, p, 2);
    expect(me, rig, tensor_add_hook(me, first, &bad, NULL), "a hook that fails");
    expect(me, rig, !backward(me, tensor_add(me, first, tensor_mul_number(me, q, 3))), "an error in one branch");
    expect(me, rig, me->error.kind == E_VALUE && raised(me, "boom"), "comes out of backward");
    expect(me, rig, p->grad == NULL && at(me, q->grad, 0) == 3, "what was accumulated before stays");
    tensor_drop(me, &q->grad);
    struct tensor *other = tensor_mul_number(me, q, 3), *second = tensor_mul_number(me, p, 2);
    expect(me, rig, tensor_add_hook(me, second, &bad, NULL), "a hook that fails");
    expect(me, rig, !backward(me, tensor_add(me, other, second)) && raised(me, "boom"), "in the branch recorded later");
    return expect(me, rig, p->grad == NULL && q->grad == NULL, "nothing else ran");
}

static void
errors_are_pytorchs(void **state)
{
    (void)state;
    in_both(errors);
    in_both(versions);
    in_both(errors_in_a_branch);
}

/* ---- views ---- */

static bool
views_in_place(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 3, (const double[]){ 1, 2, 3 });
    struct tensor *b = tensor_mul_number(me, a, 1), *whole = tensor_narrow(me, b, 0, 0, 3);
    struct tensor *tail = tensor_narrow(me, b, 0, 1, 2);
    expect(me, rig, tensor_mul_(me, tail, 10) == tail, "a view of a non-leaf in place");
    expect(me, rig, strcmp(b->grad_fn->name, "CopySlices") == 0, "the base's history is rewritten");
    struct backward_options keep = { .keep_graph = true };
    struct tensor *sum = tensor_sum(me, b);
    expect(me, rig, autograd_backward(me, &sum, NULL, 1, &keep), "backward through CopySlices");
    expect(me, rig, holds(me, a->grad, 3, (const double[]){ 1, 10, 10 }), "1, 10, 10");
    tensor_drop(me, &a->grad);
    sum = tensor_sum(me, whole);
    expect(me, rig, autograd_backward(me, &sum, NULL, 1, &keep), "another view of the base");
    expect(me, rig, holds(me, a->grad, 3, (const double[]){ 1, 10, 10 }), "sees the change too");
    tensor_drop(me, &a->grad);
    expect(me, rig, backward(me, tensor_sum(me, tail)) && holds(me, a->grad, 3, (const double[]){ 0, 10, 10 }),
           "as the view");

    struct tensor *plain = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ 3 });
    struct tensor *middle = tensor_narrow(me, plain, 0, 1, 1);
    tensor_drop(me, &a->grad);
    expect(me, rig, tensor_copy_(me, middle, tensor_mul_number(me, tensor_select(me, a, 0, 2), 4)) != NULL, "copy_");
    expect(me, rig, plain->requires_grad && backward(me, tensor_sum(me, tensor_mul(me, plain, plain))), "into zeros");
    return expect(me, rig, holds(me, a->grad, 3, (const double[]){ 0, 0, 96 }), "2 * 12 * 4");
}

static bool
detached(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 2, (const double[]){ 1, 2 }), *d = tensor_detach(me, a);
    expect(me, rig, !d->requires_grad && d->storage == a->storage, "detach shares storage");
    expect(me, rig, tensor_mul_(me, d, 2) == d && tensor_version(a) == 1, "and the version");
    expect(me, rig, tensor_version(tensor_copied(me, a)) == 0, "a clone starts at 0");
    grad_set_enabled(me, false);
    struct tensor *b = tensor_mul_number(me, a, 3);
    grad_set_enabled(me, true);
    return expect(me, rig, !b->requires_grad && b->grad_fn == NULL, "no_grad records nothing");
}

static void
views_share_history_with_their_base(void **state)
{
    (void)state;
    in_both(views_in_place);
    in_both(detached);
}

/* ---- autograd.grad, callbacks, roots ---- */

static bool
grad_of_inputs(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 1, (const double[]){ 2 }), *b = vector(me, 1, (const double[]){ 3 });
    struct tensor *x = tensor_mul(me, a, b), *y = tensor_abs(me, b), *z = tensor_add(me, x, y);
    struct tensor *wanted[2] = { a, x }, *results[2] = { NULL, NULL };
    struct backward_options options = { .inputs = wanted, .input_count = 2, .results = results };
    expect(me, rig, autograd_backward(me, &z, NULL, 1, &options), "autograd.grad");
    expect(me, rig, ran(rig, 2, (const int[]){ 2, 0 }), "runs only what is needed");
    expect(me, rig, at(me, results[0], 0) == 3 && at(me, results[1], 0) == 1,
           "gradients of a leaf and of an inner tensor");
    expect(me, rig, a->grad == NULL && b->grad == NULL, ".grad is left alone");
    struct tensor *other = tensor_mul_number(me, a, 2);
    wanted[0] = b;
    options.input_count = 1;
    expect(me, rig, !autograd_backward(me, &other, NULL, 1, &options) &&
           raised(me, "The differentiated Tensor at index 0 appears to not have been used in the graph."), "unused");
    other = tensor_mul_number(me, a, 2);
    options.allow_unused = true;
    return expect(me, rig, autograd_backward(me, &other, NULL, 1, &options) && results[0] == NULL, "allow_unused");
}

static bool
note_callback(struct task *me, void *context)
{
    struct log *log = context;
    (void)me;
    strncat(log->text, "callback ", sizeof log->text - strlen(log->text) - 1);
    return true;
}

static bool
queue_it(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    (void)node, (void)grads, (void)count;
    return autograd_queue_callback(me, note_callback, context);
}

static bool
roots_and_callbacks(struct task *me, struct rig *rig)
{
    struct log     log = { "", 0 };
    struct hook    hook = { .run = queue_it, .context = &log };
    struct tensor *a = vector(me, 1, (const double[]){ 1 });
    struct tensor *roots[2] = { tensor_mul_number(me, a, 2), NULL };
    expect(me, rig, tensor_add_hook(me, roots[0], &hook, NULL), "a hook");
    roots[1] = tensor_mul_number(me, roots[0], 3);
    expect(me, rig, autograd_backward(me, roots, NULL, 2, NULL), "a root that is also inside");
    expect(me, rig, ran(rig, 3, (const int[]){ 1, 0, -1 }) && at(me, a->grad, 0) == 8, "2 + 2 * 3");
    expect(me, rig, strcmp(log.text, "callback ") == 0, "a final callback ran once");
    return expect(me, rig, !autograd_queue_callback(me, note_callback, &log) && raised(me, "Final callbacks"),
           "outside");
}

static void
grad_roots_and_callbacks(void **state)
{
    (void)state;
    in_both(grad_of_inputs);
    in_both(roots_and_callbacks);
}

/* ---- a long graph on a small stack ---- */

static bool
long_chain(struct task *me, void *argument)
{
    struct rig    *rig = argument;
    struct tensor *a = vector(me, 1, (const double[]){ 1 }), *x = a;
    size_t         mark = scope_mark(me);
    tensor_ref(a);
    for (int i = 0; i < 100000; i++) {
        struct tensor *next = i % 2 ? tensor_add_number(me, x, 0) : tensor_mul(me, x, a);
        if (!expect(me, rig, next != NULL, "a long chain"))
            break;
        tensor_ref(next);
        tensor_unref(me, x);
        x = next;
        scope_release(me, mark);
    }
    struct backward_options keep = { .keep_graph = true };
    bool ok = autograd_backward(me, &x, NULL, 1, &keep);
    expect(me, rig, ok && at(me, a->grad, 0) == 50001, "its gradient");
    tensor_drop(me, &a->grad);
    tensor_unref(me, x); /* 100000 nodes and as many saved tensors go, one holding the next */
    return true;
}

static bool
long_chain_on_a_small_stack(struct task *me, struct rig *rig)
{
    struct task_options options = { .name = "small stack", .rank = TASK_INHERIT, .device = -1 };
    stage_category(me->sched, KIND_op, false);
    struct task *child = task_spawn(me, &options, long_chain, rig);
    return child != NULL && task_join(me, child, NULL);
}

static void
a_chain_of_100000_nodes_needs_no_stack(void **state)
{
    (void)state;
    rig_run(long_chain_on_a_small_stack, EXECUTOR_STEPPED);
}

/* ---- devices ---- */

static bool
across_devices(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 3, (const double[]){ 1, 2, 3 });
    struct tensor *parts[3];
    for (int d = 0; d < 3; d++) {
        struct tensor *there = tensor_copy_to(me, a, d, DTYPE_F32);
        there = tensor_mul(me, there, tensor_mul_number(me, there, d + 1));
        parts[d] = tensor_copy_to(me, there, 0, DTYPE_F32);
    }
    struct tensor *loss = tensor_sum(me, tensor_cat(me, parts, 3, 0));
    expect(me, rig, backward(me, loss), "backward over three devices");
    bool cpu_only = true;
    for (int i = 0; i < rig->node_count; i++)
        cpu_only = cpu_only && rig->nodes[i].device < 0;
    expect(me, rig, !cpu_only, "device nodes run in their devices' workers");
    return expect(me, rig, holds(me, a->grad, 3, (const double[]){ 12, 24, 36 }), "2 a (1 + 2 + 3)");
}

static bool
fails_on_a_device(struct task *me, struct rig *rig)
{
    struct hook    bad = { .run = bad_hook };
    struct tensor *a = vector(me, 3, (const double[]){ 1, 2, 3 });
    struct tensor *there = tensor_mul_number(me, tensor_copy_to(me, a, 2, DTYPE_F32), 2);
    expect(me, rig, tensor_add_hook(me, there, &bad, NULL), "a hook on a device");
    expect(me, rig, !backward(me, tensor_sum(me, there)), "it fails");
    return expect(me, rig, me->error.kind == E_VALUE && raised(me, "boom") && a->grad == NULL, "in the caller");
}

static bool
on_side_streams(struct task *me, struct rig *rig)
{
    struct tensor *a = vector(me, 3, (const double[]){ 1, 2, 3 });
    struct tensor *there = tensor_copy_to(me, a, 1, DTYPE_F32);
    struct stream *home = stream_current(me, 1), *side = stream_new(me, 1, "side");
    struct event  *event = event_new(me);
    bool ok = stream_record(me, home, event) && stream_wait_event(me, side, event) && stream_make_current(me, side);
    struct tensor *y = tensor_mul(me, there, there);
    ok = ok && stream_record(me, side, event) && stream_make_current(me, home) && stream_wait_event(me, home, event);
    expect(me, rig, ok, "two streams");
    event_free(me, event);
    expect(me, rig, backward(me, tensor_sum(me, tensor_mul_number(me, y, 2))), "no race between the streams");
    return expect(me, rig, holds(me, a->grad, 3, (const double[]){ 4, 8, 12 }), "4 a");
}

static void
each_device_has_a_worker(void **state)
{
    (void)state;
    in_both(across_devices);
    in_both(fails_on_a_device);
    in_both(on_side_streams);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_ready_nodes_the_later_goes_first),
        cmocka_unit_test(accumulation_goes_before_all_others),
        cmocka_unit_test(in_an_mlp_the_bias_comes_before_the_weight),
        cmocka_unit_test(hooks_run_in_order_and_replace),
        cmocka_unit_test(gradients_accumulate_in_place),
        cmocka_unit_test(errors_are_pytorchs),
        cmocka_unit_test(views_share_history_with_their_base),
        cmocka_unit_test(grad_roots_and_callbacks),
        cmocka_unit_test(a_chain_of_100000_nodes_needs_no_stack),
        cmocka_unit_test(each_device_has_a_worker),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

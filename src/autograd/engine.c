/* Backward: torch::autograd::Engine. The calling task runs what lies on the CPU; each device that gets a gradient has
 * a worker task of its own for the length of this backward. What waits for what stands in graph.c.
 *
 * One node's turn (node_turn): its tensor hooks, the node itself (node_apply), its post-hooks; then each gradient is
 * delivered to the node at the other end of its edge. In PyTorch: engine.cpp (evaluate_function, call_function,
 * validate_outputs, exec_post_processing). */
#include "autograd/engine.h"
#include <stdio.h>
#include <stdlib.h>
#include "autograd/graph.h"
#include "autograd/internal.h"
#include "base/str.h"
#include "base/vec.h"
#include "device/cells.h"
#include "device/device.h"
#include "device/stream.h"
#include "sched/account.h"
#include "hw/cost.h"
#include "sched/stage.h"

/* ---- one node ---- */

static bool
any_given(struct tensor *const *grads, int count)
{
    for (int i = 0; i < count; i++)
        if (grads[i] != NULL)
            return true;
    return false;
}

/* "Linear_backward" or "addmm_backward", when the lesson gives one a price: it covers the whole node. A CPU node pays
 * it here and now, a device node with its first kernel. */
static void
node_price(struct task *me, const struct node *node, struct price_cover *cover, char *name, size_t size)
{
    const struct cost_model *model   = sched_cost(me->sched);
    const char              *names[] = { node->module, node->op };
    if (!prices_named(me))
        return;
    for (size_t i = 0; model != NULL && i < countof(names) && !cover->found; i++) {
        if (names[i] == NULL || names[i][0] == '\0')
            continue;
        snprintf(name, size, "%s_backward", names[i]);
        uint64_t price = cost_kernel(model, NULL, name, &cover->found);
        if (!cover->found || node->device != DEVICE_CPU)
            continue;
        cover->taken = true;
        sched_advance(me, price);
    }
}

/* What a gradient has to look like at the other end of an edge: as the output, or the leaf, that it belongs to. */
static struct output_meta
meta_of(const struct edge *edge)
{
    const struct tensor *leaf = edge->node->variable;
    if (leaf == NULL)
        return edge->node->outputs[edge->input_nr];
    struct output_meta meta = { leaf->dtype, tensor_device(leaf), leaf->dims, { 0 } };
    for (int i = 0; i < leaf->dims; i++)
        meta.size[i] = leaf->size[i];
    return meta;
}

static bool
has_shape(const struct tensor *grad, const struct output_meta *meta)
{
    if (grad->dims != meta->dims)
        return false;
    for (int i = 0; i < meta->dims; i++)
        if (grad->size[i] != meta->size[i])
            return false;
    return true;
}

static bool
could_stretch(const struct output_meta *meta, const struct tensor *grad)
{
    if (meta->dims > grad->dims)
        return false;
    for (int i = 1; i <= meta->dims; i++)
        if (meta->size[meta->dims - i] != 1 && meta->size[meta->dims - i] != grad->size[grad->dims - i])
            return false;
    return true;
}

static bool
bad_gradient(struct task *me, const struct node *node, int index, const struct tensor *grad,
             const struct output_meta *meta)
{
    struct str got = { 0 }, expected = { 0 };
    shape_print(grad->dims, grad->size, &got);
    shape_print(meta->dims, meta->size, &expected);
    failed(me, E_RUNTIME,
           "Function %s returned an invalid gradient at index %d - got %s but expected shape compatible with %s",
           node->name, index, str_text(&got), str_text(&expected));
    str_free(&got);
    str_free(&expected);
    return false;
}

/* As nearly all do. */
static bool
fits_already(const struct tensor *grad, const struct edge *edge)
{
    const struct tensor *leaf = edge->node->variable;
    if (leaf != NULL)
        return tensor_same_shape(grad, leaf) && grad->dtype == leaf->dtype &&
               tensor_device(grad) == tensor_device(leaf);
    const struct output_meta *meta = &edge->node->outputs[edge->input_nr];
    return has_shape(grad, meta) && grad->dtype == (enum dtype)meta->dtype && tensor_device(grad) == meta->device;
}

/* Stretched operands get their gradient summed; dtypes are brought back; a device never changes by itself. */
static bool
validate_outputs(struct task *me, struct node *node, struct tensor **grad_in)
{
    for (int i = 0; i < node->edge_count; i++) {
        if (node->edges[i].node == NULL || grad_in[i] == NULL || fits_already(grad_in[i], &node->edges[i]))
            continue;
        struct output_meta meta = meta_of(&node->edges[i]);
        if (meta.dims < 0)
            continue;
        if (!has_shape(grad_in[i], &meta)) {
            if (!could_stretch(&meta, grad_in[i]))
                return bad_gradient(me, node, i, grad_in[i], &meta);
            grad_in[i] = tensor_sum_to(me, grad_in[i], meta.dims, meta.size);
        }
        int device = tensor_device(grad_in[i]);
        if (grad_in[i] != NULL && device != meta.device && meta.dims > 0)
            return failed(me, E_RUNTIME,
                          "Function %s returned an invalid gradient at index %d - expected device %d but got %d",
                          node->name, i, meta.device, device);
        if (grad_in[i] != NULL && (device != meta.device || grad_in[i]->dtype != (enum dtype)meta.dtype))
            grad_in[i] = tensor_copy_to(me, grad_in[i], meta.device, (enum dtype)meta.dtype);
        if (grad_in[i] == NULL)
            return false;
    }
    return true;
}

/* In `stepped`: where the node stands in the graph that was told (autograd.graph); -1 nowhere. */
static int64_t
told_place(struct task *me, const struct node *node)
{
    const struct graph *graph = (const struct graph *)(uintptr_t)me->slots[SLOT_GRAPH];
    bool told = graph != NULL && sched_is_stepped(me->sched) && stage_enabled(me, KIND_autograd_node);
    return told ? (int64_t)graph_place(graph, node) : -1;
}

/* Runs the node: gradients of its outputs in, of its inputs out (in the caller's scope).
 * A node that got nothing has nothing to hand on; a leaf's hooks for afterwards run all the same, as PyTorch's do. */
bool
node_apply(struct task *me, struct node *node, struct tensor *const *grad_out,
           struct tensor **grad_in)
{
    int64_t number = (int64_t)node->sequence_nr; /* of an AccumulateGrad: -1 */
    int64_t place = told_place(me, node);
    int64_t name_id = stage_name_id(me, node->name);
    tensor_announce_all(me, grad_out, node->output_count, "incoming gradient");
    STAGE(me, autograd_node, name_id, number, node->edge_count, place);
    if (!any_given(grad_out, node->output_count))
        return node->variable == NULL || leaf_hooks_run_after(me, node->variable, node);
    char               name[64] = "";
    struct price_cover cover = { .name = name };
    node_price(me, node, &cover, name, sizeof name);
    struct price_cover *outer = price_cover_set(me, &cover);
    cover.outer = NULL; /* a forward's price does not reach in here */
    bool ok = node->backward(me, node, grad_out, grad_in) &&
              validate_outputs(me, node, grad_in);
    price_cover_restore(me, outer);
    if (!ok || task_failed(me))
        return failed(me, E_RUNTIME, "%s: the backward failed", node->name);
    for (int i = 0; i < node->edge_count; i++)
        if (grad_in[i] != NULL)
            grad_in[i] = hand_up(me, tensor_born(me, tensor_ref(grad_in[i])));
    tensor_announce_all(me, grad_in, node->edge_count, "outgoing gradient");
    return !task_failed(me);
}

/* PyTorch's Functions never see a missing gradient. */
static bool
fill_absent(struct task *me, const struct node *node, struct tensor **grads)
{
    for (int i = 0; i < node->output_count; i++) {
        const struct output_meta *meta = &node->outputs[i];
        if (grads[i] != NULL || meta->dims < 0)
            continue;
        struct tensor *empty = tensor_empty(me, (enum dtype)meta->dtype, meta->device, meta->dims, meta->size);
        grads[i] = tensor_fill_(me, empty, 0);
        if (grads[i] == NULL)
            return false;
    }
    return true;
}

static bool
node_with_hooks(struct task *me, struct node *node, struct tensor **grad_out, struct tensor **grad_in)
{
    if (!tensor_hooks_run(me, node, grad_out))
        return false;
    if (node->fill_missing && !fill_absent(me, node, grad_out))
        return false;
    return node_apply(me, node, grad_out, grad_in) &&
           hooks_run(me, node->post_hooks, node, grad_in, node->edge_count);
}

/* ---- gradients on their way ---- */

struct worker_job { struct graph *graph; size_t queue; int device; uint64_t rank; };
static bool autograd_worker(struct task *me, void *job); /* what it works off brings it more */

static bool
device_worker_start(struct task *me, struct graph *graph, size_t queue)
{
    char        name[48];
    struct worker_job *job = graph_share(me, graph) ? host_take(me, sizeof *job) : NULL;
    if (job == NULL)
        return failed(me, E_MEMORY, "out of memory in backward");
    graph_lock(me, graph);
    *job = (struct worker_job){ graph, queue, graph->queues[queue].device, me->slots[SLOT_RANK] };
    graph_unlock(me, graph);
    snprintf(name, sizeof name, "r%d autograd %d", me->rank < 0 ? 0 : me->rank, job->device);
    struct task_options options = { .name = name, .rank = TASK_INHERIT, .device = job->device, .lua = true };
    struct task        *worker  = task_spawn(me, &options, autograd_worker, job);
    if (worker == NULL) {
        host_return(me, job, sizeof *job);
        return false;
    }
    graph_lock(me, graph);
    graph->queues[queue].worker = worker;
    graph_unlock(me, graph);
    return true;
}

/* A device's worker is started by whoever first has work for it. */
static bool
deliver(struct task *me, struct graph *graph, struct arrival arrival)
{
    size_t unmanned;
    return graph_deliver(me, graph, arrival, &unmanned) &&
           (unmanned == SIZE_MAX || device_worker_start(me, graph, unmanned));
}

/* ---- one node's turn ---- */

/* The gradients leave as references, and the scope that they were born in ends before anybody else may look at them:
 * an AccumulateGrad steals what nobody else holds. */
static bool
call_and_deliver(struct task *me, struct graph *graph, struct pending *pending, struct tensor **grad_out,
                 struct tensor **grad_in)
{
    struct node *node = pending->node;
    size_t       mark = scope_mark(me);
    bool         ok   = node_with_hooks(me, node, grad_out, grad_in);
    for (int i = 0; i < node->edge_count; i++)
        grad_in[i] = ok && node->edges[i].node != NULL ? tensor_ref(grad_in[i]) : NULL;
    scope_release(me, mark);
    node_let_go_unpacked(me, node);
    if (!graph->options->keep_graph && !graph->options->create_graph)
        node_release_saved(me, node);
    for (int i = 0; i < node->edge_count; i++) {
        size_t place = ok && node->edges[i].node != NULL ? graph_place(graph, node->edges[i].node) : SIZE_MAX;
        if (place == SIZE_MAX || !(graph->pending[place].needed || graph->pending[place].wanted))
            tensor_unref(me, grad_in[i]);
        else
            ok = deliver(me, graph, (struct arrival){ place, node->edges[i].input_nr, grad_in[i] });
    }
    return ok;
}

/* On the stream that the forward used. */
static bool
on_its_stream(struct task *me, struct graph *graph, struct pending *pending, struct tensor **grad_out,
              struct tensor **grad_in)
{
    struct node   *node = pending->node;
    struct stream *home = NULL;
    if (node->stream != NULL) {
        home = stream_current(me, stream_device(node->stream));
        if (home == NULL || !graph_used_stream(me, graph, node->stream) ||
            (home != node->stream && !stream_make_current(me, node->stream)))
            return false;
    }
    bool ok = call_and_deliver(me, graph, pending, grad_out, grad_in);
    if (home != NULL && home != node->stream && !stream_make_current(me, home))
        return false;
    return ok;
}

static void
take_captures(struct graph *graph, struct pending *pending)
{
    for (int i = 0; pending->wanted && i < graph->options->input_count; i++) {
        struct capture *capture = &graph->captures[i];
        if (capture->node == pending->node)
            capture->grad = tensor_ref(graph->slots[pending->slot + (size_t)capture->nr]);
    }
}

static bool
node_turn(struct task *me, struct graph *graph, size_t index)
{
    struct pending *pending = &graph->pending[index];
    struct node    *node    = pending->node;
    struct tensor **slots   = &graph->slots[pending->slot];
    size_t          room    = (size_t)node->output_count + (size_t)node->edge_count + 1;
    bool            ok      = true;
    take_captures(graph, pending);
    if (pending->needed) {
        struct tensor **grads = host_take(me, room * sizeof *grads);
        ok = grads != NULL;
        for (int i = 0; ok && i < node->output_count; i++)
            grads[i] = slots[i];
        ok = ok && on_its_stream(me, graph, pending, grads, grads + node->output_count);
        host_return(me, grads, room * sizeof *grads);
        graph_lock(me, graph);
        graph->left--;
        graph_unlock(me, graph);
    }
    for (int i = 0; i < node->output_count; i++)
        tensor_drop(me, &slots[i]);
    return ok;
}

static bool
work(struct task *me, struct graph *graph, size_t queue)
{
    size_t index;
    while (graph_take(me, graph, queue, &index)) {
        if (!node_turn(me, graph, index)) {
            graph_fail(me, graph, queue);
            return false;
        }
        graph_done(me, graph);
    }
    if (task_failed(me))
        graph_fail(me, graph, queue);
    return !task_failed(me);
}

/* ---- workers ---- */

/* One a device, as PyTorch's device threads; here for the length of one backward. */
static bool
autograd_worker(struct task *me, void *argument)
{
    STAGE(me, autograd_worker, ((struct worker_job *)argument)->device);
    struct worker_job job = *(struct worker_job *)argument;
    host_return(me, argument, sizeof job);
    me->slots[SLOT_GRAPH] = (uintptr_t)job.graph;
    me->slots[SLOT_RANK]  = job.rank;
    grad_set_enabled(me, job.graph->options->create_graph);
    return work(me, job.graph, job.queue);
}

/* All workers end before backward does; the first error found is the one that is raised. */
static void
join_workers(struct task *me, struct graph *graph)
{
    for (size_t i = 1; i < graph->queue_count; i++) {
        struct error error = { 0 };
        if (graph->queues[i].worker == NULL)
            continue;
        bool ended = task_join(me, graph->queues[i].worker, &error);
        if (graph->failed && graph->failed_queue == i)
            task_take_error(me, &error);
        if (!ended && !task_failed(me))
            failed(me, E_STOPPED, "backward was stopped while a device still worked for it");
    }
}

/* ---- a whole backward ---- */

static struct tensor *
root_gradient(struct task *me, struct tensor *root, struct tensor *given, int index)
{
    struct str got = { 0 }, expected = { 0 };
    if (given == NULL && tensor_count(root) != 1)
        return failed_null(me, E_RUNTIME, "grad can be implicitly created only for scalar outputs");
    if (given == NULL)
        return tensor_fill_(me, tensor_empty(me, root->dtype, tensor_device(root), root->dims, root->size), 1);
    if (!tensor_same_shape(root, given)) {
        shape_print(given->dims, given->size, &got);
        shape_print(root->dims, root->size, &expected);
        failed(me, E_RUNTIME,
               "Mismatch in shape: grad_output[%d] has a shape of %s and output[%d] has a shape of %s.", index,
               str_text(&got), index, str_text(&expected));
        str_free(&got);
        str_free(&expected);
        return NULL;
    }
    if (tensor_device(given) != tensor_device(root) && root->dims > 0)
        return failed_null(me, E_DEVICE, "grad_output[%d] is on device %d but output[%d] is on device %d", index,
                           tensor_device(given), index, tensor_device(root));
    return tensor_copy_to(me, given, tensor_device(root), root->dtype);
}

static bool
roots_of(struct task *me, struct tensor *const *tensors, struct tensor *const *grads, int count, struct root *roots)
{
    for (int i = 0; i < count; i++) {
        struct root *root = &roots[i];
        if (tensors[i] == NULL)
            return failed(me, E_TYPE, "element %d of tensors is not a tensor", i);
        root->edge.node = gradient_edge(me, tensors[i], &root->edge.input_nr);
        if (root->edge.node == NULL)
            return failed(me, E_RUNTIME, "element %d of tensors does not require grad and does not have a grad_fn", i);
        root->grad = root_gradient(me, tensors[i], grads != NULL ? grads[i] : NULL, i);
        if (root->grad == NULL)
            return false;
    }
    return true;
}

/* Discovers the graph, delivers the roots' gradients, works until nothing is outstanding. */
static bool
graph_execute(struct task *me, struct graph *graph, const struct root *roots, int count)
{
    bool ok = graph_want(me, graph) && graph_discover(me, graph, roots, count) &&
              graph_announce(me, graph, roots, count);
    for (int i = 0; ok && i < count; i++) {
        const struct edge *edge = &roots[i].edge;
        ok = deliver(me, graph, (struct arrival){ graph_place(graph, edge->node), edge->input_nr,
                                                  tensor_ref(roots[i].grad) });
    }
    if (!ok)
        graph_fail(me, graph, 0);
    graph_done(me, graph); /* the roots are delivered */
    if (ok)
        work(me, graph, 0);
    join_workers(me, graph);
    if (!task_failed(me) && graph->left > 0)
        return failed(me, E_RUNTIME, "could not compute gradients for some functions");
    return !task_failed(me);
}

/* What the caller does next on its streams comes after what the workers did on theirs. */
static bool
wait_for_streams(struct task *me, struct graph *graph)
{
    for (size_t i = 0; i < graph->stream_count; i++) {
        struct stream *current = stream_current(me, stream_device(graph->streams[i]));
        if (current == graph->streams[i])
            continue;
        struct event *event = current != NULL ? event_new(me) : NULL;
        bool ok = event != NULL && stream_record(me, graph->streams[i], event) && stream_wait_event(me, current, event);
        if (event != NULL)
            event_free(me, event);
        if (!ok)
            return false;
    }
    return true;
}

static bool
run_callbacks(struct task *me, struct graph *graph)
{
    for (size_t i = 0; i < graph->callback_count; i++) { /* a callback may queue another */
        struct callback callback = graph->callbacks[i];
        if (callback.run != NULL && !callback.run(me, callback.context))
            return false;
    }
    return true;
}

/* The answers of autograd.grad leave the stage with their caller's scope. */
static bool
give_results(struct task *me, struct graph *graph)
{
    const struct backward_options *options = graph->options;
    for (int i = 0; options->inputs != NULL && i < options->input_count; i++) {
        struct tensor *grad = graph->captures[i].grad;
        if (grad == NULL && !options->allow_unused)
            return failed(me, E_RUNTIME,
                          "The differentiated Tensor at index %d appears to not have been used in the graph. Set "
                          "allow_unused=True if this is the desired behavior.", i);
        options->results[i] = hand_up(me, tensor_born(me, tensor_ref(grad)));
    }
    return !task_failed(me);
}

/* Grad mode is that of create_graph while nodes run; a backward within a backward gives both back as they were. */
static bool
run_graph(struct task *me, struct graph *graph, const struct root *roots, int count)
{
    bool     enabled = grad_enabled(me);
    uint64_t outer   = me->slots[SLOT_GRAPH];
    me->slots[SLOT_GRAPH] = (uintptr_t)graph;
    grad_set_enabled(me, graph->options->create_graph);
    bool ok = graph_execute(me, graph, roots, count) && wait_for_streams(me, graph);
    grad_set_enabled(me, enabled);
    ok = ok && run_callbacks(me, graph);
    me->slots[SLOT_GRAPH] = outer;
    return ok;
}

/* What a task with a fresh stack needs to go on with a backward. */
struct deep { struct graph *graph; const struct root *roots; int count; uint64_t rank; };

static bool
run_deep(struct task *me, void *argument)
{
    const struct deep *deep = argument;
    me->slots[SLOT_RANK] = deep->rank;
    return run_graph(me, deep->graph, deep->roots, deep->count);
}

/* A backward inside of a backward runs on the same stack; after so many levels on one of its own, as PyTorch's goes
 * on in a thread of its pool (MAX_DEPTH of engine.h). The outer one waits for it. */
enum { DEPTH_OF_A_STACK = 60 };

static bool
backward_with(struct task *me, struct graph *graph, const struct root *roots, int count)
{
    if (graph->depth % DEPTH_OF_A_STACK != 0)
        return run_graph(me, graph, roots, count);
    struct deep         deep    = { graph, roots, count, me->slots[SLOT_RANK] };
    struct task_options options = { .name = "autograd pool", .rank = TASK_INHERIT, .device = me->device, .lua = true };
    struct task        *task    = task_spawn(me, &options, run_deep, &deep);
    return task != NULL && task_join(me, task, NULL) && !task_failed(me);
}

static bool
tell_reached(struct task *me, const struct graph *graph)
{
    const struct backward_options *options = graph->options;
    for (size_t i = 0; options->reached != NULL && options->create_graph && i < graph->count; i++) {
        struct tensor *leaf = graph->pending[i].node->variable;
        if (leaf != NULL && leaf->grad != NULL && tensor_history(leaf->grad)->grad_fn != NULL &&
            !options->reached(me, options->context, leaf))
            return false;
    }
    return true;
}

/* Engine::execute. From the roots the graph is walked once, to count how many gradients each
 * node will get; a node runs when the last of them has come, and not before. */
bool
autograd_backward(struct task *me, struct tensor *const *tensors,
                  struct tensor *const *grads, int count,
                  const struct backward_options *options)
{
    static const struct backward_options plain = { 0 };
    const struct backward_options *chosen = options != NULL ? options : &plain;
    tensor_announce_all(me, tensors, count, "root");
    STAGE(me, autograd_backward, count, chosen->keep_graph || chosen->create_graph);
    struct graph graph;
    if (task_failed(me) || !graph_init(me, &graph, chosen))
        return false;
    size_t       bytes = ((size_t)count + 1) * sizeof(struct root);
    struct root *roots = host_take(me, bytes);
    bool ok = roots != NULL && roots_of(me, tensors, grads, count, roots) &&
              backward_with(me, &graph, roots, count) && give_results(me, &graph) &&
              tell_reached(me, &graph);
    for (int i = 0; roots != NULL && i < count; i++)
        node_unref(me, roots[i].edge.node);
    host_return(me, roots, bytes);
    graph_clear(me, &graph);
    return ok;
}

uint64_t
autograd_backward_id(const struct task *me)
{
    const struct graph *graph = (const struct graph *)(uintptr_t)me->slots[SLOT_GRAPH];
    return graph != NULL ? graph->id : 0;
}

bool
autograd_may_checkpoint(const struct task *me)
{
    const struct graph *graph = (const struct graph *)(uintptr_t)me->slots[SLOT_GRAPH];
    return graph != NULL && graph->may_checkpoint;
}

static bool
graph_add_callback(struct task *me, const struct callback *callback)
{
    struct graph *graph = (struct graph *)(uintptr_t)me->slots[SLOT_GRAPH];
    if (graph == NULL)
        return failed(me, E_RUNTIME, "Final callbacks can only be installed during backward pass.");
    graph_lock(me, graph);
    bool ok = host_room(me, &graph->callbacks, &graph->callback_room, graph->callback_count + 1,
                        sizeof *graph->callbacks);
    if (ok)
        graph->callbacks[graph->callback_count++] = *callback;
    graph_unlock(me, graph);
    return ok || memory_failed(me, sizeof *graph->callbacks, "the host");
}

bool
autograd_queue_callback(struct task *me, bool (*run)(struct task *me, void *context), void *context)
{
    return graph_add_callback(me, &(struct callback){ .run = run, .context = context });
}

bool
autograd_drop_after(struct task *me, void (*drop)(struct task *me, void *context), void *context)
{
    bool kept = graph_add_callback(me, &(struct callback){ .drop = drop, .context = context });
    if (!kept)
        drop(me, context);
    return kept;
}

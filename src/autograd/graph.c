/* The state of one backward: dependencies, gradients that have come, ready queues. Nothing runs in here but the sum of
 * two gradients that meet. In PyTorch: GraphTask, ReadyQueue and InputBuffer of engine.cpp. */
#include "autograd/graph.h"
#include "autograd/internal.h"
#include "device/device.h"
#include "device/storage.h"
#include "device/stream.h"
#include "sched/account.h"

static bool
no_memory_for_backward(struct task *me)
{
    return memory_failed(me, sizeof(struct pending), "the host"); /* the system's no, or the account's */
}

/* A hook that starts a backward may meet itself, and nothing else would stop it: PyTorch goes on until memory is
 * gone. */
enum { DEPTH_MAX = 1000 };

bool
graph_init(struct task *me, struct graph *graph, const struct backward_options *options)
{
    const struct graph *outer = (const struct graph *)(uintptr_t)me->slots[SLOT_GRAPH];
    *graph = (struct graph){ .options = options, .outstanding = 1, .depth = outer != NULL ? outer->depth + 1 : 1,
                             .id = ((uint64_t)me->number + 1) << 32 | (uint32_t)++me->slots[SLOT_BACKWARDS],
                             .may_checkpoint = options->inputs == NULL && (outer == NULL || outer->may_checkpoint) };
    if (graph->depth > DEPTH_MAX)
        return failed(me, E_RUNTIME, "backward runs inside of backward %d times: does a hook start itself again?",
                      DEPTH_MAX);
    if (host_room(me, &graph->queues, &graph->queue_room, 1, sizeof *graph->queues)) {
        graph->queues[graph->queue_count++] = (struct queue){ .device = DEVICE_CPU, .started = true };
        return true;
    }
    return no_memory_for_backward(me);
}

/* ---- guarding ---- */

bool
graph_share(struct task *me, struct graph *graph)
{
    if (graph->shared)
        return true; /* nothing is written again: others read it without the monitor */
    if (!monitor_init(&graph->monitor))
        return no_memory_for_backward(me);
    graph->shared = true;
    return true;
}

void
graph_lock(struct task *me, struct graph *graph)
{
    if (graph->shared)
        monitor_enter(me, &graph->monitor);
}

void
graph_unlock(struct task *me, struct graph *graph)
{
    if (graph->shared)
        monitor_leave(me, &graph->monitor);
}

static void
graph_wake(struct task *me, struct graph *graph)
{
    if (graph->shared)
        monitor_wake(me, &graph->monitor);
}

static bool
graph_wait(struct task *me, struct graph *graph, const struct wait_reason *reason)
{
    if (!graph->shared) {
        if (!graph_share(me, graph))
            return false;
        monitor_enter(me, &graph->monitor);
    }
    return monitor_wait(me, &graph->monitor, reason);
}

void
graph_clear(struct task *me, struct graph *graph)
{
    for (size_t i = 0; graph->slots != NULL && i < graph->slot_count; i++)
        tensor_unref(me, graph->slots[i]);
    for (int i = 0; graph->captures != NULL && i < graph->options->input_count; i++) {
        tensor_unref(me, graph->captures[i].grad);
        node_unref(me, graph->captures[i].node);
    }
    for (size_t i = 0; i < graph->count; i++)
        node_unref(me, graph->pending[i].node);
    for (size_t i = 0; i < graph->queue_count; i++)
        host_return(me, graph->queues[i].heap, graph->queues[i].room * sizeof *graph->queues[i].heap);
    host_return(me, graph->places, graph->place_count * sizeof *graph->places);
    host_return(me, graph->pending, graph->room * sizeof *graph->pending);
    host_return(me, graph->slots, (graph->slot_count + 1) * sizeof *graph->slots);
    host_return(me, graph->queues, graph->queue_room * sizeof *graph->queues);
    for (size_t i = 0; i < graph->callback_count; i++)
        if (graph->callbacks[i].drop != NULL)
            graph->callbacks[i].drop(me, graph->callbacks[i].context);
    host_return(me, graph->callbacks, graph->callback_room * sizeof *graph->callbacks);
    host_return(me, graph->streams, graph->stream_room * sizeof *graph->streams);
    if (graph->captures != NULL)
        host_return(me, graph->captures, ((size_t)graph->options->input_count + 1) * sizeof *graph->captures);
    if (graph->shared)
        monitor_destroy(&graph->monitor);
}

bool
graph_want(struct task *me, struct graph *graph)
{
    const struct backward_options *options = graph->options;
    if (options->inputs == NULL)
        return true;
    graph->captures = host_take(me, ((size_t)options->input_count + 1) * sizeof *graph->captures);
    if (graph->captures == NULL)
        return no_memory_for_backward(me);
    for (int i = 0; i < options->input_count; i++) {
        struct capture *capture = &graph->captures[i];
        capture->node = gradient_edge(me, options->inputs[i], &capture->nr);
        if (capture->node == NULL)
            return failed(me, E_RUNTIME, "One of the differentiated Tensors does not require grad");
    }
    return true;
}

/* Where the node's place is written, or would be. There is always an empty one. */
static uint32_t *
place_of(const struct graph *graph, const struct node *node)
{
    uint64_t hash = (uintptr_t)node * 11400714819323198485u;
    size_t   mask = graph->place_count - 1, at = (hash >> 32) & mask;
    while (graph->places[at] != 0 && graph->pending[graph->places[at] - 1].node != node)
        at = (at + 1) & mask;
    return &graph->places[at];
}

size_t
graph_place(const struct graph *graph, const struct node *node)
{
    return graph->place_count > 0 ? *place_of(graph, node) - (size_t)1 : SIZE_MAX;
}

/* Twice as many places, at most half of them taken. */
static bool
places_grow(struct task *me, struct graph *graph)
{
    size_t    count  = graph->place_count == 0 ? 64 : graph->place_count * 2;
    uint32_t *places = graph->count < UINT32_MAX / 2 ? host_take(me, count * sizeof *places) : NULL;
    if (places == NULL)
        return false;
    host_return(me, graph->places, graph->place_count * sizeof *places);
    graph->places      = places;
    graph->place_count = count;
    for (size_t i = 0; i < graph->count; i++)
        *place_of(graph, graph->pending[i].node) = (uint32_t)i + 1;
    return true;
}

static bool
is_wanted(const struct graph *graph, const struct node *node)
{
    for (int i = 0; graph->captures != NULL && i < graph->options->input_count; i++)
        if (graph->captures[i].node == node)
            return true;
    return false;
}

/* The place of a node, made when it is new. SIZE_MAX: no memory. */
static size_t
graph_enter(struct task *me, struct graph *graph, struct node *node, bool *is_new)
{
    size_t place = graph_place(graph, node);
    *is_new = place == SIZE_MAX;
    if (!*is_new)
        return place;
    if (!host_room(me, &graph->pending, &graph->room, graph->count + 1, sizeof *graph->pending) ||
        ((graph->count + 1) * 2 > graph->place_count && !places_grow(me, graph))) {
        no_memory_for_backward(me);
        return SIZE_MAX;
    }
    bool wanted = is_wanted(graph, node);
    graph->pending[graph->count] = (struct pending){ .node = node_ref(me, node), .needed = graph->captures == NULL,
                                                     .wanted = wanted, .slot = graph->slot_count };
    graph->slot_count += (size_t)node->output_count;
    *place_of(graph, node) = (uint32_t)graph->count + 1;
    return graph->count++;
}

/* Depth first with a stack of its own: a graph may be as deep as memory lasts. A node is needed if one that it hands
 * gradients to is needed or wanted; those have been left before it is. */
struct visit { size_t index; int edge; };
struct path { struct visit *visits; size_t count, room; };

static bool
path_push(struct task *me, struct path *path, size_t index)
{
    if (!host_room(me, &path->visits, &path->room, path->count + 1, sizeof *path->visits))
        return no_memory_for_backward(me);
    path->visits[path->count++] = (struct visit){ index, 0 };
    return true;
}

static bool
visit_next_edge(struct task *me, struct graph *graph, struct path *path)
{
    struct visit *visit  = &path->visits[path->count - 1];
    struct node  *node   = graph->pending[visit->index].node;
    struct node  *target = visit->edge < node->edge_count ? node->edges[visit->edge].node : NULL;
    size_t        from   = visit->index;
    bool          is_new = false;
    if (visit->edge++ >= node->edge_count) {
        path->count--;
        if (path->count > 0) {
            struct pending *parent = &graph->pending[path->visits[path->count - 1].index];
            parent->needed |= graph->pending[from].needed || graph->pending[from].wanted;
        }
        return true;
    }
    if (target == NULL)
        return true;
    size_t place = graph_enter(me, graph, target, &is_new);
    if (place == SIZE_MAX)
        return false;
    graph->pending[place].dependencies++;
    if (is_new)
        return path_push(me, path, place);
    graph->pending[from].needed |= graph->pending[place].needed || graph->pending[place].wanted;
    return true;
}

bool
graph_discover(struct task *me, struct graph *graph, const struct root *roots, int count)
{
    struct path path = { 0 };
    bool        ok   = true;
    for (int i = 0; ok && i < count; i++) {
        bool   is_new;
        size_t place = graph_enter(me, graph, roots[i].edge.node, &is_new);
        ok = place != SIZE_MAX && (!is_new || path_push(me, &path, place));
        if (ok)
            graph->pending[place].dependencies++;
        while (ok && path.count > 0)
            ok = visit_next_edge(me, graph, &path);
    }
    host_return(me, path.visits, path.room * sizeof *path.visits);
    if (!ok)
        return false;
    for (size_t i = 0; i < graph->count; i++)
        graph->left += graph->pending[i].needed;
    graph->slots = host_take(me, (graph->slot_count + 1) * sizeof *graph->slots);
    return graph->slots != NULL || no_memory_for_backward(me);
}

/* ---- ready queues: what was recorded last goes first, AccumulateGrad before all ----
 *
 * A binary heap, which sifts as PyTorch's does (std::priority_queue of libstdc++): no AccumulateGrad goes before
 * another, and how the heap sifts is the order in which the gradients of a node with many parameters come. */

static bool
goes_before(const struct ready *a, const struct ready *b)
{
    return a->sequence_nr > b->sequence_nr;
}

/* Into the free place `at` or one above it. */
static void
heap_sift_up(struct ready *heap, size_t at, struct ready ready)
{
    for (; at > 0 && goes_before(&ready, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = ready;
}

static bool
queue_push(struct task *me, struct queue *queue, struct ready ready)
{
    if (!host_room(me, &queue->heap, &queue->room, queue->count + 1, sizeof *queue->heap))
        return false;
    heap_sift_up(queue->heap, queue->count++, ready);
    return true;
}

/* The free place goes down to a leaf, by the left child only where that one goes before the right one; the last entry
 * rises from there. */
static size_t
queue_pop(struct queue *queue)
{
    struct ready *heap  = queue->heap;
    size_t        index = heap[0].index, count = --queue->count, at = 0;
    for (size_t child = 2; child <= count; child = 2 * at + 2) {
        if (child == count || goes_before(&heap[child - 1], &heap[child]))
            child--;
        heap[at] = heap[child];
        at = child;
    }
    heap_sift_up(heap, at, heap[count]);
    return index;
}

/* The queue of a device, made on demand; SIZE_MAX: no memory. */
static size_t
queue_of(struct task *me, struct graph *graph, int device)
{
    for (size_t i = 0; i < graph->queue_count; i++)
        if (graph->queues[i].device == device)
            return i;
    if (!host_room(me, &graph->queues, &graph->queue_room, graph->queue_count + 1, sizeof *graph->queues))
        return SIZE_MAX;
    graph->queues[graph->queue_count] = (struct queue){ .device = device };
    return graph->queue_count++;
}

/* Where the first gradient that does not lie on the CPU lies; where the node's own lie, if none has come at all.
 * PyTorch gives such a node to the calling thread. A SyncBatchNorm above one that had no rows gets none, and its
 * all-reduce would race there with those that the device's thread issues. */
static int
device_of_gradients(const struct graph *graph, const struct pending *pending)
{
    bool any = false;
    for (int i = 0; i < pending->node->output_count; i++) {
        struct tensor *grad = graph->slots[pending->slot + (size_t)i];
        if (grad != NULL && tensor_device(grad) != DEVICE_CPU)
            return tensor_device(grad);
        any = any || grad != NULL;
    }
    return any ? DEVICE_CPU : pending->node->device;
}

/* One gradient less to wait for. */
static bool
graph_arrived(struct task *me, struct graph *graph, size_t index, size_t *unmanned)
{
    struct pending *pending = &graph->pending[index];
    bool            ok = true;
    graph_lock(me, graph);
    if (--pending->dependencies == 0 && !graph->failed) {
        size_t at = queue_of(me, graph, device_of_gradients(graph, pending));
        ok = at != SIZE_MAX && queue_push(me, &graph->queues[at],
                                              (struct ready){ index, pending->node->sequence_nr });
        if (ok) {
            graph->outstanding++;
            *unmanned = graph->queues[at].started ? SIZE_MAX : at;
            graph->queues[at].started = true;
        }
        graph_wake(me, graph);
    }
    graph_unlock(me, graph);
    return ok || no_memory_for_backward(me);
}

/* Producer and consumer work on different streams of a device: the consumer's waits for what the producer's has. The
 * gradient's memory is the producer's, and is not used again before the consumer is through. */
static bool
streams_hand_over(struct task *me, const struct node *to, const struct tensor *grad)
{
    int device = tensor_device(grad);
    if (device < 0 || to->stream == NULL || stream_device(to->stream) != device)
        return true;
    struct stream *from = stream_current(me, device);
    if (from == NULL || from == to->stream)
        return from != NULL;
    struct event *event = event_new(me);
    bool ok = event != NULL && stream_record(me, from, event) && stream_wait_event(me, to->stream, event) &&
              storage_record_stream(me, grad->storage, to->stream);
    if (event != NULL)
        event_free(me, event);
    return ok;
}

static bool
is_one_block(const struct tensor *grad)
{
    return tensor_is_contiguous(grad) ||
           (grad->dims == 2 && grad->stride[0] == 1 && grad->stride[1] == grad->size[0]);
}

/* Nobody else sees it: it was made for this input and waits here. What it may be a view of has no other purpose. */
static bool
is_only_here(struct task *me, struct tensor *grad)
{
    if (grad_enabled(me) || tensor_device(grad) != DEVICE_CPU || tensor_is_sparse(grad) || grad->grad_fn != NULL ||
        atomic_load(&grad->references) != 1 || !is_one_block(grad))
        return false;
    tensor_drop(me, &grad->base);
    return atomic_load(&grad->storage->references) == 1;
}

static struct tensor *
added(struct task *me, struct tensor *old, struct tensor *new)
{
    if (tensor_is_sparse(old)) { /* dense + sparse; of two sparse ones the later one's pairs lead */
        struct tensor *swap = old;
        old = new;
        new = swap;
    }
    if (is_only_here(me, old) && old->dtype == new->dtype && tensor_same_shape(old, new))
        return tensor_add_(me, old, new, 1);
    return tensor_add(me, old, new);
}

/* Two gradients for one input: in place only where nobody else may see the first. On the consumer's stream. */
static struct tensor *
sum_of(struct task *me, const struct node *to, struct tensor *old, struct tensor *new)
{
    size_t         mark   = scope_mark(me);
    struct stream *stream = NULL;
    if (to->stream != NULL && stream_device(to->stream) == tensor_device(old))
        stream = stream_current(me, tensor_device(old));
    if (stream != NULL && !stream_make_current(me, to->stream))
        stream = NULL;
    struct tensor *sum = tensor_ref(added(me, old, new));
    if (stream != NULL && !stream_make_current(me, stream))
        tensor_drop(me, &sum);
    tensor_unref(me, old);
    tensor_unref(me, new);
    scope_release(me, mark);
    return sum;
}

bool
graph_deliver(struct task *me, struct graph *graph, struct arrival arrival, size_t *unmanned)
{
    struct node    *node = graph->pending[arrival.index].node;
    struct tensor **slot = &graph->slots[graph->pending[arrival.index].slot + (size_t)arrival.nr];
    struct tensor  *grad = arrival.grad;
    *unmanned = SIZE_MAX;
    if (grad != NULL && !streams_hand_over(me, node, grad)) {
        tensor_unref(me, grad);
        return false;
    }
    while (grad != NULL) {
        graph_lock(me, graph);
        struct tensor *old = *slot;
        *slot = old == NULL ? grad : NULL;
        graph_unlock(me, graph);
        if (old == NULL)
            break;
        grad = sum_of(me, node, old, grad);
        if (grad == NULL)
            return false;
    }
    return graph_arrived(me, graph, arrival.index, unmanned);
}

bool
graph_take(struct task *me, struct graph *graph, size_t queue, size_t *index)
{
    struct wait_reason reason = { .what = "backward", .sequence = -1, .peer = -1,
                                  .detail = "for gradients from elsewhere", .idle = queue != 0, .join = queue == 0 };
    bool ok = true, found = false;
    graph_lock(me, graph);
    while (ok && !graph->failed && graph->outstanding > 0 && !found) {
        found = graph->queues[queue].count > 0;
        if (found)
            *index = queue_pop(&graph->queues[queue]);
        else
            ok = graph_wait(me, graph, &reason);
    }
    graph_unlock(me, graph);
    return found && ok;
}

void
graph_done(struct task *me, struct graph *graph)
{
    graph_lock(me, graph);
    if (--graph->outstanding == 0)
        graph_wake(me, graph);
    graph_unlock(me, graph);
}

void
graph_fail(struct task *me, struct graph *graph, size_t queue)
{
    graph_lock(me, graph);
    if (!graph->failed) {
        graph->failed       = true;
        graph->failed_queue = queue;
    }
    graph_wake(me, graph);
    graph_unlock(me, graph);
}

bool
graph_used_stream(struct task *me, struct graph *graph, struct stream *stream)
{
    bool ok = true, known = false;
    graph_lock(me, graph);
    for (size_t i = 0; i < graph->stream_count; i++)
        known |= graph->streams[i] == stream;
    if (!known) {
        ok = host_room(me, &graph->streams, &graph->stream_room, graph->stream_count + 1, sizeof *graph->streams);
        if (ok)
            graph->streams[graph->stream_count++] = stream;
    }
    graph_unlock(me, graph);
    return ok || no_memory_for_backward(me);
}

/* The four autograd Functions of DataParallel: torch.nn.parallel._functions.
 *
 *     Scatter   rows of a tensor to devices              its backward is Gather
 *     Gather    rows from devices to one tensor          its backward is Scatter
 *     Broadcast          tensors to all devices          its backward is ReduceAddCoalesced
 *     ReduceAddCoalesced their sums on one device        its backward is Broadcast
 *
 * NAME_apply is the Function's apply: comm's copy, then one node if anything wants a gradient. They are each other's
 * backward through apply, so that a gradient of a gradient works too. Scatter and Gather keep a `partition`, which says
 * how a whole tensor falls into pieces on devices. */
#include "parallel/functions.h"

#include "autograd/call.h"
#include "autograd/node.h"
#include "device/storage.h"
#include "device/stream.h"
#include "parallel/comm.h"
#include "sched/stage.h"
#include "tensor/op.h"

#include <stdio.h>
#include <string.h>

struct partition {
    struct comm_shape shape;      /* of the whole */
    int               device;     /* of the whole */
    int               dim, count;
    bool              unsqueezed; /* the pieces were 0-dim: one element of the whole each */
    struct comm_piece pieces[];
};

static bool scatter_backward(struct task *me, struct node *node, struct tensor *const *grad_out,
                             struct tensor **grad_in);
static bool gather_backward(struct task *me, struct node *node, struct tensor *const *grad_out,
                            struct tensor **grad_in);

/* ---- partitions ---- */

static size_t
partition_bytes(int count)
{
    return sizeof(struct partition) + (size_t)count * sizeof(struct comm_piece);
}

static void
partition_drop(struct task *me, void *split)
{
    host_return(me, split, partition_bytes(((const struct partition *)split)->count));
}

/* A node with a copy of the partition; NULL: failed. One reference, the caller's. */
static struct node *
partition_node(struct task *me, const struct comm_function *function, const struct partition *split)
{
    struct partition *copy = host_take(me, partition_bytes(split->count));
    if (copy != NULL)
        memcpy(copy, split, partition_bytes(split->count));
    return comm_node(me, function, copy, partition_drop);
}

/* "3 3 3 1", as a text of the trace. */
static int64_t
partition_sizes(struct task *me, const struct partition *split)
{
    const size_t room = (size_t)split->count * 21 + 1;     /* -9223372036854775808 and what parts it from the next */
    char        *sizes = host_take(me, room), *end = sizes;
    for (int i = 0; i < split->count && sizes != NULL; i++)
        end += snprintf(end, room - (size_t)(end - sizes), "%s%lld", i > 0 ? " " : "",
                        (long long)split->pieces[i].length);
    int64_t text = sizes != NULL ? stage_text_id(me, sizes) : 0;
    host_return(me, sizes, room);
    return text;
}

/* ---- the Function Scatter ---- */

/* A chunk for one replica. The event is the target device's; its bytes are the chunk's, its offset counts elements of
 * the source. Where the tensor already lies nothing moves: that chunk is an alias, a view of it. */
static void
scatter_chunk(struct task *me, const struct tensor *tensor, const struct tensor *chunk, int dim, int64_t start)
{
    tensor_announce_narrow(me, tensor, dim, start, chunk->size[dim], "chunk leaving");
    tensor_announce(me, chunk, "chunk arriving");
    tensor_announce(me, tensor, "cut from");
    POINT_ON(me, tensor_device(chunk), dp_scatter_chunk, chunk->storage == tensor->storage, chunk->size[dim],
             tensor_bytes(chunk), tensor->offset + start * tensor->stride[dim]);
}

/* What lies on the host is copied in the background, so that the copies run beside what the devices compute. */
static bool
scatter_streams(struct task *me, struct partition *split)
{
    for (int i = 0; i < split->count && split->device == DEVICE_CPU; i++) {
        split->pieces[i].stream = stream_background(me, split->pieces[i].device);
        if (split->pieces[i].stream == NULL)
            return false;
    }
    return true;
}

/* The device's own stream waits for the copy. The chunk was made for the stream that copies it, so its memory is told
 * that another one uses it too. */
static bool
scatter_await(struct task *me, const struct comm_piece *piece, struct tensor *chunk)
{
    struct stream *main = stream_current(me, piece->device);
    return main != NULL && stream_wait_stream(me, main, piece->stream) &&
           storage_record_stream(me, chunk->storage, main);
}

/* Scatter.forward. `seen`: the batch's, where each chunk is an event; a gradient's chunks are not. */
static bool
scatter_forward(struct task *me, struct tensor *tensor, struct partition *split, bool seen, struct tensor **out)
{
    int64_t start = 0;
    if (!scatter_streams(me, split) || !comm_scatter(me, tensor, split->dim, split->pieces, split->count, out))
        return false;
    for (int i = 0; i < split->count; i++) {
        if (seen)
            scatter_chunk(me, tensor, out[i], split->dim, start);
        if (split->pieces[i].stream != NULL && !scatter_await(me, &split->pieces[i], out[i]))
            return false;
        start += split->pieces[i].length;
    }
    return true;
}

/* The chunks become outputs of one node. A chunk that is a view may not be modified in place: its node has several. */
static bool
scatter_record(struct task *me, struct tensor *tensor, const struct partition *split, struct tensor **out)
{
    struct node *node = partition_node(
        me, &(struct comm_function){ "ScatterBackward", scatter_backward, 1, split->count }, split);
    if (node == NULL)
        return false;
    node_connect(me, node, 0, tensor);
    comm_place_node(me, node, split->pieces[0].device);
    for (int i = 0; i < split->count; i++) {
        node_output(me, node, out[i], i);
        if (out[i]->storage != tensor->storage)
            continue;
        out[i]->multi_view = true;
        tensor_keep(me, &out[i]->base, tensor->base != NULL ? tensor->base : tensor);
    }
    node_unref(me, node);
    return !task_failed(me);
}

static bool
scatter_split(struct task *me, struct tensor *tensor, struct partition *split, bool seen, struct tensor **out)
{
    return scatter_forward(me, tensor, split, seen, out) &&
           (!any_requires_grad(me, &tensor, 1) || scatter_record(me, tensor, split, out));
}

int
scatter_apply(struct task *me, struct tensor *tensor, struct device_list devices, int dim, struct tensor **out)
{
    if (tensor_dims(tensor) == 0)
        return failed(me, E_RUNTIME, "chunk expects at least a 1-dimensional tensor"), 0;
    dim = comm_dim(me, tensor, dim);
    int64_t          *lengths = scratch_new(me, (size_t)devices.count, sizeof *lengths);
    struct partition *split = scratch_new(me, 1, partition_bytes(devices.count));
    if (dim < 0 || lengths == NULL || split == NULL)
        return 0;
    *split = (struct partition){ .shape = comm_shape_of(tensor), .device = tensor_device(tensor), .dim = dim };
    split->count = chunk_lengths(me, tensor, devices.count, dim, lengths);
    for (int i = 0; i < split->count; i++)
        split->pieces[i] = (struct comm_piece){ .length = lengths[i], .device = devices.ids[i] };
    return split->count > 0 && scatter_split(me, tensor, split, true, out) ? split->count : 0;
}

/* ---- the Function Gather ---- */

/* A scalar per replica cannot be joined along a dimension that it does not have: each counts as a row of one. */
static bool
gather_unsqueeze(struct task *me, struct tensor *const *pieces, int count, struct tensor **rows)
{
    static const char words[] = "Was asked to gather along dimension 0, but all input tensors were scalars; "
                                "will instead unsqueeze and return a vector.";
    const int64_t size = 1;
    int64_t       warning = stage_text_id(me, words);
    POINT(me, dp_gather_unsqueeze, count, warning);
    task_warn(me, words);
    if (task_failed(me))
        return false;
    for (int i = 0; i < count; i++) {
        rows[i] = tensor_piece(me, pieces[i], 1, &size, pieces[i]->offset);
        if (rows[i] == NULL)
            return false;
    }
    return true;
}

static struct tensor *
gather_record(struct task *me, struct tensor *const *pieces, const struct partition *split, struct tensor *whole)
{
    struct node *node = partition_node(
        me, &(struct comm_function){ "GatherBackward", gather_backward, split->count, 1 }, split);
    if (node == NULL)
        return NULL;
    for (int i = 0; i < split->count; i++)
        node_connect(me, node, i, pieces[i]);
    comm_place_node(me, node, split->device);
    node_output(me, node, whole, 0);
    node_unref(me, node);
    return task_failed(me) ? NULL : whole;
}

struct tensor *
gather_apply(struct task *me, struct tensor *const *pieces, int count, int device, int dim)
{
    struct partition *split = scratch_new(me, 1, partition_bytes(count));
    struct tensor   **rows = scratch_new(me, (size_t)count, sizeof *rows);
    if (split == NULL || rows == NULL)
        return NULL;
    bool scalars = dim == 0;
    for (int i = 0; i < count; i++) {
        if (tensor_device(pieces[i]) == DEVICE_CPU)
            return failed_null(me, E_ASSERTION, "Gather function not implemented for CPU tensors: replica %d's is on "
                               "the cpu", i);
        scalars = scalars && tensor_dims(pieces[i]) == 0;
        rows[i] = pieces[i];
    }
    if (scalars && !gather_unsqueeze(me, pieces, count, rows))
        return NULL;
    for (int i = count - 1; i >= 0; i--)
        if (comm_dim(me, rows[i], dim) < 0)
            return NULL;
    struct tensor *whole = comm_gather(me, rows, count, device, dim);
    if (whole == NULL || !any_requires_grad(me, pieces, count))
        return whole;

    split->shape = comm_shape_of(whole);
    split->device = device;
    split->dim = dim < 0 ? dim + whole->dims : dim;
    split->count = count;
    split->unsqueezed = scalars;
    for (int i = 0; i < count; i++)
        split->pieces[i] = (struct comm_piece){ .length = rows[i]->size[split->dim], .device = tensor_device(rows[i]) };
    return gather_record(me, pieces, split, whole);
}

/* ---- their backward: each is the other's ---- */

/* The gradient of piece `index`; a chunk that nobody used counts as zeros. */
static struct tensor *
piece_grad(struct task *me, const struct partition *split, struct tensor *given, int index)
{
    struct comm_shape shape = split->shape;
    shape.size[split->dim] = split->pieces[index].length;
    return given != NULL ? given : comm_zeros(me, &shape, split->pieces[index].device);
}

/* Scatter's backward is Gather, to where the input lay. */
static bool
scatter_backward(struct task *me, struct node *node, struct tensor *const *grad_out,
                 struct tensor **grad_in)
{
    const struct partition *split = node->context;
    STAGE(me, dp_scatter_backward, split->count, split->dim, partition_sizes(me, split));
    struct tensor **grads = scratch_new(me, (size_t)split->count, sizeof *grads);
    if (grads == NULL)
        return false;
    for (int i = 0; i < split->count; i++) {
        grads[i] = piece_grad(me, split, grad_out[i], i);
        if (grads[i] == NULL)
            return false;
    }
    grad_in[0] = gather_apply(me, grads, split->count, split->device, split->dim);
    return hand_up(me, grad_in[0]) != NULL;
}

/* Gather's backward is Scatter: each replica gets the rows of the gradient that were its own, on
 * the device where it computed them. From here on the replicas' backwards run side by side. */
static bool
gather_backward(struct task *me, struct node *node, struct tensor *const *grad_out,
                struct tensor **grad_in)
{
    struct partition *split = node->context;
    STAGE(me, dp_gather_backward, split->count, split->dim, partition_sizes(me, split));
    struct tensor **rows = scratch_new(me, (size_t)split->count, sizeof *rows);
    struct tensor  *grad = grad_out[0];
    if (grad == NULL)
        grad = comm_zeros(me, &split->shape, split->device);
    if (rows == NULL || grad == NULL || !scatter_split(me, grad, split, false, rows))
        return false;

    for (int i = 0; i < split->count; i++) {
        grad_in[i] = NULL;
        if (node->edges[i].node == NULL)
            continue;
        struct tensor *mine = rows[i];
        if (split->unsqueezed)
            mine = tensor_select(me, rows[i], 0, 0);
        grad_in[i] = hand_up(me, mine);
        if (grad_in[i] == NULL)
            return false;
    }
    return true;
}

/* What Broadcast and ReduceAddCoalesced remember: the devices, and the shapes of one device's tensors. */
struct replica_shapes {
    int                device_count, count, destination;
    struct comm_shape *shapes;
    int                devices[];
};

static bool broadcast_backward(struct task *me, struct node *node, struct tensor *const *grad_out,
                               struct tensor **grad_in);
static bool reduce_add_coalesced_backward(struct task *me, struct node *node, struct tensor *const *grad_out,
                                struct tensor **grad_in);

/* ---- the Function Broadcast ---- */

static size_t
shapes_bytes(int device_count)
{
    return sizeof(struct replica_shapes) + (size_t)device_count * sizeof(int);
}

static void
shapes_drop(struct task *me, void *context)
{
    struct replica_shapes *shapes = context;
    host_return(me, shapes->shapes, (size_t)shapes->count * sizeof *shapes->shapes);
    host_return(me, shapes, shapes_bytes(shapes->device_count));
}

/* NULL: failed. */
static struct replica_shapes *
shapes_of(struct task *me, const struct coalesced *given, int destination)
{
    struct device_list     devices = given->devices;
    struct replica_shapes *shapes = host_take(me, shapes_bytes(devices.count));
    if (shapes == NULL)
        return NULL;
    *shapes = (struct replica_shapes){ devices.count, given->count, destination, NULL };
    shapes->shapes = host_take(me, (size_t)given->count * sizeof *shapes->shapes);
    if (shapes->shapes == NULL) {
        host_return(me, shapes, shapes_bytes(devices.count));
        return NULL;
    }
    for (int d = 0; d < devices.count; d++)
        shapes->devices[d] = devices.ids[d];
    for (int i = 0; i < given->count; i++)
        shapes->shapes[i] = comm_shape_of(given->tensors[i]);
    return shapes;
}

/* The copies become outputs of one node, those on the first device views of the originals. What needs no gradient
 * stays outside, but has its edge and its place, so that outputs are numbered by device, then by tensor. */
static bool
broadcast_record(struct task *me, const struct coalesced *given, struct tensor **out)
{
    const int              count = given->count, total = count * given->devices.count, first = given->devices.ids[0];
    struct tensor *const  *tensors = given->tensors;
    struct comm_function   function = { "BroadcastBackward", broadcast_backward, count, total };
    struct node           *node = comm_node(me, &function, shapes_of(me, given, first), shapes_drop);
    if (node == NULL)
        return false;
    comm_place_node(me, node, first);
    for (int i = 0; i < count && !task_failed(me); i++) {
        node_connect(me, node, i, tensors[i]);
        out[i] = comm_alias(me, tensors[i]);
        if (out[i] == NULL)
            break;
        if (tensors[i]->requires_grad) {
            out[i]->multi_view = true;
            tensor_keep(me, &out[i]->base, tensors[i]->base != NULL ? tensors[i]->base : tensors[i]);
        }
    }
    for (int at = 0; at < total && !task_failed(me); at++)
        if (tensors[at % count]->requires_grad)
            node_output(me, node, out[at], at);
    node_unref(me, node);
    return !task_failed(me);
}

bool
broadcast_apply(struct task *me, const struct coalesced *given, struct tensor **out)
{
    for (int i = 0; i < given->count; i++)
        if (tensor_device(given->tensors[i]) == DEVICE_CPU)
            return failed(me, E_ASSERTION, "Broadcast function not implemented for CPU tensors: tensor %d is on the "
                          "cpu", i);
    if (!comm_broadcast_coalesced(me, given, out))
        return false;
    return !any_requires_grad(me, given->tensors, given->count) || broadcast_record(me, given, out);
}

/* ---- the Function ReduceAddCoalesced ---- */

bool
reduce_add_coalesced_apply(struct task *me, const struct coalesced *given, int destination, struct tensor **out)
{
    const int total = given->count * given->devices.count;
    if (!comm_reduce_add_coalesced(me, given, destination, out))
        return false;
    if (!any_requires_grad(me, given->tensors, total))
        return true;
    struct comm_function function = {
        "ReduceAddCoalescedBackward", reduce_add_coalesced_backward, total, given->count
    };
    struct node         *node = comm_node(me, &function, shapes_of(me, given, destination), shapes_drop);
    if (node == NULL)
        return false;
    for (int at = 0; at < total; at++)
        node_connect(me, node, at, given->tensors[at]);
    comm_place_node(me, node, destination);
    for (int i = 0; i < given->count; i++)
        node_output(me, node, out[i], i);
    node_unref(me, node);
    return !task_failed(me);
}

/* ---- their backward: each is the other's ---- */

/* A parameter that no replica used gets a gradient of zeros. */
static struct tensor *
grad_or_zeros(struct task *me, const struct replica_shapes *shapes, struct tensor *given, int index, int device)
{
    return given != NULL ? given : comm_zeros(me, &shapes->shapes[index], device);
}

/* The one node that sums all parameters' gradients of all replicas, on the first device. */
static bool
broadcast_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct replica_shapes *shapes = node->context;
    const int       count = shapes->count, total = count * shapes->device_count;
    struct tensor **grads = scratch_new(me, (size_t)total, sizeof *grads);
    if (grads == NULL)
        return false;
    for (int at = 0; at < total; at++) {
        grads[at] = grad_or_zeros(me, shapes, grad_out[at], at % count, shapes->devices[at / count]);
        if (grads[at] == NULL)
            return false;
    }
    const struct coalesced sums = { grads, count, { shapes->devices, shapes->device_count }, 0 };
    if (!reduce_add_coalesced_apply(me, &sums, shapes->destination, grad_in))
        return false;
    for (int i = 0; i < count; i++)
        if (node->edges[i].node == NULL)
            grad_in[i] = NULL;
    return true;
}

static bool
reduce_add_coalesced_backward(struct task *me, struct node *node, struct tensor *const *grad_out,
                              struct tensor **grad_in)
{
    const struct replica_shapes *shapes = node->context;
    const int       count = shapes->count;
    struct tensor **grads = scratch_new(me, (size_t)count, sizeof *grads);
    if (grads == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        grads[i] = grad_or_zeros(me, shapes, grad_out[i], i, shapes->destination);
        if (grads[i] == NULL)
            return false;
    }
    const struct coalesced given = { grads, count, { shapes->devices, shapes->device_count }, 0 };
    if (!broadcast_apply(me, &given, grad_in))
        return false;
    for (int at = 0; at < count * shapes->device_count; at++)
        if (node->edges[at].node == NULL)
            grad_in[at] = NULL;
    return true;
}


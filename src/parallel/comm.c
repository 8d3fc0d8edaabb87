/* The four copies of DataParallel, without gradients: torch.nn.parallel.comm.
 *
 *     comm_scatter_piece         one tensor's rows to one device     comm_gather                 and back
 *     comm_broadcast_coalesced   many tensors to all devices         comm_reduce_add_coalesced   and their sums back
 *
 * The last two do not send tensor by tensor: small ones are laid side by side in one flat buffer, so that a model of a
 * hundred parameters costs one transfer per device and not a hundred. Every copy is queued on the destination's
 * stream and not waited for. In PyTorch: torch/nn/parallel/comm.py, torch/csrc/cuda/comm.cpp. */
#include "parallel/comm.h"

#include "autograd/node.h"
#include "device/stream.h"
#include "parallel/data_parallel.h"
#include "parallel/flat.h"
#include "sched/stage.h"
#include "tensor/op.h"

#include <stdio.h>

#define BUFFER_BYTES ((size_t)10 * 1024 * 1024)

void
comm_device_name(int device, char name[24])
{
    if (device == DEVICE_CPU)
        snprintf(name, 24, "cpu");
    else
        snprintf(name, 24, "device:%d", device);
}

/* ---- shapes, views ---- */

struct comm_shape
comm_shape_of(const struct tensor *tensor)
{
    struct comm_shape shape = { .dtype = tensor->dtype, .dims = tensor->dims };
    for (int i = 0; i < tensor->dims; i++)
        shape.size[i] = tensor->size[i];
    return shape;
}

struct tensor *
comm_zeros(struct task *me, const struct comm_shape *shape, int device)
{
    struct tensor *zeros = tensor_empty(me, shape->dtype, device, shape->dims, shape->size);
    return zeros != NULL && tensor_fill(me, zeros, 0) ? zeros : NULL;
}

struct node *
comm_node(struct task *me, const struct comm_function *function, void *context,
          void (*drop_context)(struct task *me, void *context))
{
    if (context == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    struct node *node = node_new(me, function->name, function->backward, function->edges, function->outputs);
    if (node == NULL) {
        drop_context(me, context);
        return NULL;
    }
    node->context = context;
    node->drop_context = drop_context;
    return node;
}

bool
comm_place_node(struct task *me, struct node *node, int device)
{
    node->device = device;
    node->stream = device != DEVICE_CPU ? stream_current(me, device) : NULL;
    return device == DEVICE_CPU || node->stream != NULL;
}

struct tensor *
comm_alias(struct task *me, struct tensor *tensor)
{
    return tensor_view(me, tensor, &(struct view_place){ tensor->dims, tensor->size, tensor->stride, tensor->offset });
}

int
comm_dim(struct task *me, const struct tensor *tensor, int dim)
{
    int dims = tensor_dims(tensor);
    if (dims > 0 && dim >= -dims && dim < dims)
        return dim < 0 ? dim + dims : dim;
    if (dims == 0)
        failed(me, E_INDEX, "Dimension specified as %d but tensor has no dimensions", dim);
    else
        failed(me, E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -dims,
               dims - 1, dim);
    return -1;
}

static struct tensor *
narrowed_to(struct task *me, struct tensor *tensor, struct comm_rows rows)
{
    const struct op_args args = {
        .in = { tensor }, .dim = rows.dim, .start = rows.start, .length = rows.length, .step = 1
    };
    return op_run(me, OP_narrow, &args);
}

int64_t
comm_bytes_elsewhere(struct tensor *const *tensors, int count, int device)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (tensor_device(tensors[i]) != device)
            bytes += tensor_bytes(tensors[i]);
    return bytes;
}

/* ---- scatter and gather ---- */

struct tensor *
comm_scatter_piece(struct task *me, struct tensor *tensor, struct comm_rows rows, int device)
{
    struct tensor *piece = narrowed_to(me, tensor, rows);
    return piece != NULL ? tensor_to_async(me, piece, device, piece->dtype) : NULL;
}

/* All pieces agree in every size but the one along dim. Answers the sum of those, -1: failed. */
static int64_t
gathered_rows(struct task *me, struct tensor *const *pieces, int count, int dim)
{
    const struct tensor *first = pieces[0];
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        const struct tensor *piece = pieces[i];
        if (piece->dims != first->dims) {
            failed(me, E_SHAPE, "Tensors must have same number of dimensions: got %d and %d (tensor number %d)",
                   first->dims, piece->dims, i);
            return -1;
        }
        for (int d = 0; d < first->dims; d++) {
            if (d == dim || piece->size[d] == first->size[d])
                continue;
            failed(me, E_SHAPE, "Sizes of tensors must match except in dimension %d. "
                   "Expected size %lld but got size %lld for tensor number %d in the list.",
                   dim, (long long)first->size[d], (long long)piece->size[d], i);
            return -1;
        }
        rows += piece->size[dim];
    }
    return rows;
}

struct tensor *
comm_gather(struct task *me, struct tensor *const *pieces, int count, int device, int dim)
{
    if (count < 1)
        return failed_null(me, E_RUNTIME, "gather needs at least one tensor");
    for (int i = count - 1; i >= 0; i--)
        if (comm_dim(me, pieces[i], dim) < 0)
            return NULL;
    dim = comm_dim(me, pieces[0], dim);
    struct comm_shape shape = comm_shape_of(pieces[0]);
    shape.size[dim] = gathered_rows(me, pieces, count, dim);
    if (shape.size[dim] < 0)
        return NULL;

    struct tensor *whole = tensor_empty(me, shape.dtype, device, shape.dims, shape.size);
    int64_t start = 0;
    for (int i = 0; i < count && whole != NULL; i++) {
        struct tensor *slice = narrowed_to(me, whole, (struct comm_rows){ dim, start, pieces[i]->size[dim] });
        if (slice == NULL || !tensor_copy(me, slice, pieces[i]))
            return NULL;
        start += pieces[i]->size[dim];
    }
    return whole;
}

/* ---- groups: what travels together ---- */

/* One group is open per type: its number, its bytes, and at which place the type first came. */
struct open_group { int number, place; uint64_t bytes; };

static void
close_group(struct open_group *open, int *closed, int *count)
{
    closed[(*count)++] = open->number;
    open->number = -1;
}

/* group[i]: the number of i's group, by opening; closed[k]: the k-th group to close. Answers how many. */
static int
assign_groups(const struct coalesced *given, enum comm_rule rule, int *group, int *closed)
{
    const size_t      limit = given->buffer_bytes != 0 ? given->buffer_bytes : BUFFER_BYTES;
    struct open_group open[DTYPE_COUNT];
    int types[DTYPE_COUNT], type_count = 0, opened = 0, closed_count = 0;
    for (int type = 0; type < DTYPE_COUNT; type++)
        open[type] = (struct open_group){ .number = -1, .place = -1 };

    for (int i = 0; i < given->count; i++) {
        const struct tensor *tensor = given->tensors[i];
        struct open_group   *mine = &open[tensor->dtype];
        uint64_t bytes = (uint64_t)tensor_bytes(tensor);
        if (mine->place < 0) {
            mine->place = type_count;
            types[type_count++] = (int)tensor->dtype;
        }
        if (rule == COMM_REDUCE && mine->number >= 0 && mine->bytes > 0 && mine->bytes + bytes > limit)
            close_group(mine, closed, &closed_count);
        if (mine->number < 0) {
            mine->number = opened++;
            mine->bytes = 0;
        }
        group[i] = mine->number;
        mine->bytes += bytes;
        if (rule == COMM_BROADCAST && mine->bytes >= limit)
            close_group(mine, closed, &closed_count);
    }
    for (int i = 0; i < type_count; i++)
        if (open[types[i]].number >= 0)
            close_group(&open[types[i]], closed, &closed_count);
    return closed_count;
}

bool
comm_group(struct task *me, struct arena *plain, const struct coalesced *given, enum comm_rule rule,
           struct comm_groups *out)
{
    size_t bytes = (size_t)given->count * sizeof(int);
    int *group = plain_take(me, plain, bytes), *closed = plain_take(me, plain, bytes);
    out->members = plain_take(me, plain, bytes);
    out->starts = plain_take(me, plain, bytes + sizeof(int));
    if (group == NULL || closed == NULL || out->members == NULL || out->starts == NULL)
        return false;

    out->count = assign_groups(given, rule, group, closed);
    int placed = 0;
    for (int g = 0; g < out->count; g++) {
        out->starts[g] = placed;
        for (int i = 0; i < given->count; i++)
            if (group[i] == closed[g])
                out->members[placed++] = i;
    }
    out->starts[out->count] = placed;
    return true;
}

/* Which of one device's tensors group g is: those of device d. */
static struct flat_members
group_members(const struct coalesced *given, const struct comm_groups *groups, int g, int d)
{
    return (struct flat_members){ .tensors = given->tensors + (size_t)d * (size_t)given->count,
                                  .indices = &groups->members[groups->starts[g]],
                                  .count = groups->starts[g + 1] - groups->starts[g] };
}

/* Cuts the buffer into tensors of the members' shapes. Each gets a version counter of its own: they only happen to lie
 * in one storage, and an in-place op on one must not make its neighbours look changed. */
static bool
unflatten_members(struct task *me, struct tensor *flat, const struct flat_members *members, struct tensor **out)
{
    struct flat_walk walk = { .flat = flat };
    for (int i = 0; i < members->count; i++) {
        int at = members->indices[i];
        out[at] = tensor_own_version(me, flat_piece(me, &walk, members->tensors[at]));
        if (out[at] == NULL)
            return false;
    }
    return true;
}

/* ---- broadcast ---- */

static bool
all_lie_on(struct task *me, struct tensor *const *tensors, int count, int device)
{
    char wanted[24], found[24];
    for (int i = 0; i < count; i++) {
        if (tensor_device(tensors[i]) == device)
            continue;
        comm_device_name(device, wanted);
        comm_device_name(tensor_device(tensors[i]), found);
        return failed(me, E_DEVICE, "all tensors must be on %s, the first of devices, but tensor %d is on %s",
                      wanted, i, found);
    }
    return true;
}

/* One group to every device but the first: one transfer each. */
static bool
broadcast_group(struct task *me, const struct coalesced *given, struct tensor *flat,
                const struct flat_members *members, struct tensor **out)
{
    const int64_t size = tensor_count(flat);
    for (int d = 1; d < given->devices.count; d++) {
        struct tensor *copy = tensor_empty(me, flat->dtype, given->devices.ids[d], 1, &size);
        if (copy == NULL || !tensor_copy(me, copy, flat) ||
            !unflatten_members(me, copy, members, out + (size_t)d * (size_t)given->count))
            return false;
    }
    return true;
}

/* What each device got: the first none, for the tensors lie there and are its own. */
static void
broadcast_copy(struct task *me, struct device_list devices, int64_t bytes)
{
    for (int d = 0; d < devices.count; d++)
        POINT_ON(me, devices.ids[d], dp_replicate_copy, devices.ids[d], d == 0 ? 0 : bytes, d == 0);
}

/* `tensors`, which lie on the first device, reach all devices: the first keeps its very tensors,
 * each other one gets copies. Small tensors share a flat buffer, so that they cost one transfer. */
bool
comm_broadcast_coalesced(struct task *me, const struct coalesced *given,
                         struct tensor **out)
{
    const struct device_list devices = given->devices;
    const int     copies = devices.count - 1;
    const int64_t bytes = comm_bytes_elsewhere(given->tensors, given->count, DEVICE_MAX);
    STAGE(me, dp_broadcast_coalesced, given->count, devices.count, bytes * copies);
    struct arena       plain PLAIN = { 0 };
    struct comm_groups groups;
    if (!all_lie_on(me, given->tensors, given->count, devices.ids[0]) ||
        !comm_group(me, &plain, given, COMM_BROADCAST, &groups))
        return false;
    stage_set(&stage_, 3, groups.count);

    for (int i = 0; i < given->count; i++)
        out[i] = given->tensors[i];
    struct tensor *flat = NULL;
    for (int g = 0; g < groups.count && devices.count > 1; g++) {
        struct flat_members members = group_members(given, &groups, g, 0);
        tensor_replace(me, &flat, flat_joined(me, &members));
        if (flat == NULL || !broadcast_group(me, given, flat, &members, out))
            return false;
    }
    if (given->count > 0)
        broadcast_copy(me, devices, bytes);
    for (int i = given->count; i < given->count * devices.count; i++)
        hand_up(me, out[i]);
    return true;
}

/* ---- reduce ---- */

/* The place of `destination` among the devices; -1: failed. */
static int
root_of(struct task *me, struct device_list devices, int destination)
{
    for (int d = 0; d < devices.count; d++)
        if (devices.ids[d] == destination)
            return d;
    char name[24];
    comm_device_name(destination, name);
    failed(me, E_RUNTIME, "reduce_add expects destination to be on the same device with one of the tensors, "
           "but none of them is on %s", name);
    return -1;
}

static bool
same_sizes_everywhere(struct task *me, const struct coalesced *given)
{
    for (int at = given->count; at < given->count * given->devices.count; at++) {
        const struct tensor *expected = given->tensors[at % given->count], *got = given->tensors[at];
        if (tensor_same_shape(expected, got))
            continue;
        char sizes[2][TENSOR_DIMS * 21 + 1] = { "", "" };
        for (int which = 0; which < 2; which++) {
            const struct tensor *tensor = which == 0 ? got : expected;
            for (int d = 0, used = 0; d < tensor->dims; d++)
                used += snprintf(sizes[which] + used, sizeof sizes[which] - (size_t)used, "%s%lld",
                                 d > 0 ? "x" : "", (long long)tensor->size[d]);
        }
        return failed(me, E_VALUE, "input %d has invalid size: got %s, but expected %s", at / given->count, sizes[0],
                      sizes[1]);
    }
    return true;
}

/* (root + others[0]) in a new tensor, then += others[1] ... in the order of the replicas: floating-point sums depend
 * on it. Each is brought to the root's device first. */
static struct tensor *
reduce_add(struct task *me, struct tensor *const *flat, int device_count, int root)
{
    struct tensor *sum = NULL;
    for (int d = 0; d < device_count; d++) {
        if (d == root)
            continue;
        size_t mark = scope_mark(me);
        struct tensor *other = tensor_to(me, flat[d], tensor_device(flat[root]), flat[root]->dtype);
        if (other == NULL)
            return NULL;
        const struct op_args args = { .in = { sum != NULL ? sum : flat[root], other }, .out = sum, .alpha = 1 };
        struct tensor *result = op_run(me, OP_add, &args);
        if (result == NULL)
            return NULL;
        if (sum != NULL) {
            scope_release(me, mark);     /* the copy that was brought here; the sum is older */
            continue;
        }
        sum = hand_up(me, result);
        scope_release(me, mark);
    }
    return sum != NULL ? sum : flat[root];
}

/* Where sums go: the place of the device, and the list they are put into. */
struct reduce_target { int root; struct tensor **out; };

static bool
reduce_group(struct task *me, const struct coalesced *given, const struct comm_groups *groups, int g,
             struct reduce_target to)
{
    struct arena        plain PLAIN = { 0 };
    struct flat_members members;
    struct tensor     **flat = plain_take(me, &plain, (size_t)given->devices.count * sizeof *flat);
    if (flat == NULL)
        return false;
    for (int d = 0; d < given->devices.count; d++) {
        members = group_members(given, groups, g, d);
        flat[d] = flat_joined(me, &members);
        if (flat[d] == NULL)
            return false;
    }
    struct tensor *sum = reduce_add(me, flat, given->devices.count, to.root);
    members = group_members(given, groups, g, 0);
    return sum != NULL && unflatten_members(me, sum, &members, to.out);
}

/* The sums over all devices, on `destination`: backward's counterpart of the broadcast. It cannot
 * begin before every device has every gradient, so nothing of it overlaps the backward. */
bool
comm_reduce_add_coalesced(struct task *me, const struct coalesced *given, int destination,
                          struct tensor **out)
{
    const struct device_list devices = given->devices;
    const int64_t bytes =
        comm_bytes_elsewhere(given->tensors, given->count * devices.count, destination);
    STAGE(me, dp_reduce_add_coalesced, given->count, devices.count, bytes, destination);
    struct arena       plain PLAIN = { 0 };
    struct comm_groups groups;
    int                root = root_of(me, devices, destination);
    if (root < 0 || !same_sizes_everywhere(me, given) ||
        !comm_group(me, &plain, given, COMM_REDUCE, &groups))
        return false;

    for (int g = 0; g < groups.count; g++)
        if (!reduce_group(me, given, &groups, g, (struct reduce_target){ root, out }))
            return false;
    for (int i = 0; i < given->count; i++)
        hand_up(me, out[i]);
    return true;
}

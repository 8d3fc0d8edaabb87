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
#include "sched/stage.h"
#include "tensor/op.h"

#include <stdio.h>

#define BUFFER_BYTES ((size_t)10 * 1024 * 1024)

void *
comm_take(struct task *me, struct arena *plain, size_t bytes)
{
    void *taken = arena_take(plain, bytes);
    return taken != NULL ? taken : failed_null(me, E_MEMORY, "out of memory");
}

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
rows_of(struct task *me, struct tensor *tensor, int dim, int64_t start, int64_t length)
{
    const struct op_args args = { .in = { tensor }, .dim = dim, .start = start, .length = length, .step = 1 };
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
comm_scatter_piece(struct task *me, struct tensor *tensor, int dim, int64_t start, int64_t length, int device)
{
    struct tensor *rows = rows_of(me, tensor, dim, start, length);
    return rows != NULL ? tensor_to_async(me, rows, device, rows->dtype) : NULL;
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
        struct tensor *slice = rows_of(me, whole, dim, start, pieces[i]->size[dim]);
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
assign_groups(struct tensor *const *tensors, int count, size_t limit, enum comm_rule rule, int *group, int *closed)
{
    struct open_group open[DTYPE_COUNT];
    int types[DTYPE_COUNT], type_count = 0, opened = 0, closed_count = 0;
    for (int type = 0; type < DTYPE_COUNT; type++)
        open[type] = (struct open_group){ .number = -1, .place = -1 };

    for (int i = 0; i < count; i++) {
        struct open_group *mine = &open[tensors[i]->dtype];
        uint64_t bytes = (uint64_t)tensor_bytes(tensors[i]);
        if (mine->place < 0) {
            mine->place = type_count;
            types[type_count++] = (int)tensors[i]->dtype;
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
comm_group(struct task *me, struct arena *plain, struct tensor *const *tensors, int count, size_t limit,
           enum comm_rule rule, struct comm_groups *out)
{
    size_t bytes = (size_t)count * sizeof(int);
    int *group = comm_take(me, plain, bytes), *closed = comm_take(me, plain, bytes);
    out->members = comm_take(me, plain, bytes);
    out->starts = comm_take(me, plain, bytes + sizeof(int));
    if (group == NULL || closed == NULL || out->members == NULL || out->starts == NULL)
        return false;

    out->count = assign_groups(tensors, count, limit, rule, group, closed);
    int placed = 0;
    for (int g = 0; g < out->count; g++) {
        out->starts[g] = placed;
        for (int i = 0; i < count; i++)
            if (group[i] == closed[g])
                out->members[placed++] = i;
    }
    out->starts[out->count] = placed;
    return true;
}

/* ---- flat buffers ---- */

/* The group's tensors side by side in one new buffer on their device; one alone is not copied. */
static struct tensor *
flatten(struct task *me, struct tensor *const *tensors, const int *members, int count)
{
    struct arena plain PLAIN = { 0 };
    struct tensor **flat = comm_take(me, &plain, (size_t)count * sizeof *flat);
    if (flat == NULL)
        return NULL;
    for (int i = 0; i < count; i++) {
        struct tensor *whole = tensor_contiguous(me, tensors[members[i]]);
        const int64_t  size = tensor_count(whole);
        flat[i] = whole != NULL ? tensor_piece(me, whole, 1, &size, whole->offset) : NULL;
        if (flat[i] == NULL)
            return NULL;
    }
    const struct op_args args = { .list = flat, .list_count = count };
    return count == 1 ? flat[0] : op_run(me, OP_cat, &args);
}

/* Cuts the buffer into tensors of their shapes. Each gets a version counter of its own: they only happen to lie in one
 * storage, and an in-place op on one must not make its neighbours look changed. */
static bool
unflatten(struct task *me, struct tensor *flat, struct tensor *const *like, const int *members, int count,
          struct tensor **out)
{
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        const struct tensor *shape = like[members[i]];
        struct tensor *piece = tensor_piece(me, flat, shape->dims, shape->size, flat->offset + start);
        out[members[i]] = piece != NULL ? tensor_own_version(me, piece) : NULL;
        if (out[members[i]] == NULL)
            return false;
        start += tensor_count(shape);
    }
    return true;
}

/* ---- broadcast ---- */

/* One call of the coalesced copies: tensors of one device or, to reduce, of all; where the results go. */
struct coalesced {
    struct tensor *const *tensors;
    int                   count;
    const int            *devices;
    int                   device_count, root;
    struct tensor       **out;
};

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
broadcast_group(struct task *me, const struct coalesced *all, struct tensor *flat, const int *members, int count)
{
    const int64_t size = tensor_count(flat);
    for (int d = 1; d < all->device_count; d++) {
        struct tensor *copy = tensor_empty(me, flat->dtype, all->devices[d], 1, &size);
        if (copy == NULL || !tensor_copy(me, copy, flat))
            return false;
        if (!unflatten(me, copy, all->tensors, members, count, all->out + (size_t)d * (size_t)all->count))
            return false;
    }
    return true;
}

/* What each device got: the first none, for the tensors lie there and are its own. */
static void
broadcast_copy(struct task *me, const int *devices, int device_count, int64_t bytes)
{
    for (int d = 0; d < device_count; d++)
        POINT_ON(me, devices[d], dp_replicate_copy, devices[d], d == 0 ? 0 : bytes, d == 0);
}

/* `tensors`, which lie on devices[0], reach all devices: the first keeps its very tensors, each
 * other one gets copies. Small tensors share a flat buffer, so that they cost one transfer. */
bool
comm_broadcast_coalesced(struct task *me, struct tensor *const *tensors, int count,
                         const int *devices, int device_count, size_t buffer_bytes,
                         struct tensor **out)
{
    const int64_t bytes = comm_bytes_elsewhere(tensors, count, DEVICE_MAX);
    STAGE(me, dp_broadcast_coalesced, count, device_count, bytes * (device_count - 1));
    struct coalesced   all = { tensors, count, devices, device_count, 0, out };
    struct arena       plain PLAIN = { 0 };
    struct comm_groups groups;
    size_t             limit = buffer_bytes != 0 ? buffer_bytes : BUFFER_BYTES;
    if (!all_lie_on(me, tensors, count, devices[0]) ||
        !comm_group(me, &plain, tensors, count, limit, COMM_BROADCAST, &groups))
        return false;
    stage_set(&stage_, 3, groups.count);

    for (int i = 0; i < count; i++)
        out[i] = tensors[i];
    struct tensor *flat = NULL;
    for (int g = 0; g < groups.count && device_count > 1; g++) {
        const int *members = &groups.members[groups.starts[g]];
        int        size = groups.starts[g + 1] - groups.starts[g];
        tensor_replace(me, &flat, flatten(me, tensors, members, size));
        if (flat == NULL || !broadcast_group(me, &all, flat, members, size))
            return false;
    }
    if (count > 0)
        broadcast_copy(me, devices, device_count, bytes);
    for (int i = count; i < count * device_count; i++)
        hand_up(me, out[i]);
    return true;
}

/* ---- reduce ---- */

/* The device of `destination` in devices; -1: failed. */
static int
root_of(struct task *me, const int *devices, int device_count, int destination)
{
    for (int d = 0; d < device_count; d++)
        if (devices[d] == destination)
            return d;
    char name[24];
    comm_device_name(destination, name);
    failed(me, E_RUNTIME, "reduce_add expects destination to be on the same device with one of the tensors, "
           "but none of them is on %s", name);
    return -1;
}

static bool
same_sizes(struct task *me, struct tensor *const *tensors, int count, int device_count)
{
    for (int at = count; at < count * device_count; at++) {
        const struct tensor *expected = tensors[at % count], *got = tensors[at];
        if (tensor_same_shape(expected, got))
            continue;
        char sizes[2][TENSOR_DIMS * 21 + 1] = { "", "" };
        for (int which = 0; which < 2; which++) {
            const struct tensor *tensor = which == 0 ? got : expected;
            for (int d = 0, used = 0; d < tensor->dims; d++)
                used += snprintf(sizes[which] + used, sizeof sizes[which] - (size_t)used, "%s%lld",
                                 d > 0 ? "x" : "", (long long)tensor->size[d]);
        }
        return failed(me, E_VALUE, "input %d has invalid size: got %s, but expected %s", at / count, sizes[0],
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

static bool
reduce_group(struct task *me, const struct coalesced *all, const int *members, int count)
{
    struct arena    plain PLAIN = { 0 };
    struct tensor **flat = comm_take(me, &plain, (size_t)all->device_count * sizeof *flat);
    if (flat == NULL)
        return false;
    for (int d = 0; d < all->device_count; d++) {
        flat[d] = flatten(me, all->tensors + (size_t)d * (size_t)all->count, members, count);
        if (flat[d] == NULL)
            return false;
    }
    struct tensor *sum = reduce_add(me, flat, all->device_count, all->root);
    return sum != NULL && unflatten(me, sum, all->tensors, members, count, all->out);
}

/* The sums over all devices, on `destination`: backward's counterpart of the broadcast. It cannot
 * begin before every device has every gradient, so nothing of it overlaps the backward. */
bool
comm_reduce_add_coalesced(struct task *me, struct tensor *const *tensors, int count,
                          const int *devices, int device_count, int destination,
                          size_t buffer_bytes, struct tensor **out)
{
    const int     all_count = count * device_count;
    const int64_t bytes = comm_bytes_elsewhere(tensors, all_count, destination);
    STAGE(me, dp_reduce_add_coalesced, count, device_count, bytes, destination);
    struct arena       plain PLAIN = { 0 };
    struct comm_groups groups;
    size_t             limit = buffer_bytes != 0 ? buffer_bytes : BUFFER_BYTES;
    int                root = root_of(me, devices, device_count, destination);
    struct coalesced   all = { tensors, count, devices, device_count, root, out };
    if (root < 0 || !same_sizes(me, tensors, count, device_count) ||
        !comm_group(me, &plain, tensors, count, limit, COMM_REDUCE, &groups))
        return false;

    for (int g = 0; g < groups.count; g++) {
        const int *members = &groups.members[groups.starts[g]];
        int        size = groups.starts[g + 1] - groups.starts[g];
        if (!reduce_group(me, &all, members, size))
            return false;
    }
    for (int i = 0; i < count; i++)
        hand_up(me, out[i]);
    return true;
}

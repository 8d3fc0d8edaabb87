/* comm.reduce_add and comm.reduce_add_coalesced: what lies on several devices, added up on one. */
#include "parallel/comm.h"

#include "autograd/call.h"
#include "sched/stage.h"

#include <stdio.h>

/* ---- one tensor of each device ---- */

/* The last of the tensors on `destination`; -1: failed. */
static int
root_of(struct task *me, struct tensor *const *tensors, int count, int destination)
{
    char name[24];
    for (int d = count - 1; d >= 0; d--)
        if (tensor_device(tensors[d]) == destination)
            return d;
    comm_device_name(destination, name);
    failed(me, E_RUNTIME, "reduce_add expects destination to be on the same device with one of the tensors, "
           "but none of them is on %s", name);
    return -1;
}

static void
print_sizes(const struct tensor *tensor, char out[TENSOR_DIMS * 21 + 1])
{
    out[0] = '\0';
    for (int d = 0, used = 0; d < tensor->dims; d++)
        used += snprintf(out + used, (size_t)(TENSOR_DIMS * 21 + 1 - used), "%s%lld", d > 0 ? "x" : "",
                         (long long)tensor->size[d]);
}

/* Tensor number `index` can be added to the first one. */
static bool
can_be_added(struct task *me, const struct tensor *first, const struct tensor *tensor, int index)
{
    char got[TENSOR_DIMS * 21 + 1], expected[TENSOR_DIMS * 21 + 1];
    if (tensor_device(tensor) == DEVICE_CPU)
        return failed(me, E_ASSERTION, "reduce_add expects all inputs to be on devices, but input %d is on the cpu",
                      index);
    if (tensor_same_shape(first, tensor))
        return true;
    print_sizes(tensor, got);
    print_sizes(first, expected);
    return failed(me, E_VALUE, "input %d has invalid size: got %s, but expected %s", index, got, expected);
}

static struct tensor *
added(struct task *me, struct tensor *sum, struct tensor *root, struct tensor *other)
{
    if (tensor_is_sparse(root) || tensor_is_sparse(other))
        return tensor_add(me, sum != NULL ? sum : root, other);
    const struct op_args args = { .in = { sum != NULL ? sum : root, other }, .out = sum, .alpha = 1 };
    return op_run(me, OP_add, &args);
}

/* (root + others[0]) in a new tensor, then += others[1] ... in the order of the replicas: floating-point sums depend
 * on it. Each is brought to the root's device first. */
static struct tensor *
sum_on(struct task *me, struct tensor *const *tensors, int count, int root)
{
    struct tensor *sum = NULL;
    for (int d = 0; d < count; d++) {
        if (d == root)
            continue;
        size_t         mark = scope_mark(me);
        struct tensor *other = comm_copy_to(me, tensors[d], tensor_device(tensors[root]));
        struct tensor *result = other != NULL ? added(me, sum, tensors[root], other) : NULL;
        if (result == NULL)
            return NULL;
        if (result != sum)
            hand_up(me, result);
        sum = result;
        scope_release(me, mark);     /* the copy that was brought here */
    }
    return sum != NULL ? sum : tensors[root];
}

struct tensor *
comm_reduce_add(struct task *me, struct tensor *const *tensors, int count, int destination)
{
    if (count < 1)
        return failed_null(me, E_VALUE, "reduce_add expects at least one tensor");
    for (int i = 0; i < count; i++)
        if (!can_be_added(me, tensors[0], tensors[i], i))
            return NULL;
    int root = root_of(me, tensors, count, destination);
    return root < 0 ? NULL : sum_on(me, tensors, count, root);
}

/* ---- many of each ---- */

/* What the devices have at place `at`: one tensor of each. */
static void
column_of(const struct coalesced *given, int at, struct tensor **column)
{
    for (int d = 0; d < given->devices.count; d++)
        column[d] = given->tensors[d * given->count + at];
}

/* The dense ones of all devices, and which places they come from. A place that is sparse on all devices is summed here:
 * its tensors may have other rows on each. One that is sparse on some is made dense. */
struct dense_part { struct coalesced given; struct tensor **tensors; int *places, count; };

static bool
sum_sparse(struct task *me, const struct coalesced *given, int destination, struct tensor **column,
           struct dense_part *dense, struct tensor **out)
{
    const int devices = given->devices.count;
    for (int i = 0; i < given->count; i++) {
        int sparse = 0;
        column_of(given, i, column);
        for (int d = 0; d < devices; d++)
            sparse += tensor_is_sparse(column[d]);
        if (sparse == devices) {
            out[i] = comm_reduce_add(me, column, devices, destination);
            if (out[i] == NULL)
                return false;
            continue;
        }
        for (int d = 0; d < devices; d++) {
            struct tensor *whole = tensor_to_dense(me, column[d]);
            if (whole == NULL || !can_be_added(me, column[0], whole, d))
                return false;
            dense->tensors[d * given->count + dense->count] = whole;
        }
        dense->places[dense->count++] = i;
    }
    return true;
}

/* Sums what is sparse and gathers what is dense: device by device, without gaps. */
static bool
split_by_layout(struct task *me, const struct coalesced *given, int destination,
                struct dense_part *dense, struct tensor **out)
{
    const size_t    total = (size_t)given->count * (size_t)given->devices.count;
    struct tensor **column = scratch_new(me, (size_t)given->devices.count, sizeof *column);
    dense->tensors = scratch_new(me, total, sizeof *dense->tensors);
    dense->places = scratch_new(me, (size_t)given->count, sizeof *dense->places);
    if (column == NULL || dense->tensors == NULL || dense->places == NULL)
        return false;
    bool recorded = grad_enabled(me);
    grad_set_enabled(me, false);
    bool done = sum_sparse(me, given, destination, column, dense, out);
    grad_set_enabled(me, recorded);
    for (int d = 1; d < given->devices.count && dense->count < given->count; d++)
        for (int i = 0; i < dense->count; i++)
            dense->tensors[d * dense->count + i] = dense->tensors[d * given->count + i];
    dense->given = *given;
    dense->given.tensors = dense->tensors;
    dense->given.count = dense->count;
    return done;
}

static bool
reduce_group(struct task *me, const struct coalesced *given, const struct comm_groups *groups, int g, int destination,
             struct tensor **out)
{
    struct flat_members members;
    const int           devices = given->devices.count;
    const size_t        mark = scope_mark(me);
    struct tensor     **flat = scratch_new(me, (size_t)devices, sizeof *flat);
    if (flat == NULL)
        return false;
    for (int d = 0; d < devices; d++) {
        members = comm_members(given, groups, g, d);
        flat[d] = flat_joined(me, &members);
        if (flat[d] == NULL)
            return false;
    }
    int            root = root_of(me, flat, devices, destination);
    struct tensor *sum = root < 0 ? NULL : sum_on(me, flat, devices, root);
    members = comm_members(given, groups, g, 0);
    bool done = sum != NULL && comm_unflatten(me, sum, &members, out);
    for (int i = 0; i < members.count && done; i++)
        hand_up(me, out[members.indices[i]]);
    scope_release(me, mark);     /* the buffers of this group */
    return done;
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
    tensor_announce_all(me, given->tensors, given->count * devices.count, "part");
    STAGE(me, dp_reduce_add_coalesced, given->count, devices.count, bytes, destination);
    struct dense_part  dense = { .count = 0 };
    struct comm_groups groups;
    struct tensor    **sums = scratch_new(me, (size_t)given->count, sizeof *sums);
    if (sums == NULL || !split_by_layout(me, given, destination, &dense, out) ||
        !comm_group(me, &dense.given, COMM_REDUCE, &groups))
        return false;

    for (int g = 0; g < groups.count; g++)
        if (!reduce_group(me, &dense.given, &groups, g, destination, sums))
            return false;
    for (int i = 0; i < dense.count; i++)
        out[dense.places[i]] = sums[i];
    for (int i = 0; i < given->count; i++)
        hand_up(me, out[i]);
    tensor_announce_all(me, out, given->count, "sum");
    return true;
}

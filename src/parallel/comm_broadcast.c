/* comm.broadcast and comm.broadcast_coalesced: the same tensors to all devices. */
#include "parallel/comm.h"

#include "autograd/history.h"
#include "base/str.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- one tensor ---- */

bool
comm_broadcast(struct task *me, struct tensor *tensor, struct device_list devices, struct tensor **out)
{
    for (int d = 0; d < devices.count; d++) {
        if (devices.ids[d] == DEVICE_CPU)
            return failed(me, E_RUNTIME, "Expected non-negative device index, but devices[%d] is the cpu", d);
        out[d] = comm_copy_to(me, tensor, devices.ids[d]);
        if (out[d] == NULL)
            return false;
    }
    return true;
}

/* All must be fit to take it before the first one does. */
static bool
can_take(struct task *me, const struct tensor *tensor, struct tensor *out, int index)
{
    if (tensor_device(out) == DEVICE_CPU)
        return failed(me, E_RUNTIME, "Expected all output tensors to be on devices, but output tensor at index %d is "
                      "on the cpu", index);
    if (tensor_same_shape(tensor, out))
        return inplace_allowed(me, out);
    struct str source = { 0 }, other = { 0 };
    shape_print(tensor->dims, tensor->size, &source);
    shape_print(out->dims, out->size, &other);
    failed(me, E_RUNTIME, "Expected all output tensors to have same shape as the source tensor %s, but output tensor "
           "at index %d has shape %s", str_text(&source), index, str_text(&other));
    str_free(&source);
    str_free(&other);
    return false;
}

bool
comm_broadcast_into(struct task *me, struct tensor *tensor, struct tensor *const *out, int count)
{
    for (int i = 0; i < count; i++)
        if (!can_take(me, tensor, out[i], i))
            return false;
    for (int i = 0; i < count; i++) {
        if (!tensor_copy(me, out[i], tensor))
            return false;
        tensor_bump(out[i]);
    }
    return true;
}

/* ---- many ---- */

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

/* One buffer to every device but the first: one transfer each, cut into tensors like the members. */
static bool
broadcast_flat(struct task *me, const struct coalesced *given, struct tensor *flat, const struct flat_members *members,
               struct tensor **out)
{
    for (int d = 1; d < given->devices.count; d++) {
        struct tensor *copy = tensor_to_async(me, flat, given->devices.ids[d], flat->dtype);
        if (copy == flat)      /* a device that is listed twice has a copy of its own all the same */
            copy = tensor_clone(me, flat);
        if (copy == NULL || !comm_unflatten(me, copy, members, out + (size_t)d * (size_t)given->count))
            return false;
    }
    return true;
}

/* Sparse ones travel as two buffers: the numbers of all rows, and the rows. */
static bool
broadcast_sparse(struct task *me, const struct coalesced *given, const struct flat_members *members,
                 struct tensor **out)
{
    const size_t     total = (size_t)given->count * (size_t)given->devices.count;
    struct tensor  **parts[2], **copies[2];
    for (int part = 0; part < 2; part++) {
        parts[part] = scratch_new(me, (size_t)given->count, sizeof(struct tensor *));
        copies[part] = scratch_new(me, total, sizeof(struct tensor *));
        if (parts[part] == NULL || copies[part] == NULL)
            return false;
        for (int i = 0; i < members->count; i++) {
            const struct tensor *tensor = members->tensors[members->indices[i]];
            parts[part][members->indices[i]] = part == 0 ? tensor->indices : tensor->values;
        }
        const struct flat_members of = { parts[part], members->indices, members->count };
        struct tensor            *flat = flat_joined(me, &of);
        if (flat == NULL || !broadcast_flat(me, given, flat, &of, copies[part]))
            return false;
    }
    for (int d = 1; d < given->devices.count; d++) {
        for (int i = 0; i < members->count; i++) {
            const struct tensor *like = members->tensors[members->indices[i]];
            const size_t         at = (size_t)d * (size_t)given->count + (size_t)members->indices[i];
            out[at] = tensor_sparse(me, like->size[0], copies[0][at], copies[1][at]);
            if (out[at] == NULL)
                return false;
            out[at]->coalesced = like->coalesced;
        }
    }
    return true;
}

/* Of the group only what it made stays: the buffer that it was sent from goes at once. */
static bool
broadcast_group(struct task *me, const struct coalesced *given, const struct flat_members *members,
                struct tensor **out)
{
    const size_t   mark = scope_mark(me);
    const bool     sparse = tensor_is_sparse(members->tensors[members->indices[0]]);
    struct tensor *flat = sparse ? NULL : flat_joined(me, members);
    bool done = sparse ? broadcast_sparse(me, given, members, out)
                       : flat != NULL && broadcast_flat(me, given, flat, members, out);
    for (int d = 1; d < given->devices.count && done; d++)
        for (int i = 0; i < members->count; i++)
            hand_up(me, out[d * given->count + members->indices[i]]);
    scope_release(me, mark);
    return done;
}

/* What each device got: the first none, for the tensors lie there and are its own. */
static void
broadcast_copy(struct task *me, const struct coalesced *given, int64_t bytes, struct tensor **out)
{
    const struct device_list devices = given->devices;
    for (int d = 0; d < devices.count; d++) {
        tensor_announce_all(me, d == 0 ? given->tensors : out + (size_t)d * (size_t)given->count,
                            given->count, d == 0 ? "original" : "copy");
        POINT_ON(me, devices.ids[d], dp_replicate_copy, devices.ids[d], d == 0 ? 0 : bytes, d == 0);
    }
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
    tensor_announce_all(me, given->tensors, given->count, "tensor");
    STAGE(me, dp_broadcast_coalesced, given->count, devices.count, bytes * copies);
    struct comm_groups groups;
    if (!all_lie_on(me, given->tensors, given->count, devices.ids[0]) ||
        !comm_group(me, given, COMM_BROADCAST, &groups))
        return false;
    stage_set(&stage_, 3, groups.count);

    for (int i = 0; i < given->count; i++)
        out[i] = given->tensors[i];
    for (int g = 0; g < groups.count && devices.count > 1; g++) {
        struct flat_members members = comm_members(given, &groups, g, 0);
        if (!broadcast_group(me, given, &members, out))
            return false;
    }
    if (given->count > 0)
        broadcast_copy(me, given, bytes, out);
    for (int i = given->count; i < given->count * devices.count; i++)
        hand_up(me, out[i]);
    return true;
}


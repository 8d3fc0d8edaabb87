/* Back-ends that move elements by the host, and tensors of real devices: the host finds their elements in mirrors
 * (device/real.h), fetched before a collective runs and stored when it is over. Virtual devices, whose memory is the
 * host's, take no part, nor do calls of which the back-end says that they stay on the devices.
 *
 * Interface: mirrored_await, mirrored_move (mirrored_run for a function of the caller's choice, mirrored_around
 * whatever the back-end and the call); mirrored_post before a post, mirrored_send and mirrored_received around its
 * message.
 *
 * In PyTorch: the staging of ProcessGroupGloo's AsyncAllreduceCUDAWork and its like. */
#include "c10d/internal.h"
#include "device/real.h"
#include "device/stream.h"

static struct access
access_of(const struct tensor *tensor)
{
    uint64_t begin = (uint64_t)tensor->offset * dtype_size(tensor->dtype);
    return (struct access){ .storage = tensor->storage, .begin = begin,
                            .end = begin + (uint64_t)tensor_bytes(tensor) };
}

static bool
fetched(struct task *me, const struct tensor *tensor)
{
    struct access access = tensor != NULL ? access_of(tensor) : (struct access){ 0 };
    return tensor == NULL || mirror_fetch(me, &access);
}

static bool
stored(struct task *me, const struct tensor *tensor)
{
    struct access access = tensor != NULL ? access_of(tensor) : (struct access){ 0 };
    return tensor == NULL || mirror_store(me, &access);
}

static bool
all_of(struct task *me, struct tensor *const *tensors, int count,
       bool (*each)(struct task *me, const struct tensor *tensor))
{
    bool ok = true;
    for (int i = 0; tensors != NULL && i < count && ok; i++)
        ok = each(me, tensors[i]);
    return ok;
}

/* Who moves elements of devices has streams, which wait by themselves: the host goes on. */
bool
mirrored_await(struct task *me, struct work *work)
{
    bool by_stream   = work->on_device && work->group->world->backend->on_devices;
    work->call.ready = by_stream ? work->event : NULL;
    return !work->on_device || by_stream || event_synchronize(me, work->event);
}

bool
mirrored_around(struct task *me, const struct collective *call,
                bool (*run)(struct task *me, const struct collective *call))
{
    return fetched(me, call->tensor) && fetched(me, call->gathered) && all_of(me, call->inputs, call->ranks, fetched) &&
           all_of(me, call->outputs, call->ranks, fetched) && run(me, call) && stored(me, call->tensor) &&
           stored(me, call->gathered) && all_of(me, call->outputs, call->ranks, stored);
}

bool
mirrored_run(struct task *me, const struct collective *call,
             bool (*run)(struct task *me, const struct collective *call))
{
    if (!devices_are_real(me->sched) || call->work->group->world->backend->stays(me, call))
        return run(me, call);
    return mirrored_around(me, call, run);
}

/* What the back-end does for it; NULL: it is no collective. */
static bool
(*move_of(const struct group_backend *backend, enum operation operation))(struct task *, const struct collective *)
{
    switch (operation) {
    case OPERATION_ALL_REDUCE: return backend->all_reduce;
    case OPERATION_BROADCAST: return backend->broadcast;
    case OPERATION_REDUCE: return backend->reduce;
    case OPERATION_ALL_GATHER: return backend->all_gather;
    case OPERATION_GATHER: return backend->gather;
    case OPERATION_SCATTER: return backend->scatter;
    case OPERATION_REDUCE_SCATTER: return backend->reduce_scatter;
    case OPERATION_ALL_TO_ALL: return backend->all_to_all;
    case OPERATION_BARRIER: return backend->barrier;
    case OPERATION_SEND:
    case OPERATION_RECV: break;
    }
    return NULL;
}

bool
mirrored_move(struct task *me, const struct collective *call)
{
    const struct group_backend *backend = call->work->group->world->backend;
    bool (*move)(struct task *, const struct collective *) = move_of(backend, call->operation);
    return move != NULL ? mirrored_run(me, call, move)
                        : failed(me, E_RUNTIME, "%s is no collective", operation_name(call->operation));
}

static bool
takes_part(const struct task *me, const struct post *post)
{
    return devices_are_real(me->sched) && !post->group->world->backend->on_devices && tensor_bytes(post->tensor) > 0;
}

/* Before the other end can find it. */
bool
mirrored_post(struct task *me, const struct post *post)
{
    struct access access = access_of(post->tensor);
    return !takes_part(me, post) || mirror_make(me, &access);
}

bool
mirrored_send(struct task *me, const struct post *post)
{
    return !post->is_send || !takes_part(me, post) ||
           ((post->event == NULL || event_synchronize(me, post->event)) && fetched(me, post->tensor));
}

bool
mirrored_received(struct task *me, const struct post *post)
{
    return post->is_send || !takes_part(me, post) || stored(me, post->tensor);
}

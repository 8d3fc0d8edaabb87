/* Back-ends that move elements by the host, and tensors of real devices: the host finds their elements in mirrors
 * (device/real.h), fetched before a collective runs and stored when it is over. Virtual devices, whose memory is the
 * host's, take no part, nor do all-reduces that a GPU does by itself (fused.c).
 *
 * Interface: mirrored_run, mirrored_around; mirrored_post before a post, mirrored_send and mirrored_received around its
 * message.
 *
 * In PyTorch: the staging of ProcessGroupGloo's AsyncAllreduceCUDAWork and its like. */
#include "c10d/internal.h"
#include "c10d/local.h"
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
    if (!devices_are_real(me->sched) || call->work->group->world->backend->on_devices || fused_takes(me, call))
        return run(me, call);
    return mirrored_around(me, call, run);
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

/* The all-reduce of ranks whose devices are one GPU, in `free`: by its kernel instead of by the host. Ranks meet as in
 * shared.c: each shows where its tensor lies on the GPU; when all have, rank r adds up chunk r of all tensors in one
 * kernel of its own stream and stores the result in all of them; when all have waited for theirs, it is over. Chunks
 * and the order of additions are Gloo's ring's, here too, so the bits are the host's.
 *
 * All ranks decide alike: local_stays asks what is equal on all of them, and whether the tensors lie on devices is
 * known to all once they have met. If one does not, each fetches its own, and the host does it.
 *
 * Interface: fused_is_possible, fused_run. In PyTorch: symmetric memory's one-shot and two-shot kernels
 * (torch/csrc/distributed/c10d/symm_mem). */
#include <stdio.h>
#include "c10d/local.h"
#include "c10d/internal.h"
#include "device/device.h"
#include "device/real.h"
#include "device/stream.h"
#include "sched/account.h"
#include "sched/stage.h"
#include "tensor/cpu/elements.h"

_Static_assert(sizeof(struct all_reduce_job) <= STREAM_CONTEXT, "a job fits into an entry");

bool
fused_is_possible(struct task *me)
{
    int count = device_count(me);
    if (sched_is_stepped(me->sched) || count == 0 || !devices_are_real(me->sched))
        return false;
    for (int device = 1; device < count; device++)
        if (!devices_share(me->sched, 0, device))
            return false;
    return true;
}

/* ---- my chunk ---- */

static struct all_reduce_job
fused_job(const struct collective *call, struct shared *shared)
{
    int64_t element = call->bytes / call->elements, chunk = gloo_chunk(call) * element;
    int64_t begin = chunk * call->rank, end = begin + chunk < call->bytes ? begin + chunk : call->bytes;
    enum reduce_op        op  = call->options.op;
    struct all_reduce_job job = { .op = (int)op, .dtype = call->tensor->dtype, .ranks = call->ranks,
                                  .bytes = begin < end ? (size_t)(end - begin) : 0, .factor = call->options.factor };
    job.work = op == REDUCE_AVG ? ELEMENTS_AVERAGE : op == REDUCE_PREMUL_SUM ? ELEMENTS_MULTIPLY : ELEMENTS_REDUCE;
    if (job.work != ELEMENTS_REDUCE)
        job.op = (int)REDUCE_SUM;
    for (int step = 1; step <= call->ranks; step++)
        job.data[step - 1] = shared_shown(shared, (call->rank - step + call->ranks) % call->ranks)->data + begin;
    return job;
}

/* One for all calls of a rank, on the first device that it came with: any of them sees the memory of all. Its name
 * makes it urgent. */
static struct stream *
fused_stream(struct task *me, const struct collective *call, struct shown *own)
{
    char name[32];
    int  device = tensor_device(call->tensor);
    snprintf(name, sizeof name, "device:%d comm", device);
    if (own->stream == NULL)
        own->stream = stream_new(me, device, name);
    return own->stream;
}

/* What others see meanwhile is theirs to name: their works keep it. */
static bool
fused_reduce(struct task *me, const struct collective *call, struct shared *shared)
{
    struct all_reduce_job job    = fused_job(call, shared);
    struct stream        *stream = job.bytes > 0 ? fused_stream(me, call, shared_shown(shared, call->rank)) : NULL;
    struct stream_entry   entry  = {
        .kind = KIND_kernel, .args = { stage_name_id(me, "all_reduce"), call->tensor->storage->number,
                                       (int64_t)job.bytes },
        .enqueue = all_reduce_queue, .context = &job, .context_bytes = sizeof job,
    };
    return job.bytes == 0 ||
           (stream != NULL && stream_launch(me, stream, &entry) && stream_synchronize(me, stream));
}

/* ---- all ---- */

static bool
all_lie_on_devices(const struct collective *call, struct shared *shared)
{
    bool all = true;
    for (int rank = 0; rank < call->ranks; rank++)
        all = all && shared_shown(shared, rank)->on_device;
    return all;
}

static void
fused_tell(struct task *me, struct tensor *tensor, char *data)
{
    struct storage_content content = { (int)tensor->dtype, tensor->dims, tensor->size, data, NULL };
    tensor_bump(tensor);
    storage_snapshot(me, tensor->storage, &content);
}

bool
fused_run(struct task *me, const struct collective *call,
          bool (*by_host)(struct task *me, const struct collective *call))
{
    struct tensor *tensor = call->tensor;
    struct shown   mine   = { (char *)tensor->storage->data + (size_t)tensor->offset * dtype_size(tensor->dtype),
                              tensor_device(tensor) != DEVICE_CPU, NULL };
    struct shared *shared = task_work(me, (uint64_t)call->bytes / WORK_BYTES) ? shared_show(me, call, &mine) : NULL;
    if (shared == NULL)
        return false;
    bool by_kernel = all_lie_on_devices(call, shared);
    bool done      = by_kernel && fused_reduce(me, call, shared);
    if (!shared_done(me, call, shared))      /* also who failed comes: the others are in his memory */
        return false;
    if (!by_kernel)
        return mirrored_around(me, call, by_host);
    if (done)
        fused_tell(me, tensor, mine.data);
    return done && !task_failed(me);
}

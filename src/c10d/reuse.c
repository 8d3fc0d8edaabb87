/* Buffers in use: from isend or irecv until its wait the host must leave the tensor alone, for the message is taken
 * from it, or put into it, at some moment between. Who changes it is told once, and gets what an unbuffered transfer
 * moves. A tensor's version tells that it was changed; where views share it, and with it their own messages, the
 * elements decide. Order of use: reuse_watch when it is posted, reuse_moved when the message has, reuse_check at the
 * wait. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "c10d/internal.h"
#include "sched/stage.h"

static uint64_t
elements_checksum(const struct tensor *tensor)
{
    const char *data = tensor->storage->data;
    size_t      size = (size_t)tensor_bytes(tensor), whole = size / sizeof(uint64_t);
    uint64_t    sum  = hash_bytes(0, NULL, 0);
    if (data == NULL || size == 0)
        return sum;
    data += (size_t)tensor->offset * dtype_size(tensor->dtype);
    for (size_t i = 0; i < whole; i++) {
        uint64_t word;
        memcpy(&word, data + i * sizeof word, sizeof word);
        sum = (sum ^ word) * 1099511628211u;
        sum ^= sum >> 29;
    }
    return hash_bytes(sum, data + whole * sizeof(uint64_t), size % sizeof(uint64_t));
}

/* What lies on a device is not looked at: what launches write there is ordered by streams. */
void
reuse_watch(struct work *work)
{
    const struct tensor *tensor = work->call.tensor;
    work->post.version     = tensor_version(tensor);
    work->version_is_alone = atomic_load(&tensor->version->references) == 1;
    if (!work->version_is_alone && tensor_device(tensor) < 0)
        work->checksum = elements_checksum(tensor);
}

static bool
was_changed(const struct work *work)
{
    const struct tensor *tensor = work->call.tensor;
    if (tensor_version(tensor) == work->post.version)
        return false;
    return work->version_is_alone || (tensor_device(tensor) < 0 && elements_checksum(tensor) != work->checksum);
}

enum { REPORT = 240 };

static void
reuse_report(const struct work *work, char *out)
{
    const struct post *post = &work->post;
    snprintf(out, REPORT, "rank %d changed the tensor of its %s %s rank %d (line %" PRIu32 ") before it waited for "
             "that: call wait() first, or what %s depends on the moment", work->group->global_rank, post->name,
             post->is_send ? "to" : "from", process_group_global_rank(work->group, post->peer), work->line,
             post->is_send ? "arrives" : "stays");
}

/* The host changed a tensor that was being sent or filled. */
static void
reuse_announce(struct task *me, const struct work *work, const char *report)
{
    int64_t text = stage_text_id(me, report);
    int     peer = process_group_global_rank(work->group, work->post.peer);
    POINT(me, fault_buffer_reuse, work->call.tensor->storage->number, peer, work->line, text);
}

static void
reuse_tell(struct task *me, struct work *work)
{
    char report[REPORT];
    reuse_report(work, report);
    work->reuse_told = true;
    reuse_announce(me, work, report);
}

static void
reuse_find(struct task *me, struct work *work)
{
    if (work->call.tensor != NULL && !work->reuse_told && was_changed(work))
        reuse_tell(me, work);
}

/* Who waits is in a script and can warn; the task of an isend is in none. */
void
reuse_check(struct task *me, struct work *work)
{
    char report[REPORT];
    reuse_find(me, work);
    if (!work->reuse_told || work->reuse_warned)
        return;
    work->reuse_warned = true;
    reuse_report(work, report);
    task_warn(me, report);
}

/* A message that has come counts as one change: by us. */
void
reuse_moved(struct task *me, struct work *work)
{
    if (work->post.is_send) {
        reuse_find(me, work);
        return;
    }
    bool touched = work->version_is_alone && tensor_version(work->call.tensor) != work->post.version + 1;
    reuse_watch(work);
    if (touched && !work->reuse_told)
        reuse_tell(me, work);
}

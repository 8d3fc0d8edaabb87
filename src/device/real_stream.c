/* Streams of real devices behind the same streams and events as virtual ones.
 *
 * * In `free` an entry is queued on the real stream when it is launched, waits are waits of streams, and the host
 * waits by looking at marks. How far a stream has come is known from marks, one behind every few entries: the pool
 * hands memory that other streams were recorded for out again once they are past. In `stepped` the order and the
 * time of entries are those of virtual devices; when one's time has come it is done, and waited for, so that a
 * snapshot sees what it did.
 *
 * * Interface in order of use: real_stream_open; real_launch or real_run; real_record, real_wait, real_await,
 * real_finish; real_stream_close. In PyTorch: c10/cuda/CUDAStream.cpp, ATen/cuda/CUDAEvent.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "device/queue.h"
#include "device/real.h"
#include "device/stream_internal.h"
#include "device/timeline.h"
#include "sched/account.h"

/* Marks behind entries of a stream; under its mutex. */
enum { MARKS = 16, MARK_EACH = 8 };
struct real_marks {
    struct { struct backend_mark *mark; uint64_t sequence; } at[MARKS];
    unsigned first, count;
    uint64_t last;                    /* the sequence of the last one */
};

bool
real_stream_open(struct task *me, struct stream *stream)
{
    struct devices    *devices = stream->devices;
    struct backend_why why     = { 0 };
    if (devices->real == NULL)
        return true;
    bool urgent = strstr(stream->name, "comm") != NULL;
    stream->marks = calloc(1, sizeof *stream->marks);
    stream->fault = devices->backend->pinned(sizeof *stream->fault, &why);
    stream->real  = stream->marks != NULL && stream->fault != NULL
                        ? devices->backend->stream(real_device_of(devices, stream->device), urgent, &why) : NULL;
    if (stream->fault != NULL)
        memset(stream->fault, 0, sizeof *stream->fault);
    struct timeline *timeline = stream->real != NULL ? real_timeline(devices) : NULL;
    stream->timeline = timeline_lane_new(me, timeline, stream->lane, stream->real);
    if (stream->real != NULL && (timeline == NULL || stream->timeline != NULL))
        return true;
    real_stream_close(stream);
    if (task_failed(me))
        return false;
    return why.trouble != TROUBLE_NONE ? trouble_told(me, &why) : failed(me, E_MEMORY, "out of memory for a stream");
}

void
real_stream_close(struct stream *stream)
{
    const struct device_backend *backend = stream->devices->backend;
    if (stream->devices->real == NULL)
        return;
    bool closes = !real_was_left(stream->devices);
    if (stream->real != NULL && closes)
        backend->stream_close(stream->real);
    for (unsigned i = 0; stream->marks != NULL && closes && i < MARKS; i++)
        if (stream->marks->at[i].mark != NULL)
            backend->mark_free(stream->marks->at[i].mark);
    if (stream->fault != NULL && stream->fault != &stream->own_fault && closes)
        backend->pinned_give(stream->fault, sizeof *stream->fault);
    free(stream->marks);
    stream->fault = &stream->own_fault;
    stream->real  = NULL;
    stream->marks = NULL;
}

struct backend_stream *
stream_backend(struct stream *stream)
{
    return stream->real;
}

static struct backend_device *
device_behind(const struct stream *stream)
{
    return real_device_of(stream->devices, stream->device);
}

/* The next three: under the stream's mutex. */

static void
progress_reaches(struct stream *stream, uint64_t sequence)
{
    if (stream->progress.done < sequence)
        __atomic_store_n(&stream->progress.done, sequence, __ATOMIC_RELEASE);
}

/* false: the device says that something failed. */
static bool
marks_look(struct stream *stream, struct backend_why *why)
{
    struct real_marks *marks = stream->marks;
    while (marks->count > 0) {
        int past = stream->devices->backend->is_past(marks->at[marks->first].mark, why);
        if (past <= 0)
            return past == 0;
        progress_reaches(stream, marks->at[marks->first].sequence);
        marks->first = (marks->first + 1) % MARKS;
        marks->count--;
    }
    return true;
}

/* Behind what was launched so far. Where all marks are under way the next one stands for this, too. */
static bool
marks_put(struct stream *stream, struct backend_why *why)
{
    const struct device_backend *backend = stream->devices->backend;
    struct real_marks           *marks   = stream->marks;
    unsigned                     place   = (marks->first + marks->count) % MARKS;
    if (marks->last == stream->progress.launched || (marks->count == MARKS && !marks_look(stream, why)))
        return marks->last == stream->progress.launched;
    if (marks->count == MARKS)
        return true;
    place = (marks->first + marks->count) % MARKS;
    if (marks->at[place].mark == NULL)
        marks->at[place].mark = backend->mark(device_behind(stream), why);
    if (marks->at[place].mark == NULL || !backend->put(marks->at[place].mark, stream->real, why))
        return false;
    marks->at[place].sequence = marks->last = stream->progress.launched;
    marks->count++;
    return true;
}

static bool
entry_queue(struct stream *stream, struct queued *queued, uint64_t ticket, struct backend_why *why)
{
    const struct device_queue queue = { stream->devices->backend, stream->real, stream->device, ticket, why,
                                        &queued->by_host };
    if (queued->entry.enqueue != NULL)
        return queued->entry.enqueue(&queue, queued->context);
    if (queued->entry.effect == NULL)
        return true;
    why->trouble = TROUBLE_FAILED;
    snprintf(why->text, sizeof why->text, "%s has nothing that a real device could do", stream->name);
    return false;
}

/* Host memory that the entry uses is not handed out again before it is through. */
static bool
keep_staging(struct task *me, struct stream *stream, const struct stream_entry *entry)
{
    struct cache *pinned = real_hidden_cache(stream->devices, DEVICE_CPU);
    for (int i = 0; i < entry->access_count; i++) {
        const struct storage *storage = entry->accesses[i].storage;
        if (storage->device != DEVICE_CPU || storage->block == NULL)
            continue;
        if (!cache_record(pinned, storage->block, stream->number + 1, &stream->progress))
            return memory_failed(me, sizeof *storage, "the host");
    }
    return true;
}

/* The next two: under the stream's mutex. Its times are noted once, however often it is tried. */
static bool
launch_once(struct task *me, struct stream *stream, struct queued *queued, uint64_t *ticket, struct backend_why *why)
{
    if (!keep_staging(me, stream, &queued->entry))
        return false;
    struct lane_event what = event_of(stream, queued, PHASE_BEGIN, 0);
    what.kind = queued->entry.kind;
    if (*ticket == 0)
        *ticket = timeline_note(me, stream->timeline, &what);
    bool ok = entry_queue(stream, queued, *ticket, why);
    __atomic_store_n(&stream->progress.launched, stream->progress.launched + 1, __ATOMIC_RELEASE);
    if (queued->by_host != NULL)
        real_tell_host(me, stream->devices, queued->by_host);
    return ok;
}

static bool
marks_follow(struct stream *stream, struct backend_why *why)
{
    return stream->progress.launched - stream->marks->last < MARK_EACH ||
           (marks_put(stream, why) && marks_look(stream, why));
}

bool
real_run(struct stream *stream, struct queued *queued, struct backend_why *why)
{
    return entry_queue(stream, queued, 0, why) &&
           stream->devices->backend->finish(stream->real, why);
}

/* ---- events ---- */

static bool
mark_ready(struct task *me, struct stream *stream, struct event *event)
{
    struct backend_why why = { 0 };
    if (event->mark != NULL && event->mark_device == stream->device)
        return true;
    real_mark_free(stream->devices, event);
    event->mark        = stream->devices->backend->mark(device_behind(stream), &why);
    event->mark_device = stream->device;
    return event->mark != NULL || trouble_told(me, &why);
}

bool
real_record(struct task *me, struct stream *stream, struct event *event)
{
    struct backend_why why = { 0 };
    return mark_ready(me, stream, event) &&
           (stream->devices->backend->put(event->mark, stream->real, &why) || trouble_told(me, &why));
}

/* The next three: an event whose recording failed in another task has no mark. That task tells of it. */
bool
real_wait(struct task *me, struct stream *stream, const struct event *event)
{
    struct backend_why why = { 0 };
    return event->mark == NULL || stream->devices->backend->wait(stream->real, event->mark, &why) ||
           trouble_told(me, &why);
}

void
real_mark_free(struct devices *devices, struct event *event)
{
    if (event->mark != NULL && devices->backend != NULL)
        devices->backend->mark_free(event->mark);
    event->mark = NULL;
}

/* Most waits are short: the device is asked again and again, then now and then. */
enum { ASKED_AT_ONCE = 2000, POLL_PS = 20 * 1000 * 1000 };

static bool
await(struct task *me, bool (*is_over)(struct stream *stream, const void *what, int *answer, struct backend_why *why),
      struct stream *stream, const void *what)
{
    const struct wait_reason reason = { .what = "a stream of a device", .sequence = -1, .peer = -1 };
    const uint64_t           limit = sched_timeout(me->sched), begin = sched_now(me);
    struct backend_why       why = { 0 };
    int                      answer = 0;
    for (int i = 0;; i++) {
        if (!is_over(stream, what, &answer, &why))
            return trouble_told(me, &why);
        if (answer == 1)
            return true;
        if (i >= ASKED_AT_ONCE && !sched_poll(me, POLL_PS, &reason))
            return false;
        if (i < ASKED_AT_ONCE || sched_now(me) - begin < limit)
            continue;
        real_leave(stream->devices);
        return failed(me, E_TIMEOUT, "timed out after %.9g s: %s has not done what was launched",
                      (double)limit / 1e12, stream->name);
    }
}

static bool
is_mark_past(struct stream *stream, const void *what, int *answer, struct backend_why *why)
{
    const struct event *event = what;
    *answer = stream->devices->backend->is_past(event->mark, why);
    return *answer >= 0;
}

bool
real_await(struct task *me, const struct event *event)
{
    if (event->mark == NULL)
        return true;
    if (!await(me, is_mark_past, event->stream, event))
        return false;
    pthread_mutex_lock(&event->stream->mutex);
    progress_reaches(event->stream, event->sequence);
    pthread_mutex_unlock(&event->stream->mutex);
    return true;
}

bool
real_is_past(struct task *me, const struct event *event)
{
    struct backend_why why = { 0 };
    int past = event->mark != NULL ? event->stream->devices->backend->is_past(event->mark, &why) : 1;
    return past >= 0 ? past == 1 : trouble_told(me, &why);
}

static bool
is_sequence_done(struct stream *stream, const void *what, int *answer, struct backend_why *why)
{
    const uint64_t *sequence = what;
    pthread_mutex_lock(&stream->mutex);
    bool ok = marks_look(stream, why);
    *answer = stream->progress.done >= *sequence;
    ok      = ok && (*answer == 1 || stream->marks->count > 0 || marks_put(stream, why));
    pthread_mutex_unlock(&stream->mutex);
    return ok;
}

bool
real_finish(struct task *me, struct stream *stream)
{
    struct backend_why why = { 0 };
    pthread_mutex_lock(&stream->mutex);
    uint64_t sequence = stream->progress.launched, ticket = timeline_last(stream->timeline);
    bool     ok       = marks_put(stream, &why);
    pthread_mutex_unlock(&stream->mutex);
    if (!ok)
        return trouble_told(me, &why);
    if (!await(me, is_sequence_done, stream, &sequence))
        return false;
    timeline_passed(stream->timeline, ticket);
    timeline_collect(real_timeline(stream->devices));
    return true;
}

/* All streams: what was queued in any of them is done. */
static bool
real_drain(struct task *me, struct devices *devices)
{
    struct stream *stream = NULL;
    for (size_t i = 0; (stream = stream_numbered(devices, i)) != NULL; i++)
        if (!real_finish(me, stream))
            return false;
    return true;
}

/* What a back-end takes beside our pools (a workspace of its products) may be had once these keep nothing unused. */
bool
real_launch(struct task *me, struct stream *stream, struct queued *queued)
{
    struct backend_why why = { 0 };
    uint64_t           ticket = 0;
    pthread_mutex_lock(&stream->mutex);
    bool is_in = launch_once(me, stream, queued, &ticket, &why), ok = is_in && marks_follow(stream, &why);
    pthread_mutex_unlock(&stream->mutex);
    if (!is_in && why.trouble == TROUBLE_MEMORY && real_drain(me, stream->devices)) {
        real_release(stream->devices);
        pthread_mutex_lock(&stream->mutex);
        ok = launch_once(me, stream, queued, &ticket, &why) && marks_follow(stream, &why);
        pthread_mutex_unlock(&stream->mutex);
    }
    return ok || (!task_failed(me) && trouble_told(me, &why));
}

/* ---- the end ---- */

/* An interrupt has reasons: whoever sent it waits so long. */
enum { LAST_POLL_NS = 200 * 1000 };
static const uint64_t PATIENCE_PS = UINT64_C(5000000000000);

/* false: at that time the device still works on it. What fails is over, too. */
static bool
stream_ends(struct stream *stream, uint64_t until)
{
    struct backend_why why = { 0 };
    for (;;) {
        if (!marks_look(stream, &why) || stream->progress.done >= stream->progress.launched ||
            (stream->marks->count == 0 && !marks_put(stream, &why)))
            return true;
        if (sched_time(stream->devices->sched) >= until)
            return false;
        nanosleep(&(struct timespec){ 0, LAST_POLL_NS }, NULL);
    }
}

/* The run is over: nobody is left to fail. In `stepped` each entry was waited for. */
bool
devices_finish(struct sched *sched, char *text, size_t size)
{
    struct devices *devices = sched_part(sched, PART_DEVICES);
    if (devices == NULL || devices->real == NULL || real_was_left(devices))
        return false;
    uint64_t until = sched_time(sched) + (sched_was_stopped(sched) ? PATIENCE_PS : sched_timeout(sched));
    for (size_t i = 0; i < devices->stream_count && !sched_is_stepped(sched); i++) {
        if (stream_ends(devices->streams[i], until))
            continue;
        real_leave(devices);
        snprintf(text, size, "%s has not done what was launched: this process ends without it",
                 devices->streams[i]->name);
        return true;
    }
    return timeline_finish(real_timeline(devices), text, size);
}

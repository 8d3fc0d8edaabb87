/* Streams: queues of work with a clock of their own.
 *
 * In `stepped` a stream is a source of the scheduler. Its head begins at the latest of three moments: when it was
 * launched, when the entry before it ended, and when what it waits for was done. Its effect on memory happens
 * when it ends; so a host that reads earlier sees the old value. A wait names another stream and how many of that
 * stream's entries must be done (an event is nothing more); it can only name entries that were launched before it,
 * so waits never form a circle and the host's own waiting always finds a stream that gets on.
 *
 * In `free` the work is done inside the launch, under the stream's mutex, and nobody ever waits.
 *
 * The race checker sees launches, not times: launching orders a stream after the host, events order streams,
 * synchronising orders the host.
 *
 * Interface in order of use: stream_current, stream_launch; event_new, stream_record, stream_wait_event;
 * stream_synchronize, event_synchronize, device_synchronize.
 *
 * In PyTorch: c10/cuda/CUDAStream.h, ATen/cuda/CUDAEvent.h. */
#include "device/stream.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/dtype.h"
#include "base/vec.h"
#include "device/stream_internal.h"
#include "hw/cost.h"
#include "sched/account.h"
#include "trace/writer.h"

struct stream *
stream_open(struct task *me, struct devices *devices, int device, const char *name)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || !vec_room(&devices->streams, &devices->stream_room, devices->stream_count + 1,
                                    sizeof *devices->streams)) {
        free(stream);
        return failed_null(me, E_MEMORY, "out of memory for a stream of device:%d", device);
    }
    if (devices->stream_count >= UINT16_MAX || pthread_mutex_init(&stream->mutex, NULL) != 0) {
        free(stream);
        return failed_null(me, E_RUNTIME, "too many streams");
    }
    stream->devices = devices;
    stream->device  = device;
    stream->number  = (int)devices->stream_count;
    snprintf(stream->name, sizeof stream->name, "%s", name);
    if (!sched_actor_new(me->sched, &stream->actor, &me->actor)) {
        pthread_mutex_destroy(&stream->mutex);
        free(stream);
        return failed_null(me, E_MEMORY, "out of memory for a stream of device:%d", device);
    }
    stream->source.tie = (uint64_t)stream->number;
    stream->fault      = &stream->own_fault;
    struct trace_writer *writer = sched_writer(me->sched);
    if (writer != NULL)
        stream->lane = trace_lane(writer, -1, device, LANE_STREAM, stream->name);
    if (!real_stream_open(me, stream)) {
        sched_actor_free(me->sched, &stream->actor, false);
        pthread_mutex_destroy(&stream->mutex);
        free(stream);
        return NULL;
    }
    devices->streams[devices->stream_count++] = stream;
    return stream;
}

struct stream *
stream_new(struct task *me, int device, const char *name)
{
    struct devices *devices = devices_of(me);
    if (devices == NULL || !device_check(me, device))
        return NULL;
    if (device == DEVICE_CPU)
        return failed_null(me, E_DEVICE, "the host has no streams");
    char made[48];
    if (name != NULL)
        snprintf(made, sizeof made, "%s", name);
    else
        snprintf(made, sizeof made, "device:%d stream %zu", device, devices->stream_count);
    pthread_mutex_lock(&devices->mutex);
    struct stream *stream = stream_open(me, devices, device, made);
    pthread_mutex_unlock(&devices->mutex);
    return stream;
}

/* Entries that never ran are let go; their memory is not told to the trace, which is over. */
void
stream_close(struct devices *devices, struct stream *stream)
{
    while (stream->head != NULL) {
        struct queued *entry = stream->head;
        stream->head = entry->next;
        devices->queued--;
        for (int i = 0; i < entry->entry.access_count; i++)
            storage_abandon(entry->entry.accesses[i].storage);
        host_give(devices->sched, entry, sizeof *entry);
    }
    if (stream->source.place != 0)
        sched_disarm(devices->sched, &stream->source);
    real_stream_close(stream);
    sched_actor_free(devices->sched, &stream->actor, false);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

struct stream *
stream_background(struct task *me, int device)
{
    struct devices *devices = devices_of(me);
    if (devices == NULL || !device_check(me, device))
        return NULL;
    if (device == DEVICE_CPU)
        return failed_null(me, E_DEVICE, "the host has no streams");
    struct device *at = devices->all[device];
    struct stream *stream = __atomic_load_n(&at->background, __ATOMIC_ACQUIRE);
    if (stream != NULL)
        return stream;
    char name[48];
    snprintf(name, sizeof name, "device:%d copy", device);
    pthread_mutex_lock(&devices->mutex);
    stream = at->background != NULL ? at->background : stream_open(me, devices, device, name);
    __atomic_store_n(&at->background, stream, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&devices->mutex);
    return stream;
}

int
stream_device(const struct stream *stream)
{
    return stream->device;
}

const struct stream_progress *
stream_progress(const struct stream *stream)
{
    return &stream->progress;
}

const struct actor *
stream_actor(const struct stream *stream)
{
    return &stream->actor;
}

int
stream_number(const struct stream *stream)
{
    return stream->number;
}

struct kernel_fault *
stream_fault(struct stream *stream)
{
    return stream->fault;
}

/* ---- what the trace is told ---- */

/* A kernel of an op, on the lane of its stream: when the stream did it, not when the host asked. */
static void
stream_kernel_event(struct task *me, const struct stream *stream, const struct queued *queued, int phase, uint64_t time)
{
    struct lane_event event = event_of(stream, queued, phase, time);
    event.kind = KIND_kernel;
    lane_emit(me, &event);
}

/* A copy between host and device, or two devices, on the lane of its stream. */
static void
stream_copy_event(struct task *me, const struct stream *stream, const struct queued *queued, int phase, uint64_t time)
{
    struct lane_event event = event_of(stream, queued, phase, time);
    event.kind = KIND_memory_copy;
    lane_emit(me, &event);
}

static void
entry_event(struct task *me, const struct stream *stream, const struct queued *queued, int phase, uint64_t time)
{
    if (queued->entry.kind == KIND_memory_copy)
        stream_copy_event(me, stream, queued, phase, time);
    else
        stream_kernel_event(me, stream, queued, phase, time);
}

/* The storage that was written, as it is now. */
static void
entry_snapshot(struct task *me, const struct stream_entry *entry)
{
    const struct stream_written *written = &entry->written;
    const struct access         *access = entry->accesses;
    for (int i = 0; written->known && i < entry->access_count; i++, access++) {
        struct storage *storage = access->storage;
        if (!access->write || storage->number == 0)
            continue;
        uint64_t from = storage_is_large(storage) ? access->begin : 0;
        uint64_t to = storage_is_large(storage) ? access->end : storage->bytes;
        int64_t  count = (int64_t)((to - from) / dtype_size((enum dtype)written->dtype));
        bool     whole = written->dims >= 0; /* then it fills its storage */
        storage_snapshot(me, storage, &(struct storage_content){
            written->dtype, whole ? written->dims : 1, whole ? written->sizes : &count, (char *)storage->data + from,
            NULL });
        return;
    }
}

/* Who watches what was written is told. false: failed, which only a task can that runs its entry itself. */
static bool
entry_changed(struct task *me, const struct queued *queued, bool later)
{
    bool ok = true;
    for (int i = 0; i < queued->entry.access_count && ok; i++) {
        const struct access *access = &queued->entry.accesses[i];
        if (later && access->write)
            access->storage->queued_writes--;
        if (access->storage->watches == NULL || !access->write || account_closed(me->sched))
            continue;
        const struct storage_change change = { .access = *access, .line = queued->line, .queued = later,
                                               .stage = queued->stage, .is_op = true };
        ok = storage_tell_change(me, &change) || later;
    }
    return ok;
}

/* ---- `stepped`: the queue moves ---- */

/* What was queued when the run was asked to end would only delay it. */
static void
entry_run(struct stream *stream, struct queued *queued)
{
    struct backend_why why = { 0 };
    struct sched      *sched = stream->devices->sched;
    if (account_closed(sched))
        return;
    if (stream->real == NULL && queued->entry.effect != NULL)
        queued->entry.effect(queued->context);
    else if (stream->real != NULL && !real_run(stream, queued, &why))
        sched_stop(sched, trouble_kind(&why), why.text);
}

/* Work has ended at `now`: memory changes, then the trace is told, then what only this entry held goes. */
static void
work_ends(struct task *me, struct stream *stream, struct queued *queued, uint64_t now)
{
    struct lane_event here = event_of(stream, queued, PHASE_INSTANT, now);
    entry_run(stream, queued);
    if (queued->by_host != NULL)
        real_tell_host(me, stream->devices, queued->by_host);
    stream->devices->on_stream = &here;
    entry_snapshot(me, &queued->entry);
    (void)entry_changed(me, queued, true);
    entry_event(me, stream, queued, PHASE_END, now);
    for (int i = 0; i < queued->entry.access_count; i++)
        storage_let_go(me, queued->entry.accesses[i].storage);
    stream->devices->on_stream = NULL;
}

/* One more entry is done: streams that waited for it get on at this moment. */
static void
head_is_done(struct stream *stream, uint64_t now)
{
    struct queued *queued = stream->head;
    stream->head = queued->next;
    stream->progress.done++;
    stream->devices->queued--;
    stream->running = false;
    stream->ready   = now;
    host_give(stream->devices->sched, queued, sizeof *queued);

    for (struct stream **link = &stream->blocked; *link != NULL;) {
        struct stream *waiter = *link;
        if (waiter->head->sequence > stream->progress.done) {
            link = &waiter->next_blocked;
            continue;
        }
        *link = waiter->next_blocked;
        waiter->is_blocked = false;
        sched_arm(stream->devices->sched, &waiter->source, now);
    }
}

/* Begins what can begin at `now` and asks to be called again when the next thing happens. */
static void
stream_get_on(struct task *me, struct stream *stream, uint64_t now)
{
    while (stream->head != NULL) {
        struct queued *head = stream->head;
        if (head->launched > now) {
            sched_arm(stream->devices->sched, &stream->source, head->launched);
            return;
        }
        if (head->after != NULL && head->after->progress.done < head->sequence) {
            stream->is_blocked   = true;
            stream->next_blocked = head->after->blocked;
            head->after->blocked = stream;
            return;
        }
        if (head->after != NULL) {
            head_is_done(stream, now);
            continue;
        }
        entry_event(me, stream, head, PHASE_BEGIN, now);
        if (head->entry.price > 0) {
            stream->running = true;
            sched_arm(stream->devices->sched, &stream->source, now + head->entry.price);
            return;
        }
        work_ends(me, stream, head, now);
        head_is_done(stream, now);
    }
}

static void
stream_fire(struct task *me, struct sched_source *source)
{
    struct stream *stream = (struct stream *)source;
    uint64_t       now = source->clock;
    if (stream->running) {
        work_ends(me, stream, stream->head, now);
        head_is_done(stream, now);
    }
    stream_get_on(me, stream, now);
}

/* Takes the entry over. An idle stream is armed for it; a busy or blocked one comes to it by itself. */
static void
stream_push(struct task *me, struct stream *stream, struct queued *queued)
{
    bool idle = stream->head == NULL;
    queued->launched  = sched_now(me);
    queued->line      = me->line;
    queued->iteration = me->iteration;
    queued->rank      = me->rank;
    queued->stage     = me->stage;
    if (idle)
        stream->head = queued;
    else
        stream->tail->next = queued;
    stream->tail = queued;
    stream->progress.launched++;
    stream->devices->queued++;
    stream->source.fire = stream_fire;
    if (idle)
        sched_arm(me->sched, &stream->source, queued->launched > stream->ready ? queued->launched : stream->ready);
}

static bool
launch_later(struct task *me, struct stream *stream, const struct stream_entry *entry)
{
    struct queued *queued = host_take(me, sizeof *queued);
    if (queued == NULL)
        return false;
    queued->entry = *entry;
    if (entry->context_bytes > 0)
        memcpy(queued->context, entry->context, entry->context_bytes);
    for (int i = 0; i < entry->access_count; i++) {
        storage_hold(entry->accesses[i].storage);
        entry->accesses[i].storage->queued_writes += entry->accesses[i].write;
    }
    stream_push(me, stream, queued);
    return true;
}

/* Begin and end stand together under the mutex, so that they pair up on the lane. */
static bool
work_now(struct task *me, struct stream *stream, struct queued *queued)
{
    pthread_mutex_lock(&stream->mutex);
    entry_event(me, stream, queued, PHASE_BEGIN, sched_now(me));
    entry_run(stream, queued);
    bool ok = entry_changed(me, queued, false);
    entry_event(me, stream, queued, PHASE_END, sched_now(me));
    __atomic_store_n(&stream->progress.launched, stream->progress.launched + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&stream->progress.done, stream->progress.done + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&stream->mutex);
    return ok;
}

static bool
is_watched(const struct stream_entry *entry)
{
    for (int i = 0; i < entry->access_count; i++)
        if (entry->accesses[i].write && entry->accesses[i].storage->watches != NULL)
            return true;
    return false;
}

/* `free`: a virtual device does it now, a real one queues it. Who watches what it writes wants to see it written. */
static bool
launch_now(struct task *me, struct stream *stream, const struct stream_entry *entry)
{
    struct queued *queued = host_take(me, sizeof *queued);
    if (queued == NULL)
        return false;
    queued->entry     = *entry;
    queued->line      = me->line;
    queued->iteration = me->iteration;
    queued->rank      = me->rank;
    queued->stage     = me->stage;
    if (entry->context_bytes > 0)
        memcpy(queued->context, entry->context, entry->context_bytes);
    bool ok = stream->real != NULL ? real_launch(me, stream, queued) : work_now(me, stream, queued);
    if (ok && stream->real != NULL && is_watched(entry))
        ok = real_finish(me, stream) && entry_changed(me, queued, false);
    host_give(me->sched, queued, sizeof *queued);
    return ok;
}

/* The stream knows what the host knows; what the host does from now on it does not. */
static bool
stream_learns(struct task *me, struct stream *stream)
{
    if (!stream->actor.on)
        return true;
    if (!vclock_join(&stream->actor.knows, &me->actor.knows) || !actor_tick(&stream->actor) ||
        !actor_tick(&me->actor))
        return failed(me, E_MEMORY, "out of memory for the race checker");
    return true;
}

bool
stream_launch(struct task *me, struct stream *stream, const struct stream_entry *entry)
{
    assert(entry->context_bytes <= STREAM_CONTEXT && entry->access_count <= STREAM_ACCESSES);
    if (task_failed(me))
        return false;
    sched_advance(me, entry->covered ? 0 : cost_host(sched_cost(me->sched)));
    if (!stream_learns(me, stream))
        return false;
    if (!storage_accesses_by(me, &stream->actor, stream->name, entry->accesses, entry->access_count))
        return false;
    return sched_is_stepped(me->sched) ? launch_later(me, stream, entry) : launch_now(me, stream, entry);
}

/* ---- waiting ---- */

/* The host's clock goes on until `stream` has done `sequence` entries. It moves to the next thing that happens to
 * that stream, or to the one that it waits for; the scheduler then lets it happen. */
static bool
host_waits(struct task *me, struct stream *stream, uint64_t sequence)
{
    while (sched_is_stepped(me->sched) && stream->progress.done < sequence) {
        struct stream *next = stream;
        while (next->is_blocked)
            next = next->head->after;
        uint64_t due = next->source.clock;
        assert(next->source.place != 0);
        sched_advance_to(me, due);
        if (stream->progress.done >= sequence || next->source.place == 0 || next->source.clock != due)
            continue;
        sched_disarm(me->sched, &next->source);
        stream_fire(me, &next->source);
    }
    return true;
}

/* A kernel that met a bad index says so here, as a device-side assertion does. */
static bool
stream_is_sound(struct task *me, struct stream *stream)
{
    if (!fault_take(stream->fault))
        return true;
    return failed(me, E_INDEX, "index %lld is out of range: there are %lld rows (found by a kernel on device:%d)",
                  (long long)stream->fault->index, (long long)stream->fault->limit, stream->device);
}

/* `knows`: what those have done who are waited for; the host knows it from now on. */
static bool
host_learns(struct task *me, const struct vclock *knows)
{
    if (me->actor.on && !vclock_join(&me->actor.knows, knows))
        return failed(me, E_MEMORY, "out of memory for the race checker");
    return true;
}

static uint64_t
launched_so_far(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    uint64_t launched = stream->progress.launched;
    pthread_mutex_unlock(&stream->mutex);
    return launched;
}

/* In `stepped` the virtual clock says what is done, whatever the device. */
static bool
is_really_queued(const struct task *me, const struct stream *stream)
{
    return stream->real != NULL && !sched_is_stepped(me->sched);
}

/* The host waits until the stream has done all that was launched so far. */
bool
stream_synchronize(struct task *me, struct stream *stream)
{
    if (stream == NULL || task_failed(me))
        return false;
    STAGE(me, stream_synchronize, stream->number);
    if (!host_learns(me, &stream->actor.knows) || !actor_tick(&stream->actor))
        return false;
    if (is_really_queued(me, stream) && !real_finish(me, stream))
        return false;
    return host_waits(me, stream, launched_so_far(stream)) && stream_is_sound(me, stream);
}

bool
devices_tell(struct task *me)
{
    struct devices *devices = devices_of(me);
    struct stream  *stream  = NULL;
    if (devices == NULL)
        return false;
    for (size_t i = 0; (stream = stream_numbered(devices, i)) != NULL; i++)
        if (is_really_queued(me, stream) && !real_finish(me, stream))
            return false;
    return true;
}

bool
device_synchronize(struct task *me, int device)
{
    struct devices *devices = devices_of(me);
    if (devices == NULL || !device_check(me, device))
        return false;
    struct stream *stream = NULL;
    for (size_t i = 0; (stream = stream_numbered(devices, i)) != NULL; i++) {
        if (stream->device == device && !stream_synchronize(me, stream))
            return false;
    }
    return true;
}

bool
devices_drain(struct task *me)
{
    struct devices *devices = devices_of(me);
    struct stream  *stream  = NULL;
    bool            any     = devices->queued > 0 || (devices->real != NULL && !sched_is_stepped(me->sched));
    for (size_t i = 0; any && (stream = stream_numbered(devices, i)) != NULL; i++) {
        if (stream->progress.done < stream->progress.launched && !stream_synchronize(me, stream))
            return false;
    }
    return true;
}

struct event *
event_new(struct task *me)
{
    struct event *event = host_take(me, sizeof *event);
    if (event != NULL)
        event->number = atomic_fetch_add(&devices_of(me)->events, 1) + 1;
    return event;
}

void
event_free(struct task *me, struct event *event)
{
    if (event == NULL)
        return;
    vclock_free(&event->knows);
    real_mark_free(devices_of(me), event);
    host_return(me, event, sizeof *event);
}

/* The event marks this place of the stream: who waits for it waits for all that was queued before. */
bool
stream_record(struct task *me, struct stream *stream, struct event *event)
{
    if (stream == NULL || event == NULL || task_failed(me))
        return false;
    POINT(me, stream_record, event->number, stream->number);
    if (!stream_learns(me, stream))
        return false;
    if (stream->actor.on && (!vclock_copy(&event->knows, &stream->actor.knows) || !actor_tick(&stream->actor)))
        return failed(me, E_MEMORY, "out of memory for the race checker");
    pthread_mutex_lock(&stream->mutex);
    event->stream   = stream;
    event->sequence = stream->progress.launched;
    pthread_mutex_unlock(&stream->mutex);
    return !is_really_queued(me, stream) || real_record(me, stream, event);
}

/* Later work of the stream begins after the event. An event that was never recorded is waited for by nobody: that is
 * how CUDA has it, and a mistake that the race checker finds. */
bool
stream_wait_event(struct task *me, struct stream *stream, struct event *event)
{
    if (stream == NULL || event == NULL || task_failed(me))
        return false;
    POINT(me, stream_wait, event->number, stream->number);
    if (event->stream == NULL)
        return true;
    if (stream->actor.on && !vclock_join(&stream->actor.knows, &event->knows))
        return failed(me, E_MEMORY, "out of memory for the race checker");
    if (event->stream != stream && is_really_queued(me, stream))
        return real_wait(me, stream, event);
    if (event->stream == stream || !sched_is_stepped(me->sched) || event->stream->progress.done >= event->sequence)
        return true;
    struct queued *queued = host_take(me, sizeof *queued);
    if (queued == NULL)
        return false;
    queued->after    = event->stream;
    queued->sequence = event->sequence;
    stream_push(me, stream, queued);
    return true;
}

bool
stream_wait_stream(struct task *me, struct stream *stream, struct stream *other)
{
    struct event *event = event_new(me);
    bool          done = event != NULL && stream_record(me, other, event) && stream_wait_event(me, stream, event);
    event_free(me, event);
    return done;
}

bool
event_synchronize(struct task *me, struct event *event)
{
    if (event == NULL || task_failed(me))
        return false;
    if (event->stream == NULL)
        return true;
    if (is_really_queued(me, event->stream) && !real_await(me, event))
        return false;
    return host_learns(me, &event->knows) && host_waits(me, event->stream, event->sequence) &&
           stream_is_sound(me, event->stream);
}

bool
event_query(struct task *me, const struct event *event)
{
    sched_point(me);
    if (event != NULL && event->stream != NULL && is_really_queued(me, event->stream))
        return real_is_past(me, event);
    return event == NULL || event->stream == NULL || !sched_is_stepped(me->sched) ||
           event->stream->progress.done >= event->sequence;
}

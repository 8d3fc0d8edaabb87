/* Notes of launches, and the times that come for them later.
 *
 * A lane's notes are a ring between two: who launches appends at its tail (one at a time, under the stream's mutex),
 * who collects takes from its head (one at a time, under the timeline's mutex); neither waits for the other. A note
 * is written when its times are whole: a record of a later ticket has come, or the host knows that the stream is past
 * it. A note without any record holds its lane up until two batches with later tickets have come: back-ends hand out
 * what they have in pieces, and one piece may overtake another, but not twice.
 *
 * Interface in order of use: timeline_new, timeline_host, timeline_lane_new; timeline_note, timeline_passed,
 * timeline_collect; timeline_finish, timeline_free. */
#include "device/timeline.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "device/cells.h"
#include "device/device.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "trace/clock.h"
#include "trace/writer.h"

enum {
    BATCH   = 512,                      /* records asked for at a time */
    BATCHES = 1024,                     /* in one collection: a back-end that never ends must not hold the host up */
    HALF    = TIMELINE_SPANS / 2,
    CROWDED = TIMELINE_SPANS / 4 * 3,   /* from here on a note without record is given up at the first later one */
    AGAIN   = TIMELINE_SPANS / 16,      /* launches until the next try when the first has made no room */
    BYTES   = 2                         /* which argument they are, of kernels as of copies */
};

struct span { uint64_t ticket, begin, end; bool has_times; struct lane_event what; };

struct timeline_lane {
    struct timeline             *timeline;
    const struct backend_stream *stream;
    struct trace_buffer         *buffer;    /* the timeline's mutex guards it */
    uint32_t                     lane;
    struct span                 *spans;     /* a ring: ticket order */
    atomic_uint_fast64_t         tail;      /* notes so far; who launches moves it */
    atomic_uint_fast64_t         head;      /* of those that are gone; who collects moves it */
    uint64_t                     try_at;    /* who launches: collects again from this note on */
    atomic_uint_fast64_t         last;      /* the newest ticket */
    atomic_uint_fast64_t         passed;    /* done up to here, the host knows */
    atomic_uint_fast64_t         no_room;   /* launches that were not noted */
    uint64_t                     newest;    /* the latest ticket that a record has come for, */
    uint64_t                     before;    /* as of the last collection that moved it, */
    uint64_t                     settled;   /* and as of the one before that */
};

struct timeline {
    struct sched                *sched;
    const struct device_backend *backend;
    struct trace_writer         *writer;
    enum trace_clock             clock;
    uint64_t                     ticks_per_ms;
    atomic_uint_fast64_t         next_ticket;
    pthread_mutex_t              mutex;     /* guards what follows, and the heads of the lanes */
    struct timeline_lane       **lanes;
    size_t                       lane_count, lane_room, lane_hint;
    struct timeline_counts       counts;
    struct backend_record        batch[BATCH];
};

/* ---- the clock ---- */

/* From the counter's own zero: the same line both ways, so that its measured slope never shows. */
static uint64_t
clock_ns(void *run)
{
    const struct timeline *timeline = run;
    return (uint64_t)((unsigned __int128)trace_wall_now(timeline->clock) * 1000000u / timeline->ticks_per_ms);
}

uint64_t
timeline_ticks(const struct timeline *timeline, uint64_t ns)
{
    return (uint64_t)(((unsigned __int128)ns * timeline->ticks_per_ms + 500000u) / 1000000u);
}

struct backend_host
timeline_host(struct timeline *timeline)
{
    return (struct backend_host){ clock_ns, timeline, timeline != NULL };
}

/* ---- making it ---- */

struct timeline *
timeline_new(struct task *me, const struct device_backend *backend)
{
    struct trace_writer *writer = sched_writer(me->sched);
    if (writer == NULL || backend->records == NULL || sched_is_stepped(me->sched))
        return NULL;
    struct timeline *timeline = calloc(1, sizeof *timeline);
    if (timeline == NULL || pthread_mutex_init(&timeline->mutex, NULL) != 0) {
        free(timeline);
        return failed_null(me, E_MEMORY, "out of memory for the timelines of the devices");
    }
    timeline->sched        = me->sched;
    timeline->backend      = backend;
    timeline->writer       = writer;
    timeline->clock        = trace_wall_clock();
    timeline->ticks_per_ms = trace_wall_rate(timeline->clock);
    atomic_init(&timeline->next_ticket, 1);
    return timeline;
}

static void
lane_free(struct timeline_lane *lane)
{
    trace_buffer_free(lane->buffer);
    if (lane->spans != NULL)
        host_give(lane->timeline->sched, lane->spans, cell_bytes(TIMELINE_SPANS * sizeof *lane->spans));
    free(lane);
}

static bool
lane_join(struct timeline *timeline, struct timeline_lane *lane)
{
    pthread_mutex_lock(&timeline->mutex);
    bool room = vec_room(&timeline->lanes, &timeline->lane_room, timeline->lane_count + 1, sizeof *timeline->lanes);
    if (room)
        timeline->lanes[timeline->lane_count++] = lane;
    pthread_mutex_unlock(&timeline->mutex);
    return room;
}

struct timeline_lane *
timeline_lane_new(struct task *me, struct timeline *timeline, uint32_t lane, const struct backend_stream *stream)
{
    if (timeline == NULL)
        return NULL;
    struct timeline_lane *made = calloc(1, sizeof *made);
    if (made == NULL)
        return failed_null(me, E_MEMORY, "out of memory for the timeline of a stream");
    made->timeline = timeline;
    made->stream   = stream;
    made->lane     = lane;
    made->buffer   = trace_buffer_new(timeline->writer);
    made->spans    = host_take(me, TIMELINE_SPANS * sizeof *made->spans);
    if (made->spans != NULL && made->buffer != NULL && lane_join(timeline, made))
        return made;
    lane_free(made);
    return failed_null(me, E_MEMORY, "out of memory for the timeline of a stream");
}

void
timeline_free(struct timeline *timeline)
{
    if (timeline == NULL)
        return;
    for (size_t i = 0; i < timeline->lane_count; i++)
        lane_free(timeline->lanes[i]);
    free(timeline->lanes);
    pthread_mutex_destroy(&timeline->mutex);
    free(timeline);
}

/* ---- launching ---- */

static void collect_locked(struct timeline *timeline, bool final);

/* Half of the ring waits. Whoever collects at this moment makes the room; nobody waits for him. */
static void
make_room(struct timeline_lane *lane, uint64_t tail)
{
    if (tail < lane->try_at || pthread_mutex_trylock(&lane->timeline->mutex) != 0)
        return;
    lane->try_at = tail + AGAIN;
    collect_locked(lane->timeline, false);
    pthread_mutex_unlock(&lane->timeline->mutex);
}

uint64_t
timeline_note(struct task *me, struct timeline_lane *lane, const struct lane_event *what)
{
    if (lane == NULL || !stage_enabled(me, what->kind) || what->args[BYTES] == 0)
        return 0;
    uint64_t tail = atomic_load_explicit(&lane->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&lane->head, memory_order_acquire) >= HALF)
        make_room(lane, tail);
    if (tail - atomic_load_explicit(&lane->head, memory_order_acquire) == TIMELINE_SPANS) {
        atomic_fetch_add_explicit(&lane->no_room, 1, memory_order_relaxed);
        return 0;
    }
    uint64_t ticket = atomic_fetch_add_explicit(&lane->timeline->next_ticket, 1, memory_order_relaxed);
    lane->spans[tail % TIMELINE_SPANS] = (struct span){ .ticket = ticket, .what = *what };
    atomic_store_explicit(&lane->tail, tail + 1, memory_order_release);
    atomic_store_explicit(&lane->last, ticket, memory_order_release);
    return ticket;
}

uint64_t
timeline_last(const struct timeline_lane *lane)
{
    return lane != NULL ? atomic_load_explicit(&lane->last, memory_order_acquire) : 0;
}

void
timeline_passed(struct timeline_lane *lane, uint64_t ticket)
{
    if (lane == NULL)
        return;
    uint_fast64_t passed = atomic_load_explicit(&lane->passed, memory_order_relaxed);
    while (passed < ticket && !atomic_compare_exchange_weak(&lane->passed, &passed, ticket))
        continue;
}

/* ---- collecting ---- */

/* Records come stream by stream, so it is mostly the lane of the last one. */
static struct timeline_lane *
lane_of(struct timeline *timeline, const struct backend_stream *stream)
{
    for (size_t tried = 0; tried < timeline->lane_count; tried++) {
        struct timeline_lane *lane = timeline->lanes[timeline->lane_hint];
        if (lane->stream == stream)
            return lane;
        timeline->lane_hint = (timeline->lane_hint + 1) % timeline->lane_count;
    }
    return NULL;
}

/* NULL: no such launch waits. */
static struct span *
span_of(struct timeline_lane *lane, uint64_t ticket)
{
    uint64_t low  = atomic_load_explicit(&lane->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&lane->tail, memory_order_acquire), high = tail;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (lane->spans[middle % TIMELINE_SPANS].ticket < ticket)
            low = middle + 1;
        else
            high = middle;
    }
    struct span *span = &lane->spans[low % TIMELINE_SPANS];
    return low < tail && span->ticket == ticket ? span : NULL;
}

/* Several records of one launch are one span: from the first begin to the last end. */
static void
take_record(struct timeline *timeline, const struct backend_record *record)
{
    struct timeline_lane *lane = lane_of(timeline, record->stream);
    struct span          *span = lane != NULL ? span_of(lane, record->ticket) : NULL;
    if (span == NULL) {
        timeline->counts.strange++;
        return;
    }
    if (!span->has_times || record->begin < span->begin)
        span->begin = record->begin;
    if (!span->has_times || record->end > span->end)
        span->end = record->end;
    span->has_times = true;
    if (record->ticket > lane->newest)
        lane->newest = record->ticket;
}

static void
take_records(struct timeline *timeline)
{
    for (int i = 0; i < BATCHES; i++) {
        uint64_t lost  = 0;
        size_t   count = timeline->backend->records(timeline->batch, BATCH, &lost);
        timeline->counts.lost += lost;
        for (size_t j = 0; j < count; j++)
            take_record(timeline, &timeline->batch[j]);
        if (count < BATCH)
            return;
    }
}

static uint64_t
between(uint64_t low, uint64_t time, uint64_t high)
{
    uint64_t below = time < high ? time : high;
    return below > low ? below : low;
}

/* `now` is no earlier than the buffer's last time: that was written before. */
static void
write_span(struct timeline_lane *lane, const struct span *span, uint64_t now)
{
    struct timeline_counts *counts = &lane->timeline->counts;
    const struct lane_event *what = &span->what;
    uint64_t begin = timeline_ticks(lane->timeline, span->begin), end = timeline_ticks(lane->timeline, span->end);
    uint64_t from = between(lane->buffer->last_time, begin, now), to = between(from, end, now);

    struct trace_event event = {
        .time = from, .line = what->line, .iteration = what->iteration, .lane = lane->lane, .rank = (int16_t)what->rank,
        .device = (int16_t)what->device, .phase = PHASE_BEGIN, .kind = (uint16_t)what->kind,
    };
    memcpy(event.args, what->args, sizeof event.args);
    trace_append(lane->buffer, &event);
    event.time  = to;
    event.flow  = what->flow;
    event.phase = PHASE_END;
    trace_append(lane->buffer, &event);
    counts->written++;
    counts->moved += from != begin || to != end;
}

enum fate { SPAN_WAITS, SPAN_IS_WHOLE, SPAN_HAS_NO_TIMES };

static enum fate
fate_of(const struct timeline_lane *lane, const struct span *span, uint64_t waiting, bool final)
{
    uint64_t passed = atomic_load_explicit(&lane->passed, memory_order_acquire);
    if (span->has_times)
        return final || span->ticket < lane->newest || span->ticket <= passed ? SPAN_IS_WHOLE : SPAN_WAITS;
    bool given_up = final || span->ticket < (waiting >= CROWDED ? lane->newest : lane->settled);
    return given_up ? SPAN_HAS_NO_TIMES : SPAN_WAITS;
}

static void
lane_write(struct timeline_lane *lane, uint64_t now, bool final)
{
    uint64_t head = atomic_load_explicit(&lane->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&lane->tail, memory_order_acquire);
    if (lane->newest != lane->before) {
        lane->settled = lane->before;
        lane->before  = lane->newest;
    }
    for (; head < tail; head++) {
        const struct span *span = &lane->spans[head % TIMELINE_SPANS];
        enum fate          fate = fate_of(lane, span, tail - head, final);
        if (fate == SPAN_WAITS)
            break;
        if (fate == SPAN_IS_WHOLE)
            write_span(lane, span, now);
        else
            lane->timeline->counts.without++;
    }
    atomic_store_explicit(&lane->head, head, memory_order_release);
}

static void
collect_locked(struct timeline *timeline, bool final)
{
    take_records(timeline);
    uint64_t now = trace_wall_now(timeline->clock);
    for (size_t i = 0; i < timeline->lane_count; i++) {
        uint64_t last = timeline->lanes[i]->buffer->last_time; /* two cores' counters may differ a little */
        lane_write(timeline->lanes[i], now > last ? now : last, final);
    }
}

void
timeline_collect(struct timeline *timeline)
{
    if (timeline == NULL)
        return;
    pthread_mutex_lock(&timeline->mutex);
    collect_locked(timeline, false);
    pthread_mutex_unlock(&timeline->mutex);
}

struct timeline_counts
timeline_counts(struct timeline *timeline)
{
    pthread_mutex_lock(&timeline->mutex);
    struct timeline_counts counts = timeline->counts;
    for (size_t i = 0; i < timeline->lane_count; i++)
        counts.without += atomic_load_explicit(&timeline->lanes[i]->no_room, memory_order_relaxed);
    pthread_mutex_unlock(&timeline->mutex);
    return counts;
}

bool
timeline_finish(struct timeline *timeline, char *text, size_t size)
{
    if (timeline == NULL)
        return false;
    pthread_mutex_lock(&timeline->mutex);
    collect_locked(timeline, true);
    pthread_mutex_unlock(&timeline->mutex);
    struct timeline_counts counts = timeline_counts(timeline);
    if (counts.without == 0 && counts.lost == 0)
        return false;
    if (counts.without > 0)
        snprintf(text, size, "the devices' timelines have gaps: of %" PRIu64 " kernels and copies %" PRIu64
                 " have no times and are not on their lanes (the profiler says that it lost %" PRIu64 " records)",
                 counts.written + counts.without, counts.without, counts.lost);
    else
        snprintf(text, size, "the devices' timelines may have kernels and copies that took longer than it looks: the "
                 "profiler says that it lost %" PRIu64 " records", counts.lost);
    return true;
}

/* Stages: the one place that takes the baton, reads the clock, tells the debugger and appends events. */
#include "sched/stage.h"
#include <assert.h>
#include <string.h>
#include "sched/faults.h"
#include "sched/internal.h"
#include "trace/clock.h"

/* Lines of the file that are written soon: a page made ready by another thread lies in that one's cache. */
enum { EVENTS_AHEAD = 16 };

/* In `free` the counter is read: it may lie before the last time by what two cores differ. */
static inline uint64_t
stamp_of(const struct task *me)
{
    if (me->sched->facts.stepped)
        return me->clock;
    uint64_t now = trace_wall_now(me->sched->clock), last = me->buffer->last_time;
    return now < last ? last : now;
}

/* The next free slot of the buffer; NULL: the disk is full, the event is lost and counted. */
static inline struct trace_event *
slot_of(struct task *me)
{
    struct trace_buffer *buffer = me->buffer;
    if (__builtin_expect(buffer->next == buffer->end, 0) && !trace_buffer_more(buffer))
        return NULL;
    __builtin_prefetch(buffer->next + EVENTS_AHEAD, 1);
    return buffer->next++;
}

/* The kind is stored last: from then on the event counts, whatever happens to this process. */
static inline void
publish(struct task *me, struct trace_event *event, uint64_t time, enum kind kind)
{
    struct trace_buffer *buffer   = me->buffer;
    struct observer     *observer = me->sched->observer;
    assert(time >= buffer->last_time);
    event->time       = time;
    buffer->last_time = time;
    atomic_store_explicit((_Atomic uint16_t *)&event->kind, (uint16_t)kind, memory_order_release);
    uint64_t seq = buffer->count++;
    if (__builtin_expect(observer != NULL, 0))
        observer->event(observer, me, event, seq);
}

/* Who it belongs to; the caller adds phase, lane, flow, device and arguments. */
static inline struct trace_event *
begin_event(struct task *me)
{
    struct trace_event *event = slot_of(me);
    if (event == NULL)
        return NULL;
    event->line      = me->line;
    event->iteration = me->iteration;
    event->rank      = me->rank;
    event->depth     = me->depth;
    return event;
}

static inline uint32_t
departing_flow(struct task *me)
{
    uint32_t flow = me->departing;
    me->departing = 0;
    return flow;
}

/* On the task's lane: it begins, or has no length. Answers the event, still to be published; NULL: it is lost. */
static inline struct trace_event *
fill_event(struct task *me, int phase, int64_t a, int64_t b, int64_t c, int64_t d)
{
    struct trace_event *event = begin_event(me);
    uint32_t            flow  = departing_flow(me);
    if (event == NULL)
        return NULL;
    event->args[0] = a;
    event->args[1] = b;
    event->args[2] = c;
    event->args[3] = d;
    event->flow    = flow;
    event->lane    = me->lane;
    event->device  = me->device;
    event->phase   = (uint8_t)phase;
    return event;
}

static inline void
emit(struct task *me, enum kind kind, int phase, int64_t a, int64_t b, int64_t c, int64_t d)
{
    struct trace_event *event = fill_event(me, phase, a, b, c, d);
    if (event != NULL)
        publish(me, event, stamp_of(me), kind);
}

/* The end carries what the stage knows by now. */
static void
emit_end(struct task *me, const struct stage *stage)
{
    struct trace_event *event = begin_event(me);
    if (event == NULL)
        return;
    memcpy(event->args, stage->args, sizeof event->args);
    event->flow   = stage->flow_in;
    event->lane   = stage->lane;
    event->device = stage->device;
    event->phase  = PHASE_END;
    publish(me, event, stamp_of(me), (enum kind)stage->kind);
}

/* Most points find nobody else ready: then no call is made. */
static inline void
pass_point(struct task *me)
{
    const struct sched *sched = me->sched;
    if (sched->facts.stepped && (sched->heap_count > 0 || machine_of(me) == NULL || machine_of(me)->pending_delay > 0 ||
                                 sched->facts.chooses))
        sched->executor->point(me);
    if (sched_has_faults(sched))
        fault_point(me);
}

void
stage_enter(struct stage *stage)
{
    struct task *me = stage->me;
    pass_point(me);
    stage->lane   = me->lane;
    stage->device = me->device;
    stage->depth  = me->depth;
    stage->mark   = me->scope_count;
    stage->outer  = me->stage;
    if (stage->kind != KIND_op)
        me->stage = stage->kind;
    if (stage_enabled(me, (enum kind)stage->kind))
        emit(me, (enum kind)stage->kind, PHASE_BEGIN, stage->args[0], stage->args[1], stage->args[2], stage->args[3]);
    else
        stage->kind = 0;
    if (__builtin_expect(me->sched->facts.ranges != NULL, 0) && stage->kind != 0)
        me->sched->facts.ranges->begin(kind_table[stage->kind].name, me->buffer != NULL ? me->buffer->last_time : 0);
    if (me->depth < UINT8_MAX)
        me->depth++;
}

void
stage_leave(struct stage *stage)
{
    struct task *me = stage->me;
    if (me->scope_count != stage->mark)
        scope_release(me, stage->mark);
    pass_point(me);
    me->depth = stage->depth;
    me->stage = stage->outer;
    if (stage->kind != 0)
        emit_end(me, stage);
    if (__builtin_expect(me->sched->facts.ranges != NULL, 0) && stage->kind != 0)
        me->sched->facts.ranges->end();
}

void
point_emit(struct task *me, enum kind kind, int64_t a, int64_t b, int64_t c, int64_t d)
{
    emit(me, kind, PHASE_INSTANT, a, b, c, d);
}

void
point_emit_on(struct task *me, int device, enum kind kind, const int64_t args[4])
{
    struct trace_event *event = fill_event(me, PHASE_INSTANT, args[0], args[1], args[2], args[3]);
    if (event == NULL)
        return;
    event->device = (int16_t)device;
    publish(me, event, stamp_of(me), kind);
}

void
stage_depart(struct task *me, uint32_t flow)
{
    me->departing = flow;
}

/* In `free` the wall clock is read: a time that was taken earlier could lie before the buffer's last event. */
void
lane_emit(struct task *me, const struct lane_event *lane)
{
    struct trace_event *event = stage_enabled(me, lane->kind) ? slot_of(me) : NULL;
    if (event == NULL)
        return;
    memcpy(event->args, lane->args, sizeof event->args);
    event->flow      = lane->flow;
    event->line      = lane->line;
    event->iteration = lane->iteration;
    event->lane      = lane->lane;
    event->rank      = (int16_t)lane->rank;
    event->device    = (int16_t)lane->device;
    event->phase     = (uint8_t)lane->phase;
    event->depth     = 0;
    publish(me, event, me->sched->facts.stepped ? lane->time : stamp_of(me), lane->kind);
}

void
span_begin(struct task *me, enum kind kind, const int64_t args[4])
{
    if (stage_enabled(me, kind))
        emit(me, kind, PHASE_BEGIN, args[0], args[1], args[2], args[3]);
}

void
span_end(struct task *me, enum kind kind, const int64_t args[4])
{
    struct stage ended = { .me = me, .lane = me->lane, .device = me->device, .kind = (uint16_t)kind,
                           .args = { args[0], args[1], args[2], args[3] } };
    if (stage_enabled(me, kind))
        emit_end(me, &ended);
}

uint64_t
stage_seq(const struct task *me)
{
    return me->buffer != NULL ? me->buffer->count : 0;
}

void
stage_category(struct sched *sched, enum kind kind, bool on)
{
    sched->off[kind] = !on;
}

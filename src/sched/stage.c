/* Stages: the one place that takes the baton, reads the clock, tells the debugger and appends events. */
#include "sched/stage.h"
#include <assert.h>
#include <stdlib.h>
#include "sched/internal.h"

/* Everything but the time, the buffer's books and the kind. */
static inline void
fill(struct trace_event *event, const struct task *me, int phase, const int64_t args[4], uint32_t flow, uint32_t lane,
     int16_t device)
{
    event->args[0]   = args[0];
    event->args[1]   = args[1];
    event->args[2]   = args[2];
    event->args[3]   = args[3];
    event->flow      = flow;
    event->line      = me->line;
    event->iteration = me->iteration;
    event->lane      = lane;
    event->rank      = me->rank;
    event->device    = device;
    event->phase     = (uint8_t)phase;
    event->depth     = me->depth;
}

/* The kind is stored last: from then on the event counts, whatever happens to this process. */
static inline uint64_t
publish(struct trace_buffer *buffer, struct trace_event *event, uint64_t time, enum kind kind)
{
    assert(time >= buffer->last_time);
    event->time       = time;
    buffer->last_time = time;
    atomic_store_explicit((_Atomic uint16_t *)&event->kind, (uint16_t)kind, memory_order_release);
    return buffer->count++;
}

/* The next free slot of the buffer; NULL: the disk is full, the event is lost and counted. */
static struct trace_event *
slot_of(struct task *me)
{
    struct trace_buffer *buffer = me->buffer;
    if (buffer->next == buffer->end && !trace_buffer_more(buffer))
        return NULL;
    return buffer->next++;
}

static uint64_t
stamp_of(struct task *me)
{
    return me->sched->stepped ? me->clock : me->sched->executor->stamp(me);
}

static void
publish_and_tell(struct task *me, struct trace_event *event, uint64_t time, enum kind kind)
{
    struct observer *observer = me->sched->observer;
    uint64_t         seq      = publish(me->buffer, event, time, kind);
    if (observer != NULL)
        observer->event(observer, me, event, seq);
}

static __attribute__((noinline)) void
emit_slowly(struct task *me, enum kind kind, int phase, const int64_t args[4], uint32_t flow, uint32_t lane,
            int16_t device)
{
    struct trace_event *event = slot_of(me);
    if (event == NULL)
        return;
    fill(event, me, phase, args, flow, lane, device);
    publish_and_tell(me, event, stamp_of(me), kind);
}

/* On virtual time, with room in the chunk and nobody watching, an event is sixteen stores and no call. */
static inline void
emit(struct task *me, enum kind kind, int phase, const int64_t args[4], uint32_t flow, uint32_t lane, int16_t device)
{
    struct trace_buffer *buffer = me->buffer;
    const struct sched  *sched  = me->sched;
    if (__builtin_expect(!sched->stepped || buffer->next == buffer->end || sched->observer != NULL, 0)) {
        emit_slowly(me, kind, phase, args, flow, lane, device);
        return;
    }
    struct trace_event *event = buffer->next++;
    fill(event, me, phase, args, flow, lane, device);
    publish(buffer, event, me->clock, kind);
}

static inline uint32_t
departing_flow(struct task *me)
{
    uint32_t flow = me->departing;
    me->departing = 0;
    return flow;
}

/* Most points find nobody else ready: then no call is made. */
static inline void
pass_point(struct task *me)
{
    const struct sched *sched = me->sched;
    if (sched->stepped && (sched->heap_count > 0 || machine_of(me) == NULL || machine_of(me)->pending_delay > 0))
        sched_point(me);
}

struct stage
stage_enter(struct task *me, enum kind kind, const int64_t args[4])
{
    pass_point(me);
    struct stage stage = { .me = me, .lane = me->lane, .device = me->device,
                           .args = { args[0], args[1], args[2], args[3] } };
    if (stage_enabled(me, kind)) {
        stage.kind = (uint16_t)kind;
        emit(me, kind, PHASE_BEGIN, args, departing_flow(me), me->lane, me->device);
    }
    stage.depth = me->depth;
    if (me->depth < UINT8_MAX)
        me->depth++;
    stage.mark = scope_mark(me);
    return stage;
}

void
stage_leave(struct stage *stage)
{
    struct task *me = stage->me;
    if (me->scope_count != stage->mark)
        scope_release(me, stage->mark);
    pass_point(me);
    me->depth = stage->depth;
    if (stage->kind != 0)
        emit(me, stage->kind, PHASE_END, stage->args, stage->flow_in, stage->lane, stage->device);
}

void
point_emit(struct task *me, enum kind kind, const int64_t args[4])
{
    emit(me, kind, PHASE_INSTANT, args, departing_flow(me), me->lane, me->device);
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
    for (int i = 0; i < 4; i++)
        event->args[i] = lane->args[i];
    event->flow      = lane->flow;
    event->line      = lane->line;
    event->iteration = lane->iteration;
    event->lane      = lane->lane;
    event->rank      = (int16_t)lane->rank;
    event->device    = (int16_t)lane->device;
    event->phase     = (uint8_t)lane->phase;
    event->depth     = 0;
    publish_and_tell(me, event, me->sched->stepped ? lane->time : stamp_of(me), lane->kind);
}

void
span_begin(struct task *me, enum kind kind, const int64_t args[4])
{
    if (stage_enabled(me, kind))
        emit(me, kind, PHASE_BEGIN, args, departing_flow(me), me->lane, me->device);
}

void
span_end(struct task *me, enum kind kind, const int64_t args[4])
{
    if (stage_enabled(me, kind))
        emit(me, kind, PHASE_END, args, 0, me->lane, me->device);
}

int64_t
stage_text_id(struct task *me, const char *text)
{
    if (me->buffer == NULL || text == NULL)
        return 0;
    return trace_text(me->sched->writer, text);
}

/* Found again by its address: nothing is hashed, no lock is taken. */
int64_t
stage_name_id(struct task *me, const char *text)
{
    uintptr_t       address = (uintptr_t)text;
    struct text_id *known   = &me->texts[(address ^ address >> 6) % TASK_TEXTS];
    if (known->text == text && text != NULL)
        return known->id;
    int64_t id = stage_text_id(me, text);
    if (id != 0)
        *known = (struct text_id){ text, (uint32_t)id };
    return id;
}

int64_t
stage_kept_id(struct task *me, atomic_uint *kept, const char *text)
{
    int64_t id = atomic_load_explicit(kept, memory_order_relaxed);
    if (id != 0 || text == NULL)
        return id;
    id = stage_text_id(me, text);
    atomic_store_explicit(kept, (unsigned)id, memory_order_relaxed);
    return id;
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

/* What an open trace says of one event. Its bytes are checked here, when it is asked for.
 *
 * Interface: trace_count, trace_event, trace_time and the like. */
#include "trace/clock.h"
#include "trace/internal.h"

/* Shown in place of an event whose bytes make no sense. */
static const struct trace_event damaged_event = { .phase = PHASE_INSTANT, .rank = -1, .device = -1 };

size_t
trace_count(const struct trace *trace)
{
    return trace->count;
}

uint64_t
trace_order_version(const struct trace *trace)
{
    return trace->version;
}

static bool
event_makes_sense(const struct trace *trace, const struct trace_event *event)
{
    return event->kind > 0 && event->kind < trace->kind_count && event->phase >= PHASE_BEGIN &&
           event->phase <= PHASE_INSTANT && event->lane < trace->lane_count && event->rank >= -1 && event->device >= -1;
}

const struct trace_event *
trace_event(const struct trace *trace, size_t seq)
{
    if (seq >= trace->count)
        return NULL;
    const struct trace_event *event = event_in_slot(trace, slot_of(trace, seq));
    return event_makes_sense(trace, event) ? event : &damaged_event;
}

uint64_t
trace_time(const struct trace *trace, size_t seq)
{
    if (seq >= trace->count)
        return 0;
    uint64_t time = event_in_slot(trace, slot_of(trace, seq))->time;
    if (trace->head.clock == CLOCK_VIRTUAL_PS)
        return time;
    uint64_t rate = trace->head.clock == CLOCK_TSC ? trace->head.ticks_per_ms : 1000000;
    return trace_wall_ps(trace->head.tick_base, time, rate);
}

bool
trace_is_virtual(const struct trace *trace)
{
    return trace->head.clock == CLOCK_VIRTUAL_PS;
}

static bool
lacks_a_stretch(const struct trace *trace)
{
    for (size_t i = 0; i < trace->window_count; i++)
        if (mapped_gone(&trace->windows[i]))
            return true;
    return false;
}

const char *
trace_note(const struct trace *trace)
{
    if (lacks_a_stretch(trace))
        return "cut short while it was open: what another program took from the file is missing";
    return trace->note;
}

uint64_t
trace_events_lost(const struct trace *trace)
{
    return trace->head.lost;
}

bool
trace_gone(const struct trace *trace)
{
    return trace->lost_ground || lacks_a_stretch(trace);
}

bool
trace_starved(const struct trace *trace)
{
    return trace->starved;
}

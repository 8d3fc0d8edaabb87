/* Questions about moments. Interface: moment_of_work and its kin, moment_span, span_end_shown. */
#include "moment.h"

#include "trace/reader.h"

enum { HOPS = 64 };

uint64_t
span_end_shown(const struct model *model, const struct span *span)
{
    return span->end != STILL_OPEN ? span->end : model->end > span->begin ? model->end : span->begin;
}

/* The span of that level in which `time` lies; false: none, and `next` is when the level's next one begins. */
static bool
span_around(const struct model *model, int lane, int level, uint64_t time, struct span *span, uint64_t *next)
{
    size_t at = index_find_span(model->index, (size_t)lane, level, time);
    bool   found = index_span(model->index, (size_t)lane, level, at, span);
    while (found && span_end_shown(model, span) <= time && span->begin < time)
        found = index_span(model->index, (size_t)lane, level, ++at, span);
    *next = found ? span->begin : UINT64_MAX;
    return found && span->begin <= time;
}

/* Whether the innermost span at that moment is there and no wait, and `until` when that may change. */
static bool
works(const struct model *model, int lane, uint64_t time, uint64_t *until)
{
    bool around = false, waits = false;
    *until = UINT64_MAX;
    for (int level = 0; level < model_depth(model, (size_t)lane) && !waits; level++) {
        uint64_t    next;
        struct span span;
        bool        here = span_around(model, lane, level, time, &span, &next);
        uint64_t    end = here ? span_end_shown(model, &span) : next;
        *until = end < *until ? end : *until;
        if (!here)
            break;
        around = true;
        waits = span.work == WORK_WAIT;
    }
    if (*until <= time)
        *until = time + 1;
    return around && !waits;
}

/* From which moment on it works, or does not. */
static uint64_t
next_moment(const struct model *model, int lane, uint64_t time, bool working)
{
    for (int hop = 0; hop < HOPS && time != UINT64_MAX; hop++) {
        uint64_t until;
        if (works(model, lane, time, &until) == working)
            return time;
        time = until;
    }
    return time;
}

uint64_t
moment_of_stage(const struct model *model, int lane, uint64_t time)
{
    return next_moment(model, lane, time, true);
}

uint64_t
moment_of_idling(const struct model *model, int lane, uint64_t time)
{
    return next_moment(model, lane, time, false);
}

uint64_t
moment_of_work(const struct model *model, int lane, uint64_t time)
{
    struct mark mark;
    size_t   at = index_find_mark(model->index, (size_t)lane, time);
    uint64_t marked = index_mark(model->index, (size_t)lane, at, &mark) ? mark.time : UINT64_MAX;
    uint64_t stage = marked > time ? moment_of_stage(model, lane, time) : time;
    return stage < marked ? stage : marked;
}

bool
moment_span(const struct model *model, size_t seq, struct span *span, int *level)
{
    const struct trace_event *event = seq == NO_EVENT ? NULL : trace_event(model->trace, seq);
    if (event == NULL || event->phase == PHASE_INSTANT)
        return false;
    size_t begin = event->phase == PHASE_END ? model_partner(model, seq) : seq;
    return begin != NO_EVENT && model_span(model, begin, span, level);
}

/* Questions about moments. Interface: moment_seq, moment_of_work and its kin, moment_span, span_end_shown. */
#include "moment.h"

#include "trace/reader.h"

enum { HOPS = 64 };

size_t
moment_seq(const struct model *model, uint64_t time)
{
    return model_seq_at(model, time);
}

uint64_t
span_end_shown(const struct model *model, const struct span *span)
{
    return span->end != STILL_OPEN ? span->end : model->end > span->begin ? model->end : span->begin;
}

/* The span of that level in which `time` lies; false: none, and `next` is when the level's next one begins. */
static bool
span_around(const struct model *model, int lane, int level, uint64_t time, struct span *span, uint64_t *next)
{
    *next = UINT64_MAX;
    if (!model_span_at(model, (size_t)lane, level, time, span))
        return false;
    *next = span->begin;
    return span->begin <= time;
}

/* Whether the innermost span at that moment is there and no wait, and `until` when that may change. */
static bool
works(const struct model *model, int lane, uint64_t time, uint64_t *until)
{
    bool    is_there = false;
    uint8_t work     = WORK_NONE;
    *until = UINT64_MAX;
    for (int level = 0; level < model_depth(model, (size_t)lane); level++) {
        struct span span;
        uint64_t    next;
        bool        around = span_around(model, lane, level, time, &span, &next);
        uint64_t    end    = around ? span_end_shown(model, &span) : next;
        *until = end < *until ? end : *until;
        if (!around)
            break;
        is_there = true;
        work     = span.work;
        if (work == WORK_WAIT)
            break;
    }
    if (*until <= time)
        *until = time + 1;
    return is_there && work != WORK_WAIT;
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
    size_t   i          = index_find_mark(model->index, (size_t)lane, time);
    uint64_t marked     = index_mark(model->index, (size_t)lane, i, &mark) ? mark.time : UINT64_MAX;
    uint64_t works_from = marked > time ? moment_of_stage(model, lane, time) : time;
    return works_from < marked ? works_from : marked;
}

bool
moment_span(const struct model *model, size_t seq, struct span *out)
{
    const struct trace_event *event = seq == NO_EVENT ? NULL : trace_event(model->trace, seq);
    int level;
    if (event == NULL || event->phase == PHASE_INSTANT)
        return false;
    return model_span(model, event->phase == PHASE_END ? model_partner(model, seq) : seq, out, &level);
}

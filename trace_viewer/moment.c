/* Questions about moments. Interface: moment_seq, moment_of_work and its kin, share_add, moment_span,
 * span_end_shown. */
#include "moment.h"

#include "trace/reader.h"
#include "veil.h"

enum { HOPS = 64, PEEKED = 8 };

size_t
moment_seq(const struct model *model, uint64_t time)
{
    size_t low = 0, high = model->seen;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace_time(model->trace, middle) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t
span_end_shown(const struct model *model, const struct span *span)
{
    return span->end != STILL_OPEN ? span->end : model->end > span->begin ? model->end : span->begin;
}

static size_t
mark_find(const struct lane *lane, uint64_t time)
{
    size_t low = 0, high = lane->mark_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->marks[middle].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The span of that level in which `time` lies; NULL: none, and `next` is when the level's next one begins. */
static const struct span *
span_around(const struct model *model, const struct level *level, uint64_t time, uint64_t *next)
{
    size_t at = level_find(level, time);
    while (at < level->count && span_end_shown(model, &level->spans[at]) <= time && level->spans[at].begin < time)
        at++;
    const struct span *span = at < level->count ? &level->spans[at] : NULL;
    *next = span != NULL ? span->begin : UINT64_MAX;
    return span != NULL && span->begin <= time ? span : NULL;
}

/* Whether the innermost span at that moment is there and no wait, and `until` when that may change. */
static bool
works(const struct model *model, const struct lane *lane, uint64_t time, uint64_t *until)
{
    *until = UINT64_MAX;
    const struct span *around = NULL;
    for (int level = 0; level < lane->depth; level++) {
        uint64_t next;
        const struct span *span = span_around(model, &lane->levels[level], time, &next);
        uint64_t end = span == NULL ? next : span_end_shown(model, span);
        *until = end < *until ? end : *until;
        around = span != NULL ? span : around;
        if (span == NULL || span->work == WORK_WAIT)
            break;
    }
    if (*until <= time)
        *until = time + 1;
    return around != NULL && around->work != WORK_WAIT;
}

/* From which moment on it works, or does not. */
static uint64_t
next_moment(const struct model *model, const struct lane *lane, uint64_t time, bool working)
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
    return next_moment(model, &model->lanes[lane], time, true);
}

uint64_t
moment_of_idling(const struct model *model, int lane, uint64_t time)
{
    return next_moment(model, &model->lanes[lane], time, false);
}

uint64_t
moment_of_work(const struct model *model, int lane, uint64_t time)
{
    const struct lane *this = &model->lanes[lane];
    size_t mark = mark_find(this, time);
    uint64_t marked = mark < this->mark_count ? this->marks[mark].time : UINT64_MAX;
    uint64_t works = marked > time ? moment_of_stage(model, lane, time) : time;
    return works < marked ? works : marked;
}

void
share_add(struct share *share, const struct model *model, const struct veil *veil, int lane, uint64_t from, uint64_t to)
{
    const struct lane *this = &model->lanes[lane];
    const struct level *level = &this->levels[0];
    size_t mark = mark_find(this, from), at = level_find(level, from);
    uint64_t busy = 0, seen = from;
    if (mark < this->mark_count && this->marks[mark].time < to && !veil_hides(veil, model, this->marks[mark].seq))
        share->touched = true;
    for (int i = 0; i < PEEKED && at < level->count && level->spans[at].begin < to; i++, at++) {
        const struct span *span = &level->spans[at];
        uint64_t end = span_end_shown(model, span), begin = span->begin > from ? span->begin : from;
        if ((end <= from && span->begin < from) || veil_hides(veil, model, span->seq))
            continue;
        share->touched = true;
        seen = end < to ? end : to;
        if (span->work == WORK_WAIT)
            continue;
        busy += seen > begin ? seen - begin : 0;
        if (share->work == WORK_NONE)
            share->work = span->work;
    }
    if (at < level->count && level->spans[at].begin < to && seen > from) /* there are more of the kind */
        busy = (uint64_t)((__uint128_t)busy * (to - from) / (seen - from));
    share->busy += busy < to - from ? busy : to - from;
}

/* Of the spans of a level that end at that moment the one of that kind. */
static const struct span *
ending_at(const struct model *model, const struct level *level, uint64_t time, uint16_t kind)
{
    const struct span *found = NULL;
    for (size_t i = level_find(level, time); i < level->count && level->spans[i].begin <= time; i++)
        if (level->spans[i].end == time && trace_event(model->trace, level->spans[i].seq)->kind == kind)
            found = &level->spans[i];
    return found;
}

const struct span *
moment_span(const struct model *model, size_t seq)
{
    const struct trace_event *event = seq == NO_EVENT ? NULL : trace_event(model->trace, seq);
    if (event == NULL || event->lane >= model->lane_count || event->phase == PHASE_INSTANT)
        return NULL;
    const struct lane *lane = &model->lanes[event->lane];
    uint64_t time = trace_time(model->trace, seq);
    const struct span *found = NULL;
    for (int level = 0; level < lane->depth; level++) {
        const struct level *spans = &lane->levels[level];
        if (event->phase == PHASE_END) {
            const struct span *ends = ending_at(model, spans, time, event->kind);
            found = ends != NULL && ends->seq < seq ? ends : found;
            continue;
        }
        for (size_t i = level_find(spans, time); i < spans->count && spans->spans[i].begin <= time; i++)
            if (spans->spans[i].seq == seq)
                return &spans->spans[i];
    }
    return found;
}

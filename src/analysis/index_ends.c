/* Other ends: of a begin its end, of a flow where it leads. Until the index is whole, and for what has no level, it is
 * looked for nearby.
 * Interface: index_span_of, index_partner, index_flow_end, index_flows. */
#include "analysis/index_internal.h"
#include "trace/reader.h"

enum { NEARBY = 1 << 16 }; /* events */

/* The place of the first number that is not below `seq`. */
static size_t
find_seq(const struct list *list, size_t count, uint32_t seq)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list_seq(list, middle) < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
has_seq(const struct list *list, size_t count, size_t seq, size_t *place)
{
    *place = find_seq(list, count, (uint32_t)seq);
    return *place < count && list_seq(list, *place) == seq;
}

/* The event, and its lane if the index knows it. */
static const struct lane_index *
lane_of_event(const struct index *index, size_t seq, const struct trace_event **event)
{
    *event = seq < index_count(index) ? trace_event(index->trace, seq) : NULL;
    if (*event == NULL || (*event)->lane >= index->lane_count || (*event)->kind >= index->kind_count)
        return NULL;
    return &index->lanes[(*event)->lane];
}

bool
index_span_of(const struct index *index, size_t seq, struct span *out, int *level)
{
    const struct trace_event *event;
    const struct lane_index *lane = lane_of_event(index, seq, &event);
    size_t place;
    if (lane == NULL || index->stage != STAGE_WHOLE || event->phase != PHASE_BEGIN)
        return false;
    for (*level = 0; *level < lane->depth; ++*level) {
        const struct track *track = lane->levels[*level];
        if (track != NULL && has_seq(&track->begin, track->look.count, seq, &place))
            return index_span(index, event->lane, *level, place, out);
    }
    return false;
}

/* ---- nearby ---- */

static bool
same_stage(const struct trace_event *one, const struct trace_event *other, bool nests)
{
    return one->lane == other->lane && one->kind == other->kind && one->phase != PHASE_INSTANT &&
           (nests || one->args[0] == other->args[0]);
}

/* Forwards from a begin, backwards from an end, past those of the same kind inside. */
static size_t
partner_nearby(const struct index *index, size_t seq, const struct trace_event *event)
{
    const struct trace_event from = *event;
    bool nests = index->kinds[event->kind].nests, forwards = event->phase == PHASE_BEGIN;
    size_t inside = 0;
    for (size_t i = 0; i < NEARBY; i++) {
        seq = forwards ? seq + 1 : seq - 1;
        const struct trace_event *other = seq < index_count(index) ? trace_event(index->trace, seq) : NULL;
        if (other == NULL)
            break;
        if (!same_stage(other, &from, nests))
            continue;
        if (other->phase == from.phase)
            inside++;
        else if (inside-- == 0)
            return seq;
    }
    return NO_EVENT;
}

static size_t
flow_nearby(const struct index *index, size_t seq, const struct trace_event *event)
{
    const struct trace_event from = *event;
    for (size_t i = 1; i < NEARBY; i++)
        for (int forwards = 0; forwards < 2; forwards++) {
            size_t at = forwards ? seq + i : seq - i;
            const struct trace_event *other = at < index_count(index) ? trace_event(index->trace, at) : NULL;
            if (other != NULL && other->flow == from.flow && other->lane != from.lane &&
                (other->phase != from.phase || from.phase == PHASE_INSTANT))
                return at;
        }
    return NO_EVENT;
}

/* ---- partners ---- */

/* Of the spans that an event ends the outermost, which is of its kind; the others were left open inside. */
static size_t
begin_of(const struct lane_index *lane, size_t seq)
{
    size_t place;
    for (int level = 0; level < lane->depth; level++) {
        const struct track *track = lane->levels[level];
        if (track != NULL && has_seq(&track->end, track->look.count, seq, &place))
            return list_seq(&track->begin, place);
    }
    return NO_EVENT;
}

static size_t
end_of(const struct lane_index *lane, size_t seq)
{
    size_t place;
    for (int level = 0; level < lane->depth; level++) {
        const struct track *track = lane->levels[level];
        if (track == NULL || !has_seq(&track->begin, track->look.count, seq, &place))
            continue;
        uint32_t end = list_seq(&track->end, place);
        return end != OPEN_END && begin_of(lane, end) == seq ? end : NO_EVENT;
    }
    return NO_EVENT;
}

/* Below the last level ends and begins are counted. */
static size_t
partner_in_deep(const struct index *index, const struct lane_index *lane, size_t seq, bool forwards)
{
    size_t place, inside = 0;
    if (!has_seq(&lane->deep, lane->deep.count, seq, &place))
        return NO_EVENT;
    for (size_t i = 0; i < NEARBY; i++) {
        place = forwards ? place + 1 : place - 1;
        const struct trace_event *other =
            place < lane->deep.count ? trace_event(index->trace, list_seq(&lane->deep, place)) : NULL;
        if (other == NULL)
            break;
        if ((other->phase == PHASE_BEGIN) == forwards)
            inside++;
        else if (inside-- == 0)
            return list_seq(&lane->deep, place);
    }
    return NO_EVENT;
}

size_t
index_partner(const struct index *index, size_t seq)
{
    const struct trace_event *event;
    const struct lane_index *lane = lane_of_event(index, seq, &event);
    if (lane == NULL || event->phase == PHASE_INSTANT)
        return NO_EVENT;
    bool forwards = event->phase == PHASE_BEGIN;
    if (index->stage != STAGE_WHOLE || !index->kinds[event->kind].nests)
        return partner_nearby(index, seq, event);
    size_t other = forwards ? end_of(lane, seq) : begin_of(lane, seq);
    if (other == NO_EVENT)
        other = partner_in_deep(index, lane, seq, forwards);
    return other < index->count ? other : NO_EVENT;
}

/* ---- flows ---- */

static size_t
find_flow(const struct list *list, size_t seq)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct flow_end *end = list_at(list, middle, sizeof *end);
        if (end->here < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t
index_flow_end(const struct index *index, size_t seq)
{
    const struct trace_event *event, *far;
    if (lane_of_event(index, seq, &event) == NULL || event->flow == 0)
        return NO_EVENT;
    if (index->stage != STAGE_WHOLE)
        return flow_nearby(index, seq, event);
    const struct list *lists[2] = { &index->flows_from, &index->flows_to };
    for (int i = 0; i < 2; i++) {
        size_t place = find_flow(lists[i], seq);
        const struct flow_end *end = place < lists[i]->count ? list_at(lists[i], place, sizeof *end) : NULL;
        if (end == NULL || end->here != seq || end->there >= index->count)
            continue;
        far = trace_event(index->trace, end->there);
        return far != NULL && far->lane != event->lane ? end->there : NO_EVENT;
    }
    return NO_EVENT;
}

static size_t
known_seq(const struct index *index, uint32_t seq)
{
    return seq < index->count ? seq : NO_EVENT;
}

size_t
index_flows(const struct index *index, size_t from, size_t to, struct flow *out, size_t room)
{
    if (index->stage != STAGE_WHOLE)
        return 0;
    const struct list *leave = &index->flows_from, *arrive = &index->flows_to;
    size_t first = find_flow(leave, from), behind = find_flow(leave, to), count = 0;
    for (size_t i = first; i < behind && count < room; i++, count++) {
        const struct flow_end *end = list_at(leave, i, sizeof *end);
        out[count] = (struct flow){ known_seq(index, end->here), known_seq(index, end->there) };
    }
    if (count < behind - first)
        count = behind - first;
    first = find_flow(arrive, from);
    behind = find_flow(arrive, to);
    for (size_t i = first; i < behind && count < room; i++) {
        const struct flow_end *end = list_at(arrive, i, sizeof *end);
        if (end->there >= from && end->there < to)
            continue;
        out[count++] = (struct flow){ known_seq(index, end->there), known_seq(index, end->here) };
        first = i + 1;
    }
    return count < room ? count : count + (behind - first);
}

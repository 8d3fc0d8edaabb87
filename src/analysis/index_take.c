/* One event into the index. Stages nest: an end closes the innermost open span of its kind and what was left open
 * inside of it. A lock that is held does not nest, its two ends are marks, as is an end without a begin.
 * Interface: index_learn, then index_take event by event; lane_turn for who only counts. */
#include "analysis/index_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/reader.h"

/* ---- kinds and lanes ---- */

static struct index_kind
kind_of(const struct trace_kind *kind)
{
    struct index_kind out = { .work = (uint8_t)work_of_kind(kind->name), .ok = -1,
                              .nests = strcmp(kind->name, "lock.hold") != 0 };
    for (int i = 0; i < kind->arg_count && i < 4 && strcmp(kind->name, "lesson.check") == 0; i++)
        if (strcmp(kind->arg_name[i], "ok") == 0)
            out.ok = (int8_t)i;
    return out;
}

/* They may be declared while the run goes on. */
bool
index_learn(struct index *index)
{
    size_t lanes = trace_lanes(index->trace), kinds = trace_kinds(index->trace);
    if (!vec_room(&index->lanes, &index->lane_room, lanes, sizeof *index->lanes))
        return false;
    for (; index->lane_count < lanes; index->lane_count++)
        index->lanes[index->lane_count] = (struct lane_index){ 0 };
    if (kinds <= index->kind_count)
        return true;
    struct index_kind *more = realloc(index->kinds, kinds * sizeof *more);
    if (more == NULL)
        return false;
    index->kinds = more;
    for (; index->kind_count < kinds; index->kind_count++)
        more[index->kind_count] = kind_of(trace_kind(index->trace, (unsigned)index->kind_count));
    return true;
}

bool
event_is_fault(const struct index *index, const struct trace_event *event)
{
    const struct index_kind *kind = &index->kinds[event->kind];
    return kind->work == WORK_FAULT || (kind->ok >= 0 && event->args[kind->ok] == 0);
}

/* ---- nesting ---- */

enum turn
lane_turn(struct lane_index *lane, const struct index_kind *kind, const struct trace_event *event, int *level,
          int *open)
{
    if (event->phase == PHASE_INSTANT || !kind->nests)
        return TURN_MARK;
    if (event->phase == PHASE_BEGIN) {
        *level = (int)lane->open++;
        if (*level >= LEVELS)
            return TURN_DEEP;
        lane->open_kind[*level] = event->kind;
        return TURN_SPAN;
    }
    if (lane->open > LEVELS) {
        lane->open--;
        return TURN_DEEP;
    }
    int found = (int)lane->open - 1;
    while (found >= 0 && lane->open_kind[found] != event->kind)
        found--;
    if (found < 0)
        return TURN_MARK;
    *level = found;
    *open = (int)lane->open;
    lane->open = (uint32_t)found;
    return TURN_END;
}

/* ---- spans and marks ---- */

static bool
begin_span(struct index *index, struct lane_index *lane, const struct trace_event *event, size_t seq, int level)
{
    uint64_t time = trace_time(index->trace, seq);
    struct track *track = track_take(lane, level);
    if (track == NULL)
        return false;
    uint32_t *begin = list_add(&track->begin, sizeof *begin), *end = list_add(&track->end, sizeof *end);
    uint16_t *look = list_add(&track->look, sizeof *look);
    if (begin == NULL || end == NULL || look == NULL)
        return false;
    enum work around = level > 0 ? (enum work)lane->open_work[level - 1] : WORK_NONE;
    enum work work = work_inside((enum work)index->kinds[event->kind].work, around);
    *begin = (uint32_t)seq;
    *end = OPEN_END;
    *look = (uint16_t)work;
    lane->open_work[level] = (uint8_t)work;
    lane->open_begin[level] = time;
    struct node span = { .from = time, .kinds = (uint64_t)1 << event->kind % 64, .works = (uint16_t)(1 << work) };
    return track_begins(track, track->begin.count - 1, &span) && (index->bulk || track_raise(track));
}

static void
end_span(struct lane_index *lane, int level, size_t seq, uint64_t time)
{
    struct track *track = lane->levels[level];
    size_t i = track->begin.count - 1;
    struct span span = { .begin = lane->open_begin[level], .end = time, .work = lane->open_work[level] };
    if (span.end < span.begin)
        span.end = span.begin;
    *(uint32_t *)list_at(&track->end, i, sizeof(uint32_t)) = (uint32_t)seq;
    *(uint16_t *)list_at(&track->look, i, sizeof(uint16_t)) |=
        (uint16_t)(length_look(span.end - span.begin) << LOOK_SHIFT);
    track_ends(track, i, &span);
}

static bool
add_mark(struct index *index, struct lane_index *lane, const struct trace_event *event, size_t seq)
{
    uint64_t time = trace_time(index->trace, seq);
    uint32_t *mark = list_add(&lane->marks, sizeof *mark);
    uint8_t  *work = list_add(&lane->mark_works, 1);
    if (mark == NULL || work == NULL)
        return false;
    *mark = (uint32_t)seq;
    *work = event_is_fault(index, event) ? (uint8_t)WORK_FAULT : index->kinds[event->kind].work;
    struct mark_node node = { .from = time, .last = time, .kinds = (uint64_t)1 << event->kind % 64, .count = 1,
                              .works = (uint16_t)(1 << *work) };
    return lane_marks(lane, lane->marks.count - 1, &node) && (index->bulk || marks_raise(lane));
}

static bool
add_to_lane(struct index *index, struct lane_index *lane, const struct trace_event *event, size_t seq)
{
    int level = 0, open = 0;
    uint32_t *deep;
    lane->events++;
    switch (lane_turn(lane, &index->kinds[event->kind], event, &level, &open)) {
    case TURN_SPAN:
        return begin_span(index, lane, event, seq, level);
    case TURN_END:
        for (int i = level; i < open && i < LEVELS; i++)
            end_span(lane, i, seq, trace_time(index->trace, seq));
        return true;
    case TURN_DEEP:
        deep = list_add(&lane->deep, sizeof *deep);
        if (deep != NULL)
            *deep = (uint32_t)seq;
        return deep != NULL;
    default:
        return add_mark(index, lane, event, seq);
    }
}

/* ---- flows ---- */

static bool
flows_room(struct index *index, size_t flow)
{
    if (flow < index->flow_count)
        return true;
    if (!vec_room(&index->flows, &index->flow_room, flow + 1, sizeof *index->flows))
        return false;
    memset(&index->flows[index->flow_count], 0, (flow + 1 - index->flow_count) * sizeof *index->flows);
    index->flow_count = flow + 1;
    return true;
}

/* A begin event leaves, an end event arrives; of instants the first leaves, the others arrive. Where a flow arrives
 * first is its other end; later arrivals know where they came from. Ids are dense: more than a few times as many as
 * there are events is damage. */
static bool
add_flow(struct index *index, const struct trace_event *event, size_t seq)
{
    if (event->flow >= 4 * index->target + 1024)
        return true;
    if (!flows_room(index, event->flow))
        return false;
    uint32_t *known = index->flows[event->flow];
    bool arrives = event->phase == PHASE_END || (event->phase == PHASE_INSTANT && known[0] != 0);
    if (!arrives && known[0] != 0)
        return true;
    struct list *list = arrives ? &index->flows_to : &index->flows_from;
    struct flow_end *end = list_add(list, sizeof *end);
    if (end == NULL)
        return false;
    *end = (struct flow_end){ (uint32_t)seq, OPEN_END };
    struct flow_end *from = known[0] != 0 ? list_at(&index->flows_from, known[0] - 1, sizeof *from) : NULL;
    struct flow_end *to = known[1] != 0 ? list_at(&index->flows_to, known[1] - 1, sizeof *to) : NULL;
    if (arrives && from != NULL) {
        end->there = from->here;
        from->there = from->there == OPEN_END ? (uint32_t)seq : from->there;
    } else if (!arrives && to != NULL) {
        end->there = to->here;
        to->there = (uint32_t)seq;
    }
    if (known[arrives] == 0)
        known[arrives] = (uint32_t)list->count;
    return true;
}

/* ---- all of it ---- */

static bool
add_in_order(struct index *index, const struct trace_event *event, size_t seq)
{
    struct seq_node node = { .iteration = event->iteration, .starts = seq == 0 || event->iteration > index->iteration };
    if (event->phase != PHASE_END)
        node.kinds[event->kind / 64 % 2] = (uint64_t)1 << event->kind % 64;
    index->iteration = event->iteration;
    return seqs_take(index, seq, &node) && (index->bulk || seqs_raise(index));
}

bool
index_take(struct index *index, size_t seq)
{
    const struct trace_event *event = trace_event(index->trace, seq);
    if (event == NULL || event->lane >= index->lane_count || event->kind >= index->kind_count)
        event = trace_event(index->trace, SIZE_MAX); /* nothing of it is known */
    if (event == NULL)
        return seqs_take(index, seq, &(struct seq_node){ .iteration = index->iteration });
    uint64_t time = trace_time(index->trace, seq);
    bool fault = event_is_fault(index, event);
    uint8_t work = index->kinds[event->kind].work;
    if (time > index->end)
        index->end = time;
    if (fault && !seqs_add(&index->faults, seq))
        return false;
    if ((work == WORK_LESSON || work == WORK_FAULT) && !seqs_add(&index->lessons, seq))
        return false;
    if (event->flow != 0 && !add_flow(index, event, seq))
        return false;
    return add_in_order(index, event, seq) && add_to_lane(index, &index->lanes[event->lane], event, seq);
}

/* What comes next: on a lane, of a kind, of a class, of an iteration. Nodes that hold nothing of it are passed over
 * whole. Until the index is whole, so many events are looked at one by one.
 * Interface: index_next_on_lane, index_next_of_kind, index_next_of_work, index_next_iteration. */
#include "analysis/index_internal.h"
#include "trace/reader.h"

enum { NEARBY = 1 << 18 }; /* events */

/* ---- on a lane ---- */

static void
take_nearer(size_t seq, size_t found, int direction, size_t *best)
{
    bool behind = seq == NO_EVENT || (direction > 0 ? found > seq : found < seq);
    if (behind && found != NO_EVENT && (*best == NO_EVENT || (direction > 0 ? found < *best : found > *best)))
        *best = found;
}

/* The nearest number of a sorted list behind `seq`, or before it. */
static void
look_in_list(const struct list *list, size_t count, size_t seq, int direction, size_t *best)
{
    size_t low = 0, high = count;
    while (high > 0 && list_seq(list, high - 1) == OPEN_END && count - high < LEVELS)
        high = --count;
    if (seq == NO_EVENT)
        low = direction > 0 ? 0 : count;
    while (seq != NO_EVENT && low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t at = list_seq(list, middle);
        if (direction > 0 ? at <= seq : at < seq)
            low = middle + 1;
        else
            high = middle;
    }
    if (direction < 0 && low-- == 0)
        return;
    if (low < count)
        take_nearer(seq, list_seq(list, low), direction, best);
}

static size_t
next_nearby(const struct index *index, size_t lane, size_t seq, int direction)
{
    size_t count = index_count(index);
    seq = seq == NO_EVENT ? direction > 0 ? 0 : count - 1 : direction > 0 ? seq + 1 : seq - 1;
    for (size_t i = 0; i < NEARBY && seq < count; i++) {
        const struct trace_event *event = trace_event(index->trace, seq);
        if (event != NULL && event->lane == lane)
            return seq;
        seq = direction > 0 ? seq + 1 : seq - 1;
    }
    return NO_EVENT;
}

size_t
index_next_on_lane(const struct index *index, size_t lane, size_t seq, int direction)
{
    if (lane >= index->lane_count)
        return NO_EVENT;
    if (index->stage != STAGE_WHOLE)
        return next_nearby(index, lane, seq, direction);
    const struct lane_index *found = &index->lanes[lane];
    size_t best = NO_EVENT;
    for (int level = 0; level < found->depth; level++) {
        const struct track *track = found->levels[level];
        if (track == NULL)
            continue;
        look_in_list(&track->begin, track->look.count, seq, direction, &best);
        look_in_list(&track->end, track->look.count, seq, direction, &best);
    }
    look_in_list(&found->marks, found->mark_works.count, seq, direction, &best);
    look_in_list(&found->deep, found->deep.count, seq, direction, &best);
    return best < index->count ? best : NO_EVENT;
}

/* ---- in the order of the trace ---- */

/* What is looked for: whether a node may hold it, whether an event is it. */
struct wanted {
    bool   (*node)(const struct wanted *wanted, const struct seq_node *node);
    bool   (*event)(const struct wanted *wanted, const struct trace *trace, size_t seq);
    unsigned kind;
    uint32_t iteration;
};

/* How many events lie from `at` on (or before it) in the largest node that begins (ends) there and holds nothing
 * wanted. */
static size_t
passed_over(const struct index *index, const struct wanted *wanted, size_t at, int direction)
{
    size_t most = 0, size = INDEX_BLOCK;
    for (int height = 0; height < index->seq_heights && at % size == 0; height++, size *= INDEX_FAN) {
        const struct list *nodes = &index->seq_nodes[height];
        size_t i = direction > 0 ? at / size : at / size - 1;
        if (i >= nodes->count || wanted->node(wanted, list_at(nodes, i, sizeof(struct seq_node))))
            break;
        most = size;
    }
    return most;
}

static size_t
seek(const struct index *index, const struct wanted *wanted, size_t seq, int direction)
{
    bool whole = index->stage == STAGE_WHOLE;
    size_t count = index_count(index), looked = 0;
    size_t at = seq == NO_EVENT ? direction > 0 ? 0 : count : direction > 0 ? seq + 1 : seq;
    while ((direction > 0 ? at < count : at > 0) && (whole || looked++ < NEARBY)) {
        size_t over = whole && at % INDEX_BLOCK == 0 ? passed_over(index, wanted, at, direction) : 0;
        if (over > 0) {
            at = direction > 0 ? at + over : at - over;
            continue;
        }
        size_t here = direction > 0 ? at : at - 1;
        if (here < count && wanted->event(wanted, index->trace, here))
            return here;
        at = direction > 0 ? at + 1 : at - 1;
    }
    return NO_EVENT;
}

static bool
node_has_kind(const struct wanted *wanted, const struct seq_node *node)
{
    return (node->kinds[wanted->kind / 64 % 2] >> wanted->kind % 64 & 1) != 0;
}

static bool
is_of_kind(const struct wanted *wanted, const struct trace *trace, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    return event != NULL && event->kind == wanted->kind && event->phase != PHASE_END;
}

size_t
index_next_of_kind(const struct index *index, unsigned kind, size_t seq, int direction)
{
    struct wanted wanted = { .node = node_has_kind, .event = is_of_kind, .kind = kind };
    return seek(index, &wanted, seq, direction);
}

static bool
node_has_later(const struct wanted *wanted, const struct seq_node *node)
{
    return node->iteration > wanted->iteration;
}

static bool
is_later(const struct wanted *wanted, const struct trace *trace, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    return event != NULL && event->iteration > wanted->iteration;
}

static bool
node_has_start(const struct wanted *wanted, const struct seq_node *node)
{
    (void)wanted;
    return node->starts > 0;
}

static bool
is_start(const struct wanted *wanted, const struct trace *trace, size_t seq)
{
    (void)wanted;
    const struct trace_event *event = trace_event(trace, seq), *before = seq > 0 ? trace_event(trace, seq - 1) : NULL;
    return before == NULL || (event != NULL && event->iteration > before->iteration);
}

size_t
index_next_iteration(const struct index *index, size_t seq, int direction)
{
    const struct trace_event *event = trace_event(index->trace, seq);
    uint32_t here = event != NULL ? event->iteration : 0;
    struct wanted later = { .node = node_has_later, .event = is_later, .iteration = here };
    struct wanted start = { .node = node_has_start, .event = is_start };
    return seek(index, direction > 0 ? &later : &start, seq, direction);
}

/* ---- of a class, on a lane ---- */

static bool
track_lacks(const struct track *track, enum work work, int height, size_t i)
{
    if (i >= track->nodes[height].count)
        return false;
    const struct node *node = list_at(&track->nodes[height], i, sizeof *node);
    return (node->works >> work & 1) == 0;
}

static size_t
track_seek(const struct track *track, enum work work, size_t at, int direction)
{
    size_t count = track->look.count;
    while (direction > 0 ? at < count : at > 0) {
        size_t over = 0, size = INDEX_BLOCK;
        for (int height = 0; height < track->heights && at % size == 0; height++, size *= INDEX_FAN) {
            if (!track_lacks(track, work, height, direction > 0 ? at / size : at / size - 1))
                break;
            over = size;
        }
        size_t here = direction > 0 ? at : at - 1;
        if (over == 0 && here < count &&
            (*(const uint16_t *)list_at(&track->look, here, sizeof(uint16_t)) & LOOK_WORK) == (unsigned)work)
            return here;
        over = over > 0 ? over : 1;
        at = direction > 0 ? at + over : at - over;
    }
    return NO_EVENT;
}

size_t
index_next_of_work(const struct index *index, size_t lane, enum work work, size_t seq, int direction)
{
    if (index->stage != STAGE_WHOLE || lane >= index->lane_count)
        return NO_EVENT;
    const struct lane_index *found = &index->lanes[lane];
    size_t best = NO_EVENT;
    for (int level = 0; level < found->depth; level++) {
        const struct track *track = found->levels[level];
        if (track == NULL)
            continue;
        size_t low = 0, high = track->look.count;
        while (low < high) { /* the first that begins behind seq, or at it where one goes back */
            size_t middle = low + (high - low) / 2;
            uint32_t at = list_seq(&track->begin, middle);
            if (direction > 0 ? seq == NO_EVENT || at > seq : at >= seq)
                high = middle;
            else
                low = middle + 1;
        }
        size_t place = track_seek(track, work, low, direction);
        if (place != NO_EVENT)
            take_nearer(seq, list_seq(&track->begin, place), direction, &best);
    }
    return best < index->count ? best : NO_EVENT;
}

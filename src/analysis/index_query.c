/* What an index answers. Its numbers may come from a file that anybody wrote: a seq that comes out of it is below the
 * number of events, a class is one, a place lies in its list.
 * Interface: index_spans, index_span, index_node and the like; index_find_span, index_find_mark. Ends of spans and
 * flows are index_ends.c's, what comes next index_next.c's. */
#include "analysis/index_internal.h"
#include "trace/reader.h"

static const struct track *
track_of(const struct index *index, size_t lane, int level)
{
    if (lane >= index->lane_count || level < 0 || level >= LEVELS || index->stage != STAGE_WHOLE)
        return NULL;
    return index->lanes[lane].levels[level];
}

static const struct lane_index *
lane_of(const struct index *index, size_t lane)
{
    return lane < index->lane_count && index->stage == STAGE_WHOLE ? &index->lanes[lane] : NULL;
}

bool
index_is_whole(const struct index *index)
{
    return index->stage == STAGE_WHOLE;
}

size_t
index_count(const struct index *index)
{
    return index->stage == STAGE_WHOLE ? index->count : index->target;
}

uint64_t
index_end(const struct index *index)
{
    return index->end;
}

const uint32_t *
index_faults(const struct index *index, size_t *count)
{
    *count = index->stage == STAGE_WHOLE ? index->faults.count : 0;
    return index->faults.items;
}

const uint32_t *
index_lessons(const struct index *index, size_t *count)
{
    *count = index->stage == STAGE_WHOLE ? index->lessons.count : 0;
    return index->lessons.items;
}

size_t
index_lanes(const struct index *index)
{
    return index->lane_count;
}

int
index_depth(const struct index *index, size_t lane)
{
    const struct lane_index *found = lane_of(index, lane);
    return found != NULL ? found->depth : index->stage == STAGE_WHOLE ? 0 : 1;
}

size_t
index_events(const struct index *index, size_t lane)
{
    if (index->stage != STAGE_WHOLE && lane < index->sample_lanes)
        return index->tallies[lane].events > 0 ? index->tallies[lane].events : 1;
    return lane < index->lane_count ? index->lanes[lane].events : 0;
}

size_t
index_spans(const struct index *index, size_t lane, int level)
{
    const struct track *track = track_of(index, lane, level);
    return track != NULL ? track->look.count : 0;
}

size_t
index_marks(const struct index *index, size_t lane)
{
    const struct lane_index *found = lane_of(index, lane);
    return found != NULL ? found->mark_works.count : 0;
}

static uint8_t
known_work(unsigned work)
{
    return work > WORK_NONE && work < WORK_COUNT ? (uint8_t)work : (uint8_t)WORK_OTHER;
}

bool
index_span(const struct index *index, size_t lane, int level, size_t i, struct span *out)
{
    const struct track *track = track_of(index, lane, level);
    if (track == NULL || i >= track->look.count)
        return false;
    uint32_t begin = list_seq(&track->begin, i), end = list_seq(&track->end, i);
    unsigned look = *(const uint16_t *)list_at(&track->look, i, sizeof(uint16_t));
    if (begin >= index->count)
        return false;
    *out = (struct span){ .begin = trace_time(index->trace, begin), .end = STILL_OPEN, .seq = begin,
                          .work = known_work(look & LOOK_WORK) };
    if (end < index->count) {
        out->end = trace_time(index->trace, end);
        out->end = out->end < out->begin ? out->begin : out->end;
    }
    return true;
}

size_t
index_begin(const struct index *index, size_t lane, int level, size_t i)
{
    const struct track *track = track_of(index, lane, level);
    size_t seq = track != NULL && i < track->look.count ? list_seq(&track->begin, i) : NO_EVENT;
    return seq < index->count ? seq : NO_EVENT;
}

uint64_t
index_length(const struct index *index, size_t lane, int level, size_t i)
{
    const struct track *track = track_of(index, lane, level);
    if (track == NULL || i >= track->look.count || list_seq(&track->end, i) == OPEN_END)
        return STILL_OPEN;
    return look_length(*(const uint16_t *)list_at(&track->look, i, sizeof(uint16_t)) >> LOOK_SHIFT);
}

bool
index_mark(const struct index *index, size_t lane, size_t i, struct mark *out)
{
    const struct lane_index *found = lane_of(index, lane);
    if (found == NULL || i >= found->mark_works.count || list_seq(&found->marks, i) >= index->count)
        return false;
    uint32_t seq = list_seq(&found->marks, i);
    *out = (struct mark){ .time = trace_time(index->trace, seq), .seq = seq,
                          .work = known_work(*(const uint8_t *)list_at(&found->mark_works, i, 1)) };
    return true;
}

int
index_heights(const struct index *index, size_t lane, int level)
{
    const struct track *track = track_of(index, lane, level);
    return track != NULL ? track->heights : 0;
}

const struct node *
index_node(const struct index *index, size_t lane, int level, int height, size_t i)
{
    const struct track *track = track_of(index, lane, level);
    if (track == NULL || height < 0 || height >= track->heights || i >= track->nodes[height].count)
        return NULL;
    return list_at(&track->nodes[height], i, sizeof(struct node));
}

int
index_mark_heights(const struct index *index, size_t lane)
{
    const struct lane_index *found = lane_of(index, lane);
    return found != NULL ? found->mark_heights : 0;
}

const struct mark_node *
index_mark_node(const struct index *index, size_t lane, int height, size_t i)
{
    const struct lane_index *found = lane_of(index, lane);
    if (found == NULL || height < 0 || height >= found->mark_heights || i >= found->mark_nodes[height].count)
        return NULL;
    return list_at(&found->mark_nodes[height], i, sizeof(struct mark_node));
}

const struct node *
index_sample(const struct index *index, size_t lane, size_t i)
{
    if (index->stage == STAGE_WHOLE || index->samples == NULL || lane >= index->sample_lanes ||
        i >= index->sample_count)
        return NULL;
    return &index->samples[lane * index->sample_count + i];
}

/* ---- by time ---- */

/* The last instant of a span; of one that goes on, none. */
static uint64_t
span_last(const struct span *span)
{
    return span->end == STILL_OPEN ? STILL_OPEN : span->end > span->begin ? span->end - 1 : span->begin;
}

/* Of the nodes [low, high) of a height the first whose last instant is not before `time`. */
static size_t
find_node(const struct track *track, int height, size_t low, size_t high, uint64_t time)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct node *node = list_at(&track->nodes[height], middle, sizeof *node);
        if (node->last < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t
index_find_span(const struct index *index, size_t lane, int level, uint64_t time)
{
    const struct track *track = track_of(index, lane, level);
    if (track == NULL || track->heights == 0)
        return 0;
    size_t low = 0, high = track->nodes[track->heights - 1].count, spans = track->look.count;
    for (int height = track->heights - 1; height >= 0; height--) {
        size_t found = find_node(track, height, low, high, time), below = height > 0 ? INDEX_FAN : INDEX_BLOCK;
        size_t items = height > 0 ? track->nodes[height - 1].count : spans;
        low = found * below < items ? found * below : items;
        high = low + below < items ? low + below : items;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct span span;
        if (index_span(index, lane, level, middle, &span) && span_last(&span) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t
index_find_mark(const struct index *index, size_t lane, uint64_t time)
{
    const struct lane_index *found = lane_of(index, lane);
    if (found == NULL)
        return 0;
    size_t low = 0, high = found->mark_works.count;
    while (high - low > INDEX_BLOCK) { /* by the blocks' last instants */
        size_t middle = (low + (high - low) / 2) / INDEX_BLOCK * INDEX_BLOCK;
        middle = middle > low ? middle : low + INDEX_BLOCK;
        const struct mark_node *node = index_mark_node(index, lane, 0, middle / INDEX_BLOCK - 1);
        if (node != NULL && node->last < time)
            low = middle;
        else
            high = middle;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct mark mark;
        if (index_mark(index, lane, middle, &mark) && mark.time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t
index_seq_at(const struct index *index, uint64_t time)
{
    size_t low = 0, high = index_count(index);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace_time(index->trace, middle) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

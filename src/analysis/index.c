/* Interface: index_open, index_build until index_is_whole, index_refresh, index_close. What an event does to the index
 * is in index_take.c, the answers are in index_query.c. */
#include "analysis/index.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/index_internal.h"
#include "analysis/index_sample.h"
#include "trace/reader.h"

/* ---- counting: how much room everything takes ---- */

static bool
begin_counting(struct index *index)
{
    index->stage = STAGE_COUNT;
    index->target = trace_count(index->trace);
    index->tallies = calloc(index->lane_count + 1, sizeof *index->tallies);
    return index->tallies != NULL && index_sample_all(index);
}

static void
count_event(struct index *index, const struct trace_event *event)
{
    struct lane_index *lane = &index->lanes[event->lane];
    struct tally *tally = &index->tallies[event->lane];
    uint8_t work = index->kinds[event->kind].work;
    int level = 0, open = 0;
    tally->events++;
    switch (lane_turn(lane, &index->kinds[event->kind], event, &level, &open)) {
    case TURN_SPAN: tally->spans[level]++; break;
    case TURN_MARK: tally->marks++; break;
    case TURN_DEEP: tally->deep++; break;
    default: break;
    }
    index->fault_tally += event_is_fault(index, event);
    index->lesson_tally += work == WORK_LESSON || work == WORK_FAULT;
    index->flow_tally.from += event->flow != 0 && event->phase != PHASE_END;
    index->flow_tally.to += event->flow != 0 && event->phase != PHASE_BEGIN;
}

static bool
end_counting(struct index *index)
{
    for (size_t i = 0; i < index->lane_count; i++)
        index->lanes[i].open = 0;
    index->stage = STAGE_FILL;
    index->bulk = true;
    return index_take_tracks(index) && index_place(index);
}

static void
count_on(struct index *index, size_t events)
{
    for (; events > 0 && index->counted < index->target; events--, index->counted++) {
        const struct trace_event *event = trace_event(index->trace, index->counted);
        if (event != NULL && event->lane < index->lane_count && event->kind < index->kind_count)
            count_event(index, event);
    }
    if (index->counted >= index->target)
        index->starved = !end_counting(index);
}

/* ---- filling ---- */

/* The heights above the first. */
static bool
raise_all(struct index *index)
{
    for (size_t i = 0; i < index->lane_count; i++) {
        struct lane_index *lane = &index->lanes[i];
        for (int level = 0; level < lane->depth; level++)
            if (lane->levels[level] != NULL && !track_raise(lane->levels[level]))
                return false;
        if (!marks_raise(lane))
            return false;
    }
    index->bulk = false;
    return seqs_raise(index);
}

static void
end_filling(struct index *index)
{
    index->stage = STAGE_WHOLE;
    index_keep(index);
    free(index->samples);
    free(index->tallies);
    index->samples = NULL;
    index->tallies = NULL;
}

static void
fill_on(struct index *index, size_t events)
{
    for (; events > 0 && index->count < index->target; events--, index->count++)
        if (!index_take(index, index->count)) {
            index->starved = true;
            return;
        }
    if (index->stage != STAGE_FILL || index->count < index->target)
        return;
    if (index->bulk) /* a slice of its own, as is the end */
        index->starved = !raise_all(index);
    else
        end_filling(index);
}

bool
index_build(struct index *index, size_t events)
{
    if (index->starved)
        return false;
    if (index->stage == STAGE_COUNT)
        count_on(index, events);
    else if (index->stage == STAGE_FILL)
        fill_on(index, events);
    return index->stage != STAGE_WHOLE && !index->starved;
}

/* ---- all of it ---- */

static bool
begin(struct index *index)
{
    index->fd = -1;
    index->version = trace_order_version(index->trace);
    if (!index_learn(index))
        return false;
    if (trace_count(index->trace) < index->file_from || index_load(index)) {
        index->stage = STAGE_WHOLE;
        return index_refresh(index);
    }
    return begin_counting(index);
}

static void
empty(struct index *index)
{
    lanes_free(index);
    index_unplace(index);
    free(index->lanes);
    free(index->kinds);
    free(index->faults.items);
    free(index->lessons.items);
    free(index->flows);
    free(index->tallies);
    free(index->samples);
    *index = (struct index){ .trace = index->trace, .file_from = index->file_from, .fd = -1 };
}

struct index *
index_open_from(struct trace *trace, size_t events)
{
    struct index *index = calloc(1, sizeof *index);
    if (index == NULL)
        return NULL;
    index->trace = trace;
    index->file_from = events;
    if (begin(index))
        return index;
    index_close(index);
    return NULL;
}

struct index *
index_open(struct trace *trace)
{
    return index_open_from(trace, INDEX_FROM);
}

void
index_close(struct index *index)
{
    if (index == NULL)
        return;
    empty(index);
    free(index);
}

/* Late events of another thread move those that were known: it begins anew. */
bool
index_refresh(struct index *index)
{
    if (index->version != trace_order_version(index->trace)) {
        empty(index);
        return begin(index);
    }
    if (index->stage != STAGE_WHOLE || index->starved)
        return true;
    size_t count = trace_count(index->trace);
    index->target = count < OPEN_END ? count : OPEN_END - 1;
    if (index->count >= index->target)
        return true;
    if (!index_learn(index))
        return false;
    fill_on(index, SIZE_MAX);
    return !index->starved;
}

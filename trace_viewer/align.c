/* By how much ranks are shown later or earlier. Interface: align_settle, align_shift, align_most, align_late,
 * align_free.
 *
 * The anchor of a rank is when it begins the iteration at which one stands, or when it ends the collective. All are
 * shown where the last of them is, so nothing moves out of sight to the left of the start. */
#include "align.h"

#include "base/vec.h"
#include "model.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

enum { NEAR = 1 << 16 }; /* events looked at on either side of the cursor */

/* The lane's first event from `seq` on; NO_EVENT: none. */
static size_t
event_from(const struct model *model, size_t lane, size_t seq)
{
    return model_lane_next(model, lane, seq > 0 ? seq - 1 : NO_EVENT, 1);
}

/* The first event of that iteration on the lane; those of a lane come in their order. */
static size_t
iteration_start(const struct model *model, size_t lane, uint32_t iteration)
{
    size_t low = 0, high = model->seen;
    while (low < high) {
        size_t middle = low + (high - low) / 2, seq = event_from(model, lane, middle);
        if (seq != NO_EVENT && trace_event(model->trace, seq)->iteration < iteration)
            low = middle + 1;
        else
            high = middle;
    }
    size_t found = event_from(model, lane, low);
    return found != NO_EVENT && trace_event(model->trace, found)->iteration == iteration ? found : NO_EVENT;
}

static struct aligned_rank *
rank_of(struct align *align, int rank)
{
    return rank >= 0 && (size_t)rank < align->count ? &align->ranks[rank] : NULL;
}

static void
anchor_iteration(struct align *align, const struct model *model)
{
    for (size_t i = 0; i < model->lane_count; i++) {
        const struct trace_lane_info *info = trace_lane_at(model->trace, i);
        struct aligned_rank *rank = rank_of(align, info->rank);
        if (rank == NULL || info->kind != LANE_HOST)
            continue;
        size_t seq = iteration_start(model, i, align->iteration);
        if (seq == NO_EVENT)
            continue;
        uint64_t time = trace_time(model->trace, seq);
        if (!rank->found || time < rank->anchor)
            rank->anchor = rank->arrival = time;
        rank->found = true;
    }
}

/* Whether the event belongs to a collective, and to which by its number. */
static bool
is_collective(const struct model *model, size_t seq, int64_t *sequence)
{
    return strncmp(model_kind(model, seq), "c10d.", 5) == 0 && model_argument(model, seq, "sequence", sequence);
}

/* Calls come before what they call, so the call that is nearest before the cursor says which collective is meant. */
static bool
find_collective(struct align *align, const struct model *model)
{
    size_t from = align->cursor < model->seen ? align->cursor : model->seen;
    for (size_t n = 0; n < NEAR && n <= from; n++)
        if (is_collective(model, from - n, &align->sequence))
            return true;
    for (size_t seq = from; seq < model->seen && seq < from + NEAR; seq++)
        if (is_collective(model, seq, &align->sequence))
            return true;
    return false;
}

/* A rank arrives when it first calls, and is done when the last of its stages for this one ends. */
static void
anchor_collective(struct align *align, const struct model *model)
{
    if (!find_collective(align, model))
        return;
    size_t from = align->cursor > NEAR ? align->cursor - NEAR : 0;
    for (size_t seq = from; seq < model->seen && seq < align->cursor + NEAR; seq++) {
        int64_t sequence;
        const struct trace_event *event = trace_event(model->trace, seq);
        struct aligned_rank *rank = rank_of(align, event->rank);
        if (rank == NULL || !is_collective(model, seq, &sequence) || sequence != align->sequence)
            continue;
        uint64_t time = trace_time(model->trace, seq);
        if (event->phase != PHASE_END && !rank->found) {
            rank->found = true;
            rank->arrival = rank->anchor = time;
        }
        if (event->phase == PHASE_END)
            rank->anchor = time;
    }
}

/* The last to arrive, if one comes later than all others, by the clock on which they end together. */
static void
find_last(struct align *align)
{
    uint64_t latest = 0, second = 0;
    int      found = 0;
    align->first = UINT64_MAX;
    for (size_t i = 0; i < align->count; i++) {
        if (!align->ranks[i].found)
            continue;
        uint64_t at = align->ranks[i].arrival + align_shift(align, (int)i);
        align->first = at < align->first ? at : align->first;
        if (found++ == 0 || at > latest) {
            second = latest;
            latest = at;
            align->last = (int)i;
        } else if (at > second) {
            second = at;
        }
    }
    if (latest == second || found < 2)
        align->last = -1;
}

static bool
make_ranks(struct align *align, const struct model *model)
{
    int most = -1;
    for (size_t i = 0; i < model->lane_count; i++)
        most = trace_lane_at(model->trace, i)->rank > most ? trace_lane_at(model->trace, i)->rank : most;
    align->count = 0;
    if (!vec_room(&align->ranks, &align->room, (size_t)(most + 1), sizeof *align->ranks))
        return false;
    align->count = (size_t)(most + 1);
    if (align->count > 0)
        memset(align->ranks, 0, align->count * sizeof *align->ranks);
    return true;
}

void
align_settle(struct align *align, const struct model *model, size_t cursor)
{
    const struct trace_event *event = cursor == NO_EVENT ? NULL : trace_event(model->trace, cursor);
    if (align->by == ALIGN_WALL || event == NULL) {
        align->count = 0;
        align->cursor = NO_EVENT;
        return;
    }
    bool settled = align->count > 0 && align->seen == model->seen && align->cursor == cursor;
    if (settled || (align->by == ALIGN_ITERATION && align->count > 0 && align->iteration == event->iteration &&
                    align->seen == model->seen))
        return;
    align->cursor = cursor;
    align->seen = model->seen;
    align->iteration = event->iteration;
    align->last = -1;
    if (!make_ranks(align, model))
        return;
    if (align->by == ALIGN_ITERATION)
        anchor_iteration(align, model);
    else
        anchor_collective(align, model);
    align->early = UINT64_MAX;
    align->late = 0;
    for (size_t i = 0; i < align->count; i++)
        if (align->ranks[i].found) {
            uint64_t anchor = align->ranks[i].anchor;
            align->early = anchor < align->early ? anchor : align->early;
            align->late = anchor > align->late ? anchor : align->late;
        }
    if (align->by == ALIGN_COLLECTIVE)
        find_last(align);
}

uint64_t
align_shift(const struct align *align, int rank)
{
    if (rank < 0 || (size_t)rank >= align->count || !align->ranks[rank].found)
        return 0;
    return align->late - align->ranks[rank].anchor;
}

uint64_t
align_most(const struct align *align)
{
    return align->count > 0 && align->late > align->early ? align->late - align->early : 0;
}

bool
align_late(const struct align *align, int rank, uint64_t *late)
{
    if (rank < 0 || (size_t)rank >= align->count || !align->ranks[rank].found)
        return false;
    *late = align->ranks[rank].anchor - align->early;
    if (align->by == ALIGN_COLLECTIVE)
        *late = align->ranks[rank].arrival + align_shift(align, rank) - align->first;
    return true;
}

void
align_free(struct align *align)
{
    free(align->ranks);
    *align = (struct align){ 0 };
}

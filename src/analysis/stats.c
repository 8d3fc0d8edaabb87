/* Sums over a record. A stack of open stages per lane gives each stage its own share. Interface in order of use:
 * stats_new, stats_grow, stats_free. */
#include "analysis/stats.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/work.h"
#include "base/vec.h"
#include "trace/reader.h"

struct open_stage { uint64_t begin, inside; size_t seq; uint16_t kind; };
struct lane_stack { struct open_stage *stages; size_t count, room; };

static void
forget(struct stats *stats)
{
    for (size_t i = 0; i < stats->lane_count; i++)
        free(stats->lanes[i].stages);
    free(stats->lanes);
    free(stats->kinds);
    free(stats->ranks);
    free(stats->work);
}

static bool
begin_anew(struct stats *stats, const struct trace *trace, size_t from)
{
    *stats = (struct stats){ .trace = trace, .version = trace_order_version(trace), .from = from, .next = from,
                             .kind_count = trace_kinds(trace) };
    stats->kinds = calloc(stats->kind_count + 1, sizeof *stats->kinds);
    stats->work  = calloc(stats->kind_count + 1, 1);
    for (size_t i = 0; stats->work != NULL && i < stats->kind_count; i++)
        stats->work[i] = (uint8_t)work_of_kind(trace_kind(trace, (unsigned)i)->name);
    return stats->kinds != NULL && stats->work != NULL;
}

struct stats *
stats_new(const struct trace *trace, size_t from)
{
    struct stats *stats = malloc(sizeof *stats);
    if (stats != NULL && !begin_anew(stats, trace, from)) {
        stats_free(stats);
        return NULL;
    }
    return stats;
}

void
stats_free(struct stats *stats)
{
    if (stats == NULL)
        return;
    forget(stats);
    free(stats);
}

/* So many of them, new ones zero. */
static bool
reach(void *items, size_t *count, size_t need, size_t size)
{
    void *old = *(void **)items;
    if (need <= *count)
        return true;
    unsigned char *grown = realloc(old, need * size);
    if (grown == NULL)
        return false;
    memset(grown + *count * size, 0, (need - *count) * size);
    *(void **)items = grown;
    *count = need;
    return true;
}

static void
add_time(struct stats *stats, const struct trace_event *event, uint64_t own)
{
    if (event->rank < 0 || !reach(&stats->ranks, &stats->rank_count, (size_t)event->rank + 1, sizeof *stats->ranks))
        return;
    struct rank_sums *rank = &stats->ranks[event->rank];
    enum work         work = (enum work)stats->work[event->kind];
    *(work == WORK_WAIT ? &rank->wait : work == WORK_COMMUNICATION ? &rank->communication : &rank->busy) += own;
}

/* An end whose begin lies before the stretch says nothing. */
static void
end_stage(struct stats *stats, struct lane_stack *lane, const struct trace_event *event, uint64_t time)
{
    size_t at = lane->count;
    while (at > 0 && lane->stages[at - 1].kind != event->kind)
        at--;
    if (at == 0)
        return;
    struct open_stage *stage = &lane->stages[at - 1];
    uint64_t           length = time > stage->begin ? time - stage->begin : 0;
    struct kind_sums  *sums = &stats->kinds[event->kind];
    uint64_t           own = length > stage->inside ? length - stage->inside : 0;
    sums->total += length;
    sums->self  += own;
    if (length >= sums->longest) {
        sums->longest    = length;
        sums->longest_at = stage->seq;
    }
    add_time(stats, event, own);
    lane->count = at - 1;
    if (lane->count > 0)
        lane->stages[lane->count - 1].inside += length;
}

static bool
take_event(struct stats *stats, size_t seq)
{
    const struct trace_event *event = trace_event(stats->trace, seq);
    if (event == NULL || event->kind >= stats->kind_count)
        return true;
    if (!reach(&stats->lanes, &stats->lane_count, (size_t)event->lane + 1, sizeof *stats->lanes))
        return false;
    struct lane_stack *lane = &stats->lanes[event->lane];
    uint64_t           time = trace_time(stats->trace, seq);
    stats->kinds[event->kind].count += event->phase != PHASE_END;
    if (event->phase == PHASE_END)
        end_stage(stats, lane, event, time);
    if (event->phase != PHASE_BEGIN)
        return true;
    if (!vec_room(&lane->stages, &lane->room, lane->count + 1, sizeof *lane->stages))
        return false;
    lane->stages[lane->count++] = (struct open_stage){ .begin = time, .seq = seq, .kind = event->kind };
    return true;
}

bool
stats_grow(struct stats *stats, size_t to, size_t slice)
{
    if (stats->version != trace_order_version(stats->trace)) {
        size_t from = stats->from;
        const struct trace *trace = stats->trace;
        forget(stats);
        stats->starved = !begin_anew(stats, trace, from);
    }
    for (; slice > 0 && stats->next < to && !stats->starved; slice--)
        stats->starved = !take_event(stats, stats->next++);
    return stats->next < to && !stats->starved;
}

/* Which end belongs to which begin, and where flows go. Ends pair with the innermost open begin of the same lane and
 * kind; spans that do not nest (a lock that is held) also agree in their first argument. Built on first use, then
 * carried on as the trace grows.
 *
 * Interface: trace_whole, trace_ask, trace_partner, trace_flow_end. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/internal.h"

enum { LEAVES, ARRIVES };

static uint64_t
span_key(const struct trace *trace, const struct trace_event *event)
{
    int64_t words[2] = { (int64_t)((uint64_t)event->lane << 16 | event->kind), 0 };
    if (!trace_kind(trace, event->kind)->is_stage)
        words[1] = event->args[0];
    return words[1] == 0 ? (uint64_t)words[0] : hash_bytes(0, words, sizeof words);
}

static bool
add_begin(struct pairs *pairs, uint64_t key, size_t seq)
{
    uint64_t below = 0;
    map_get(&pairs->open, key, &below);
    pairs->partner[seq] = (uint32_t)below;
    return map_set(&pairs->open, key, seq + 1);
}

static bool
add_end(struct pairs *pairs, uint64_t key, size_t seq)
{
    uint64_t begin = 0;
    if (!map_get(&pairs->open, key, &begin) || begin == 0)
        return true;
    uint32_t below = pairs->partner[begin - 1];
    if (!map_set(&pairs->open, key, below))
        return false;
    pairs->partner[seq] = (uint32_t)begin;
    pairs->partner[begin - 1] = (uint32_t)(seq + 1);
    return true;
}

/* A begin event leaves, an end event arrives; of instants the first leaves, the others arrive. Only the first
 * arrival is kept: the others know where they came from. */
static bool
add_flow(struct pairs *pairs, const struct trace_event *event, size_t seq, size_t flow_limit)
{
    size_t flow = event->flow;
    if (flow >= flow_limit)
        return true;
    if (flow >= pairs->flow_count) {
        if (!vec_room(&pairs->flows, &pairs->flow_room, flow + 1, sizeof *pairs->flows))
            return false;
        memset(&pairs->flows[pairs->flow_count], 0, (flow + 1 - pairs->flow_count) * sizeof *pairs->flows);
        pairs->flow_count = flow + 1;
    }
    uint32_t *ends = pairs->flows[flow];
    int end = event->phase == PHASE_END || (event->phase == PHASE_INSTANT && ends[LEAVES] != 0) ? ARRIVES : LEAVES;
    if (ends[end] == 0)
        ends[end] = (uint32_t)(seq + 1);
    return true;
}

static bool
add_event(struct trace *trace, size_t seq, size_t flow_limit)
{
    struct pairs *pairs = &trace->pairs;
    const struct trace_event *event = trace_event(trace, seq);
    pairs->partner[seq] = 0;
    if (event->flow != 0 && !add_flow(pairs, event, seq, flow_limit))
        return false;
    if (event->phase == PHASE_BEGIN)
        return add_begin(pairs, span_key(trace, event), seq);
    return event->phase != PHASE_END || add_end(pairs, span_key(trace, event), seq);
}

/* Flow ids are dense; more than a few times as many as there are events is damage. */
static bool
build_pairs(struct trace *trace)
{
    struct pairs *pairs = &trace->pairs;
    if (pairs->version != trace->version) {
        pairs_free(pairs);
        pairs->version = trace->version;
    }
    if (pairs->done >= trace->count)
        return true;
    if (!vec_room(&pairs->partner, &pairs->room, trace->count, sizeof *pairs->partner))
        return false;
    while (pairs->done < trace->count) {
        if (!add_event(trace, pairs->done, 4 * trace->count + 1024))
            return false;
        pairs->done++;
    }
    return true;
}

void
pairs_free(struct pairs *pairs)
{
    free(pairs->partner);
    free(pairs->flows);
    map_free(&pairs->open);
    *pairs = (struct pairs){ 0 };
}

bool
trace_whole(struct trace *trace)
{
    return !trace->starved && build_pairs(trace);
}

void
trace_ask(struct trace *trace, struct trace_ends ends)
{
    trace->ends = ends;
}

size_t
trace_partner(struct trace *trace, size_t seq)
{
    if (trace->ends.partner != NULL)
        return trace->ends.partner(trace->ends.of, seq);
    if (seq >= trace->count || !build_pairs(trace) || trace->pairs.partner[seq] == 0)
        return SIZE_MAX;
    size_t other = trace->pairs.partner[seq] - 1;
    bool open = other < seq && trace->pairs.partner[other] != seq + 1; /* a begin that names the open one below it */
    return open ? SIZE_MAX : other;
}

size_t
trace_flow_end(struct trace *trace, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    if (trace->ends.flow_end != NULL)
        return trace->ends.flow_end(trace->ends.of, seq);
    if (event == NULL || event->flow == 0 || !build_pairs(trace) || event->flow >= trace->pairs.flow_count)
        return SIZE_MAX;
    const uint32_t *ends = trace->pairs.flows[event->flow];
    uint32_t other = ends[LEAVES] == seq + 1 ? ends[ARRIVES] : ends[LEAVES];
    if (other == 0 || trace_event(trace, other - 1)->lane == event->lane)
        return SIZE_MAX;
    return other - 1;
}

/* The traces of a job whose clocks are known: what happens is told in true time, and each rank writes it down by a clock
 * of its own, which was started some time, goes a little too fast or too slow, and is compared with rank 0's over a
 * network with delays.
 * Order of use: rig_new; rig_event, rig_message, rig_meeting ...; rig_measure; rig_option; rig_close; rig_join; rig_free. */
#ifndef JOB_RIG_H
#define JOB_RIG_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rng.h"
#include "base/vec.h"
#include "trace/internal.h"
#include "trace/join.h"
#include "trace/schema.h"

enum { RIG_MOST = 64, RIG_TICKS_A_MS = 2400000 };

struct rig_moment { int64_t at; size_t order; struct trace_event event; };   /* at: in true ns */

struct rig_rank {
    struct trace_writer *writer;
    struct trace        *trace;
    int64_t              start;       /* true ns */
    double               rate;
    bool                 has_ticks;   /* else a system clock in ns */
    uint32_t             lanes[3];    /* "main", "rN main", "device:0 compute" */
    struct rig_moment   *moments;
    size_t               count, room;
};

struct job_rig {
    struct generator  dice;
    int               size;
    int64_t           longest;        /* way of a question or an answer: 1 us to so many ns */
    uint32_t          flow;
    struct rig_rank   ranks[RIG_MOST];
};

/* 0 to most - 1. */
static inline int64_t
rig_draw(struct job_rig *rig, int64_t most)
{
    return (int64_t)(generator_u64(&rig->dice) % (uint64_t)most);
}

static inline void
rig_option(struct job_rig *rig, int rank, const char *key, const char *value)
{
    trace_option(rig->ranks[rank].writer, key, value);
}

/* What that rank's trace calls ns and ticks. */
static inline int64_t
rig_local(const struct job_rig *rig, int rank, int64_t at)
{
    return (int64_t)((double)(at - rig->ranks[rank].start) * rig->ranks[rank].rate);
}

static inline uint64_t
rig_ticks(const struct job_rig *rig, int rank, int64_t at)
{
    double ns = (double)(at - rig->ranks[rank].start) * rig->ranks[rank].rate;
    /* The head's rate is wrong by 20 in a million, as that of a run which was killed. */
    return rig->ranks[rank].has_ticks ? (uint64_t)(ns * (RIG_TICKS_A_MS * 1.00002 / 1e6)) : (uint64_t)ns;
}

static inline struct trace_writer *
rig_writer(struct job_rig *rig, int r)
{
    struct rig_rank           *rank    = &rig->ranks[r];
    const struct trace_options options = { .clock = CLOCK_MONOTONIC_NS };
    char                       why[200] = "", text[32];
    struct trace_writer       *writer = trace_create(&options, why, sizeof why);
    assert_non_null(writer);
    writer->head->tick_base = 0;
    if (rank->has_ticks) {
        writer->head->clock        = CLOCK_TSC;
        writer->head->ticks_per_ms = RIG_TICKS_A_MS;
    }
    snprintf(text, sizeof text, "%d", r);
    trace_option(writer, JOB_ID, "a job");
    trace_option(writer, JOB_RANK, text);
    snprintf(text, sizeof text, "%d", rig->size);
    trace_option(writer, JOB_SIZE, text);
    trace_option(writer, "title", "one of many");
    rank->lanes[0] = trace_lane(writer, -1, -1, LANE_HOST, "main");
    snprintf(text, sizeof text, "r%d main", r);
    rank->lanes[1] = trace_lane(writer, r, r, LANE_HOST, text);
    rank->lanes[2] = trace_lane(writer, -1, 0, LANE_STREAM, "device:0 compute");
    return writer;
}

/* drift: so many in a million at most. */
static inline void
rig_new(struct job_rig *rig, int size, uint64_t seed, int drift, int64_t longest)
{
    *rig = (struct job_rig){ .size = size, .longest = longest };
    generator_seed(&rig->dice, seed);
    for (int r = 0; r < size; r++) {
        struct rig_rank *rank = &rig->ranks[r];
        rank->start     = rig_draw(rig, 200 * 1000 * 1000);
        rank->rate      = drift > 0 ? 1 + (double)(rig_draw(rig, 2 * drift + 1) - drift) / 1e6 : 1;
        rank->has_ticks = rig_draw(rig, 2) == 1;
        rank->writer    = rig_writer(rig, r);
    }
}

static inline void
rig_event(struct job_rig *rig, int r, int64_t at, struct trace_event event)
{
    struct rig_rank *rank = &rig->ranks[r];
    assert_true(vec_room(&rank->moments, &rank->room, rank->count + 1, sizeof *rank->moments));
    event.device = -1;
    rank->moments[rank->count] = (struct rig_moment){ at, rank->count, event };
    rank->count++;
}

/* args[1], the bytes, say the true time. */
static inline void
rig_message(struct job_rig *rig, int from, int to, int64_t leaves, int64_t arrives)
{
    struct trace_event event = { .flow = JOB_FLOW | ++rig->flow, .args = { 0, leaves, to, 0 }, .kind = KIND_comm_hop };
    event.lane  = rig->ranks[from].lanes[1];
    event.rank  = (int16_t)from;
    event.phase = PHASE_BEGIN;
    rig_event(rig, from, leaves, event);
    event.flow    = 0;
    event.phase   = PHASE_END;
    event.args[1] = leaves + 500;
    rig_event(rig, from, leaves + 500, event);
    struct trace_event other = { .args = { 0, leaves, from, 0 }, .kind = KIND_comm_receive, .rank = (int16_t)to };
    other.lane  = rig->ranks[to].lanes[1];
    other.phase = PHASE_BEGIN;
    rig_event(rig, to, leaves, other);
    other.flow    = JOB_FLOW | rig->flow;
    other.phase   = PHASE_END;
    other.args[1] = arrives;
    rig_event(rig, to, arrives, other);
}

/* An all-reduce of all: begun by each within `spread` ns, done by each within `spread` more. */
static inline void
rig_meeting(struct job_rig *rig, int sequence, int64_t at, int64_t spread)
{
    for (int r = 0; r < rig->size; r++) {
        struct trace_event event = { .args = { sequence, 16, 4, rig->size }, .kind = KIND_c10d_allreduce,
                                     .rank = (int16_t)r, .lane = rig->ranks[r].lanes[1], .phase = PHASE_BEGIN };
        rig_event(rig, r, at + rig_draw(rig, spread), event);
        event.phase = PHASE_END;
        rig_event(rig, r, at + spread + rig_draw(rig, spread), event);
    }
}

/* Compares every clock with rank 0's; answers the largest error. */
static inline int64_t
rig_measure(struct job_rig *rig, const char *key, int64_t at)
{
    int64_t worst = 0;
    for (int r = 0; r < rig->size; r++) {
        struct clock_exchange ways[8];
        struct clock_offset   offset;
        char                  text[CLOCK_OFFSET_TEXT];
        for (size_t i = 0; i < countof(ways); i++) {
            int64_t sent = at + (int64_t)i * 1000 * 1000, there = sent + 1000 + rig_draw(rig, rig->longest);
            int64_t received = there + 2000 + rig_draw(rig, rig->longest);
            ways[i] = (struct clock_exchange){ rig_local(rig, r, sent), rig_local(rig, 0, there),
                                               rig_local(rig, 0, there + 1000), rig_local(rig, r, received),
                                               rig_ticks(rig, r, received) };
        }
        if (r == 0)
            offset = (struct clock_offset){ rig_local(rig, 0, at), 0, 0, rig_ticks(rig, 0, at) };
        else
            assert_true(clock_offset_find(ways, countof(ways), &offset));
        worst = offset.error > worst ? offset.error : worst;
        clock_offset_print(&offset, text);
        rig_option(rig, r, key, text);
    }
    return worst;
}

/* Every rank notes that it has come there: only when, or a measurement. */
static inline void
rig_cut(struct job_rig *rig, int cut, int64_t at)
{
    for (int r = 0; r < rig->size; r++) {
        char key[32], text[32];
        snprintf(key, sizeof key, JOB_CUT "%d", cut);
        snprintf(text, sizeof text, "%llu", (unsigned long long)rig_ticks(rig, r, at));
        rig_option(rig, r, key, text);
    }
}

static inline int
rig_earlier(const void *a, const void *b)
{
    const struct rig_moment *one = a, *other = b;
    if (one->at != other->at)
        return one->at < other->at ? -1 : 1;
    return one->order < other->order ? -1 : one->order > other->order;
}

/* What was told goes into the traces; they go on. */
static inline void
rig_write(struct job_rig *rig)
{
    for (int r = 0; r < rig->size; r++) {
        struct rig_rank     *rank   = &rig->ranks[r];
        struct trace_buffer *buffer = trace_buffer_new(rank->writer);
        assert_non_null(buffer);
        if (rank->count > 0)
            qsort(rank->moments, rank->count, sizeof *rank->moments, rig_earlier);
        for (size_t i = 0; i < rank->count; i++) {
            rank->moments[i].event.time = rig_ticks(rig, r, rank->moments[i].at);
            assert_true(trace_append(buffer, &rank->moments[i].event));
        }
        rank->count = 0;
        trace_buffer_free(buffer);
        char why[200] = "";
        if (rank->trace == NULL)
            rank->trace = trace_open_fd(trace_fd(rank->writer), why, sizeof why);
        assert_non_null(rank->trace);
        trace_refresh(rank->trace);
    }
}

/* The same, and the traces are finished. */
static inline void
rig_close(struct job_rig *rig)
{
    rig_write(rig);
    for (int r = 0; r < rig->size; r++) {
        trace_close(rig->ranks[r].writer);
        rig->ranks[r].writer = NULL;
        trace_refresh(rig->ranks[r].trace);
    }
}

/* In an order that is not the ranks'. */
static inline struct trace *
rig_join(const struct job_rig *rig, const struct join_wish *wish)
{
    struct join_part parts[RIG_MOST];
    char             names[RIG_MOST][32], why[400] = "";
    for (int r = 0; r < rig->size; r++) {
        int rank = rig->size - 1 - r;
        snprintf(names[r], sizeof names[r], "some/rank%d.trace", rank);
        parts[r] = (struct join_part){ names[r], rig->ranks[rank].trace };
    }
    struct trace *whole = trace_join(parts, (size_t)rig->size, wish, why, sizeof why);
    if (whole == NULL)
        fail_msg("%s", why);
    return whole;
}

static inline void
rig_free(struct job_rig *rig)
{
    for (int r = 0; r < rig->size; r++) {
        trace_release(rig->ranks[r].trace);
        trace_close(rig->ranks[r].writer);
        free(rig->ranks[r].moments);
    }
}
#endif

/* Traces written by hand for the tests of the story's fold, and what is asked of them. */
#ifndef STORY_RIG_H
#define STORY_RIG_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "analysis/story.h"
#include "base/str.h"
#include "trace/internal.h"
#include "trace/reader.h"
#include "trace/schema.h"

enum { RANKS_MOST = 100 };

/* ---- a trace: the lesson's lane, then main and comm of each rank ---- */

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    struct trace        *trace;
    uint64_t             time;
    size_t               count;
    uint32_t             iteration, line;
    int                  world, issued[RANKS_MOST];
};

#define ARGS(...) ((const int64_t[4]){ __VA_ARGS__ })
#define NONE ARGS(0)

static inline struct rig
rig_new(int world)
{
    struct rig rig = { .world = world };
    char       why[200], name[32];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    rig.writer = trace_create(&options, why, sizeof why);
    assert_non_null(rig.writer);
    rig.buffer = trace_buffer_new(rig.writer);
    trace_lane(rig.writer, -1, -1, LANE_HOST, "main");
    for (int rank = 0; rank < world; rank++) {
        snprintf(name, sizeof name, "r%d main", rank);
        trace_lane(rig.writer, rank, -1, LANE_HOST, name);
        snprintf(name, sizeof name, "r%d comm", rank);
        trace_lane(rig.writer, rank, -1, LANE_HOST, name);
    }
    return rig;
}

static inline void
rig_free(struct rig *rig)
{
    trace_release(rig->trace);
    trace_buffer_free(rig->buffer);
    trace_close(rig->writer);
}

static inline int main_of(int rank) { return rank < 0 ? 0 : 1 + 2 * rank; }
static inline int comm_of(int rank) { return 2 + 2 * rank; }

static inline size_t
emit(struct rig *rig, int lane, int rank, enum trace_phase phase, enum kind kind, const int64_t args[4])
{
    struct trace_event event = { .time = rig->time += 1000, .kind = (uint16_t)kind, .phase = (uint8_t)phase,
                                 .lane = (uint32_t)lane, .rank = (int16_t)rank, .device = -1, .line = rig->line,
                                 .iteration = rig->iteration };
    memcpy(event.args, args, sizeof event.args);
    assert_true(trace_append(rig->buffer, &event));
    return rig->count++;
}

static inline size_t
begin(struct rig *rig, int rank, enum kind kind, const int64_t args[4])
{
    return emit(rig, main_of(rank), rank, PHASE_BEGIN, kind, args);
}

static inline size_t
end(struct rig *rig, int rank, enum kind kind, const int64_t args[4])
{
    return emit(rig, main_of(rank), rank, PHASE_END, kind, args);
}

static inline size_t
point(struct rig *rig, int rank, enum kind kind, const int64_t args[4])
{
    return emit(rig, main_of(rank), rank, PHASE_INSTANT, kind, args);
}

static inline size_t
scene(struct rig *rig, int rank, enum kind kind, const int64_t args[4])
{
    begin(rig, rank, kind, args);
    return end(rig, rank, kind, args);
}

static inline int64_t
text(struct rig *rig, const char *words)
{
    return trace_text(rig->writer, words);
}

static inline size_t
say(struct rig *rig, int rank, uint32_t line)
{
    rig->line = line;
    return point(rig, rank, KIND_lesson_say, ARGS(text(rig, "words")));
}

/* The ranks start and meet; where they have met. */
static inline size_t
spawn(struct rig *rig)
{
    size_t met = 0;
    rig->iteration = 0;
    for (int rank = 0; rank < rig->world; rank++)
        point(rig, rank, KIND_task_start, NONE);
    for (int rank = 0; rank < rig->world; rank++)
        begin(rig, rank, KIND_c10d_rendezvous, ARGS(rank, rig->world));
    for (int rank = 0; rank < rig->world; rank++)
        met = end(rig, rank, KIND_c10d_rendezvous, ARGS(rank, rig->world));
    return met;
}

static inline void
finish(struct rig *rig)
{
    for (int rank = 0; rank < rig->world; rank++)
        point(rig, rank, KIND_task_end, NONE);
}

/* An act of all ranks with a scene of `bytes` in it; the stops that it would have. */
struct pair { size_t act, scene; };

static inline struct pair
forward(struct rig *rig, int64_t bytes)
{
    struct pair at = { 0 };
    for (int rank = 0; rank < rig->world; rank++)
        at.act = begin(rig, rank, KIND_ddp_forward, ARGS(rig->iteration));
    for (int rank = 0; rank < rig->world && bytes > 0; rank++)
        at.scene = scene(rig, rank, KIND_ddp_sync_buffers, ARGS(3, bytes));
    for (int rank = 0; rank < rig->world; rank++)
        end(rig, rank, KIND_ddp_forward, NONE);
    return at;
}

static inline void
issue(struct rig *rig, int rank, const char *operation)
{
    point(rig, rank, KIND_c10d_issue, ARGS(text(rig, operation), rig->issued[rank]++, 8, 0));
}

static inline size_t
on_comm(struct rig *rig, int rank, enum trace_phase phase, enum kind kind, const int64_t args[4])
{
    return emit(rig, comm_of(rank), rank, phase, kind, args);
}

/* ---- what is asked ---- */

static inline void
look(struct rig *rig)
{
    char why[200];
    if (rig->trace == NULL)
        rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    trace_refresh(rig->trace);
}

static inline struct story *
told(struct rig *rig)
{
    look(rig);
    struct story *story = story_new(rig->trace);
    assert_non_null(story);
    assert_true(story_read(story, trace_count(rig->trace)) && story_close(story));
    return story;
}

static inline void
assert_stops_of(const struct story *story, const size_t *wanted, size_t count)
{
    char   line[2000] = "", have[2000] = "";
    size_t length = 0;
    for (size_t i = 0; i < story_count(story); i++)
        length += (size_t)snprintf(have + length, sizeof have - length, "%zu ", story_at(story, i)->at);
    for (size_t i = length = 0; i < count; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, "%zu ", wanted[i]);
    assert_string_equal(have, line);
}

/* The stops are these events, no others; nothing is left untold. */
static inline void
assert_stops(struct rig *rig, const size_t *wanted, size_t count)
{
    struct story        *story = told(rig);
    struct story_figures figures;
    assert_stops_of(story, wanted, count);
    story_figures(story, &figures);
    assert_int_equal(figures.stops, count);
    assert_int_equal(figures.untold, 0);
    story_free(story);
}

#define STOPS(rig, ...) \
    assert_stops(rig, (const size_t[]){ __VA_ARGS__ }, sizeof((const size_t[]){ __VA_ARGS__ }) / sizeof(size_t))

/* So far nothing is kept back (or all from that event on). */
static inline void
assert_settled(struct rig *rig, size_t wanted)
{
    look(rig);
    struct story *story = story_new(rig->trace);
    assert_non_null(story);
    assert_true(story_read(story, rig->count));
    assert_int_equal(story_settled(story), wanted);
    story_free(story);
}

static inline void
assert_again(struct rig *rig, size_t at, const char *wanted)
{
    struct story *story = told(rig);
    struct str    line = { 0 };
    const struct story_stop *stop = story_at(story, story_index(story, at));
    assert_non_null(stop);
    assert_int_equal(stop->at, at);
    story_again(story, stop, &line);
    assert_string_equal(str_text(&line), wanted);
    str_free(&line);
    story_free(story);
}

static inline void
assert_sentence(struct rig *rig, size_t at, const char *wanted)
{
    struct story *story = told(rig);
    struct str    line = { 0 };
    const struct story_stop *stop = story_at(story, story_index(story, at));
    assert_non_null(stop);
    story_tell(story, stop, &line);
    assert_string_equal(str_text(&line), wanted);
    str_free(&line);
    story_free(story);
}
#endif

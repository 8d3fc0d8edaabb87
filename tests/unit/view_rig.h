/* A trace written in memory and read back, arranged for drawing: what the viewer's tests look at. */
#ifndef VIEW_RIG_H
#define VIEW_RIG_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../trace_viewer/frame.h"
#include "../../trace_viewer/view.h"
#include "base/rng.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { RIG_LANES = 7 };

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    struct model         model;
    struct view          view;
    uint64_t             now;
    uint8_t              depth[RIG_LANES];
    uint16_t             open[RIG_LANES][64];
};

static inline void
rig_event(struct rig *rig, int phase, int kind, uint32_t lane, int64_t first)
{
    if (phase == PHASE_END)
        rig->depth[lane]--;
    struct trace_event event = {
        .time = rig->now, .args = { first }, .line = 3, .iteration = (uint32_t)(rig->now / 400000000), .lane = lane,
        .rank = -1, .device = (int16_t)((int)lane - 1), .phase = (uint8_t)phase, .depth = rig->depth[lane],
        .kind = (uint16_t)kind
    };
    if (phase == PHASE_BEGIN)
        rig->open[lane][rig->depth[lane]++] = (uint16_t)kind;
    assert_true(trace_append(rig->buffer, &event));
}

static inline void
rig_begin(struct rig *rig)
{
    char why[200];
    struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    *rig = (struct rig){ .writer = trace_create(&options, why, sizeof why) };
    assert_non_null(rig->writer);
    rig->buffer = trace_buffer_new(rig->writer);
    assert_non_null(rig->buffer);
    trace_option(rig->writer, "title", "A lesson");
    trace_source(rig->writer, "lessons/test.lua", "local rs = require \"ringside\"\nrs.say \"hello\"\nlocal x = 1\n");
    static const char *const names[RIG_LANES] = { "main",        "device:0 compute", "device:1 compute", "dp worker 0",
                                                  "dp worker 1", "idle",             "\x1b[2Jevil\xe2\x80\xae\xff" };
    for (uint32_t i = 0; i < RIG_LANES; i++)
        assert_int_equal(trace_lane(rig->writer, -1, (int)i - 1, LANE_HOST, names[i]), i);
}

/* Everything written is read back; the writer stays open, as in a running lesson. */
static inline void
rig_read(struct rig *rig)
{
    char why[200];
    struct trace *trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(trace);
    assert_true(model_open(&rig->model, trace));
    view_init(&rig->view);
    rig->view.asking.all = true; /* its questions hide nothing */
    view_goto(&rig->view, &rig->model, 0);
}

static inline void
rig_end(struct rig *rig)
{
    view_free(&rig->view);
    model_close(&rig->model);
    trace_close(rig->writer);
}

/* Spans of all lengths over four decades, nested to depth 8, marks, questions and failed checks between them. */
static inline void
rig_random(struct rig *rig, uint64_t seed, int events)
{
    static const int stages[] = { KIND_dp_forward, KIND_op, KIND_autograd_node, KIND_lock_wait, KIND_c10d_allreduce,
                                  KIND_kernel, KIND_optim_step, KIND_dp_scatter };
    static const int points[] = { KIND_memory_alloc, KIND_lesson_say, KIND_lesson_ask, KIND_lesson_check,
                                  KIND_fault_race, KIND_stream_record };
    uint64_t state = seed;
    rig_begin(rig);
    int64_t text = trace_text(rig->writer, "words \x1b]0;title\x07 \xc2\x9b and a \xe5\xad\x97");
    for (int i = 0; i < events; i++) {
        uint32_t lane = (uint32_t)(splitmix(&state) % RIG_LANES);
        int dice = (int)(splitmix(&state) % 10);
        uint64_t decades[] = { 1000, 30000, 900000, 20000000 };
        rig->now += splitmix(&state) % decades[splitmix(&state) % 4];
        if (lane == 5)
            continue;
        if (dice < 4 && rig->depth[lane] < 8)
            rig_event(rig, PHASE_BEGIN, stages[splitmix(&state) % 8], lane, text);
        else if (dice < 8 && rig->depth[lane] > 0)
            rig_event(rig, PHASE_END, rig->open[lane][rig->depth[lane] - 1], lane, text);
        else
            rig_event(rig, PHASE_INSTANT, points[splitmix(&state) % 6], lane, text);
    }
    rig_read(rig);
}
#endif

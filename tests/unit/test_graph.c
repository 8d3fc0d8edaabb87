/* What analysis/graph.c makes of the text of a graph and of turns that follow it, also where a trace says nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/graph.h"
#include "analysis/state.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    uint64_t             time;
    struct trace        *trace;
    struct state        *state;
    struct backward     *backward;
};

static void
emit(struct rig *rig, enum kind kind, enum trace_phase phase, int lane, const int64_t args[4])
{
    struct trace_event event = { .time = rig->time++, .kind = kind, .phase = phase, .lane = (uint32_t)lane, .rank = 0,
                                 .device = -1, .iteration = 1 };
    memcpy(event.args, args, sizeof event.args);
    assert_true(trace_append(rig->buffer, &event));
}

#define ARGS(...) ((const int64_t[4]){ __VA_ARGS__ })

static struct rig
begin(const char *text)
{
    struct rig rig = { 0 };
    char why[200];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    rig.writer = trace_create(&options, why, sizeof why);
    assert_non_null(rig.writer);
    rig.buffer = trace_buffer_new(rig.writer);
    trace_lane(rig.writer, 0, -1, LANE_HOST, "r0 main");
    trace_lane(rig.writer, 0, 0, LANE_HOST, "r0 autograd 0");
    emit(&rig, KIND_autograd_backward, PHASE_BEGIN, 0, ARGS(1, 0));
    emit(&rig, KIND_autograd_graph, PHASE_INSTANT, 0, ARGS(1, 5, 0, trace_text(rig.writer, text)));
    return rig;
}

static void
turn(struct rig *rig, int lane, int place, bool whole)
{
    emit(rig, KIND_autograd_node, PHASE_BEGIN, lane, ARGS(0, 0, 0, place));
    if (whole)
        emit(rig, KIND_autograd_node, PHASE_END, lane, ARGS(0, 0, 0, place));
}

static const struct backward *
look(struct rig *rig)
{
    char why[200];
    rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    rig->state = state_new(rig->trace);
    size_t last = trace_count(rig->trace) - 1;
    assert_true(state_seek(rig->state, last));
    rig->backward = backward_at(rig->trace, rig->state, last);
    assert_non_null(rig->backward);
    return rig->backward;
}

static void
end(struct rig *rig)
{
    struct str text = { 0 };
    backward_print(rig->backward, &text);
    assert_true(str_ok(&text));
    str_free(&text);
    backward_free(rig->backward);
    state_free(rig->state);
    trace_release(rig->trace);
    trace_close(rig->writer);
}

/* loss -> mul; mul -> add, b; add -> w, b: b waits for two. */
static const char diamond[] = "0\n3\tSum\t\t1\n2\tMul\t\t2,4\n1\tAdd\t\t3,4\n-\tx::AccumulateGrad\tfc.w\t\n-\tx::AccumulateGrad\tfc.b\t\n";

static void
a_node_is_ready_when_its_last_gradient_has_come(void **state)
{
    (void)state;
    struct rig rig = begin(diamond);
    turn(&rig, 0, 0, true);
    turn(&rig, 1, 1, true);
    turn(&rig, 1, 2, false);
    const struct backward *backward = look(&rig);
    assert_int_equal(backward->when, BACKWARD_NOW);
    assert_int_equal(backward->count, 5);
    assert_int_equal(backward->done, 2);
    assert_int_equal(backward->current, 2);
    assert_int_equal(backward->nodes[2].turn, TURN_RUNS);
    assert_int_equal(backward->nodes[2].order, 3);
    assert_int_equal(backward->nodes[4].turn, TURN_WAITS);
    assert_int_equal(backward->nodes[4].waits, 1);
    assert_int_equal(backward->nodes[3].waits, 1);
    assert_int_equal(backward->ready, 0);
    assert_string_equal(backward->nodes[3].name, "AccumulateGrad");
    end(&rig);
}

static void
the_walk_has_each_node_once_and_parameters_behind_their_node(void **state)
{
    (void)state;
    struct rig rig = begin(diamond);
    const struct backward *backward = look(&rig);
    static const int walk[] = { 0, 1, 4, 2, 3 };
    assert_memory_equal(backward->walk, walk, sizeof walk);
    assert_int_equal(backward->nodes[4].head, 1);
    assert_int_equal(backward->nodes[3].head, 2);
    assert_int_equal(backward->nodes[0].turn, TURN_READY);
    struct str module = { 0 };
    backward_module(backward, 2, &module);
    assert_string_equal(str_text(&module), "fc");
    str_free(&module);
    end(&rig);
}

static void
a_text_that_was_cut_says_how_many_are_left_out(void **state)
{
    (void)state;
    struct rig rig = begin("0\n3\tSum\t\t1,7\n2\tMul\t\t\n... 17 more\n");
    const struct backward *backward = look(&rig);
    assert_int_equal(backward->count, 2);
    assert_int_equal(backward->left_out, 17);
    end(&rig);
}

static void
nonsense_is_no_graph_and_no_crash(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "\n", "?", "0", "9,9,9\n", "0\nx\n", "0\n\t\t\t\n", "0\n1\tA\t\t0\n",
                                         "0\n1\tA\t\t1,1,1,1\n2\tB\t\t0,0\n", "-1\n!\t\t\t99999999999999999999\n" };
    for (size_t i = 0; i < countof(texts); i++) {
        struct rig rig = begin(texts[i]);
        turn(&rig, 0, 0, true);
        turn(&rig, 0, 12345, true);
        turn(&rig, 0, -7, false);
        look(&rig);
        end(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_ready_when_its_last_gradient_has_come),
        cmocka_unit_test(the_walk_has_each_node_once_and_parameters_behind_their_node),
        cmocka_unit_test(a_text_that_was_cut_says_how_many_are_left_out),
        cmocka_unit_test(nonsense_is_no_graph_and_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

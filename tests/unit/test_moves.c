/* Where moves stop: small records written by hand, the mirror of every move over random ones, slices and growth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "analysis/moves.h"
#include "analysis/story.h"
#include "base/rng.h"
#include "base/str.h"
#include "control/commands.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { LANES = 3 };

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    struct trace        *trace;
    struct story        *story;
    struct move_rules    rules;
    uint8_t              depth[LANES];
};

static void
begin(struct rig *rig)
{
    char why[200];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    *rig = (struct rig){ .writer = trace_create(&options, why, sizeof why) };
    assert_non_null(rig->writer);
    rig->buffer = trace_buffer_new(rig->writer);
    for (int lane = 0; lane < LANES; lane++)
        trace_lane(rig->writer, lane, -1, LANE_HOST, lane == 0 ? "r0 main" : lane == 1 ? "r1 main" : "r2 main");
}

/* `phase`: '(' begins, ')' ends, '.' is a point. */
static void
emit(struct rig *rig, char phase, enum kind kind, uint32_t lane, int64_t arg)
{
    if (phase == ')')
        rig->depth[lane]--;
    struct trace_event event = {
        .kind = kind, .lane = lane, .rank = (int16_t)lane, .device = -1, .depth = rig->depth[lane],
        .args = { arg, arg }, .phase = phase == '(' ? PHASE_BEGIN : phase == ')' ? PHASE_END : PHASE_INSTANT
    };
    if (phase == '(')
        rig->depth[lane]++;
    assert_true(trace_append(rig->buffer, &event));
}

static void
look(struct rig *rig)
{
    char why[200];
    rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    rig->story = story_new(rig->trace);
    assert_non_null(rig->story);
}

static void
end(struct rig *rig)
{
    breaks_free(&rig->rules.breaks);
    story_free(rig->story);
    trace_release(rig->trace);
    trace_close(rig->writer);
}

/* Where one stands after the command, in slices of `slice` events; -1: at the edge, and no stop; -2: refused. */
static long
stands(struct rig *rig, size_t from, const char *command, size_t slice)
{
    char why[200];
    struct command_line line;
    struct str told = { 0 };
    struct move move = { .trace = rig->trace, .rules = &rig->rules, .story = rig->story, .ended = true, .at = from };
    enum move_result result;
    assert_true(command_parse(command, &line, why, sizeof why));
    bool begun = move_begin(&move, &line, &told);
    assert_true(begun || told.len > 0);
    str_free(&told);
    if (!begun)
        return -2;
    while ((result = move_search(&move, trace_count(rig->trace), slice)) == MOVE_GOES_ON)
        continue;
    move_end(&move);
    assert_true(result == MOVE_STOPPED || move.at == (move.backwards ? 0 : trace_count(rig->trace) - 1));
    return result == MOVE_STOPPED ? (long)move.at : -1;
}

static void
stage_goes_from_begin_to_begin_on_any_lane(void **state)
{
    struct rig rig;
    begin(&rig);
    emit(&rig, '.', KIND_lesson_begin, 0, 0);        /* 0 */
    emit(&rig, '(', KIND_dp_forward, 0, 0);          /* 1 */
    emit(&rig, '(', KIND_op, 0, 0);                  /* 2 */
    emit(&rig, ')', KIND_op, 0, 0);                  /* 3 */
    emit(&rig, '.', KIND_dp_scatter_chunk, 0, 0);    /* 4 */
    emit(&rig, '(', KIND_module_forward, 1, 0);      /* 5 */
    emit(&rig, '.', KIND_memory_alloc, 1, 0);        /* 6 */
    emit(&rig, ')', KIND_dp_forward, 0, 0);          /* 7 */
    emit(&rig, '.', KIND_lesson_check, 0, 1);        /* 8: holds */
    emit(&rig, '.', KIND_lesson_check, 0, 0);        /* 9: fails */
    emit(&rig, '(', KIND_comm_hop, 2, 0);            /* 10 */
    emit(&rig, '(', KIND_c10d_wait, 2, 0);           /* 11 */
    emit(&rig, '.', KIND_lesson_say, 0, 0);          /* 12 */
    emit(&rig, '.', KIND_task_end, 0, 0);            /* 13 */
    look(&rig);
    static const long stops[] = { 0, 1, 5, 9, 11, 12 };
    for (size_t i = 0; i + 1 < 6; i++) {
        assert_int_equal(stands(&rig, (size_t)stops[i], "stage", 1), stops[i + 1]);
        assert_int_equal(stands(&rig, (size_t)stops[i + 1], "rstage", 100), stops[i]);
    }
    assert_int_equal(stands(&rig, 0, "stage 3", 2), 9);
    assert_int_equal(stands(&rig, 12, "rstage 3", 2), 5);
    assert_int_equal(stands(&rig, 12, "stage", 1), -1);
    assert_int_equal(stands(&rig, 0, "stage 6", 1), -1);
    assert_int_equal(stands(&rig, 0, "rstage", 1), -1);
    end(&rig);
}

/* Three ranks make two rounds: of a forward, and of a step. */
static void
emit_rounds(struct rig *rig)
{
    static const enum kind acts[] = { KIND_ddp_forward, KIND_optim_step };
    emit(rig, '.', KIND_lesson_begin, 0, 0); /* 0 */
    for (int i = 0; i < 2; i++) {
        for (uint32_t lane = 0; lane < LANES; lane++)
            emit(rig, '(', acts[i], lane, 0); /* 1 to 3, 9 to 11 */
        emit(rig, '(', KIND_op, 0, 0);
        emit(rig, ')', KIND_op, 0, 0);
        for (uint32_t lane = 0; lane < LANES; lane++)
            emit(rig, ')', acts[i], lane, 0);
    }
    emit(rig, '.', KIND_lesson_end, 0, 0); /* 17 */
}

static void
next_goes_from_stop_to_stop_of_the_story(void **state)
{
    struct rig rig;
    begin(&rig);
    emit_rounds(&rig);
    look(&rig);
    static const long stops[] = { 0, 3, 11, 17 };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(stands(&rig, (size_t)stops[i], "next", 1), stops[i + 1]);
        assert_int_equal(stands(&rig, (size_t)stops[i + 1], "rnext", 100), stops[i]);
        assert_int_equal(stands(&rig, (size_t)stops[i] + 1, "rnext", 2), stops[i]);
    }
    assert_int_equal(stands(&rig, 0, "next 2", 2), 11);
    assert_int_equal(stands(&rig, 17, "rnext 2", 2), 3);
    assert_int_equal(stands(&rig, 17, "next", 1), -1);
    assert_int_equal(stands(&rig, 3, "next 3", 1), -1);
    assert_int_equal(stands(&rig, 0, "rnext", 1), -1);
    end(&rig);
}

static void
step_passes_over_what_is_not_shown(void **state)
{
    struct rig rig;
    struct str told = { 0 };
    begin(&rig);
    static const enum kind kinds[] = { KIND_memory_alloc, KIND_op,       KIND_memory_alias, KIND_memory_snapshot,
                                       KIND_lock_wait,    KIND_lock_hold, KIND_kernel,      KIND_memory_free };
    for (size_t i = 0; i < 8; i++)
        emit(&rig, '.', kinds[i], 0, 0);
    look(&rig);
    assert_int_equal(stands(&rig, 0, "step", 1), 1);
    assert_int_equal(stands(&rig, 0, "step 2", 1), 6);
    assert_int_equal(stands(&rig, 7, "back 2", 1), 1);
    assert_int_equal(stands(&rig, 6, "step", 1), -1);
    assert_int_equal(stands(&rig, 1, "back", 1), -1);
    assert_true(move_show(&rig.rules, "locks", &told));
    assert_int_equal(stands(&rig, 1, "step", 1), 4);
    assert_true(move_show(&rig.rules, "memory", &told));
    assert_int_equal(stands(&rig, 3, "step", 1), 6);
    assert_true(move_show(&rig.rules, "all", &told));
    assert_int_equal(stands(&rig, 0, "step 7", 3), 7);
    assert_false(move_show(&rig.rules, "some", &told));
    str_free(&told);
    end(&rig);
}

static void
stage_passes_over_how_ranks_meet_unless_it_is_shown(void **state)
{
    struct rig rig;
    struct str told = { 0 };
    begin(&rig);
    emit(&rig, '.', KIND_lesson_say, 0, 0);          /* 0 */
    emit(&rig, '(', KIND_c10d_rendezvous, 0, 0);     /* 1 */
    emit(&rig, '(', KIND_c10d_store_set, 0, 0);      /* 2 */
    emit(&rig, ')', KIND_c10d_store_set, 0, 0);      /* 3 */
    emit(&rig, ')', KIND_c10d_rendezvous, 0, 0);     /* 4 */
    emit(&rig, '(', KIND_c10d_new_group, 0, 0);      /* 5 */
    emit(&rig, '(', KIND_c10d_store_wait, 0, 0);     /* 6 */
    emit(&rig, '(', KIND_c10d_allreduce, 1, 0);      /* 7 */
    look(&rig);
    assert_int_equal(stands(&rig, 0, "stage", 1), 5);
    assert_int_equal(stands(&rig, 5, "stage", 1), 7);
    assert_int_equal(stands(&rig, 7, "rstage 2", 1), 0);
    assert_int_equal(stands(&rig, 0, "step", 1), 1);
    assert_true(move_show(&rig.rules, "stores", &told));
    assert_int_equal(stands(&rig, 0, "stage", 1), 1);
    assert_int_equal(stands(&rig, 0, "stage 4", 1), 6);
    assert_int_equal(stands(&rig, 7, "rstage", 1), 6);
    assert_true(move_show(&rig.rules, "none", &told));
    assert_int_equal(stands(&rig, 0, "stage", 1), 5);
    trace_option(rig.writer, "show", "stores");
    trace_refresh(rig.trace);
    assert_int_equal(stands(&rig, 0, "stage", 1), 1);
    str_free(&told);
    end(&rig);
}

static void
whoever_is_asked_stops_at_each_question_once(void **state)
{
    struct rig rig;
    struct str told = { 0 };
    begin(&rig);
    for (int i = 0; i < 40; i++)
        emit(&rig, '.', i == 10 || i == 20 ? KIND_lesson_ask : i == 25 ? KIND_dp_scatter_chunk : KIND_op, 0, i);
    look(&rig);
    assert_true(breaks_add(&rig.rules.breaks, rig.trace, 25, "", &told));
    assert_int_equal(stands(&rig, 0, "continue", 7), 25);
    rig.rules = (struct move_rules){ .breaks = rig.rules.breaks, .asks = true };
    assert_int_equal(stands(&rig, 0, "continue", 7), 10);
    assert_int_equal(stands(&rig, 5, "step 30", 7), 10);
    assert_int_equal(stands(&rig, 10, "until seq = 22", 7), 20);
    assert_int_equal(stands(&rig, 20, "continue", 7), 25);
    assert_int_equal(stands(&rig, 5, "continue", 7), 25);
    assert_int_equal(stands(&rig, 25, "rcontinue", 7), -1);
    str_free(&told);
    end(&rig);
}

static void
finish_leaves_the_stage_around_on_its_own_lane(void **state)
{
    struct rig rig;
    begin(&rig);
    emit(&rig, '.', KIND_lesson_say, 0, 0);      /* 0 */
    emit(&rig, '(', KIND_dp_forward, 0, 0);      /* 1 */
    emit(&rig, '(', KIND_lock_hold, 0, 0);       /* 2: does not nest */
    rig.depth[0]--;
    emit(&rig, '(', KIND_dp_scatter, 0, 0);      /* 3 */
    emit(&rig, '(', KIND_op, 1, 0);              /* 4 */
    rig.depth[0]++;
    emit(&rig, ')', KIND_lock_hold, 0, 0);       /* 5 */
    emit(&rig, '.', KIND_memory_alloc, 0, 0);    /* 6 */
    emit(&rig, ')', KIND_op, 1, 0);              /* 7 */
    emit(&rig, ')', KIND_dp_scatter, 0, 0);      /* 8 */
    emit(&rig, '(', KIND_dp_gather, 0, 0);       /* 9 */
    emit(&rig, ')', KIND_dp_gather, 0, 0);       /* 10 */
    emit(&rig, ')', KIND_dp_forward, 0, 0);      /* 11 */
    emit(&rig, '(', KIND_c10d_wait, 2, 0);       /* 12: never ends */
    look(&rig);
    assert_int_equal(stands(&rig, 1, "finish", 1), 11);
    assert_int_equal(stands(&rig, 11, "rfinish", 1), 1);
    assert_int_equal(stands(&rig, 3, "finish", 1), 8);
    assert_int_equal(stands(&rig, 6, "finish", 1), 8);
    assert_int_equal(stands(&rig, 6, "rfinish", 1), 3);
    assert_int_equal(stands(&rig, 4, "finish", 1), 7);
    assert_int_equal(stands(&rig, 8, "finish", 1), 11);
    assert_int_equal(stands(&rig, 9, "rfinish", 1), 1);
    assert_int_equal(stands(&rig, 12, "finish", 1), -1);
    assert_int_equal(stands(&rig, 0, "finish", 1), -2);
    assert_int_equal(stands(&rig, 11, "finish", 1), -2);
    assert_int_equal(stands(&rig, 1, "rfinish", 1), -2);
    end(&rig);
}

static void
breakpoints_and_expressions_stop_on_the_way(void **state)
{
    struct rig rig;
    struct str told = { 0 };
    begin(&rig);
    for (int i = 0; i < 60; i++)
        emit(&rig, '.', i % 20 == 10 ? KIND_dp_scatter_chunk : KIND_op, (uint32_t)(i % LANES), i);
    look(&rig);
    assert_int_equal(stands(&rig, 0, "continue", 7), -1);
    assert_false(breaks_add(&rig.rules.breaks, rig.trace, 0, "no.such.kind", &told));
    assert_true(breaks_add(&rig.rules.breaks, rig.trace, 10, "", &told));
    assert_non_null(strstr(str_text(&told), "breakpoint 1: dp.scatter.chunk"));
    assert_int_equal(stands(&rig, 0, "continue", 7), 10);
    assert_int_equal(stands(&rig, 10, "continue", 7), 30);
    assert_int_equal(stands(&rig, 50, "continue", 7), -1);
    assert_int_equal(stands(&rig, 50, "rcontinue", 7), 30);
    assert_int_equal(stands(&rig, 0, "until rank = 1 and alias > 25", 7), -1);
    assert_int_equal(stands(&rig, 0, "until alias > 25", 7), 30);
    assert_int_equal(stands(&rig, 59, "runtil seq < 31 and alias > 1", 7), 30);
    assert_int_equal(stands(&rig, 0, "until (", 7), -2);
    assert_true(breaks_delete(&rig.rules.breaks, 1));
    assert_false(breaks_delete(&rig.rules.breaks, 1));
    assert_int_equal(stands(&rig, 0, "continue", 7), -1);
    str_free(&told);
    end(&rig);
}

/* Forwards from the start and backwards from the end meet the same events, whatever the slices. */
static void
every_reverse_passes_the_same_stops(void **state)
{
    static const enum kind kinds[] = { KIND_dp_forward,  KIND_op,         KIND_ddp_init,    KIND_lock_wait,
                                       KIND_lesson_say,  KIND_optim_step, KIND_memory_alloc, KIND_c10d_issue };
    static const char *const pairs[][2] = { { "step", "back" }, { "stage", "rstage" }, { "next", "rnext" },
                                            { "continue", "rcontinue" }, { "until op", "runtil op" } };
    uint64_t random = 8;
    for (int round = 0; round < 20; round++) {
        struct rig rig;
        struct str told = { 0 };
        begin(&rig);
        for (int i = 0; i < 300; i++) {
            uint32_t lane = (uint32_t)(splitmix(&random) % LANES);
            enum kind kind = kinds[splitmix(&random) % 8];
            char phase = "(.)"[splitmix(&random) % 3];
            emit(&rig, phase == ')' && rig.depth[lane] == 0 ? '.' : phase, kind, lane, 0);
        }
        look(&rig);
        assert_true(breaks_add(&rig.rules.breaks, rig.trace, 0, "ddp", &told));
        str_free(&told);
        for (int pair = 0; pair < 5; pair++) {
            long forwards[300], at = 0;
            int count = 0, back = 0;
            while ((at = stands(&rig, (size_t)at, pairs[pair][0], 1 + splitmix(&random) % 9)) >= 0)
                forwards[count++] = at;
            assert_true(count > 5);
            for (at = 300; at > 0 && (at = stands(&rig, (size_t)at, pairs[pair][1], 5)) > 0; back++)
                assert_int_equal(at, forwards[count - 1 - back]);
            assert_int_equal(back, count);
        }
        end(&rig);
    }
}

static void
a_search_goes_on_when_the_record_has_grown(void **state)
{
    char why[200];
    struct rig rig;
    struct command_line line;
    struct str told = { 0 };
    begin(&rig);
    for (int i = 0; i < 50; i++)
        emit(&rig, '.', KIND_op, 0, i);
    look(&rig);
    struct move move = { .trace = rig.trace, .rules = &rig.rules, .at = 0 };
    assert_true(command_parse("until seq = 5000", &line, why, sizeof why) && move_begin(&move, &line, &told));
    assert_int_equal(move_wants(&move), 1);
    int asked = 0;
    while (move_search(&move, trace_count(rig.trace), 1000) != MOVE_STOPPED) {
        assert_true(move_wants(&move) > move.at && move_wants(&move) <= move.at + move.at / 8 + 1);
        for (size_t i = trace_count(rig.trace); i <= move_wants(&move); i++)
            emit(&rig, '.', KIND_op, 0, 0);
        trace_refresh(rig.trace);
        asked++;
    }
    assert_int_equal(move.at, 5000);
    assert_true(asked < 60);
    move_end(&move);

    move = (struct move){ .trace = rig.trace, .rules = &rig.rules, .at = trace_count(rig.trace) - 1 };
    assert_true(command_parse("step 20", &line, why, sizeof why) && move_begin(&move, &line, &told));
    assert_int_equal(move_search(&move, trace_count(rig.trace), 10), MOVE_AT_EDGE);
    assert_int_equal(move_wants(&move), move.at + 20);
    str_free(&told);
    end(&rig);
}

/* What may still change is no stop yet: the ranks that have not come may come, until there is more or no more comes. */
static void
next_waits_for_the_rest_of_a_round(void **state)
{
    char why[200];
    struct rig rig;
    struct command_line line;
    struct str told = { 0 };
    begin(&rig);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        emit(&rig, '(', KIND_c10d_rendezvous, lane, LANES);
        emit(&rig, ')', KIND_c10d_rendezvous, lane, LANES); /* 5: that many ranks there are */
    }
    for (uint32_t lane = 0; lane + 1 < LANES; lane++)
        emit(&rig, '(', KIND_ddp_forward, lane, 0);
    look(&rig);
    struct move move = { .trace = rig.trace, .rules = &rig.rules, .story = rig.story, .at = 5 };
    assert_true(command_parse("next", &line, why, sizeof why) && move_begin(&move, &line, &told));
    assert_int_equal(move_search(&move, trace_count(rig.trace), 10), MOVE_AT_EDGE);
    emit(&rig, '(', KIND_ddp_forward, LANES - 1, 0);
    for (uint32_t lane = 0; lane < LANES; lane++)
        emit(&rig, ')', KIND_ddp_forward, lane, 0);
    for (uint32_t lane = 0; lane < LANES; lane++)
        emit(&rig, '(', KIND_optim_step, lane, 0);
    trace_refresh(rig.trace);
    assert_int_equal(move_search(&move, trace_count(rig.trace), 10), MOVE_STOPPED);
    assert_int_equal(move.at, 8);
    move_end(&move);
    size_t last = trace_count(rig.trace);
    emit(&rig, '(', KIND_autograd_backward, 0, 0);
    emit(&rig, '(', KIND_op, 0, 0);
    trace_refresh(rig.trace);
    move = (struct move){ .trace = rig.trace, .rules = &rig.rules, .story = rig.story, .at = last + 1 };
    assert_true(command_parse("rnext", &line, why, sizeof why) && move_begin(&move, &line, &told));
    assert_int_equal(move_search(&move, trace_count(rig.trace), 10), MOVE_AT_EDGE);
    assert_int_equal(move.at, last + 1); /* backwards, too: the first rank's begin may be no stop */
    for (uint32_t lane = 1; lane < LANES; lane++)
        emit(&rig, '(', KIND_autograd_backward, lane, 0);
    trace_refresh(rig.trace);
    assert_int_equal(move_search(&move, trace_count(rig.trace), 10), MOVE_STOPPED);
    assert_int_equal(move.at, last - 1);
    str_free(&told);
    end(&rig);
}

static void
without_memory_for_the_story_next_says_so(void **state)
{
    char why[200];
    struct rig rig;
    struct command_line line;
    struct str told = { 0 };
    begin(&rig);
    emit(&rig, '.', KIND_lesson_say, 0, 0);
    look(&rig);
    struct move move = { .trace = rig.trace, .rules = &rig.rules };
    assert_true(command_parse("next", &line, why, sizeof why));
    assert_false(move_begin(&move, &line, &told));
    assert_string_equal(str_text(&told), "no memory for the story\n");
    str_free(&told);
    end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stage_goes_from_begin_to_begin_on_any_lane),
        cmocka_unit_test(next_goes_from_stop_to_stop_of_the_story),
        cmocka_unit_test(step_passes_over_what_is_not_shown),
        cmocka_unit_test(stage_passes_over_how_ranks_meet_unless_it_is_shown),
        cmocka_unit_test(whoever_is_asked_stops_at_each_question_once),
        cmocka_unit_test(finish_leaves_the_stage_around_on_its_own_lane),
        cmocka_unit_test(breakpoints_and_expressions_stop_on_the_way),
        cmocka_unit_test(every_reverse_passes_the_same_stops),
        cmocka_unit_test(a_search_goes_on_when_the_record_has_grown),
        cmocka_unit_test(next_waits_for_the_rest_of_a_round),
        cmocka_unit_test(without_memory_for_the_story_next_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

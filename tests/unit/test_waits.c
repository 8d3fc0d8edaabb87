/* Who waits for whom, as of an event: ranks in a call, in a call under way, gone, in a circle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "analysis/state.h"
#include "analysis/waits.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { RANKS = 3 };

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    uint64_t             time;
    struct trace        *trace;
    struct state        *state;
};

#define ARGS(...) ((const int64_t[4]){ __VA_ARGS__ })

static void
emit(struct rig *rig, enum kind kind, enum trace_phase phase, int rank, const int64_t args[4])
{
    struct trace_event event = { .time = rig->time++, .kind = kind, .phase = phase, .lane = (uint32_t)rank,
                                 .rank = (int16_t)rank, .device = -1, .line = 7 };
    memcpy(event.args, args, sizeof event.args);
    assert_true(trace_append(rig->buffer, &event));
}

static void
call(struct rig *rig, int rank, const char *operation, int64_t number, bool waits)
{
    int64_t text = trace_text(rig->writer, operation);
    emit(rig, KIND_c10d_issue, PHASE_INSTANT, rank, ARGS(text, number, 64, 0));
    if (waits)
        emit(rig, KIND_c10d_wait, PHASE_BEGIN, rank, ARGS(text, number, 0));
}

static struct rig
begin(void)
{
    struct rig rig = { 0 };
    char why[200], name[16];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    rig.writer = trace_create(&options, why, sizeof why);
    assert_non_null(rig.writer);
    rig.buffer = trace_buffer_new(rig.writer);
    for (int rank = 0; rank < RANKS; rank++) {
        snprintf(name, sizeof name, "r%d main", rank);
        trace_lane(rig.writer, rank, -1, LANE_HOST, name);
    }
    for (int rank = 0; rank < RANKS; rank++)
        emit(&rig, KIND_task_start, PHASE_INSTANT, rank, ARGS(rank + 1));
    return rig;
}

static struct waits
look(struct rig *rig)
{
    char why[200];
    struct waits waits;
    rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    rig->state = state_new(rig->trace);
    assert_non_null(rig->state);
    assert_true(state_seek(rig->state, trace_count(rig->trace) - 1));
    assert_true(waits_take(&waits, rig->state));
    assert_int_equal(waits.rank_count, RANKS);
    return waits;
}

static void
end(struct rig *rig, struct waits *waits)
{
    waits_free(waits);
    state_free(rig->state);
    trace_release(rig->trace);
    trace_close(rig->writer);
}

static void
a_rank_waits_for_those_that_have_not_made_its_call(void **state)
{
    (void)state;
    struct rig rig = begin();
    call(&rig, 0, "all_reduce", 0, true);
    struct waits waits = look(&rig);
    const struct waiter *waiter = waits_of_rank(&waits, 0);
    assert_int_equal(waiter->stands, STANDS_WAITING);
    assert_int_equal(waiter->number, 0);
    assert_int_equal(waiter->bytes, 64);
    assert_int_equal(waiter->line, 7);
    assert_int_equal(waiter->count, 2);
    assert_int_equal(waits.targets[waiter->first], 1);
    assert_int_equal(waits.targets[waiter->first + 1], 2);
    assert_int_equal(waits_of_rank(&waits, 1)->stands, STANDS_RUNNING);
    assert_int_equal(waits_circle(&waits, NULL, 0), 0);
    end(&rig, &waits);
}

static void
who_made_another_call_under_the_number_is_missing_and_differs(void **state)
{
    (void)state;
    struct rig rig = begin();
    call(&rig, 0, "all_reduce", 0, true);
    call(&rig, 2, "all_reduce", 0, true);
    call(&rig, 1, "broadcast", 0, true);
    struct waits waits = look(&rig);
    int ranks[RANKS];
    const struct waiter *waiter = waits_of_rank(&waits, 0);
    assert_int_equal(waiter->count, 1);
    assert_int_equal(waits.targets[waiter->first], 1);
    assert_true(waits_differs(&waits, waits_of_rank(&waits, 1)));
    assert_false(waits_differs(&waits, waiter));
    assert_int_equal(waits_circle(&waits, ranks, RANKS), 2);
    assert_int_equal(ranks[0], 0);
    assert_int_equal(ranks[1], 1);
    end(&rig, &waits);
}

static void
a_call_that_all_have_made_is_under_way(void **state)
{
    (void)state;
    struct rig rig = begin();
    for (int rank = 0; rank < RANKS; rank++)
        call(&rig, rank, "all_reduce", 0, true);
    emit(&rig, KIND_comm_receive, PHASE_BEGIN, 0, ARGS(0, 8, 2, 1));
    struct waits waits = look(&rig);
    const struct waiter *waiter = waits_of_rank(&waits, 0);
    assert_true(waiter->under_way);
    assert_int_equal(waiter->count, 1);
    assert_int_equal(waits.targets[waiter->first], 2);
    end(&rig, &waits);
}

static void
who_is_gone_is_told_with_its_last_call(void **state)
{
    (void)state;
    struct rig rig = begin();
    const char *operation;
    int64_t     text = trace_text(rig.writer, "all_reduce");
    for (int rank = 0; rank < RANKS; rank++) {
        call(&rig, rank, "all_reduce", 0, true);
        emit(&rig, KIND_c10d_wait, PHASE_END, rank, ARGS(text, 0, 0));
    }
    emit(&rig, KIND_fault_injected, PHASE_INSTANT, 1, ARGS(trace_text(rig.writer, "kill"), 1, -1, 3));
    emit(&rig, KIND_task_end, PHASE_INSTANT, 2, ARGS(3, 0));
    call(&rig, 0, "barrier", 1, true);
    struct waits waits = look(&rig);
    assert_int_equal(waits_of_rank(&waits, 1)->stands, STANDS_KILLED);
    assert_int_equal(waits_of_rank(&waits, 2)->stands, STANDS_RETURNED);
    assert_true(waits_differs(&waits, waits_of_rank(&waits, 1)));
    assert_true(waits_differs(&waits, waits_of_rank(&waits, 2)));
    assert_int_equal(waits_last_call(&waits, 1)->number, 0);
    assert_int_equal(waits_done_by_all(&waits, 0, &operation), 0);
    assert_string_equal(operation, "all_reduce");
    end(&rig, &waits);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_waits_for_those_that_have_not_made_its_call),
        cmocka_unit_test(who_made_another_call_under_the_number_is_missing_and_differs),
        cmocka_unit_test(a_call_that_all_have_made_is_under_way),
        cmocka_unit_test(who_is_gone_is_told_with_its_last_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

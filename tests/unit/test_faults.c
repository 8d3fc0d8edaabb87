/* Faults on purpose: a plan's lines are read and written alike, and each strikes at its number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/str.h"
#include "base/vec.h"
#include "hw/cost.h"
#include "sched/account.h"
#include "sched/faults.h"
#include "sched/stage.h"

static void
a_line_that_is_printed_is_read_again(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "kill 2 at 40", "late 1 at 3 by 500 us", "late 0 at 0 by 0.000001 us", "late 7 at 12 by 12.5 us",
        "lose 0 -> 2 message 3", "delay 10 -> 2 message 0 by 100 us", "double 0 -> 1023 message 3",
        "cut 3 -> 2 message 18446744073709551615", "allocation 17", "write 0",
    };
    for (size_t i = 0; i < countof(lines); i++) {
        struct fault fault;
        struct str   text = { 0 };
        assert_true(fault_parse(lines[i], &fault));
        fault_print(&fault, &text);
        assert_string_equal(str_text(&text), lines[i]);
        str_free(&text);
    }
}

static void
what_a_line_says_is_what_it_means(void **state)
{
    (void)state;
    struct fault fault;
    assert_true(fault_parse("  late  3  at 7 by  1.25 us ", &fault));
    assert_int_equal(fault.kind, FAULT_LATE);
    assert_int_equal(fault.rank, 3);
    assert_int_equal(fault.peer, -1);
    assert_int_equal(fault.at, 7);
    assert_int_equal(fault.ps, 1250000);
    assert_true(fault_parse("lose 4 -> 1", &fault));
    assert_int_equal(fault.kind, FAULT_LOSE);
    assert_int_equal(fault.rank, 4);
    assert_int_equal(fault.peer, 1);
    assert_int_equal(fault.at, 0);
    assert_true(fault_parse("delay 4->1 by 2 us", &fault));
    assert_int_equal(fault.ps, 2000000);
}

static void
what_is_no_fault_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "", "kill", "kill x", "kill -1 at 3", "kill 1024 at 3", "kill 2 at", "kill 2 at 3 4", "kill 2 at 99999999999999999999",
        "late 1 at 3", "late 1 at 3 by us", "late 1 at 3 by 5", "late 1 at 3 by 1e3 us", "late 1 at 3 by 1.0000001 us",
        "late 1 at 3 by 1000000000001 us", "lose 0", "lose 0 ->", "lose 0 -> 0 message 1", "lose 0 -> 1 message", "allocation",
        "allocation -1", "write 1 2", "forget 1", "KILL 2 at 4", "kill 2 at 40; kill 3 at 1",
    };
    for (size_t i = 0; i < countof(lines); i++) {
        struct fault fault;
        if (fault_parse(lines[i], &fault))
            fail_msg("'%s' was read", lines[i]);
    }
}

/* ---- in a run ---- */

struct rig {
    struct cost_model cost;
    struct sched     *sched;
    struct error      error;
    struct monitor    monitor;
    int               passed[3];   /* by rank: how many points */
    uint64_t          clock;
    bool              refused[6];
};

static void
run_with(struct rig *rig, enum executor_kind executor, const char *const *lines, size_t count,
         bool (*run)(struct task *me, void *argument))
{
    struct fault_plan    plan = { 0 };
    struct sched_options options = { .executor = executor, .cost = &rig->cost, .faults = &plan };
    char                 why[200];
    *rig = (struct rig){ 0 };
    for (size_t i = 0; i < count; i++) {
        struct fault fault;
        assert_true(fault_parse(lines[i], &fault));
        assert_true(fault_plan_add(&plan, &fault));
    }
    assert_true(cost_preset(&rig->cost, "classroom"));
    rig->sched = sched_new(&options, why, sizeof why);
    assert_non_null(rig->sched);
    fault_plan_free(&plan);
    sched_run(rig->sched, run, rig, &rig->error);
}

static bool
passing(struct task *me, void *argument)
{
    struct rig *rig = argument;
    while (!task_failed(me) && rig->passed[me->rank] < 100) {
        rig->passed[me->rank]++;
        sched_advance(me, 1000);
    }
    return !task_failed(me);
}

static bool
waiting(struct task *me, void *argument)
{
    struct rig              *rig    = argument;
    const struct wait_reason reason = { .what = "test", .sequence = -1, .peer = -1 };
    bool                     waits  = true;
    monitor_enter(me, &rig->monitor);
    while (waits)
        waits = monitor_wait(me, &rig->monitor, &reason);
    monitor_leave(me, &rig->monitor);
    return false;
}

/* Ranks 0 and 1 pass points, a second task of rank 1 waits for ever; all are joined, errors left with rank 1's waiter. */
static bool
three_tasks(struct task *me, void *argument)
{
    struct rig  *rig = argument;
    struct task *tasks[3];
    struct error error;
    assert_true(monitor_init(&rig->monitor));
    for (int i = 0; i < 3; i++) {
        struct task_options options = { .name = "test", .rank = i < 2 ? i : 1, .device = -1 };
        tasks[i] = task_spawn(me, &options, i < 2 ? passing : waiting, rig);
        assert_non_null(tasks[i]);
    }
    for (int i = 0; i < 3; i++)
        assert_true(task_join(me, tasks[i], i < 2 ? &error : &rig->error));
    rig->clock = me->clock;
    struct error last = rig->error;
    task_take_error(me, &last);
    monitor_destroy(&rig->monitor);
    return false;
}

/* Two of its points are its second task's: its beginning, which comes after the first one's. */
static void
a_killed_rank_passes_no_more_points_and_its_waits_end(void **state)
{
    (void)state;
    static const char *const lines[] = { "kill 1 at 40" };
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct rig rig;
        run_with(&rig, (enum executor_kind)executor, lines, 1, three_tasks);
        assert_int_equal(rig.passed[0], 100);
        assert_in_range(rig.passed[1], 38, 40);
        assert_int_equal(rig.error.kind, E_KILLED);
        assert_string_equal(rig.error.message, "rank 1 was killed");
        sched_free(rig.sched);
    }
}

static bool
two_ranks(struct task *me, void *argument)
{
    struct rig *rig = argument;
    struct task *tasks[2];
    for (int i = 0; i < 2; i++) {
        struct task_options options = { .name = "test", .rank = i, .device = -1 };
        tasks[i] = task_spawn(me, &options, passing, rig);
        assert_non_null(tasks[i]);
    }
    for (int i = 0; i < 2; i++)
        task_join(me, tasks[i], NULL);
    rig->clock = me->clock;
    return !task_failed(me);
}

static void
a_late_rank_stands_still_for_so_long_and_no_longer(void **state)
{
    (void)state;
    static const char *const lines[] = { "late 1 at 30 by 5 us", "late 0 at 50 by 0.5 us" };
    struct rig rig;
    run_with(&rig, EXECUTOR_STEPPED, lines, 2, two_ranks);
    assert_int_equal(rig.error.kind, E_NONE);
    assert_int_equal(rig.clock, 100 * 1000 + 5000000);
    assert_true(fault_count(rig.sched, FAULT_KILL, 1, -1) >= 100);
    assert_int_equal(fault_count(rig.sched, FAULT_KILL, 1, -1), fault_count(rig.sched, FAULT_LATE, 1, -1));
    sched_free(rig.sched);
}

static bool
asking(struct task *me, void *argument)
{
    struct rig *rig = argument;
    for (size_t i = 0; i < countof(rig->refused); i++) {
        rig->refused[i] = !account_take(me->sched, 8);
        if (!rig->refused[i])
            account_give(me->sched, 8);
    }
    return true;
}

static void
the_request_of_that_number_is_refused_and_no_other(void **state)
{
    (void)state;
    static const char *const lines[] = { "allocation 2", "allocation 4" };
    struct rig rig;
    run_with(&rig, EXECUTOR_STEPPED, lines, 2, asking);
    for (size_t i = 0; i < countof(rig.refused); i++)
        assert_int_equal(rig.refused[i], i == 2 || i == 4);
    assert_int_equal(account_taken(rig.sched), 0);
    sched_free(rig.sched);
}

static bool
sending(struct task *me, void *argument)
{
    struct rig *rig = argument;
    for (size_t i = 0; i < countof(rig->refused); i++) {
        struct fault_message message = fault_message(me, 0, 1), other = fault_message(me, 1, 0);
        rig->refused[i] = message.is_lost;
        assert_false(other.is_lost || other.is_doubled || other.delay_ps > 0);
        assert_int_equal(message.is_doubled, i == 1);
        assert_int_equal(message.delay_ps, i == 0 ? 7000000 : 0);
    }
    fault_new_world(me->sched);
    assert_false(fault_message(me, 0, 1).is_lost);
    return true;
}

static void
messages_are_counted_by_link_and_a_cut_lasts_until_the_next_world(void **state)
{
    (void)state;
    static const char *const lines[] = { "delay 0 -> 1 message 0 by 7 us", "double 0 -> 1 message 1", "lose 0 -> 1 message 2",
                                         "cut 0 -> 1 message 4" };
    static const bool lost[] = { false, false, true, false, true, true };
    struct rig rig;
    run_with(&rig, EXECUTOR_STEPPED, lines, countof(lines), sending);
    for (size_t i = 0; i < countof(lost); i++)
        assert_int_equal(rig.refused[i], lost[i]);
    assert_int_equal(fault_count(rig.sched, FAULT_LOSE, 0, 1), 7);
    assert_int_equal(fault_count(rig.sched, FAULT_DOUBLE, 1, 0), 6);
    sched_free(rig.sched);
}

static bool
expecting_late(struct task *me, void *argument)
{
    struct rig  *rig   = argument;
    struct fault fault = { .kind = FAULT_ALLOCATION, .rank = -1, .peer = -1, .at = 1 };
    assert_true(account_take(me->sched, 8));
    assert_true(fault_expect(me->sched, &fault));
    return asking(me, rig);
}

static void
what_is_expected_in_a_run_is_counted_from_there(void **state)
{
    (void)state;
    struct rig rig;
    run_with(&rig, EXECUTOR_STEPPED, NULL, 0, expecting_late);
    for (size_t i = 0; i < countof(rig.refused); i++)
        assert_int_equal(rig.refused[i], i == 1);
    sched_free(rig.sched);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_is_printed_is_read_again),
        cmocka_unit_test(what_a_line_says_is_what_it_means),
        cmocka_unit_test(what_is_no_fault_is_refused),
        cmocka_unit_test(a_killed_rank_passes_no_more_points_and_its_waits_end),
        cmocka_unit_test(a_late_rank_stands_still_for_so_long_and_no_longer),
        cmocka_unit_test(the_request_of_that_number_is_refused_and_no_other),
        cmocka_unit_test(messages_are_counted_by_link_and_a_cut_lasts_until_the_next_world),
        cmocka_unit_test(what_is_expected_in_a_run_is_counted_from_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

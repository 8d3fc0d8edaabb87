/* The two executors: tasks, monitors, clocks, deadlocks. Names are the sentences that they prove. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "hw/cost.h"
#include "sched/lock.h"
#include "sched/stage.h"
#include "trace/writer.h"

struct rig {
    struct cost_model    cost;
    struct trace_writer *writer;
    struct sched        *sched;
    struct error         error;
    struct monitor       monitor;
    struct lock          lock;
    char                 log[256];
    int                  turn, limit;
};

static struct sched_options
options_of(struct rig *rig, enum executor_kind executor)
{
    char why[200];
    *rig = (struct rig){ 0 };
    assert_true(cost_preset(&rig->cost, "classroom"));
    struct trace_options trace = { .clock = executor == EXECUTOR_FREE ? CLOCK_MONOTONIC_NS : CLOCK_VIRTUAL_PS };
    rig->writer = trace_create(&trace, why, sizeof why);
    assert_non_null(rig->writer);
    return (struct sched_options){ .executor = executor, .writer = rig->writer, .cost = &rig->cost };
}

static bool
run_options(struct rig *rig, const struct sched_options *options, bool (*run)(struct task *me, void *argument))
{
    char why[200];
    rig->sched = sched_new(options, why, sizeof why);
    assert_non_null(rig->sched);
    return sched_run(rig->sched, run, rig, &rig->error);
}

static bool
run_rig(struct rig *rig, enum executor_kind executor, bool (*run)(struct task *me, void *argument))
{
    struct sched_options options = options_of(rig, executor);
    return run_options(rig, &options, run);
}

static void
put_away(struct rig *rig)
{
    sched_free(rig->sched);
    trace_close(rig->writer);
}

struct player { struct rig *rig; int number; };

static bool
play(struct task *me, void *argument)
{
    struct player     *player = argument;
    struct rig        *rig    = player->rig;
    struct wait_reason reason = { .what = "turn", .sequence = -1, .peer = 1 - player->number };
    for (;;) {
        monitor_enter(me, &rig->monitor);
        while (rig->turn < rig->limit && rig->turn % 2 != player->number) {
            if (!monitor_wait(me, &rig->monitor, &reason)) {
                monitor_leave(me, &rig->monitor);
                return false;
            }
        }
        if (rig->turn >= rig->limit) {
            monitor_leave(me, &rig->monitor);
            return true;
        }
        rig->turn++;
        monitor_wake(me, &rig->monitor);
        monitor_leave(me, &rig->monitor);
        sched_advance(me, 1000);
    }
}

static bool
two_players(struct task *me, void *argument)
{
    struct rig   *rig       = argument;
    struct player players[2] = { { rig, 0 }, { rig, 1 } };
    struct task  *tasks[2];
    rig->limit = 2000;
    assert_true(monitor_init(&rig->monitor));
    for (int i = 0; i < 2; i++) {
        char                name[24];
        snprintf(name, sizeof name, "player %d", i);
        struct task_options options = { .name = name, .rank = i, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, play, &players[i]);
        assert_non_null(tasks[i]);
    }
    bool ok = true;
    for (int i = 0; i < 2; i++)
        ok = task_join(me, tasks[i], NULL) && ok;
    monitor_destroy(&rig->monitor);
    return ok;
}

static void
two_tasks_take_turns_in_both_executors(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct rig rig;
        assert_true(run_rig(&rig, (enum executor_kind)executor, two_players));
        assert_int_equal(rig.turn, 2000);
        put_away(&rig);
    }
}

static bool
wait_for_ever(struct task *me, void *argument)
{
    struct rig        *rig    = argument;
    struct wait_reason reason = { .what = "recv", .sequence = 4, .peer = 1 - me->rank };
    me->line = (uint32_t)(30 + me->rank);
    monitor_enter(me, &rig->monitor);
    bool ok = monitor_wait(me, &rig->monitor, &reason);
    monitor_leave(me, &rig->monitor);
    return ok;
}

static bool
two_who_wait(struct task *me, void *argument)
{
    struct rig  *rig = argument;
    struct task *tasks[2];
    assert_true(monitor_init(&rig->monitor));
    for (int i = 0; i < 2; i++) {
        struct task_options options = { .name = i == 0 ? "r0 main" : "r1 main", .rank = i, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, wait_for_ever, rig);
        assert_non_null(tasks[i]);
    }
    for (int i = 0; i < 2; i++)
        (void)!task_join(me, tasks[i], NULL);
    monitor_destroy(&rig->monitor);
    return false;
}

static void
a_deadlock_is_known_at_once_and_names_both_ranks(void **state)
{
    (void)state;
    struct rig rig;
    assert_false(run_rig(&rig, EXECUTOR_STEPPED, two_who_wait));
    assert_int_equal(rig.error.kind, E_DEADLOCK);
    assert_non_null(strstr(rig.error.message, "rank 0 waits in recv #4 for rank 1 (line 30)"));
    assert_non_null(strstr(rig.error.message, "rank 1 waits in recv #4 for rank 0 (line 31)"));
    put_away(&rig);
}

static void
in_free_the_same_wait_times_out_with_the_same_words(void **state)
{
    (void)state;
    struct rig           rig;
    struct sched_options options = options_of(&rig, EXECUTOR_FREE);
    options.timeout_ps           = 1;
    assert_false(run_options(&rig, &options, two_who_wait));
    assert_int_equal(rig.error.kind, E_TIMEOUT);
    assert_non_null(strstr(rig.error.message, "waits in recv #4"));
    put_away(&rig);
}

static bool
note_and_go(struct task *me, void *argument)
{
    struct rig *rig = argument;
    for (int i = 0; i < 3; i++) {
        size_t used = strlen(rig->log);
        snprintf(rig->log + used, sizeof rig->log - used, "%d", me->rank);
        sched_advance(me, me->rank == 0 ? 30 : 10);
    }
    return true;
}

static bool
three_who_note(struct task *me, void *argument)
{
    struct task *tasks[3];
    for (int i = 0; i < 3; i++) {
        struct task_options options = { .name = "noter", .rank = i, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, note_and_go, argument);
    }
    for (int i = 0; i < 3; i++)
        assert_true(task_join(me, tasks[i], NULL));
    return true;
}

static void
the_earliest_clock_goes_first_and_ties_go_by_number(void **state)
{
    (void)state;
    struct rig rig;
    assert_true(run_rig(&rig, EXECUTOR_STEPPED, three_who_note));
    assert_string_equal(rig.log, "012121200");
    put_away(&rig);
}

static void
a_random_policy_repeats_for_a_seed_and_differs_between_seeds(void **state)
{
    (void)state;
    char logs[2][256], first[256] = "";
    int  different = 0;
    for (uint64_t seed = 1; seed < 9; seed++) {
        for (int again = 0; again < 2; again++) {
            struct rig           rig;
            struct sched_options options = options_of(&rig, EXECUTOR_STEPPED);
            options.policy               = "random";
            options.seed                 = seed;
            assert_true(run_options(&rig, &options, three_who_note));
            memcpy(logs[again], rig.log, sizeof rig.log);
            put_away(&rig);
        }
        assert_string_equal(logs[0], logs[1]);
        if (seed == 1)
            memcpy(first, logs[0], sizeof first);
        different += strcmp(logs[0], first) != 0;
    }
    assert_true(different > 0);
}

static bool
fail_in_child(struct task *me, void *argument)
{
    (void)argument;
    return failed(me, E_VALUE, "the worker's own error");
}

static bool
join_a_failing_child(struct task *me, void *argument)
{
    struct task_options options = { .name = "worker", .rank = TASK_INHERIT, .device = TASK_INHERIT };
    struct task        *child   = task_spawn(me, &options, fail_in_child, argument);
    return task_join(me, child, NULL);
}

static void
a_workers_error_reaches_who_joins_it(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct rig rig;
        assert_false(run_rig(&rig, (enum executor_kind)executor, join_a_failing_child));
        assert_int_equal(rig.error.kind, E_VALUE);
        assert_string_equal(rig.error.message, "the worker's own error");
        put_away(&rig);
    }
}

static bool
hold_the_lock(struct task *me, void *argument)
{
    struct rig *rig = argument;
    for (int i = 0; i < 100; i++) {
        if (!lock_acquire(me, &rig->lock))
            return false;
        int turn = rig->turn;
        sched_advance(me, 5);
        rig->turn = turn + 1;
        lock_release(me, &rig->lock);
    }
    return true;
}

static bool
four_who_lock(struct task *me, void *argument)
{
    struct rig  *rig = argument;
    struct task *tasks[4];
    assert_true(lock_init(me, &rig->lock, "test"));
    for (int i = 0; i < 4; i++) {
        struct task_options options = { .name = "locker", .rank = i, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, hold_the_lock, rig);
    }
    for (int i = 0; i < 4; i++)
        assert_true(task_join(me, tasks[i], NULL));
    lock_destroy(&rig->lock);
    return true;
}

static void
a_lock_keeps_others_out(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct rig rig;
        assert_true(run_rig(&rig, (enum executor_kind)executor, four_who_lock));
        assert_int_equal(rig.turn, 400);
        put_away(&rig);
    }
}

/* Holds it until a wait of its own is broken. */
static bool
hold_in_vain(struct task *me, void *argument)
{
    struct rig *rig = argument;
    bool        ok  = lock_acquire(me, &rig->lock) && wait_for_ever(me, rig);
    assert_true(task_failed(me));
    lock_release(me, &rig->lock);
    return ok;
}

static bool
queue_in_vain(struct task *me, void *argument)
{
    struct rig *rig = argument;
    assert_false(lock_acquire(me, &rig->lock));
    return false;
}

static bool
three_who_lock_in_turn(struct task *me, void *argument)
{
    struct rig  *rig = argument;
    bool (*const bodies[])(struct task *me, void *argument) = { hold_in_vain, queue_in_vain, queue_in_vain };
    struct task *tasks[3];
    struct error discarded;
    assert_true(monitor_init(&rig->monitor) && lock_init(me, &rig->lock, "test"));
    for (int i = 0; i < 3; i++) {
        struct task_options options = { .name = "locker", .rank = i, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, bodies[i], rig);
    }
    for (int i = 0; i < 3; i++)
        (void)!task_join(me, tasks[i], &discarded);
    assert_true(lock_acquire(me, &rig->lock));
    lock_release(me, &rig->lock);
    lock_destroy(&rig->lock);
    monitor_destroy(&rig->monitor);
    return true;
}

static void
a_ticket_whose_wait_failed_is_given_back(void **state)
{
    (void)state;
    struct rig rig;
    assert_true(run_rig(&rig, EXECUTOR_STEPPED, three_who_lock_in_turn));
    put_away(&rig);
}

enum { LIMIT_PS = 1000, LATE_PS = 5000 };

static bool
wait_a_while(struct task *me, void *argument)
{
    struct rig        *rig    = argument;
    struct wait_reason reason = { .what = "recv", .sequence = -1, .peer = 1 - me->rank, .timeout_ps = LIMIT_PS };
    monitor_enter(me, &rig->monitor);
    bool ok = monitor_wait(me, &rig->monitor, &reason);
    monitor_leave(me, &rig->monitor);
    return ok;
}

static bool
come_late(struct task *me, void *argument)
{
    struct rig *rig = argument;
    sched_advance(me, (uint64_t)rig->limit);
    if (rig->turn > 0) /* never wakes anybody */
        return wait_a_while(me, argument);
    monitor_enter(me, &rig->monitor);
    monitor_wake(me, &rig->monitor);
    monitor_leave(me, &rig->monitor);
    return true;
}

static bool
one_who_waits_for_another(struct task *me, void *argument)
{
    struct rig  *rig = argument;
    bool (*const bodies[])(struct task *me, void *argument) = { wait_a_while, come_late };
    struct task *tasks[2];
    struct error errors[2];
    assert_true(monitor_init(&rig->monitor));
    for (int i = 0; i < 2; i++) {
        struct task_options options = { .name = i == 0 ? "r0 main" : "r1 main", .rank = i, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, bodies[i], rig);
    }
    for (int i = 0; i < 2; i++)
        (void)!task_join(me, tasks[i], &errors[i]);
    monitor_destroy(&rig->monitor);
    task_take_error(me, &errors[0]);
    return !task_failed(me);
}

static bool
wait_with_limit(struct rig *rig, int late_ps, bool nobody_wakes)
{
    struct sched_options options = options_of(rig, EXECUTOR_STEPPED);
    rig->limit = late_ps;
    rig->turn  = nobody_wakes;
    return run_options(rig, &options, one_who_waits_for_another);
}

static void
a_limit_ends_a_wait_in_virtual_time_unless_nobody_can_go_on(void **state)
{
    (void)state;
    struct rig rig;
    assert_true(wait_with_limit(&rig, LIMIT_PS / 2, false));
    put_away(&rig);
    assert_false(wait_with_limit(&rig, LATE_PS, false));
    assert_int_equal(rig.error.kind, E_TIMEOUT);
    put_away(&rig);
    assert_false(wait_with_limit(&rig, LIMIT_PS / 2, true));
    assert_int_equal(rig.error.kind, E_DEADLOCK);
    put_away(&rig);
}

static void
drop_count(struct task *me, void *object)
{
    (void)me;
    ++*(int *)object;
}

static int *
make_two(struct task *me, int *first, int *second)
{
    STAGE(me, dp_check, 0);
    born(me, first, drop_count);
    born(me, second, drop_count);
    return hand_up(me, second);
}

static bool
scopes(struct task *me, void *argument)
{
    (void)argument;
    int    first = 0, second = 0;
    size_t mark = scope_mark(me);
    assert_ptr_equal(make_two(me, &first, &second), &second);
    assert_int_equal(first, 1);
    assert_int_equal(second, 0);
    scope_release(me, mark);
    assert_int_equal(second, 1);
    return true;
}

static void
what_is_handed_up_outlives_its_stage(void **state)
{
    (void)state;
    struct rig rig;
    assert_true(run_rig(&rig, EXECUTOR_STEPPED, scopes));
    put_away(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tasks_take_turns_in_both_executors),
        cmocka_unit_test(a_deadlock_is_known_at_once_and_names_both_ranks),
        cmocka_unit_test(in_free_the_same_wait_times_out_with_the_same_words),
        cmocka_unit_test(the_earliest_clock_goes_first_and_ties_go_by_number),
        cmocka_unit_test(a_random_policy_repeats_for_a_seed_and_differs_between_seeds),
        cmocka_unit_test(a_workers_error_reaches_who_joins_it),
        cmocka_unit_test(a_lock_keeps_others_out),
        cmocka_unit_test(a_ticket_whose_wait_failed_is_given_back),
        cmocka_unit_test(a_limit_ends_a_wait_in_virtual_time_unless_nobody_can_go_on),
        cmocka_unit_test(what_is_handed_up_outlives_its_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

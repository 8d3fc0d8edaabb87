/* Two locks taken in two orders. No lesson can do it with the engine's own locks (each is let go before anything else is
 * waited for), so it is done here: in `stepped` both who wait are told with the one who holds, and the locks serve again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "hw/cost.h"
#include "sched/lock.h"
#include "sched/sched.h"
#include "trace/writer.h"

struct rig {
    struct lock  locks[2];
    struct error errors[2];
    bool         serves;      /* afterwards both locks can be had */
};

static bool
take_both(struct task *me, void *argument)
{
    struct rig  *rig = argument;
    struct lock *first = &rig->locks[me->rank], *second = &rig->locks[1 - me->rank];
    me->line = 40 + (uint32_t)me->rank;
    if (!lock_acquire(me, first))
        return false;
    sched_advance(me, 10);
    bool both = lock_acquire(me, second);
    if (both)
        lock_release(me, second);
    lock_release(me, first);
    return both;
}

static bool
two_who_cross(struct task *me, void *argument)
{
    struct rig  *rig = argument;
    struct task *tasks[2];
    for (int i = 0; i < 2; i++)
        assert_true(lock_init(me, &rig->locks[i], i == 0 ? "disk" : "log"));
    for (int i = 0; i < 2; i++) {
        struct task_options options = { .name = i == 0 ? "r0 main" : "r1 main", .rank = i, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, take_both, rig);
        assert_non_null(tasks[i]);
    }
    for (int i = 0; i < 2; i++)
        (void)!task_join(me, tasks[i], &rig->errors[i]);
    rig->serves = true;
    for (int i = 0; i < 2; i++) {
        rig->serves = rig->serves && lock_acquire(me, &rig->locks[i]);
        if (rig->serves)
            lock_release(me, &rig->locks[i]);
        lock_destroy(&rig->locks[i]);
    }
    return true;
}

static void
locks_taken_in_two_orders_are_told_with_who_holds_them(void **state)
{
    struct rig           rig   = { 0 };
    struct cost_model    cost;
    struct trace_options trace = { .clock = CLOCK_VIRTUAL_PS };
    struct error         error = { 0 };
    char                 why[200];
    (void)state;
    assert_true(cost_preset(&cost, "classroom"));
    struct trace_writer *writer = trace_create(&trace, why, sizeof why);
    assert_non_null(writer);
    struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer, .cost = &cost };
    struct sched        *sched   = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    assert_true(sched_run(sched, two_who_cross, &rig, &error));
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        if (rig.errors[i].kind == E_NONE)
            continue;
        failed++;
        assert_int_equal(rig.errors[i].kind, E_DEADLOCK);
        assert_non_null(strstr(rig.errors[i].message, "rank 0 waits in lock for rank 1 (r1 main) (line 40)"));
        assert_non_null(strstr(rig.errors[i].message, "rank 1 waits in lock for rank 0 (r0 main) (line 41)"));
    }
    assert_int_equal(failed, 2);
    assert_true(rig.serves);
    sched_free(sched);
    trace_close(writer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_taken_in_two_orders_are_told_with_who_holds_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

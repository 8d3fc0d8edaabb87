/* Claims: who reads what is being changed, or changes what is being read, is told; bytes that do not meet, claims that are
 * over and claimers of one line are left in peace, in both executors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/vec.h"
#include "device/claims.h"
#include "device/device.h"
#include "device/storage.h"
#include "hw/cost.h"
#include "sched/sched.h"

enum { BYTES = 100 };

struct rig { bool (*body)(struct task *me, struct storage *storage); };

static bool
run_body(struct task *me, void *argument)
{
    const struct rig *rig = argument;
    struct storage   *storage = devices_ready(me, 0) ? storage_new(me, DEVICE_CPU, BYTES) : NULL;
    bool              done = storage != NULL && rig->body(me, storage);
    storage_unref(me, storage);
    return done;
}

static void
in_both(bool (*body)(struct task *me, struct storage *storage))
{
    const enum executor_kind executors[] = { EXECUTOR_STEPPED, EXECUTOR_FREE };
    for (size_t i = 0; i < countof(executors); i++) {
        char                 why[256] = "";
        struct cost_model    cost;
        struct error         error;
        struct rig           rig = { body };
        assert_true(cost_preset(&cost, "classroom"));
        struct sched_options options = { .executor = executors[i], .cost = &cost };
        struct sched        *sched = sched_new(&options, why, sizeof why);
        assert_non_null(sched);
        assert_true(sched_run(sched, run_body, &rig, &error));
        devices_free(sched);
        sched_free(sched);
    }
}

/* Whether the host may; an error is taken away. */
static bool
may(struct task *me, struct storage *storage, uint64_t begin, uint64_t end, bool write)
{
    struct access access = { .storage = storage, .begin = begin, .end = end, .write = write, .what = "test" };
    bool          done   = storage_access_by_host(me, &access);
    assert_int_equal(me->error.kind, done ? E_NONE : E_RACE);
    task_clear_error(me);
    return done;
}

static bool
claim(struct task *me, struct claimer *claimer, struct storage *storage, uint64_t begin, uint64_t end, bool write)
{
    struct access access = { .storage = storage, .begin = begin, .end = end, .write = write, .what = "test" };
    bool          done   = claims_add(me, claimer, &access);
    task_clear_error(me);
    return done;
}

static bool
one_alone(struct task *me, struct storage *storage)
{
    struct claimer *claimer = claimer_new(me, NULL, "irecv");
    assert_true(may(me, storage, 0, BYTES, true));
    assert_true(claim(me, claimer, storage, 10, 20, true));
    assert_false(may(me, storage, 19, 20, false));
    assert_false(may(me, storage, 0, BYTES, true));
    assert_true(may(me, storage, 0, 10, true));
    assert_true(may(me, storage, 20, BYTES, false));
    assert_true(may(me, storage, 15, 15, true));        /* nothing */
    me->is_carrier = true;
    assert_true(may(me, storage, 10, 20, true));
    me->is_carrier = false;
    claimer_waited(claimer);
    assert_true(may(me, storage, 0, BYTES, true));
    assert_false(storage_is_claimed(storage));
    claimer_unref(me, claimer);
    return true;
}

static void
what_is_claimed_is_left_alone_until_it_was_waited_for(void **state)
{
    (void)state;
    in_both(one_alone);
}

static bool
read_and_written(struct task *me, struct storage *storage)
{
    struct claimer *reader = claimer_new(me, NULL, "all_gather"), *yielding = claimer_new(me, NULL, "irecv");
    yielding->yields = true;
    assert_true(claim(me, reader, storage, 0, 8, false));
    assert_true(may(me, storage, 0, 8, false));
    assert_false(may(me, storage, 7, 9, true));
    assert_true(claim(me, yielding, storage, 50, 60, true));
    assert_false(may(me, storage, 50, 51, false));
    assert_true(may(me, storage, 50, 51, true));
    claimer_over(reader);
    claimer_over(yielding);
    claimer_unref(me, reader);
    claimer_unref(me, yielding);
    return true;
}

static void
a_reader_minds_writers_and_a_writer_everybody_unless_it_yields(void **state)
{
    (void)state;
    in_both(read_and_written);
}

static bool
a_line(struct task *me, struct storage *storage)
{
    struct claim_line *line = claim_line_new(), *other = claim_line_new();
    struct claimer    *by[4];
    for (int i = 0; i < 4; i++) {
        by[i] = claimer_new(me, i < 3 ? line : other, "all_reduce");
        assert_non_null(by[i]);
        claimer_issue(by[i], i);
    }
    assert_true(claim(me, by[0], storage, 0, 10, true));
    assert_true(claim(me, by[1], storage, 5, 20, true));     /* behind the first one */
    assert_true(claim(me, by[2], storage, 30, 40, true));
    assert_false(claim(me, by[3], storage, 8, 9, false));    /* beside it */
    assert_true(claim(me, by[3], storage, 20, 30, true));
    claimer_waited(by[1]);
    assert_true(may(me, storage, 0, 20, true));
    assert_false(may(me, storage, 0, 21, false));
    assert_false(may(me, storage, 39, 40, false));
    claim_line_waited(line, INT64_MAX);
    assert_true(may(me, storage, 30, BYTES, true));
    for (int i = 0; i < 4; i++)
        claimer_unref(me, by[i]);
    claim_line_unref(line);
    claim_line_unref(other);
    return true; /* the storage goes with a claim */
}

static void
a_wait_in_a_line_is_one_for_all_before(void **state)
{
    (void)state;
    in_both(a_line);
}

/* What one line claims again and again is one claim. */
static bool
many_claims(struct task *me, struct storage *storage)
{
    struct claim_line *line = claim_line_new();
    for (int i = 0; i < 1000; i++) {
        struct claimer *claimer = claimer_new(me, line, "all_reduce");
        claimer_issue(claimer, i);
        assert_true(claim(me, claimer, storage, 0, BYTES, true));
        claimer_unref(me, claimer);
    }
    assert_int_equal(atomic_load(&storage->claimed), 1);
    claim_line_unref(line);
    return true;
}

static void
a_later_claim_of_a_line_stands_for_what_it_covers(void **state)
{
    (void)state;
    in_both(many_claims);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_claimed_is_left_alone_until_it_was_waited_for),
        cmocka_unit_test(a_reader_minds_writers_and_a_writer_everybody_unless_it_yields),
        cmocka_unit_test(a_wait_in_a_line_is_one_for_all_before),
        cmocka_unit_test(a_later_claim_of_a_line_stands_for_what_it_covers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

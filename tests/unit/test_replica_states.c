/* The tree of a tensor's states: who does the same is at the same place, what all have left behind goes, and where two
 * ways part is found, whoever went first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "device/device.h"
#include "hw/cost.h"
#include "parallel/replica_states.h"
#include "sched/account.h"
#include "sched/sched.h"

enum { RANKS = 3 };

struct rig {
    void                  (*body)(struct rig *rig);
    struct task            *me;
    struct replica_states   states;
    struct replica_state   *at[RANKS];
    struct replica_state   *rival;
};

static bool
run_body(struct task *me, void *argument)
{
    struct rig *rig = argument;
    rig->me           = me;
    rig->states.bytes = sizeof(int);
    if (!devices_ready(me, 0))
        return false;
    rig->body(rig);
    for (int rank = 0; rank < RANKS; rank++)
        replica_states_leave(me, &rig->states, &rig->at[rank]);
    replica_states_free(me, &rig->states);
    return true;
}

static void
run(void (*body)(struct rig *rig))
{
    char              why[256];
    struct error      error = { .kind = E_NONE };
    struct rig        rig   = { .body = body };
    struct cost_model cost;
    assert_true(cost_preset(&cost, "classroom"));
    const struct sched_options options = { .executor = EXECUTOR_STEPPED, .cost = &cost };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    assert_true(sched_run(sched, run_body, &rig, &error));
    devices_free(sched);
    assert_int_equal(account_taken(sched), 0);
    sched_free(sched);
}

static struct change
change(const char *what, uint32_t line)
{
    return (struct change){ .what = what, .line = line };
}

static enum arrival
arrive(struct rig *rig, int rank, struct change made, int value)
{
    struct arrival_of arrival = { .rank = rank, .change = made, .elements = &value };
    arrival.spare = replica_state_new(rig->me, &rig->states);
    assert_non_null(arrival.spare);
    enum arrival answer = rig->at[rank] == NULL
                              ? replica_states_begin(&rig->states, &rig->at[rank], RANKS, &arrival)
                              : replica_states_change(rig->me, &rig->states, &rig->at[rank], &arrival);
    replica_state_free(rig->me, &rig->states, arrival.spare);
    rig->rival = arrival.rival;
    return answer;
}

static void
begin(struct rig *rig, int value)
{
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(arrive(rig, rank, change("begin", 1), value), ARRIVED);
}

static int
value_of(const struct replica_state *state)
{
    int value;
    memcpy(&value, state->elements, sizeof value);
    return value;
}

static void
do_the_same(struct rig *rig)
{
    begin(rig, 5);
    for (int value = 6; value < 9; value++)
        assert_int_equal(arrive(rig, 2, change("step", 9), value), ARRIVED);
    for (int rank = 0; rank < 2; rank++)
        for (int value = 6; value < 9; value++)
            assert_int_equal(arrive(rig, rank, change("step", 9), value), ARRIVED);
    assert_ptr_equal(rig->at[0], rig->at[2]);
    assert_ptr_equal(rig->states.root, rig->at[0]);   /* what all have left behind is gone */
    assert_int_equal(rig->at[0]->others, 2);
    assert_int_equal(rig->at[0]->rank, 2);
}

static void
ranks_that_do_the_same_are_at_the_same_place_whoever_goes_first(void **state)
{
    (void)state;
    run(do_the_same);
}

static void
make_other_numbers(struct rig *rig)
{
    begin(rig, 5);
    assert_int_equal(arrive(rig, 0, change("step", 9), 6), ARRIVED);
    assert_int_equal(arrive(rig, 1, change("step", 9), 7), ARRIVED_ELSEWHERE);
    assert_int_equal(value_of(rig->rival), 6);
    assert_int_equal(arrive(rig, 1, change("step", 10), 7), ARRIVED);           /* another line: who knows */
    struct change later = change("step", 9);
    later.after = 1;
    assert_int_equal(arrive(rig, 2, later, 8), ARRIVED);                        /* nor between other meetings */
}

static void
the_same_change_with_other_bytes_is_found_at_once(void **state)
{
    (void)state;
    run(make_other_numbers);
}

static void
begin_elsewhere(struct rig *rig)
{
    assert_int_equal(arrive(rig, 0, change("begin", 1), 5), ARRIVED);
    assert_int_equal(arrive(rig, 0, change("step", 9), 6), ARRIVED);
    assert_int_equal(arrive(rig, 1, change("begin", 1), 5), ARRIVED);           /* late, and the root is still there */
    assert_int_equal(arrive(rig, 2, change("begin", 1), 4), ARRIVED_ELSEWHERE);
    assert_int_equal(value_of(rig->rival), 5);
}

static void
all_begin_alike_however_late(void **state)
{
    (void)state;
    run(begin_elsewhere);
}

/* Both orders of the same two: the fork is the mirror image. */
static void
expect_extra(const struct rig *rig, int who, int first, int before)
{
    struct fork fork = replica_states_fork(&rig->states, rig->at[0], rig->at[1]);
    assert_int_equal(fork.kind, FORK_EXTRA);
    assert_int_equal(fork.swapped, who == 1);
    assert_int_equal(value_of(fork.first), first);
    assert_int_equal(value_of(fork.other), before);
    fork = replica_states_fork(&rig->states, rig->at[1], rig->at[0]);
    assert_int_equal(fork.kind, FORK_EXTRA);
    assert_int_equal(fork.swapped, who == 0);
    assert_int_equal(value_of(fork.first), first);
}

static void
add_noise(struct rig *rig)
{
    begin(rig, 5);
    assert_int_equal(arrive(rig, 1, change("add", 8), 50), ARRIVED);            /* what nobody else does */
    assert_int_equal(arrive(rig, 1, change("step", 9), 51), ARRIVED);
    assert_int_equal(arrive(rig, 0, change("step", 9), 6), ARRIVED);
    expect_extra(rig, 1, 50, 5);
}

static void
an_inserted_change_is_told_apart_from_the_one_behind_it(void **state)
{
    (void)state;
    run(add_noise);
}

static void
skip_one(struct rig *rig)
{
    begin(rig, 5);
    assert_int_equal(arrive(rig, 0, change("step", 9), 6), ARRIVED);
    expect_extra(rig, 0, 6, 5);
}

static void
a_change_that_is_left_out_is_one_more_of_the_other(void **state)
{
    (void)state;
    run(skip_one);
}

static void
change_nothing(struct rig *rig)
{
    begin(rig, 5);
    assert_int_equal(arrive(rig, 0, change("mul", 7), 5), ARRIVED);             /* by one: no change of the numbers */
    assert_int_equal(arrive(rig, 0, change("step", 9), 6), ARRIVED);
    assert_int_equal(arrive(rig, 0, change("add", 11), 60), ARRIVED);
    assert_int_equal(arrive(rig, 1, change("step", 9), 6), ARRIVED);
    expect_extra(rig, 0, 60, 6);
}

static void
what_changes_no_number_is_not_why(void **state)
{
    (void)state;
    run(change_nothing);
}

static void
differ_otherwise(struct rig *rig)
{
    begin(rig, 5);
    assert_int_equal(arrive(rig, 0, change("fill", 7), 1), ARRIVED);
    assert_int_equal(arrive(rig, 1, change("fill", 8), 2), ARRIVED);
    struct fork fork = replica_states_fork(&rig->states, rig->at[0], rig->at[1]);
    assert_int_equal(fork.kind, FORK_OTHER_CHANGE);
    assert_int_equal(value_of(fork.first), 1);
    assert_int_equal(value_of(fork.other), 2);
}

static void
two_other_changes_are_both_told(void **state)
{
    (void)state;
    run(differ_otherwise);
}

static void
come_back(struct rig *rig)
{
    begin(rig, 5);
    assert_int_equal(arrive(rig, 0, change("copy", 7), 90), ARRIVED);
    assert_int_equal(arrive(rig, 0, change("copy", 8), 5), ARRIVED);
    replica_states_join(rig->me, &rig->states, &rig->at[0], rig->at[1]);        /* at a meeting: equal again */
    assert_ptr_equal(rig->states.root, rig->at[1]);
    assert_null(rig->states.root->child);                                       /* nobody is on that way any more */
    assert_int_equal(arrive(rig, 0, change("step", 9), 6), ARRIVED);
    assert_int_equal(arrive(rig, 1, change("step", 9), 6), ARRIVED);
    assert_int_equal(arrive(rig, 2, change("step", 9), 6), ARRIVED);
    assert_ptr_equal(rig->states.root, rig->at[2]);
}

static void
who_has_come_back_goes_on_with_the_others(void **state)
{
    (void)state;
    run(come_back);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_do_the_same_are_at_the_same_place_whoever_goes_first),
        cmocka_unit_test(the_same_change_with_other_bytes_is_found_at_once),
        cmocka_unit_test(all_begin_alike_however_late),
        cmocka_unit_test(an_inserted_change_is_told_apart_from_the_one_behind_it),
        cmocka_unit_test(a_change_that_is_left_out_is_one_more_of_the_other),
        cmocka_unit_test(what_changes_no_number_is_not_why),
        cmocka_unit_test(two_other_changes_are_both_told),
        cmocka_unit_test(who_has_come_back_goes_on_with_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

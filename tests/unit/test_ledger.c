/* What everybody is told when ranks call different things, leave or wait for each other in vain. */
#include "ranks_rig.h"

#include "base/vec.h"
#include "c10d/internal.h"

static bool
disagree(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 4, 1, 0);
    if (!expect(me, ranks, group_all_reduce_now(me, group, tensor, NULL), "the first one agrees"))
        return false;
    if (me->rank == 0)
        return group_barrier_now(me, group);
    return group_broadcast_now(me, group, tensor, 0);
}

static void
different_collectives_are_told_to_both_ranks(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = disagree };
        ranks_run(&ranks, (enum executor_kind)executor);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(ranks.error[rank].kind, E_MISMATCH);
            assert_non_null(strstr(ranks.error[rank].message, "barrier #1"));
            assert_non_null(strstr(ranks.error[rank].message, "broadcast #1"));
        }
        assert_int_equal(count_events(&ranks, "fault.mismatch"), 1);
        ranks_free(&ranks);
    }
}

static bool
disagree_in_shape(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)ranks;
    struct tensor *tensor = numbers(me, me->rank == 2 ? 5 : 4, 1, 0);
    return group_all_reduce_now(me, group, tensor, NULL);
}

static void
different_shapes_are_told_to_all(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 4, .body = disagree_in_shape };
        ranks_run(&ranks, (enum executor_kind)executor);
        for (int rank = 0; rank < 4; rank++) {
            assert_int_equal(ranks.error[rank].kind, E_MISMATCH);
            assert_non_null(strstr(ranks.error[rank].message, "[5] on rank 2"));
            assert_non_null(strstr(ranks.error[rank].message, "[4] on rank"));
        }
        ranks_free(&ranks);
    }
}

/* What each rank calls differs in one thing: number `ranks->number` of these. */
static struct work *
call_differently(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int64_t                   count   = 4;
    bool                      other   = me->rank == 1;
    int                       which   = (int)ranks->number;
    struct collective_options options = { .op             = which == 0 && other ? REDUCE_MAX : REDUCE_SUM,
                                          .ring_forwards = which == 1 && other };
    enum dtype     dtype  = which == 2 && other ? DTYPE_I64 : DTYPE_F32;
    struct tensor *tensor = tensor_zeros(me, dtype, DEVICE_CPU, 1, &count);
    return which == 3 ? group_broadcast(me, group, tensor, me->rank) : group_all_reduce(me, group, tensor, &options);
}

static bool
differ_in_one(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct work *work = call_differently(me, group, ranks);
    bool         done = work != NULL && work_wait(me, work);
    work_free(me, work);
    return done && group_barrier_now(me, group);   /* a root has sent before it learns that it was the wrong one */
}

static void
operation_direction_dtype_and_root_are_compared(void **state)
{
    (void)state;
    static const char *const theirs[] = { "max on rank 1", "ring forwards", "int64 on rank 1", "root 1 on rank 1" };
    for (size_t i = 0; i < countof(theirs); i++) {
        struct ranks ranks = { .size = 2, .body = differ_in_one, .number = (double)i };
        ranks_run(&ranks, EXECUTOR_STEPPED);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(ranks.error[rank].kind, E_MISMATCH);
            assert_non_null(strstr(ranks.error[rank].message, theirs[i]));
        }
        ranks_free(&ranks);
    }
}

static bool
reduce_against_receive(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)ranks;
    struct tensor *tensor = numbers(me, 4, 0, 0);
    if (!group_barrier_now(me, group))
        return false;
    return me->rank == 0 ? group_all_reduce_now(me, group, tensor, NULL) : group_recv(me, group, tensor, 0, 0);
}

static void
a_deadlock_names_the_number_of_the_collective(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = reduce_against_receive };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_int_equal(ranks.error[1].kind, E_DEADLOCK);
    assert_non_null(strstr(ranks.error[1].message, "all_reduce #1 (line 100)"));
    assert_non_null(strstr(ranks.error[1].message, "recv from rank 0"));
    ranks_free(&ranks);
}

static bool
leave_early(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 4, 1, 0);
    for (int i = 0; i < 3; i++)
        if (!expect(me, ranks, group_all_reduce_now(me, group, tensor, NULL), "three together"))
            return false;
    return me->rank == 0 || group_all_reduce_now(me, group, tensor, NULL);
}

static void
a_rank_that_has_ended_is_named_on_all_others(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 4, .body = leave_early };
        ranks_run(&ranks, (enum executor_kind)executor);
        int told = 0;
        assert_int_equal(ranks.error[0].kind, E_NONE);
        for (int rank = 1; rank < 4; rank++) {
            char want[128];
            snprintf(want, sizeof want, "rank %d waits in all_reduce #3 (line %d), but rank 0 has ended after #2", rank,
                     100 + rank);
            bool tells_all = strstr(ranks.error[rank].message, "ended early: rank 0 returned") != NULL;
            assert_int_equal(ranks.error[rank].kind, E_DEADLOCK);
            assert_true(tells_all || strcmp(ranks.error[rank].message, want) == 0);
            told += tells_all;
        }
        assert_int_equal(told, 1);   /* the first to find so */
        ranks_free(&ranks);
    }
}

static bool
break_twice(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct ledger *ledger = &group->communicator->ledger;
    struct error   later = { .kind = E_RUNTIME, .message = "the wire is cut" };
    struct error   earlier = { .kind = E_MISMATCH, .message = "two shapes" };
    ledger_break(me, ledger, 5, &later);
    ledger_break(me, ledger, 7, &earlier);          /* it is broken there: nobody is told twice */
    bool ok = expect(me, ranks, strcmp(ledger_error(ledger, 7)->message, later.message) == 0, "one break holds on");
    ledger_break(me, ledger, 3, &earlier);
    for (int64_t sequence = 3; sequence < 8; sequence++) {
        const char *message = ledger_error(ledger, sequence)->message;
        ok = ok && expect(me, ranks, strcmp(message, sequence < 5 ? earlier.message : later.message) == 0,
                          "each has its own text");
    }
    return ok && expect(me, ranks, !ledger_is_broken(ledger, 2) && ledger_is_broken(ledger, 3), "and earlier ones go on");
}

static void
a_mismatch_behind_an_earlier_break_has_its_own_text(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = break_twice };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_int_equal(ranks.error[0].kind, E_NONE);
    ranks_free(&ranks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_collectives_are_told_to_both_ranks),
        cmocka_unit_test(different_shapes_are_told_to_all),
        cmocka_unit_test(operation_direction_dtype_and_root_are_compared),
        cmocka_unit_test(a_deadlock_names_the_number_of_the_collective),
        cmocka_unit_test(a_rank_that_has_ended_is_named_on_all_others),
        cmocka_unit_test(a_mismatch_behind_an_earlier_break_has_its_own_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* How ranks meet in a new group: who has to come, who may stay away, what is said when one has ended, and that a group
 * made from one rank's list is the same on all. Who goes on and who does not is as PyTorch 2.15 does it over gloo, on three
 * ranks; what it lets hang is told here. */
#include "ranks_rig.h"

/* Who is in the group that most of these tests make. */
static const int ends[] = { 0, 2 };

static bool
make(struct task *me, struct process_group *parent, const int *ranks, int count, bool local, struct process_group **group)
{
    struct group_options options = { .ranks = ranks, .count = count, .local_sync = local, .sort_ranks = true };
    return process_group_new(me, parent, &options, group);
}

static bool
meet_in_two(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct process_group *two = NULL;
    struct tensor        *tensor = numbers(me, 2, me->rank, 0);
    bool made   = make(me, group, ends, 2, false, &two);
    bool member = me->rank == 0 || me->rank == 2;
    if (!expect(me, ranks, made && (two != NULL) == member, "members get it, the others do not"))
        return false;
    if (!member)
        return true;
    bool right = process_group_size(two) == 2 && process_group_rank(two) == me->rank / 2 &&
                 process_group_global_rank(two, 1) == 2 && process_group_group_rank(two, 1) == -1 &&
                 process_group_number(two) == 1 && process_group_sequence(two) == 0;
    if (!expect(me, ranks, right, "who is who"))
        return false;
    right = group_all_reduce_now(me, two, tensor, NULL) && holds(me, tensor, 2, 2, 0);
    return expect(me, ranks, right && process_group_sequence(two) == 1 && process_group_sequence(group) == 0, "its sum");
}

static void
members_meet(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 4, .body = meet_in_two };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "c10d.new_group"), 4);
        ranks_free(&ranks);
    }
}

/* Lists of ranks that each rank makes groups of, in order: "02 012". `fails`: a digit for each rank that gets an error. */
struct plan { const char *calls[4], *fails, *words; };

static const struct plan *
plan_of(const struct ranks *ranks)
{
    static const struct plan plans[] = {
        { { "02", "", "02" }, "", NULL },                /* no member, and missed by nobody */
        { { "02 02", "02", "02 02" }, "", NULL },        /* its first call is their first */
        { { "02", "2", "02" }, "", NULL },               /* no member of either */
        { { "0", "1", "2" }, "", NULL },                 /* who is alone looks for nobody */
        { { "0 1", "1 0", "1 0" }, "", NULL },
        { { "01", "01", "2" }, "", NULL },
        { { "02 012", "012", "02 012" }, "012", "\ncause: skipped call or other order\n" },
        { { "01 012", "012 01", "012 01" }, "012", "\ncause: skipped call or other order\n" },   /* nobody skips */
        { { "02", "02", "01" }, "0", "new_group #0 differs" },
        { { "02", "02", "" }, "0", "skipped new_group: rank 2 did not call new_group (line 100)" },
        { { "02 1", "1", "02 1" }, "", NULL },
    };
    return (size_t)ranks->number < sizeof plans / sizeof *plans ? &plans[(size_t)ranks->number] : NULL;
}

static bool
follow_plan(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int members[4], count = 0;
    bool good = true;
    for (const char *at = plan_of(ranks)->calls[me->rank]; good && *at != '\0'; at++) {
        members[count++] = *at - '0';
        if (at[1] != ' ' && at[1] != '\0')
            continue;
        struct process_group *made = NULL;
        good = make(me, group, members, count, false, &made);
        good = good && (made == NULL || group_barrier_now(me, made));
        at += at[1] == ' ';
        count = 0;
    }
    return good;
}

static void
the_numbers_of_calls_pair_them(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 3, .body = follow_plan };
        for (; plan_of(&ranks) != NULL; ranks.number++) {
            const struct plan *plan = plan_of(&ranks);
            bool told = plan->words == NULL;
            ranks_run(&ranks, (enum executor_kind)executor);
            for (int rank = 0; rank < ranks.size; rank++) {
                const struct error *error = &ranks.error[rank];
                bool fails = strchr(plan->fails, '0' + rank) != NULL;
                if (fails != (error->kind != E_NONE))
                    fail_msg("plan %.0f: rank %d: %s", ranks.number, rank, error->message);
                told = told || strstr(error->message, plan->words) != NULL;
            }
            if (!told)
                fail_msg("plan %.0f: '%s', '%s', '%s'", ranks.number, ranks.error[0].message, ranks.error[1].message,
                         ranks.error[2].message);
            ranks_free(&ranks);
        }
    }
}

static bool
one_stays_away(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct process_group *two = NULL;
    if (me->rank == 3)
        return true;
    bool made = make(me, group, ends, 2, false, &two);
    (void)ranks;
    return made;
}

static void
with_the_barrier_who_has_ended_is_named(void **state)
{
    (void)state;
    setenv("TORCH_DIST_INIT_BARRIER", "1", 1);
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 4, .body = one_stays_away };
        ranks_run(&ranks, (enum executor_kind)executor);
        int told = 0;
        for (int rank = 0; rank < 3; rank++) {
            char text[120];
            snprintf(text, sizeof text, "rank %d waits in new_group #0 of ranks {0, 2} (line %d), but rank 3 has ended without",
                     rank, 100 + rank);
            bool tells_all = strstr(ranks.error[rank].message, "skipped new_group: rank 3") != NULL;
            assert_int_equal(ranks.error[rank].kind, E_DEADLOCK);
            if (!tells_all && strstr(ranks.error[rank].message, text) == NULL)
                fail_msg("%s", ranks.error[rank].message);
            told += tells_all;
        }
        assert_int_equal(told, 1);   /* the first to find so */
        assert_int_equal(ranks.error[3].kind, E_NONE);
        ranks_free(&ranks);
    }
    unsetenv("TORCH_DIST_INIT_BARRIER");
}

static bool
one_does_something_else(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct process_group *two = NULL;
    (void)ranks;
    return me->rank == 1 ? group_barrier_now(me, group) : make(me, group, ends, 2, false, &two);
}

static void
with_the_barrier_a_deadlock_names_the_missing(void **state)
{
    (void)state;
    setenv("TORCH_DIST_INIT_BARRIER", "1", 1);
    struct ranks ranks = { .size = 3, .body = one_does_something_else };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_int_equal(ranks.error[0].kind, E_DEADLOCK);
    assert_non_null(strstr(ranks.error[0].message, "rank 1 did not call new_group"));
    assert_non_null(strstr(ranks.error[0].message, "barrier #0 (line 101)"));
    ranks_free(&ranks);
    unsetenv("TORCH_DIST_INIT_BARRIER");
}

/* Pairs (0, 1), (1, 2), (2, 3), made by their members alone while the others do not wait. */
static bool
pairs(struct task *me, struct process_group *group, struct ranks *ranks)
{
    for (int first = 0; first < 3; first++) {
        const int             members[] = { first, first + 1 };
        struct process_group *pair = NULL;
        struct tensor        *tensor = numbers(me, 1, me->rank, 0);
        bool made   = make(me, group, members, 2, true, &pair);
        bool member = me->rank == first || me->rank == first + 1;
        if (!expect(me, ranks, made && (pair != NULL) == member, "only members get it"))
            return false;
        if (member && !expect(me, ranks, group_all_reduce_now(me, pair, tensor, NULL) &&
                                         holds(me, tensor, 1, 2 * first + 1, 0), "the pair's sum"))
            return false;
    }
    return true;
}

static void
local_groups_ask_nobody_else(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 4, .body = pairs };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

static bool
part_and_meet(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct process_group *first = NULL, *second = NULL;
    if (!make(me, group, NULL, 0, false, &first) || !make(me, first, ends, 2, false, &second))
        return false;
    bool right = process_group_number(first) == 1 && (second != NULL) == (me->rank != 1);
    right = right && process_group_destroy(me, group) && process_group_is_gone(first) &&
            (second == NULL || process_group_is_gone(second));
    struct process_group *again = process_group_rendezvous(me, ranks->world, me->rank);
    right = right && again != NULL && process_group_number(again) == 0 && process_group_sequence(again) == 0 &&
            make(me, again, NULL, 0, false, &first) && process_group_number(first) == 1 &&
            group_barrier_now(me, first) && process_group_destroy(me, again);
    return expect(me, ranks, right, "the default group takes all others with it; the next one counts from 0");
}

static void
a_generation_ends_as_a_whole(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 3, .body = part_and_meet };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_meet),
        cmocka_unit_test(the_numbers_of_calls_pair_them),
        cmocka_unit_test(with_the_barrier_who_has_ended_is_named),
        cmocka_unit_test(with_the_barrier_a_deadlock_names_the_missing),
        cmocka_unit_test(local_groups_ask_nobody_else),
        cmocka_unit_test(a_generation_ends_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is told of a flight: why nobody goes on, whose fault it is, and the exact two lines; of a run of ours, where
 * each rank's wait is known, and of dumps, where only calls and their states are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "flight_rig.h"
#include "flight_situations.h"

static void
each_situation_is_told_in_two_lines(void **state)
{
    for (size_t i = 0; i < countof(situations); i++)
        for (int live = 0; live < 2; live++) {
            const struct situation *at   = &situations[i];
            const struct told      *want = live != 0 ? &at->live : &at->dump;
            struct flight           flight;
            struct hang             hang;
            make_flight(&flight, at->world, at->flight, live != 0);
            flight_diagnose(&flight, &hang);
            if (hang.cause != want->cause || hang.culprit != want->culprit)
                print_message("%s (%s): %s, rank %d\n", at->name, live != 0 ? "live" : "dump",
                              hang_cause_name(hang.cause), hang.culprit);
            assert_int_equal(hang.cause, want->cause);
            assert_int_equal(hang.culprit, want->culprit);
            assert_int_equal(hang.sequence, want->sequence);
            assert_head(&flight, &hang, want->head, at->name);
            assert_report(&flight, &hang, 80);
            assert_report(&flight, &hang, 132);
            flight_free(&flight);
        }
}

/* How often a text says where: "(line 8)", "at line 8", "(train.py:8)". */
static int
places(const char *text)
{
    int count = 0;
    for (const char *at = text; (at = strpbrk(at, "l:")) != NULL; at++)
        count += strncmp(at, "line", 4) == 0 || (at > text + 3 && strncmp(at - 3, ".py:", 4) == 0);
    return count;
}

/* Behind "ringside: DeadlockError: " there is less room: what the first line cannot say of places the second one does. */
static void
a_short_first_line_leaves_places_to_the_second(void **state)
{
    for (size_t i = 0; i < countof(situations); i++) {
        const struct situation *at   = &situations[i];
        struct str              head = { 0 };
        struct flight           flight;
        struct hang             hang;
        make_flight(&flight, at->world, at->flight, true);
        flight.before = 26;
        flight_diagnose(&flight, &hang);
        hang_print_head(&flight, &hang, 80, &head);
        assert_true(strcspn(str_text(&head), "\n") <= 80 - 26);
        if (places(str_text(&head)) == 0 && places(at->live.head) > 0 && hang.cause != HANG_ABSENT)
            print_message("%s:\n%s", at->name, str_text(&head));
        assert_true(places(str_text(&head)) > 0 || places(at->live.head) == 0 || hang.cause == HANG_ABSENT);
        assert_report(&flight, &hang, 80);
        str_free(&head);
        flight_free(&flight);
    }
}

static void
a_ring_of_sends_is_told_in_any_world(void **state)
{
    static const int worlds[] = { 2, 3, 64, 1024 };
    for (size_t i = 0; i < countof(worlds); i++) {
        struct str    text = { 0 };
        struct flight flight;
        struct hang   hang;
        for (int rank = 0; rank < worlds[i]; rank++)
            str_addf(&text, "%d: send>%d#0=[[3]]@4*\n", rank, (rank + 1) % worlds[i]);
        make_flight(&flight, worlds[i], str_text(&text), true);
        flight_diagnose(&flight, &hang);
        assert_int_equal(hang.cause, HANG_SENDS_CROSSED);
        assert_int_equal(hang.circle_length, worlds[i]);
        assert_int_equal(hang.circle_count, worlds[i] < 16 ? worlds[i] : 16);
        for (int at = 0; at < hang.circle_count; at++)
            assert_int_equal(hang.circle[at], at);
        if (worlds[i] == 1024)
            assert_head(&flight, &hang,
                        "each waits for the next in send (line 4): 0 -> 1 -> 2 -> 1021 more -> 0\n"
                        "cause: crossed sends: 1024 ranks all send first, and nobody receives\n", "1024");
        assert_report(&flight, &hang, 80);
        flight_free(&flight);
        str_free(&text);
    }
}

static void
a_rank_waits_for_those_who_did_not_come(void **state)
{
    struct flight flight;
    int           out[8];
    make_flight(&flight, 5, "0: all_reduce@9 all_reduce@9*\n1: all_reduce@9\n2: all_reduce@9 all_reduce@9*\n"
                            "3: recv<1@4*\n4: IN=new_group>2@5\n", true);
    assert_int_equal(flight_awaits(&flight, 0, out), 3);
    assert_int_equal(out[0], 1);
    assert_int_equal(out[1], 3);
    assert_int_equal(out[2], 4);
    assert_int_equal(flight_awaits(&flight, 1, out), 0);
    assert_int_equal(flight_awaits(&flight, 3, out), 1);
    assert_int_equal(out[0], 1);
    assert_int_equal(flight_awaits(&flight, 4, out), 1);
    assert_int_equal(out[0], 2);
    assert_int_equal(flight_awaits(&flight, -1, out), 0);
    assert_int_equal(flight_awaits(&flight, 99, out), 0);
    flight_free(&flight);
    make_flight(&flight, 3, "0-1: all_reduce@9 broadcast@8*\n2: all_reduce@9 barrier@9*\n", false);
    assert_int_equal(flight_awaits(&flight, 0, out), 1);
    assert_int_equal(out[0], 2);
    assert_int_equal(flight_awaits(&flight, 2, out), 2);
    flight_free(&flight);
}

static void
the_report_shows_the_graph_and_folds_equal_ranks(void **state)
{
    struct flight flight;
    struct hang   hang;
    struct str    report = { 0 };
    make_flight(&flight, 64, "0-2: all_reduce=[[3,4]]@9 all_reduce=[[3,4]]@9*\n3: all_reduce=[[3,4]]@9 RUNNING=3@17\n"
                             "4-63: all_reduce=[[3,4]]@9 all_reduce=[[3,4]]@9*\n", true);
    flight_diagnose(&flight, &hang);
    hang_print(&flight, &hang, 80, &report);
    assert_string_equal(str_text(&report),
        "ranks 0-2, 4-63 wait in all_reduce #1 (line 9) for rank 3, which is at line 17\n"
        "cause: stuck outside: rank 3 has been at line 17 for 3.0 s\n"
        "\n"
        "no two calls differ; the last that all made alike: all_reduce #0 (line 9)\n"
        "who waits for whom: 0-2, 4-63 -> 3\n"
        "\n"
        "ranks      last enqueued       started  completed           now\n"
        "0-2, 4-63  all_reduce #1       same     all_reduce #0       waits in it for\n"
        "           [3,4] (line 9)               [3,4] (line 9)      rank 3\n"
        "3          all_reduce #0       same     same                runs at line 17\n"
        "           [3,4] (line 9)                                   for 3.0 s\n");
    flight_free(&flight);
    str_free(&report);
}

/* A table has at most 16 rows and tells how many are left out; the culprit's is among them. */
static void
the_culprit_has_its_row(void **state)
{
    struct flight flight;
    struct hang   hang;
    struct str    text = { 0 }, report = { 0 };
    for (int rank = 0; rank < 200; rank++)
        str_addf(&text, rank == 150 ? "%d: RUNNING=2@17\n" : "%d: all_reduce=[[3]]@9*\n", rank);
    for (int rank = 0; rank < 200; rank++)
        str_addf(&text, "%d: send>%d@5+\n", rank, rank);
    make_flight(&flight, 200, str_text(&text), true);
    flight_diagnose(&flight, &hang);
    assert_int_equal(hang.culprit, 150);
    hang_print(&flight, &hang, 80, &report);
    assert_non_null(strstr(str_text(&report), "\n150    send to rank 150"));
    assert_non_null(strstr(str_text(&report), "more rows\n"));
    assert_report(&flight, &hang, 80);
    flight_free(&flight);
    str_free(&text);
    str_free(&report);
}

/* ---- dumps as they are ---- */

/* gloo's calls stay "scheduled", and are retired after their end and after a time-out alike. */
static void
retired_calls_of_gloo_are_over_once_all_have_come(void **state)
{
    struct flight flight;
    struct hang   hang;
    make_flight(&flight, 2, "", false);
    for (int rank = 0; rank < 2; rank++)
        for (int64_t i = 1; i <= 3 - rank; i++)
            call(&flight, rank, (struct flight_entry){ .sequence = i, .operation = "all_reduce", .backend = "gloo",
                                                       .input_sizes = "[[3]]", .retired = true, .line = 9 });
    flight_diagnose(&flight, &hang);
    assert_int_equal(hang.cause, HANG_OUTSIDE);
    assert_int_equal(hang.culprit, 1);
    assert_int_equal(hang.sequence, 3);
    assert_head(&flight, &hang, "rank 0 waits in all_reduce #3 (line 9) for rank 1, which did not come\n"
                                "cause: stuck outside: rank 1 is busy or gone after all_reduce #2 (line 9)\n", "gloo");
    flight_free(&flight);
}

/* Rings keep the newest: only what both still have is compared. */
static void
what_a_ring_has_lost_is_not_missed(void **state)
{
    struct flight flight;
    struct hang   hang;
    make_flight(&flight, 3, "", false);
    for (int rank = 0; rank < 3; rank++)
        for (int64_t i = rank == 1 ? 90 : 10; i <= 100; i++)
            call(&flight, rank, (struct flight_entry){ .sequence = i, .operation = i % 3 == 0 ? "reduce" : "all_reduce",
                                                       .input_sizes = rank == 2 && i == 97 ? "[[4]]" : "[[3]]",
                                                       .state = i < 97 ? FLIGHT_COMPLETED : FLIGHT_SCHEDULED });
    flight_diagnose(&flight, &hang);
    assert_int_equal(hang.cause, HANG_SHAPE);
    assert_int_equal(hang.culprit, 2);
    assert_int_equal(hang.sequence, 97);
    flight_free(&flight);
}

/* The calls of a coalesced group share a number. */
static void
coalesced_calls_are_compared_one_by_one(void **state)
{
    struct flight flight;
    struct hang   hang;
    for (int changed = 0; changed < 3; changed++) {
        make_flight(&flight, 2, "", false);
        for (int rank = 0; rank < 2; rank++)
            for (int64_t op = 0; op < (changed == 2 && rank == 1 ? 3 : 4); op++)
                call(&flight, rank, (struct flight_entry){ .sequence = 5, .op = op, .operation = "all_reduce",
                                                           .input_sizes = changed == 1 && rank == 1 && op == 2 ? "[[4]]"
                                                                                                             : "[[3]]",
                                                           .state = FLIGHT_STARTED });
        flight_diagnose(&flight, &hang);
        assert_int_equal(hang.cause, changed == 0 ? HANG_UNKNOWN : changed == 1 ? HANG_SHAPE : HANG_SKIPPED);
        assert_int_equal(hang.culprit, changed == 0 ? -1 : 1);
        assert_report(&flight, &hang, 80);
        flight_free(&flight);
    }
}

/* What need not be equal: a gather's outputs off its root, a scatter's inputs, the shards of unequal lists. */
static void
sizes_that_may_differ_do_not(void **state)
{
    static const struct { const char *operation, *in[2], *out[2]; enum hang_cause cause; } cases[] = {
        { "gather", { "[[3]]", "[[3]]" }, { "[[3], [3]]", "[]" }, HANG_UNKNOWN },
        { "gather", { "[[3]]", "[[4]]" }, { "[[3], [3]]", "[]" }, HANG_SHAPE },
        { "scatter", { "[[3], [3]]", "[]" }, { "[[3]]", "[[3]]" }, HANG_UNKNOWN },
        { "scatter", { "[]", "[[3], [3]]" }, { "[[3]]", "[[5]]" }, HANG_SHAPE },
        { "all_gather", { "[[3]]", "[[5]]" }, { "[[3], [5]]", "[[3], [5]]" }, HANG_UNKNOWN },
        { "all_gather", { "[[3]]", "[[5]]" }, { "[[3], [5]]", "[[3], [6]]" }, HANG_SHAPE },
        { "all_gather", { "[[3]]", "[[5]]" }, { "[[3], [3]]", "[[5], [5]]" }, HANG_SHAPE },
        { "_all_gather_base", { "[[3]]", "[[5]]" }, { "[[6]]", "[[10]]" }, HANG_SHAPE },
        { "reduce_scatter", { "[[3], [5]]", "[[3], [5]]" }, { "[[3]]", "[[5]]" }, HANG_UNKNOWN },
        { "reduce_scatter", { "[[3], [3]]", "[[5], [5]]" }, { "[[3]]", "[[5]]" }, HANG_SHAPE },
        { "all_to_all", { "[[3], [1]]", "[[9], [2]]" }, { "[[3], [9]]", "[[1], [2]]" }, HANG_UNKNOWN },
        { "reduce", { "[[3]]", "[[3]]" }, { "[[3]]", NULL }, HANG_UNKNOWN },
        { "broadcast", { "[[3]]", "[[3, 1]]" }, { NULL, NULL }, HANG_SHAPE },
        { "all_reduce", { "[[]]", "[[1]]" }, { NULL, NULL }, HANG_SHAPE },
        { "all_reduce", { NULL, "[[1]]" }, { NULL, NULL }, HANG_UNKNOWN },
        { "a_new_operation", { "[[3]]", "[[4]]" }, { NULL, NULL }, HANG_UNKNOWN },
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct flight flight;
        struct hang   hang;
        make_flight(&flight, 2, "", false);
        for (int rank = 0; rank < 2; rank++)
            call(&flight, rank, (struct flight_entry){ .operation = cases[i].operation,
                                                       .input_sizes = cases[i].in[rank],
                                                       .output_sizes = cases[i].out[rank], .state = FLIGHT_STARTED });
        flight_diagnose(&flight, &hang);
        if (hang.cause != cases[i].cause)
            print_message("%s, case %zu\n", cases[i].operation, i);
        assert_int_equal(hang.cause, cases[i].cause);
        flight_free(&flight);
    }
}

/* A difference that came to its end everywhere is told only where nothing else is wrong. */
static void
a_difference_that_did_no_harm_is_not_the_cause(void **state)
{
    struct flight flight;
    struct hang   hang;
    make_flight(&flight, 2, "0: all_reduce=[[3]]@9 barrier@10*\n1: all_reduce=[[4]]@9 RETURNED\n", true);
    flight_diagnose(&flight, &hang);
    assert_int_equal(hang.cause, HANG_ENDED);
    flight_free(&flight);
    make_flight(&flight, 2, "0: all_reduce=[[3]]@9\n1: all_reduce=[[4]]@9\n", true);
    flight_diagnose(&flight, &hang);
    assert_int_equal(hang.cause, HANG_SHAPE);
    flight_free(&flight);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_situation_is_told_in_two_lines),
        cmocka_unit_test(a_short_first_line_leaves_places_to_the_second),
        cmocka_unit_test(a_ring_of_sends_is_told_in_any_world),
        cmocka_unit_test(a_rank_waits_for_those_who_did_not_come),
        cmocka_unit_test(the_report_shows_the_graph_and_folds_equal_ranks),
        cmocka_unit_test(the_culprit_has_its_row),
        cmocka_unit_test(retired_calls_of_gloo_are_over_once_all_have_come),
        cmocka_unit_test(what_a_ring_has_lost_is_not_missed),
        cmocka_unit_test(coalesced_calls_are_compared_one_by_one),
        cmocka_unit_test(sizes_that_may_differ_do_not),
        cmocka_unit_test(a_difference_that_did_no_harm_is_not_the_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

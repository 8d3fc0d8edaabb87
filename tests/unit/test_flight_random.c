/* Flights by chance: hostile ones, programs equal on all ranks or with one call changed on one, large worlds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <time.h>

#include "base/rng.h"
#include "flight_rig.h"

/* ---- hostile flights ---- */

static int64_t
below(uint64_t *random, int64_t limit)
{
    return (int64_t)(splitmix(random) % (uint64_t)limit);
}

static const char *
any_text(uint64_t *random)
{
    static char long_text[5000];
    static const char *const texts[] = {
        NULL, "", "all_reduce", "broadcast", "send", "recv", "irecv_any_source", "coalesced", "[[", "]]", "[[]]", "[]",
        "[[3], [", "[[3, 4], [5]]", "\x1f\x1f", "\xc3\xa4\n\t\x01", "%s%n", "sleep", "lock", "new_group", "/", "a/b/",
        "gather", "scatter", "all_gather", "reduce_scatter", "((((", "))))", long_text };
    memset(long_text, 'x', sizeof long_text - 1);
    return texts[below(random, (int64_t)countof(texts))];
}

static int64_t
any_number(uint64_t *random)
{
    static const int64_t numbers[] = { -1, 0, 1, 2, 3, 4, 5, INT64_MAX, INT64_MIN, 1000, -7 };
    return numbers[below(random, (int64_t)countof(numbers))];
}

static void
any_entry(uint64_t *random, struct flight *flight, int rank)
{
    struct flight_entry entry = {
        .record = any_number(random), .sequence = any_number(random), .op = any_number(random),
        .group = (int)below(random, 6) - 1, .is_p2p = below(random, 4) == 0, .retired = below(random, 4) == 0,
        .state = (enum flight_state)below(random, 3), .root = (int)below(random, 40) - 2,
        .peer = (int)below(random, 40) - 2, .tag = any_number(random), .line = (uint32_t)below(random, 5),
    };
    const char **texts[] = { &entry.operation, &entry.backend, &entry.input_sizes, &entry.output_sizes,
                             &entry.input_dtypes, &entry.output_dtypes, &entry.reduce_op, &entry.details, &entry.file,
                             &entry.function };
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = any_text(random);
    flight_enter(flight, rank, &entry);
}

static void
any_rank(uint64_t *random, struct flight *flight, int at)
{
    struct flight_rank *rank = &flight->ranks[at];
    rank->now      = (enum flight_now)below(random, FLIGHT_KILLED + 1);
    rank->line     = (uint32_t)below(random, 4);
    rank->since_ps = (uint64_t)below(random, 3) * 5000000000000u;
    rank->waits_in = flight_text(flight, any_text(random));
    rank->detail   = flight_text(flight, any_text(random));
    rank->sequence = any_number(random);
    rank->group    = (int)below(random, 6) - 1;
    rank->peer     = (int)below(random, 40) - 2;
    rank->tag      = any_number(random);
}

static void
hostile_flights_are_survived(void **state)
{
    uint64_t random = 12;
    for (int round = 0; round < 3000; round++) {
        struct flight flight = { 0 };
        struct hang   hang;
        int           ranks[8], out[64], world = (int)below(&random, 9);
        flight_size(&flight, world);
        for (int group = (int)below(&random, 4); group-- > 0;) {
            for (size_t i = 0; i < countof(ranks); i++)
                ranks[i] = (int)below(&random, 40) < 30 ? (int)below(&random, 9) : (int)below(&random, 60) - 20;
            flight_group(&flight, any_text(&random), any_text(&random), ranks, (int)below(&random, 9));
        }
        for (int count = (int)below(&random, 60); world > 0 && count-- > 0;)
            any_entry(&random, &flight, (int)below(&random, world + 1) - (below(&random, 9) == 0));
        for (int rank = 0; rank < flight.rank_count; rank++)
            if (below(&random, 2) == 0)
                any_rank(&random, &flight, rank);
        flight_diagnose(&flight, &hang);
        for (int rank = 0; rank < flight.rank_count; rank++)
            assert_true(flight_awaits(&flight, rank, out) <= flight.rank_count);
        assert_report(&flight, &hang, 80);
        flight_free(&flight);
    }
}

static void
an_empty_flight_has_nothing_to_tell(void **state)
{
    struct flight flight = { 0 };
    struct hang   hang;
    flight_diagnose(&flight, &hang);
    assert_int_equal(hang.cause, HANG_NONE);
    assert_head(&flight, &hang, "nobody waits\ncause: none: every call is over, or goes on\n", "empty");
    assert_report(&flight, &hang, 80);
    flight_free(&flight);
}

/* ---- random programs ---- */

enum { MOST_CALLS = 64 };
struct program { struct flight_entry calls[MOST_CALLS]; int count; };

static const char *const sizes[] = { "[[3]]", "[[4]]", "[[3, 4]]", "[[128]]", "[[3], [4]]" };
static const char *const dtypes[] = { "[Float]", "[Double]", "[Long]" };
static const char *const reductions[] = { "sum", "max", "min" };

static struct flight_entry
any_call(uint64_t *random)
{
    static const char *const operations[] = { "all_reduce", "broadcast", "reduce",
                                              "all_gather", "barrier", "all_to_all" };
    struct flight_entry call = { .operation = operations[below(random, (int64_t)countof(operations))],
                                 .op = -1, .root = -1, .peer = -1, .tag = -1 };
    if (strcmp(call.operation, "barrier") == 0)
        return call;
    call.input_sizes  = sizes[below(random, (int64_t)countof(sizes))];
    call.input_dtypes = dtypes[below(random, (int64_t)countof(dtypes))];
    if (strcmp(call.operation, "broadcast") == 0 || strcmp(call.operation, "reduce") == 0)
        call.root = (int)below(random, 2);
    if (strstr(call.operation, "reduce") != NULL)
        call.reduce_op = reductions[below(random, (int64_t)countof(reductions))];
    return call;
}

/* The last call is one that comes nowhere else, as the end of a program's step would. */
static struct program
any_program(uint64_t *random, bool lines)
{
    struct program program = { .count = 5 + (int)below(random, 56) };
    for (int i = 0; i < program.count; i++) {
        program.calls[i]      = any_call(random);
        program.calls[i].line = lines ? (uint32_t)(10 + i) : 0;
    }
    program.calls[program.count - 1].operation = "monitored_barrier";
    return program;
}

static bool
same_call(const struct flight_entry *a, const struct flight_entry *b)
{
    return strcmp(a->operation, b->operation) == 0 && a->input_sizes == b->input_sizes &&
           a->input_dtypes == b->input_dtypes && a->root == b->root && a->reduce_op == b->reduce_op;
}

/* Sizes of an all_to_all are each rank's own. */
static bool
looks_alike(const struct flight_entry *a, const struct flight_entry *b)
{
    struct flight_entry other = *b;
    if (strcmp(a->operation, "all_to_all") == 0)
        other.input_sizes = a->input_sizes;
    return same_call(a, &other);
}

/* Makes the change, if it can be made there; NONE: it cannot. */
static enum hang_cause
plant(uint64_t *random, struct program *program, enum hang_cause cause)
{
    int                  at = (int)below(random, program->count - 1);
    struct flight_entry *call = &program->calls[at];
    switch (cause) {
    case HANG_SKIPPED:
        memmove(call, call + 1, (size_t)(program->count - at - 1) * sizeof *call);
        program->count--;
        return cause;
    case HANG_ORDER: {
        int                 other = at + 1 + (int)below(random, 4);
        struct flight_entry kept  = *call;
        if (other >= program->count - 1 || looks_alike(call, &program->calls[other]))
            return HANG_NONE;
        *call                  = program->calls[other];
        program->calls[other] = kept;
        return cause;
    }
    case HANG_SHAPE: {
        const char *size = sizes[below(random, (int64_t)countof(sizes))];
        if (call->input_sizes == NULL || strcmp(call->operation, "all_to_all") == 0 || size == call->input_sizes)
            return HANG_NONE;
        call->input_sizes = size;
        return cause;
    }
    case HANG_DTYPE:
        if (call->input_dtypes == NULL)
            return HANG_NONE;
        call->input_dtypes = call->input_dtypes == dtypes[0] ? dtypes[1] : dtypes[0];
        return cause;
    case HANG_ROOT:
        if (call->root < 0)
            return HANG_NONE;
        call->root = 1 - call->root;
        return cause;
    case HANG_REDUCE_OP:
        if (call->reduce_op == NULL)
            return HANG_NONE;
        call->reduce_op = call->reduce_op == reductions[0] ? reductions[1] : reductions[0];
        return cause;
    default:
        return HANG_NONE;
    }
}

/* All calls from `hangs` on are not over: each rank has enqueued all of its own, as on a GPU; from `first` on they are
 * still in the ring. */
static void
run_program(struct flight *flight, int rank, const struct program *program, int first, int hangs)
{
    for (int i = first; i < program->count; i++) {
        struct flight_entry entry = program->calls[i];
        entry.record   = i;
        entry.sequence = i;
        entry.state    = i < hangs ? FLIGHT_COMPLETED : i == hangs ? FLIGHT_STARTED : FLIGHT_SCHEDULED;
        assert_non_null(flight_enter(flight, rank, &entry));
    }
}

static void
equal_programs_never_differ(void **state)
{
    uint64_t random = 3;
    for (int round = 0; round < 2000; round++) {
        struct program program = any_program(&random, below(&random, 2) == 0);
        struct flight  flight;
        struct hang    hang;
        int            world = 2 + (int)below(&random, 15);
        make_flight(&flight, world, "", false);
        for (int rank = 0; rank < world; rank++) {
            struct program own = program;
            own.count -= below(&random, 3) == 0 ? (int)below(&random, program.count) : 0;
            for (int i = 0; i < own.count; i++)
                if (strcmp(own.calls[i].operation, "all_to_all") == 0)
                    own.calls[i].input_sizes = sizes[below(&random, (int64_t)countof(sizes))];
            int lost = below(&random, 3) == 0 ? (int)below(&random, own.count + 1) : 0;
            run_program(&flight, rank, &own, lost, (int)below(&random, program.count));
        }
        flight_diagnose(&flight, &hang);
        if (hang.cause >= HANG_SKIPPED && hang.cause <= HANG_DETAILS)
            print_message("round %d: %s\n", round, hang_cause_name(hang.cause));
        assert_false(hang.cause >= HANG_SKIPPED && hang.cause <= HANG_DETAILS);
        assert_report(&flight, &hang, 80);
        flight_free(&flight);
    }
}

/* Where the changed program differs first. */
static int
first_difference(const struct program *a, const struct program *b)
{
    int at = 0;
    while (at < a->count && at < b->count && looks_alike(&a->calls[at], &b->calls[at]))
        at++;
    return at;
}

static void
one_changed_call_is_named(void **state)
{
    static const enum hang_cause causes[] = { HANG_SKIPPED, HANG_ORDER, HANG_SHAPE, HANG_DTYPE, HANG_ROOT,
                                              HANG_REDUCE_OP };
    uint64_t random = 4;
    int made = 0;
    for (int round = 0; made < 2000; round++) {
        struct program  program = any_program(&random, below(&random, 2) == 0), changed = program;
        enum hang_cause cause   = plant(&random, &changed, causes[below(&random, (int64_t)countof(causes))]);
        if (cause == HANG_NONE)
            continue;
        struct flight flight;
        struct hang   hang;
        int world = 2 + (int)below(&random, 15), at = first_difference(&program, &changed);
        int odd = world == 2 ? 1 : (int)below(&random, world);
        make_flight(&flight, world, "", false);
        for (int rank = 0; rank < world; rank++)
            run_program(&flight, rank, rank == odd ? &changed : &program,
                        below(&random, 3) == 0 ? (int)below(&random, at + 1) : 0, at);
        flight_diagnose(&flight, &hang);
        if (hang.cause != cause || hang.culprit != odd || hang.sequence != at)
            print_message("round %d: %s of rank %d #%d is told as %s of %d #%" PRId64 "\n", round,
                          hang_cause_name(cause), odd, at, hang_cause_name(hang.cause), hang.culprit, hang.sequence);
        assert_int_equal(hang.cause, cause);
        assert_int_equal(hang.culprit, odd);
        assert_int_equal(hang.sequence, at);
        assert_false(hang.extra);
        assert_report(&flight, &hang, 80);
        flight_free(&flight);
        made++;
    }
}

/* One against one: whoever makes the call is right. */
static void
of_two_ranks_the_one_that_left_out_a_call_is_the_odd_one(void **state)
{
    struct flight flight;
    struct hang   hang;
    make_flight(&flight, 2, "0: all_reduce=[[3]]@7- barrier@9+\n"
                            "1: broadcast=[[3]]@6- all_reduce=[[3]]@7+ barrier@9+\n", false);
    flight_diagnose(&flight, &hang);
    assert_int_equal(hang.cause, HANG_SKIPPED);
    assert_int_equal(hang.culprit, 0);
    assert_false(hang.extra);
    flight_free(&flight);
}

/* ---- large worlds ---- */

static double
seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* 64 dumps of 2000 calls each, one of which is changed near the end; and a world of 1024 that waits for one. */
static void
large_worlds_take_no_time(void **state)
{
    struct flight flight;
    struct hang   hang;
    struct str    report = { 0 };
    make_flight(&flight, 64, "", false);
    for (int rank = 0; rank < 64; rank++)
        for (int64_t i = 0; i < 2000; i++)
            call(&flight, rank, (struct flight_entry){ .sequence = i, .operation = i % 5 == 0 ? "reduce" : "all_reduce",
                                                       .input_sizes = rank == 9 && i == 1990 ? "[[4]]" : "[[3]]",
                                                       .state = i < 1990 ? FLIGHT_COMPLETED : FLIGHT_SCHEDULED });
    double begin = seconds();
    flight_diagnose(&flight, &hang);
    hang_print(&flight, &hang, 80, &report);
    assert_true(seconds() - begin < 5);
    assert_int_equal(hang.culprit, 9);
    flight_free(&flight);
    str_free(&report);
    make_flight(&flight, 1024, "0-700: all_reduce=[[3]]@7 all_reduce=[[3]]@9*\n701: all_reduce=[[3]]@7 RUNNING=4@12\n"
                               "702-1023: all_reduce=[[3]]@7 all_reduce=[[3]]@9*\n", true);
    begin = seconds();
    flight_diagnose(&flight, &hang);
    hang_print(&flight, &hang, 80, &report);
    assert_true(seconds() - begin < 5);
    assert_head(&flight, &hang, "ranks 0-700, 702-1023 wait in all_reduce #1 (line 9) for rank 701\n"
                                "cause: stuck outside: rank 701 has been at line 12 for 4.0 s\n", "1024");
    flight_free(&flight);
    str_free(&report);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_flights_are_survived),
        cmocka_unit_test(an_empty_flight_has_nothing_to_tell),
        cmocka_unit_test(equal_programs_never_differ),
        cmocka_unit_test(one_changed_call_is_named),
        cmocka_unit_test(of_two_ranks_the_one_that_left_out_a_call_is_the_odd_one),
        cmocka_unit_test(large_worlds_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

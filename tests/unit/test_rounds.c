/* What analysis/rounds.c makes of an all-reduce's messages: a ring worked out by hand, and that every algorithm ends with
 * every chunk full on every rank. */
#include "ranks_rig.h"

#include "analysis/rounds.h"
#include "analysis/state.h"
#include "base/vec.h"
#include "c10d/local.h"
#include "trace/schema.h"

static const char *algorithm_name;   /* of the run that a body belongs to: set before it, read by its ranks */
static bool        forwards;

static bool
reduce_once(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct collective_options options = { .algorithm = algorithm_name, .ring_forwards = forwards };
    int64_t        count  = (int64_t)ranks->number;
    struct tensor *tensor = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count), me->rank + 1);
    return expect(me, ranks, tensor != NULL && group_all_reduce_now(me, group, tensor, &options), "it is reduced");
}

static struct ranks
run(const char *name, struct ranks ranks)
{
    algorithm_name   = name;
    ranks.body       = reduce_once;
    ranks.free_costs = true;
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    return ranks;
}

static struct rounds *
rounds_as_of(struct ranks *ranks, struct state *state, size_t seq)
{
    assert_true(state_seek(state, seq));
    struct rounds *rounds = rounds_at(ranks->trace, state, seq);
    assert_non_null(rounds);
    return rounds;
}

/* ---- rings by hand: after its k-th message has arrived a rank's newest chunk has k + 1 parts, its own the last ---- */

static void
assert_arrival(const struct rounds *rounds, int ranks, int step)
{
    const struct rounds_message *message = &rounds->messages[rounds->current];
    int sender = message->from, at = (sender + 1) % ranks, chunk = ((sender - step) % ranks + ranks) % ranks;
    assert_true(rounds->here && message->arrived);
    assert_int_equal(message->to, at);
    assert_int_equal(message->column, chunk);
    uint64_t parts = 0;
    for (int back = 0; back <= step + 1 && step < ranks - 1; back++)
        parts |= 1ull << ((at - back + ranks) % ranks);
    struct share share = rounds_share(rounds, at, chunk);
    if (step < ranks - 1) {
        assert_int_equal(share.count, step + 2);
        assert_int_equal(share.ranks, parts);
    } else {
        assert_int_equal(message->column, ((at - 1 - step) % ranks + ranks) % ranks);
    }
}

static void
a_ring_of(int size)
{
    forwards = true;
    struct ranks  ranks = run("ring", (struct ranks){ .size = size, .number = size * 2 });
    struct state *state = state_new(ranks.trace);
    int           arrived[8] = { 0 };
    for (size_t seq = 0; seq < trace_count(ranks.trace); seq++) {
        const struct trace_event *event = trace_event(ranks.trace, seq);
        if (event->kind != KIND_comm_hop || event->phase != PHASE_END)
            continue;
        struct rounds *rounds = rounds_as_of(&ranks, state, seq);
        int            step   = arrived[event->rank]++;
        assert_int_equal(rounds->when, ROUNDS_NOW);
        assert_string_equal(rounds->algorithm, "ring");
        assert_int_equal(rounds->steps, 2 * (size - 1));
        assert_int_equal(rounds->columns, size);
        if (step < size - 1)
            assert_arrival(rounds, size, step);
        else
            assert_int_equal(rounds_share(rounds, event->rank, rounds->messages[rounds->current].column).count, size);
        rounds_free(rounds);
    }
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(arrived[rank], 2 * (size - 1));
    state_free(state);
    ranks_free(&ranks);
    forwards = false;
}

static void
a_ring_of_2_3_4_and_8_has_the_parts_worked_out_by_hand(void **state)
{
    (void)state;
    static const int sizes[] = { 2, 3, 4, 8 };
    for (size_t i = 0; i < countof(sizes); i++)
        a_ring_of(sizes[i]);
}

/* ---- all algorithms ---- */

static size_t
last_of(const struct trace *trace, enum kind kind)
{
    size_t seq = trace_count(trace);
    while (seq-- > 0)
        if (trace_event(trace, seq)->kind == kind)
            return seq;
    return SIZE_MAX;
}

static void
all_is_full(const char *name, struct ranks ranks)
{
    ranks = run(name, ranks);
    struct state  *state  = state_new(ranks.trace);
    size_t         last   = last_of(ranks.trace, KIND_c10d_allreduce);
    struct rounds *rounds = rounds_as_of(&ranks, state, last);
    assert_string_equal(rounds->algorithm, name);
    assert_true(rounds->columns > 0);
    for (int rank = 0; rank < ranks.size; rank++)
        if (!rounds_is_done(rounds, rank))
            fail_msg("%s of %d ranks, %g elements: rank %d lacks a part", name, ranks.size, ranks.number, rank);
    assert_int_equal(rounds->moved, rounds->total);
    rounds_free(rounds);
    state_free(state);
    ranks_free(&ranks);
}

static void
every_algorithm_ends_with_all_chunks_full_on_all_ranks(void **state)
{
    (void)state;
    static const int    worlds[] = { 2, 3, 4, 5, 6, 8, 9, 16 };
    static const double numbers[] = { 1, 13, 64 };
    for (size_t a = 0; algorithm_at(a) != NULL; a++)
        for (size_t w = 0; w < countof(worlds); w++)
            for (size_t n = 0; n < countof(numbers); n++)
                all_is_full(algorithm_at(a)->name, (struct ranks){ .size = worlds[w], .number = numbers[n] });
}

static void
two_levels_and_many_pieces_are_followed_too(void **state)
{
    (void)state;
    const struct topology nodes = { 4, { 5, 100000 }, { 25, 10000 } };
    all_is_full("hierarchical", (struct ranks){ .size = 8, .number = 27, .topology = nodes });
    all_is_full("hierarchical", (struct ranks){ .size = 16, .number = 64, .topology = nodes });
    all_is_full("double_tree", (struct ranks){ .size = 5, .number = 300000 });
    all_is_full("ring", (struct ranks){ .size = 64, .number = 64 });
}

/* ---- between ---- */

/* A part never leaves a chunk, and nothing is full before everybody's part is in it. */
static void
shares_only_grow_until_they_are_full(void **state_)
{
    (void)state_;
    struct ranks  ranks = run("halving_doubling", (struct ranks){ .size = 8, .number = 16 });
    struct state *state = state_new(ranks.trace);
    int64_t       moved = 0;
    size_t        first = 0;
    while (trace_event(ranks.trace, first)->kind != KIND_c10d_allreduce)
        first++;
    for (size_t seq = first; seq <= last_of(ranks.trace, KIND_c10d_allreduce); seq++) {
        const struct trace_event *event = trace_event(ranks.trace, seq);
        if (event->rank < 0 || event->kind == KIND_task_start || event->kind == KIND_task_end)
            continue;
        struct rounds *rounds = rounds_as_of(&ranks, state, seq);
        assert_true(rounds->moved >= moved);
        moved = rounds->moved;
        for (int rank = 0; rank < ranks.size && rounds->shares != NULL; rank++)
            for (int column = 0; column < rounds->columns; column++) {
                struct share share = rounds_share(rounds, rank, column);
                assert_true(share.count >= 1 && share.count <= 8);
                assert_int_equal(share.count, __builtin_popcountll(share.ranks));
            }
        rounds_free(rounds);
    }
    assert_int_equal(moved, 2 * 7 * 64);
    state_free(state);
    ranks_free(&ranks);
}

static void
a_free_run_says_what_it_does_not_know(void **state_)
{
    (void)state_;
    algorithm_name = "ring";
    struct ranks ranks = { .size = 4, .number = 8, .body = reduce_once };
    ranks_run(&ranks, EXECUTOR_FREE);
    assert_no_errors(&ranks);
    struct state  *state  = state_new(ranks.trace);
    struct rounds *rounds = rounds_as_of(&ranks, state, last_of(ranks.trace, KIND_c10d_allreduce));
    assert_string_equal(rounds->algorithm, "");
    assert_int_equal(rounds->columns, 0);
    assert_int_equal(rounds->total, -1);
    rounds_free(rounds);
    state_free(state);
    ranks_free(&ranks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_of_2_3_4_and_8_has_the_parts_worked_out_by_hand),
        cmocka_unit_test(every_algorithm_ends_with_all_chunks_full_on_all_ranks),
        cmocka_unit_test(two_levels_and_many_pieces_are_followed_too),
        cmocka_unit_test(shares_only_grow_until_they_are_full),
        cmocka_unit_test(a_free_run_says_what_it_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

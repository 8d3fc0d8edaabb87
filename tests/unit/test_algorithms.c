/* All-reduce's algorithms: who sends what to whom, how long it takes, and that all give the same sums. */
#include "ranks_rig.h"

#include <math.h>

#include "base/dtype.h"
#include "base/vec.h"
#include "c10d/double_tree.h"
#include "c10d/local.h"

/* ---- hops and bytes ---- */

/* A number of elements that 2 to 9, 16 and 64 ranks, and halves of halves, divide. */
enum { ELEMENTS = 40320 };

static const int worlds[] = { 2, 3, 4, 5, 6, 7, 8, 9, 16, 64 };

struct tally { int64_t hops, bytes, reduced, of_rank[RANKS_MAX]; };

static struct tally
tally_of(const struct ranks *ranks)
{
    struct tally tally = { .hops = 0 };
    for (size_t seq = 0; seq < trace_count(ranks->trace); seq++) {
        const struct trace_event *event = trace_event(ranks->trace, seq);
        if (event->kind != KIND_comm_hop || event->phase != PHASE_BEGIN)
            continue;
        tally.hops++;
        tally.bytes += event->args[1];
        tally.reduced += event->args[3];
        tally.of_rank[event->rank] += event->args[1];
    }
    return tally;
}

static const char *algorithm_name;   /* of the run that a body belongs to: set before it, read by its ranks */

static bool
reduce_named(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct collective_options options = { .algorithm = algorithm_name };
    int64_t        count  = (int64_t)ranks->number;
    struct tensor *tensor = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count), me->rank + 1);
    float         *floats = malloc((size_t)count * sizeof *floats);
    bool           done   = tensor != NULL && group_all_reduce_now(me, group, tensor, &options) &&
                tensor_read(me, tensor, floats);
    for (int64_t i = 0; i < count && done; i++)
        done = floats[i] == (float)(ranks->size * (ranks->size + 1) / 2);
    free(floats);
    return expect(me, ranks, done, "all ranks hold the sum");
}

static struct ranks
run_named(const char *name, struct ranks ranks)
{
    algorithm_name   = name;
    ranks.body       = reduce_named;
    ranks.free_costs = true;
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    return ranks;
}

static int64_t
power_below(int64_t ranks)
{
    int64_t power = 1;
    while (power * 2 <= ranks)
        power *= 2;
    return power;
}

static int64_t
logarithm(int64_t power)
{
    int64_t count = 0;
    while (1 << count < power)
        count++;
    return count;
}

/* What the books say of N ranks and S bytes. */
struct formula { const char *name; int64_t hops, bytes, reduced, most_of_one; };

static struct formula
formula_of(const char *name, int64_t n)
{
    int64_t s = ELEMENTS * 4, p = power_below(n), ring = 2 * n * (n - 1);
    if (strcmp(name, "naive") == 0)
        return (struct formula){ name, 2 * (n - 1), 2 * (n - 1) * s, n - 1, (n - 1) * s };
    if (strcmp(name, "tree") == 0)
        return (struct formula){ name, 2 * (n - 1), 2 * (n - 1) * s, n - 1, logarithm(2 * p == n ? n : (p < n ? 2 * p : p)) * s };
    if (strcmp(name, "double_tree") == 0)
        return (struct formula){ name, 4 * (n - 1), 2 * (n - 1) * s, 2 * (n - 1), n == 2 ? s : n == 3 ? s * 3 / 2 : 2 * s };
    if (strcmp(name, "halving_doubling") == 0)
        return (struct formula){ name, 2 * p * logarithm(p) + 2 * (n - p), (2 * (p - 1) + 2 * (n - p)) * s,
                                 p * logarithm(p) + n - p, 2 * (p - 1) * s / p + (n > p ? s : 0) };
    return (struct formula){ name, ring, 2 * (n - 1) * s, ring / 2, 2 * (n - 1) * s / n };
}

static void
hops_and_bytes_are_those_of_the_books(void **state)
{
    (void)state;
    for (size_t a = 0; algorithm_at(a) != NULL; a++)
        for (size_t w = 0; w < countof(worlds); w++) {
            struct formula want  = formula_of(algorithm_at(a)->name, worlds[w]);
            struct ranks   ranks = run_named(want.name, (struct ranks){ .size = worlds[w], .number = ELEMENTS });
            struct tally   tally = tally_of(&ranks);
            int64_t        most  = 0;
            for (int rank = 0; rank < worlds[w]; rank++)
                most = tally.of_rank[rank] > most ? tally.of_rank[rank] : most;
            if (tally.hops != want.hops || tally.bytes != want.bytes || tally.reduced != want.reduced ||
                most != want.most_of_one)
                print_message("# %s of %d\n", want.name, worlds[w]);
            assert_int_equal(tally.hops, want.hops);
            assert_int_equal(tally.bytes, want.bytes);
            assert_int_equal(tally.reduced, want.reduced);
            assert_int_equal(most, want.most_of_one);
            ranks_free(&ranks);
        }
}

/* g ranks a node, or their greatest common divisor where nodes differ. */
static void
two_levels_send_as_much_as_one(void **state)
{
    (void)state;
    static const int cases[][3] = { { 8, 4, 4 }, { 8, 2, 2 }, { 9, 3, 3 }, { 6, 4, 2 }, { 7, 3, 1 }, { 16, 8, 8 }, { 4, 8, 4 } };
    for (size_t i = 0; i < countof(cases); i++) {
        int n = cases[i][0], g = cases[i][2];
        struct ranks ranks = { .size = n, .number = ELEMENTS,
                               .topology = { cases[i][1], { 5, 100000 }, { 25, 10000 } } };
        ranks = run_named("hierarchical", ranks);
        struct tally tally = tally_of(&ranks);
        assert_int_equal(tally.hops, 2 * n * (g - 1) + 2 * n * (n / g - 1));
        for (int rank = 0; rank < n; rank++)
            assert_int_equal(tally.of_rank[rank], 2 * (n - 1) * ELEMENTS * 4 / n);
        ranks_free(&ranks);
    }
}

/* Half of a ring's hops of a chunk make the way of the sum, the others of the copies. */
static void
each_chunk_of_a_ring_visits_each_position_once(void **state)
{
    (void)state;
    for (size_t w = 0; w < countof(worlds); w++) {
        int          n     = worlds[w];
        struct ranks ranks = run_named("ring", (struct ranks){ .size = n, .number = ELEMENTS });
        for (int reduce = 0; reduce <= 1; reduce++) {
            int *senders = calloc((size_t)(n * n), sizeof *senders), *takers = calloc((size_t)(n * n), sizeof *takers);
            for (size_t seq = 0; seq < trace_count(ranks.trace); seq++) {
                const struct trace_event *event = trace_event(ranks.trace, seq);
                if (event->kind != KIND_comm_hop || event->phase != PHASE_BEGIN || event->args[3] != reduce)
                    continue;
                senders[event->args[0] * n + event->rank]++;
                takers[event->args[0] * n + event->args[2]]++;
                assert_int_equal(event->args[2], (event->rank + n - 1) % n);
            }
            for (int chunk = 0; chunk < n; chunk++)
                for (int rank = 0; rank < n; rank++) {
                    int first = reduce ? (chunk + n - 1) % n : chunk, last = reduce ? chunk : (chunk + 1) % n;
                    assert_int_equal(senders[chunk * n + rank], rank != last);
                    assert_int_equal(takers[chunk * n + rank], rank != first);
                }
            free(senders);
            free(takers);
        }
        ranks_free(&ranks);
    }
}

/* ---- NCCL's trees ---- */

static void
count_children(int tree, int ranks, int children[RANKS_MAX])
{
    int roots = 0;
    for (int rank = 0; rank < ranks; rank++) {
        struct tree_node node = double_tree_node(tree, rank, ranks);
        roots += node.parent < 0;
        children[rank] = 0;
        for (int i = 0; i < 2; i++) {
            if (node.children[i] < 0)
                continue;
            children[rank]++;
            assert_in_range(node.children[i], 0, ranks - 1);
            assert_int_equal(double_tree_node(tree, node.children[i], ranks).parent, rank);
        }
        int up = rank, steps = 0;
        while (double_tree_node(tree, up, ranks).parent >= 0 && steps <= ranks) {
            up = double_tree_node(tree, up, ranks).parent;
            steps++;
        }
        assert_true(1 << steps <= 2 * ranks);
    }
    assert_int_equal(roots, 1);
}

/* Where N is odd rank 0, the first tree's root with its one child, has one in the second, too. */
static void
every_rank_is_a_leaf_in_one_of_the_two_trees(void **state)
{
    (void)state;
    for (int ranks = 2; ranks < 130; ranks++) {
        int children[2][RANKS_MAX];
        for (int tree = 0; tree < 2; tree++)
            count_children(tree, ranks, children[tree]);
        for (int rank = 0; rank < ranks; rank++) {
            bool leaf = children[0][rank] == 0 || children[1][rank] == 0;
            assert_true(leaf || (rank == 0 && ranks % 2 == 1 && children[0][0] == 1 && children[1][0] == 1));
        }
    }
    struct tree_node six = double_tree_node(0, 6, 8), four = double_tree_node(0, 4, 6);
    assert_int_equal(six.parent, 4);
    assert_int_equal(six.children[0], 5);
    assert_int_equal(six.children[1], 7);
    assert_int_equal(four.parent, 0);
    assert_int_equal(four.children[0], 2);
    assert_int_equal(four.children[1], 5);
    assert_int_equal(double_tree_node(1, 1, 8).parent, 3);   /* 6's mirror image */
}

/* ---- times ---- */

static uint64_t
longest_all_reduce(const struct ranks *ranks)
{
    uint64_t longest = 0;
    for (int rank = 0; rank < ranks->size; rank++) {
        char filter[64];
        snprintf(filter, sizeof filter, "c10d.allreduce and rank = %d", rank);
        uint64_t time = duration_of(ranks, filter);
        longest = time > longest ? time : longest;
    }
    return longest;
}

static void
assert_takes(const char *name, struct ranks ranks, double us)
{
    ranks = run_named(name, ranks);
    uint64_t time = longest_all_reduce(&ranks);
    if (time != cost_us(us))
        print_message("# %s of %d: %.6f us, not %.6f\n", name, ranks.size, (double)time * 1e-6, us);
    assert_int_equal(time, cost_us(us));
    ranks_free(&ranks);
}

/* 64 MiB at 10000 bytes a us, or a 64th of both. */
static void
latency_against_bandwidth(void **state)
{
    (void)state;
    const struct ranks small = { .size = 8, .number = 256 }, large = { .size = 8, .number = 262144, .bytes_per_us = 156.25 };
    assert_takes("ring", small, 140.1792);
    assert_takes("tree", small, 60.6144);
    assert_takes("halving_doubling", small, 60.1792);
    assert_takes("double_tree", small, 60.3072);
    assert_takes("auto", small, 60.1792);
    assert_takes("ring", large, 11884.0512);
    assert_takes("tree", large, 40325.3184);
    assert_takes("halving_doubling", large, 11804.0512);
    assert_takes("naive", (struct ranks){ .size = 4, .number = 2500 }, 6 * 11);
    assert_takes("direct", (struct ranks){ .size = 5, .number = 2500 }, 20.4);
}

/* 3 levels up and 3 down: 5 pieces of each half, each a step behind the one before it, in 10 steps. */
static void
a_double_trees_pieces_fill_its_way(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 8, .number = 2 * 5 * 26214, .bytes_per_us = 156.25 };
    assert_takes("double_tree", ranks, 10 * (10 + 26214 * 4 / 156.25));
    ranks = run_named("double_tree", ranks);
    struct tally tally = tally_of(&ranks);
    assert_int_equal(tally.hops, 4 * 7 * 5);
    assert_int_equal(tally.bytes, 2 * 7 * 262140 * 4);
    ranks_free(&ranks);
}

/* Where both trees send over one link, in a round, neither waits for the other for ever. */
static void
its_trees_share_links(void **state)
{
    (void)state;
    for (int size = 2; size < 14; size++) {
        struct ranks ranks = run_named("double_tree", (struct ranks){ .size = size, .number = 300001 });
        ranks_free(&ranks);
        ranks_run(&ranks, EXECUTOR_FREE);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* 100 MB, a node's card 10 GB/s, or as much less of each as makes 100 MB 102400 bytes. */
static void
from_8_to_256(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 8, .number = 25600, .topology = { 8, { 5, 102.4 }, { 25, 10.24 } } };
    assert_takes("ring", ranks, 1820);
    assert_takes("hierarchical", ranks, 1820);
    ranks.size = 256;
    assert_takes("ring", ranks, 32671.875);
    assert_takes("hierarchical", ranks, 22745);
    assert_takes("halving_doubling", ranks, 21405);
    assert_takes("auto", ranks, 21405);
}

/* Four messages leave a node at once: each takes 4 times as long, then the latency. */
static bool
send_away(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 25, 0, 1);
    bool done = me->rank < 4 ? group_send(me, group, tensor, me->rank + 4, 0)
                             : group_recv(me, group, tensor, me->rank - 4, 0);
    return expect(me, ranks, done, "it came");
}

static void
transfers_share_a_nodes_card(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 8, .body = send_away, .free_costs = true, .topology = { 4, { 5, 100 }, { 7, 10 } } };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    for (int rank = 0; rank < 8; rank++) {
        char filter[64];
        snprintf(filter, sizeof filter, "c10d.%s and rank = %d", rank < 4 ? "send" : "recv", rank);
        assert_int_equal(duration_of(&ranks, filter), cost_us(47));
    }
    ranks_free(&ranks);
}

/* ---- results ---- */

struct wanted { enum reduce_op op; enum dtype dtype; int64_t count; };

static double
reduced(enum reduce_op op, int ranks, int64_t i)
{
    double value = 0;
    for (int rank = 0; rank < ranks; rank++) {
        double x = (double)(1 + (rank + i) % 2);
        if (rank == 0)
            value = x;
        else if (op == REDUCE_PRODUCT)
            value *= x;
        else if (op == REDUCE_MIN)
            value = x < value ? x : value;
        else if (op == REDUCE_MAX)
            value = x > value ? x : value;
        else
            value += x;
    }
    return op == REDUCE_PREMUL_SUM ? 2 * value : op == REDUCE_AVG ? value / ranks : value;
}

static void
put_element(enum dtype dtype, void *at, double value)
{
    if (dtype_is_float(dtype))
        dtype_put_fraction(dtype, at, value);
    else
        dtype_put_whole(dtype, at, (int64_t)value);
}

/* A mean, or a factor, of integers is refused. */
static bool
is_there(enum reduce_op op, enum dtype dtype)
{
    return dtype_is_float(dtype) || (op != REDUCE_AVG && op != REDUCE_PREMUL_SUM);
}

static bool
reduces(struct task *me, struct process_group *group, const struct ranks *ranks, const struct wanted *wanted)
{
    struct collective_options options = { .op = wanted->op, .factor = 2, .algorithm = algorithm_name };
    size_t element = dtype_size(wanted->dtype);
    char   in[256 * 8], out[256 * 8], want[8];
    for (int64_t i = 0; i < wanted->count; i++)
        put_element(wanted->dtype, in + (size_t)i * element, (double)(1 + (me->rank + i) % 2));
    struct tensor *tensor = tensor_from(me, wanted->dtype, 1, &wanted->count, in);
    if (tensor == NULL || !group_all_reduce_now(me, group, tensor, &options) || !tensor_read(me, tensor, out))
        return false;
    bool same = true;
    for (int64_t i = 0; i < wanted->count && same; i++) {
        put_element(wanted->dtype, want, reduced(wanted->op, ranks->size, i));
        same = memcmp(want, out + (size_t)i * element, element) == 0;
    }
    return same;
}

static bool
reduce_everything(struct task *me, struct process_group *group, struct ranks *ranks)
{
    static const int64_t       lengths[] = { 0, 1, 7, 64, 250 };
    static const enum dtype    dtypes[]  = { DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16, DTYPE_I64, DTYPE_I32, DTYPE_U8 };
    static const enum reduce_op ops[]    = { REDUCE_SUM, REDUCE_AVG, REDUCE_PRODUCT, REDUCE_MIN, REDUCE_MAX,
                                             REDUCE_PREMUL_SUM };
    for (size_t l = 0; l < countof(lengths); l++)
        for (size_t d = 0; d < countof(dtypes); d++)
            for (size_t o = 0; o < countof(ops); o++) {
                struct wanted wanted = { ops[o], dtypes[d], lengths[l] };
                char what[96];
                snprintf(what, sizeof what, "%s: op %d, %s, %d elements", algorithm_name, (int)ops[o],
                         dtype_name(dtypes[d]), (int)lengths[l]);
                if (is_there(ops[o], dtypes[d]) && !expect(me, ranks, reduces(me, group, ranks, &wanted), what))
                    return false;
            }
    return true;
}

static void
every_algorithm_reduces_everything_in_both_executors(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 2, 3, 5, 6, 8 };
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++)
        for (size_t a = 0; algorithm_at(a) != NULL; a++)
            for (size_t i = 0; i < countof(sizes); i++) {
                struct ranks ranks = { .size = sizes[i], .body = reduce_everything,
                                       .topology = { 3, { 5, 100 }, { 25, 10 } } };
                algorithm_name = algorithm_at(a)->name;
                ranks_run(&ranks, (enum executor_kind)executor);
                assert_no_errors(&ranks);
                ranks_free(&ranks);
            }
}

/* ---- the same bits ---- */

/* Numbers of many sizes, which no two orders add up to the same bits. */
static void
fill_wild(enum dtype dtype, char *data, int64_t count, int rank)
{
    uint64_t state = 88172645463325252U + (uint64_t)rank * 7919;
    for (int64_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        double value = ((double)(state >> 40) / 65536 - 128) * pow(2, (int)(state % 9) - 4);
        put_element(dtype, data + (size_t)i * dtype_size(dtype), value);
    }
}

static bool
same_bits(struct task *me, struct process_group *group, const struct wanted *wanted)
{
    size_t bytes = (size_t)wanted->count * dtype_size(wanted->dtype);
    char  *data  = malloc(3 * bytes);
    bool   done  = data != NULL;
    fill_wild(wanted->dtype, data, wanted->count, me->rank);
    for (int direct = 0; direct <= 1 && done; direct++) {
        struct collective_options options = { .op = wanted->op, .algorithm = direct ? "direct" : "ring" };
        struct tensor *tensor = tensor_from(me, wanted->dtype, 1, &wanted->count, data);
        done = tensor != NULL && group_all_reduce_now(me, group, tensor, &options) &&
               tensor_read(me, tensor, data + (size_t)(1 + direct) * bytes);
    }
    done = done && memcmp(data + bytes, data + 2 * bytes, bytes) == 0;
    free(data);
    return done;
}

static bool
ring_and_direct(struct task *me, struct process_group *group, struct ranks *ranks)
{
    static const int64_t        lengths[] = { 1, 3, 17, 256, 1000, 5003, 40000 };
    static const enum dtype     dtypes[]  = { DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16, DTYPE_I32 };
    static const enum reduce_op ops[]     = { REDUCE_SUM, REDUCE_AVG, REDUCE_PRODUCT, REDUCE_MIN, REDUCE_MAX };
    for (size_t l = 0; l < countof(lengths); l++)
        for (size_t d = 0; d < countof(dtypes); d++)
            for (size_t o = 0; o < countof(ops); o++) {
                struct wanted wanted = { ops[o], dtypes[d], lengths[l] };
                if (is_there(ops[o], dtypes[d]) &&
                    !expect(me, ranks, same_bits(me, group, &wanted), "ring and direct give the same bits"))
                    return false;
            }
    return true;
}

static void
ring_and_direct_agree_to_the_bit(void **state)
{
    (void)state;
    static const int sizes[] = { 2, 3, 4, 7 };
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++)
        for (size_t i = 0; i < countof(sizes); i++) {
            struct ranks ranks = { .size = sizes[i], .body = ring_and_direct };
            ranks_run(&ranks, (enum executor_kind)executor);
            assert_no_errors(&ranks);
            ranks_free(&ranks);
        }
}

/* ---- what the trace tells ---- */

static void
each_hop_tells_the_numbers_that_it_carries(void **state)
{
    (void)state;
    struct ranks ranks = run_named("ring", (struct ranks){ .size = 4, .number = 8 });
    int          told  = 0;
    for (size_t seq = 0; seq < trace_count(ranks.trace); seq++) {
        const struct trace_event *event = trace_event(ranks.trace, seq);
        if (event->kind != KIND_comm_numbers)
            continue;
        struct trace_snapshot numbers;
        float                 floats[2];
        assert_int_equal(event->args[1], 2);
        assert_true(trace_snapshot_at(ranks.trace, event->args[3], &numbers));
        assert_int_equal(numbers.bytes, sizeof floats);
        memcpy(floats, numbers.elements, sizeof floats);
        /* one of the two: rank k's alone, or the sum of all */
        assert_true(floats[0] == floats[1] && floats[0] >= 1 && floats[0] <= 10);
        uint32_t bits;
        memcpy(&bits, floats, sizeof bits);
        uint64_t sum = 4 * (uint64_t)bits;
        assert_int_equal(event->args[2], (sum ^ sum >> 32) & UINT32_MAX);
        told++;
    }
    assert_int_equal(told, 24);
    ranks_free(&ranks);
}

static void
large_worlds_tell_eight_numbers_and_only_if_asked(void **state)
{
    (void)state;
    for (int asked = 0; asked <= 1; asked++) {
        struct ranks ranks = run_named("ring", (struct ranks){ .size = 65, .number = 65 * 32, .trace_hops = asked });
        int          told  = 0, hops = 0;
        for (size_t seq = 0; seq < trace_count(ranks.trace); seq++) {
            const struct trace_event *event = trace_event(ranks.trace, seq);
            struct trace_snapshot     numbers;
            hops += event->kind == KIND_comm_hop && event->phase == PHASE_BEGIN;
            if (event->kind != KIND_comm_numbers)
                continue;
            assert_true(trace_snapshot_at(ranks.trace, event->args[3], &numbers));
            assert_int_equal(numbers.bytes, 8 * sizeof(float));
            told++;
        }
        assert_int_equal(hops, asked ? 2 * 65 * 64 : 0);
        assert_int_equal(told, hops);
        ranks_free(&ranks);
    }
}

/* ---- somebody else's ---- */

static bool
keep_mine(struct task *me, void *context, struct tensor *tensor, enum reduce_op op)
{
    struct ranks *ranks = context;
    return expect(me, ranks, op == REDUCE_SUM && tensor != NULL && strstr(me->name, "comm") != NULL,
                  "it runs on the comm task and is asked for a sum");
}

static bool
reduce_custom(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct custom_algorithm   custom  = { .run = keep_mine, .context = ranks, .name = "mine" };
    struct collective_options options = { .op = REDUCE_AVG, .custom = &custom };
    struct tensor            *tensor  = numbers(me, 4, 12, 0);
    bool done = tensor != NULL && group_all_reduce_now(me, group, tensor, &options);
    return expect(me, ranks, done && holds(me, tensor, 4, 4, 0), "the mean is divided behind it");
}

static void
a_custom_algorithm_runs_inside_the_stage(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 3, .body = reduce_custom };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal(count_events(&ranks, "c10d.allreduce"), 3);
    ranks_free(&ranks);
}

static bool
ask_for_unknown(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct collective_options options = { .algorithm = "star" };
    struct work *work = group_all_reduce(me, group, numbers(me, 4, 0, 0), &options);
    bool told = work == NULL && me->error.kind == E_VALUE;
    for (size_t i = 0; algorithm_at(i) != NULL; i++)
        told = told && strstr(me->error.message, algorithm_at(i)->name) != NULL;
    task_clear_error(me);
    return expect(me, ranks, told, "the message lists what there is");
}

static void
an_unknown_name_is_answered_with_those_that_there_are(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = ask_for_unknown };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hops_and_bytes_are_those_of_the_books),
        cmocka_unit_test(two_levels_send_as_much_as_one),
        cmocka_unit_test(each_chunk_of_a_ring_visits_each_position_once),
        cmocka_unit_test(every_rank_is_a_leaf_in_one_of_the_two_trees),
        cmocka_unit_test(latency_against_bandwidth),
        cmocka_unit_test(a_double_trees_pieces_fill_its_way),
        cmocka_unit_test(its_trees_share_links),
        cmocka_unit_test(from_8_to_256),
        cmocka_unit_test(transfers_share_a_nodes_card),
        cmocka_unit_test(every_algorithm_reduces_everything_in_both_executors),
        cmocka_unit_test(ring_and_direct_agree_to_the_bit),
        cmocka_unit_test(each_hop_tells_the_numbers_that_it_carries),
        cmocka_unit_test(large_worlds_tell_eight_numbers_and_only_if_asked),
        cmocka_unit_test(a_custom_algorithm_runs_inside_the_stage),
        cmocka_unit_test(an_unknown_name_is_answered_with_those_that_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What `auto` goes by: each algorithm's price is the time that it takes, whatever the ranks, their nodes and the bytes. */
#include "ranks_rig.h"

#include <math.h>

#include "base/vec.h"
#include "c10d/internal.h"
#include "c10d/local.h"

enum { ALGORITHMS = 8, SIZES = 3 };

/* One world: the sizes that it sums by each algorithm; all ranks begin each at one moment. */
struct course {
    struct ranks ranks;
    int64_t      sizes[SIZES];
    uint64_t     price[SIZES][ALGORITHMS + 1], took[SIZES][ALGORITHMS + 1][64];   /* the last is auto's */
};

static struct course *course;   /* of the run that a body belongs to */

static bool
is_priced(int a)
{
    return a == ALGORITHMS || (algorithm_at((size_t)a) != NULL && algorithm_at((size_t)a)->has_price);
}

static bool
price_of(struct task *me, struct process_group *group, const struct algorithm *algorithm, int64_t elements, uint64_t *ps)
{
    struct collective call = { .channel = group->communicator->channel, .ranks = group->communicator->size,
                               .bytes = elements * 4, .elements = elements };
    return rehearsal_price(me, &call, algorithm, ps);
}

/* auto's price is the least of the others'. */
static bool
prices_found(struct task *me, struct process_group *group, int size)
{
    uint64_t *price = course->price[size];
    price[ALGORITHMS] = UINT64_MAX;
    for (int a = 0; algorithm_at((size_t)a) != NULL; a++) {
        const struct algorithm *algorithm = algorithm_at((size_t)a);
        if (algorithm->has_price && !price_of(me, group, algorithm, course->sizes[size], &price[a]))
            return false;
        if (algorithm->has_price && price[a] < price[ALGORITHMS])
            price[ALGORITHMS] = price[a];
    }
    return true;
}

static bool
time_one(struct task *me, struct process_group *group, struct tensor *tensor, int size, int a)
{
    const struct algorithm   *algorithm = algorithm_at((size_t)a);
    struct collective_options options = { .algorithm = a < ALGORITHMS ? algorithm->name : "auto" };
    uint64_t                  begin   = (uint64_t)(size * (ALGORITHMS + 1) + a + 1) << 50;
    sched_advance_to(me, begin);
    bool done = group_all_reduce_now(me, group, tensor, &options);
    course->took[size][a][me->rank] = sched_now(me) - begin;
    return done;
}

static bool
time_all(struct task *me, struct process_group *group, struct ranks *ranks)
{
    for (int size = 0; size < SIZES && course->sizes[size] > 0; size++) {
        struct tensor *tensor = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &course->sizes[size]), 0);
        if (!expect(me, ranks, tensor != NULL && (me->rank > 0 || prices_found(me, group, size)), "it has prices"))
            return false;
        for (int a = 0; a <= ALGORITHMS; a++) {
            if (is_priced(a) && !expect(me, ranks, time_one(me, group, tensor, size, a), "it is reduced"))
                return false;
        }
    }
    return true;
}

static void
assert_price(int size, int a)
{
    uint64_t price = course->price[size][a], took = 0;
    for (int rank = 0; rank < course->ranks.size; rank++)
        if (course->took[size][a][rank] > took)
            took = course->took[size][a][rank];
    uint64_t apart = price > took ? price - took : took - price;
    if (apart > 1000)
        fail_msg("%s of %d ranks, %d a node, %d elements: %.4f us, not %.4f",
                 a < ALGORITHMS ? algorithm_at((size_t)a)->name : "auto", course->ranks.size,
                 course->ranks.topology.ranks_per_node, (int)course->sizes[size], (double)took * 1e-6,
                 (double)price * 1e-6);
}

static void
assert_prices(struct course one)
{
    course = &one;
    one.ranks.body       = time_all;
    one.ranks.free_costs = true;
    ranks_run(&one.ranks, EXECUTOR_STEPPED);
    assert_no_errors(&one.ranks);
    for (int size = 0; size < SIZES && one.sizes[size] > 0; size++)
        for (int a = 0; a <= ALGORITHMS; a++)
            if (is_priced(a))
                assert_price(size, a);
    ranks_free(&one.ranks);
}

/* Flat, 8 ranks a node, 3 ranks a node whose own links are the slow ones, each on a node of its own. */
static const struct topology topologies[] = {
    { .ranks_per_node = 0 },
    { 8, { 5, 100000 }, { 25, 10000 } },
    { 3, { 9, 700 }, { 4, 2000 } },
    { 1, { 5, 100 }, { 20, 5000 } },
};

/* One of 1 to `most`. */
static int64_t
drawn(uint64_t *state, int64_t most)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return 1 + (int64_t)(*state >> 33) % most;
}

static void
a_price_is_the_time_that_it_takes_in_all_worlds(void **state)
{
    (void)state;
    uint64_t draw = 28;
    for (int world = 2; world <= 64; world++)
        for (size_t t = 0; t < (world % 4 == 3 ? countof(topologies) : 2); t++)
            assert_prices((struct course){ .ranks = { .size = world, .topology = topologies[t] },
                                           .sizes = { drawn(&draw, 20000), t < 2 ? drawn(&draw, 40) : 0 } });
}

/* The double tree's pieces, and chunks of a ring that no world divides. */
static void
and_of_large_tensors(void **state)
{
    (void)state;
    static const int worlds[] = { 2, 3, 4, 5, 6, 8, 11, 24 };
    uint64_t         draw = 12;
    for (size_t w = 0; w < countof(worlds); w++)
        for (size_t t = 0; t < (worlds[w] < 12 ? countof(topologies) : 2); t++)
            assert_prices((struct course){ .ranks = { .size = worlds[w], .topology = topologies[t] },
                                           .sizes = { 40000 + drawn(&draw, 400000) } });
}

/* ---- too large to be run: 1 GiB by formula ---- */

struct known { const char *name; struct topology topology; int world; double us; };

static const struct known *known;

static bool
price_known(struct task *me, struct process_group *group, struct ranks *ranks)
{
    uint64_t ps = 0;
    for (size_t a = 0; me->rank == 0 && algorithm_at(a) != NULL; a++)
        if (strcmp(algorithm_at(a)->name, known->name) == 0 &&
            !expect(me, ranks, price_of(me, group, algorithm_at(a), 1 << 28, &ps), "it has a price"))
            return false;
    bool near = me->rank > 0 || fabs((double)ps * 1e-6 - known->us) < known->us * 1e-6;
    if (!near)
        print_message("# %s of %d: %.4f us, not %.4f\n", known->name, ranks->size, (double)ps * 1e-6, known->us);
    return expect(me, ranks, near, known->name);
}

static void
and_of_those_too_large_to_be_run_by_formula(void **state)
{
    (void)state;
    const double          gib = 1 << 30, flat = gib / 10000;   /* us */
    const struct topology one = { 0 }, nodes = topologies[1];
    const struct known    all[] = {
        { "ring", one, 64, 126 * (10 + flat / 64) },
        { "tree", one, 64, 12 * (10 + flat) },
        { "halving_doubling", one, 64, 120 + 2 * flat * 63 / 64 },
        { "double_tree", one, 64, 22 * (10 + flat / 22) },
        { "ring", nodes, 32, 62 * (25 + flat / 32) },
        { "hierarchical", nodes, 32, 14 * (5 + flat / 80) + 6 * (25 + flat / 4) },
        { "halving_doubling", nodes, 32, 30 + 2 * flat / 10 * 7 / 8 + 100 + 2 * flat * 3 / 4 },
    };
    for (size_t i = 0; i < countof(all); i++) {
        struct ranks ranks = { .size = all[i].world, .topology = all[i].topology, .body = price_known, .free_costs = true };
        known = &all[i];
        ranks_run(&ranks, EXECUTOR_STEPPED);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_price_is_the_time_that_it_takes_in_all_worlds),
        cmocka_unit_test(and_of_large_tensors),
        cmocka_unit_test(and_of_those_too_large_to_be_run_by_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

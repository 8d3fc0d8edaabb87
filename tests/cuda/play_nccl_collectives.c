/* Values: each of NCCL's operations against plain sums, for worlds of 2, 4 and 8. Numbers are small and whole, so that
 * every type holds every step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/dtype.h"
#include "play_nccl.h"

enum { COUNT = 6, ROOT = 1 };

/* Element i of rank r: from 1 to 4. */
static int
given(int rank, int i)
{
    return 1 + (rank * 3 + i) % 4;
}

static int
folded(enum nccl_reduce op, int ranks, int i)
{
    int total = given(0, i);
    for (int r = 1; r < ranks; r++) {
        int one = given(r, i);
        total = op == NCCL_PRODUCT ? total * one : op == NCCL_MIN ? (one < total ? one : total)
              : op == NCCL_MAX ? (one > total ? one : total) : total + one;
    }
    return total;
}

static void
put(enum dtype dtype, void *elements, int i, double value)
{
    char *at = (char *)elements + (size_t)i * dtype_size(dtype);
    if (dtype_is_float(dtype))
        dtype_put_fraction(dtype, at, value);
    else
        dtype_put_whole(dtype, at, dtype == DTYPE_BOOL ? value != 0 : (int64_t)value);
}

static double
get(enum dtype dtype, const void *elements, int i)
{
    const char *at = (const char *)elements + (size_t)i * dtype_size(dtype);
    return dtype_is_float(dtype) ? dtype_fraction(dtype, at) : (double)dtype_whole(dtype, at);
}

static bool
differs(struct play_rank *rank, const char *what, int i, double is, double should)
{
    rank->why.trouble = TROUBLE_FAILED;
    snprintf(rank->why.text, sizeof rank->why.text, "%s: element %d is %g and should be %g", what, i, is, should);
    return false;
}

/* This rank's elements on its GPU: COUNT times `pieces`. */
static void *
fill(struct play_rank *rank, enum dtype dtype, int pieces)
{
    _Alignas(8) unsigned char host[8 * COUNT * PLAY_RANKS];
    size_t        bytes  = dtype_size(dtype) * COUNT * (size_t)pieces;
    void         *memory = play_memory(rank, bytes);
    for (int i = 0; i < COUNT * pieces; i++)
        put(dtype, host, i, given(rank->rank, i));
    return memory != NULL && play_copy(rank, memory, host, bytes, false) ? memory : NULL;
}

/* Gives back the last pieces of memory. */
static void
forget(struct play_rank *rank, int pieces)
{
    extern const struct device_backend ringside_device_backend_1;
    for (int i = 0; i < pieces; i++) {
        rank->memory_count--;
        ringside_device_backend_1.segment_give(rank->device, rank->memory[rank->memory_count].at,
                                               rank->memory[rank->memory_count].bytes);
    }
}

/* ---- all_reduce ---- */

static double
wanted(const struct nccl_launch *launch, int ranks, int i)
{
    double sum = folded(launch->reduce, ranks, i);
    if (launch->reduce == NCCL_AVG)
        return sum / ranks;
    return launch->reduce == NCCL_PREMUL_SUM ? sum * 2 : sum;
}

/* In truths some is any, all is every: given are ones and zeros. */
static double
wanted_truth(enum nccl_reduce op, int ranks, int i)
{
    bool some = false, all = true;
    for (int r = 0; r < ranks; r++) {
        bool one = given(r, i) % 2 == 0;
        some = some || one;
        all  = all && one;
    }
    return op == NCCL_SUM || op == NCCL_MAX ? some : all;
}

static bool
reduce_once(struct play_rank *rank, enum dtype dtype, enum nccl_reduce reduce)
{
    _Alignas(8) unsigned char host[8 * COUNT];
    int                 ranks = rank->world->ranks;
    void               *at    = fill(rank, dtype, 1);
    struct nccl_operation one = { NCCL_ALL_REDUCE, at, at, COUNT, 0 };
    struct nccl_launch  launch = { &one, 1, (enum nccl_dtype)dtype, reduce, 0 };
    put(dtype, &launch.factor, 0, 2);
    for (int i = 0; dtype == DTYPE_BOOL && i < COUNT; i++)
        host[i] = given(rank->rank, i) % 2 == 0;
    if (at == NULL || (dtype == DTYPE_BOOL && !play_copy(rank, at, host, COUNT, false)) ||
        !play_launch(rank, &launch) ||
        !play_copy(rank, host, at, dtype_size(dtype) * COUNT, true))
        return false;
    for (int i = 0; i < COUNT; i++) {
        double is = get(dtype, host, i);
        double should = dtype == DTYPE_BOOL ? wanted_truth(reduce, ranks, i) : wanted(&launch, ranks, i);
        _Alignas(8) unsigned char rounded[8];
        put(dtype, rounded, 0, should);     /* whole numbers wrap around */
        if (is != get(dtype, rounded, 0))
            return differs(rank, dtype_name(dtype), i, is, should);
    }
    forget(rank, 1);
    return true;
}

static bool
all_reduce(struct play_rank *rank)
{
    if (!play_join(rank) || play_await(rank) != NCCL_READY)
        return false;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int reduce = NCCL_SUM; reduce <= NCCL_PREMUL_SUM; reduce++) {
            bool fraction = dtype_is_float((enum dtype)dtype);
            if (reduce == NCCL_PREMUL_SUM || reduce == NCCL_AVG ? !fraction : false)
                continue;
            if (reduce == NCCL_PRODUCT && (dtype == DTYPE_F16 || dtype == DTYPE_BF16))
                continue;       /* rounds on the way */
            if (!reduce_once(rank, (enum dtype)dtype, (enum nccl_reduce)reduce))
                return false;
        }
    play_leave(rank, false);
    return true;
}

/* ---- the others ---- */

struct told { struct nccl_operation operation; size_t elements; double (*should)(int rank, int ranks, int i); };

static double
roots(int rank, int ranks, int i)
{
    (void)rank;
    (void)ranks;
    return given(ROOT, i);
}

static double
sums_at_root(int rank, int ranks, int i)
{
    return rank == ROOT ? folded(NCCL_SUM, ranks, i) : given(rank, i);
}

static double
all_of_all(int rank, int ranks, int i)
{
    (void)rank;
    (void)ranks;
    return given(i / COUNT, i % COUNT);
}

static double
my_piece(int rank, int ranks, int i)
{
    return folded(NCCL_SUM, ranks, rank * COUNT + i);
}

static bool
compare(struct play_rank *rank, const void *at, const struct told *told)
{
    float host[COUNT * PLAY_RANKS];
    if (!play_copy(rank, host, at, told->elements * sizeof *host, true))
        return false;
    for (size_t i = 0; i < told->elements; i++) {
        double should = told->should(rank->rank, rank->world->ranks, (int)i);
        if (host[i] != (float)should)
            return differs(rank, "float32", (int)i, host[i], should);
    }
    return true;
}

static bool
one_of_each(struct play_rank *rank)
{
    int ranks = rank->world->ranks;
    const struct told all[] = {
        { { NCCL_BROADCAST, NULL, NULL, COUNT, ROOT }, COUNT, roots },
        { { NCCL_REDUCE, NULL, NULL, COUNT, ROOT }, COUNT, sums_at_root },
        { { NCCL_ALL_GATHER, NULL, NULL, COUNT, 0 }, (size_t)(COUNT * ranks), all_of_all },
        { { NCCL_REDUCE_SCATTER, NULL, NULL, COUNT, 0 }, COUNT, my_piece },
    };
    if (!play_join(rank) || play_await(rank) != NCCL_READY)
        return false;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct nccl_operation one = all[k].operation;
        bool   in_place = one.kind == NCCL_BROADCAST || one.kind == NCCL_REDUCE;
        void  *from = fill(rank, DTYPE_F32, one.kind == NCCL_REDUCE_SCATTER ? ranks : 1);
        void  *to   = in_place ? from : play_memory(rank, all[k].elements * sizeof(float));
        one.send = from;
        one.recv = to;
        if (from == NULL || to == NULL || !play_launch(rank, &(struct nccl_launch){ &one, 1, NCCL_F32, NCCL_SUM, 0 }) ||
            !compare(rank, to, &all[k]))
            return false;
        forget(rank, in_place ? 1 : 2);
    }
    play_leave(rank, false);
    return true;
}

static double
swapped(int rank, int ranks, int i)
{
    (void)ranks;
    return given(i / COUNT, rank * COUNT + i % COUNT);
}

/* All sends and receives in one group, to oneself as well. */
static bool
all_to_all(struct play_rank *rank)
{
    struct nccl_operation operations[2 * PLAY_RANKS];
    int                   ranks = rank->world->ranks;
    char *from = fill(rank, DTYPE_F32, ranks), *to = play_memory(rank, sizeof(float) * COUNT * (size_t)ranks);
    size_t piece = sizeof(float) * COUNT;
    if (from == NULL || to == NULL || !play_join(rank) || play_await(rank) != NCCL_READY)
        return false;
    for (int i = 0; i < ranks; i++) {
        operations[2 * i]     = (struct nccl_operation){ NCCL_SEND, from + piece * (size_t)i, NULL, COUNT, i };
        operations[2 * i + 1] = (struct nccl_operation){ NCCL_RECV, NULL, to + piece * (size_t)i, COUNT, i };
    }
    bool done = play_launch(rank, &(struct nccl_launch){ operations, 2 * ranks, NCCL_F32, NCCL_SUM, 0 }) &&
                compare(rank, to, &(struct told){ .elements = (size_t)(COUNT * ranks), .should = swapped });
    play_leave(rank, false);
    return done;
}

/* The last rank comes when all others have looked in vain. */
static bool
barrier(struct play_rank *rank)
{
    const struct nccl_operation one    = { .kind = NCCL_BARRIER };
    const struct nccl_launch    launch = { .operations = &one, .count = 1 };
    bool                        last   = rank->rank == rank->world->ranks - 1;
    if (!play_join(rank) || play_await(rank) != NCCL_READY)
        return false;
    bool begun = last || ringside_nccl_1.launch(rank->comm, &launch, &rank->why);
    bool waits = begun && (last || play_is_busy(rank, 100));
    play_meet(rank);
    bool done = waits && (!last || ringside_nccl_1.launch(rank->comm, &launch, &rank->why)) &&
        play_await(rank) == NCCL_READY;
    play_leave(rank, false);
    return done;
}

/* Ring neighbours: a send and a receive that are not one group would wait for each other. */
static bool
neighbours(struct play_rank *rank)
{
    int    ranks = rank->world->ranks, next = (rank->rank + 1) % ranks, before = (rank->rank + ranks - 1) % ranks;
    float  host[COUNT];
    void  *from = fill(rank, DTYPE_F32, 1), *to = play_memory(rank, sizeof host);
    const struct nccl_operation both[] = { { NCCL_SEND, from, NULL, COUNT, next }, { NCCL_RECV, NULL, to, COUNT,
                                                                                    before } };
    if (from == NULL || to == NULL || !play_join(rank) || play_await(rank) != NCCL_READY ||
        !play_launch(rank, &(struct nccl_launch){ both, 2, NCCL_F32, NCCL_SUM, 0 }) ||
        !play_copy(rank, host, to, sizeof host, true))
        return false;
    for (int i = 0; i < COUNT; i++)
        if (host[i] != (float)given(before, i))
            return differs(rank, "received", i, host[i], given(before, i));
    play_leave(rank, false);
    return true;
}

void
play_collectives(void)
{
    static const int worlds[] = { 2, 4, 8 };
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        play_ranks(worlds[i], "all_reduce folds every dtype with every op", all_reduce);
        play_ranks(worlds[i], "broadcast, reduce, all_gather and reduce_scatter bring plain sums", one_of_each);
        play_ranks(worlds[i], "sends and receives of one group swap all pieces, one's own as well", all_to_all);
        play_ranks(worlds[i], "neighbours send and receive at once", neighbours);
        play_ranks(worlds[i], "nobody leaves a barrier before the last has come", barrier);
    }
}

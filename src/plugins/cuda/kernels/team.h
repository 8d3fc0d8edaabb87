/* Threads of a block that work out rows together, a team for each row: as many threads as the row is wide, 16 to all
 * of them. A team's sums have the CPU's order: so many lanes, each adding its elements from the first to the last,
 * then the lanes by halves. What is added is worked out by all threads; only the adding waits.
 *
 *     for (struct teams at = teams_first(rows, count); teams_more(at); teams_next(at)) {
 *         float sum = team_sum<float, 16>(at, count, [&](int64_t i) { return x[i]; });
 *         for (int64_t i = at.member; at.works && i < count; i += at.size) ...
 *     }
 *
 * All threads of the block come to every one of these calls. In PyTorch: ATen/native/cuda/PersistentSoftmax.cuh,
 * layer_norm_kernel.cu (whose orders of sums differ). */
#ifndef CUDA_KERNELS_TEAM_H
#define CUDA_KERNELS_TEAM_H
#include <math.h>
#include "plugins/cuda/kernels/device.h"

enum { TEAM_LEAST = 16 };

struct teams {
    int64_t  rows, row;     /* the team's row; `works`: there is one */
    int64_t  first, step;   /* the block's first row of this turn; from turn to turn */
    unsigned size, member;  /* threads of a team, and which of them this one is */
    bool     works;
};

ON_DEVICE struct teams
teams_first(int64_t rows, int64_t count)
{
    struct teams at = {};
    at.size = TEAM_LEAST;
    while (at.size < BLOCK_THREADS && at.size < count)
        at.size *= 2;
    at.rows   = rows;
    at.member = thread_index() % at.size;
    at.first  = (int64_t)block_index() * (BLOCK_THREADS / at.size);
    at.step   = (int64_t)block_count() * (BLOCK_THREADS / at.size);
    at.row    = at.first + thread_index() / at.size;
    at.works  = at.row < rows;
    return at;
}

ON_DEVICE bool
teams_more(const struct teams &at)
{
    return at.first < at.rows;
}

ON_DEVICE void
teams_next(struct teams &at)
{
    at.first += at.step;
    at.row += at.step;
    at.works = at.row < at.rows;
}

/* `lane`: what this thread's lane has come to; answers the sum of all, to every thread of the team. */
template <typename A, int LANES> ON_DEVICE A
team_halves(const struct teams &at, A lane, A *tile)
{
    unsigned t = thread_index();
    if (at.member < LANES)
        tile[t] = lane;
    block_barrier();
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        if (at.member < half)
            tile[t] += tile[t + half];
        block_barrier();
    }
    A total = tile[t - at.member];
    block_barrier();
    return total;
}

/* The sum of value(i), i from 0 to count. */
template <typename A, int LANES, typename Value> ON_DEVICE A
team_sum(const struct teams &at, int64_t count, Value value)
{
    static_assert(LANES <= TEAM_LEAST, "a thread for each lane");
    SHARED A tile[BLOCK_THREADS];
    unsigned t = thread_index();
    A        lane = 0;
    for (int64_t i = 0; i < count; i += at.size) {
        if (at.works && i + at.member < count)
            tile[t] = value(i + at.member);
        block_barrier();
        if (at.works && at.member < LANES) {
            unsigned here = count - i < at.size ? (unsigned)(count - i) : at.size;
            for (unsigned j = at.member; j < here; j += LANES)
                lane += tile[t - at.member + j];
        }
        block_barrier();
    }
    return team_halves<A, LANES>(at, lane, tile);
}

/* The largest value(i), -infinity of none. Comparing has no order but where there is NaN, which is never larger. */
template <typename T, typename Value> ON_DEVICE T
team_largest(const struct teams &at, int64_t count, Value value)
{
    SHARED T tile[BLOCK_THREADS];
    unsigned t = thread_index();
    T        most = -INFINITY;
    for (int64_t i = at.member; at.works && i < count; i += at.size) {
        T here = value(i);
        most = here > most ? here : most;
    }
    tile[t] = most;
    block_barrier();
    for (unsigned half = at.size / 2; half > 0; half /= 2) {
        if (at.member < half)
            tile[t] = tile[t + half] > tile[t] ? tile[t + half] : tile[t];
        block_barrier();
    }
    most = tile[t - at.member];
    block_barrier();
    return most;
}
#endif

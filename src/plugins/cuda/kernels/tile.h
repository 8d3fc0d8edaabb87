/* Sums of products by tiles, for whatever can be said as such: matrix products, convolutions, their gradients. A block
 * works out a tile of the result, each thread some of its elements; the factors come through shared memory, and while
 * they are multiplied the next ones are on their way. An element is the sum over k in order by one thread, products and
 * sums rounded apart, as on the CPU: the tile's shape changes no bit.
 *
 * A problem is a struct with
 *     element                       float, double or uint64_t (integers wrap around)
 *     batch, rows, columns          results; enter(at): from now on it is about number `at` of the batch
 *     segments, depth               sums of `depth` products each; the element is the sum of them in order
 *     SEGMENTED                     false: there is one, which is the element
 *     left(s, i, k), right(s, k, j) the factors
 *     left_by_k, right_by_k         neighbours in k are neighbours in memory (else those in i, j)
 *     first(i, j)                   where a sum begins
 *     counts(s, i, j)               false: this segment adds nothing here
 *     store(i, j, sum)
 * work_out(problem) does it, with any number of blocks. Uses of it stand in functions that are APART: one text of each
 * type's tiles for all kernels of a file. Such a kernel is TILES_OF(symbol, params): a KERNEL_OF that leaves registers
 * for a second block beside it, which works while the first waits for memory.
 *
 * In cuBLAS and CUTLASS: a GEMM with a threadblock tile. */
#ifndef CUDA_KERNELS_TILE_H
#define CUDA_KERNELS_TILE_H
#include "plugins/cuda/kernels/device.h"

#ifdef __CUDACC__
#define TILES_OF(symbol, params)                                                                                   \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) gpu_##symbol(const __grid_constant__ params call)
#define MEMBER __device__
#define APART static __device__ __noinline__
#define UNROLLED _Pragma("unroll 4")     /* whole loops take too many registers */
#else
#define TILES_OF KERNEL_OF
#define MEMBER
#define APART static
#define UNROLLED
#endif

/* BESIDE: keeps neighbouring k in other banks of shared memory, and groups of four elements aligned to 16 bytes. */
enum { TILE_BESIDE = 4, TILE_ROOM = 32 * 2 * (16 + TILE_BESIDE), TILES_MANY = 96, TILE_NARROW = 4 };

ON_DEVICE void *
tile_room(void)
{
    alignas(16) SHARED double room[TILE_ROOM];
    return room;
}

/* I by J elements, DEEP products of each between two barriers; a thread has RI by RJ of them. */
template <int I_, int J_, int RI_, int RJ_, int DEEP_> struct tile_shape {
    enum { I = I_, J = J_, RI = RI_, RJ = RJ_, DEEP = DEEP_, ACROSS = J_ / RJ_, I_STEP = I_ + TILE_BESIDE,
           J_STEP = J_ + TILE_BESIDE, LEFTS = (I_ * DEEP_ + BLOCK_THREADS - 1) / BLOCK_THREADS,
           RIGHTS = (J_ * DEEP_ + BLOCK_THREADS - 1) / BLOCK_THREADS };
    static_assert(I_ / RI_ * (J_ / RJ_) == BLOCK_THREADS, "every thread has its elements");
};

/* RJ neighbours, which are read at once. */
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) tile_group { T x[N]; };

/* Where a block is: the tile's corner, and the next factors' segment and k. */
struct tile_at { int64_t i, j, s, k; };

template <typename S> ON_DEVICE int64_t
tiles_of(int64_t rows, int64_t columns)
{
    return (rows + S::I - 1) / S::I * ((columns + S::J - 1) / S::J);
}

/* This thread's share of the factors at `at`, 0 beyond the edges. */
template <typename P, typename S> ON_DEVICE void
tile_fetch(const P &p, const tile_at &at, typename P::element *left, typename P::element *right)
{
    for (int n = 0; n < S::LEFTS; n++) {
        const int     e = (int)thread_index() + n * BLOCK_THREADS;
        const int64_t i = at.i + (p.left_by_k ? e / S::DEEP : e % S::I);
        const int64_t k = at.k + (p.left_by_k ? e % S::DEEP : e / S::I);
        left[n] = e < S::I * S::DEEP && i < p.rows && k < p.depth ? p.left(at.s, i, k) : 0;
    }
    for (int n = 0; n < S::RIGHTS; n++) {
        const int     e = (int)thread_index() + n * BLOCK_THREADS;
        const int64_t j = at.j + (p.right_by_k ? e / S::DEEP : e % S::J);
        const int64_t k = at.k + (p.right_by_k ? e % S::DEEP : e / S::J);
        right[n] = e < S::J * S::DEEP && j < p.columns && k < p.depth ? p.right(at.s, k, j) : 0;
    }
}

template <typename P, typename S> ON_DEVICE void
tile_put(const P &p, typename P::element *room, const typename P::element *left, const typename P::element *right)
{
    for (int n = 0; n < S::LEFTS; n++) {
        const int e = (int)thread_index() + n * BLOCK_THREADS;
        if (e < S::I * S::DEEP)
            room[(p.left_by_k ? e % S::DEEP * S::I_STEP + e / S::DEEP : e / S::I * S::I_STEP + e % S::I)] = left[n];
    }
    room += S::DEEP * S::I_STEP;
    for (int n = 0; n < S::RIGHTS; n++) {
        const int e = (int)thread_index() + n * BLOCK_THREADS;
        if (e < S::J * S::DEEP)
            room[(p.right_by_k ? e % S::DEEP * S::J_STEP + e / S::DEEP : e / S::J * S::J_STEP + e % S::J)] = right[n];
    }
}

/* `count` products are added to each of the thread's sums. */
template <typename T, typename S> ON_DEVICE void
tile_multiply(const T *room, int count, T (&sum)[S::RI][S::RJ])
{
    typedef tile_group<T, S::RI> lefts;
    typedef tile_group<T, S::RJ> rights;
    const T *left = room + thread_index() / S::ACROSS * S::RI;
    const T *right = room + S::DEEP * S::I_STEP + thread_index() % S::ACROSS * S::RJ;
    UNROLLED
    for (int k = 0; k < count; k++) {
        const lefts  a = *reinterpret_cast<const lefts *>(left + k * S::I_STEP);
        const rights b = *reinterpret_cast<const rights *>(right + k * S::J_STEP);
        for (int i = 0; i < S::RI; i++)
            for (int j = 0; j < S::RJ; j++)
                sum[i][j] += a.x[i] * b.x[j];
    }
}

template <typename P, typename S> ON_DEVICE bool
tile_has(const P &p, const tile_at &at, int i, int j)
{
    return at.i + i < p.rows && at.j + j < p.columns;
}

/* The segment's sums go into the element's, and begin anew. */
template <typename P, typename S> ON_DEVICE void
tile_end_segment(const P &p, const tile_at &at, typename P::element (&sum)[S::RI][S::RJ],
                 typename P::element (&total)[S::RI][S::RJ])
{
    const int i0 = (int)thread_index() / S::ACROSS * S::RI, j0 = (int)thread_index() % S::ACROSS * S::RJ;
    for (int i = 0; i < S::RI; i++) {
        for (int j = 0; j < S::RJ; j++) {
            if (tile_has<P, S>(p, at, i0 + i, j0 + j) && p.counts(at.s, at.i + i0 + i, at.j + j0 + j))
                total[i][j] += sum[i][j];
            sum[i][j] = 0;
        }
    }
}

/* All steps of one tile whose sums have begun. */
template <typename P, typename S> ON_DEVICE void
tile_sum(const P &p, tile_at at, typename P::element (&sum)[S::RI][S::RJ],
         typename P::element (&total)[S::RI][S::RJ])
{
    typedef typename P::element T;
    static_assert(S::DEEP * (S::I_STEP + S::J_STEP) * sizeof(T) <= TILE_ROOM * sizeof(double), "the factors fit");
    T *room = static_cast<T *>(tile_room()), left[S::LEFTS], right[S::RIGHTS];
    if (p.depth == 0 || p.segments == 0)
        return;
    tile_fetch<P, S>(p, at, left, right);
    while (at.s < p.segments) {
        block_barrier();                /* nobody reads the factors before any more */
        tile_put<P, S>(p, room, left, right);
        block_barrier();
        tile_at   next = at;
        const int count = p.depth - at.k < S::DEEP ? (int)(p.depth - at.k) : (int)S::DEEP;
        next.k += S::DEEP;
        if (next.k >= p.depth)
            next.k = 0, next.s++;
        if (next.s < p.segments)
            tile_fetch<P, S>(p, next, left, right);
        tile_multiply<T, S>(room, count, sum);
        if (P::SEGMENTED && next.k == 0)
            tile_end_segment<P, S>(p, at, sum, total);
        at = next;
    }
}

template <typename P, typename S> ON_DEVICE void
tile_work(const P &problem)
{
    const int64_t across = (problem.columns + S::J - 1) / S::J, each = tiles_of<S>(problem.rows, problem.columns);
    const int     i0 = (int)thread_index() / S::ACROSS * S::RI, j0 = (int)thread_index() % S::ACROSS * S::RJ;
    for (int64_t tile = block_index(); tile < problem.batch * each; tile += block_count()) {
        typename P::element sum[S::RI][S::RJ], total[S::RI][S::RJ];
        P                   p = problem;
        const int64_t       in_plane = tile % each;
        const tile_at       at = { in_plane / across * S::I, in_plane % across * S::J, 0, 0 };
        p.enter(tile / each);
        for (int i = 0; i < S::RI; i++) {
            for (int j = 0; j < S::RJ; j++) {
                total[i][j] = 0;
                sum[i][j] = tile_has<P, S>(p, at, i0 + i, j0 + j) ? p.first(at.i + i0 + i, at.j + j0 + j) : 0;
            }
        }
        tile_sum<P, S>(p, at, sum, total);
        for (int i = 0; i < S::RI; i++)
            for (int j = 0; j < S::RJ; j++)
                if (tile_has<P, S>(p, at, i0 + i, j0 + j))
                    p.store(at.i + i0 + i, at.j + j0 + j, P::SEGMENTED ? total[i][j] : sum[i][j]);
    }
}

/* For what need not be quick. */
template <typename P> ON_DEVICE void
work_out_plainly(const P &p)
{
    tile_work<P, tile_shape<16, 16, 1, 1, 32>>(p);
}

template <typename P> ON_DEVICE void
work_out_narrow(const P &p)
{
    if (p.columns <= TILE_NARROW)
        tile_work<P, tile_shape<64, TILE_NARROW, 1, 1, 16>>(p);
    else if (p.rows <= TILE_NARROW)
        tile_work<P, tile_shape<TILE_NARROW, 64, 1, 1, 16>>(p);
    else
        work_out_plainly(p);
}

/* Large tiles read less, but only where there are enough of them for all multiprocessors. */
template <typename P> ON_DEVICE void
work_out(const P &p)
{
    typedef tile_shape<64, 64, 4, 4, 16> large;
    if (p.rows > 32 && p.columns > 32 && p.batch * tiles_of<large>(p.rows, p.columns) >= TILES_MANY)
        tile_work<P, large>(p);
    else
        work_out_narrow(p);
}
#endif

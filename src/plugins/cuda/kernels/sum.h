/* Sums in the CPU's order (tensor/cpu/loop.c): a chunk of 256 in sixteen lanes and a tree over them, chunks pairwise
 * by the bits of their count. Sixteen threads work out a chunk. 64 chunks from a multiple of 64 on are a whole
 * subtree, which a warp adds; the subtrees go into the counter as single chunks do, six levels higher.
 *
 * A source says where chunk c is (`place`: count, and what it needs itself) and what its element i is (`value`); where
 * that is not more than to load it (`is_quick`), all loads of a lane are on their way at once.
 *
 * Interface: few_chunks, sum_by_block, sum_pieces and sum_of_pieces. In PyTorch: ATen/native/cuda/Reduce.cuh. */
#ifndef CUDA_KERNELS_SUM_H
#define CUDA_KERNELS_SUM_H
#include "plugins/cuda/kernels/source.h"

enum { LANES = 16, GROUPS = BLOCK_THREADS / LANES, SUM_LEVELS = 64, PIECE_LEVEL = 6 };

/* tensor/cpu/loop.h's running_sum. */
template <typename T> struct counter { T level[SUM_LEVELS]; uint64_t chunks; };

/* The sum of 2^level chunks more; all before were at least as many. */
template <typename T> ON_DEVICE void
counter_add(struct counter<T> *counter, T value, int level)
{
    int at = level;
    ROLLED for (uint64_t bits = counter->chunks >> level; bits & 1; bits >>= 1, at++)
        value = counter->level[at] + value;
    counter->level[at] = value;
    counter->chunks += (uint64_t)1 << level;
}

template <typename T> ON_DEVICE T
counter_total(const struct counter<T> *counter)
{
    T   total = 0;
    int at = 0;
    ROLLED for (uint64_t bits = counter->chunks; bits != 0; bits >>= 1, at++)
        if (bits & 1)
            total = counter->level[at] + total;
    return total;
}

/* By the sixteen threads of a group; the first one's answer counts. All threads of a warp come by. */
template <typename T, typename source> ON_DEVICE T
chunk_sum(const source *from, int64_t chunk, bool is_there)
{
    int lane = (int)thread_index() % LANES;
    T   sum = 0;
    if (is_there) {
        struct chunk_place place = from->place(chunk);
        if (place.count == CHUNK && from->is_quick())
            for (int k = 0; k < CHUNK / LANES; k++)
                sum += from->quick_value(place, lane + k * LANES);
        else
            ROLLED for (int i = lane; i < place.count; i += LANES)
                sum += from->value(place, i);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        sum = sum + lane_down(sum, (unsigned)half);
    return sum;
}

/* A whole subtree of PIECE values, by the first warp; its first lane's answer counts. */
template <typename T> ON_DEVICE T
subtree(const T *part)
{
    unsigned lane = thread_index() % WARP;
    T        sum = part[2 * lane] + part[2 * lane + 1];
    for (unsigned by = 1; by < WARP; by *= 2)
        sum = sum + lane_down(sum, by);
    return sum;
}

/* What a block needs. part: twice, so that one is written while the other is read. */
template <typename T> struct sum_room { T part[2][PIECE]; struct counter<T> counter; };

/* The chunks from `first` on, at most PIECE of them, into part. */
template <typename T, typename source> ON_DEVICE void
fill_part(const source *from, int64_t first, int64_t chunks, T *part)
{
    int group = (int)thread_index() / LANES;
    ROLLED for (int k = 0; k < PIECE; k += GROUPS) {
        T sum = chunk_sum<T>(from, first + k + group, first + k + group < chunks);
        if (thread_index() % LANES == 0)
            part[k + group] = sum;
    }
}

/* All chunks of a source by one block; the first thread's answer counts. */
template <typename T, typename source> ON_DEVICE T
sum_by_block(const source *from, int64_t chunks, struct sum_room<T> *room)
{
    T *part = room->part[0], *other = room->part[1], *swap;
    if (thread_index() == 0)
        room->counter.chunks = 0;
    ROLLED for (int64_t first = 0; first < chunks; first += PIECE) {
        fill_part<T>(from, first, chunks, part);
        block_barrier();
        if (chunks - first >= PIECE && thread_index() < WARP) {
            T sum = subtree<T>(part);
            if (thread_index() == 0)
                counter_add<T>(&room->counter, sum, PIECE_LEVEL);
        }
        ROLLED for (int64_t c = first; chunks - first < PIECE && c < chunks && thread_index() == 0; c++)
            counter_add<T>(&room->counter, part[c - first], 0);
        swap  = part;
        part  = other;
        other = swap;
    }
    T total = thread_index() == 0 ? counter_total<T>(&room->counter) : 0;
    block_barrier();   /* who comes next writes part again */
    return total;
}

/* ---- one sum by all blocks: first every piece, whole ones as one number, of the last one each chunk ---- */

template <typename T, typename source> ON_DEVICE void
sum_pieces(const source *from, int64_t chunks, T *pieces, struct sum_room<T> *room)
{
    const int64_t whole = chunks / PIECE, all = (chunks + PIECE - 1) / PIECE;
    T            *part = room->part[0], *other = room->part[1], *swap;
    ROLLED for (int64_t p = block_index(); p < all; p += block_count()) {
        fill_part<T>(from, p * PIECE, chunks, part);
        block_barrier();
        if (p < whole && thread_index() < WARP) {
            T sum = subtree<T>(part);
            if (thread_index() == 0)
                pieces[p] = sum;
        }
        if (p == whole && thread_index() < PIECE && whole * PIECE + thread_index() < chunks)
            pieces[whole + thread_index()] = part[thread_index()];
        swap  = part;
        part  = other;
        other = swap;
    }
}

/* Then one warp adds them; the first thread's answer counts. */
template <typename T> ON_DEVICE T
sum_of_pieces(const T *pieces, int64_t chunks, struct counter<T> *counter)
{
    const int64_t whole = chunks / PIECE, trees = whole / PIECE * PIECE;
    const bool    first = thread_index() == 0;
    if (first)
        counter->chunks = 0;
    ROLLED for (int64_t p = 0; p < trees; p += PIECE) {
        T sum = subtree<T>(pieces + p);
        if (first)
            counter_add<T>(counter, sum, 2 * PIECE_LEVEL);
    }
    ROLLED for (int64_t p = trees; first && p < whole; p++)
        counter_add<T>(counter, pieces[p], PIECE_LEVEL);
    ROLLED for (int64_t c = whole * PIECE; first && c < chunks; c++)
        counter_add<T>(counter, pieces[whole + c - whole * PIECE], 0);
    return first ? counter_total<T>(counter) : 0;
}
#endif

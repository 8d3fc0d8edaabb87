/* Stable sorting of keys: rows of `length` keys each, at most ORDER_LIMIT long. First every chunk of a row is sorted
 * in a block's own memory (short rows share a block); then runs are merged, ORDER_WAYS at once: an element's place
 * is its own in its run and, of each other run, how many come before it. Of equal keys the first comes first. Three
 * launches do it whatever the length; those that find nothing to merge return.
 *
 * Interface: order_of_rows, order_chunks, order_merge; order_room.h for the workspace. In PyTorch:
 * ATen/native/cuda/Sort.cpp, and cub's radix sort behind it. */
#ifndef CUDA_KERNELS_ORDER_H
#define CUDA_KERNELS_ORDER_H
#include "plugins/cuda/kernels/device.h"
#include "plugins/cuda/kernels/order_room.h"

/* Both halves of the workspace: keys in order with their places in the row; a merge goes from one to the other. */
struct order {
    int64_t   rows, length;
    uint64_t *keys[2];
    uint32_t *places[2];
};

ON_DEVICE struct order
order_of_rows(int64_t rows, int64_t length, void *workspace)
{
    struct order order = {};
    int64_t      count = rows * length;
    order.rows      = rows;
    order.length    = length;
    order.keys[0]   = static_cast<uint64_t *>(workspace);
    order.keys[1]   = order.keys[0] + count;
    order.places[0] = reinterpret_cast<uint32_t *>(order.keys[1] + count);
    order.places[1] = order.places[0] + count;
    return order;
}

/* How often runs are merged before a row of that length is in order; so, in which half the order then is. */
ON_DEVICE int
order_merges(int64_t length)
{
    return length <= ORDER_CHUNK ? 0 : length <= (int64_t)ORDER_CHUNK * ORDER_WAYS ? 1 : 2;
}

/* ---- a chunk ---- */

struct chunk { uint64_t key[ORDER_CHUNK]; uint32_t place[ORDER_CHUNK]; };

/* Filler behind the row's elements has the largest key and the largest place. */
ON_DEVICE void
exchange(struct chunk *chunk, unsigned a, unsigned b)
{
    uint64_t x = chunk->key[a], y = chunk->key[b];
    uint32_t p = chunk->place[a], q = chunk->place[b];
    if (x < y || (x == y && p <= q))
        return;
    chunk->key[a]   = y;
    chunk->key[b]   = x;
    chunk->place[a] = q;
    chunk->place[b] = p;
}

/* Bitonic merges of stretches that grow to `width`, a power of two; the second half of each is read backwards, so that
 * all stretches rise. `used`: how much of the chunk there is, a multiple of it. */
ON_DEVICE void
sort_stretches(struct chunk *chunk, unsigned width, unsigned used)
{
    for (unsigned whole = 2; whole <= width; whole *= 2) {
        for (unsigned i = thread_index(); i < used / 2; i += BLOCK_THREADS) {
            unsigned base = i / (whole / 2) * whole, at = i % (whole / 2);
            exchange(chunk, base + at, base + whole - 1 - at);
        }
        block_barrier();
        for (unsigned apart = whole / 4; apart > 0; apart /= 2) {
            for (unsigned i = thread_index(); i < used / 2; i += BLOCK_THREADS) {
                unsigned at = i / apart * 2 * apart + i % apart;
                exchange(chunk, at, at + apart);
            }
            block_barrier();
        }
    }
}

/* What a block sorts at once: `here` rows from `row` on, each in a stretch of `width`; or one chunk of a row that is
 * longer, from its element `from` on. */
struct turn { int64_t row, from; unsigned width, here; };

ON_DEVICE struct turn
turn_of(const struct order &order, int64_t number)
{
    struct turn turn = { number, 0, 1, 1 };
    while (turn.width < ORDER_CHUNK && turn.width < order.length)
        turn.width *= 2;
    if (order.length > ORDER_CHUNK) {
        int64_t chunks = (order.length + ORDER_CHUNK - 1) / ORDER_CHUNK;
        turn.row  = number / chunks;
        turn.from = number % chunks * ORDER_CHUNK;
        return turn;
    }
    unsigned at_once = ORDER_CHUNK / turn.width;
    turn.row  = number * at_once;
    turn.here = order.rows - turn.row < at_once ? (unsigned)(order.rows - turn.row) : at_once;
    return turn;
}

ON_DEVICE int64_t
turns_of(const struct order &order)
{
    struct turn first = turn_of(order, 0);
    int64_t     at_once = ORDER_CHUNK / first.width;
    if (order.length > ORDER_CHUNK)
        return order.rows * ((order.length + ORDER_CHUNK - 1) / ORDER_CHUNK);
    return order.length > 0 ? (order.rows + at_once - 1) / at_once : 0;
}

/* key_of(row, i): of element i of a row. put(row, i, key, place): element `place` comes to place i, in this chunk's
 * order. */
template <typename Key, typename Put> ON_DEVICE void
order_chunks(const struct order &order, Key key_of, Put put)
{
    SHARED struct chunk chunk;
    int64_t             turns = turns_of(order);
    for (int64_t number = block_index(); number < turns; number += block_count()) {
        struct turn turn = turn_of(order, number);
        unsigned    used = turn.width * turn.here;
        for (unsigned s = thread_index(); s < used; s += BLOCK_THREADS) {
            int64_t row = turn.row + s / turn.width, i = turn.from + s % turn.width;
            bool    filler = i >= order.length;
            chunk.key[s]   = filler ? UINT64_MAX : key_of(row, i);
            chunk.place[s] = filler ? UINT32_MAX : (uint32_t)i;
        }
        block_barrier();
        sort_stretches(&chunk, turn.width, used);
        for (unsigned s = thread_index(); s < used; s += BLOCK_THREADS) {
            int64_t row = turn.row + s / turn.width, i = turn.from + s % turn.width;
            if (i < order.length)
                put(row, i, chunk.key[s], chunk.place[s]);
        }
        block_barrier();
    }
}

/* put of order_chunks where merges follow, or the order is to stay in the workspace. */
ON_DEVICE void
order_keep(const struct order &order, int half, int64_t at, uint64_t key, uint32_t place)
{
    order.keys[half][at]   = key;
    order.places[half][at] = place;
}

/* ---- merging ---- */

/* Of `count` rising keys, how many come before `key`: those below it, and with `equals` those like it. */
ON_DEVICE int64_t
how_many_before(const uint64_t *keys, int64_t count, uint64_t key, bool equals)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (equals ? keys[middle] <= key : keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where element i of a row comes to in its group of ORDER_WAYS runs of `run` elements. */
ON_DEVICE int64_t
merged_place(const uint64_t *row, int64_t length, int64_t run, int64_t i)
{
    int64_t group = i / (run * ORDER_WAYS) * (run * ORDER_WAYS), own = i / run * run, place = group + i - own;
    for (int64_t other = group; other < length && other < group + run * ORDER_WAYS; other += run) {
        int64_t count = length - other < run ? length - other : run;
        if (other != own)
            place += how_many_before(row + other, count, row[i], other < own);
    }
    return place;
}

/* pass: 1 or 2. put(row, i, key, place): of the last merge; those before write to the other half. */
template <typename Put> ON_DEVICE void
order_merge(const struct order &order, int pass, Put put)
{
    int     merges = order_merges(order.length), from = (pass - 1) & 1;
    int64_t run = (int64_t)ORDER_CHUNK * (pass == 1 ? 1 : (int64_t)ORDER_WAYS);
    if (pass > merges)
        return;
    for (int64_t e = first_item(); e < order.rows * order.length; e += item_step()) {
        int64_t         row = e / order.length, i = e - row * order.length;
        const uint64_t *keys = order.keys[from] + row * order.length;
        int64_t         to = merged_place(keys, order.length, run, i);
        if (pass == merges)
            put(row, to, keys[i], order.places[from][e]);
        else
            order_keep(order, pass & 1, row * order.length + to, keys[i], order.places[from][e]);
    }
}
#endif

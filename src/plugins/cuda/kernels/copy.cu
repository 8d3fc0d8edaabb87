/* Copies of views: elements of any type into those of any other, lying anyhow. In one piece they go sixteen bytes at a
 * time; turned matrices go by tiles, so that both sides are read and written in rows; the rest goes element by
 * element. In PyTorch: ATen/native/cuda/Copy.cu. */
#include "plugins/cuda/kernels/elementwise.h"

/* ---- elements of one type: their bits ---- */

template <typename T> ON_DEVICE void
copy_elements(const struct cpu_call &call, const struct walk<2> *walk)
{
    T       *to = static_cast<T *>(call.out.data);
    const T *from = static_cast<const T *>(operand(call, 0));
    ROLLED for (int64_t i = first_item(); i < walk->count; i += item_step()) {
        struct places<2> places = walk_at<2>(walk, i);
        to[places.at[0]] = from[places.at[1]];
    }
}

ON_DEVICE void
copy_piece(void *to, const void *from, int64_t bytes)
{
    int64_t packs = is_aligned(to) && is_aligned(from) ? bytes / 16 : 0;
    for (int64_t i = first_item(); i < packs; i += item_step())
        static_cast<struct pack<uint32_t> *>(to)[i] = static_cast<const struct pack<uint32_t> *>(from)[i];
    for (int64_t i = packs * 16 + first_item(); i < bytes; i += item_step())
        static_cast<uint8_t *>(to)[i] = static_cast<const uint8_t *>(from)[i];
}

/* ---- turned: out's steps of 1 are in another dimension than in's ---- */

enum { TILE = 32, TILE_ROWS = BLOCK_THREADS / TILE };

/* wide: where out's elements follow each other; high: where in's do. -1: not turned, or too small for tiles to pay. */
struct turned { int wide, high; };

ON_DEVICE struct turned
turned_of(const struct cpu_call &call)
{
    struct turned turned = { -1, -1 };
    ROLLED for (int d = 0; d < call.out.dims; d++) {
        if (call.out.size[d] < TILE / 4)
            continue;
        if (call.out.stride[d] == 1)
            turned.wide = d;
        if (call.in[0].stride[d] == 1)
            turned.high = d;
    }
    if (turned.wide == turned.high || turned.high < 0)
        turned.wide = -1;
    return turned;
}

/* The first element of a tile in both views: tiles are counted along `wide`, then `high`, then the other dimensions. */
struct tile_place { int64_t wide, high, to, from; };

ON_DEVICE struct tile_place
tile_at(const struct cpu_call &call, struct turned turned, int64_t tile)
{
    const int64_t     across = (call.out.size[turned.wide] + TILE - 1) / TILE;
    const int64_t     down = (call.out.size[turned.high] + TILE - 1) / TILE;
    struct tile_place place = { tile % across * TILE, tile / across % down * TILE, 0, 0 };
    int64_t           rest = tile / across / down;
    place.to   = place.wide + place.high * call.out.stride[turned.high];
    place.from = place.high + place.wide * call.in[0].stride[turned.wide];
    ROLLED for (int d = call.out.dims - 1; d >= 0; d--) {
        if (d == turned.wide || d == turned.high)
            continue;
        place.to += rest % call.out.size[d] * call.out.stride[d];
        place.from += rest % call.out.size[d] * call.in[0].stride[d];
        rest /= call.out.size[d];
    }
    return place;
}

template <typename T> ON_DEVICE void
turn(const struct cpu_call &call, struct turned turned, int64_t count, T (*tile)[TILE + 1])
{
    T            *to = static_cast<T *>(call.out.data);
    const T      *from = static_cast<const T *>(operand(call, 0));
    const int     x = (int)thread_index() % TILE, y = (int)thread_index() / TILE;
    const int64_t wide = call.out.size[turned.wide], high = call.out.size[turned.high];
    const int64_t tiles = count / wide / high * ((wide + TILE - 1) / TILE) * ((high + TILE - 1) / TILE);
    for (int64_t t = block_index(); t < tiles; t += block_count()) {
        struct tile_place at = tile_at(call, turned, t);
        for (int row = y; row < TILE; row += TILE_ROWS)
            if (at.high + x < high && at.wide + row < wide)
                tile[row][x] = from[at.from + x + row * call.in[0].stride[turned.wide]];
        block_barrier();
        for (int row = y; row < TILE; row += TILE_ROWS)
            if (at.wide + x < wide && at.high + row < high)
                to[at.to + x + row * call.out.stride[turned.high]] = tile[x][row];
        block_barrier();
    }
}

template <typename T> ON_DEVICE void
copy_bits(const struct cpu_call &call, const struct walk<2> *walk, void *tile)
{
    struct turned turned = turned_of(call);
    if (walk->is_plain)
        copy_piece(call.out.data, operand(call, 0), walk->count * (int64_t)sizeof(T));
    else if (turned.wide >= 0 && walk->count > 0)
        turn<T>(call, turned, walk->count, static_cast<T(*)[TILE + 1]>(tile));
    else
        copy_elements<T>(call, walk);
}

/* ---- from one type to another: through the one of the wide types that holds all of the source's values ---- */

template <typename T> ON_DEVICE void
copy_as(const struct cpu_call &call, const struct walk<2> *walk)
{
    ROLLED for (int64_t i = first_item(); i < walk->count; i += item_step()) {
        struct places<2> places = walk_at<2>(walk, i);
        T                x = load<T>(operand(call, 0), call.in[0].dtype, places.at[1]);
        store<T>(call.out.data, call.out.dtype, places.at[0], x);
    }
}

/* Elements from in to out, which have the same sizes; both may be one view. */
KERNEL_OF(cpu_copy, struct cpu_call)
{
    SHARED uint64_t tile[TILE * (TILE + 1)];
    struct walk<2>  walk;
    walk.view[0] = &call.out;
    walk.view[1] = &call.in[0];
    walk_begin<2>(&walk);
    if (call.out.dtype != call.in[0].dtype) {
        if (dtype_wide(call.in[0].dtype) == DTYPE_F32)
            copy_as<float>(call, &walk);
        else if (dtype_wide(call.in[0].dtype) == DTYPE_F64)
            copy_as<double>(call, &walk);
        else
            copy_as<int64_t>(call, &walk);
        return;
    }
    switch (dtype_size(call.out.dtype)) {
    case 1:  copy_bits<uint8_t>(call, &walk, tile); break;
    case 2:  copy_bits<uint16_t>(call, &walk, tile); break;
    case 4:  copy_bits<uint32_t>(call, &walk, tile); break;
    default: copy_bits<uint64_t>(call, &walk, tile); break;
    }
}

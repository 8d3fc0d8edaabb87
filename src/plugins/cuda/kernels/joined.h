/* The loop over views that share their sizes, as tensor/cpu/loop.h walks them: dimensions that lie in one piece for
 * all of them are joined, and the innermost is the run. Sums depend on it: a run is cut in chunks. Here places are
 * worked out from an element's number instead of one after the other. In C too: how many chunks there are, the host
 * asks for room.
 *
 * Interface: joined_begin, joined_put from the last dimension to the first, joined_place; join_views, take_apart. */
#ifndef CUDA_KERNELS_JOINED_H
#define CUDA_KERNELS_JOINED_H
#include "plugins/cuda/kernels/rolled.h"
#include "tensor/cpu/kernel.h"

enum { JOINED_VIEWS = 3, CHUNK = 256 /* loop.h's */ };

struct joined {
    int     views, dims;
    int64_t size[TENSOR_DIMS], stride[JOINED_VIEWS][TENSOR_DIMS];   /* the innermost first; strides in elements */
    int64_t count, run;                                             /* elements of all, of one run */
};

BOTH void
joined_begin(struct joined *joined, int views)
{
    joined->views = views;
    joined->dims  = 0;
    joined->count = joined->run = 1;
}

/* One dimension more, outside of those before; the strides are of `d` of each view. */
CALLED_BOTH void
joined_put(struct joined *joined, const struct cpu_view *const *views, int d)
{
    int64_t size = views[0]->size[d];
    int     last = joined->dims - 1;
    bool    joins = last >= 0;
    joined->count *= size;
    if (size == 1)
        return;
    for (int v = 0; v < joined->views && joins; v++)
        joins = views[v]->stride[d] == joined->stride[v][last] * joined->size[last];
    if (joins) {
        joined->size[last] *= size;
    } else {
        joined->size[++last] = size;
        for (int v = 0; v < joined->views; v++)
            joined->stride[v][last] = views[v]->stride[d];
        joined->dims++;
    }
    joined->run = joined->size[0];
}

BOTH void
join_views(struct joined *joined, const struct cpu_view *const *views, int count)
{
    joined_begin(joined, count);
    for (int d = views[0]->dims - 1; d >= 0; d--)
        joined_put(joined, views, d);
}

CALLED_BOTH int64_t
joined_place_by_division(const struct joined *joined, int view, int64_t index, int first)
{
    const bool is_short = joined->count <= INT32_MAX;
    int64_t    at = 0;
    ROLLED for (int d = first; d < joined->dims; d++) {
        int64_t size = joined->size[d];
        int64_t left = is_short ? (int64_t)((uint32_t)index / (uint32_t)size) : index / size;
        at += (index - left * size) * joined->stride[view][d];
        index = left;
    }
    return at;
}

/* Where the dimensions from `first` on put number `index` of them. */
BOTH int64_t
joined_place(const struct joined *joined, int view, int64_t index, int first)
{
    if (first + 1 < joined->dims)
        return joined_place_by_division(joined, view, index, first);
    return first < joined->dims ? index * joined->stride[view][first] : 0;
}

BOTH int64_t
joined_step(const struct joined *joined, int view)
{
    return joined->dims > 0 ? joined->stride[view][0] : 0;
}

BOTH int64_t
chunks_of_run(const struct joined *joined)
{
    return (joined->run + CHUNK - 1) / CHUNK;
}

BOTH int64_t
chunks_of(const struct joined *joined)
{
    return joined->count == 0 ? 0 : joined->count / joined->run * chunks_of_run(joined);
}

/* The input of a reduction taken apart as by tensor/cpu/reduce.h: dimensions that stay, of the result (0) and of the
 * input (1), and those that are reduced. */
struct apart { struct joined kept, summed; bool by_column; };

CALLED_BOTH void
take_apart(struct apart *apart, const struct cpu_view *in, const struct cpu_view *out)
{
    const struct cpu_view *both[2] = { out, in };
    bool                   known = false;
    joined_begin(&apart->kept, 2);
    joined_begin(&apart->summed, 1);
    apart->by_column = false;
    for (int d = in->dims - 1; d >= 0; d--) {
        bool kept = out->dims == in->dims && out->size[d] == in->size[d];
        if (kept)
            joined_put(&apart->kept, both, d);
        else
            joined_put(&apart->summed, &in, d);
        if (in->size[d] != 1 && !known) {
            apart->by_column = kept;
            known            = true;
        }
    }
}

/* The input as lines along one dimension: what stays. */
BOTH void
take_lines(struct joined *lines, const struct cpu_view *in, const struct cpu_view *out, int dim)
{
    const struct cpu_view *both[2] = { out, in };
    joined_begin(lines, 2);
    for (int d = in->dims - 1; d >= 0; d--)
        if (d != dim)
            joined_put(lines, both, d);
}

/* A sum of so many chunks in one is spread over the whole device, in two steps; `pieces_room`: the bytes between. */
enum { PIECE = 64 /* chunks, a power of two */, SPREAD_CHUNKS = 2 * PIECE };

BOTH size_t
pieces_room(int64_t chunks)
{
    return chunks < SPREAD_CHUNKS ? 0 : (size_t)(chunks / PIECE + PIECE) * sizeof(double);
}

/* The extreme of so many elements in one, in as many shares: of each its value and place. */
enum { EXTREME_SHARES = 256, SPREAD_ELEMENTS = 32768 };

BOTH size_t
extreme_room_bytes(int64_t elements)
{
    return elements < SPREAD_ELEMENTS ? 0 : EXTREME_SHARES * (sizeof(double) + sizeof(int64_t));
}
#endif

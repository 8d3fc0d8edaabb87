/* From the number of an element, in row-major order of the sizes that all views of an elementwise kernel share, to its
 * place in each of them. Where all lie in one piece, or are one element again and again, that is free; else a division
 * for each dimension. The dimensions are taken as they lie in the first view, which is written: so neighbours among the
 * threads write neighbours in memory.
 *
 * Interface: walk_begin or walk_in_order, walk_at. In PyTorch: ATen/cuda/detail/OffsetCalculator.cuh. */
#ifndef CUDA_KERNELS_WALK_H
#define CUDA_KERNELS_WALK_H
#include "plugins/cuda/kernels/element.h"

template <int views> struct walk {
    const struct cpu_view *view[views];
    int64_t                step[views], count;   /* step: 1 in one piece, 0 one element; only where is_flat */
    bool                   is_flat, is_plain;    /* plain: all in one piece */
    uint32_t               order;                /* dimensions, four bits each, the innermost first */
    int                    dims;                 /* how many have more than one element */
};

ON_DEVICE int64_t
elements_of(const struct cpu_view &view)
{
    int64_t count = 1;
    ROLLED for (int d = 0; d < view.dims; d++)
        count *= view.size[d];
    return count;
}

/* 1: in one piece; 0: one element, read for all; -1: neither. */
ON_DEVICE int
step_of(const struct cpu_view &view)
{
    int64_t piece = 1;
    bool    row_major = true, still = true;
    ROLLED for (int d = view.dims - 1; d >= 0; d--) {
        if (view.size[d] == 1)
            continue;
        row_major = row_major && view.stride[d] == piece;
        still     = still && view.stride[d] == 0;
        piece *= view.size[d];
    }
    return row_major ? 1 : still ? 0 : -1;
}

/* The smallest steps first; of equal ones the last dimension. */
ON_DEVICE uint32_t
order_of(const struct cpu_view &view, int *dims)
{
    uint32_t order = 0, taken = 0;
    bool     lies = view.dims == 0 || view.stride[view.dims - 1] == 1;
    int      found = 0;
    ROLLED for (int k = 0; k < view.dims; k++) {
        int best = -1;
        ROLLED for (int d = view.dims - 1; d >= 0; d--) {
            if (taken >> d & 1 || view.size[d] == 1)
                continue;
            if (best < 0 || (!lies && view.stride[d] < view.stride[best]))
                best = d;
        }
        if (best < 0)
            break;
        taken |= 1u << best;
        order |= (uint32_t)best << 4 * found++;
    }
    *dims = found;
    return order;
}

/* The views are in walk->view. */
template <int views> CALLED_ON_DEVICE void
walk_begin(struct walk<views> *walk)
{
    walk->is_flat = walk->is_plain = true;
    walk->count   = elements_of(*walk->view[0]);
    ROLLED for (int v = 0; v < views; v++) {
        int step       = step_of(*walk->view[v]);
        walk->step[v]  = step;
        walk->is_flat  = walk->is_flat && step >= 0;
        walk->is_plain = walk->is_plain && step == 1;
    }
    walk->dims  = 0;
    walk->order = walk->is_flat ? 0 : order_of(*walk->view[0], &walk->dims);
}

template <int views, typename I> ON_DEVICE void
places_by_division(const struct walk<views> *walk, I rest, int64_t *at)
{
    uint32_t order = walk->order;
    for (int v = 0; v < views; v++)
        at[v] = 0;
    ROLLED for (int k = 0; k < walk->dims; k++, order >>= 4) {
        int d    = (int)(order & 15);
        I   size = (I)walk->view[0]->size[d], left = rest / size, index = rest - left * size;
        for (int v = 0; v < views; v++)
            at[v] += (int64_t)index * walk->view[v]->stride[d];
        rest = left;
    }
}

/* The same for who counts elements in row-major order: so does the walk. */
template <int views> CALLED_ON_DEVICE void
walk_in_order(struct walk<views> *walk)
{
    walk_begin<views>(walk);
    walk->order = 0;
    walk->dims  = 0;
    ROLLED for (int d = walk->view[0]->dims - 1; d >= 0; d--)
        walk->order |= (uint32_t)d << 4 * walk->dims++;
}

template <int views> struct places { int64_t at[views]; };

template <int views> CALLED_ON_DEVICE void
places_of(const struct walk<views> *walk, int64_t index, struct places<views> *places)
{
    if (walk->count <= INT32_MAX)
        places_by_division<views, uint32_t>(walk, (uint32_t)index, places->at);
    else
        places_by_division<views, uint64_t>(walk, (uint64_t)index, places->at);
}

/* at[v]: elements from view v's first. */
template <int views> ON_DEVICE struct places<views>
walk_at(const struct walk<views> *walk, int64_t index)
{
    struct places<views> places;
    if (walk->is_flat)
        for (int v = 0; v < views; v++)
            places.at[v] = index * walk->step[v];
    else
        places_of<views>(walk, index, &places);
    return places;
}
#endif

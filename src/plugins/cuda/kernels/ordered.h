/* A block's way through a list whose entries name places, so that what is done at a place is done in the order of the
 * list: BLOCK_THREADS entries at a time; of those that name one place the first one's thread does them all.
 *
 * Interface: inside_or_none, in_order; all threads of the block come to it.
 * In PyTorch: the atomic additions of ATen/native/cuda/ScatterGatherKernel.cu, whose order is not fixed. */
#ifndef CUDA_KERNELS_ORDERED_H
#define CUDA_KERNELS_ORDERED_H
#include "plugins/cuda/kernels/device.h"

enum { NO_PLACE = -1 };

/* A place that does not exist is reported and left out. */
ON_DEVICE int64_t
inside_or_none(const struct cpu_call &call, int64_t place, int64_t limit)
{
    if (place >= 0 && place < limit)
        return place;
    raise_fault(call.fault, place, limit);
    return NO_PLACE;
}

/* place_of_entry(i): where entry i, from 0 to count, belongs, or NO_PLACE. act(place, i): what is done. */
template <typename Place, typename Act> ON_DEVICE void
in_order(int64_t count, Place place_of_entry, Act act)
{
    SHARED int64_t places[BLOCK_THREADS];
    unsigned t = thread_index();
    for (int64_t from = 0; from < count; from += BLOCK_THREADS) {
        unsigned here = count - from < BLOCK_THREADS ? (unsigned)(count - from) : (unsigned)BLOCK_THREADS;
        int64_t  mine = t < here ? place_of_entry(from + t) : (int64_t)NO_PLACE;
        places[t] = mine;
        block_barrier();
        bool leads = mine != NO_PLACE;
        for (unsigned j = 0; leads && j < t; j++)
            leads = places[j] != mine;
        for (unsigned j = t; leads && j < here; j++) {
            if (places[j] == mine)
                act(mine, from + j);
        }
        block_barrier();
    }
}
#endif

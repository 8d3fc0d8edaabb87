/* Sums and means of losses: of many by all blocks, in two kernels of which the second does nothing where there are few.
 *
 * Interface: sum_losses in the first kernel, gather_any in the second. */
#ifndef CUDA_KERNELS_LOSS_H
#define CUDA_KERNELS_LOSS_H
#include "plugins/cuda/kernels/sum.h"

/* The elements as the CPU counts them: in floating point. */
ON_DEVICE double
elements_of_losses(const struct cpu_call &call)
{
    double count = 1;
    for (int d = 0; d < call.in[0].dims; d++)
        count *= (double)call.in[0].size[d];
    return count;
}

ON_DEVICE bool
is_spread(const struct cpu_call &call, int64_t chunks)
{
    return call.workspace != NULL && pieces_room(chunks) > 0;
}

template <typename T> ON_DEVICE void
put_loss(const struct cpu_call &call, T total, double elements)
{
    store<T>(call.out.data, call.out.dtype, 0, call.dim == LOSS_MEAN ? total / (T)elements : total);
}

template <typename T, typename source> ON_DEVICE void
sum_losses(const struct cpu_call &call, const source *from, int64_t chunks, double elements, struct sum_room<T> *room)
{
    if (is_spread(call, chunks)) {
        sum_pieces<T>(from, chunks, static_cast<T *>(call.workspace), room);
    } else if (block_index() == 0) {
        T total = sum_by_block<T>(from, chunks, room);
        if (thread_index() == 0)
            put_loss<T>(call, total, elements);
    }
}

template <typename T> ON_DEVICE void
gather_losses(const struct cpu_call &call, int64_t chunks, double elements, struct sum_room<T> *room)
{
    T total = sum_of_pieces<T>(static_cast<const T *>(call.workspace), chunks, &room->counter);
    if (thread_index() == 0)
        put_loss<T>(call, total, elements);
}

/* The second kernel of every loss. */
ON_DEVICE void
gather_any(const struct cpu_call &call, int64_t chunks, double elements, struct sum_room<double> *room)
{
    const bool gathers = call.dim != LOSS_NONE && (chunks == 0 || is_spread(call, chunks));
    if (!gathers || block_index() > 0 || thread_index() >= WARP)
        return;   /* of none: over a grid of no elements the first kernel has no blocks */
    if (call.compute == DTYPE_F32)
        gather_losses<float>(call, chunks, elements, reinterpret_cast<struct sum_room<float> *>(room));
    else
        gather_losses<double>(call, chunks, elements, room);
}
#endif

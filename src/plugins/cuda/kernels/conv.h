/* What a convolution's kernels and the room for them agree on. */
#ifndef CUDA_KERNELS_CONV_H
#define CUDA_KERNELS_CONV_H
#include "tensor/cpu/conv.h"

/* A weight's gradient is the samples' gradients added up in order. As long as they all fit here they are worked out at
 * once, in workspace, and added afterwards; else one sample after the other, by as many blocks as the weight has tiles. */
enum { CONV_PARTS_BYTES = 8 << 20 };

/* Bytes of all samples' gradients of the weight; 0: too many. */
BOTH size_t
conv_parts_bytes(const struct cpu_call *call)
{
    const size_t  element = call->compute == DTYPE_F32 ? sizeof(float) : sizeof(double);
    const int64_t most = (int64_t)(CONV_PARTS_BYTES / element), samples = call->in[0].size[0];
    int64_t       count = 1;
    for (int d = 0; d < 4; d++)
        count *= call->out.size[d];      /* the weight is there, so that this does not overflow */
    return samples < 1 || count < 1 || count > most / samples ? 0 : (size_t)(count * samples) * element;
}
#endif

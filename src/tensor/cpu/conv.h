/* What a convolution's plan and kernel agree on. `image`, `weight`, `result`: sizes of the input, the weight and the
 * result of the forward. */
#ifndef TENSOR_CPU_CONV_H
#define TENSOR_CPU_CONV_H
#include <stddef.h>
#include "tensor/cpu/kernel.h"

struct conv {
    int64_t n, groups, ins, outs;      /* ins, outs: channels of one group */
    int64_t h, w, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw;
    int64_t depth;                     /* rows of a column: ins * kh * kw */
};

struct conv conv_shape(const int64_t *sizes, const int64_t *image, const int64_t *weight, const int64_t *result);
size_t      conv_workspace(const struct conv *conv, enum dtype dtype, bool weight);
#endif

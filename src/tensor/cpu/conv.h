/* What a convolution's plan and kernel agree on. `image`, `weight`, `result`: sizes of the input, the weight and the
 * result of the forward. */
#ifndef TENSOR_CPU_CONV_H
#define TENSOR_CPU_CONV_H
#include <stddef.h>
#include "base/both.h"
#include "tensor/cpu/kernel.h"

struct conv {
    int64_t n, groups, ins, outs;      /* ins, outs: channels of one group */
    int64_t h, w, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw;
    int64_t depth;                     /* rows of a column: ins * kh * kw */
};

BOTH struct conv
conv_shape(const int64_t *sizes, const int64_t *image, const int64_t *weight, const int64_t *result)
{
    struct conv c;
    c.n      = image[0];
    c.groups = sizes[6];
    c.ins    = weight[1];
    c.outs   = weight[0] / c.groups;
    c.h = image[2], c.w = image[3], c.kh = weight[2], c.kw = weight[3], c.oh = result[2], c.ow = result[3];
    c.sh = sizes[0], c.sw = sizes[1], c.ph = sizes[2], c.pw = sizes[3], c.dh = sizes[4], c.dw = sizes[5];
    c.depth = c.ins * c.kh * c.kw;
    return c;
}

size_t conv_workspace(const struct conv *conv, enum dtype dtype, bool weight);
#endif

/* A loop for each pair of types; see convert.h. */
#include "tensor/cpu/convert.h"
#include <string.h>
#include "base/number.h"

#define CONVERT(from_type, from_c, to_type, to_c, expression)                                                      \
    static void convert_##from_type##_##to_type(to_c *to, int64_t to_stride, const from_c *from,                   \
                                                int64_t from_stride, int64_t count)                                \
    {                                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                                      \
            from_c x = from[i * from_stride];                                                                      \
            to[i * to_stride] = expression;                                                                        \
        }                                                                                                          \
    }
#include "tensor/cpu/convert.def"
#undef CONVERT

/* What an expanded gradient is made of: one number, many times. */
static void
repeat_f32(float *to, const float *from, int64_t count)
{
    typedef float four_floats __attribute__((vector_size(16), aligned(4), may_alias));
    int64_t       i = 0;
    float         x = count > 0 ? *from : 0;
    for (; i + 4 <= count; i += 4)
        *(four_floats *)(void *)(to + i) = (four_floats){ x, x, x, x };
    for (; i < count; i++)
        to[i] = x;
}

void
cpu_convert(void *to, struct spacing to_spacing, const void *from, struct spacing from_spacing, int64_t count)
{
    enum dtype to_dtype = to_spacing.dtype, from_dtype = from_spacing.dtype;
    int64_t    to_stride = to_spacing.stride, from_stride = from_spacing.stride;
    if (to_dtype == from_dtype && to_stride == 1 && from_stride == 1) {
        if (count > 0)
            memmove(to, from, (size_t)count * dtype_size(to_dtype));
        return;
    }
    if (to_dtype == from_dtype && to_stride == 1 && from_stride == 0 && to_dtype == DTYPE_F32) {
        repeat_f32(to, from, count);
        return;
    }
    switch (from_dtype * DTYPE_COUNT + to_dtype) {
#define CONVERT(from_type, from_c, to_type, to_c, expression)                                                      \
    case DTYPE_##from_type * DTYPE_COUNT + DTYPE_##to_type:                                                        \
        convert_##from_type##_##to_type(to, to_stride, from, from_stride, count);                                  \
        break;
#include "tensor/cpu/convert.def"
#undef CONVERT
    }
}

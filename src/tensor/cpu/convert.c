/* Elements from one place, type and stride to another. */
#include <string.h>
#include "base/dtype.h"
#include "base/number.h"
#include "tensor/cpu/loop.h"

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
cpu_convert(void *to, enum dtype to_dtype, int64_t to_stride, const void *from, enum dtype from_dtype,
            int64_t from_stride, int64_t count)
{
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

/* Elements from in to out, which have the same sizes; both may be one view. */
void
cpu_copy(const struct cpu_call *call)
{
    const struct cpu_view *views[2] = { &call->out, &call->in[0] };
    int64_t     to = (int64_t)dtype_size(call->out.dtype), from = (int64_t)dtype_size(call->in[0].dtype);
    struct loop loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        if (loop.at[0] != loop.at[1] || to != from)
            cpu_convert(loop.at[0], call->out.dtype, loop.step[0] / to, loop.at[1], call->in[0].dtype,
                        loop.step[1] / from, loop.run);
    }
}

/* Elements from one place, type and stride to another. */
#ifndef TENSOR_CPU_CONVERT_H
#define TENSOR_CPU_CONVERT_H
#include "base/dtype.h"

/* Elements of one type, each `stride` elements after the one before. */
struct spacing { enum dtype dtype; int64_t stride; };

static inline struct spacing
every(enum dtype dtype, int64_t stride)
{
    struct spacing spacing = { dtype, stride };
    return spacing;
}

/* `count` elements as base/number.h says; of bool all but 0 is true. The places are apart or the same. */
void cpu_convert(void *to, struct spacing to_spacing, const void *from, struct spacing from_spacing, int64_t count);

static inline void
cpu_convert_one(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype)
{
    cpu_convert(to, every(to_dtype, 1), from, every(from_dtype, 1), 1);
}
#endif

/* What a reduction makes of two elements, for the loops of the CPU (reduce.c) and for the kernel of GPUs. `op` has the
 * numbers of enum reduce_op, which are those of enum transport_reduce; what is none of the others adds. */
#ifndef C10D_REDUCE_BODIES_H
#define C10D_REDUCE_BODIES_H
#include <stdint.h>
#include "base/both.h"
#include "c10d/transport.h"

/* Where neither is less, as of what is no number, minimum and maximum keep x. */
BOTH double
reduced_fraction(int op, double x, double y)
{
    switch (op) {
    case TRANSPORT_PRODUCT: return x * y;
    case TRANSPORT_MIN:     return y < x ? y : x;
    case TRANSPORT_MAX:     return y > x ? y : x;
    default:                return x + y;
    }
}

BOTH int64_t
reduced_whole(int op, int64_t x, int64_t y)
{
    switch (op) {
    case TRANSPORT_PRODUCT: return (int64_t)((uint64_t)x * (uint64_t)y);
    case TRANSPORT_MIN:     return y < x ? y : x;
    case TRANSPORT_MAX:     return y > x ? y : x;
    case TRANSPORT_BAND:    return x & y;
    case TRANSPORT_BOR:     return x | y;
    case TRANSPORT_BXOR:    return x ^ y;
    default:                return (int64_t)((uint64_t)x + (uint64_t)y);
    }
}

/* Of truth values a sum is "or", a product "and"; so are maximum and minimum. */
BOTH int
op_of_truth(int op)
{
    switch (op) {
    case TRANSPORT_SUM:
    case TRANSPORT_MAX:     return TRANSPORT_BOR;
    case TRANSPORT_PRODUCT:
    case TRANSPORT_MIN:     return TRANSPORT_BAND;
    default:                return op;
    }
}
#endif

/* Shapes: how many dimensions there are at most, and where row-major elements lie. */
#ifndef BASE_SHAPE_H
#define BASE_SHAPE_H
#include <stdbool.h>
#include <stdint.h>
#include "base/both.h"

#define TENSOR_DIMS 8

/* The strides of elements that lie in one piece, the last dimension's beside each other. A dimension without elements
 * counts as one of size 1, as in PyTorch. */
BOTH void
row_major_strides(int dims, const int64_t *sizes, int64_t *strides)
{
    int64_t step = 1;
    for (int d = dims; d-- > 0;) {
        strides[d] = step;
        step *= sizes[d] > 0 ? sizes[d] : 1;
    }
}

/* Dimensions of size 1 may have any stride; no elements lie in one piece. */
BOTH bool
is_row_major(int dims, const int64_t *sizes, const int64_t *strides)
{
    int64_t step = 1;
    bool    lies = true;
    for (int d = dims; d-- > 0;) {
        if (sizes[d] == 0)
            return true;
        lies = lies && (sizes[d] == 1 || strides[d] == step);
        step *= sizes[d];
    }
    return lies;
}

BOTH bool
sizes_equal(int dims, const int64_t *a, const int64_t *b)
{
    for (int i = 0; i < dims; i++)
        if (a[i] != b[i])
            return false;
    return true;
}
#endif

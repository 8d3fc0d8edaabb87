/* For sums and products of integers, which wrap around, in the rows of elementwise.def and functions.def. */
#ifndef TENSOR_CPU_WRAP_H
#define TENSOR_CPU_WRAP_H
#include <stdint.h>
#include "base/both.h"

BOTH uint64_t
wrap(int64_t value)
{
    return (uint64_t)value;
}
#endif

/* What has no code on a GPU, said by each family of kernels. */
#ifndef CUDA_LIMITS_H
#define CUDA_LIMITS_H
#include <stdbool.h>
#include <stddef.h>
#include "tensor/cpu/kernels.h"

/* false: no code for these params' types (or sizes): the host does it. `room` is 0 before; a kernel that wants bytes at its
 * params' workspace, other than what the CPU's function wants there, sets it. */
typedef bool limits(enum kernel kernel, const void *params, size_t *room);
limits limits_elementwise, limits_reduce, limits_rows, limits_pick, limits_products;
#endif

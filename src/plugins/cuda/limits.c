/* Which family answers for a kernel.
 *
 * Interface: gpu_has, gpu_room. */
#include "limits.h"
#include "kernels/table.h"

/* A kernel of several rows stands here as often, each time with the same family. */
#pragma GCC diagnostic ignored "-Woverride-init"
static limits *const of_kernel[KERNEL_COUNT] = {
#define GPU(kernel, symbol, grid, threads) [KERNEL_##kernel] = limits_elementwise,
#include "kernels/rows_elementwise.def"
#undef GPU
#define GPU(kernel, symbol, grid, threads) [KERNEL_##kernel] = limits_reduce,
#include "kernels/rows_reduce.def"
#undef GPU
#define GPU(kernel, symbol, grid, threads) [KERNEL_##kernel] = limits_rows,
#include "kernels/rows_rows.def"
#undef GPU
#define GPU(kernel, symbol, grid, threads) [KERNEL_##kernel] = limits_pick,
#include "kernels/rows_pick.def"
#undef GPU
#define GPU(kernel, symbol, grid, threads) [KERNEL_##kernel] = limits_products,
#include "kernels/rows_products.def"
#undef GPU
};

bool
gpu_has(enum kernel kernel, const void *params)
{
    size_t room = 0;
    return of_kernel[kernel] != NULL && of_kernel[kernel](kernel, params, &room);
}

size_t
gpu_room(enum kernel kernel, const void *params)
{
    size_t room = 0;
    return of_kernel[kernel] != NULL && of_kernel[kernel](kernel, params, &room) ? room : 0;
}

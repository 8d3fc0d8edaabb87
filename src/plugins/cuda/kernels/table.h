/* Which kernels a GPU has: their address, how many threads they want, whether the threads of a block wait for each other.
 * Rows lie in rows_*.def, beside the .cu files that they name:
 *     GPU(kernel, symbol, grid, threads)     kernel: of enum kernel; symbol: KERNEL_OF(symbol, ...)
 * Several rows of one kernel run one after the other, in the order of the rows. */
#ifndef CUDA_KERNELS_TABLE_H
#define CUDA_KERNELS_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include "tensor/cpu/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { BLOCK_THREADS = 256, WARP = 32 };         /* of every launch; lanes that hand down to each other */

/* How many items a launch is spread over; any grid is right, this one is quick. */
enum gpu_grid {
    GRID_OUT,        /* a thread for each element of call->out */
    GRID_IN0,        /* of call->in[0] */
    GRID_IN1,
    GRID_IN2,
    GRID_BLOCK_OUT,  /* a block for each element of call->out (a block works one out together) */
    GRID_BLOCK_ROW,  /* a block for each row: the elements of call->out over the size of its dimension call->dim */
    GRID_BLOCK,      /* one block */
    GRID_FULL,       /* as many blocks as the GPU holds: the kernel divides its work by itself */
    GRID_VIEW        /* update, reduce: a thread for each element of the first view, of `into`, of
                        each of all_reduce's; draw: for each block of Philox */
};
enum gpu_threads {
    ALONE,           /* no barrier and no lane_down: threads know nothing of each other */
    TOGETHER
};

struct gpu_kernel { enum kernel kernel; const void *address; const char *symbol; enum gpu_grid grid;
                    enum gpu_threads threads; size_t params; };
/* Rows of a kernel follow each other. NULL: there is none. */
const struct gpu_kernel *gpu_kernel_first(enum kernel kernel);
const struct gpu_kernel *gpu_kernel_next(const struct gpu_kernel *row);
size_t                   gpu_kernel_count(void);
const struct gpu_kernel *gpu_kernel_at(size_t i);

/* What of a kernel's types has no code on a GPU; and the workspace beyond the CPU's. Each family's .c file answers. */
bool   gpu_has(enum kernel kernel, const void *params);
size_t gpu_room(enum kernel kernel, const void *params);
#ifdef __cplusplus
}
#endif
#endif

/* The table of kernels: from the rows of the .def files, in their order.
 *
 * Interface: gpu_kernel_first, gpu_kernel_next; gpu_kernel_count, gpu_kernel_at. In PyTorch: the dispatcher's CUDA
 * key. */
#include "kernels/table.h"
#include "tensor/cpu/draw.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/lstm.h"
#include "tensor/cpu/update.h"

/* Nothing here calls them: their addresses are what a launch names a kernel by, whatever they take. */
#define GPU(kernel, symbol, grid, threads) void gpu_##symbol(const void *params);
#include "kernels/rows.def"
#undef GPU

enum row {
#define GPU(kernel, symbol, grid, threads) ROW_##kernel##_##symbol,
#include "kernels/rows.def"
#undef GPU
    ROW_COUNT
};

static const struct gpu_kernel rows[ROW_COUNT + 1] = {
#define PARAMS_OF(kernel)                                                                                          \
    ((kernel) == KERNEL_update          ? sizeof(struct update_job)                                                \
     : (kernel) == KERNEL_reduce        ? sizeof(struct elements_job)                                              \
     : (kernel) == KERNEL_lstm_forward  ? sizeof(struct lstm_forward)                                              \
     : (kernel) == KERNEL_lstm_backward ? sizeof(struct lstm_backward)                                             \
     : (kernel) == KERNEL_draw          ? sizeof(struct draw_job)                                                  \
     : (kernel) == KERNEL_all_reduce    ? sizeof(struct all_reduce_job)                                            \
                                        : sizeof(struct cpu_call))
#define GPU(kernel, symbol, grid, threads)                                                                         \
    { KERNEL_##kernel, (const void *)gpu_##symbol, "gpu_" #symbol, grid, threads, PARAMS_OF(KERNEL_##kernel) },
#include "kernels/rows.def"
#undef GPU
    { .kernel = KERNEL_COUNT }           /* the end, which is nobody's next */
};

/* A kernel's last row, and one more: 0 means none. Of several rows of a kernel the last one stays, on purpose. */
#pragma GCC diagnostic ignored "-Woverride-init"
static const unsigned short last[KERNEL_COUNT + 1] = {
#define GPU(kernel, symbol, grid, threads) [KERNEL_##kernel] = ROW_##kernel##_##symbol + 1,
#include "kernels/rows.def"
#undef GPU
};

const struct gpu_kernel *
gpu_kernel_first(enum kernel kernel)
{
    if (last[kernel] == 0)
        return NULL;
    const struct gpu_kernel *row = &rows[last[kernel] - 1];
    while (row > rows && row[-1].kernel == kernel)
        row--;
    return row;
}

const struct gpu_kernel *
gpu_kernel_next(const struct gpu_kernel *row)
{
    return row[1].kernel == row->kernel ? row + 1 : NULL;
}

size_t
gpu_kernel_count(void)
{
    return ROW_COUNT;
}

const struct gpu_kernel *
gpu_kernel_at(size_t i)
{
    return &rows[i];
}

/* Kernels go into a stream: the rows of kernels/table.h for a kernel, one after the other, each over as many blocks
 * as its work wants. Products of matrices are cuBLAS's if it has them (products.c).
 *
 * Interface: cuda_has, cuda_room; cuda_launch, cuda_launch_rows. In PyTorch: ATen/native/cuda/Loops.cuh,
 * launch_bounds and grids there. */
#include <stdio.h>
#include "plugins/cuda/cuda.h"
#include "plugins/cuda/kernels/table.h"
#include "tensor/cpu/draw.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/update.h"

/* A processor holds eight blocks of 256 threads; more in a grid would only come after these. */
enum { BLOCKS_EACH = 8 };

static int64_t
count_of(const struct cpu_view *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->dims; d++)
        count *= view->size[d];
    return count;
}

/* Rows of `out` along the call's dimension. */
static int64_t
rows_of(const struct cpu_call *call)
{
    int64_t dim = call->dim < 0 ? call->dim + call->out.dims : call->dim;
    if (dim < 0 || dim >= call->out.dims)
        return 1;
    return call->out.size[dim] > 0 ? count_of(&call->out) / call->out.size[dim] : 0;
}

static int64_t
drawn_of(const struct draw_job *job)
{
    int64_t width = draw_width(job->kind);
    return job->count / width + (job->count % width != 0);
}

static int64_t
viewed_of(enum kernel kernel, const void *params)
{
    if (kernel == KERNEL_update)
        return count_of(&((const struct update_job *)params)->view[UPDATE_PARAM]);
    if (kernel == KERNEL_draw)
        return drawn_of(params);
    if (kernel == KERNEL_all_reduce) {
        const struct all_reduce_job *all = params;
        return (int64_t)(all->bytes / dtype_size(all->dtype));
    }
    const struct elements_job *job = params;
    return (int64_t)(job->bytes / dtype_size(job->dtype));
}

static int64_t
blocks_for(int64_t threads)
{
    return threads / BLOCK_THREADS + (threads % BLOCK_THREADS != 0);
}

/* Blocks for a row of the table; 0: there is nothing to do, and CUDA takes no empty grid. */
static int64_t
blocks_of(const struct gpu_kernel *row, const void *params)
{
    const struct cpu_call *call = params;       /* of the kinds of grid that look into it */
    int64_t                blocks = 1;
    switch (row->grid) {
    case GRID_OUT:       return blocks_for(count_of(&call->out));
    case GRID_IN0:       return blocks_for(count_of(&call->in[0]));
    case GRID_IN1:       return blocks_for(count_of(&call->in[1]));
    case GRID_IN2:       return blocks_for(count_of(&call->in[2]));
    case GRID_VIEW:      return blocks_for(viewed_of(row->kernel, params));
    case GRID_BLOCK_OUT: blocks = count_of(&call->out); break;
    case GRID_BLOCK_ROW: blocks = rows_of(call); break;
    case GRID_BLOCK:     break;
    case GRID_FULL:      return INT64_MAX;
    }
    return blocks > 0 ? blocks : 1;
}

bool
cuda_has(int kernel, const void *params)
{
    return kernel >= 0 && kernel < KERNEL_COUNT && gpu_kernel_first((enum kernel)kernel) != NULL &&
           gpu_has((enum kernel)kernel, params);
}

size_t
cuda_room(int kernel, const void *params)
{
    return cuda_has(kernel, params) ? gpu_room((enum kernel)kernel, params) : 0;
}

/* Errors of this launch name its kernel; those of an earlier one are for cuda_done to tell. */
static bool
row_launch(struct backend_stream *stream, const struct gpu_kernel *row, void *params, uint64_t ticket,
           struct backend_why *why)
{
    int64_t blocks = blocks_of(row, params), most = (int64_t)stream->device->processors * BLOCKS_EACH;
    char    what[120];
    if (blocks == 0)
        return true;
    dim3 grid = { (unsigned)(blocks < most ? blocks : most), 1, 1 }, block = { BLOCK_THREADS, 1, 1 };
    void *arguments[] = { params };
    journal_add(stream->journal, row->symbol, ticket);
    cudaError_t error = cudaLaunchKernel(row->address, grid, block, arguments, 0, stream->stream);
    if (error == cudaSuccess)
        error = cudaPeekAtLastError();
    if (error == cudaSuccess)
        return true;
    snprintf(what, sizeof what, "launching the kernel %s in %u blocks on cuda:%d", row->symbol, grid.x,
             stream->device->number);
    return cuda_done(error, what, why);
}

static bool
no_kernel(int kernel, struct backend_why *why)
{
    why->trouble = TROUBLE_FAILED;
    snprintf(why->text, sizeof why->text, "GPUs have no kernel of number %d; whoever launches asks `has` first",
             kernel);
    return false;
}

bool
cuda_launch_rows(struct backend_stream *stream, enum kernel kernel, const void *params, size_t bytes, uint64_t ticket,
                 struct backend_why *why)
{
    const struct gpu_kernel *row = gpu_kernel_first(kernel);
    if (row == NULL)
        return no_kernel(kernel, why);
    for (; row != NULL; row = gpu_kernel_next(row)) {
        if (row->params != bytes) {
            why->trouble = TROUBLE_FAILED;
            snprintf(why->text, sizeof why->text, "the kernel %s takes parameters of %zu bytes, not of %zu: the "
                     "plug-in was built from other sources; run make", row->symbol, row->params, bytes);
            return false;
        }
        if (!row_launch(stream, row, (void *)(uintptr_t)params, ticket, why))     /* CUDA copies them */
            return false;
    }
    return true;
}

/* By cuBLAS, else by the table's rows. */
static bool
launch_either(struct backend_stream *stream, enum kernel kernel, const void *params, size_t bytes, uint64_t ticket,
              struct backend_why *why)
{
    switch (products_launch(stream, kernel, params, why)) {
    case PRODUCT_FAILED: return false;
    case PRODUCT_DONE:   journal_add(stream->journal, "a product of matrices", ticket); return true;
    case PRODUCT_NOT_MINE: break;
    }
    return cuda_launch_rows(stream, kernel, params, bytes, ticket, why);
}

bool
cuda_launch(struct backend_stream *stream, int kernel, const void *params, size_t bytes, uint64_t ticket,
            struct backend_why *why)
{
    if (!cuda_enter(stream->device, why))
        return false;
    if (kernel < 0 || kernel >= KERNEL_COUNT)
        return no_kernel(kernel, why);
    timeline_before(stream, ticket);
    bool done = launch_either(stream, (enum kernel)kernel, params, bytes, ticket, why);
    timeline_after(stream, ticket);
    return done;
}

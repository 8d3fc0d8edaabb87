/* What is put into the fake's streams beside events: copies, settings, kernels; and how each is run. See fake.h. */
#include "fake.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emulate.h"

enum { MOST_THREADS = 1024, MOST_BLOCKS = 65535 };

static struct { uint64_t launches; } seen;     /* under the lock: each launch has an order of threads of its own */

/* ---- running ---- */

/* What a real GPU does at an address that is not its own: it tells later, for good. */
static void
run_illegal(const struct op *op)
{
    fprintf(stderr, "fake CUDA: %s touches what it must not, as RINGSIDE_FAKE_CUDA wants it\n", op->row->symbol);
    fake_break(cudaErrorIllegalAddress);
}

static void
run_work(const struct op *op)
{
    fake_open();
    op->function(op->context);
    fake_close();
}

static void
run_kernel(struct CUstream_st *stream, const struct op *op)
{
    char why[400] = "";
    if (fake_strikes(&fake.fail_illegal)) {
        run_illegal(op);
        return;
    }
    const void *params = fake_check_begin(stream, op);
    if (!emulate(op->row, params, op->blocks, ++seen.launches, why, sizeof why)) {
        fprintf(stderr, "fake CUDA: %s\n", why);
        fake_break(cudaErrorLaunchTimeout);
        return;
    }
    fake_check_row_done(stream, op);
}

void
fake_run(struct CUstream_st *stream, struct op *op)
{
    if (op->kind != OP_KERNEL)
        fake_check_end(stream);
    switch (op->kind) {
    case OP_COPY:   memmove(op->to, op->from, op->bytes); break;
    case OP_SET:    memset(op->to, op->value, op->bytes); break;
    case OP_KERNEL: run_kernel(stream, op); break;
    case OP_WORK:   run_work(op); break;
    case OP_WAIT:
    case OP_MARK:
    case OP_HOST:   break;
    }
}

static bool
overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const char *x = a, *y = b;
    return x < y + b_bytes && y < x + a_bytes;
}

bool
fake_op_uses(const struct op *op, const void *memory, size_t bytes, const char **by)
{
    struct fake_range ranges[FAKE_RANGES];
    switch (op->kind) {
    case OP_COPY:
        *by = "a copy";
        return overlap(op->to, op->bytes, memory, bytes) || overlap(op->from, op->bytes, memory, bytes);
    case OP_SET: *by = "a setting"; return overlap(op->to, op->bytes, memory, bytes);
    case OP_KERNEL:
        *by = op->row->symbol;
        for (int i = fake_ranges(op->row->kernel, op->params, ranges); i-- > 0;)
            if (overlap(ranges[i].at, ranges[i].bytes, memory, bytes))
                return true;
        return false;
    default: return false;
    }
}

/* ---- copies ---- */

static cudaError_t
side_wrong(const char *side, const void *memory, size_t bytes, int device)
{
    int place = fake_place(memory, bytes);
    if (place == PLACE_NOWHERE)
        return fake_misuse(cudaErrorInvalidValue, "%zu bytes at %p %s lie in no one piece of a GPU's memory", bytes,
                           memory, side);
    if (device < 0 && place >= 0)
        return fake_misuse(cudaErrorInvalidValue, "%p %s is said to be the host's and is GPU %d's", memory, side,
                           place);
    if (device >= 0 && place != device)
        return fake_misuse(cudaErrorInvalidValue, "%p %s is said to be GPU %d's and is %s", memory, side, device,
                           place >= 0 ? "another one's" : "the host's");
    return cudaSuccess;
}

/* With pageable memory a copy is over when the call is. */
static cudaError_t
copy_queue(const struct op *copy, cudaStream_t stream)
{
    bool       waits = fake_place(copy->to, copy->bytes) == PLACE_PAGEABLE ||
                       fake_place(copy->from, copy->bytes) == PLACE_PAGEABLE;
    struct op *op    = fake_queue(stream, OP_COPY);
    op->to           = fake_reach(copy->to);
    op->from         = fake_reach(copy->from);
    op->bytes        = copy->bytes;
    if (waits)
        return fake_run_until(stream, NULL);
    fake_queued(stream);
    return cudaSuccess;
}

static cudaError_t
copy(const struct op *copy, int to, int from, cudaStream_t stream)
{
    cudaError_t error = fake_stream_wrong(stream);
    if (error == cudaSuccess)
        error = side_wrong("that is copied to", copy->to, copy->bytes, to);
    if (error == cudaSuccess)
        error = side_wrong("that is copied from", copy->from, copy->bytes, from);
    return error != cudaSuccess || copy->bytes == 0 ? error : copy_queue(copy, stream);
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = fake_enter("cudaMemcpyAsync");
    if (error != cudaSuccess)
        return fake_leave(error);
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault)
        return fake_leave(fake_misuse(cudaErrorInvalidValue, "a copy that does not say from where to where"));
    struct op op = { .to = to, .from = from, .bytes = bytes };
    return fake_leave(copy(&op, to_device ? fake_current() : -1, from_device ? fake_current() : -1, stream));
}

cudaError_t
cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = fake_enter("cudaMemcpyPeerAsync");
    if (error == cudaSuccess && (to_device < 0 || to_device >= fake.devices || from_device < 0 ||
                                 from_device >= fake.devices))
        error = fake_misuse(cudaErrorInvalidDevice, "there is no GPU %d or %d", to_device, from_device);
    struct op op = { .to = to, .from = from, .bytes = bytes };
    return fake_leave(error != cudaSuccess ? error : copy(&op, to_device, from_device, stream));
}

cudaError_t
cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = fake_enter("cudaMemsetAsync");
    if (error == cudaSuccess)
        error = fake_stream_wrong(stream);
    if (error == cudaSuccess)
        error = side_wrong("that is set", to, bytes, fake_current());
    if (error == cudaSuccess && bytes > 0) {
        struct op *op = fake_queue(stream, OP_SET);
        op->to        = fake_reach(to);
        op->value     = value;
        op->bytes     = bytes;
        fake_queued(stream);
    }
    return fake_leave(error);
}

cudaError_t
fake_queue_work(cudaStream_t stream, void (*function)(void *context), void *context)
{
    cudaError_t error = fake_enter("another library's call");
    if (error == cudaSuccess && (error = fake_stream_wrong(stream)) == cudaSuccess) {
        struct op *op = fake_queue(stream, OP_WORK);
        op->function  = function;
        op->context   = context;
        fake_queued(stream);
    }
    return fake_leave(error);
}

/* ---- kernels ---- */

/* Kernels share some rows, but none their first one where the rest differs. `last`: launched before it, or NULL. */
static const struct gpu_kernel *
row_at(const void *address, const struct gpu_kernel *last)
{
    for (const struct gpu_kernel *row = last; row != NULL; row = gpu_kernel_next(row))
        if (row != last && row->address == address)
            return row;
    for (size_t i = 0; i < gpu_kernel_count(); i++)
        if (gpu_kernel_at(i)->address == address)
            return gpu_kernel_at(i);
    return NULL;
}

/* One that has no code for this GPU is told of when it is asked for, or launched. */
static cudaError_t
row_wrong(const struct gpu_kernel *row)
{
    if (row == NULL)
        return fake_misuse(cudaErrorInvalidDeviceFunction, "a kernel that is not in the table");
    return fake.wrong_architecture ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

cudaError_t
cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *address)
{
    cudaError_t error = fake_enter("cudaFuncGetAttributes");
    if (error == cudaSuccess && (error = row_wrong(row_at(address, NULL))) == cudaSuccess) {
        memset(attributes, 0, sizeof *attributes);
        attributes->maxThreadsPerBlock = MOST_THREADS;
        attributes->binaryVersion      = 90;
        attributes->ptxVersion         = 90;
    }
    return fake_leave(error);
}

static cudaError_t
grid_wrong(dim3 grid, dim3 block, size_t shared)
{
    if (grid.x == 0 || grid.y != 1 || grid.z != 1 || grid.x > MOST_BLOCKS)
        return fake_misuse(cudaErrorInvalidConfiguration, "a grid of %u x %u x %u blocks", grid.x, grid.y, grid.z);
    if (block.x != BLOCK_THREADS || block.y != 1 || block.z != 1)
        return fake_misuse(cudaErrorInvalidConfiguration, "blocks of %u x %u x %u threads", block.x, block.y, block.z);
    if (shared != 0)
        return fake_misuse(cudaErrorInvalidConfiguration, "%zu bytes of shared memory that no kernel asks for", shared);
    return cudaSuccess;
}

/* A GPU finds out when the kernel runs; here it is known before. */
static cudaError_t
memory_wrong(const struct gpu_kernel *row, const void *params, int device)
{
    struct fake_range ranges[FAKE_RANGES];
    for (int i = fake_ranges(row->kernel, params, ranges); i-- > 0;) {
        int place = fake_place(ranges[i].at, ranges[i].bytes);
        if (place == device || place == PLACE_PINNED)
            continue;
        const char *whose = place >= 0 ? "another GPU's" : place == PLACE_PAGEABLE ? "the host's" : "nobody's";
        return fake_misuse(cudaErrorIllegalAddress, "%s on GPU %d is to touch %zu bytes of %s memory: %s at %p",
                           row->symbol,
                           device, ranges[i].bytes, whose, ranges[i].what, (void *)ranges[i].at);
    }
    return cudaSuccess;
}

static cudaError_t
launch(const struct gpu_kernel *row, dim3 grid, void **arguments, cudaStream_t stream)
{
    cudaError_t error = memory_wrong(row, arguments[0], stream->device);
    if (error != cudaSuccess) {
        fake_break(error);
        return error;
    }
    if (fake_strikes(&fake.fail_launch))
        return cudaErrorLaunchOutOfResources;
    struct op *op = fake_queue(stream, OP_KERNEL);
    op->row       = row;
    op->blocks    = grid.x;
    op->params    = malloc(row->params);
    if (op->params == NULL)
        abort();
    memcpy(op->params, arguments[0], row->params);
    fake_reach_params(row->kernel, op->params);
    stream->last = row;
    fake_queued(stream);
    return cudaSuccess;
}

cudaError_t
cudaLaunchKernel(const void *address, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    const struct gpu_kernel *row   = NULL;
    cudaError_t              error = fake_enter("cudaLaunchKernel");
    if (error == cudaSuccess)
        error = fake_stream_wrong(stream);
    if (error == cudaSuccess)
        error = row_wrong(row = row_at(address, stream->last));
    if (error == cudaSuccess)
        error = grid_wrong(grid, block, shared);
    return fake_leave(error != cudaSuccess ? error : launch(row, grid, arguments, stream));
}

/* One text for the GPU and for the CPU. nvcc compiles a kernel for GPUs; a host compiler makes the same text a plain
 * function, which runs a block's threads as fibers that change at barriers, in an order that a seed draws
 * (tests/cuda/fake): so barriers and indices are tested where there is no GPU.
 *
 * A kernel is KERNEL_OF(symbol, struct its_params) { ... call ... }; it is right for any number of blocks of `block_threads`
 * threads: each thread takes what is `each_from(call_count)` apart. What it reads and writes is what the CPU's function of
 * the same number reads and writes, in the CPU's order of sums, so that bits are equal.
 *
 * Beside the C library's exact functions (sqrt, floor, fma, ldexp, frexp, fmod ...) only functions marked BOTH are called.
 * Nothing is contracted (--fmad=false, -ffp-contract=off); fmaf stands where one rounding is wanted. */
#ifndef CUDA_KERNELS_DEVICE_H
#define CUDA_KERNELS_DEVICE_H
#include "tensor/cpu/kernels.h"
#include "base/both.h"
#include "plugins/cuda/kernels/table.h"

#ifdef __CUDACC__

#define KERNEL_OF(symbol, params)                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) gpu_##symbol(const __grid_constant__ params call)
#define SHARED __shared__
#define ON_DEVICE static __device__ inline
static __device__ inline void block_barrier(void) { __syncthreads(); }
template <typename T> static __device__ inline T
lane_down(T value, unsigned by)              /* of the lane `by` above, of the same warp; all its lanes come by */
{
    return __shfl_down_sync(0xffffffffu, value, by);
}
static __device__ inline unsigned thread_index(void) { return threadIdx.x; }
static __device__ inline unsigned block_index(void) { return blockIdx.x; }
static __device__ inline unsigned block_count(void) { return gridDim.x; }
static __device__ inline void before_all(void) { __threadfence_system(); }

#else

/* A thread runs one block at a time; what is SHARED is the block's. */
#define KERNEL_OF(symbol, params)                                                                                  \
    static void body_##symbol(const params &call);                                                                 \
    extern "C" void gpu_##symbol(const void *p);                                                                   \
    extern "C" void gpu_##symbol(const void *p) { body_##symbol(*static_cast<const params *>(p)); }                \
    static void body_##symbol(const params &call)
#define SHARED static thread_local
#define ON_DEVICE static inline
extern "C" {
void     emulated_barrier(void);
double   emulated_down(double value, unsigned by);   /* of 32 or 64 bits, which pass through unchanged as bits */
uint64_t emulated_down_bits(uint64_t value, unsigned by);
unsigned emulated_thread(void);
unsigned emulated_block(void);
unsigned emulated_blocks(void);
}
static inline void block_barrier(void) { emulated_barrier(); }
template <typename T> static inline T
lane_down(T value, unsigned by)
{
    uint64_t bits = 0;
    static_assert(sizeof value <= sizeof bits, "a lane gives at most 64 bits");
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = emulated_down_bits(bits, by);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
static inline unsigned thread_index(void) { return emulated_thread(); }
static inline unsigned block_index(void) { return emulated_block(); }
static inline unsigned block_count(void) { return emulated_blocks(); }
static inline void before_all(void) { __sync_synchronize(); }

#endif

/* for (int64_t i = first_item(); i < count; i += item_step()): a thread for each item, whatever the grid. */
ON_DEVICE int64_t first_item(void) { return (int64_t)block_index() * BLOCK_THREADS + thread_index(); }
ON_DEVICE int64_t item_step(void) { return (int64_t)block_count() * BLOCK_THREADS; }
/* for (int64_t i = block_index(); i < count; i += block_count()): a block for each item. */

/* The CPU's fault_raise; the struct lies in memory that the host reads. NULL: nobody asks. */
ON_DEVICE void
raise_fault(struct kernel_fault *fault, int64_t index, int64_t limit)
{
    if (fault == NULL)
        return;
    volatile struct kernel_fault *told = fault;
    told->index = index;
    told->limit = limit;
    before_all();
    told->raised = 1;
}
#endif

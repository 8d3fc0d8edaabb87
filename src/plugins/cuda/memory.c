/* Memory of GPUs in segments, which the engine's pool divides, and the host's memory that GPUs can reach.
 *
 * Interface: cuda_segment, cuda_segment_give; cuda_pinned, cuda_pinned_give. In PyTorch: cudaMalloc behind
 * c10/cuda/CUDACachingAllocator.cpp, and ATen's CachingHostAllocator. */
#include <stdio.h>
#include "plugins/cuda/cuda.h"

enum { SEGMENT_ALIGNED = 512 };

void *
cuda_segment(struct backend_device *device, size_t bytes, struct backend_why *why)
{
    void *memory = NULL;
    if (!cuda_enter(device, why))
        return NULL;
    cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        (void)cuda_no_memory(device, bytes, "a segment was to be taken", why);
        return NULL;
    }
    if (!cuda_done(error, "taking a segment of memory", why))
        return NULL;
    if ((uintptr_t)memory % SEGMENT_ALIGNED == 0)
        return memory;
    (void)cudaFree(memory);
    why->trouble = TROUBLE_FAILED;
    snprintf(why->text, sizeof why->text, "CUDA gave memory at %p, and kernels want it at multiples of %d", memory,
             SEGMENT_ALIGNED);
    return NULL;
}

/* Nobody can be told of an error here; a sticky one meets the next call. */
void
cuda_segment_give(struct backend_device *device, void *segment, size_t bytes)
{
    struct backend_why why;
    (void)bytes;
    if (segment != NULL && cuda_enter(device, &why))
        (void)cuda_done(cudaFree(segment), "giving back a segment of memory", &why);
}

/* Portable: for all GPUs. Mapped: at an address that kernels may use, which is the host's since all share one space. */
void *
cuda_pinned(size_t bytes, struct backend_why *why)
{
    void *memory = NULL;
    if (cuda_is_broken(why) || !cuda_is_here(why))
        return NULL;
    cudaError_t error = cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        why->trouble = TROUBLE_MEMORY;
        snprintf(why->text, sizeof why->text, "the host has no %zu bytes more that can be pinned for GPUs; "
                 "`ulimit -l` and a container's limits count", bytes);
        return NULL;
    }
    return cuda_done(error, "pinning memory of the host", why) ? memory : NULL;
}

void
cuda_pinned_give(void *memory, size_t bytes)
{
    struct backend_why why;
    (void)bytes;
    if (memory != NULL && !cuda_is_broken(&why))
        (void)cuda_done(cudaFreeHost(memory), "giving back pinned memory", &why);
}

/* The table that the engine asks for, and devices: each is a view of a GPU, of which several may share one. What is
 * done once for a GPU (its kernels are loaded, ways to the others opened) is done for the process, as CUDA's context
 * is.
 *
 * Interface: ringside_device_backend_1. In PyTorch: c10/cuda/impl/CUDAGuardImpl.h, at::cuda::detail::CUDAHooks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "plugins/cuda/cuda.h"
#include "plugins/cuda/kernels/table.h"

static struct { pthread_mutex_t mutex; bool is_open[PROBE_DEVICES]; } gpus = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Kernels are loaded when first asked for. Now is better than in the middle: another stream's kernel might have to end
 * first; and code for the wrong architecture is told before there is work. */
static bool
load_kernels(struct backend_why *why)
{
    for (size_t i = 0; i < gpu_kernel_count(); i++) {
        const struct gpu_kernel  *row = gpu_kernel_at(i);
        struct cudaFuncAttributes attributes;
        char                      what[120];
        snprintf(what, sizeof what, "loading the kernel %s", row->symbol);
        if (!cuda_done(cudaFuncGetAttributes(&attributes, row->address), what, why))
            return false;
    }
    return true;
}

/* From `from` to `to`, if the machine has such a way. Without it copies go through the host: no error. */
static void
open_way(int from, int to)
{
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || !can || cudaSetDevice(from) != cudaSuccess ||
        cudaDeviceEnablePeerAccess(to, 0) != cudaSuccess)
        (void)cudaGetLastError();
}

static bool
gpu_open(const struct backend_device *device, struct backend_why *why)
{
    bool done = true;
    pthread_mutex_lock(&gpus.mutex);
    if (!gpus.is_open[device->physical] && (done = load_kernels(why))) {
        for (int other = 0; other < cuda_physical_count(); other++) {
            if (!gpus.is_open[other])
                continue;
            open_way(device->physical, other);
            open_way(other, device->physical);
        }
        gpus.is_open[device->physical] = true;
        done = cuda_done(cudaSetDevice(device->physical), "choosing the GPU", why);
    }
    pthread_mutex_unlock(&gpus.mutex);
    return done;
}

static bool
device_fill(struct backend_device *device, struct backend_why *why)
{
    size_t free = 0, total = 0;
    if (!cuda_enter(device, why) || !gpu_open(device, why) ||
        !cuda_done(cudaMemGetInfo(&free, &total), "asking for the GPU's memory", why) ||
        !cuda_done(cudaDeviceGetAttribute(&device->processors, cudaDevAttrMultiProcessorCount, device->physical),
                   "asking for the GPU's processors", why))
        return false;
    device->memory = total;
    return true;
}

static struct backend_device *
plugin_open(int number, const struct backend_host *host, struct backend_why *why)
{
    if (cuda_is_broken(why) || !cuda_is_here(why))
        return NULL;
    struct backend_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        *why = (struct backend_why){ TROUBLE_MEMORY, "the host has no memory for a device's bookkeeping" };
        return NULL;
    }
    device->number   = number;
    device->physical = number % cuda_physical_count();
    device->host     = *host;
    if (!device_fill(device, why)) {
        free(device);
        return NULL;
    }
    device->host.timeline = host->timeline && timeline_open(host);
    return device;
}

static void
plugin_close(struct backend_device *device)
{
    free(device);
}

static int
plugin_physical(const struct backend_device *device)
{
    return device->physical;
}

static uint64_t
plugin_memory(const struct backend_device *device)
{
    return device->memory;
}

#define SHOWN __attribute__((visibility("default")))
extern const struct device_backend ringside_device_backend_1;
SHOWN const struct device_backend ringside_device_backend_1 = {
    .abi          = DEVICE_BACKEND_ABI,
    .size         = sizeof(struct device_backend),
    .name         = "cuda",
    .probe        = cuda_probe,
    .open         = plugin_open,
    .close        = plugin_close,
    .physical     = plugin_physical,
    .memory       = plugin_memory,
    .segment      = cuda_segment,
    .segment_give = cuda_segment_give,
    .pinned       = cuda_pinned,
    .pinned_give  = cuda_pinned_give,
    .stream       = cuda_stream,
    .stream_close = cuda_stream_close,
    .copy         = cuda_copy,
    .set          = cuda_set,
    .launch       = cuda_launch,
    .has          = cuda_has,
    .room         = cuda_room,
    .mark         = cuda_mark,
    .mark_free    = cuda_mark_free,
    .put          = cuda_put,
    .wait         = cuda_wait,
    .is_past      = cuda_is_past,
    .finish       = cuda_finish,
    .records      = timeline_records,
    .range_begin  = timeline_range_begin,
    .range_end    = timeline_range_end,
};

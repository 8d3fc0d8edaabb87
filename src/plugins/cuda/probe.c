/* Which GPUs are here, or why none is. Asking never fails and creates nothing on a GPU.
 *
 * The answer about their number is asked for once and kept for the process: so does CUDA.
 *
 * Interface: cuda_probe, cuda_is_here, cuda_physical_count. In PyTorch: c10/cuda/CUDAFunctions.h. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "plugins/cuda/cuda.h"
#include "plugins/cuda/kernels/table.h"
#include "plugins/cuda/nccl_api.h"

static struct { pthread_once_t once; int count; struct backend_why why; } here = { .once = PTHREAD_ONCE_INIT };

static void
look(void)
{
    int         count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        (void)cuda_absent(error, &here.why);      /* `count` was not written */
    else if (count <= 0)
        (void)cuda_absent(cudaErrorNoDevice, &here.why);
    else
        here.count = count < PROBE_DEVICES ? count : PROBE_DEVICES;
}

bool
cuda_is_here(struct backend_why *why)
{
    pthread_once(&here.once, look);
    if (here.count == 0)
        *why = here.why;
    return here.count > 0;
}

int
cuda_physical_count(void)
{
    return here.count;
}

/* ---- for people ---- */

static int
attribute(enum cudaDeviceAttr name, int gpu)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, name, gpu) != cudaSuccess)
        (void)cudaGetLastError();
    return value;
}

static void
probe_note(struct probed_device *device, int gpu)
{
    int mode = attribute(cudaDevAttrComputeMode, gpu);
    if (mode == cudaComputeModeProhibited)
        snprintf(device->note, sizeof device->note, "its compute mode lets no process use it");
    else if (mode == cudaComputeModeExclusiveProcess || mode == cudaComputeModeExclusive)
        snprintf(device->note, sizeof device->note, "its compute mode lets one process at a time use it");
    else if (strstr(device->name, "MIG ") != NULL)
        snprintf(device->note, sizeof device->note, "a part of a GPU (MIG)");
}

static void
probe_device(struct probed_device *device, int gpu)
{
    struct cudaDeviceProp properties;
    memset(&properties, 0, sizeof properties);
    if (cudaGetDeviceProperties(&properties, gpu) != cudaSuccess) {
        (void)cudaGetLastError();
        snprintf(properties.name, sizeof properties.name, "a GPU that does not tell its name");
    }
    snprintf(device->name, sizeof device->name, "%s", properties.name);
    device->memory     = properties.totalGlobalMem;
    device->major      = attribute(cudaDevAttrComputeCapabilityMajor, gpu);
    device->minor      = attribute(cudaDevAttrComputeCapabilityMinor, gpu);
    device->processors = attribute(cudaDevAttrMultiProcessorCount, gpu);
    probe_note(device, gpu);
}

static void
part(struct backend_probe *probe, const char *format, ...)
{
    va_list args;
    if (probe->part_count >= (int)(sizeof probe->parts / sizeof *probe->parts))
        return;
    va_start(args, format);
    vsnprintf(probe->parts[probe->part_count++], sizeof probe->parts[0], format, args);
    va_end(args);
}

/* Which way bytes take from one GPU to another. */
static void
probe_paths(struct backend_probe *probe)
{
    int straight = 0, pairs = probe->count * (probe->count - 1);
    for (int from = 0; from < probe->count; from++) {
        for (int to = 0; to < probe->count; to++) {
            int can = 0;
            if (from != to && cudaDeviceCanAccessPeer(&can, to, from) != cudaSuccess)
                (void)cudaGetLastError();
            straight += can != 0;
        }
    }
    if (pairs > 0 && straight == pairs)
        part(probe, "copies between GPUs go straight from one to the other (peer access)");
    else if (pairs > 0)
        part(probe, "copies between GPUs: %d of %d ways are straight (peer access), the others go through the host's "
                    "memory",
             straight, pairs);
}

/* NCCL is opened for it, which takes some milliseconds. */
static void
probe_collectives(struct backend_probe *probe)
{
    struct backend_why     why     = { TROUBLE_NONE, "" };
    int                    version = 0;
    const struct nccl_api *api     = nccl_load(&why);
    if (api == NULL)
        part(probe, "collectives: our own, without NCCL: %s", why.text);
    else if (api->version(&version) == 0)
        part(probe, "collectives: NCCL %d.%d.%d, and our own", version / 10000, version / 100 % 100, version % 100);
}

void
cuda_probe(struct backend_probe *probe)
{
    struct backend_why why     = { TROUBLE_NONE, "" };
    int                runtime = 0, driver = 0;
    memset(probe, 0, sizeof *probe);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaDriverGetVersion(&driver);
    char has_driver[32] = "no driver";
    if (driver > 0)
        snprintf(has_driver, sizeof has_driver, "driver %d.%d", driver / 1000, driver % 1000 / 10);
    snprintf(probe->version, sizeof probe->version, "runtime %d.%d, %s; %zu kernels, for %s", runtime / 1000,
             runtime % 1000 / 10, has_driver, gpu_kernel_count(), CUDA_BUILT_FOR);
    if (!cuda_is_here(&why)) {
        snprintf(probe->why, sizeof probe->why, "%s", why.text);
        return;
    }
    probe->count = cuda_physical_count();
    for (int gpu = 0; gpu < probe->count; gpu++)
        probe_device(&probe->device[gpu], gpu);
    probe_paths(probe);
    products_probe(probe);
    probe_collectives(probe);
    timeline_probe(probe);
}

/* CUDA's errors as sentences: what happened, and what to do. Some errors are for good ("sticky": CUDA answers every
 * later call of the process with them); the first is kept, and told again with the same words.
 *
 * CUDA's current GPU is the thread's, and such an error is the process's: so is what is kept of both here.
 *
 * Interface: cuda_done, cuda_is_broken, cuda_enter; cuda_absent; cuda_no_memory. In PyTorch:
 * c10/cuda/CUDAException.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/cuda/cuda.h"

/* What of CUDA's errors needs more than CUDA's own words. Numbers where CUDA 11.8 has no name yet. */
struct meaning { int error; enum backend_trouble trouble; const char *hint; };

static const struct meaning meanings[] = {
    { cudaErrorInitializationError, TROUBLE_MISSING,
      "CUDA did not start; a process that was forked after CUDA had started cannot use it" },
    { cudaErrorDevicesUnavailable, TROUBLE_MISSING,
      "the GPU takes no more processes: another one has it for itself, or its compute mode forbids any; see "
      "`nvidia-smi -q -d COMPUTE`" },
    { cudaErrorSystemNotReady, TROUBLE_MISSING,
      "the GPUs' fabric is not up; see `systemctl status nvidia-fabricmanager`, in a container on its host" },
    { cudaErrorSystemDriverMismatch, TROUBLE_MISSING,
      "the driver's library is not that of the loaded kernel module: restart the machine after an update of the "
      "driver, or the container" },
    { cudaErrorCompatNotSupportedOnDevice, TROUBLE_MISSING,
      "a library for forward compatibility (libcuda of cuda-compat) is in the way, which this GPU does not allow: "
      "take it out of LD_LIBRARY_PATH" },
    { cudaErrorMpsConnectionFailed, TROUBLE_MISSING,
      "the MPS server does not answer; start it again, or unset CUDA_MPS_PIPE_DIRECTORY" },
    { cudaErrorUnsupportedPtxVersion, TROUBLE_MISSING,
      "the driver is older than the toolkit and the plug-in has no native code for this GPU: update the driver, or "
      "build for it, `make SM=90` for an sm_90" },
    { cudaErrorInvalidDeviceFunction, TROUBLE_FAILED, "the plug-in was built without this kernel: run make again" },
    { cudaErrorLaunchOutOfResources, TROUBLE_FAILED, "the GPU has too few registers or too little shared memory for "
                                                     "the kernel" },
    { cudaErrorECCUncorrectable, TROUBLE_BROKEN, "the GPU's memory has failed; see `nvidia-smi -q -d ECC`" },
    { cudaErrorNvlinkUncorrectable, TROUBLE_BROKEN, "a link between GPUs has failed; see `nvidia-smi nvlink -e`" },
    { 226 /* cudaErrorContained */, TROUBLE_BROKEN, "the GPU's memory has failed; see `nvidia-smi -q -d ECC`" },
    { cudaErrorIllegalAddress, TROUBLE_BROKEN,
      "a kernel read or wrote memory that is not its own; compute-sanitizer shows where" },
    { cudaErrorLaunchTimeout, TROUBLE_BROKEN, "a kernel ran too long for a GPU that also draws a screen" },
    { cudaErrorContextIsDestroyed, TROUBLE_BROKEN, "somebody in this process has reset the GPU" },
    { cudaErrorAssert, TROUBLE_BROKEN, "a kernel found something that must not be" },
    { cudaErrorHardwareStackError, TROUBLE_BROKEN, "a kernel's stack is spoilt" },
    { cudaErrorIllegalInstruction, TROUBLE_BROKEN, "a kernel met an instruction that is none" },
    { cudaErrorMisalignedAddress, TROUBLE_BROKEN, "a kernel used an address that its type does not allow" },
    { cudaErrorInvalidAddressSpace, TROUBLE_BROKEN, "a kernel took memory of one kind for another" },
    { cudaErrorInvalidPc, TROUBLE_BROKEN, "a kernel jumped where no code is" },
    { cudaErrorLaunchFailure, TROUBLE_BROKEN, "a kernel failed; compute-sanitizer shows where, `dmesg | grep -i xid` "
                                              "what the driver saw" },
    { 721 /* cudaErrorTensorMemoryLeak */, TROUBLE_BROKEN, "a kernel left tensor memory behind" },
    { cudaErrorMpsClientTerminated, TROUBLE_BROKEN, "the MPS server ended this process's work, maybe for another "
                                                    "one's fault" },
    { cudaErrorExternalDevice, TROUBLE_BROKEN, "another device that shares memory with the GPU has failed" },
    { cudaErrorUnknown, TROUBLE_BROKEN,
      "the driver does not know either: try `nvidia-smi`; after a sleep of the machine the driver must be loaded "
      "again, a container needs /dev/nvidia*" },
};

static struct { pthread_mutex_t mutex; atomic_bool is; char text[sizeof ((struct backend_why *)0)->text]; }
    broken = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* CUDA remembers for each thread. -1: not yet said. */
static _Thread_local int current_gpu = -1;

static const struct meaning *
meaning_of(cudaError_t error)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].error == (int)error)
            return &meanings[i];
    return NULL;
}

static bool
say(struct backend_why *why, enum backend_trouble trouble, const char *text)
{
    why->trouble = trouble;
    snprintf(why->text, sizeof why->text, "%s", text);
    return false;
}

bool
cuda_is_broken(struct backend_why *why)
{
    if (!atomic_load_explicit(&broken.is, memory_order_acquire))
        return false;
    say(why, TROUBLE_BROKEN, broken.text);   /* written once, before `is` */
    return true;
}

/* The first one's words are kept: who comes second says them as well. */
static bool
break_down(cudaError_t error, const char *what, const char *hint, struct backend_why *why)
{
    char oldest[200];
    journal_oldest(oldest, sizeof oldest);
    pthread_mutex_lock(&broken.mutex);
    if (!atomic_load(&broken.is)) {
        snprintf(broken.text, sizeof broken.text, "the GPU failed for good, seen when %s: %s (%d): %s%s; this process "
                                                  "must end",
                 what, cudaGetErrorName(error), (int)error, hint, oldest);
        atomic_store_explicit(&broken.is, true, memory_order_release);
    }
    pthread_mutex_unlock(&broken.mutex);
    cuda_is_broken(why);
    return false;
}

static bool
wrong_architecture(struct backend_why *why)
{
    int gpu = 0, major = 0, minor = 0;
    if (cudaGetDevice(&gpu) == cudaSuccess) {
        (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
        (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
    }
    why->trouble = TROUBLE_MISSING;
    snprintf(why->text, sizeof why->text, "the CUDA plug-in has code for %s, and GPU %d is sm_%d%d: build it on this "
             "machine, or with `make SM=%d%d` and a toolkit that has it", CUDA_BUILT_FOR, gpu, major, minor,
             major, minor);
    return false;
}

bool
cuda_done(cudaError_t error, const char *what, struct backend_why *why)
{
    if (error == cudaSuccess)
        return true;
    (void)cudaGetLastError();      /* else the next launch is blamed for it */
    if (cuda_is_broken(why))
        return false;
    if (error == cudaErrorNoKernelImageForDevice)
        return wrong_architecture(why);
    if (error == cudaErrorMemoryAllocation)
        return cuda_no_memory(NULL, 0, what, why);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice)
        return cuda_absent(error, why);
    const struct meaning *meaning = meaning_of(error);
    if (meaning != NULL && meaning->trouble == TROUBLE_BROKEN)
        return break_down(error, what, meaning->hint, why);
    why->trouble = meaning != NULL ? meaning->trouble : TROUBLE_FAILED;
    snprintf(why->text, sizeof why->text, "CUDA failed when %s: %s (%s, %d)%s%s", what, cudaGetErrorString(error),
             cudaGetErrorName(error), (int)error, meaning != NULL ? ": " : "", meaning != NULL ? meaning->hint : "");
    return false;
}

/* ---- memory ---- */

static void
spell_bytes(char *text, size_t room, uint64_t bytes)
{
    if (bytes >= (uint64_t)1 << 30)
        snprintf(text, room, "%.2f GiB", (double)bytes / (double)(1 << 30));
    else if (bytes >= (uint64_t)1 << 20)
        snprintf(text, room, "%.2f MiB", (double)bytes / (double)(1 << 20));
    else
        snprintf(text, room, "%llu bytes", (unsigned long long)bytes);
}

/* `bytes` were asked of the device; 0, NULL: somebody asked for some, `what` says when. */
bool
cuda_no_memory(const struct backend_device *device, size_t bytes, const char *what, struct backend_why *why)
{
    size_t free = 0, total = 0;
    char   asked[40] = "more memory", left[40], all[40], where[60] = "the GPU";
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&free, &total) != cudaSuccess)
        (void)cudaGetLastError();
    if (bytes > 0)
        spell_bytes(asked, sizeof asked, bytes);
    if (device != NULL)
        snprintf(where, sizeof where, "cuda:%d (GPU %d)", device->number, device->physical);
    spell_bytes(left, sizeof left, free);
    spell_bytes(all, sizeof all, total);
    why->trouble = TROUBLE_MEMORY;
    snprintf(why->text, sizeof why->text, "%s has no %s when %s: %s of %s are free; other processes on it count as "
                                          "well (`nvidia-smi`)",
             where, asked, what, left, all);
    return false;
}

/* ---- no GPU at all ---- */

static void
too_old(char *text, size_t room)
{
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0)      /* CUDA's own words for it are "insufficient version" */
        snprintf(text, room, "there is no NVIDIA driver here: install it, or in a container start it with its GPUs "
                             "(`--gpus all`)");
    else
        snprintf(text, room, "the NVIDIA driver here is too old: it knows CUDA %d.%d, and the plug-in was built with "
                             "CUDA %d.%d; "
                 "update the driver, or build with an older toolkit", driver / 1000, driver % 1000 / 10, runtime / 1000,
                 runtime % 1000 / 10);
}

static void
none_visible(char *text, size_t room)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible != NULL)
        snprintf(text, room, "there is an NVIDIA driver, but no visible GPU: CUDA_VISIBLE_DEVICES is \"%.60s\"; unset "
                             "it, or "
                 "name a GPU that `nvidia-smi -L` lists", visible);
    else
        snprintf(text, room, "there is an NVIDIA driver, but no visible GPU: see `nvidia-smi -L`, and in a container "
                 "whether it was given any");
}

/* Why there is no GPU to use, by what asking for their number has answered. */
bool
cuda_absent(cudaError_t error, struct backend_why *why)
{
    const struct meaning *meaning = meaning_of(error);
    (void)cudaGetLastError();
    why->trouble = TROUBLE_MISSING;
    if (error == cudaErrorInsufficientDriver)
        too_old(why->text, sizeof why->text);
    else if (error == cudaErrorNoDevice)
        none_visible(why->text, sizeof why->text);
    else
        snprintf(why->text, sizeof why->text, "CUDA finds no GPU that it can use: %s (%s, %d)%s%s",
                 cudaGetErrorString(error),
                 cudaGetErrorName(error), (int)error, meaning != NULL ? ": " : "",
                 meaning != NULL ? meaning->hint : "");
    return false;
}

/* ---- the thread's GPU ---- */

bool
cuda_enter(const struct backend_device *device, struct backend_why *why)
{
    if (cuda_is_broken(why))
        return false;
    if (current_gpu == device->physical)
        return true;
    if (!cuda_done(cudaSetDevice(device->physical), "choosing the GPU", why))
        return false;
    current_gpu = device->physical;
    return true;
}

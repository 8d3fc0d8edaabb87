/* GPUs that are none: settings, their number and kind, errors. See fake.h.
 *
 * All state here is the process's, as that of the library whose place it takes. */
#include "fake.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_DRIVER = 13000, OLD_DRIVER = 11000, LEAST_PRIORITY = 0, MOST_PRIORITY = -5 };

struct fake_settings   fake = { .devices = 1, .processors = 4, .memory = (size_t)1024 << 20, .check = true,
                                .peer = true, .guard = true, .driver = FAKE_DRIVER };
static struct { pthread_mutex_t lock; pthread_once_t once; cudaError_t broken; }
    state = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

static _Thread_local int         current;
static _Thread_local cudaError_t last;
static _Thread_local const char *call_now;

/* ---- settings ---- */

static bool
is_word(const char *word, const char *name, const char **value)
{
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0 || (word[length] != '\0' && word[length] != '='  && word[length] != ':'))
        return false;
    *value = word[length] == '\0' ? "" : word + length + 1;
    return true;
}

/* A whole number from 1 on. */
static bool
is_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && *out > 0;
}

static bool
set_fail(const char *word)
{
    const struct { const char *name; uint64_t *countdown; } counted[] = {
        { "memory", &fake.fail_memory }, { "pinned", &fake.fail_pinned }, { "illegal", &fake.fail_illegal },
        { "launch", &fake.fail_launch }, { "never", &fake.fail_never },
    };
    const char *value;
    uint64_t    number;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (is_word(word, counted[i].name, &value))
            return is_number(value, counted[i].countdown);
    if (is_word(word, "count", &value) && is_number(value, &number)) {
        fake.count_error = (int)number;
    } else if (is_word(word, "no-driver", &value)) {
        fake.count_error = cudaErrorInsufficientDriver;
        fake.driver      = 0;
    } else if (is_word(word, "old-driver", &value)) {
        fake.count_error = cudaErrorInsufficientDriver;
        fake.driver      = OLD_DRIVER;
    } else if (is_word(word, "no-gpu", &value)) {
        fake.count_error = cudaErrorNoDevice;
    } else if (is_word(word, "wrong-architecture", &value)) {
        fake.wrong_architecture = true;
    } else {
        return false;
    }
    return true;
}

static bool
set_order(const char *value)
{
    const char *seed;
    if (is_word(value, "seed", &seed) && is_number(seed, &fake.random))
        fake.order = ORDER_SEED;
    else if (strcmp(value, "eager") == 0)
        fake.order = ORDER_EAGER;
    else if (strcmp(value, "lazy") == 0)
        fake.order = ORDER_LAZY;
    else
        return false;
    return true;
}

static bool
set_switch(const char *value, bool *out)
{
    *out = strcmp(value, "on") == 0;
    return *out || strcmp(value, "off") == 0;
}

static bool
set_mode(const char *value)
{
    if (strcmp(value, "exclusive") == 0)
        fake.mode = cudaComputeModeExclusiveProcess;
    else if (strcmp(value, "prohibited") == 0)
        fake.mode = cudaComputeModeProhibited;
    else
        return strcmp(value, "shared") == 0;
    return true;
}

static bool
set_word(const char *word)
{
    const char *value;
    uint64_t    number;
    if (is_word(word, "order", &value))
        return set_order(value);
    if (is_word(word, "fail", &value))
        return set_fail(value);
    if (is_word(word, "mode", &value))
        return set_mode(value);
    if (is_word(word, "check", &value))
        return set_switch(value, &fake.check);
    if (is_word(word, "guard", &value))
        return set_switch(value, &fake.guard);
    if (is_word(word, "peer", &value))
        return set_switch(value, &fake.peer);
    if (is_word(word, "devices", &value) && is_number(value, &number) && number <= FAKE_DEVICES)
        fake.devices = (int)number;
    else if (is_word(word, "memory", &value) && is_number(value, &number) && number <= 1 << 20)
        fake.memory = (size_t)number << 20;
    else if (is_word(word, "processors", &value) && is_number(value, &number) && number <= 1024)
        fake.processors = (int)number;
    else
        return false;
    return true;
}

static void
settle(void)
{
    char        words[512];
    const char *set = getenv("RINGSIDE_FAKE_CUDA");
    fputs("fake CUDA: ordering, lifetimes and error paths of host code; no device code ran\n", stderr);
    snprintf(words, sizeof words, "%s", set != NULL ? set : "");
    char *rest = words;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        if (word[0] == '\0' || set_word(word))
            continue;
        fprintf(stderr, "fake CUDA: RINGSIDE_FAKE_CUDA has '%s', which is none of its words (tests/cuda/fake/fake.h)\n",
                word);
        exit(2);
    }
}

/* ---- around each call ---- */

cudaError_t
fake_enter(const char *call)
{
    pthread_once(&state.once, settle);
    pthread_mutex_lock(&state.lock);
    call_now = call;
    if (fake.count_error != 0)
        return (cudaError_t)fake.count_error;
    fake_run_some();
    return state.broken;
}

cudaError_t
fake_leave(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last = error;
    pthread_mutex_unlock(&state.lock);
    return error;
}

pthread_mutex_t *
fake_lock(void)
{
    return &state.lock;
}

cudaError_t
fake_misuse(cudaError_t error, const char *format, ...)
{
    char    text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "fake CUDA: misuse: %s: %s\n", call_now != NULL ? call_now : "a call", text);
    return error;
}

void
fake_break(cudaError_t error)
{
    if (state.broken == cudaSuccess)
        state.broken = error;
}

cudaError_t
fake_broken(void)
{
    return state.broken;
}

int
fake_current(void)
{
    return current;
}

uint64_t
fake_random(void)                            /* splitmix64 */
{
    uint64_t z = fake.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

bool
fake_strikes(uint64_t *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

/* ---- errors ---- */

static const struct { cudaError_t error; const char *name, *text; } errors[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA "
                                                                  "runtime version" },
    { cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable" },
    { cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution "
                                                                          "on the device" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered" },
    { cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch" },
    { cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated" },
    { cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled" },
    { cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported", "peer access is not supported between these "
                                                                        "two devices" },
    { cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted" },
    { cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized" },
    { cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda "
                                                                      "driver combination" },
    { cudaErrorUnknown, "cudaErrorUnknown", "unknown error" },
};

const char *
cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *
cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unrecognized error code";
}

/* What is for good stays. */
cudaError_t
cudaGetLastError(void)
{
    cudaError_t error = last;
    last              = cudaSuccess;
    return error;
}

cudaError_t
cudaPeekAtLastError(void)
{
    return last;
}

/* ---- GPUs ---- */

cudaError_t
cudaDriverGetVersion(int *version)
{
    pthread_once(&state.once, settle);
    *version = fake.driver;
    return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    cudaError_t error = fake_enter("cudaGetDeviceCount");
    if (error == cudaSuccess)
        *count = fake.devices;
    return fake_leave(error);
}

cudaError_t
cudaSetDevice(int device)
{
    cudaError_t error = fake_enter("cudaSetDevice");
    if (error == cudaSuccess && (device < 0 || device >= fake.devices))
        error = fake_misuse(cudaErrorInvalidDevice, "there is no GPU %d", device);
    if (error == cudaSuccess)
        current = device;
    return fake_leave(error);
}

cudaError_t
cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

static int
attribute_of(enum cudaDeviceAttr attribute)
{
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount: return fake.processors;
    case cudaDevAttrComputeCapabilityMajor: return fake.wrong_architecture ? 6 : 9;
    case cudaDevAttrComputeCapabilityMinor: return fake.wrong_architecture ? 1 : 0;
    case cudaDevAttrComputeMode: return fake.mode;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels: return 1;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrWarpSize: return 32;
    default: return -1;
    }
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = fake_enter("cudaDeviceGetAttribute");
    if (error == cudaSuccess && (device < 0 || device >= fake.devices))
        error = fake_misuse(cudaErrorInvalidDevice, "there is no GPU %d", device);
    if (error == cudaSuccess && attribute_of(attribute) < 0)
        error = fake_misuse(cudaErrorInvalidValue, "the fake does not know attribute %d", (int)attribute);
    if (error == cudaSuccess)
        *value = attribute_of(attribute);
    return fake_leave(error);
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t error = fake_enter("cudaGetDeviceProperties");
    if (error == cudaSuccess && (device < 0 || device >= fake.devices))
        error = fake_misuse(cudaErrorInvalidDevice, "there is no GPU %d", device);
    if (error == cudaSuccess) {
        memset(properties, 0, sizeof *properties);
        snprintf(properties->name, sizeof properties->name, "Fake GPU %d", device);
        properties->totalGlobalMem      = fake.memory;
        properties->major               = attribute_of(cudaDevAttrComputeCapabilityMajor);
        properties->minor               = attribute_of(cudaDevAttrComputeCapabilityMinor);
        properties->multiProcessorCount = fake.processors;
        properties->warpSize            = 32;
    }
    return fake_leave(error);
}

cudaError_t
cudaDeviceGetPCIBusId(char *id, int length, int device)
{
    snprintf(id, (size_t)length, "0000:%02X:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetStreamPriorityRange(int *least, int *most)
{
    *least = LEAST_PRIORITY;
    *most  = MOST_PRIORITY;
    return cudaSuccess;
}

/* ---- ways between them ---- */

static bool ways[FAKE_DEVICES][FAKE_DEVICES];

cudaError_t
cudaDeviceCanAccessPeer(int *can, int device, int other)
{
    cudaError_t error = fake_enter("cudaDeviceCanAccessPeer");
    if (error == cudaSuccess && (device < 0 || device >= fake.devices || other < 0 || other >= fake.devices))
        error = fake_misuse(cudaErrorInvalidDevice, "there is no GPU %d or %d", device, other);
    if (error == cudaSuccess)
        *can = fake.peer && device != other;
    return fake_leave(error);
}

cudaError_t
cudaDeviceEnablePeerAccess(int other, unsigned flags)
{
    cudaError_t error = fake_enter("cudaDeviceEnablePeerAccess");
    if (error == cudaSuccess && (flags != 0 || other < 0 || other >= fake.devices || other == current))
        error = fake_misuse(cudaErrorInvalidDevice, "GPU %d opens no way to %d", current, other);
    if (error == cudaSuccess && !fake.peer)
        error = cudaErrorPeerAccessUnsupported;
    if (error == cudaSuccess && ways[current][other])
        error = cudaErrorPeerAccessAlreadyEnabled;
    if (error == cudaSuccess)
        ways[current][other] = true;
    return fake_leave(error);
}

/* Stages as named ranges for NVIDIA's own profilers: Nsight shows the same names as the trace does, and each range
 * bears the number of its event there. NVTX is headers alone; without a profiler it has no domain, and a call is one
 * branch.
 *
 * Interface: timeline_range_begin, timeline_range_end. In PyTorch: torch/csrc/cuda/shared/nvtx.cpp. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/cuda/cuda.h"

#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#define HAVE_NVTX 1
#include <nvtx3/nvToolsExt.h>
#endif
#endif

#ifdef HAVE_NVTX
enum { NAMES = 1024 };                      /* of stages there are some hundred; what finds no room is told in full */

struct name { char *text; nvtxStringHandle_t handle; };

/* NVTX has one injected profiler a process, and what is registered with it is never given back. */
static struct {
    pthread_once_t     once;
    nvtxDomainHandle_t domain;              /* NULL: nobody listens */
    pthread_mutex_t    mutex;               /* guards names */
    struct name        names[NAMES];
} nvtx = { .once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER };

static void
domain_open(void)
{
    nvtx.domain = nvtxDomainCreateA("ringside");
}

static size_t
place_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return hash % NAMES;
}

/* Looks at a few places behind its own. NULL: they are others', or there is no memory. */
static nvtxStringHandle_t
handle_of(const char *name)
{
    nvtxStringHandle_t handle = NULL;
    pthread_mutex_lock(&nvtx.mutex);
    for (size_t i = 0; i < 8 && handle == NULL; i++) {
        struct name *at = &nvtx.names[(place_of(name) + i) % NAMES];
        if (at->text == NULL && (at->text = strdup(name)) != NULL)
            at->handle = nvtxDomainRegisterStringA(nvtx.domain, name);
        if (at->text != NULL && strcmp(at->text, name) == 0)
            handle = at->handle;
    }
    pthread_mutex_unlock(&nvtx.mutex);
    return handle;
}

void
timeline_range_begin(const char *name, uint64_t event)
{
    pthread_once(&nvtx.once, domain_open);
    if (nvtx.domain == NULL)
        return;
    nvtxEventAttributes_t range = { .version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                    .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, .payload.ullValue = event };
    nvtxStringHandle_t handle = handle_of(name);
    range.messageType = handle != NULL ? NVTX_MESSAGE_TYPE_REGISTERED : NVTX_MESSAGE_TYPE_ASCII;
    if (handle != NULL)
        range.message.registered = handle;
    else
        range.message.ascii = name;
    (void)nvtxDomainRangePushEx(nvtx.domain, &range);
}

void
timeline_range_end(void)
{
    if (nvtx.domain != NULL)
        (void)nvtxDomainRangePop(nvtx.domain);
}

#else /* no NVTX where the plug-in was built */

void
timeline_range_begin(const char *name, uint64_t event)
{
    (void)name;
    (void)event;
}

void
timeline_range_end(void)
{
}
#endif

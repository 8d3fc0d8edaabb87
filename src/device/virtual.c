/* Virtual devices: any number, on host memory. Their work is done by the task that launches it, or, in `stepped`, when
 * its time has come (stream.c); their segments are the system's.
 *
 * Interface: backend_virtual, cache_system. */
#include <stdio.h>
#include <sys/mman.h>
#include "device/backend.h"
#include "device/caching.h"
#include "device/device.h"

static void
virtual_probe(struct backend_probe *probe)
{
    *probe = (struct backend_probe){ .count = DEVICE_MAX };
    snprintf(probe->version, sizeof probe->version, "host memory with streams and events of their own");
}

const struct device_backend backend_virtual = {
    .abi = DEVICE_BACKEND_ABI, .size = sizeof(struct device_backend), .name = "cpu", .on_host = true,
    .probe = virtual_probe,
};

/* Small blocks in pages of 2 MiB would touch far more than they reach. */
enum { SMALL_PAGES_UP_TO = 20 << 20 };

static void *
system_take(void *owner, size_t bytes)
{
    (void)owner;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
#ifdef MADV_NOHUGEPAGE
    if (bytes <= SMALL_PAGES_UP_TO)
        (void)madvise(base, bytes, MADV_NOHUGEPAGE);
#endif
    return base;
}

static void
system_give(void *owner, void *segment, size_t bytes)
{
    (void)owner;
    munmap(segment, bytes);
}

const struct cache_source cache_system = { system_take, system_give, NULL, true };

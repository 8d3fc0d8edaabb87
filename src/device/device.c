/* A device: virtual, on host memory, with its accounting and a pool; and the set that a run has of them.
 *
 * Interface in order of use: devices_of; device_check. What happens in a device's memory is memory.c's.
 *
 * In PyTorch: c10/cuda/CUDAFunctions.cpp, CUDACachingAllocator.cpp. */
#include "device/internal.h"
#include <stdlib.h>
#include "hw/cost.h"
#include "hw/presets.h"

enum { DEVICE_MEMORY_GIB = 16 };    /* of a device whose hardware nobody named */

/* What a device of the preset has. */
static uint64_t
total_of(struct sched *sched)
{
    const struct cost_model *model  = sched_cost(sched);
    const struct preset     *preset = model != NULL && model->preset != NULL ? preset_find(model->preset) : NULL;
    double                   gib    = preset != NULL ? preset->memory_gib : DEVICE_MEMORY_GIB;
    return (uint64_t)(gib * 1024) << 20;
}

struct device *
device_new(struct sched *sched, int index, const struct cache_source *source)
{
    struct device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    device->index = index;
    device->total = total_of(sched);
    device->cache = index == DEVICE_CPU ? NULL : cache_new(sched, device->total, source);
    if ((index == DEVICE_CPU || device->cache != NULL) && pool_init(&device->pool, sched))
        return device;
    cache_free(device->cache);
    free(device);
    return NULL;
}

void
device_free(struct device *device)
{
    if (device == NULL)
        return;
    cache_free(device->cache);
    pool_destroy(&device->pool);
    free(device);
}

/* The set of devices with none in it but the host. */
static struct devices *
devices_new(struct task *me)
{
    struct devices *devices = calloc(1, sizeof *devices);
    if (devices == NULL)
        return failed_null(me, E_MEMORY, "out of memory for the devices");
    devices->sched = me->sched;
    devices->host  = device_new(me->sched, DEVICE_CPU, NULL);
    if (devices->host == NULL || pthread_mutex_init(&devices->mutex, NULL) != 0) {
        device_free(devices->host);
        free(devices);
        return failed_null(me, E_MEMORY, "out of memory for the devices");
    }
    sched_set_part(me->sched, PART_DEVICES, devices);
    return devices;
}

struct devices *
devices_of(struct task *me)
{
    struct devices *devices = sched_part(me->sched, PART_DEVICES);
    return devices != NULL ? devices : devices_new(me);
}

struct device *
device_of(struct devices *devices, int index)
{
    return index == DEVICE_CPU ? devices->host : devices->all[index];
}

struct stream *
stream_numbered(struct devices *devices, size_t number)
{
    pthread_mutex_lock(&devices->mutex);
    struct stream *stream = number < devices->stream_count ? devices->streams[number] : NULL;
    pthread_mutex_unlock(&devices->mutex);
    return stream;
}

int
device_count(struct task *me)
{
    struct devices *devices = sched_part(me->sched, PART_DEVICES);
    return devices != NULL ? devices->count : 0;
}

bool
device_check(struct task *me, int device)
{
    int count = device_count(me);
    if (device == DEVICE_CPU || (device >= 0 && device < count))
        return true;
    if (count == 0)
        return failed(me, E_DEVICE,
                      "device:%d does not exist: this run has no devices; a lesson asks for them with "
                      "rs.lesson { devices = 4 }", device);
    return failed(me, E_DEVICE, "device:%d does not exist: this run has device:0 to device:%d", device, count - 1);
}

void
host_give(struct sched *sched, void *block, size_t bytes)
{
    struct devices *devices = sched_part(sched, PART_DEVICES);
    if (block != NULL)
        pool_give(&devices->host->pool, block, bytes);
}

/* Under the mutex of the set: two threads of one rank must not both make it. NULL: no memory. */
static void *
rank_memory(struct devices *devices, int rank, size_t bytes, void (*fresh)(void *memory))
{
    struct rank_memory **list = &devices->ranks[(unsigned)rank % RANK_LISTS];
    for (struct rank_memory *known = *list; known != NULL; known = known->next) {
        if (known->rank == rank && known->bytes == bytes)
            return known->memory;
    }
    struct rank_memory *made = calloc(1, sizeof *made);
    void               *memory = calloc(1, bytes);
    if (made == NULL || memory == NULL) {
        free(made);
        free(memory);
        return NULL;
    }
    *made = (struct rank_memory){ *list, rank, bytes, memory };
    *list = made;
    fresh(memory);
    return memory;
}

void *
device_rank_memory(struct task *me, int rank, size_t bytes, void (*fresh)(void *memory))
{
    struct devices *devices = devices_of(me);
    if (devices == NULL)
        return NULL;
    pthread_mutex_lock(&devices->mutex);
    void *memory = rank_memory(devices, rank, bytes, fresh);
    pthread_mutex_unlock(&devices->mutex);
    return memory != NULL ? memory : failed_null(me, E_MEMORY, "out of memory");
}

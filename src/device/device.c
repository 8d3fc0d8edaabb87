/* A device: virtual, on host memory, with its accounting and a pool; and the set that a run has of them.
 *
 * Interface in order of use: devices_of; device_check, device_take, device_give, device_memory.
 *
 * In PyTorch: c10/cuda/CUDAFunctions.cpp, CUDACachingAllocator.cpp. */
#include "device/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include "sched/account.h"

struct device *
device_new(struct sched *sched, int index)
{
    struct device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    device->index = index;
    if (!pool_init(&device->pool, sched)) {
        free(device);
        return NULL;
    }
    return device;
}

void
device_free(struct device *device)
{
    if (device == NULL)
        return;
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
    devices->host  = device_new(me->sched, DEVICE_CPU);
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

struct device_memory
device_memory(struct task *me, int index)
{
    struct devices *devices = sched_part(me->sched, PART_DEVICES);
    if (devices == NULL || index < DEVICE_CPU || index >= devices->count)
        return (struct device_memory){ 0 };
    struct device *device = device_of(devices, index);
    pool_lock(&device->pool);
    struct device_memory memory = device->memory;
    pool_unlock(&device->pool);
    return memory;
}

/* Refused, it is had once more after those who may have garbage have let go of it. */
void *
device_take(struct task *me, int index, size_t bytes, size_t *block_bytes)
{
    struct devices *devices = devices_of(me);
    if (devices == NULL || !device_check(me, index))
        return NULL;
    struct device *device = device_of(devices, index);
    size_t         rounded = bytes > SIZE_MAX - 512 ? SIZE_MAX : bytes == 0 ? 512 : (bytes + 511) / 512 * 512;
    void          *block = pool_take_booked(&device->pool, rounded, &device->memory, bytes);
    if (block == NULL && account_collect(me))
        block = pool_take_booked(&device->pool, rounded, &device->memory, bytes);
    if (block == NULL) {
        char where[24] = "the host";
        if (index != DEVICE_CPU)
            snprintf(where, sizeof where, "device:%d", index);
        memory_failed(me, bytes, where);
        return NULL;
    }
    *block_bytes = rounded;
    return block;
}

void
device_give(struct sched *sched, int index, void *block, size_t bytes, size_t block_bytes)
{
    struct device *device = device_of(sched_part(sched, PART_DEVICES), index);
    pool_give_booked(&device->pool, block, block_bytes, &device->memory, bytes);
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
    for (struct rank_memory *known = devices->ranks; known != NULL; known = known->next) {
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
    *made = (struct rank_memory){ devices->ranks, rank, bytes, memory };
    devices->ranks = made;
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

/* The devices of a run, from the first to the last moment: made with a compute stream each, freed when all is over.
 *
 * Interface in order of use: devices_ready, devices_free. In PyTorch: c10/cuda/CUDAFunctions.cpp. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include "device/internal.h"

static struct device *
new_one(struct task *me, struct devices *devices)
{
    if (devices->real != NULL)
        return real_device_new(me, devices, devices->count);
    struct device *device = device_new(me->sched, devices->count, NULL);
    return device != NULL ? device : failed_null(me, E_MEMORY, "out of memory for device:%d", devices->count);
}

bool
devices_ready(struct task *me, int count)
{
    if (count < 0 || count > DEVICE_MAX)
        return failed(me, E_VALUE, "%d devices? Between 0 and %d can be had", count, DEVICE_MAX);
    struct devices *devices = devices_of(me);
    if (devices == NULL)
        return false;
    while (devices->count < count) {
        struct device *device = new_one(me, devices);
        if (device == NULL)
            return false;
        devices->all[device->index] = device;
        char name[32];
        snprintf(name, sizeof name, "device:%d compute", device->index);
        device->compute = stream_open(me, devices, device->index, name);
        if (device->compute == NULL) {
            devices->all[device->index] = NULL;
            real_device_free(devices, device);
            device_free(device);
            return false;
        }
        __atomic_store_n(&devices->count, devices->count + 1, __ATOMIC_RELEASE);
    }
    return true;
}

/* Streams first: an entry that never ran still holds storages. */
void
devices_free(struct sched *sched)
{
    struct devices *devices = sched_part(sched, PART_DEVICES);
    if (devices == NULL)
        return;
    char words[240]; /* who wanted to know has asked before */
    (void)devices_finish(sched, words, sizeof words);
    for (size_t i = 0; i < devices->stream_count; i++)
        stream_close(devices, devices->streams[i]);
    free(devices->streams);
    assert(atomic_load(&devices->living) == 0);

    for (int i = 0; i < RANK_LISTS; i++) {
        for (struct rank_memory *rank = devices->ranks[i], *next; rank != NULL; rank = next) {
            next = rank->next;
            free(rank->memory);
            free(rank);
        }
    }
    for (int i = 0; i < devices->count; i++) {
        struct device *device = devices->all[i];
        cache_free(device->cache);
        device->cache = NULL;
        real_device_free(devices, device);
        device_free(device);
    }
    real_end(devices);
    device_free(devices->host);
    pthread_mutex_destroy(&devices->mutex);
    free(devices);
    sched_set_part(sched, PART_DEVICES, NULL);
}

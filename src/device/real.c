/* Real devices: their memory, and the run's view of the plug-in's table (backend.h). Their streams are real_stream.c's.
 *
 * Interface in order of use: real_begin, real_device_new; real_hidden_cache, device_peek, mirror_fetch, mirror_store;
 * real_end. In PyTorch: c10/cuda/CUDAFunctions.cpp, ATen/native/cuda/Copy.cu. */
#include "device/real.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/internal.h"
#include "device/timeline.h"
#include "sched/account.h"

/* Kernels that the host does, of which the run has said so. */
enum { TOLD = 32 };

struct real {
    struct cache       *pinned;       /* host memory that devices see */
    struct cache_source source;
    struct timeline    *timeline;     /* NULL: nobody asked for one */
    struct backend_host host;
    struct stage_ranges ranges;
    atomic_bool         was_left;     /* its devices never end: nothing is closed or given back, which would wait */
    const char         *told[TOLD];   /* under the devices' mutex */
    int                 told_count;
};

struct real_device {
    struct devices        *devices;
    struct backend_device *device;
    struct cache_source    source;    /* of its two caches */
    struct cache          *hidden;    /* workspaces and staging, counted nowhere */
    struct backend_stream *aside;     /* for who looks into its memory */
    pthread_mutex_t        mutex;     /* of `aside`, and of what follows */
    struct backend_why     why;       /* of the last segment that was refused */
};

static const uint64_t UNLIMITED = UINT64_MAX / 2;

enum error_kind
trouble_kind(const struct backend_why *why)
{
    switch (why->trouble) {
    case TROUBLE_MEMORY: return E_OUT_OF_MEMORY;
    case TROUBLE_BROKEN: return E_STOPPED;
    default: return E_DEVICE;
    }
}

/* What is broken is so for all of the process's tasks: who waits for one of the others would do so in vain. */
bool
trouble_told(struct task *me, const struct backend_why *why)
{
    (void)failed(me, trouble_kind(why), "%s", why->text);
    if (why->trouble == TROUBLE_BROKEN)
        sched_stop(me->sched, trouble_kind(why), why->text);
    return false;
}

/* ---- the devices ---- */

bool
devices_are_real(struct sched *sched)
{
    const struct devices *devices = sched_part(sched, PART_DEVICES);
    return devices != NULL && devices->real != NULL;
}

void
real_leave(struct devices *devices)
{
    atomic_store(&devices->real->was_left, true);
}

bool
real_was_left(const struct devices *devices)
{
    return atomic_load(&devices->real->was_left);
}

static void *
pinned_take(void *owner, size_t bytes)
{
    const struct devices *devices = owner;
    struct backend_why    why = { 0 };
    return devices->backend->pinned(bytes, &why);
}

static void
pinned_give(void *owner, void *segment, size_t bytes)
{
    const struct devices *devices = owner;
    if (!real_was_left(devices))
        devices->backend->pinned_give(segment, bytes);
}

bool
real_begin(struct task *me, struct devices *devices)
{
    struct backend_probe *probe = host_take(me, sizeof *probe);
    if (probe == NULL)
        return false;
    devices->backend->probe(probe);
    bool ok = probe->count > 0 || failed(me, E_DEVICE, "--device %s: %s", devices->backend->name, probe->why);
    host_return(me, probe, sizeof *probe);
    struct real *real = ok ? calloc(1, sizeof *real) : NULL;
    if (!ok)
        return false;
    if (real != NULL) {
        real->source = (struct cache_source){ pinned_take, pinned_give, devices, true };
        real->timeline = timeline_new(me, devices->backend);
        real->host     = timeline_host(real->timeline);
        real->pinned = cache_new(me->sched, UNLIMITED, &real->source);
    }
    if (real == NULL || real->pinned == NULL || task_failed(me)) {
        if (real != NULL)
            timeline_free(real->timeline);
        free(real);
        return failed(me, E_MEMORY, "out of memory for the devices");
    }
    devices->real = real;
    real->ranges  = (struct stage_ranges){ devices->backend->range_begin, devices->backend->range_end };
    if (!sched_is_stepped(me->sched))
        sched_show_stages(me->sched, &real->ranges);
    return true;
}

void
real_end(struct devices *devices)
{
    if (devices->real == NULL)
        return;
    sched_show_stages(devices->sched, NULL);
    timeline_free(devices->real->timeline);
    cache_free(devices->real->pinned);
    free(devices->real);
    devices->real = NULL;
}

/* As the system's pages: what nobody wrote must be equal in each run, and snapshots may show it. */
static bool
clear_segment(struct real_device *real, void *segment, size_t bytes, struct backend_why *why)
{
    const struct device_backend *backend = real->devices->backend;
    return backend->set(real->aside, segment, 0, bytes, why) && backend->finish(real->aside, why);
}

static void *
segment_take(void *owner, size_t bytes)
{
    struct real_device *real = owner;
    struct backend_why  why  = { 0 };
    const struct device_backend *backend = real->devices->backend;
    void *segment = backend->segment(real->device, bytes, &why);
    pthread_mutex_lock(&real->mutex);
    bool ok   = segment != NULL &&
                (!sched_is_stepped(real->devices->sched) || clear_segment(real, segment, bytes, &why));
    real->why = why;
    pthread_mutex_unlock(&real->mutex);
    if (!ok && segment != NULL)
        backend->segment_give(real->device, segment, bytes);
    return ok ? segment : NULL;
}

static void
segment_give(void *owner, void *segment, size_t bytes)
{
    struct real_device *real = owner;
    if (!real_was_left(real->devices))
        real->devices->backend->segment_give(real->device, segment, bytes);
}

static bool
real_device_open(struct real_device *real, int index, struct sched *sched, struct backend_why *why)
{
    const struct device_backend *backend = real->devices->backend;
    real->device = backend->open(index, &real->devices->real->host, why);
    real->aside  = real->device != NULL ? backend->stream(real->device, false, why) : NULL;
    real->source = (struct cache_source){ segment_take, segment_give, real, false };
    real->hidden = real->aside != NULL ? cache_new(sched, UNLIMITED, &real->source) : NULL;
    return real->hidden != NULL;
}

static void
real_device_close(struct real_device *real)
{
    const struct device_backend *backend = real->devices->backend;
    bool                         closes = !real_was_left(real->devices);
    cache_free(real->hidden);
    if (real->aside != NULL && closes)
        backend->stream_close(real->aside);
    if (real->device != NULL && closes)
        backend->close(real->device);
    pthread_mutex_destroy(&real->mutex);
    free(real);
}

struct device *
real_device_new(struct task *me, struct devices *devices, int index)
{
    struct backend_why  why  = { .text = "out of memory" };
    struct real_device *real = calloc(1, sizeof *real);
    if (real == NULL || pthread_mutex_init(&real->mutex, NULL) != 0) {
        free(real);
        return failed_null(me, E_MEMORY, "out of memory for device:%d", index);
    }
    real->devices = devices;
    struct device *device = NULL;
    if (!real_device_open(real, index, me->sched, &why))
        (void)failed(me, E_DEVICE, "device:%d: %s", index, why.text);
    else if ((device = device_new(me->sched, index, &real->source)) == NULL)
        (void)failed(me, E_MEMORY, "out of memory for device:%d", index);
    if (device == NULL) {
        real_device_close(real);
        return NULL;
    }
    device->real = real;
    if (!sched_is_stepped(me->sched)) { /* there the preset's, as on virtual devices */
        device->total = devices->backend->memory(real->device);
        cache_set_limit(device->cache, device->total);
    }
    return device;
}

void
real_device_free(struct devices *devices, struct device *device)
{
    (void)devices;
    if (device->real == NULL)
        return;
    real_device_close(device->real);
    device->real = NULL;
}

/* Asked once more: the pool of pinned memory keeps no words. */
static bool
pinned_refused(struct task *me, const struct device_backend *backend)
{
    struct backend_why why = { 0 };
    void *memory = backend->pinned(1, &why);
    if (memory != NULL)
        backend->pinned_give(memory, 1);
    return memory == NULL && !trouble_told(me, &why);
}

bool
real_refused(struct task *me, struct devices *devices, int index)
{
    struct backend_why why    = { 0 };
    struct device     *device = device_of(devices, index);
    if (index == DEVICE_CPU)
        return devices->real != NULL && pinned_refused(me, devices->backend);
    if (device->real == NULL)
        return false;
    pthread_mutex_lock(&device->real->mutex);
    why = device->real->why;
    pthread_mutex_unlock(&device->real->mutex);
    return why.trouble != TROUBLE_NONE && !trouble_told(me, &why);
}

/* Of all devices, since several may be one GPU, whoever asks. */
void
real_release(struct devices *devices)
{
    if (devices->real == NULL)
        return;
    for (int i = 0; i < __atomic_load_n(&devices->count, __ATOMIC_ACQUIRE); i++) {
        cache_release(devices->all[i]->cache);
        cache_release(devices->all[i]->real->hidden);
    }
    cache_release(devices->real->pinned);
}

size_t
devices_room(struct sched *sched, int kernel, const void *params)
{
    const struct devices *devices = sched_part(sched, PART_DEVICES);
    return devices != NULL && devices->real != NULL ? devices->backend->room(kernel, params) : 0;
}

bool
devices_share(struct sched *sched, int a, int b)
{
    struct devices *devices = sched_part(sched, PART_DEVICES);
    if (devices->real == NULL || a == b)
        return true;
    return devices->backend->physical(device_of(devices, a)->real->device) ==
           devices->backend->physical(device_of(devices, b)->real->device);
}

void
device_name(struct sched *sched, int device, char *name, size_t size)
{
    struct devices      *devices = sched_part(sched, PART_DEVICES);
    struct backend_probe probe;
    if (devices->real == NULL) {
        snprintf(name, size, "virtual device:%d", device);
        return;
    }
    devices->backend->probe(&probe);
    int physical = devices->backend->physical(device_of(devices, device)->real->device);
    snprintf(name, size, "%s", physical < probe.count ? probe.device[physical].name : devices->backend->name);
}

/* Once for each kernel of a run. */
void
real_tell_host(struct task *me, struct devices *devices, const char *name)
{
    char         text[160];
    struct real *real = devices->real;
    pthread_mutex_lock(&devices->mutex);
    bool is_new = real->told_count < TOLD;
    for (int i = 0; i < real->told_count && is_new; i++)
        is_new = real->told[i] != name;
    if (is_new)
        real->told[real->told_count++] = name;
    pthread_mutex_unlock(&devices->mutex);
    snprintf(text, sizeof text, "%s has no kernel on %s for these types: the host does it", name,
             devices->backend->name);
    if (is_new)
        task_warn(me, text);
}

struct backend_device *
real_device_of(struct devices *devices, int device)
{
    return device_of(devices, device)->real->device;
}

struct timeline *
devices_timeline(struct sched *sched)
{
    struct devices *devices = sched_part(sched, PART_DEVICES);
    return devices != NULL ? real_timeline(devices) : NULL;
}

struct timeline *
real_timeline(struct devices *devices)
{
    return devices->real != NULL ? devices->real->timeline : NULL;
}

/* ---- memory that is counted nowhere ---- */

struct cache *
real_hidden_cache(struct devices *devices, int device)
{
    return device == DEVICE_CPU ? devices->real->pinned : device_of(devices, device)->real->hidden;
}

void
real_hidden_give(struct devices *devices, struct storage *storage)
{
    cache_give(real_hidden_cache(devices, storage->device), storage->block, false);
    storage->block = NULL;
}

/* ---- the host looks ---- */

static bool
copy_aside(struct task *me, const struct storage *storage, const struct backend_copy *copy)
{
    struct device               *device  = device_of(sched_part(storage->sched, PART_DEVICES), storage->device);
    const struct device_backend *backend = device->real->devices->backend;
    struct backend_why           why     = { 0 };
    pthread_mutex_lock(&device->real->mutex);
    bool ok = backend->copy(device->real->aside, copy, 0, &why) && backend->finish(device->real->aside, &why);
    pthread_mutex_unlock(&device->real->mutex);
    return ok || trouble_told(me, &why);
}

static bool
is_far(const struct storage *storage)
{
    if (storage->device == DEVICE_CPU) /* also one of no run: a snapshot that is printed */
        return false;
    const struct devices *devices = sched_part(storage->sched, PART_DEVICES);
    return devices->real != NULL;
}

bool
device_peek(struct task *me, const struct storage *storage, void *to, const void *from, size_t bytes)
{
    const char *at = from, *mirror = storage->mirror;
    bool        in_mirror = mirror != NULL && at >= mirror && at < mirror + storage->bytes;
    if (bytes == 0)
        return true;
    if (in_mirror || !is_far(storage)) {
        memcpy(to, from, bytes);
        return true;
    }
    return copy_aside(me, storage, &(struct backend_copy){ to, from, bytes, DEVICE_CPU, storage->device });
}

/* Two collectives of one storage may come at a time: whoever is first makes it. */
static bool
mirror_take(struct devices *devices, struct storage *storage)
{
    pthread_mutex_lock(&devices->mutex);
    if (storage->mirror == NULL) {
        struct cache_request request = { .bytes = storage->bytes };
        if (cache_take(devices->real->pinned, &request, &storage->mirror_block) == CACHE_TAKEN)
            __atomic_store_n(&storage->mirror, block_data(storage->mirror_block), __ATOMIC_RELEASE);
    }
    bool is_there = storage->mirror != NULL;
    pthread_mutex_unlock(&devices->mutex);
    return is_there;
}

static bool
mirror_ready(struct task *me, struct storage *storage)
{
    struct devices *devices = devices_of(me);
    if (mirror_take(devices, storage))
        return true;
    cache_release(devices->real->pinned); /* what queued work still uses waits, and stays */
    return mirror_take(devices, storage) ||
           (!real_refused(me, devices, DEVICE_CPU) && memory_failed(me, storage->bytes, "the host"));
}

void
real_mirror_give(struct storage *storage)
{
    struct devices *devices = sched_part(storage->sched, PART_DEVICES);
    if (storage->mirror_block != NULL)
        cache_give(devices->real->pinned, storage->mirror_block, false);
    storage->mirror_block = NULL;
    storage->mirror       = NULL;
}

bool
mirror_make(struct task *me, const struct access *access)
{
    return !is_far(access->storage) || mirror_ready(me, access->storage);
}

bool
mirror_fetch(struct task *me, const struct access *access)
{
    struct storage *storage = access->storage;
    if (access->begin >= access->end || !is_far(storage))
        return true;
    return mirror_ready(me, storage) &&
           copy_aside(me, storage, &(struct backend_copy){
               storage->mirror + access->begin, (const char *)storage->data + access->begin,
               (size_t)(access->end - access->begin), DEVICE_CPU, storage->device });
}

bool
mirror_store(struct task *me, const struct access *access)
{
    struct storage *storage = access->storage;
    if (access->begin >= access->end || !is_far(storage) || storage->mirror == NULL)
        return true;
    return copy_aside(me, storage, &(struct backend_copy){
        (char *)storage->data + access->begin, storage->mirror + access->begin,
        (size_t)(access->end - access->begin), storage->device, DEVICE_CPU });
}

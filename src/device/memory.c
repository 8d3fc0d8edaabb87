/* Memory for storages, and what may be asked and said of a device's memory.
 *
 * A device's block is refused in this order: the free blocks of its stream, a new segment, the same once scripts have
 * let go of their garbage, and once all that is queued is done and segments without a block went back to the system.
 *
 * Interface in order of use: storage_new, storage_record_stream; device_total_memory, device_set_total,
 * device_set_fraction, device_memory, device_empty_cache. In PyTorch: c10/cuda/CUDACachingAllocator.cpp. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "device/internal.h"
#include "sched/account.h"
#include "sched/count.h"

/* ---- what the trace is told ---- */

/* Segments were taken from the system or given back since it was told last; bytes may be negative. */
void
segment_announce(struct task *me, int device)
{
    struct cache_change change;
    if (device == DEVICE_CPU || !stage_enabled(me, KIND_memory_segment) ||
        !cache_changed(device_of(sched_part(me->sched, PART_DEVICES), device)->cache, &change))
        return;
    storage_emit(me, KIND_memory_segment, device,
                 (const int64_t[4]){ (int64_t)change.taken, (int64_t)change.given, change.bytes,
                                     (int64_t)change.reserved });
}

/* Memory is taken: bytes asked for, bytes of the block, and the total on that device afterwards. */
static void
storage_announce(struct task *me, const struct storage *storage)
{
    segment_announce(me, storage->device);
    if (!stage_enabled(me, KIND_memory_alloc))
        return;
    storage_emit(me, KIND_memory_alloc, storage->device,
                 (const int64_t[4]){ storage->number, (int64_t)storage->bytes, (int64_t)storage->block_bytes,
                                     allocated_on(me, storage->device) });
}

/* ---- blocks ---- */

/* Refused, it is had once more after those who may have garbage have let go of it. In `stepped` a fresh block is
 * cleared: what nobody wrote must be equal in each run, and snapshots may show it. */
static bool
host_block(struct task *me, struct device *host, struct storage *storage)
{
    size_t bytes = storage->bytes;
    size_t rounded = bytes > SIZE_MAX - 512 ? SIZE_MAX : bytes == 0 ? 512 : (bytes + 511) / 512 * 512;
    storage->block_bytes = rounded;
    storage->data = pool_take_booked(&host->pool, rounded, &host->memory, bytes);
    if (storage->data == NULL && account_collect(me))
        storage->data = pool_take_booked(&host->pool, rounded, &host->memory, bytes);
    if (storage->data == NULL)
        return memory_failed(me, bytes, "the host");
    if (sched_is_stepped(me->sched))
        memset(storage->data, 0, bytes);
    return true;
}

static struct cache_request
request_of(const struct task *me, const struct storage *storage, int stream)
{
    struct cache_request request = {
        .bytes = storage->bytes, .stream = stream,
        .holder = { .storage = storage->number, .line = me->line, .stage = me->stage },
    };
    const char *module = (const char *)(uintptr_t)me->slots[SLOT_MODULE];
    size_t      length = module != NULL ? strnlen(module, sizeof request.holder.module - 1) : 0;
    if (length > 0)
        memcpy(request.holder.module, module, length);
    return request;
}

/* After a refusal, from the cheapest to what costs most. */
static enum cache_answer
take_again(struct task *me, struct device *device, struct cache_request *request, struct cache_block **block)
{
    enum cache_answer answer = CACHE_REFUSED;
    if (account_garbage(me))
        answer = cache_take(device->cache, request, block);
    if (answer == CACHE_TAKEN || !devices_drain(me))
        return answer;
    request->again = true;
    cache_release(device->cache);
    answer = cache_take(device->cache, request, block);
    if (answer != CACHE_REFUSED)
        return answer;
    devices_trim(me->sched);
    real_release(devices_of(me));
    return cache_take(device->cache, request, block);
}

/* It is not cleared, as on a GPU: work that was queued before may still use the block. What the system gives is zeros,
 * and what comes later repeats with the run. */
static bool
device_block(struct task *me, struct device *device, struct storage *storage)
{
    struct stream       *stream  = me->slots[SLOT_STREAM] == 0 ? device->compute : stream_current(me, device->index);
    struct cache_request request = request_of(me, storage, stream_number(stream));
    enum cache_answer    answer  = cache_take(device->cache, &request, &storage->block);
    if (answer != CACHE_TAKEN)
        answer = take_again(me, device, &request, &storage->block);
    if (answer == CACHE_TAKEN) {
        storage->data        = storage->block != NULL ? block_data(storage->block) : device->nothing;
        storage->block_bytes = storage->block != NULL ? block_bytes(storage->block) : 0;
        storage->order       = stream_actor(stream);
        storage_inherit(me, storage);
        return true;
    }
    if (task_failed(me))
        return false;
    if (answer == CACHE_FULL) {
        holders_report(me, device, storage->bytes);
        return false;
    }
    if (real_refused(me, devices_of(me), device->index))
        return false;
    char where[24];
    snprintf(where, sizeof where, "device:%d", device->index);
    return memory_failed(me, storage->bytes, where);
}

struct storage *
storage_new(struct task *me, int device, size_t bytes)
{
    struct devices *devices = devices_of(me);
    struct storage *storage = devices != NULL && device_check(me, device) ? storage_blank(me, device, bytes) : NULL;
    if (storage == NULL)
        return NULL;
    storage->number = count_next(me->sched, &devices->storages);
    struct device *where = device_of(devices, device);
    if (device == DEVICE_CPU ? !host_block(me, where, storage) : !device_block(me, where, storage)) {
        host_return(me, storage, sizeof *storage);
        return NULL;
    }
    count_up(me->sched, &devices->living);
    storage_announce(me, storage);
    return storage;
}

/* Refused, it is had once more when all that is queued is done and nobody keeps what is not used. */
static bool
hidden_block_again(struct task *me, struct devices *devices, const struct cache_request *request,
                   struct storage *storage)
{
    char where[24] = "the host";
    if (!devices_drain(me))
        return false;
    real_release(devices);
    if (cache_take(real_hidden_cache(devices, storage->device), request, &storage->block) == CACHE_TAKEN)
        return true;
    if (storage->device != DEVICE_CPU)
        snprintf(where, sizeof where, "device:%d", storage->device);
    return !real_refused(me, devices, storage->device) && memory_failed(me, storage->bytes, where);
}

/* Of a real device, or of the host's memory that it sees; it belongs to me's current stream there. */
static bool
hidden_block(struct task *me, struct devices *devices, struct storage *storage)
{
    struct stream       *stream  = storage->device != DEVICE_CPU ? stream_current(me, storage->device) : NULL;
    struct cache_request request = { .bytes = storage->bytes > 0 ? storage->bytes : 1,
                                     .stream = stream != NULL ? stream_number(stream) : 0 };
    struct cache        *cache   = real_hidden_cache(devices, storage->device);
    if (cache_take(cache, &request, &storage->block) != CACHE_TAKEN &&
        !hidden_block_again(me, devices, &request, storage))
        return false;
    storage->data        = block_data(storage->block);
    storage->block_bytes = block_bytes(storage->block);
    storage->order       = stream != NULL ? stream_actor(stream) : NULL;
    return true;
}

struct storage *
storage_new_hidden(struct task *me, int device, size_t bytes)
{
    struct devices *devices = devices_of(me);
    if (devices == NULL || !device_check(me, device))
        return NULL;
    struct storage *storage = storage_blank(me, device, bytes);
    if (storage == NULL)
        return NULL;
    if (devices->real == NULL) {
        storage->block_bytes = bytes < ALIGNED_FROM ? ALIGNED_FROM : bytes;
        storage->data        = pool_ask(me, &devices->host->pool, storage->block_bytes);
    } else if (!hidden_block(me, devices, storage)) {
        storage->data = NULL;
    }
    if (storage->data == NULL) {
        host_return(me, storage, sizeof *storage);
        return NULL;
    }
    count_up(me->sched, &devices->living);
    return storage;
}

/* Told, because who reads the trace asks why memory that one stream took is safe in another one's hands. */
bool
storage_record_stream(struct task *me, struct storage *storage, struct stream *stream)
{
    if (storage == NULL || stream == NULL || task_failed(me))
        return false;
    POINT_ON(me, storage->device, memory_record_stream, storage->number, stream_number(stream));
    if (storage->device == DEVICE_CPU || storage->block == NULL)
        return true;
    struct device *device = device_of(devices_of(me), storage->device);
    if (!cache_record(device->cache, storage->block, stream_number(stream), stream_progress(stream)))
        return memory_failed(me, sizeof *storage, "the host");
    return true;
}

/* ---- a device's memory ---- */

static struct device *
virtual_device(struct task *me, int device)
{
    if (devices_of(me) == NULL || !device_check(me, device))
        return NULL;
    if (device == DEVICE_CPU)
        return failed_null(me, E_VALUE, "Expected a cuda device, but got: cpu");
    return device_of(devices_of(me), device);
}

struct cache *
device_cache(struct task *me, int index)
{
    struct device *device = virtual_device(me, index);
    return device != NULL ? device->cache : NULL;
}

uint64_t
device_total_memory(struct task *me, int index)
{
    struct device *device = virtual_device(me, index);
    return device != NULL ? device->total : 0;
}

bool
device_set_total(struct task *me, int index, uint64_t bytes)
{
    struct device *device = virtual_device(me, index);
    if (device == NULL)
        return false;
    device->total = bytes;
    cache_set_limit(device->cache, bytes);
    return true;
}

bool
device_set_fraction(struct task *me, int index, double fraction)
{
    struct device *device = virtual_device(me, index);
    if (device == NULL)
        return false;
    if (!(fraction >= 0 && fraction <= 1))
        return failed(me, E_VALUE, "Invalid fraction value: %g. Allowed range: 0-1", fraction);
    cache_set_limit(device->cache, (uint64_t)(fraction * (double)device->total));
    return true;
}

struct device_memory
device_memory(struct task *me, int index)
{
    struct devices *devices = sched_part(me->sched, PART_DEVICES);
    if (devices == NULL || index < DEVICE_CPU || index >= devices->count)
        return (struct device_memory){ 0 };
    struct device *device = device_of(devices, index);
    if (device->cache != NULL) {
        struct cache_stats  stats = cache_stats(device->cache);
        struct cache_count  bytes = stats.of[STAT_ALLOCATED_BYTES][CACHE_POOLS];
        struct cache_count  blocks = stats.of[STAT_ALLOCATION][CACHE_POOLS];
        return (struct device_memory){ bytes.current, bytes.peak, blocks.current, blocks.allocated };
    }
    pool_lock(&device->pool);
    struct device_memory memory = device->memory;
    pool_unlock(&device->pool);
    return memory;
}

bool
device_empty_cache(struct task *me)
{
    if (devices_of(me) == NULL || !devices_drain(me))
        return false;
    for (int index = 0; index < device_count(me); index++) {
        struct device *device = device_of(devices_of(me), index);
        cache_release(device->cache);
        memset(device->left, 0, sizeof device->left); /* all that was queued is done */
        segment_announce(me, index);
    }
    return true;
}

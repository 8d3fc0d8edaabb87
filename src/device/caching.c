/* The caching allocator of a device; its rules stand in caching.h.
 *
 * A virtual device's segment is address space that costs nothing until it is touched. So the run's account is charged
 * only as far into a segment as blocks ever reached; of a real device's, which is not the host's memory, for nothing.
 *
 * Interface in order of use: cache_new, cache_take, cache_record, cache_give, cache_release, cache_free; cache_stats,
 * cache_look. In PyTorch: c10/cuda/CUDACachingAllocator.cpp. */
#include "device/caching.h"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "device/poison.h"
#include "device/tree.h"
#include "sched/account.h"

enum { KIB = 1024, MIB = 1024 * KIB };
enum { SMALLEST = 512, SMALL_MOST = MIB, SMALL_SEGMENT = 2 * MIB, LARGE_SEGMENT = 20 * MIB, LARGE_OWN = 10 * MIB };
enum { LARGE_STEP = 2 * MIB, REACH_STEP = 64 * KIB, ALL = CACHE_POOLS, SLAB_BLOCKS = 64 };

/* A stream that the holder of a block told of. */
struct recorded {
    struct recorded              *next;
    const struct stream_progress *stream;
    int                           number;
    uint64_t                      sequence;  /* once the block is given: entries that must be done */
};

struct slab { struct slab *next; struct cache_block blocks[SLAB_BLOCKS]; };

struct cache {
    struct sched       *sched;
    pthread_mutex_t     mutex;              /* not taken while one thread runs all tasks */
    uint64_t            limit;
    const struct cache_source *source;
    struct cache_block *free[CACHE_POOLS];  /* trees */
    struct cache_block *waiting;            /* given, not yet free; by `right` */
    struct cache_block *spare;              /* structs without memory; by `right` */
    struct slab        *slabs;
    struct recorded    *unused;
    size_t              recorded_count;     /* that the account was charged for */
    struct segment     *first, *last;       /* by number */
    uint32_t            segments;           /* numbers given out */
    uint64_t            next_address;
    struct cache_stats  stats;
    struct cache_change told;
    bool                untold;             /* segments have changed since; read without the lock */
};

/* ---- counts: what follows from others (all that was taken, what was given back) is worked out when asked for ---- */

static inline void
count_in(struct cache_count *count, uint64_t more)
{
    uint64_t now = count->current + more;
    __atomic_store_n(&count->current, now, __ATOMIC_RELAXED); /* read without the lock */
    if (now > count->peak)
        count->peak = now;
}

static inline void
grows(struct cache *cache, enum cache_stat stat, enum cache_pool pool, uint64_t more)
{
    struct cache_count *of = cache->stats.of[stat];
    count_in(&of[pool], more);
    count_in(&of[ALL], more);
    of[pool].allocated += more;
}

static inline void
shrinks(struct cache *cache, enum cache_stat stat, enum cache_pool pool, uint64_t less)
{
    struct cache_count *of = cache->stats.of[stat];
    of[pool].current -= less;
    __atomic_store_n(&of[ALL].current, of[ALL].current - less, __ATOMIC_RELAXED);
}

static void
changes(struct cache *cache, enum cache_stat stat, enum cache_pool pool, int64_t by)
{
    if (by > 0)
        grows(cache, stat, pool, (uint64_t)by);
    else if (by < 0)
        shrinks(cache, stat, pool, (uint64_t)-by);
}

/* ---- the cache ---- */

/* Host memory alone can be closed to who holds no block of it. */
static bool
can_poison(const struct cache *cache)
{
    return cache->source == &cache_system;
}

static void
cache_lock(struct cache *cache)
{
    if (sched_has_threads(cache->sched))
        pthread_mutex_lock(&cache->mutex);
}

static void
cache_unlock(struct cache *cache)
{
    if (sched_has_threads(cache->sched))
        pthread_mutex_unlock(&cache->mutex);
}

struct cache *
cache_new(struct sched *sched, uint64_t limit, const struct cache_source *source)
{
    struct cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->sched = sched;
    cache->limit = limit;
    cache->source = source != NULL ? source : &cache_system;
    cache->next_address = (uint64_t)1 << 32;
    if (pthread_mutex_init(&cache->mutex, NULL) == 0)
        return cache;
    free(cache);
    return NULL;
}

void
cache_set_limit(struct cache *cache, uint64_t limit)
{
    cache_lock(cache);
    cache->limit = limit;
    cache_unlock(cache);
}

uint64_t
cache_limit(struct cache *cache)
{
    cache_lock(cache);
    uint64_t limit = cache->limit;
    cache_unlock(cache);
    return limit;
}

/* ---- structs ---- */

/* At least two, as many as one request may need: its block and, of a new segment, what remains. */
static bool
have_spares(struct cache *cache)
{
    if (cache->spare != NULL && cache->spare->right != NULL)
        return true;
    struct slab *slab = account_take(cache->sched, sizeof *slab) ? calloc(1, sizeof *slab) : NULL;
    if (slab == NULL)
        return false;
    slab->next   = cache->slabs;
    cache->slabs = slab;
    for (int i = SLAB_BLOCKS; i-- > 0;) {
        slab->blocks[i].right = cache->spare;
        cache->spare          = &slab->blocks[i];
    }
    return true;
}

static struct cache_block *
block_struct(struct cache *cache)
{
    struct cache_block *block = cache->spare;
    cache->spare = block->right;
    return block;
}

static void
block_struct_back(struct cache *cache, struct cache_block *block)
{
    block->right = cache->spare;
    cache->spare = block;
}

/* ---- segments ---- */

static size_t
segment_size(size_t rounded)
{
    if (rounded <= SMALL_MOST)
        return SMALL_SEGMENT;
    if (rounded < LARGE_OWN)
        return LARGE_SEGMENT;
    return (rounded + LARGE_STEP - 1) / LARGE_STEP * LARGE_STEP;
}

size_t
cache_segment_bytes(size_t bytes)
{
    return segment_size((bytes + SMALLEST - 1) / SMALLEST * SMALLEST);
}

/* Charges the account for what lies below `end` and was not charged yet. */
static bool
segment_reaches(struct cache *cache, struct segment *segment, size_t end)
{
    size_t reach = (end + REACH_STEP - 1) / REACH_STEP * REACH_STEP;
    if (reach <= segment->reach || !cache->source->counted)
        return true;
    if (!account_take(cache->sched, reach - segment->reach))
        return false;
    segment->reach = reach;
    return true;
}

static struct segment *
segment_map(struct cache *cache, size_t bytes, size_t reach)
{
    struct segment *segment = account_take(cache->sched, sizeof *segment) ? calloc(1, sizeof *segment) : NULL;
    if (segment == NULL)
        return NULL;
    segment->bytes = bytes;
    if (segment_reaches(cache, segment, reach)) {
        segment->base = cache->source->take(cache->source->owner, bytes);
        if (segment->base != NULL)
            return segment;
    }
    account_give(cache->sched, segment->reach + sizeof *segment);
    free(segment);
    return NULL;
}

/* One free block, in no tree yet. */
static struct cache_block *
segment_new(struct cache *cache, const struct cache_request *request, size_t rounded)
{
    struct segment *segment = segment_map(cache, segment_size(rounded), rounded);
    if (segment == NULL)
        return NULL;
    segment->number  = ++cache->segments;
    segment->address = cache->next_address;
    segment->stream  = request->stream;
    segment->pool    = rounded <= SMALL_MOST ? CACHE_SMALL : CACHE_LARGE;
    segment->before  = cache->last;
    cache->next_address += (segment->bytes + LARGE_STEP - 1) / LARGE_STEP * LARGE_STEP;
    *(cache->last != NULL ? &cache->last->after : &cache->first) = segment;
    cache->last = segment;
    struct cache_block *block = block_struct(cache);
    *block = (struct cache_block){ .segment = segment, .bytes = segment->bytes };
    segment->first = block;
    __atomic_store_n(&cache->untold, true, __ATOMIC_RELAXED);
    if (can_poison(cache))
        poison_memory(segment->base, segment->bytes);
    grows(cache, STAT_SEGMENT, segment->pool, 1);
    grows(cache, STAT_RESERVED_BYTES, segment->pool, segment->bytes);
    return block;
}

/* Its one block has left its tree. */
static void
segment_free(struct cache *cache, struct segment *segment)
{
    *(segment->before != NULL ? &segment->before->after : &cache->first) = segment->after;
    *(segment->after != NULL ? &segment->after->before : &cache->last)   = segment->before;
    block_struct_back(cache, segment->first);
    if (can_poison(cache))
        unpoison_memory(segment->base, segment->bytes);
    cache->source->give(cache->source->owner, segment->base, segment->bytes);
    __atomic_store_n(&cache->untold, true, __ATOMIC_RELAXED);
    shrinks(cache, STAT_SEGMENT, segment->pool, 1);
    shrinks(cache, STAT_RESERVED_BYTES, segment->pool, segment->bytes);
    account_give(cache->sched, segment->reach + sizeof *segment);
    free(segment);
}

/* ---- blocks ---- */

void *
block_data(const struct cache_block *block)
{
    return block->segment->base + block->offset;
}

size_t
block_bytes(const struct cache_block *block)
{
    return block->bytes;
}

uint64_t
block_place(const struct cache_block *block)
{
    return block->segment->address + block->offset;
}

bool
block_is_recorded(const struct cache_block *block)
{
    return block->recorded != NULL;
}

static bool
is_split(const struct cache_block *block)
{
    return block->before != NULL || block->after != NULL;
}

/* The first `bytes` of a block that is in no tree; what remains goes back to the tree. */
static struct cache_block *
block_cut(struct cache *cache, struct cache_block *rest, size_t bytes)
{
    struct cache_block *block = block_struct(cache);
    *block = (struct cache_block){ .segment = rest->segment, .offset = rest->offset, .bytes = bytes,
                                   .before = rest->before, .after = rest };
    *(rest->before != NULL ? &rest->before->after : &rest->segment->first) = block;
    rest->before  = block;
    rest->offset += bytes;
    rest->bytes  -= bytes;
    tree_add(&cache->free[rest->segment->pool], rest);
    return block;
}

/* A free block that is in no tree becomes the one that was asked for. */
static struct cache_block *
block_fit(struct cache *cache, struct cache_block *block, size_t rounded)
{
    enum cache_pool pool = block->segment->pool;
    bool            was_split = is_split(block);
    size_t          rest = block->bytes - rounded;
    if (pool == CACHE_SMALL ? rest >= SMALLEST : rest > SMALL_MOST) {
        block = block_cut(cache, block, rounded);
        if (was_split) {
            shrinks(cache, STAT_INACTIVE_SPLIT_BYTES, pool, rounded);
        } else {
            grows(cache, STAT_INACTIVE_SPLIT_BYTES, pool, rest);
            grows(cache, STAT_INACTIVE_SPLIT, pool, 1);
        }
    } else if (was_split) {
        shrinks(cache, STAT_INACTIVE_SPLIT_BYTES, pool, block->bytes);
        shrinks(cache, STAT_INACTIVE_SPLIT, pool, 1);
    }
    return block;
}

static void
block_hold(struct cache *cache, struct cache_block *block, const struct cache_request *request)
{
    enum cache_pool pool = block->segment->pool;
    block->state     = BLOCK_HELD;
    block->requested = request->bytes;
    block->holder    = request->holder;
    if (can_poison(cache))
        unpoison_memory(block_data(block), request->bytes);
    grows(cache, STAT_ALLOCATION, pool, 1);
    grows(cache, STAT_ALLOCATED_BYTES, pool, block->bytes);
    grows(cache, STAT_ACTIVE, pool, 1);
    grows(cache, STAT_ACTIVE_BYTES, pool, block->bytes);
    grows(cache, STAT_REQUESTED_BYTES, pool, request->bytes);
}

/* `block` takes a free neighbour over. Answers 1 if there was one. */
static int
block_join(struct cache *cache, struct cache_block *block, struct cache_block *other)
{
    if (other == NULL || other->state != BLOCK_FREE)
        return 0;
    tree_remove(&cache->free[block->segment->pool], other);
    if (other == block->before) {
        block->offset = other->offset;
        block->before = other->before;
        *(other->before != NULL ? &other->before->after : &block->segment->first) = block;
    } else {
        block->after = other->after;
        if (other->after != NULL)
            other->after->before = block;
    }
    block->bytes += other->bytes;
    block_struct_back(cache, other);
    return 1;
}

/* Nobody holds it and no stream uses it beside its own. */
static void
block_release(struct cache *cache, struct cache_block *block)
{
    enum cache_pool pool = block->segment->pool;
    size_t          bytes = block->bytes;
    int             joined = block_join(cache, block, block->before);
    joined += block_join(cache, block, block->after);
    bool split = is_split(block);
    block->state = BLOCK_FREE;
    tree_add(&cache->free[pool], block);
    changes(cache, STAT_INACTIVE_SPLIT, pool, split - joined);
    changes(cache, STAT_INACTIVE_SPLIT_BYTES, pool, (int64_t)bytes - (split ? 0 : (int64_t)block->bytes));
    shrinks(cache, STAT_ACTIVE, pool, 1);
    shrinks(cache, STAT_ACTIVE_BYTES, pool, bytes);
    shrinks(cache, STAT_REQUESTED_BYTES, pool, block->requested);
}

/* ---- streams that were recorded ---- */

/* Kept for the next one: a steady step records as many as it lets go of. */
static void
recorded_free(struct cache *cache, struct cache_block *block)
{
    while (block->recorded != NULL) {
        struct recorded *recorded = block->recorded;
        block->recorded = recorded->next;
        recorded->next  = cache->unused;
        cache->unused   = recorded;
    }
}

/* NULL: no memory. */
static struct recorded *
recorded_new(struct cache *cache)
{
    struct recorded *recorded = cache->unused;
    if (recorded != NULL) {
        cache->unused = recorded->next;
        return recorded;
    }
    if (!account_take(cache->sched, sizeof *recorded))
        return NULL;
    cache->recorded_count++; /* given back at the end, whether the system has it or not */
    return malloc(sizeof *recorded);
}

static bool
recorded_are_done(const struct cache_block *block)
{
    for (const struct recorded *recorded = block->recorded; recorded != NULL; recorded = recorded->next) {
        if (__atomic_load_n(&recorded->stream->done, __ATOMIC_ACQUIRE) < recorded->sequence)
            return false;
    }
    return true;
}

static void
free_those_that_waited(struct cache *cache)
{
    for (struct cache_block **link = &cache->waiting; *link != NULL;) {
        struct cache_block *block = *link;
        if (!recorded_are_done(block)) {
            link = &block->right;
            continue;
        }
        *link = block->right;
        recorded_free(cache, block);
        block_release(cache, block);
    }
}

bool
cache_record(struct cache *cache, struct cache_block *block, int number, const struct stream_progress *stream)
{
    cache_lock(cache);
    bool known = block == NULL || block->segment->stream == number;
    for (struct recorded *recorded = known ? NULL : block->recorded; recorded != NULL; recorded = recorded->next)
        known = known || recorded->number == number;
    struct recorded *recorded = known ? NULL : recorded_new(cache);
    if (recorded != NULL) {
        *recorded = (struct recorded){ block->recorded, stream, number, 0 };
        block->recorded = recorded;
    }
    cache_unlock(cache);
    return known || recorded != NULL;
}

/* ---- take and give ---- */

static enum cache_answer
take_locked(struct cache *cache, const struct cache_request *request, size_t rounded, struct cache_block **out)
{
    enum cache_pool pool = rounded <= SMALL_MOST ? CACHE_SMALL : CACHE_LARGE;
    if (cache->waiting != NULL)
        free_those_that_waited(cache);
    struct cache_block *block = tree_best(cache->free[pool], request->stream, rounded);
    if (!have_spares(cache))
        return CACHE_REFUSED;
    if (block != NULL) {
        if (!segment_reaches(cache, block->segment, block->offset + rounded))
            return CACHE_REFUSED;
        tree_remove(&cache->free[pool], block);
    } else {
        cache->stats.retries += request->again;
        uint64_t reserved = cache_reserved(cache);
        if (reserved > cache->limit || segment_size(rounded) > cache->limit - reserved)
            return CACHE_FULL;
        block = segment_new(cache, request, rounded);
        if (block == NULL)
            return CACHE_REFUSED;
    }
    *out = block_fit(cache, block, rounded);
    block_hold(cache, *out, request);
    return CACHE_TAKEN;
}

enum cache_answer
cache_take(struct cache *cache, const struct cache_request *request, struct cache_block **block)
{
    *block = NULL;
    if (request->bytes == 0)
        return CACHE_TAKEN;
    if (request->bytes > SIZE_MAX / 2)
        return CACHE_FULL;
    size_t rounded = (request->bytes + SMALLEST - 1) / SMALLEST * SMALLEST;
    cache_lock(cache);
    enum cache_answer answer = take_locked(cache, request, rounded, block);
    cache_unlock(cache);
    return answer;
}

void
cache_give(struct cache *cache, struct cache_block *block, bool used)
{
    if (block == NULL)
        return;
    cache_lock(cache);
    assert(block->state == BLOCK_HELD);
    shrinks(cache, STAT_ALLOCATION, block->segment->pool, 1);
    shrinks(cache, STAT_ALLOCATED_BYTES, block->segment->pool, block->bytes);
    if (!used && can_poison(cache))
        poison_memory(block_data(block), block->bytes);
    for (struct recorded *recorded = block->recorded; recorded != NULL; recorded = recorded->next)
        recorded->sequence = __atomic_load_n(&recorded->stream->launched, __ATOMIC_ACQUIRE);
    if (recorded_are_done(block)) {
        recorded_free(cache, block);
        block_release(cache, block);
    } else {
        block->state   = BLOCK_WAITS;
        block->right   = cache->waiting;
        cache->waiting = block;
    }
    cache_unlock(cache);
}

size_t
cache_release(struct cache *cache)
{
    size_t bytes = 0;
    cache_lock(cache);
    free_those_that_waited(cache);
    for (struct segment *segment = cache->first, *next; segment != NULL; segment = next) {
        next = segment->after;
        if (segment->first->state != BLOCK_FREE || is_split(segment->first))
            continue;
        bytes += segment->bytes;
        tree_remove(&cache->free[segment->pool], segment->first);
        segment_free(cache, segment);
    }
    cache_unlock(cache);
    return bytes;
}

/* Blocks that somebody still holds, or that wait, end with their device. */
void
cache_free(struct cache *cache)
{
    if (cache == NULL)
        return;
    while (cache->first != NULL) {
        struct segment *segment = cache->first;
        for (struct cache_block *block = segment->first; block != NULL; block = block->after)
            recorded_free(cache, block);
        segment_free(cache, segment);
    }
    while (cache->unused != NULL) {
        struct recorded *recorded = cache->unused;
        cache->unused = recorded->next;
        free(recorded);
    }
    account_give(cache->sched, cache->recorded_count * sizeof(struct recorded));
    while (cache->slabs != NULL) {
        struct slab *slab = cache->slabs;
        cache->slabs = slab->next;
        account_give(cache->sched, sizeof *slab);
        free(slab);
    }
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

/* ---- what there is ---- */

void
cache_note_full(struct cache *cache)
{
    cache_lock(cache);
    cache->stats.ooms++;
    cache_unlock(cache);
}

/* The lock is held. */
static struct cache_stats
whole_stats(const struct cache *cache)
{
    struct cache_stats stats = cache->stats;
    for (int stat = 0; stat < CACHE_STATS; stat++) {
        struct cache_count *of = stats.of[stat];
        for (int pool = 0; pool < CACHE_POOLS; pool++)
            of[ALL].allocated += of[pool].allocated;
        for (int pool = 0; pool <= CACHE_POOLS; pool++)
            of[pool].freed = of[pool].allocated - of[pool].current;
    }
    return stats;
}

struct cache_stats
cache_stats(struct cache *cache)
{
    cache_lock(cache);
    struct cache_stats stats = whole_stats(cache);
    cache_unlock(cache);
    return stats;
}

uint64_t
cache_allocated(const struct cache *cache)
{
    return __atomic_load_n(&cache->stats.of[STAT_ALLOCATED_BYTES][ALL].current, __ATOMIC_RELAXED);
}

uint64_t
cache_reserved(const struct cache *cache)
{
    return __atomic_load_n(&cache->stats.of[STAT_RESERVED_BYTES][ALL].current, __ATOMIC_RELAXED);
}

void
cache_reset_peak(struct cache *cache)
{
    cache_lock(cache);
    for (int stat = 0; stat < CACHE_STATS; stat++) {
        for (int pool = 0; pool <= CACHE_POOLS; pool++)
            cache->stats.of[stat][pool].peak = cache->stats.of[stat][pool].current;
    }
    cache_unlock(cache);
}

bool
cache_changed(struct cache *cache, struct cache_change *change)
{
    if (!__atomic_load_n(&cache->untold, __ATOMIC_RELAXED))
        return false;
    cache_lock(cache);
    struct cache_stats       stats = whole_stats(cache);
    const struct cache_count count = stats.of[STAT_SEGMENT][ALL];
    uint64_t reserved = cache_reserved(cache);
    *change = (struct cache_change){ count.allocated - cache->told.taken, count.freed - cache->told.given, reserved,
                                     (int64_t)(reserved - cache->told.reserved) };
    cache->told = (struct cache_change){ count.allocated, count.freed, reserved, 0 };
    __atomic_store_n(&cache->untold, false, __ATOMIC_RELAXED);
    cache_unlock(cache);
    return change->taken > 0 || change->given > 0;
}

static struct cache_view
view_of(const struct cache_block *block)
{
    const struct segment *segment = block->segment;
    return (struct cache_view){
        .address = segment->address, .segment_bytes = segment->bytes, .segment = segment->number,
        .stream = segment->stream, .pool = segment->pool, .offset = block->offset, .bytes = block->bytes,
        .requested = block->state == BLOCK_FREE ? 0 : block->requested, .state = block->state,
        .holder = block->holder,
    };
}

size_t
cache_look(struct cache *cache, struct cache_view *out, size_t room)
{
    size_t count = 0;
    cache_lock(cache);
    for (const struct segment *segment = cache->first; segment != NULL; segment = segment->after) {
        for (const struct cache_block *block = segment->first; block != NULL; block = block->after, count++) {
            if (count < room)
                out[count] = view_of(block);
        }
    }
    cache_unlock(cache);
    return count;
}

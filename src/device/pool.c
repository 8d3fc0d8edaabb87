/* A caching pool of blocks: what was given back is handed out again before the system is asked, so that a steady
 * iteration asks it for nothing. Blocks are never split: eight sizes to each doubling waste at most an eighth.
 *
 * It serves the host: its tensors, and the engine's own structs. Devices have caching.c.
 *
 * Interface in order of use: pool_init, pool_take, pool_give, pool_destroy. Thread-safe.
 *
 * In PyTorch: c10/core/CPUAllocator.cpp, which keeps nothing. */
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include "device/internal.h"
#include "sched/account.h"

/* The address sanitizer sees a use after free only if blocks go back to the system. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_SANITIZED 1
#endif
#endif
#if defined(POOL_SANITIZED) || defined(__SANITIZE_ADDRESS__)
static const bool pool_keeps = false;
#else
static const bool pool_keeps = true;
#endif

struct pool_block { struct pool_block *next; };

bool
pool_keeps_blocks(void)
{
    return pool_keeps;
}

/* The bin of the smallest size that holds `bytes`, and that size; -1: too large. */
static int
bin_of(size_t bytes, size_t *size)
{
    if ((uint64_t)bytes > (uint64_t)1 << POOL_LARGEST)
        return -1;
    if (bytes <= (size_t)1 << POOL_SMALLEST) {
        *size = (size_t)1 << POOL_SMALLEST;
        return 0;
    }
    int    power = 63 - __builtin_clzll((unsigned long long)bytes - 1); /* 2^power < bytes <= 2^(power+1) */
    size_t step  = ((size_t)1 << power) / 8;
    size_t steps = (bytes - ((size_t)1 << power) + step - 1) / step;    /* 1 to 8 */
    *size = ((size_t)1 << power) + steps * step;
    return (power - POOL_SMALLEST) * 8 + (int)steps;
}

bool
pool_init(struct pool *pool, struct sched *sched)
{
    *pool = (struct pool){ .sched = sched };
    return pthread_mutex_init(&pool->mutex, NULL) == 0;
}

void
pool_lock(struct pool *pool)
{
    if (sched_has_threads(pool->sched))
        pthread_mutex_lock(&pool->mutex);
}

void
pool_unlock(struct pool *pool)
{
    if (sched_has_threads(pool->sched))
        pthread_mutex_unlock(&pool->mutex);
}

/* What a block of `size` stands for in the account: malloc puts a head before it, and a gap where it is aligned. */
static size_t
system_bytes(size_t size)
{
    enum { MALLOC_HEAD = 16 };
    return size + MALLOC_HEAD + (size < ALIGNED_FROM ? 0 : ALIGNMENT);
}

static void
block_free(struct pool *pool, void *block, size_t size)
{
    free(block);
    account_give(pool->sched, system_bytes(size));
}

static size_t
size_of_bin(int bin)
{
    size_t power = (size_t)1 << (POOL_SMALLEST + (bin + 7) / 8 - 1);
    return bin == 0 ? (size_t)1 << POOL_SMALLEST : power + power / 8 * (size_t)(bin - (bin - 1) / 8 * 8);
}

static void
pool_drain(struct pool *pool)
{
    pool_lock(pool);
    for (int bin = 0; bin < POOL_BINS; bin++) {
        while (pool->bins[bin] != NULL) {
            struct pool_block *block = pool->bins[bin];
            pool->bins[bin] = block->next;
            block_free(pool, block, size_of_bin(bin));
        }
    }
    pool_unlock(pool);
}

void
pool_destroy(struct pool *pool)
{
    pool_drain(pool);
    pthread_mutex_destroy(&pool->mutex);
}

/* Segments of virtual devices too, unless queued work may still use them; and the heap's own free pages: what small
 * blocks have left is no use to large ones. */
void
devices_trim(struct sched *sched)
{
    struct devices *devices = sched_part(sched, PART_DEVICES);
    if (devices == NULL)
        return;
    pool_drain(&devices->host->pool);
    bool idle = devices->queued == 0 && devices->real == NULL; /* a real one's are not the host's memory */
    for (int i = 0; idle && i < __atomic_load_n(&devices->count, __ATOMIC_ACQUIRE); i++)
        cache_release(devices->all[i]->cache);
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Cells need no alignment beyond malloc's, which packs them closer. */
static struct pool_block *
block_from_system(struct pool *pool, size_t size)
{
    if (!account_take(pool->sched, system_bytes(size)))
        return NULL;
    struct pool_block *block = size < ALIGNED_FROM ? malloc(size) : aligned_alloc(ALIGNMENT, size);
    if (block == NULL)
        account_give(pool->sched, system_bytes(size));
    return block;
}

/* When the system has none, or the run may have no more, once more after giving back what lies unused. */
static struct pool_block *
block_new(struct pool *pool, size_t size)
{
    struct pool_block *block = block_from_system(pool, size);
    if (block != NULL)
        return block;
    devices_trim(pool->sched);
    return block_from_system(pool, size);
}

static void
book_taken(struct device_memory *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    __atomic_store_n(&memory->allocated, memory->allocated + bytes, __ATOMIC_RELAXED); /* read without the lock */
    memory->blocks++;
    memory->allocations++;
    if (memory->allocated > memory->peak)
        memory->peak = memory->allocated;
}

void *
pool_take_booked(struct pool *pool, size_t bytes, struct device_memory *memory, size_t counted)
{
    size_t size = 0;
    int    bin  = bin_of(bytes, &size);
    if (bin < 0)
        return NULL;
    pool_lock(pool);
    struct pool_block *block = pool->bins[bin];
    if (block != NULL) {
        pool->bins[bin] = block->next;
        book_taken(memory, counted);
    }
    pool_unlock(pool);
    if (block != NULL || (block = block_new(pool, size)) == NULL || memory == NULL)
        return block;
    pool_lock(pool);
    book_taken(memory, counted);
    pool_unlock(pool);
    return block;
}

void
pool_give_booked(struct pool *pool, void *block, size_t bytes, struct device_memory *memory, size_t counted)
{
    size_t size = 0;
    int    bin  = bin_of(bytes, &size);
    struct pool_block *given = block;
    pool_lock(pool);
    if (memory != NULL) {
        __atomic_store_n(&memory->allocated, memory->allocated - counted, __ATOMIC_RELAXED);
        memory->blocks--;
    }
    if (pool_keeps) {
        given->next     = pool->bins[bin];
        pool->bins[bin] = given;
    }
    pool_unlock(pool);
    if (!pool_keeps)
        block_free(pool, block, size);
}

void *
pool_take(struct pool *pool, size_t bytes)
{
    return pool_take_booked(pool, bytes, NULL, 0);
}

void *
pool_ask(struct task *me, struct pool *pool, size_t bytes)
{
    void *block = pool_take(pool, bytes);
    if (block == NULL && account_collect(me))
        block = pool_take(pool, bytes);
    if (block == NULL)
        memory_failed(me, bytes, "the host");
    return block;
}

void
pool_give(struct pool *pool, void *block, size_t bytes)
{
    pool_give_booked(pool, block, bytes, NULL, 0);
}

/* Interface: heap_change, heap_trim, heap_free. Sizes go in steps of 16 bytes; a block that is let go waits in its
 * list. Slabs lie at multiples of their size, so a block tells its slab. Large blocks are the system's. In PyTorch
 * CPython's obmalloc does this for Python's objects. */
#include "lua/heap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "device/device.h"
#include "sched/account.h"

/* The gap at a slab's end is for malloc's own head: with it slabs lie close together. */
enum { SLAB_BYTES = 32 << 10, SLAB_HEAD = 16, SLAB_GAP = 64, SLAB_ROOM = SLAB_BYTES - SLAB_GAP - SLAB_HEAD,
       SLABS_KEPT = 256 };

/* idle: bytes in free lists, counted while the heap is trimmed */
struct slab { _Alignas(16) struct slab *next; size_t idle; };
_Static_assert(sizeof(struct slab) == SLAB_HEAD, "blocks begin behind it");

static size_t
list_of(size_t size)
{
    return (size - 1) / HEAP_STEP_BYTES;
}

static size_t
size_of_list(size_t list)
{
    return (list + 1) * HEAP_STEP_BYTES;
}

/* Sanitizers and large blocks want the system's. */
static bool
is_small(size_t size)
{
    return size > 0 && size <= HEAP_LARGEST && pool_keeps_blocks();
}

/* A pool may hold what nobody uses: that goes before anything is refused. */
static bool
may_take(struct heap *heap, size_t bytes)
{
    heap->refused = false;
    if (account_take(heap->sched, bytes))
        return true;
    devices_trim(heap->sched);
    heap->refused = !account_take(heap->sched, bytes);
    return !heap->refused;
}

/* ---- large blocks: the system's ---- */

static void *
large_new(struct heap *heap, size_t size)
{
    if (!may_take(heap, size))
        return NULL;
    void *block = malloc(size);
    if (block == NULL)
        account_give(heap->sched, size);
    return block;
}

static void
large_free(struct heap *heap, void *block, size_t size)
{
    free(block);
    account_give(heap->sched, size);
}

/* While it is moved both may exist, but not for longer. */
static void *
large_change(struct heap *heap, void *block, size_t old_size, size_t new_size)
{
    size_t more = new_size > old_size ? new_size - old_size : 0;
    if (more > 0 && !may_take(heap, more))
        return NULL;
    void *moved = realloc(block, new_size);
    if (moved == NULL)
        account_give(heap->sched, more);
    else if (new_size < old_size)
        account_give(heap->sched, old_size - new_size);
    return moved;
}

/* ---- small ones: cut from slabs ---- */

/* What is left of a slab becomes a block of its own size. */
static void
keep_rest(struct heap *heap)
{
    if (heap->left < HEAP_STEP_BYTES)
        return;
    size_t list = list_of(heap->left);
    memcpy(heap->rest, &heap->free[list], sizeof(void *));
    heap->free[list] = heap->rest;
}

static bool
slab_new(struct heap *heap)
{
    void *memory = NULL;
    if (!may_take(heap, SLAB_BYTES))
        return false;
    if (posix_memalign(&memory, SLAB_BYTES, SLAB_BYTES - SLAB_GAP) != 0) {
        account_give(heap->sched, SLAB_BYTES);
        return false;
    }
    struct slab *slab = memory;
    keep_rest(heap);
    *slab       = (struct slab){ heap->slabs, 0 };
    heap->slabs = slab;
    heap->rest  = (char *)slab + SLAB_HEAD;
    heap->left  = SLAB_ROOM;
    heap->slab_count++;
    return true;
}

static void *
heap_cut(struct heap *heap, size_t list)
{
    size_t size = size_of_list(list);
    if (heap->left < size && !slab_new(heap))
        return NULL;
    void *block = heap->rest;
    heap->rest += size;
    heap->left -= size;
    return block;
}

static void *
heap_take(struct heap *heap, size_t size)
{
    if (!is_small(size))
        return large_new(heap, size);
    size_t list  = list_of(size);
    void  *block = heap->free[list];
    if (block == NULL)
        block = heap_cut(heap, list);
    else
        memcpy(&heap->free[list], block, sizeof(void *));
    if (block != NULL)
        heap->used += size_of_list(list);
    return block;
}

static void
give(struct heap *heap, void *block, size_t size)
{
    if (!is_small(size)) {
        large_free(heap, block, size);
        return;
    }
    size_t list = list_of(size);
    memcpy(block, &heap->free[list], sizeof(void *));
    heap->free[list] = block;
    heap->used -= size_of_list(list);
}

void *
heap_change(struct heap *heap, void *block, size_t old_size, size_t new_size)
{
    if (new_size == 0) {
        if (block != NULL)
            give(heap, block, old_size);
        return NULL;
    }
    if (block == NULL)
        return heap_take(heap, new_size);
    if (is_small(old_size) && is_small(new_size) && list_of(old_size) == list_of(new_size))
        return block;
    if (!is_small(old_size) && !is_small(new_size))
        return large_change(heap, block, old_size, new_size);
    void *moved = heap_take(heap, new_size);
    if (moved == NULL)
        return is_small(old_size) && new_size < old_size ? block : NULL;
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    give(heap, block, old_size);
    return moved;
}

/* ---- giving back ---- */

static struct slab *
slab_of(const void *block)
{
    return (struct slab *)((uintptr_t)block & ~(uintptr_t)(SLAB_BYTES - 1));
}

static bool
is_idle(const struct slab *slab)
{
    return slab->idle == SLAB_ROOM;
}

static void
count_idle(struct heap *heap)
{
    if (heap->left > 0)
        slab_of(heap->rest)->idle = heap->left;
    for (size_t list = 0; list < HEAP_LISTS; list++) {
        for (void *block = heap->free[list]; block != NULL; memcpy(&block, block, sizeof block))
            slab_of(block)->idle += size_of_list(list);
    }
}

/* Takes the blocks of idle slabs out of the lists; the others keep their order. */
static void
drop_idle_blocks(struct heap *heap)
{
    for (size_t list = 0; list < HEAP_LISTS; list++) {
        void *link = &heap->free[list], *block, *next;
        for (block = heap->free[list]; block != NULL; block = next) {
            memcpy(&next, block, sizeof next);
            if (!is_idle(slab_of(block))) {
                memcpy(link, &block, sizeof block);
                link = block;
            }
        }
        memcpy(link, &block, sizeof block);
    }
}

static void
free_idle_slabs(struct heap *heap)
{
    struct slab **link = &heap->slabs, *newest = heap->slabs;
    while (*link != NULL) {
        struct slab *slab = *link;
        bool         idle = is_idle(slab);
        slab->idle = 0;
        if (!idle) {
            link = &slab->next;
            continue;
        }
        *link = slab->next;
        if (slab == newest)
            heap->left = 0;
        free(slab);
        heap->slab_count--;
        account_give(heap->sched, SLAB_BYTES);
    }
}

/* A look at every free block: worth it only where at least half of a large heap is not used. */
void
heap_trim(struct heap *heap)
{
    if (heap->slab_count < SLABS_KEPT || heap->used > heap->slab_count * SLAB_BYTES / 2)
        return;
    count_idle(heap);
    drop_idle_blocks(heap);
    free_idle_slabs(heap);
}

void
heap_free(struct heap *heap)
{
    while (heap->slabs != NULL) {
        struct slab *slab = heap->slabs;
        heap->slabs = slab->next;
        free(slab);
        account_give(heap->sched, SLAB_BYTES);
    }
    *heap = (struct heap){ .sched = heap->sched };
}

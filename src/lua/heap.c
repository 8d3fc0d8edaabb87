/* Interface: heap_change, heap_free. Sizes go in steps of 16 bytes; a block that is let go waits in its list.
 * Large blocks are the system's. In PyTorch CPython's obmalloc does this for Python's objects. */
#include "lua/heap.h"

#include <stdlib.h>
#include <string.h>
#include "device/device.h"

enum { SLAB_BYTES = 32 << 10, SLAB_HEAD = 16 };

static size_t
list_of(size_t size)
{
    return (size - 1) / HEAP_STEP_BYTES;
}

/* Sanitizers and large blocks want the system's. */
static bool
is_small(size_t size)
{
    return size > 0 && size <= HEAP_LARGEST && pool_keeps_blocks();
}

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

static void *
heap_cut(struct heap *heap, size_t list)
{
    size_t size = (list + 1) * HEAP_STEP_BYTES;
    if (heap->left < size) {
        char *slab = malloc(SLAB_BYTES);
        if (slab == NULL)
            return NULL;
        keep_rest(heap);
        memcpy(slab, &heap->slabs, sizeof(void *));
        heap->slabs = slab;
        heap->rest  = slab + SLAB_HEAD;
        heap->left  = SLAB_BYTES - SLAB_HEAD;
    }
    void *block = heap->rest;
    heap->rest += size;
    heap->left -= size;
    return block;
}

static void *
heap_take(struct heap *heap, size_t size)
{
    if (!is_small(size))
        return malloc(size);
    size_t list  = list_of(size);
    void  *block = heap->free[list];
    if (block == NULL)
        return heap_cut(heap, list);
    memcpy(&heap->free[list], block, sizeof(void *));
    return block;
}

static void
give(struct heap *heap, void *block, size_t size)
{
    if (!is_small(size)) {
        free(block);
        return;
    }
    size_t list = list_of(size);
    memcpy(block, &heap->free[list], sizeof(void *));
    heap->free[list] = block;
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
        return realloc(block, new_size);
    void *moved = heap_take(heap, new_size);
    if (moved == NULL)
        return is_small(old_size) && new_size < old_size ? block : NULL;
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    give(heap, block, old_size);
    return moved;
}

void
heap_free(struct heap *heap)
{
    while (heap->slabs != NULL) {
        void *slab = heap->slabs;
        memcpy(&heap->slabs, slab, sizeof(void *));
        free(slab);
    }
    *heap = (struct heap){ 0 };
}

/* Where Lua's own objects lie: blocks of a few sizes, used again, so that a lesson's steady step takes nothing from the
 * system. A heap belongs to one Lua state and is touched only by whoever holds that state. What it has from the system
 * stands in the run's account.
 *
 * Order of use: zeroed with the run set, heap_change ..., heap_free after the state is closed. */
#ifndef LUA_HEAP_H
#define LUA_HEAP_H
#include <stdbool.h>
#include <stddef.h>

struct sched;

enum { HEAP_STEP_BYTES = 16, HEAP_LARGEST = 8192, HEAP_LISTS = HEAP_LARGEST / HEAP_STEP_BYTES };

struct heap {
    struct sched *sched;
    void *free[HEAP_LISTS]; /* blocks of each size that nobody uses, one behind the other */
    struct slab *slabs;     /* what they were cut from, one behind the other */
    char *rest;             /* of the newest slab */
    size_t left;
    size_t slab_count;
    size_t used;            /* bytes of the blocks in use that were cut from slabs */
    bool refused;           /* the last block that could not be had was refused by the account, not by the system */
};

/* As realloc with the sizes told: NULL and 0 for a new block, 0 to free one. NULL: no memory, or the run may have no
 * more; the block stays. */
void *heap_change(struct heap *heap, void *block, size_t old_size, size_t new_size);
void  heap_trim(struct heap *heap);   /* gives back the slabs in which nothing lies, if they are many */
void  heap_free(struct heap *heap);
#endif

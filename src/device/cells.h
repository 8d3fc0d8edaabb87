/* Small blocks of the host's pool, by size in steps of 64 bytes, at hand in each task: without a lock.
 * Order of use: host_take or host_room, host_return; scratch_new. */
#ifndef DEVICE_CELLS_H
#define DEVICE_CELLS_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "base/map.h"
#include "sched/task.h"

enum { CELL_BYTES = 64, CELLS_KEPT = 64 };
struct cell { struct cell *next; };
void *cell_new(struct task *me, size_t bytes);                 /* from the pool; not cleared */
void *cell_refused(struct task *me, size_t bytes);             /* NULL: failed */
void  cell_give(struct task *me, void *block, size_t bytes);   /* to the pool, unless me may keep it */

static inline size_t
cell_list_of(size_t bytes)
{
    return bytes == 0 ? 0 : (bytes - 1) / CELL_BYTES;
}

/* What host_give gets for one that was taken here. */
static inline size_t
cell_bytes(size_t bytes)
{
    return (cell_list_of(bytes) + 1) * CELL_BYTES;
}

/* Not cleared; NULL: no memory, and nobody was told. */
static inline void *
cell_take(struct task *me, size_t bytes)
{
    size_t list = cell_list_of(bytes);
    if (list >= TASK_CELLS || me->cells[list].first == NULL)
        return cell_new(me, bytes);
    struct cell *cell = me->cells[list].first;
    me->cells[list].first = cell->next;
    me->cells[list].count--;
    return cell;
}

/* A small struct, zeroed, not counted in anybody's memory. NULL: failed(E_MEMORY or E_BUDGET). */
static inline void *
host_take(struct task *me, size_t bytes)
{
    void *block = cell_take(me, bytes);
    return block != NULL ? memset(block, 0, bytes) : cell_refused(me, bytes);
}

/* Kept at hand for me's next one. */
static inline void
host_return(struct task *me, void *block, size_t bytes)
{
    size_t       list = cell_list_of(bytes);
    struct cell *cell = block;
    if (block == NULL)
        return;
    if (list >= TASK_CELLS || me->cells[list].count >= CELLS_KEPT || me->drop_cells == NULL) {
        cell_give(me, block, bytes);
        return;
    }
    cell->next = me->cells[list].first;
    me->cells[list].first = cell;
    me->cells[list].count++;
}

/* As vec_room, in such blocks: the owner returns room * size bytes. What is new is not cleared. false: no memory. */
bool host_room(struct task *me, void *items, size_t *room, size_t need, size_t size);
/* A map's arrays in such blocks: struct map seen = { .source = host_source(me) }. Only me changes that map. */
struct map_source host_source(struct task *me);
/* `count` zeroed elements of `size` bytes that live as long as me's scope. NULL: failed. */
void *scratch_new(struct task *me, size_t count, size_t size);
#endif

/* Small structs (tensors, nodes, storages) without a lock: each task keeps a few blocks of each size at hand. What it
 * has too many of, and all at its end, goes to the host's pool.
 *
 * Interface: host_take, host_room or host_source, host_return; scratch_new. In PyTorch the C++ allocator does this. */
#include <stdlib.h>
#include <string.h>
#include "device/internal.h"
#include "sched/account.h"

_Static_assert((int)CELL_BYTES == 1 << POOL_SMALLEST, "the pool rounds cells up to the same size");

static size_t
size_of(size_t list)
{
    return (list + 1) * CELL_BYTES;
}

/* Without devices there is no pool any more: the run is over. */
static void
drop_cells(struct task *me)
{
    struct devices *devices = sched_part(me->sched, PART_DEVICES);
    for (size_t list = 0; list < TASK_CELLS; list++) {
        while (me->cells[list].first != NULL) {
            struct cell *cell = me->cells[list].first;
            me->cells[list].first = cell->next;
            if (devices != NULL)
                pool_give(&devices->host->pool, cell, size_of(list));
            else
                free(cell);
        }
        me->cells[list].count = 0;
    }
}

void *
cell_new(struct task *me, size_t bytes)
{
    size_t          list = cell_list_of(bytes), room = list < TASK_CELLS ? size_of(list) : bytes;
    struct devices *devices = devices_of(me);
    void           *block   = devices != NULL ? pool_take(&devices->host->pool, room) : NULL;
    if (block == NULL && devices != NULL && account_collect(me))
        block = pool_take(&devices->host->pool, room);
    return block;
}

void *
cell_refused(struct task *me, size_t bytes)
{
    memory_failed(me, bytes, "the host");
    return NULL;
}

bool
host_room(struct task *me, void *items, size_t *room, size_t need, size_t size)
{
    size_t more = *room < 4 ? 8 : *room * 2;
    if (need <= *room)
        return true;
    more = more < need ? need : more;
    void *grown = more <= PTRDIFF_MAX / size ? cell_take(me, more * size) : NULL;
    void *old;
    if (grown == NULL)
        return false;
    memcpy(&old, items, sizeof old);
    if (old != NULL)
        memcpy(grown, old, *room * size);
    host_return(me, old, *room * size);
    memcpy(items, &grown, sizeof grown);
    *room = more;
    return true;
}

static void *
source_take(void *me, size_t bytes)
{
    return cell_take(me, bytes);
}

static void
source_give(void *me, void *block, size_t bytes)
{
    host_return(me, block, bytes);
}

struct map_source
host_source(struct task *me)
{
    return (struct map_source){ source_take, source_give, me };
}

/* After the first one the task keeps cells without asking here, and gives them back at its end. */
void
cell_give(struct task *me, void *block, size_t bytes)
{
    size_t       list = cell_list_of(bytes);
    struct cell *cell = block;
    if (list >= TASK_CELLS || me->cells[list].count >= CELLS_KEPT || !pool_keeps_blocks()) {
        host_give(me->sched, block, list < TASK_CELLS ? size_of(list) : bytes);
        return;
    }
    cell->next = me->cells[list].first;
    me->cells[list].first = cell;
    me->cells[list].count++;
    me->drop_cells = drop_cells;
}

/* ---- scratch memory: born in the scope ---- */

enum { SCRATCH_HEAD = 64 };      /* holds the number of bytes, and keeps what follows aligned */

static void
scratch_drop(struct task *me, void *memory)
{
    char  *block = (char *)memory - SCRATCH_HEAD;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    host_return(me, block, bytes);
}

void *
scratch_new(struct task *me, size_t count, size_t size)
{
    size_t bytes = SIZE_MAX;
    if (count < (SIZE_MAX - ALIGNED_FROM) / size)
        bytes = count * size + SCRATCH_HEAD < ALIGNED_FROM ? ALIGNED_FROM : count * size + SCRATCH_HEAD;
    char *block = host_take(me, bytes);
    if (block == NULL)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return born(me, block + SCRATCH_HEAD, scratch_drop);
}

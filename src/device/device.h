/* Devices with CUDA's semantics on host memory: any number of virtual ones, each with its own memory accounting and
 * streams. Device -1 (DEVICE_CPU) is the host itself: no streams, work is done at once by the task that asks.
 * One set of devices per run. Virtual devices are host memory; a plug-in back-end fills the same table. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "sched/task.h"

struct devices;

#define DEVICE_CPU (-1)
#define DEVICE_MAX 1024

/* Makes `count` virtual devices (0 is allowed) with a compute stream and a trace lane each ("device:2 compute").
 * May be called again with a larger count, never a smaller one. false: failed. */
bool devices_ready(struct task *me, int count);
int  device_count(struct task *me);
void devices_free(struct sched *sched);     /* after sched_run; asserts that no storage is left */

struct device_memory { uint64_t allocated, peak, blocks, allocations; }; /* bytes, bytes, count, count */
struct device_memory device_memory(struct task *me, int device);
bool device_check(struct task *me, int device); /* exists; else failed(E_DEVICE) and false */

/* Small structs from the host's pool, not counted in anybody's memory; zeroed. NULL: failed(E_MEMORY). */
static inline void *host_take(struct task *me, size_t bytes);
void  host_give(struct sched *sched, void *block, size_t bytes);
bool  pool_keeps_blocks(void); /* false: what is given back goes to the system at once, for a sanitizer */
/* The same, kept at hand for me's next one. */
static inline void host_return(struct task *me, void *block, size_t bytes);
/* As vec_room, in such blocks: the owner returns room * size bytes. What is new is not cleared. false: no memory. */
bool  host_room(struct task *me, void *items, size_t *room, size_t need, size_t size);
/* Memory of a rank for this run, made at its first use: `fresh` is run on it once. NULL: failed(E_MEMORY). */
void *device_rank_memory(struct task *me, int rank, size_t bytes, void (*fresh)(void *memory));

/* Blocks come from a pool per device: sizes round up to 512 bytes, freed blocks are handed round, so that a steady
 * iteration takes nothing from the system. 64-aligned, not cleared. NULL: failed(E_MEMORY). */
void *device_take(struct task *me, int device, size_t bytes, size_t *block_bytes);
void  device_give(struct sched *sched, int device, void *block, size_t bytes, size_t block_bytes);

/* ---- cells.c: small blocks by size, in steps of 64 bytes ---- */

enum { CELL_BYTES = 64, CELLS_KEPT = 64 };
struct cell { struct cell *next; };
void *cell_new(struct task *me, size_t bytes);                 /* from the pool; not cleared */
void  cell_give(struct task *me, void *block, size_t bytes);   /* to the pool, unless me may keep it */

static inline size_t
cell_list_of(size_t bytes)
{
    return bytes == 0 ? 0 : (bytes - 1) / CELL_BYTES;
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

static inline void *
host_take(struct task *me, size_t bytes)
{
    void *block = cell_take(me, bytes);
    return block != NULL ? memset(block, 0, bytes) : failed_null(me, E_MEMORY, "out of memory");
}

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
#endif

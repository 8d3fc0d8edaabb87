/* Devices with CUDA's semantics on host memory: any number of virtual ones, each with its own memory accounting and
 * streams. Device -1 (DEVICE_CPU) is the host itself: no streams, work is done at once by the task that asks.
 * One set of devices per run. Virtual devices are host memory; a plug-in back-end fills the same table. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device/cells.h"
#include "sched/task.h"

struct devices; struct cache;

#define DEVICE_CPU (-1)
#define DEVICE_MAX 1024

/* Makes `count` virtual devices (0 is allowed) with a compute stream and a trace lane each ("device:2 compute").
 * May be called again with a larger count, never a smaller one. false: failed. */
bool devices_ready(struct task *me, int count);
int  device_count(struct task *me);
void devices_trim(struct sched *sched);     /* blocks that nobody uses go back to the system */
/* After sched_run: waits for what real devices still do, but not for ever. true: `text` is one sentence: that one never
 * ends, or what their timelines lack. */
bool devices_finish(struct sched *sched, char *text, size_t size);
void devices_free(struct sched *sched);     /* after sched_run; asserts that no storage is left */

/* Bytes, bytes, count, count. On a device bytes are those of blocks, as the allocator cut them; on the host those that
 * were asked for. */
struct device_memory { uint64_t allocated, peak, blocks, allocations; };
struct device_memory device_memory(struct task *me, int device);
bool device_check(struct task *me, int device); /* exists; else failed(E_DEVICE) and false */

void host_give(struct sched *sched, void *block, size_t bytes);  /* a block of the host's pool, counted nowhere */
bool pool_keeps_blocks(void); /* false: what is given back goes to the system at once, for a sanitizer */
/* Memory of a rank for this run, made at its first use: `fresh` is run on it once. NULL: failed(E_MEMORY). */
void *device_rank_memory(struct task *me, int rank, size_t bytes, void (*fresh)(void *memory));

/* A device's memory. All fail for the host and for devices that are not there. */
uint64_t device_total_memory(struct task *me, int device);    /* bytes; 0: failed */
bool device_set_total(struct task *me, int device, uint64_t bytes);    /* what it has, and may be used */
bool device_set_fraction(struct task *me, int device, double fraction); /* that part of it may be used */
bool device_empty_cache(struct task *me);                     /* of all devices: waits for what is queued */
struct cache *device_cache(struct task *me, int device);      /* for questions: caching.h; NULL: failed */
#endif

/* What the files of device/ share: the devices of a run, their pools, and the entry that runs at this moment. */
#ifndef DEVICE_INTERNAL_H
#define DEVICE_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include "device/device.h"
#include "device/storage.h"
#include "device/stream.h"
#include "sched/sched.h"
#include "sched/stage.h"

/* Blocks of 64 bytes to 2^47, eight sizes to each doubling. */
enum { POOL_SMALLEST = 6, POOL_LARGEST = 47, POOL_BINS = (POOL_LARGEST - POOL_SMALLEST) * 8 + 1 };
enum { ALIGNMENT = 64, ALIGNED_FROM = 512 }; /* of blocks from 512 bytes on; cells below may lie closer together */

struct pool {
    struct sched       *sched;
    pthread_mutex_t     mutex;            /* not taken while one thread runs all tasks */
    struct pool_block  *bins[POOL_BINS];  /* free blocks of that size */
};
bool  pool_init(struct pool *pool, struct sched *sched);
void  pool_destroy(struct pool *pool);
void  pool_lock(struct pool *pool);
void  pool_unlock(struct pool *pool);
void *pool_take(struct pool *pool, size_t bytes);             /* NULL: the system has none either */
/* The same; refused, once more after those who may have garbage have let go of it. NULL: failed. */
void *pool_ask(struct task *me, struct pool *pool, size_t bytes);
void  pool_give(struct pool *pool, void *block, size_t bytes); /* the bytes that were asked for */
/* The same, with the device's books in step: `counted` bytes more or less. */
void *pool_take_booked(struct pool *pool, size_t bytes, struct device_memory *memory, size_t counted);
void  pool_give_booked(struct pool *pool, void *block, size_t bytes, struct device_memory *memory, size_t counted);

struct device {
    int                  index;
    struct pool          pool;      /* its mutex guards `memory` too */
    struct device_memory memory;
    struct stream       *compute;   /* NULL for the host */
    struct stream       *background; /* NULL until somebody copies there; the devices' mutex guards it */
};

struct rank_memory { struct rank_memory *next; int rank; size_t bytes; void *memory; };

struct devices {
    struct sched      *sched;
    pthread_mutex_t    mutex;       /* streams, ranks */
    int                count;
    struct device     *host, *all[DEVICE_MAX];
    struct stream    **streams;     /* by number */
    size_t             stream_count, stream_room;
    struct rank_memory *ranks;
    atomic_uint        storages, events;   /* numbers given out */
    atomic_int         living;             /* storages */
    struct lane_event *on_stream;   /* `stepped`: where an entry that ends just now is; memory it frees is told there */
};

struct device  *device_new(struct sched *sched, int index);  /* NULL: no memory */
void            device_free(struct device *device);
struct devices *devices_of(struct task *me);                    /* NULL: failed */
struct device  *device_of(struct devices *devices, int index);  /* the host for DEVICE_CPU */
void            storage_destroy(struct storage *storage);       /* without a word to the trace */

struct stream  *stream_open(struct task *me, struct devices *devices, int device, const char *name);
void            stream_close(struct devices *devices, struct stream *stream);
#endif

/* What the files of device/ share: the devices of a run, their pools, and the entry that runs at this moment. */
#ifndef DEVICE_INTERNAL_H
#define DEVICE_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include "device/backend.h"
#include "device/caching.h"
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
/* The same, with the host's books in step: `counted` bytes more or less. */
void *pool_take_booked(struct pool *pool, size_t bytes, struct device_memory *memory, size_t counted);
void  pool_give_booked(struct pool *pool, void *block, size_t bytes, struct device_memory *memory, size_t counted);

/* An access that outlived its storage: the stream of the block knows nothing of it. */
struct left_note { uint64_t place; struct access_note note; }; /* place 0: none */
enum { LEFT_NOTES = 16 };

struct device {
    int                  index;
    struct pool          pool;      /* the host's; its mutex guards `memory` too */
    struct device_memory memory;    /* the host's */
    struct cache        *cache;     /* NULL for the host */
    struct stream       *compute;   /* NULL for the host */
    struct stream       *background; /* NULL until somebody copies there; the devices' mutex guards it */
    uint64_t             total;     /* bytes that a device of its kind has */
    struct real_device  *real;      /* real.c's; NULL: it is virtual */
    uint64_t             nothing[8]; /* where tensors without elements lie */
    struct left_note     left[LEFT_NOTES]; /* `stepped`: for the race checker; the oldest gives way */
    unsigned             left_next;
};

struct rank_memory { struct rank_memory *next; int rank; size_t bytes; void *memory; };
enum { RANK_LISTS = 64 };

struct devices {
    struct sched      *sched;
    pthread_mutex_t    mutex;       /* streams, ranks */
    int                count;
    struct device     *host, *all[DEVICE_MAX];
    struct stream    **streams;     /* by number */
    size_t             stream_count, stream_room;
    struct rank_memory *ranks[RANK_LISTS]; /* by rank */
    atomic_uint        storages, events;   /* numbers given out */
    atomic_int         living;             /* storages */
    uint64_t           queued;      /* entries in streams: bytes that they use may not go back to the system */
    const struct device_backend *backend;  /* NULL: virtual devices */
    struct real       *real;        /* real.c's; NULL: virtual devices */
    struct lane_event *on_stream;   /* `stepped`: where an entry that ends just now is; memory it frees is told there */
};

struct device  *device_new(struct sched *sched, int index, const struct cache_source *source); /* NULL: no memory */
void            device_free(struct device *device);
struct devices *devices_of(struct task *me);                    /* NULL: failed */
struct device  *device_of(struct devices *devices, int index);  /* the host for DEVICE_CPU */
struct stream  *stream_numbered(struct devices *devices, size_t number); /* NULL: there are not that many */
struct storage *storage_blank(struct task *me, int device, size_t bytes); /* the struct without its block */
int64_t         allocated_on(struct task *me, int device);
void            segment_announce(struct task *me, int device);  /* the device's segments, if they have changed */
/* A queued entry uses its bytes: it holds the struct, and the block only where no stream's order protects it. */
void            storage_hold(struct storage *storage);
void            storage_let_go(struct task *me, struct storage *storage);
void            storage_abandon(struct storage *storage);       /* the same, without a word to the trace */
/* A race: into the trace, and as me's error. Answers false. */
bool            race_tell(struct task *me, const struct storage *storage, const char *report);
/* Out of memory: fails with who holds the device's memory. */
void            holders_report(struct task *me, struct device *device, size_t bytes);

/* ---- real.c: what a device of the host's memory has not ---- */
bool            real_begin(struct task *me, struct devices *devices);
void            real_end(struct devices *devices);
/* The devices never end what they do: from here on nothing of them is closed or given back, the process ends instead. */
void            real_leave(struct devices *devices);
bool            real_was_left(const struct devices *devices);
struct device  *real_device_new(struct task *me, struct devices *devices, int index);   /* NULL: failed */
void            real_device_free(struct devices *devices, struct device *device);       /* its streams are closed */
/* Memory that is not counted in the device's: of the device, or, of DEVICE_CPU, of the host's that devices see. */
struct cache   *real_hidden_cache(struct devices *devices, int device);
void            real_hidden_give(struct devices *devices, struct storage *storage);
void            real_mirror_give(struct storage *storage);
struct backend_device *real_device_of(struct devices *devices, int device);
struct timeline *real_timeline(struct devices *devices);        /* NULL: nobody asked for one */
enum error_kind trouble_kind(const struct backend_why *why);
/* The back-end's words as me's error; of what is broken, as everybody's. Answers false. */
bool            trouble_told(struct task *me, const struct backend_why *why);
/* The run says once of each kernel that the host does it. */
void            real_tell_host(struct task *me, struct devices *devices, const char *name);
/* The last segment was refused by the device itself, or, of DEVICE_CPU, pinned memory is: me fails with its words. false:
 * it was not. */
bool            real_refused(struct task *me, struct devices *devices, int index);
/* Memory that real devices keep and nobody uses goes back; all that was queued is done. */
void            real_release(struct devices *devices);

struct stream  *stream_open(struct task *me, struct devices *devices, int device, const char *name);
void            stream_close(struct devices *devices, struct stream *stream);
bool            devices_drain(struct task *me);   /* the host waits for all that is queued anywhere */
const struct stream_progress *stream_progress(const struct stream *stream);
const struct actor *stream_actor(const struct stream *stream);
void            storage_inherit(struct task *me, struct storage *storage); /* notes of those that had its block before */
#endif

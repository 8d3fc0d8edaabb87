/* A storage is one block of memory of one device, counted by references, numbered in order of creation. It also is
 * what the race checker watches: its last writer and its readers since. */
#ifndef DEVICE_STORAGE_H
#define DEVICE_STORAGE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/happens.h"
#include "trace/schema.h"

struct task; struct sched; struct stream; struct cache_block; struct claim;

struct access_note {            /* one access the checker remembers */
    struct epoch epoch;
    uint64_t     begin, end;    /* bytes within the storage */
    uint32_t     line;          /* lesson line */
    bool         write, left;   /* left: by who had the memory before */
    bool         yields;        /* to a later write: no race, somebody else tells of it */
    int16_t      rank;
    const char  *what;          /* "add", "a read": static or interned text */
    char         who[24];       /* "r0 main", "device:1 compute" */
};

struct storage_watch;

struct storage {
    atomic_int          references;
    int                 device;         /* DEVICE_CPU or a device */
    uint32_t            number;         /* from 1, per run; 0: hidden */
    atomic_uint         claimed;        /* how many claims there are (claims.h) */
    atomic_flag         claims_lock;
    struct claim       *claims;         /* in the lock */
    size_t              bytes, block_bytes;
    void               *data;
    struct cache_block *block;          /* of a device's cache, or of those that real.c has; NULL: the host's, hidden
                                           of a virtual device, or of no bytes */
    int                 entries;        /* in streams, that use the bytes of a block (`stepped`) */
    const struct actor *order;          /* the stream whose order protects the block; NULL: it is in none's cache */
    struct sched       *sched;
    struct access_note *notes;          /* accesses that a later one must be ordered after */
    size_t              note_count, note_room;
    char               *mirror;         /* the host's copy, for collectives (real.h); NULL: none */
    struct cache_block *mirror_block;
    struct storage_watch *watches;      /* who is told when the bytes have changed; NULL: nobody */
    int                 queued_writes;  /* entries that will change it (`stepped`) */
};

struct access { struct storage *storage; uint64_t begin, end; bool write, yields; const char *what; };

struct storage *storage_new(struct task *me, int device, size_t bytes);   /* one reference; NULL: failed */
/* Staging and workspace: no events, not counted in the device's memory, not watched for races. */
struct storage *storage_new_hidden(struct task *me, int device, size_t bytes);
struct storage *storage_ref(struct storage *storage);
/* The last one frees and tells the trace. What streams still have to do with the bytes of a device is protected by
 * the order of the block's own stream; other streams must have been recorded. */
void            storage_unref(struct task *me, struct storage *storage);
/* What `stream` was given so far must be done before the block is used again. */
bool storage_record_stream(struct task *me, struct storage *storage, struct stream *stream)
    __attribute__((warn_unused_result));

/* Every access of the host or of a stream comes by here. First against what collectives have in their hands (claims.h),
 * in both executors; then, in `stepped` alone, against the accesses remembered, and is remembered.
 * false: failed(E_RACE) names both places. */
bool storage_access_by_host(struct task *me, const struct access *access) __attribute__((warn_unused_result));
/* Of one op. */
bool storage_accesses_by_host(struct task *me, const struct access *accesses, int count)
    __attribute__((warn_unused_result));
bool storage_accesses_by(struct task *me, const struct actor *actor, const char *who, const struct access *accesses,
                         int count) __attribute__((warn_unused_result));

/* The tensor that was written: contiguous from `from`. */
struct storage_content {
    int                   dtype, dims;
    const int64_t        *sizes;
    const void           *from;
    const struct storage *storage;      /* NULL: `from` is the host's memory; else in that one's, or in its mirror */
};
/* Puts them into the trace and answers their id for an argument of type snapshot; 0: not, for they are more than 4096
 * bytes, or it is not `stepped`. */
uint32_t elements_snapshot(struct task *me, const struct storage_content *content);
enum { SNAPSHOT_BYTES = 4096, PART_BYTES = 1024 };  /* of a part of a large storage */
/* All of it is too much for a snapshot: then what was written of it is told, not what it holds. */
static inline bool storage_is_large(const struct storage *storage) { return storage->bytes > SNAPSHOT_BYTES; }
/* Puts the elements into the trace (`stepped` only, at most 4096 bytes; of more the first and the last 32). Called after
 * each write. */
void storage_snapshot(struct task *me, struct storage *storage, const struct storage_content *content);

/* Bytes that have just changed: by the task that is asked, or by an entry of a stream. In `stepped` an entry runs when
 * its time has come: whoever is told then is not the task that launched it, and cannot fail in its place. */
struct storage_change {
    struct access access;
    uint32_t      line;         /* of the lesson, where it was asked for; and the stage around it, as in struct task */
    uint16_t      stage;
    bool          queued;       /* by an entry that ran later: what is found goes to sched_stop */
    bool          is_op;        /* access.what is the name of an op, which worked in place */
};
/* Told after each change, in the order of the changes. `changed` answers false if it has failed (not where `queued`); it
 * may take itself out. The storage outlives its watches. */
struct storage_watch {
    struct storage_watch *next;
    bool (*changed)(struct task *me, struct storage_watch *self, const struct storage_change *change);
};
void storage_add_watch(struct storage *storage, struct storage_watch *watch);
void storage_remove_watch(struct storage *storage, struct storage_watch *watch);
bool storage_tell_change(struct task *me, const struct storage_change *change);
/* The same of a write by me. */
bool storage_changed(struct task *me, const struct access *access, bool is_op);
/* A point of me's, or of the stream whose entry ends at this moment; its device is where the storage lies. */
void storage_emit(struct task *me, enum kind kind, int device, const int64_t args[4]);
#endif

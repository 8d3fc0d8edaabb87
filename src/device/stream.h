/* Streams and events. A stream runs its entries in order; each has a price and an effect. On `stepped`, the memory
 * effects happen when the stream's clock ends the entry, not at the call: who reads too early sees the old value.
 * On `free`, a host device's stream does its work inside the call (as early as CUDA's contract allows).
 * Every entry keeps a reference on the storages it names until it has run. */
#ifndef DEVICE_STREAM_H
#define DEVICE_STREAM_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device/storage.h"
#include "trace/schema.h"

struct task; struct stream; struct event; struct device_queue;

enum { STREAM_ACCESSES = 8, STREAM_DIMS = 8 };

/* What the snapshot after the first write shows: a tensor that fills the storage in its shape, else (dims -1) the
 * storage's elements in a row. */
struct stream_written { bool known; int dtype, dims; int64_t sizes[STREAM_DIMS]; };

struct stream_entry {
    enum kind        kind;                     /* KIND_kernel or KIND_memory_copy: what its events are */
    int64_t          args[4];
    uint64_t         price;                    /* ps */
    bool             covered;                  /* the launch costs the host nothing: another's price contains it */
    struct access    accesses[STREAM_ACCESSES];/* what it reads and writes; storage references are taken */
    int              access_count;
    void           (*effect)(void *context);   /* touches only memory named in accesses; may be NULL */
    /* The same on a real device: queues what it takes (queue.h), at once. NULL: there is no such way. */
    bool           (*enqueue)(const struct device_queue *queue, void *context);
    void            *context;                  /* copied: context_bytes, at most STREAM_CONTEXT */
    size_t           context_bytes;
    struct stream_written written;             /* for the trace's snapshot; may be left zero */
};
#define STREAM_CONTEXT 1024

/* The stream me's work on `device` goes to: its compute stream unless changed (rs.cuda.stream). */
struct stream *stream_current(struct task *me, int device);          /* NULL: failed */
bool           stream_make_current(struct task *me, struct stream *stream);
/* The one stream of a device that copies from the host run on beside its compute stream: made once, kept. */
struct stream *stream_background(struct task *me, int device);       /* NULL: failed */
/* Until stream_return, which takes the answer, me's work on the stream's device goes to it. */
uint64_t       stream_borrow(struct task *me, struct stream *stream);
void           stream_return(struct task *me, uint64_t borrowed);
struct stream *stream_new(struct task *me, int device, const char *name); /* lives as long as the devices */
int            stream_device(const struct stream *stream);
int            stream_number(const struct stream *stream);
struct kernel_fault *stream_fault(struct stream *stream); /* its kernels'; told by the next synchronisation */
bool stream_launch(struct task *me, struct stream *stream, const struct stream_entry *entry)
    __attribute__((warn_unused_result));                             /* returns at once; checks for races */
bool stream_synchronize(struct task *me, struct stream *stream) __attribute__((warn_unused_result));
/* In `free` real devices tell late what they did, and when: from here on all that was launched so far is in the trace. The
 * host waits for that, and learns nothing by it. */
bool devices_tell(struct task *me) __attribute__((warn_unused_result));
bool device_synchronize(struct task *me, int device) __attribute__((warn_unused_result)); /* all its streams */

struct event *event_new(struct task *me);                             /* NULL: failed */
void          event_free(struct task *me, struct event *event);
bool stream_record(struct task *me, struct stream *stream, struct event *event) __attribute__((warn_unused_result));
bool stream_wait_event(struct task *me, struct stream *stream, struct event *event) __attribute__((warn_unused_result));
bool stream_wait_stream(struct task *me, struct stream *stream, struct stream *other)
    __attribute__((warn_unused_result));                             /* for all that is in the other one now */
bool event_synchronize(struct task *me, struct event *event) __attribute__((warn_unused_result)); /* the host waits */
bool event_query(struct task *me, const struct event *event);        /* has everything before it run? */
#endif

/* Appends events and records to a trace file (or to memory when nobody asked for a file).
 * Order of use: trace_create; trace_lane, trace_option ... ; one trace_buffer per thread (one in all in `stepped`);
 * trace_append on it; trace_close. Any thread may add texts, lanes, snapshots; a buffer belongs to one thread. */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/format.h"

struct trace_writer;

enum { TRACE_SPARES = 16 };

/* A chunk in memory and where it lies in the file. */
struct trace_place { unsigned char *chunk; size_t offset; };

struct trace_buffer {
    struct trace_event  *next, *end; /* the current chunk's free part */
    struct trace_writer *writer;
    struct trace_place   place;      /* the current chunk */
    struct trace_place   spares[TRACE_SPARES]; /* chunks made ready ahead, in the order of the file (`free` only) */
    uint32_t             spares_made, spares_taken; /* so far, by the preparing thread and by the buffer's own */
    struct trace_place   full[TRACE_SPARES]; /* full chunks that the preparing thread is to let go */
    uint32_t             full_made, full_taken; /* so far, by the buffer's own thread and by the preparing one */
    uint32_t             lead;       /* how many are to be ready: more once there was none when one was needed */
    bool                 preparing;  /* the next spare is on its way */
    uint32_t             number, chunks;
    uint64_t             count;      /* events appended */
    uint64_t             last_time;  /* of the last one: time never goes back within a buffer */
};

struct trace_options {
    const char      *path;    /* NULL: in memory */
    enum trace_clock clock;
    bool             hash;    /* trace_hash will be asked for */
    bool             prepare; /* a thread makes pages ready ahead of the writers (never in `stepped`) */
};

/* NULL: could not be created, `why` says so ("cannot create FILE: Permission denied"); what was there is as it was. */
struct trace_writer *trace_create(const struct trace_options *options, char *why, size_t why_size);
void                 trace_close(struct trace_writer *writer); /* writes the head's last words; frees */
/* Of all events and what they refer to, also of those that found no room, but for names of files, lines and the lesson's
 * text: six hexadecimal digits, the same as trace_file_hash says of the file. Nobody appends meanwhile. false: there was
 * no memory for it. */
bool                 trace_hash(const struct trace_writer *writer, uint32_t *hash);
int                  trace_fd(const struct trace_writer *writer);   /* of what of it is small */
/* From now on `refuses` is asked for each chunk; true: as if the disk were full. NULL: no more. NULL is fine as writer. */
void                 trace_refuse(struct trace_writer *writer, bool (*refuses)(void *context), void *context);
const char          *trace_warning(struct trace_writer *writer);    /* once, after the disk filled up; else NULL */
uint64_t             trace_lost(const struct trace_writer *writer);
uint64_t             trace_elapsed_ps(const struct trace_writer *writer, uint64_t time); /* of a time as events hold it */
/* Now, by the trace's own clock: as its events hold it, and in ns from its start, at the rate that the finished file
 * will have (the head's is measured again at the end, so trace_elapsed_ps may be off by some 10 us a second until
 * then). Virtual clocks: zeros. */
struct trace_moment { uint64_t ticks; int64_t ns; };
struct trace_moment  trace_moment(const struct trace_writer *writer);

struct trace_buffer *trace_buffer_new(struct trace_writer *writer); /* NULL: no memory */
void                 trace_buffer_free(struct trace_buffer *buffer); /* before trace_close, which frees the rest */
bool                 trace_buffer_more(struct trace_buffer *buffer); /* slow path: next chunk; false: no room, lost */

struct trace_kind;
bool     trace_declare(struct trace_writer *writer, unsigned id, const struct trace_kind *kind); /* false: no room */
uint32_t trace_text(struct trace_writer *writer, const char *text);          /* interned id; 0: no room */
uint32_t trace_snapshot(struct trace_writer *writer, const struct trace_snapshot *snapshot); /* id; 0: no room */
uint32_t trace_lane(struct trace_writer *writer, int rank, int device, enum lane_kind kind, const char *name);
void     trace_option(struct trace_writer *writer, const char *key, const char *value);
void     trace_source(struct trace_writer *writer, const char *path, const char *text);

/* The hot path. Copies the event and publishes its kind last. */
static inline bool
trace_append(struct trace_buffer *buffer, const struct trace_event *event)
{
    if (__builtin_expect(buffer->next == buffer->end, 0) && !trace_buffer_more(buffer))
        return false;
    struct trace_event *slot = buffer->next++;
    slot->time      = event->time;
    slot->args[0]   = event->args[0];
    slot->args[1]   = event->args[1];
    slot->args[2]   = event->args[2];
    slot->args[3]   = event->args[3];
    slot->flow      = event->flow;
    slot->line      = event->line;
    slot->iteration = event->iteration;
    slot->lane      = event->lane;
    slot->rank      = event->rank;
    slot->device    = event->device;
    slot->phase     = event->phase;
    slot->depth     = event->depth;
    buffer->count++;
    buffer->last_time = event->time;
    atomic_store_explicit((_Atomic uint16_t *)&slot->kind, event->kind, memory_order_release);
    return true;
}
#endif

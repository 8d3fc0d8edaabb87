/* What the files of trace/ share: the space that a writer takes, and how a trace is held while it is read. */
#ifndef TRACE_INTERNAL_H
#define TRACE_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "trace/format.h"
#include "trace/reader.h"
#include "trace/writer.h"

enum { CHUNK_EVENTS_ROOM = (int)((TRACE_CHUNK - sizeof(struct chunk_head)) / sizeof(struct trace_event)) };

/* ---- writing: space.c ---- */

struct segment {
    unsigned char *base;
    size_t         offset, bytes; /* where it lies in the file */
};

/* The file as a row of chunks. Who calls holds the writer's mutex, but for space_prepare. */
struct space {
    int             fd;
    bool            in_memory;
    size_t          handed;  /* where the next chunk begins */
    size_t          taken;   /* where the last segment ends */
    size_t          growth;  /* bytes of the next segment */
    struct segment *segments;
    size_t          count, room;
};

bool           space_open(struct space *space, const char *path, char *why, size_t why_size);
struct trace_head *space_head(struct space *space);                          /* page 0, zeroed; NULL: no room */
void           space_unmap_head(struct trace_head *head);
unsigned char *space_chunk(struct space *space, size_t *offset);             /* NULL: no room; not ready yet */
bool           space_prepare(const struct space *space, unsigned char *chunk, size_t offset); /* any thread */
size_t         space_offset(const struct space *space, const void *at);      /* of a place within a chunk */
void           space_close(struct space *space, size_t end);                 /* the file ends at `end` */

/* ---- writing: writer.c and record_writer.c ---- */

struct trace_writer {
    pthread_mutex_t       mutex;
    struct space          space;
    struct trace_head    *head;
    enum trace_clock      clock;
    uint64_t              raw_base;      /* CLOCK_TSC: trace_raw_ns at tick_base */
    atomic_bool           full;
    _Atomic uint64_t      lost, recorded; /* recorded: events in chunks that are full */
    bool                  warned;
    char                  warning[160];

    struct trace_buffer **buffers;       /* all that ever were; freed at the end */
    struct trace_buffer **idle;          /* given back, for the next thread */
    size_t                buffer_count, buffer_room, idle_count, idle_room;

    unsigned char        *records, *records_end; /* free part of the current chunk of records */
    uint32_t              record_chunks;
    struct str            scratch;       /* the record in the making */
    struct map            texts;
    uint32_t              text_count, lane_count, snapshot_count;

    bool                  prepare, stopping, wanted;
    pthread_t             preparer;
    pthread_mutex_t       wake_mutex;
    pthread_cond_t        wake, prepared; /* prepared: a spare was published; goes with `mutex` */
};

/* chunks.c. A chunk that is not ready yet; NULL: no room. Afterwards the head covers it: readers pass over what it does
 * not hold. The caller holds the mutex, here and below. */
unsigned char *chunk_take(struct trace_writer *writer, size_t *offset);
/* A chunk with its head written, ready to be filled; NULL: no room. */
unsigned char *writer_chunk(struct trace_writer *writer, enum chunk_kind kind, uint32_t number, uint32_t sequence);
void           chunk_begin(unsigned char *chunk, enum chunk_kind kind, uint32_t number, uint32_t sequence);
bool           writer_kinds(struct trace_writer *writer);

/* ---- reading: reader.c ---- */

enum chunk_state { CHUNK_WAITING, CHUNK_OPEN, CHUNK_DONE }; /* not begun, still growing, will not change */

struct chunk {
    const unsigned char *base;   /* in the mapping */
    uint32_t             kind, writer;
    uint32_t             events; /* known so far */
    uint32_t             used;   /* bytes of records known so far */
    enum chunk_state     state;
};

/* Stretches of new events, each within one chunk. */
struct run { uint32_t writer, slot, left, chunk; };
struct run_list { struct run *runs; size_t count, room; };

struct window { void *base; size_t bytes; };

/* What begins and has not ended yet, by lane and kind; what flows leave and arrive. */
struct pairs {
    uint32_t  *partner, *below; /* of each event: seq + 1 of its other end; of an open one: the one below it */
    size_t     room, below_room, done;
    struct map open;            /* (lane, kind) -> seq + 1 of the innermost open one */
    uint32_t (*flows)[2];       /* [flow]: seq + 1 of where it leaves and where it arrives */
    size_t     flow_room, flow_count;
    uint64_t   version;
};

struct trace {
    int               fd;
    struct trace_head head;
    size_t            size, limit;       /* of the file; what counts of it */
    bool              starved;           /* the last refresh had no memory for all that is there */
    bool              lost_ground;       /* the file shrank: nothing of it can be trusted */
    struct window    *windows;
    size_t            window_count, window_room, mapped; /* mapped: chunks */
    struct chunk     *chunks;
    size_t            chunk_count, chunk_room;
    uint32_t         *pending;           /* chunks that may still grow */
    size_t            pending_count, pending_room;
    unsigned char    *scratch;           /* TRACE_CHUNK bytes, for reading what still grows */

    struct run_list   fresh;             /* met, not yet in the order */
    size_t            count;
    uint32_t         *order;             /* slots (offset / 64) in order of time; NULL: `row` says it all */
    size_t            order_room;
    uint32_t         *row;               /* event chunks of the only writer, each full but the last */
    size_t            row_count, row_room;
    uint64_t          version;           /* counts how often known events moved */
    size_t            damaged_chunks;
    char              note[160];

    struct arena      arena;
    struct trace_kind      **kinds;
    struct trace_lane_info **lanes;
    const char      **texts;
    struct snapshot_record { const unsigned char *bytes; size_t size; } *snapshots;
    const char     *(*options)[2];
    size_t            kind_count, kind_room, lane_count, lane_room, text_count, text_room;
    size_t            snapshot_count, snapshot_room, option_count, option_room;
    const char       *source_path, *source;
    struct pairs      pairs;
};

/* merge.c */
void run_add(struct run_list *list, size_t chunk_index, uint32_t before, const struct chunk *chunk);
bool merge_runs(struct trace *trace); /* `fresh` into the order; false: no memory, they stay in `fresh` */

/* record_reader.c: one whole record. false: no memory; damaged ones are passed over. */
bool records_take(struct trace *trace, unsigned type, const unsigned char *payload, size_t bytes);
void records_free(struct trace *trace);
void pairs_free(struct pairs *pairs);

/* Where event `seq` lies: its offset in the file / 64. */
static inline uint32_t
slot_of(const struct trace *trace, size_t seq)
{
    if (trace->order != NULL)
        return trace->order[seq];
    const size_t size = sizeof(struct trace_event);
    size_t chunk = trace->row[seq / CHUNK_EVENTS_ROOM], within = seq % CHUNK_EVENTS_ROOM + 1;
    return (uint32_t)((TRACE_PAGE + chunk * TRACE_CHUNK) / size + within);
}

static inline const struct trace_event *
event_in_slot(const struct trace *trace, uint32_t slot)
{
    size_t at = (size_t)slot * sizeof(struct trace_event) - TRACE_PAGE;
    return (const struct trace_event *)(const void *)(trace->chunks[at / TRACE_CHUNK].base + at % TRACE_CHUNK);
}
#endif

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
#include "trace/mapped.h"
#include "trace/reader.h"
#include "trace/target.h"
#include "trace/writer.h"

enum { CHUNK_EVENTS_ROOM = (int)((TRACE_CHUNK - sizeof(struct chunk_head)) / sizeof(struct trace_event)) };

/* ---- writing: space.c ---- */

/* What nobody named lies in memory up to here, behind it in the nameless file on a disk (at the same offsets). It is
 * between two chunks. */
#define TRACE_BORDER (TRACE_PAGE + 64u * TRACE_CHUNK)

/* The file, or both, as a row of chunks. Who calls holds the writer's mutex, but not for space_prepare and
 * space_release. */
struct space {
    int                 fd, spill; /* spill: the nameless file; -1: none (yet) */
    bool                named, spilled; /* spilled: a disk was looked for */
    bool                unmapped;  /* a chunk found no memory to be mapped: not the disk's fault */
    size_t              handed;    /* where the next chunk begins */
    size_t              taken;     /* where what was taken from the system ends */
    size_t              growth;    /* how much is taken next */
    struct trace_target target;
};

bool           space_open(struct space *space, const char *path, char *why, size_t why_size);
struct trace_head *space_head(struct space *space);                          /* page 0, zeroed; NULL: no room */
void           space_unmap_head(struct trace_head *head);
bool           space_publish(struct space *space);                           /* it has its name; false: errno says why */
bool           space_chunk(struct space *space, struct trace_place *place);  /* false: no room. Not ready yet */
bool           space_prepare(const struct space *space, const struct trace_place *place); /* any thread */
void           space_release(const struct trace_place *place);               /* it is written */
void           space_close(struct space *space, size_t end);                 /* the file ends at `end` */

/* ---- writing: writer.c and record_writer.c ---- */

struct trace_writer {
    pthread_mutex_t       mutex;
    struct space          space;
    struct trace_head    *head;
    enum trace_clock      clock;
    uint64_t              raw_base;      /* CLOCK_TSC: trace_raw_ns at tick_base */
    bool                  hashing;
    _Atomic uint64_t      sum;           /* of the chunks that are full */
    atomic_bool           unsummed;      /* there was no memory for what found no room: the sum does not hold it */
    atomic_bool           full;
    _Atomic uint64_t      lost, recorded; /* recorded: events in chunks that are full */
    bool                (*refuses)(void *context);  /* trace_refuse */
    void                 *refuses_context;
    bool                  warned;
    char                  warning[160];

    struct trace_buffer **buffers;       /* all that ever were; freed at the end */
    struct trace_buffer **idle;          /* given back, for the next thread */
    size_t                buffer_count, buffer_room, idle_count, idle_room;

    struct trace_place    record_place;  /* the current chunk of records ... */
    unsigned char        *records, *records_end; /* ... and its free part */
    uint32_t              record_chunks;
    struct str            scratch;       /* the record in the making */
    struct map            texts;
    char                  lesson[256];   /* its file's name, once there is a source */
    uint32_t              text_count, lane_count, snapshot_count;

    bool                  prepare, stopping, wanted;
    pthread_t             preparer;
    pthread_mutex_t       wake_mutex;
    pthread_cond_t        wake, prepared; /* prepared: a spare was published; goes with `mutex` */
};

/* chunks.c. Takes a chunk that is not ready yet; false: no room. Afterwards the head covers it: readers pass over what
 * it does not hold. The caller holds the mutex, here and below. */
bool chunk_take(struct trace_writer *writer, struct trace_place *place);
/* A chunk with its head written, ready to be filled. Where there is no room but a hash is wanted, it lies in memory and
 * in no file (offset 0). false: neither. */
bool writer_chunk(struct trace_writer *writer, struct trace_place *place, const struct chunk_head *head);
void chunk_begin(unsigned char *chunk, const struct chunk_head *head); /* `head` names kind, writer, sequence */
void chunk_finish(struct trace_writer *writer, struct trace_place *place); /* full; needs no mutex */

/* hash.c: one chunk's part, 0 where none was begun (`lesson`: the file's name, as texts say it); and a sum's six
 * hexadecimal digits. */
bool     option_is_of_story(const char *key); /* STORY_PART, STORY_TELL */
uint64_t chunk_sum(const unsigned char *chunk, const char *lesson);
uint32_t sum_digits(uint64_t sum);

/* trace_create, with kinds that `declare` writes at the head (trace_declare); NULL: they come later, each before its first
 * event. */
struct trace_writer *writer_create(const struct trace_options *options, bool (*declare)(struct trace_writer *writer),
                                   char *why, size_t why_size);

/* ---- reading: reader.c ---- */

enum chunk_state { CHUNK_WAITING, CHUNK_OPEN, CHUNK_DONE }; /* not begun, still growing, will not change */

struct chunk {
    const unsigned char *base;   /* in the mapping */
    uint32_t             kind, writer;
    uint32_t             events; /* known so far */
    uint32_t             used;   /* bytes of records known so far */
    bool                 touched; /* may have pages in memory */
    enum chunk_state     state;
};

/* Stretches of new events, each within one chunk. */
struct run { uint32_t writer, slot, left, chunk; };
struct run_list { struct run *runs; size_t count, room; };

/* The chunks of which pages may be in memory: so few that a scan of a large trace stays small, unless somebody looks
 * here and there in all of it (trace_hold). */
enum { TOUCHED_MOST = 128 };
struct touched { uint32_t count, most, chunks[]; };

/* What begins and has not ended yet, by lane and kind; what flows leave and arrive. */
struct pairs {
    uint32_t  *partner;         /* of each event: seq + 1 of its other end; of an open begin: of the open one below */
    size_t     room, done;
    struct map open;            /* (lane, kind) -> seq + 1 of the innermost open one */
    uint32_t (*flows)[2];       /* [flow]: seq + 1 of where it leaves and where it arrives */
    size_t     flow_room, flow_count;
    uint64_t   version;
};

struct trace {
    char             *path;              /* as it was opened; NULL: by nobody who named it */
    int               fd, spill;         /* spill: the file of what lies behind TRACE_BORDER; -1: the same */
    const struct trace_writer *live;     /* whose running trace it is; NULL: a file's */
    struct trace_head head;
    size_t            size, limit;       /* of the file; what counts of it */
    bool              starved;           /* the last refresh had no memory for all that is there */
    bool              unreadable;        /* a read failed: how much there is, is not known */
    bool              lost_ground;       /* the file shrank: nothing of it can be trusted */
    struct mapped    *windows;
    size_t            window_count, window_room, mapped; /* mapped: chunks */
    struct chunk     *chunks;
    size_t            chunk_count, chunk_room;
    uint32_t         *pending;           /* chunks that may still grow */
    size_t            pending_count, pending_room;
    unsigned char    *scratch;           /* TRACE_CHUNK bytes, for reading what still grows */
    struct touched   *touched;

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
    uint64_t         *snapshots;         /* [id]: where its record's payload lies in the file; 0: there is none */
    const char     *(*options)[2];
    size_t            kind_count, kind_room, lane_count, lane_room, text_count, text_room;
    size_t            snapshot_count, snapshot_room, option_count, option_room;
    const char       *source_path, *source;
    struct pairs      pairs;
    struct trace_ends ends;              /* asked instead, where there is one */
};

/* merge.c */
void run_add(struct run_list *list, size_t chunk_index, uint32_t before, const struct chunk *chunk);
bool merge_runs(struct trace *trace); /* `fresh` into the order; false: no memory, they stay in `fresh` */

/* record_reader.c: one whole record. false: no memory; damaged ones are passed over. */
struct record_bytes { unsigned type; const unsigned char *payload; size_t bytes, offset; }; /* offset: in the file */
bool records_take(struct trace *trace, const struct record_bytes *taken);

/* touched.c: before a chunk's mapping is looked at. */
struct touched *touched_new(uint32_t most); /* NULL: no memory */
void chunk_touch(struct touched *touched, struct chunk *chunks, size_t index);
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
    const struct chunk *chunk = &trace->chunks[at / TRACE_CHUNK];
    if (__builtin_expect(!chunk->touched, 0))
        chunk_touch(trace->touched, trace->chunks, at / TRACE_CHUNK);
    return (const struct trace_event *)(const void *)(chunk->base + at % TRACE_CHUNK);
}
#endif

/* The trace file, byte by byte. Little-endian; every struct without padding.
 *
 *   page 0   struct trace_head
 *   then     chunks of TRACE_CHUNK bytes: a struct chunk_head, then events or records
 *
 * Written so that a file cut at any instant opens and holds all that was recorded: an event's `kind` and a record's
 * `type` are stored last, with release order; zero means "not written". Space is taken zeroed. Records that
 * an event refers to (texts, lanes, kinds, snapshots) are written before that event. Nothing in the file depends
 * on wall time, addresses, process ids or absolute paths when the run was `stepped`. */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H
#include <stdint.h>

#define TRACE_MAGIC   "ringside-trace\n"   /* 16 bytes with its NUL */
#define CHUNK_MAGIC   0x4b4e4843u          /* "CHNK" */
#define TRACE_VERSION 1
#define TRACE_PAGE    4096u
#define TRACE_CHUNK   (256u * 1024u)

enum trace_clock { CLOCK_VIRTUAL_PS = 0, CLOCK_TSC = 1, CLOCK_MONOTONIC_NS = 2 };

struct trace_head {
    char     magic[16];
    uint32_t version, event_bytes, chunk_bytes, clock;
    uint64_t valid_bytes;     /* what counts of the file; grows chunk by chunk; 0 in an unfinished `free` run: scan */
    uint64_t tick_base;       /* CLOCK_TSC: ticks at start ... */
    uint64_t ticks_per_ms;    /* ... and how many make a millisecond (measured at start, again at the end) */
    uint64_t lost;            /* events that found no room (disk full) */
    uint64_t complete;        /* 1 when the run ended and closed the file */
};

enum chunk_kind { CHUNK_EVENTS = 1, CHUNK_RECORDS = 2 };

struct chunk_head {
    uint32_t magic, kind;
    uint32_t writer;          /* number of the buffer that wrote it; 0 in `stepped` */
    uint32_t sequence;        /* of that writer's chunks */
    uint64_t reserved[6];
};

enum trace_phase { PHASE_BEGIN = 1, PHASE_END = 2, PHASE_INSTANT = 3 };

/* 64 bytes. `time`: picoseconds (virtual), ticks (TSC) or nanoseconds, as the head says; readers turn it into ps.
 * A flow leaves with the begin (or instant) event that carries its id and arrives with the end (or instant)
 * event on another lane that carries the same id. Ids from JOB_FLOW on are those of a job of several processes
 * (trace/offset.h): the other end may be in another process's trace. */
#define JOB_FLOW 0x80000000u
struct trace_event {
    uint64_t time;
    int64_t  args[4];         /* meaning: the kind's argument list */
    uint32_t flow;            /* 0 none */
    uint32_t line;            /* line of the lesson that caused it directly, 0 none */
    uint32_t iteration;
    uint32_t lane;
    int16_t  rank;            /* -1 none */
    int16_t  device;          /* -1 the host */
    uint8_t  phase, depth;    /* depth: open stages of that task around it, saturating */
    uint16_t kind;            /* stored last; 0 not written */
};
_Static_assert(sizeof(struct trace_event) == 64, "one cache line");

/* Records: u16 type (stored last), u16 zero, u32 payload bytes, payload, zeros to a multiple of 8.
 * Texts are a u32 length, the bytes and a NUL. */
enum record_type {
    RECORD_KIND     = 1, /* u16 kind, u8 is_stage, u8 0, text name, text function, text pytorch, text args, text file,
                          * u32 first line, u32 line of the macro, text source of the function */
    RECORD_LANE     = 2, /* u32 lane, i16 rank, i16 device, u16 enum lane_kind, u16 0, text name */
    RECORD_TEXT     = 3, /* u32 id (from 1), text */
    RECORD_OPTION   = 4, /* text key, text value: lesson, title, seed, policy, executor, hardware, costs, devices, world;
                          * a job's (trace/offset.h); what the lesson says of its story, out of the hash (below). Of
                          * several values of one key the newest counts */
    RECORD_SOURCE   = 5, /* text path (relative), text contents: the lesson file */
    RECORD_SNAPSHOT = 6, /* u32 id (from 1), u8 dtype, u8 dims, u16 0, i64 sizes[dims], the elements, row-major */
};

/* Options by kind: STORY_PART and its name, "scene" or "silent"; STORY_TELL and its name, a sentence. They lie before the
 * lesson's first event. */
#define STORY_PART "story:"
#define STORY_TELL "tell:"

/* The contents of a tensor, as they are written and as they are read. */
struct trace_snapshot {
    int            dtype, dims; /* checked: enum dtype, at most 8 */
    int64_t        sizes[8];
    const void    *elements;    /* may be unaligned: memcpy out */
    size_t         bytes;
};

enum lane_kind { LANE_HOST = 1, LANE_STREAM = 2, LANE_COMM = 3, LANE_LESSON = 4 };
#endif

/* Opens a trace, finished or still being written, and hands out its events in order of time.
 * A file is hostile until checked: every id is bounds-checked here, so that users of this interface need not.
 * `seq` is an event's position in that order, from 0. Times are in picoseconds from the start of the run.
 * Order of use: trace_open, trace_event ..., trace_refresh while it grows, trace_release. */
#ifndef TRACE_READER_H
#define TRACE_READER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/format.h"

struct trace; /* its fields are reader.c's business */

struct trace_kind {
    const char *name, *function, *pytorch, *file, *source; /* never NULL */
    const char *args;                                      /* the raw list */
    const char *arg_name[4];                               /* NULL past the last */
    const char *arg_type[4];                               /* "int" when the list gives none */
    int         arg_count;
    uint32_t    first_line, line;
    bool        is_stage;
};

struct trace_lane_info {
    const char    *name;
    int            rank, device;
    enum lane_kind kind;
};

/* NULL: `why` holds one sentence ("FILE: not a Ringside trace"). A cut file opens; see trace_note. */
uint64_t    trace_events_lost(const struct trace *trace); /* for which there was no room when it was written */
struct trace *trace_open(const char *path, char *why, size_t why_size);
struct trace *trace_open_fd(int fd, char *why, size_t why_size); /* the fd is duplicated */
struct trace_writer;
/* The running trace of this process; to be released before the writer is closed. */
struct trace *trace_open_live(const struct trace_writer *writer, char *why, size_t why_size);
void          trace_release(struct trace *trace);
bool          trace_refresh(struct trace *trace); /* true: there are more events than before */
/* So much of the file may stay mapped in memory (the system takes it back when it needs it), for who looks here and
 * there in all of it; else 32 MiB, which is enough for who goes from its start to its end. */
void          trace_hold(struct trace *trace, size_t bytes);
/* Changes when an event came late and moved others to a later seq (several threads, run not ended): what was kept by
 * seq is to be built anew. Never in a `stepped` trace. */
uint64_t      trace_order_version(const struct trace *trace);

size_t                        trace_count(const struct trace *trace);
const struct trace_event     *trace_event(const struct trace *trace, size_t seq);      /* NULL past the end */
uint64_t                      trace_time(const struct trace *trace, size_t seq);       /* ps */
bool                          trace_is_virtual(const struct trace *trace);
const char                   *trace_note(const struct trace *trace);   /* "cut short: ...", "" when whole */
/* Six hexadecimal digits, as trace_hash says them; false: not all of the file can be read (errno says why, 0: it is
 * cut). */
bool                          trace_file_hash(struct trace *trace, uint32_t *hash);
bool                          trace_starved(const struct trace *trace); /* there was no memory for all of its events */
bool                          trace_gone(const struct trace *trace);    /* it cannot be read any more, or not all of it */
size_t                        trace_kinds(const struct trace *trace);
const struct trace_kind      *trace_kind(const struct trace *trace, unsigned kind);    /* never NULL */
int                           trace_kind_id(const struct trace *trace, const char *name); /* -1: no such kind */
size_t                        trace_lanes(const struct trace *trace);
const struct trace_lane_info *trace_lane_at(const struct trace *trace, size_t lane);   /* never NULL */
const char                   *trace_text_at(const struct trace *trace, int64_t id);    /* "?" when unknown */
bool                          trace_snapshot_at(const struct trace *trace, int64_t id, struct trace_snapshot *out);
const char                   *trace_option_of(const struct trace *trace, const char *key); /* "" when absent */
/* One after the other, oldest first, for options whose keys are not known; false: there are not so many (yet). */
bool                          trace_option_at(const struct trace *trace, size_t index, const char **key,
                                              const char **value);
const char                   *trace_source_text(const struct trace *trace, const char **path); /* the lesson, "" */

/* The other end: of a begin event its end, of an end its begin; SIZE_MAX: none (yet). Built on first use. */
size_t trace_partner(struct trace *trace, size_t seq);
/* Somebody who knows both without an array of all events answers from now on; partner NULL: nobody any more. */
struct trace_ends { size_t (*partner)(const void *of, size_t seq), (*flow_end)(const void *of, size_t seq); const void *of; };
void trace_ask(struct trace *trace, struct trace_ends ends);
/* false: no memory for all events and their partners, so that "none" may be wrong. For those whose answers count. */
bool   trace_whole(struct trace *trace) __attribute__((warn_unused_result));
/* Where the flow that leaves at seq arrives, or the one that arrives at seq left; SIZE_MAX: none. */
size_t trace_flow_end(struct trace *trace, size_t seq);

/* One line: "118 ddp.mark_bucket_ready begin r1 dev1 0.150 us bucket=0 next=0 src/...c:214". No newline. */
struct str;
void trace_print_event(const struct trace *trace, size_t seq, struct str *out);
void trace_print_json(const struct trace *trace, size_t seq, struct str *out); /* the contract's fields, no newline */
void trace_print_time(uint64_t ps, struct str *out); /* "1.204 ms", "60.0048 us", "0 ns": up to 4 decimals, none trailing */
#endif

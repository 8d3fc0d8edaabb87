/* Dumps of PyTorch's Flight Recorder: Python pickles (protocols 0 to 5) or JSON, of NCCL, gloo or any back-end, of any
 * version 2.x and before. A pickle is read by a machine that knows plain data and nothing else: what would run code
 * is refused. Fields that a version has not, or that nobody here knows, are no error.
 *
 *   dump_pickle.c   a pickle as a tree of values        dump.c          a file: whose it is, its calls
 *   dump_value.c    fields of it                        dump_settle.c   what only all dumps together say
 *   dump_entry.c    one call                            dump_write.c    a flight as a dump
 *
 * Order of use: a zeroed struct with a flight; dump_read for each file, in any order; dump_settle; the flight is the
 * caller's. `why` says in one line what was wrong, `notes` what is odd but no error (a line each).
 * In PyTorch: torch/distributed/flight_recorder, torch/csrc/distributed/c10d/FlightRecorderDetail.hpp. */
#ifndef FLIGHT_DUMP_H
#define FLIGHT_DUMP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"
#include "flight/flight.h"

enum {
    DUMP_RANKS   = 8192,            /* ranks, and groups, of a job */
    DUMP_ENTRIES = 4 * 1024 * 1024, /* calls, of all files */
    DUMP_VALUES  = 2 * 1024 * 1024, /* of a file: a ring of 20 000 calls with their frames has fewer */
    DUMP_DEPTH   = 64
};
#define DUMP_BYTES ((size_t)256 << 20) /* of a file */

/* A rank's dump that was read. */
struct dump_source {
    char   *path, *version;      /* version: NULL if it says none */
    int     rank;
    bool    tracked;             /* its recorder follows a call's state; gloo's only knows which are over */
    int64_t first_ns, last_ns;   /* of its calls; 0: it has none that says when */
    int64_t patience_ms;         /* the longest time-out of them */
    struct flight_progress status; /* in the default group, of a dump that has no calls */
};

/* What dumps say of the members of a group of the flight, in the order of their ranks in it. */
struct dump_members {
    int   *ranks, size;          /* size 0: nobody has said it yet */
    size_t room;
    int    of_rank;              /* whose dump said so */
};

/* The groups that the dump which is being read tells of. */
struct dump_config { const char *name; struct dump_members members; };

struct dumps {
    struct flight       *flight;
    struct dump_source  *sources;
    size_t               source_count, source_room;
    struct dump_members *members;           /* of each group of the flight */
    size_t               member_room;
    struct dump_config  *configs;
    size_t               config_count, config_room;
    struct map           by_name;           /* the group of a name in the dump that is being read */
    size_t               entry_count;
    int                  world;             /* a dump speaks of so many ranks at least */
    struct str           notes;
    char                 why[512];
};

/* One file's contents. `rank` counts if it is not -1; else the contents' own word, else the number at the end of the
 * file's name. false: it is no dump that can be used. */
bool dump_read(struct dumps *dumps, const char *path, const void *bytes, size_t size, int rank);
/* Groups get their members, peers their ranks in the world, calls of gloo their state. */
bool dump_settle(struct dumps *dumps);
void dumps_free(struct dumps *dumps);    /* not the flight */

/* The number at the end of a file's name, its ending aside ("trace_12", "rank_3.json"); -1: there is none. */
int  dump_rank_of_name(const char *path);

/* What `rank` called, as PyTorch's _dump_fr_trace_json writes it, with what Ringside knows besides (root, peer, tag,
 * reduce_op, now ...), which its readers skip. false: no memory. */
bool flight_write_json(const struct flight *flight, int rank, struct str *out);
#endif

/* A flight: what each rank called of each group, how far it has come, and what it does now, in the words of PyTorch's
 * Flight Recorder. The engine makes one of its recorders when a run stops (c10d/hang.c), `ringside hang` of the dumps
 * of a real job (dump*.c); both are told by the same report.
 *
 *   flight.c    made, asked, freed                 diagnose.c  why nobody goes on: calls.c are two calls the same?
 *   report.c    the diagnosis in words: words.c,     survey.c who came how far  order.c the first that differs
 *     fact.c and cause.c its two lines, rows.c       circle.c who waits for whom
 *   dump*.c     dumps of PyTorch                   lesson.c    a lesson that repeats the hang
 *
 * Order of use: a zeroed struct; flight_size, flight_group, flight_enter ... in any order; flight_diagnose; hang_print;
 * flight_free. Nothing here knows a task, a thread or a tensor. */
#ifndef FLIGHT_FLIGHT_H
#define FLIGHT_FLIGHT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/map.h"

struct str;

/* As PyTorch says it: enqueued, taken by the back-end, over. */
enum flight_state { FLIGHT_SCHEDULED, FLIGHT_STARTED, FLIGHT_COMPLETED };

/* One call of one rank. Texts are the flight's; NULL: not known. Two ranks' entries belong together where group and
 * sequence are equal (collectives), or where a send and a receive name each other with one tag. */
struct flight_entry {
    int64_t     record;        /* in order of the rank's calls over all groups */
    int64_t     sequence;      /* of the group's collectives (collective_seq_id); p2p: p2p_seq_id; as the source counts */
    int64_t     op;            /* within a coalesced group (op_id); -1 unknown */
    int         group;         /* place in flight.groups */
    bool        is_p2p, retired;
    enum flight_state state;
    const char *operation;     /* "all_reduce", "send": without the back-end's name */
    const char *backend;       /* "nccl", "gloo", "local" */
    const char *input_sizes, *output_sizes;      /* "[[3, 4]]" */
    const char *input_dtypes, *output_dtypes;    /* "[Float]", "[float32]": as the source writes them */
    const char *reduce_op;     /* "sum" */
    const char *details;       /* what else must be equal, in words: "by tree" */
    int         root;          /* in the world; -1: none, or not known */
    int         peer;          /* p2p: in the world; -1: any rank, or not known */
    int64_t     tag;           /* p2p; -1: not known */
    int64_t     created_ns, started_ns, completed_ns, timeout_ms;   /* 0: not known */
    const char *file, *function;                 /* of the first frame that is the user's */
    uint32_t    line;          /* 0: not known */
};

enum flight_now {
    FLIGHT_UNKNOWN,            /* a dump says no more than its entries */
    FLIGHT_ABSENT,             /* there is no dump of this rank */
    FLIGHT_RUNNING,            /* in its own code */
    FLIGHT_WAITING,
    FLIGHT_RETURNED,           /* its function came to its end */
    FLIGHT_THREW,
    FLIGHT_KILLED
};

struct flight_rank {
    enum flight_now      now;
    uint32_t             line;        /* RUNNING, WAITING, THREW: where; 0: not known */
    uint64_t             since_ps;    /* RUNNING, WAITING, and where it ended: for so long; 0: not known */
    const char          *waits_in;    /* WAITING: "all_reduce", "recv", "new_group", "store", "lock", "join" ... */
    const char          *detail;      /* WAITING: of it, in words; THREW, KILLED: the message */
    int64_t              sequence;    /* WAITING: of a collective; -1 */
    int                  group;       /* WAITING: of that; -1 */
    int                  peer;        /* WAITING: for this rank alone; -1 */
    int64_t              tag;         /* WAITING: in a send or receive; -1 */
    bool                 lost;        /* WAITING: for a message that was lost, as `detail` says */
    bool                 in_vain;     /* WAITING: for `peer`, of which it knows that it will not come */
    struct flight_entry *entries;     /* in order of record; the oldest may have been lost */
    size_t               count, room;
};

/* How far a rank has come in a group (PyTorch: pg_status): the numbers of its last collectives; -1: none yet. */
struct flight_progress { int64_t enqueued, started, completed; };

struct flight_group {
    const char             *name;          /* "0", "default_pg": as the source names it */
    const char             *description;
    int                    *ranks;         /* of the world, by rank in the group */
    int                     size;
    struct flight_progress *progress;      /* by rank in the group */
};

/* Why it was told. */
enum flight_cause { FLIGHT_DUMPED, FLIGHT_DEADLOCK, FLIGHT_TIMEOUT, FLIGHT_MISMATCH, FLIGHT_INTERRUPTED };

struct flight {
    enum flight_cause    why;
    uint64_t             after_ps;         /* TIMEOUT: of this limit */
    int                  before;           /* columns that whoever prints the report puts before its first line */
    struct flight_rank  *ranks;            /* by rank in the world */
    int                  rank_count;
    struct flight_group *groups;
    int                  group_count;
    size_t               group_room;
    struct map           texts;            /* flight_text's, by hash */
    struct flight_text  *first_text;
    bool                 broken;           /* an allocation failed; calls are no-ops from there on */
};

/* Ranks from 0 to count - 1 are there from now on, with nothing known of them (now: UNKNOWN, -1 where that is nothing).
 * Never makes it smaller. */
void flight_size(struct flight *flight, int count);
/* A group with these members (copied), in the order of their ranks in it; answers its place, -1: no memory. */
int  flight_group(struct flight *flight, const char *name, const char *description, const int *ranks, int size);
int  flight_group_rank(const struct flight_group *group, int rank);      /* of a rank of the world; -1: no member */
/* Appends a call of `rank`, texts copied; moves the group's progress on. NULL: no memory. */
struct flight_entry *flight_enter(struct flight *flight, int rank, const struct flight_entry *entry);
const char          *flight_text(struct flight *flight, const char *text);   /* a copy that lives as long; NULL: NULL */
void                 flight_free(struct flight *flight);

/* ---- why nobody goes on ---- */

enum hang_cause {
    HANG_NONE,             /* every call is over, or goes on */
    HANG_UNKNOWN,          /* somebody waits, and nothing that is known says why */
    HANG_SKIPPED,          /* a rank left out a call that the others made */
    HANG_ORDER,            /* the same calls in another order */
    HANG_OPERATION,        /* neither: different calls under one number */
    HANG_SHAPE, HANG_DTYPE, HANG_ROOT, HANG_REDUCE_OP, HANG_DETAILS,
    HANG_TAG,              /* a send and a receive would meet but for their tags */
    HANG_GROUP,            /* the call went to another group */
    HANG_GROUPS_CROSSED,   /* calls of overlapping groups, in another order on some rank */
    HANG_NO_NEW_GROUP,     /* a rank left out new_group */
    HANG_SENDS_CROSSED,    /* each sends first, and nobody receives; or each receives first */
    HANG_UNMATCHED,        /* a send or receive whose other end nobody posted */
    HANG_LOCKS_CROSSED,
    HANG_ENDED,            /* a rank's function has returned */
    HANG_THREW, HANG_KILLED,
    HANG_LOST,             /* a message was lost on its way: the culprit sent it to the victim */
    HANG_OUTSIDE,          /* a rank is busy in its own code */
    HANG_LATE,             /* a rank is on its way: behind, in an earlier call that can end */
    HANG_UNSET_KEY,        /* a rank waits for a key of the store that nobody sets */
    HANG_ABSENT            /* a rank left no dump, so nothing is known of it */
};

struct hang {
    enum hang_cause cause;
    int             culprit, victim;         /* ranks of the world; -1: none. The culprit is the one to look at */
    int             group;                   /* where it hangs; -1 */
    int64_t         sequence;                /* of the first call that differs or that cannot end; -1 */
    const struct flight_entry *of_culprit, *of_victim;  /* theirs; NULL: there is none */
    int             circle[16], circle_count;            /* ranks that wait for each other, lowest first; 0: none */
    int             circle_length;           /* of all of them: the first 16 are told */
    int             left_out;                /* SKIPPED: so many calls, of_victim the first one */
    bool            extra;                   /* SKIPPED: the culprit alone makes of_culprit, the others left it out */
    bool            unsure;                  /* SKIPPED, NO_NEW_GROUP: or called later: both stand still, and nothing
                                                behind it is known */
};

const char *hang_cause_name(enum hang_cause cause);      /* "skipped call", "other order" ... */
void        flight_diagnose(const struct flight *flight, struct hang *hang);
/* Whom `rank` waits for, in the world, to `out` (room for flight->rank_count); answers how many. */
int         flight_awaits(const struct flight *flight, int rank, int *out);
/* The report, lines of at most `columns` (80 at least), each ended: what happened, the cause, the first difference, who
 * waits for whom, and each rank's last calls. The first two lines alone tell the cause. */
void        hang_print(const struct flight *flight, const struct hang *hang, int columns, struct str *out);
void        hang_print_head(const struct flight *flight, const struct hang *hang, int columns, struct str *out); /* these two */
#endif

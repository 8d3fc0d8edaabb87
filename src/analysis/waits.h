/* Who waits for whom, as of an event: a row for each lane that says what its task does, what it waits for and since
 * when, and which ranks or which lane would have to do something first. From events alone.
 *
 * A rank waits for those of its group that have not made the call (or another one under its number); if all have made
 * it, the call is under way, and it waits for the rank whose message it wants next.
 * Order of use: waits_take, then any question; waits_free. */
#ifndef ANALYSIS_WAITS_H
#define ANALYSIS_WAITS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct state;

enum standing { STANDS_IDLE, STANDS_RUNNING, STANDS_WAITING, STANDS_RETURNED, STANDS_RAISED, STANDS_KILLED };
enum awaited  { AWAITS_NOTHING, AWAITS_CALL, AWAITS_MESSAGE, AWAITS_STORE, AWAITS_LOCK, AWAITS_TASK, AWAITS_OTHER };

struct waiter {
    uint32_t      lane;
    int           rank;            /* -1 none */
    bool          speaks;          /* the rank's own program runs on this lane */
    enum standing stands;
    enum awaited  awaits;
    size_t        seq;             /* where it began to; else the event of its end, or of what it does */
    const char   *name;            /* of the call, the lock, the key; of what it does the kind */
    int64_t       number, group;   /* of the call; -1 none */
    int64_t       bytes, bucket;   /* -1 not known, none */
    uint32_t      line;            /* of the lesson; 0 unknown */
    bool          under_way;       /* all have made the call */
    size_t        first, count;    /* the ranks that it waits for, in `targets` */
    int           holder;          /* the lane that has the lock, or that runs the task; -1 none */
    size_t        queue;           /* so many wait for the lock */
};

/* The last call of a rank in a group, and the last that is over. */
struct rank_call {
    int         rank, group;
    const char *operation, *done_operation;  /* "" unknown */
    int64_t     number, done, bytes;         /* done -1: none is over */
    size_t      seq;                         /* where it was called */
    uint32_t    line;
};

struct waits {
    struct waiter    *list;       /* by rank, its own program first; then lanes without one */
    size_t            count;
    int              *targets;
    size_t            target_count, target_room;
    struct rank_call *calls;      /* by rank and group */
    size_t            call_count;
    int               rank_count; /* 1 + the highest rank */
};

bool waits_take(struct waits *waits, const struct state *state);  /* false: no memory, nothing to free */
void waits_free(struct waits *waits);
/* The row of the rank's own program; NULL: there is no such rank. */
const struct waiter    *waits_of_rank(const struct waits *waits, int rank);
const struct rank_call *waits_call(const struct waits *waits, int rank, int group); /* NULL: it has made none */
const struct rank_call *waits_last_call(const struct waits *waits, int rank);       /* in any group */
/* The ranks of the first circle, each waits for the next; answers how many (0: none), at most `room`. */
size_t waits_circle(const struct waits *waits, int *ranks, size_t room);
/* The last number of a group's calls that is over on all ranks that made any; -1: none. */
int64_t waits_done_by_all(const struct waits *waits, int group, const char **operation);
/* Did this rank go another way than the others: gone while others wait for it, or alone with its call. */
bool waits_differs(const struct waits *waits, const struct waiter *waiter);
#endif

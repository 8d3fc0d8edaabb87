/* Several traces as one: those of the processes of a job, or of two runs that are compared. The whole is a trace like any
 * other, in a file without a name, so whatever reads traces reads it: lanes side by side, events in order of time on one
 * clock, each trace's ids made its own. Kinds are known by name and arguments, so traces of different versions join.
 *
 * Where a task is in more than one of the traces the lanes are told apart by a letter ("r0 main A", "r0 main B"), and so
 * are devices, which get numbers of their own. */
#ifndef TRACE_JOIN_H
#define TRACE_JOIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace;

/* How the traces come onto one clock. */
enum join_clock {
    JOIN_START,        /* each from its own start */
    JOIN_COLLECTIVE,   /* the ends of the collectives that they have in common lie together, in the median */
    JOIN_ITERATION     /* each iteration begins at one time in all of them: for comparing, not for measuring */
};

struct join_part { const char *path; struct trace *trace; }; /* trace: opened by whoever asks; borrowed */

/* Options of the whole: of part N, counted from 0, its file's name and how many of the lanes are its, in order. */
#define JOIN_PART  "part."
#define JOIN_LANES "part.lanes."

/* NULL: `why` says in one sentence what is in the way. The parts can be released afterwards. At most JOIN_MOST parts. */
enum { JOIN_MOST = 1024 };
struct trace *trace_join(const struct join_part *parts, size_t count, enum join_clock clock, char *why, size_t why_size);
#endif

/* Several traces as one: those of the processes of a job, or of two runs that are compared. The whole is a trace
 * like any other, in a file without a name, so whatever reads traces reads it: lanes side by side, events in order
 * of time on one clock, each trace's ids made its own. Kinds are known by name and arguments, so traces of
 * different versions join.
 *
 * Where a task is in more than one of the traces the lanes are told apart by a letter ("r0 main A", "r0 main B"),
 * and so are devices, which get numbers of their own.
 *
 * Traces of one job (offset.h: their options name one job, each another rank) are in the order of their ranks and
 * need no letters. Their processes all run the whole lesson, so what the lesson itself does (events of no rank) is
 * taken from rank 0's alone (from the lowest rank's that is there). Devices have one number in all processes. Flows with the top bit set are the job's:
 * equal ids are one message, from one trace to another. In the whole all flows are numbered anew.
 *
 * The clocks of a job. A trace's offsets (JOB_CLOCK_BEGIN, JOB_CUT, JOB_CLOCK_END) are set side by side: between
 * two of them a clock drifts evenly, before the first and behind the last it goes as the file says. What is left
 * is the error of the offsets, and is mended, within that error, by what is certain: a message arrives after it
 * left, and nobody is done with an all-reduce before everybody has begun it. Where that cannot be (somebody's
 * error is too small), it is done as far as it goes, and JOIN_NOTE says so. Time never goes back within a trace. A
 * trace without offsets is set by the collectives that it has in common with the others, else by its start.
 *
 * Cuts. While a job runs its traces can be joined again and again, so that what was in the whole before keeps its
 * place: up to cut N of the job. A cut is a moment that each process notes in its trace (JOB_CUT, from 1) while no
 * process is on the other side of it: all are done with what comes before, none has begun what comes behind
 * (between two barriers). What lies behind a cut comes behind it in the whole, whatever clocks say, and its clocks
 * are mended by themselves, so nothing that is recorded later changes what lies before. */
#ifndef TRACE_JOIN_H
#define TRACE_JOIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/offset.h"

struct trace;

/* How the traces come onto one clock. */
enum join_clock {
    JOIN_JOB,          /* the job's, where they are of one; else as JOIN_START */
    JOIN_START,        /* each from its own start */
    JOIN_COLLECTIVE,   /* the ends of the collectives that they have in common lie together, in the median */
    JOIN_ITERATION     /* each iteration begins at one time in all of them: for comparing, not for measuring */
};

struct join_part { const char *path; struct trace *trace; }; /* trace: opened by whoever asks; borrowed */

struct join_wish {
    enum join_clock     clock;
    bool                copies;  /* of a job: also what the lesson does in the processes of other ranks */
    bool                is_cut;  /* of a job: only what lies before cut `cut` (0: none has come yet) ... */
    unsigned            cut;
    const struct trace *own;     /* ... but of this part all, behind the cut also what the lesson does; may be NULL */
    const char         *note;    /* begins JOIN_NOTE; may be NULL */
};

/* Options of the whole: of part N, counted from 0, its file's name and how many of the lanes are its, in order. */
#define JOIN_PART  "part."
#define JOIN_LANES "part.lanes."
/* What is to be said of the whole: which ranks are missing, what was cut short. Absent: nothing. */
#define JOIN_NOTE  "note"

/* NULL: `why` says in one sentence what is in the way. The parts can be released afterwards. At most JOIN_MOST
 * parts. */
enum { JOIN_MOST = 1024 };
struct trace *trace_join(const struct join_part *parts, size_t count, const struct join_wish *wish, char *why,
                         size_t why_size);
#endif

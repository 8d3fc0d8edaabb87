/* How far the clock of one process of a job is from the job's, and what its trace says of that. The job's clock is
 * any one clock that all of its processes measured: rank 0's trace's, counted from its start, as a rule.
 * Order of use, for who measures: trace_moment (writer.h) on both sides of a few exchanges; clock_offset_find;
 * clock_offset_print into the options below (trace_option, at any time: of several values of a key the newest
 * counts). The joiner parses. */
#ifndef TRACE_OFFSET_H
#define TRACE_OFFSET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Options of the trace of a process of a job. */
#define JOB_ID          "job"               /* the same in all processes of one job, of no other job */
#define JOB_RANK        "job.rank"
#define JOB_SIZE        "job.size"
#define JOB_CLOCK_BEGIN "job.clock.begin"   /* a clock_offset: measured when the job has met, and before it parts */
#define JOB_CLOCK_END   "job.clock.end"
/* The N-th place, from 1, up to which the job has come in all of its processes: see trace/join.h. A clock_offset,
 * or one number: the ticks alone. */
#define JOB_CUT         "job.cut."

/* At `local` the job's clock was local + offset, give or take `error`. All in ns. `local` counts from the start of
 * the process's own trace, as trace_moment does; `ticks` is the same moment as struct trace_event holds it in
 * `time` (0: not said). */
struct clock_offset { int64_t local, offset, error; uint64_t ticks; };

/* One question and its answer: `sent` and `received` by the asker's clock, the others by the answerer's. */
struct clock_exchange { int64_t sent, at_server, from_server, received; uint64_t ticks; /* at `received` */ };

/* The offset that all exchanges allow; where they allow none (a clock was set meanwhile), the one with the
 * shortest way. false: no exchange is one (they turn time back). */
bool clock_offset_find(const struct clock_exchange *exchanges, size_t count, struct clock_offset *out);

/* "LOCAL OFFSET ERROR TICKS". */
enum { CLOCK_OFFSET_TEXT = 96 };
void clock_offset_print(const struct clock_offset *offset, char text[CLOCK_OFFSET_TEXT]);
bool clock_offset_parse(const char *text, struct clock_offset *out);   /* false: it is none; TICKS may be left out */
#endif

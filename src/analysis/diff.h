/* What differs between two runs: over a trace that was joined of two (trace/join.h). Events match by rank, lane, kind, phase,
 * iteration and occurrence, never by time. Order of use: diff_new; the questions; diff_free. */
#ifndef ANALYSIS_DIFF_H
#define ANALYSIS_DIFF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace; struct diff;

/* Borrows the trace. NULL: `why` says so: it is not of two, or no memory. */
struct diff *diff_new(struct trace *trace, char *why, size_t why_size);
void         diff_free(struct diff *diff);

size_t diff_partner(const struct diff *diff, size_t seq);   /* the same event of the other run; SIZE_MAX none */
int    diff_side(const struct diff *diff, size_t seq);      /* 0: of the first run, 1: of the second */
/* Of a lane of the second run the same one of the first; -1: it is of the first itself, or has none. */
int    diff_lane(const struct diff *diff, size_t lane);

/* A place where the runs are not the same, in the order of the whole. */
enum difference_kind {
    DIFFERENCE_ONLY,     /* only one run has it */
    DIFFERENCE_ORDER,    /* both have it, but before it came another one */
    DIFFERENCE_ARGUMENT  /* both have it, and say something else of it */
};
struct difference { enum difference_kind kind; uint32_t seq; uint8_t argument; };
/* The first ones are the cause more often than not. At most DIFFERENCES_MOST are kept; `all` (may be NULL): how many. */
enum { DIFFERENCES_MOST = 10000 };
const struct difference *diff_list(const struct diff *diff, size_t *count, size_t *all);

/* The number that an event has in its own run, not in the whole. Takes as long as there are events. */
size_t diff_number(const struct diff *diff, size_t seq);
/* "45 A r0 c10d.issue: bytes 16, in B 256", with that number. */
struct str;
void diff_print(const struct diff *diff, const struct difference *difference, size_t number, struct str *out);

/* Time in stages of a kind, in ps, and how many there were, in either run; the largest change first. */
struct diff_stage { unsigned kind; uint64_t count[2], ps[2]; };
const struct diff_stage *diff_stages(const struct diff *diff, size_t *count);
#endif

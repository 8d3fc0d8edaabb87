/* Breakpoints: predicates with numbers, the same in a session and over a recorded trace.
 * Order of use: zeros, breaks_add, breaks_at while one searches, breaks_use when another trace takes the place of the
 * one they were made for, breaks_free. */
#ifndef ANALYSIS_BREAKS_H
#define ANALYSIS_BREAKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct match; struct str; struct trace;

struct breakpoint { int number; struct match *match; int64_t hits; };
struct breaks {
    struct breakpoint *list;        /* by number */
    size_t             count, room;
    int                last;        /* the number given last; none is given twice */
};

/* `text` as after "break"; "" means the kind of event `here`. What came of it is told in one line; false: nothing. */
bool breaks_add(struct breaks *breaks, const struct trace *trace, size_t here, const char *text, struct str *told);
bool breaks_delete(struct breaks *breaks, int64_t number);          /* false: there is none */
/* The first one that holds at the event, its hit counted; NULL: none. */
const struct breakpoint *breaks_at(struct breaks *breaks, const struct trace *trace, size_t seq);
/* The names in them are looked up in this trace from now on: a run of the same lesson that began anew. */
void breaks_use(struct breaks *breaks, const struct trace *trace);
void breaks_list(const struct breaks *breaks, struct str *out);     /* a line each, "no breakpoints" */
void breaks_free(struct breaks *breaks);
#endif

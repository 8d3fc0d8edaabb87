/* Breakpoints: predicates with numbers, the same in a session and over a recorded trace.
 * Order of use: zeros, breaks_command (or breaks_add), breaks_at while one searches, breaks_use when another trace takes the place of the
 * one they were made for, breaks_free. */
#ifndef ANALYSIS_BREAKS_H
#define ANALYSIS_BREAKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command_line; struct match; struct str; struct trace;

struct breakpoint {
    int           number;
    struct match *match;
    int64_t       hits;             /* times that it stopped somebody */
    int64_t       ignore;           /* so many more times it lets them pass */
    bool          off, once;        /* once: it is off after it has stopped somebody */
};
struct breaks {
    struct breakpoint *list;        /* by number */
    size_t             count, room;
    int                last;        /* the number given last; none is given twice */
};

/* `text` as after "break"; "" means the kind of event `here`. What came of it is told in one line; false: nothing. */
bool breaks_add(struct breaks *breaks, const struct trace *trace, size_t here, const char *text, struct str *told);
bool breaks_delete(struct breaks *breaks, int64_t number);          /* false: there is none */
/* break, delete, enable, disable, once, ignore, condition; told in one line. false: it cannot be done. */
bool breaks_command(struct breaks *breaks, const struct trace *trace, size_t here, const struct command_line *line,
                    struct str *told);
bool breaks_takes(int command);                             /* it is one of these */
/* The first one that holds at the event and stops there, its hit counted; NULL: none. */
const struct breakpoint *breaks_at(struct breaks *breaks, const struct trace *trace, size_t seq);
/* "stopped by 2: bytes > 1e6 (r3)" */
void breaks_print_stop(const struct breakpoint *point, const struct trace *trace, size_t seq, struct str *out);
/* The names in them are looked up in this trace from now on: a run of the same lesson that began anew. */
void breaks_use(struct breaks *breaks, const struct trace *trace);
void breaks_list(const struct breaks *breaks, struct str *out);     /* "2: bytes > 1e6, stopped 3 times, off"; "no breakpoints" */
void breaks_free(struct breaks *breaks);
#endif

/* The engine's end of the debugger: stops the run after an event and talks lines over a file descriptor while it is
 * stopped. It knows when to stop and how to edit the schedule; names are looked up by the table src/lua fills.
 * Breakpoints are none of its business: who steps searches the recorded trace, so that forwards and back are alike.
 *
 * Requests, one line each, answered by lines and then ".":
 *   go SEQ                          run until event SEQ was recorded; answers "at SEQ" or "end STATUS SEQ"
 *   print EXPR                      "ok" or "no", then the value or why not
 *   set ... | switch RANK | delay RANK TIME | kill RANK     carried out now; "ok" or "no", then a sentence
 *   tasks                           who is there and what it waits for */
#ifndef SCHED_DEBUGGER_H
#define SCHED_DEBUGGER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/sched.h"

struct debugger; struct str;

/* Called between two events, from whichever task caused the last one: they touch memory as it lies there, and may
 * not make an event, wait, or let the scheduler in. */
struct debugger_names {
    void *context;
    bool (*print)(void *context, struct task *me, const char *expression, struct str *out); /* out: the value, or why not */
    bool (*set)(void *context, struct task *me, const char *assignment, struct str *out);
};

/* Edits to repeat when a run is done again: applied when event `seq` has been recorded. In order of seq. */
struct debugger_edit { uint64_t seq; char line[512]; };

/* Copies the edits; NULL: no memory. `fd` stays the caller's. */
struct debugger *debugger_new(int fd, const struct debugger_edit *edits, size_t edit_count);
void             debugger_free(struct debugger *debugger);
void             debugger_attach(struct debugger *debugger, struct sched *sched); /* before sched_run */
void             debugger_set_names(struct debugger *debugger, const struct debugger_names *names);
struct debugger *debugger_of(struct sched *sched);    /* NULL: nobody watches */
/* The run is over with this exit status: tells the other end, serves print and tasks until it hangs up. */
void             debugger_finished(struct debugger *debugger, struct task *me, int status);
#endif

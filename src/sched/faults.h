/* Faults on purpose: what goes wrong in a run, and when, counted and never timed, so that the same plan gives the same
 * run. A lesson writes plans (rs.faults), `explore` draws them from a seed, the debugger adds to them at an event; a
 * schedule's file keeps them, a line each. Who can be struck asks for it where it would happen, once each time:
 * fault_point (every scheduling point of a rank's tasks), fault_message (a message that leaves), fault_strikes (an
 * allocation, a write). */
#ifndef SCHED_FAULTS_H
#define SCHED_FAULTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str; struct task; struct sched;

enum fault_kind {
    FAULT_LATE,        /* at its point number `at` the rank stands still for ps */
    FAULT_KILL,        /* at its point number `at` the rank is gone, without a word */
    FAULT_LOSE,        /* message number `at` from rank to peer never arrives */
    FAULT_DELAY,       /* it arrives ps later */
    FAULT_DOUBLE,      /* it arrives twice: a second one, equal, is there after it */
    FAULT_CUT,         /* this and all later ones are lost: the link is dead */
    FAULT_ALLOCATION,  /* request number `at` of memory from the account is refused */
    FAULT_WRITE,       /* write number `at` to a file of the lesson's, or chunk of the trace, finds a full disk */
    FAULT_KINDS
};
struct fault {
    enum fault_kind kind;
    int             rank, peer;    /* in the world; -1: does not matter */
    uint64_t        at;            /* counted from 0 */
    uint64_t        ps;
};
struct fault_plan { struct fault *faults; size_t count, room; };

/* "kill 2 at 40", "late 1 at 3 by 500 us", "lose 0 -> 2 message 3", "delay 0 -> 2 message 3 by 100 us",
 * "double 0 -> 2 message 3", "cut 0 -> 2 message 3", "allocation 17", "write 2". */
bool fault_parse(const char *line, struct fault *fault);   /* false: it is none */
void fault_print(const struct fault *fault, struct str *out);
bool fault_plan_add(struct fault_plan *plan, const struct fault *fault);   /* false: no memory */
void fault_plan_free(struct fault_plan *plan);
#endif

/* Faults on purpose: what goes wrong in a run, and when, counted and never timed, so that the same plan gives the same
 * run. A lesson writes plans (rs.faults), `explore` draws them from a seed, the debugger adds to them at an event; a
 * schedule's file keeps them, a line each. Who can be struck asks for it where it would happen, once each time:
 * fault_point (every scheduling point of a rank's tasks), fault_message (a message that leaves), fault_strikes (an
 * allocation, a write).
 *
 * A scheduling point is where a stage is entered or left, and where a clock is moved on; those of all tasks of a rank
 * count. A message is one comm.hop, from a rank of the world to another, of collectives and sends alike. Both executors
 * count at the same places; in `free` a rank's tasks may come to them in another order.
 *
 * Messages of a group's collectives between two ranks come in the order in which they were sent: behind one that is lost
 * the later ones pile up. A send that is lost stays away alone. A cut link loses those of all groups. One that is doubled
 * is there again after it was taken: the next hop takes it, and what came for that hop stays for the one after it; a
 * second send stands in line. No number in a message tells a repeated one from a new one. */
#ifndef SCHED_FAULTS_H
#define SCHED_FAULTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/task.h"

struct str;

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

/* ---- in a run: sched_options.faults is counted from its beginning ---- */

/* From now on, so `at` is counted from here; it strikes once. false: no memory. */
bool fault_expect(struct sched *sched, const struct fault *fault);
/* A new world begins: a link that was cut in the last one is whole. */
void fault_new_world(struct sched *sched);
/* Messages may be struck: who could do without them must send them. */
bool fault_has_messages(struct sched *sched);
/* What was asked so far of this kind, by (rank, peer): how many points, messages, allocations, writes there were. Counted
 * where sched_options.faults or count_faults asks for it. */
uint64_t fault_count(struct sched *sched, enum fault_kind kind, int rank, int peer);

/* The expected faults that have not struck, by `next` (from 0, moved on): a line about each, with how often it was asked.
 * false: there is no more. */
bool fault_unstruck(struct sched *sched, size_t *next, struct str *out);

/* me passes a scheduling point. Called where sched_has_faults only, as are the next ones. */
void fault_point(struct task *me);
/* A message leaves: what happens to it. */
struct fault_message { bool is_lost, is_cut, is_doubled; uint64_t number, delay_ps; };
struct fault_message fault_message(struct task *me, int from, int to);
/* Memory is asked for, a file is written: true: refuse it. Told as an event at the next scheduling point. */
bool fault_strikes(struct sched *sched, enum fault_kind kind);
/* A file is about to be written; true: it finds a full disk, and errno says so. Called anywhere; sched may be NULL. */
bool fault_fills_disk(struct sched *sched);

/* The rank is gone now, as a killed process: its waits end, all that its tasks do fails with E_KILLED, which a script
 * cannot catch. false: no task of it lives. By the debugger (me NULL), or by me, which may be one of them. */
bool fault_kill(struct sched *sched, struct task *me, int rank);
static inline bool
task_is_killed(const struct task *me)
{
    return __builtin_expect(atomic_load_explicit(&me->killed, memory_order_relaxed) != NOT_KILLED, 0);
}
bool task_die(struct task *me);   /* of one that is: fails with E_KILLED, once */
#endif

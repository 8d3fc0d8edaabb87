/* A lock that hands out tickets, so that nobody gets it twice while another waits. Waiting is a `lock.wait` stage,
 * holding a `lock.hold` span; both carry the lock's name. Not recursive. */
#ifndef SCHED_LOCK_H
#define SCHED_LOCK_H
#include "sched/sched.h"

/* Stands in line as long as its task waits. */
struct lock_ticket { struct lock_ticket *next; struct task *task; };

struct lock {
    struct monitor      monitor;
    struct lock_ticket *first, *last;  /* who waits; `last` counts while there is a first */
    uint64_t            next_ticket, serving;   /* numbers for the trace */
    struct task        *holder;        /* of whoever has its turn; NULL: nobody */
    int64_t        name;      /* text id */
    const char    *word;      /* the same, borrowed */
};
bool lock_init(struct task *me, struct lock *lock, const char *name);
void lock_destroy(struct lock *lock);
bool lock_acquire(struct task *me, struct lock *lock) __attribute__((warn_unused_result)); /* false: stepped, broken; the ticket is given back */
void lock_release(struct task *me, struct lock *lock);
#endif

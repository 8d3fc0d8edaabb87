/* A lock that hands out tickets, so that nobody gets it twice while another waits. Waiting is a `lock.wait` stage,
 * holding a `lock.hold` span; both carry the lock's name. Not recursive. */
#ifndef SCHED_LOCK_H
#define SCHED_LOCK_H
#include "sched/sched.h"

struct lock {
    struct monitor monitor;
    uint64_t       next_ticket, serving;
    struct task   *holder;
    int64_t        name;      /* text id */
    const char    *word;      /* the same, borrowed */
};
bool lock_init(struct task *me, struct lock *lock, const char *name);
void lock_destroy(struct lock *lock);
bool lock_acquire(struct task *me, struct lock *lock) __attribute__((warn_unused_result)); /* false: stepped, broken */
void lock_release(struct task *me, struct lock *lock);
#endif

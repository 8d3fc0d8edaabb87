/* The account of a run: bytes had from the system and steps of work, of all its ranks together, against what a lesson
 * may take. It is asked where memory is taken from the system (the pools of device/, Lua's heaps, scratch memory), so
 * what lies in a pool and is handed round counts once and a steady step asks nobody; and before work is done.
 *
 * A step of work is some 10 ns: one Lua instruction, WORK_ELEMENTS elements of an op, WORK_PRODUCTS multiplications
 * of a product, WORK_BYTES bytes of text. The sum is the same in every run and on every machine. */
#ifndef SCHED_ACCOUNT_H
#define SCHED_ACCOUNT_H
#include <pthread.h>
#include <stdatomic.h>
#include "sched/sched.h"

enum { WORK_ELEMENTS = 64, WORK_PRODUCTS = 256, WORK_BYTES = 64, WORK_OP = 32, WORK_BATCH = 4096 };

/* Somebody who may have garbage: his `collect` is called when memory is refused. true: he let go of some. */
struct collector {
    struct collector *next, **place; /* place: what points to it; NULL: it is not asked */
    bool            (*collect)(struct task *me, struct collector *self);
};

struct account {
    size_t            memory_limit;  /* bytes; 0: none */
    uint64_t          work_limit;    /* steps; 0: none */
    atomic_size_t     taken;
    atomic_ullong     done;
    pthread_mutex_t   mutex;         /* the collectors */
    struct collector *collectors;
    const struct task *_Atomic collecting; /* asks them now */
    unsigned          collector_count;
};

bool   account_take(struct sched *sched, size_t bytes);  /* false: the limit is reached; nobody was told */
void   account_give(struct sched *sched, size_t bytes);
size_t account_taken(const struct sched *sched);
size_t account_limit(const struct sched *sched);         /* 0: none */
bool   account_presses(const struct sched *sched);       /* most of it is taken: garbage should go now */
/* Collectors outlive the calls that they are asked in; `collect` may free tensors and so emit events. */
void   account_add_collector(struct sched *sched, struct collector *collector);
void   account_remove_collector(struct sched *sched, struct collector *collector);
unsigned account_collectors(const struct sched *sched);  /* how many there are */
bool   account_collect(struct task *me);                 /* asks them all; true: memory may be had again */
bool   account_garbage(struct task *me);                 /* the same, also where the account has no limit */

/* Fails for want of `bytes`: E_BUDGET if the limit stands in the way, else E_MEMORY ("out of memory: WHERE ..."). */
bool   memory_failed(struct task *me, size_t bytes, const char *where);

/* Work that is about to be done. false: failed, with E_BUDGET (no more is allowed) or E_STOPPED. Small amounts are
 * added up in the task first. */
bool   work_settle(struct task *me) __attribute__((warn_unused_result));
static inline bool
task_work(struct task *me, uint64_t steps)
{
    me->work = steps > UINT64_MAX - me->work ? UINT64_MAX : me->work + steps;
    return me->work < WORK_BATCH || work_settle(me);
}
uint64_t account_done(const struct sched *sched);        /* steps, of all tasks that have settled */
bool     account_exhausted(const struct sched *sched);   /* no work is allowed any more */
bool     account_closed(const struct sched *sched);      /* nor wanted: the run was asked to end, or it is exhausted */
#endif

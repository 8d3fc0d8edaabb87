/* Counts that several tasks change: references, versions, numbers given out. While one thread runs all tasks (always
 * in `stepped`, in `free` until the first task is started) they are ordinary numbers; the thread that starts another
 * one makes them atomic before that one lives. */
#ifndef SCHED_COUNT_H
#define SCHED_COUNT_H
#include <stdatomic.h>
#include "sched/sched.h"

/* The count before. */
static inline int
count_up(const struct sched *sched, atomic_int *count)
{
    if (sched_has_threads(sched))
        return atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    int before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + 1, memory_order_relaxed);
    return before;
}

/* true: that was the last one, and all that others did with the object has happened. */
static inline bool
count_down(const struct sched *sched, atomic_int *count)
{
    if (sched_has_threads(sched))
        return atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1;
    int before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before - 1, memory_order_relaxed);
    return before == 1;
}

static inline unsigned
count_next(const struct sched *sched, atomic_uint *count)
{
    if (sched_has_threads(sched))
        return atomic_fetch_add_explicit(count, 1, memory_order_relaxed) + 1;
    unsigned next = atomic_load_explicit(count, memory_order_relaxed) + 1;
    atomic_store_explicit(count, next, memory_order_relaxed);
    return next;
}
#endif

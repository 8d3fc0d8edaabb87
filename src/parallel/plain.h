/* Plain memory that dies with a stage: struct arena plain PLAIN = { 0 }. */
#ifndef PARALLEL_PLAIN_H
#define PARALLEL_PLAIN_H
#include "base/arena.h"
#include "sched/task.h"

#define PLAIN __attribute__((cleanup(arena_free)))

/* Zeroed; NULL: failed. */
static inline void *
plain_take(struct task *me, struct arena *plain, size_t bytes)
{
    void *taken = arena_take(plain, bytes);
    return taken != NULL ? taken : failed_null(me, E_MEMORY, "out of memory");
}
#endif

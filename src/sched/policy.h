/* Who goes first among those whose clocks are equal: the smaller tie. One small interface, three policies. */
#ifndef SCHED_POLICY_H
#define SCHED_POLICY_H
#include <stdbool.h>
#include <stdint.h>

struct policy {
    const char *name;
    uint64_t  (*tie)(struct policy *self, int task_number); /* asked each time a task becomes runnable or passes a point */
    uint64_t    state;      /* random: the generator; round-robin: the counter */
};
bool policy_init(struct policy *policy, const char *name, uint64_t seed); /* false: no such policy */
#endif

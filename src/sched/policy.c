/* Policies: a tie is a number; the smallest among equal clocks goes first. */
#include "sched/policy.h"
#include <string.h>
#include "base/rng.h"

static uint64_t
tie_in_order(struct policy *self, int task_number)
{
    (void)self;
    return (uint64_t)task_number;
}

static uint64_t
tie_at_random(struct policy *self, int task_number)
{
    (void)task_number;
    return splitmix(&self->state) >> 8;
}

static uint64_t
tie_round_robin(struct policy *self, int task_number)
{
    (void)task_number;
    return ++self->state;
}

bool
policy_init(struct policy *policy, const char *name, uint64_t seed)
{
    *policy = (struct policy){ .name = "order", .tie = tie_in_order, .state = 0 };
    if (name == NULL || strcmp(name, "order") == 0)
        return true;
    if (strcmp(name, "random") == 0) {
        *policy = (struct policy){ .name = "random", .tie = tie_at_random, .state = seed };
        return true;
    }
    if (strcmp(name, "round-robin") == 0) {
        *policy = (struct policy){ .name = "round-robin", .tie = tie_round_robin };
        return true;
    }
    return false;
}

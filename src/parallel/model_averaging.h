/* Model averaging: ranks train apart and now and then take the mean of their parameters. Who decides when, and among
 * whom, is a schedule: one period for all ranks, or a hierarchy of groups with a period each.
 *
 * In PyTorch: torch/distributed/algorithms/model_averaging. */
#ifndef PARALLEL_MODEL_AVERAGING_H
#define PARALLEL_MODEL_AVERAGING_H
#include <stdbool.h>
#include <stdint.h>

struct task; struct tensor; struct process_group;

/* Every parameter becomes the mean over the group's ranks, by one all-reduce of all of them in a row. Of a group that
 * this rank is no member of (NULL): nothing happens. false: failed. */
bool average_parameters(struct task *me, struct tensor *const *params, int count, struct process_group *group)
    __attribute__((warn_unused_result));

/* After step `step`, counted from 0, do ranks average? The first time is the first step after the warm-up. */
bool averaging_is_due(int64_t step, int64_t warmup_steps, int64_t period);
/* Of a hierarchy's periods, in rising order: the largest that divides the step, since its group contains those of the
 * smaller ones; -1: none. The warm-up does not move the steps. */
int averaging_level(int64_t step, int64_t warmup_steps, const int64_t *periods, int count);
#endif

/* DistributedDataParallel's first comparison: all ranks must have built the same model. PyTorch:
 * dist._verify_params_across_processes. */
#ifndef PARALLEL_VERIFY_PARAMS_H
#define PARALLEL_VERIFY_PARAMS_H
#include <stdbool.h>
#include "nn/module.h"

struct task; struct process_group;

/* As many parameters, of the same names, sizes, strides and dtypes in the same order; false: failed, on every rank. A
 * collective. */
bool ddp_verify_params(struct task *me, struct process_group *group, const struct named_tensors *params);
#endif

/* The autograd Functions Scatter, Gather, Broadcast and ReduceAddCoalesced: torch.nn.parallel._functions. Each copies
 * (parallel/comm.h) and records one node, if gradients are recorded and one of its inputs wants one. */
#ifndef PARALLEL_FUNCTIONS_H
#define PARALLEL_FUNCTIONS_H
#include <stdbool.h>
#include "parallel/data_parallel.h"

struct task; struct tensor;

/* The tensor's chunks along dim, one per device that gets something: out[i]. Answers how many; 0: failed. */
int scatter_apply(struct task *me, struct tensor *tensor, struct device_list devices, int dim, struct tensor **out);
/* Joined along dim on `device`; 0-dim pieces along dim 0 make a vector. NULL: failed. */
struct tensor *gather_apply(struct task *me, struct tensor *const *pieces, int count, int device, int dim);
/* out[d * count + i]: tensor i on device d. */
bool broadcast_apply(struct task *me, const struct coalesced *given, struct tensor **out);
/* out[i]: the sum of tensors[d * count + i] over d, on `destination`. */
bool reduce_add_coalesced_apply(struct task *me, const struct coalesced *given, int destination, struct tensor **out);
#endif

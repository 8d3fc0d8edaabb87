/* nn.SyncBatchNorm: BatchNorm whose batch is that of all ranks of a group. In training, where there is more than one rank,
 * a forward gathers every rank's mean, scale and count, and its backward adds up two sums a channel; who has no rows
 * joins both. Everywhere else it is a BatchNorm. PyTorch: torch/nn/modules/batchnorm.py, torch/nn/modules/_functions.py.
 *
 * It runs on devices; a host's tensor is refused in a group, as PyTorch does. Both collectives are waited for where they
 * are called, on the group of DistributedDataParallel's buckets: ranks that run the same graph on one device each issue
 * them in the same order. Nobody does so for a rank without data: under Join it needs throw_on_early_termination. */
#ifndef PARALLEL_SYNC_BATCH_NORM_H
#define PARALLEL_SYNC_BATCH_NORM_H
#include <stdbool.h>

struct task; struct module; struct process_group; struct batch_norm_settings;

/* Whose rows make the batch. Neither: the default group's, as it is when a forward runs. */
struct sync_group {
    struct process_group *group;       /* outlives the module */
    bool                  outside;     /* a group of which this rank is no member: nothing is shared */
};
/* In me's scope; NULL: failed. */
struct module *sync_batch_norm_new(struct task *me, const struct batch_norm_settings *settings,
                                   const struct sync_group *group);
/* SyncBatchNorm.convert_sync_batchnorm: each BatchNorm below the module gives way to one that has its parameters and
 * buffers. Answers the module, or what takes its place; NULL: failed. */
struct module *sync_batch_norm_convert(struct task *me, struct module *module, const struct sync_group *group);
bool           module_is_sync_batch_norm(const struct module *module);
struct sync_group sync_batch_norm_group(const struct module *module);
#endif

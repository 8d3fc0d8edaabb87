/* nn.parallel.DistributedDataParallel: construction and forward; the backward's part is the reducer's. */
#ifndef PARALLEL_DISTRIBUTED_DATA_PARALLEL_H
#define PARALLEL_DISTRIBUTED_DATA_PARALLEL_H
#include "nn/module.h"

struct process_group; struct reducer; struct task;

struct ddp_options {
    double bucket_cap_mb;             /* 0: 25. MiB, fractions allowed */
    size_t first_bucket_bytes;        /* 0: 1 MiB (dist._DEFAULT_FIRST_BUCKET_BYTES) */
    bool   find_unused_parameters;
    bool   no_broadcast_buffers;
};
/* The wrapper is a module with one child "module"; in me's scope; NULL: failed. */
struct module  *ddp_new(struct task *me, struct module *module, struct process_group *group,
                        const struct ddp_options *options);
struct module  *ddp_module(const struct module *wrapper);   /* NULL: not a DistributedDataParallel */
struct reducer *ddp_reducer(const struct module *wrapper);
void            ddp_set_sync(struct module *wrapper, bool sync);  /* no_sync */
#endif

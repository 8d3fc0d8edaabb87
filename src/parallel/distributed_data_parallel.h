/* nn.parallel.DistributedDataParallel: construction and forward; the backward's part is the reducer's. */
#ifndef PARALLEL_DISTRIBUTED_DATA_PARALLEL_H
#define PARALLEL_DISTRIBUTED_DATA_PARALLEL_H
#include "nn/module.h"

struct process_group; struct reducer; struct task;

struct ddp_options {
    bool   has_bucket_cap;            /* false: 1 MiB first (dist._DEFAULT_FIRST_BUCKET_BYTES), then 25 */
    double bucket_cap_mb;             /* every bucket's cap, the first one's too; MiB, fractions allowed */
    size_t default_first_bucket_bytes;/* 0: 1 MiB */
    bool   find_unused_parameters;
    bool   no_init_sync;              /* construction sends and compares nothing */
    bool   no_init_sync_buffers;      /* construction leaves buffers as they are */
    bool   no_forward_sync_buffers;   /* forwards do */
};
/* The wrapper is a module with one child "module"; in me's scope; NULL: failed. */
struct module  *ddp_new(struct task *me, struct module *module, struct process_group *group,
                        const struct ddp_options *options);
struct module  *ddp_module(const struct module *wrapper);   /* NULL: not a DistributedDataParallel */
struct reducer *ddp_reducer(const struct module *wrapper);
void            ddp_set_sync(struct module *wrapper, bool sync);  /* no_sync */
void            ddp_set_sink_clone(struct module *wrapper, bool clone);
#endif

/* nn.parallel.DistributedDataParallel: construction and forward; the backward's part is the reducer's. */
#ifndef PARALLEL_DISTRIBUTED_DATA_PARALLEL_H
#define PARALLEL_DISTRIBUTED_DATA_PARALLEL_H
#include "nn/module.h"
#include "parallel/data_parallel.h"

struct ddp_logger; struct future; struct process_group; struct reducer; struct task;

/* Parameters whose all-reduce waits for one hook and travels outside of the reducer: delay_all_reduce_named_params and
 * param_to_hook_all_reduce. */
struct delayed_params { struct tensor *const *tensors; const char *const *names; int count; struct tensor *hooked; };

struct ddp_options {
    struct device_list device_ids;    /* one: inputs are moved there; count 0: none */
    bool   has_output_device;
    int    output_device;             /* kept, no more */
    bool   has_bucket_cap;            /* false: 1 MiB first (dist._DEFAULT_FIRST_BUCKET_BYTES), then 25 */
    double bucket_cap_mb;             /* every bucket's cap, the first one's too; MiB, fractions allowed */
    const double *bucket_caps_mb;     /* instead: one cap for each bucket, the last again; NULL: none */
    int    bucket_cap_count;
    size_t default_first_bucket_bytes;/* 0: 1 MiB */
    bool   find_unused_parameters, gradient_as_bucket_view, static_graph, skip_all_reduce_unused_params,
           batched_grad_copy, lazy_bucket_allocation;
    bool   no_init_sync;              /* construction sends and compares nothing */
    bool   no_init_sync_buffers;      /* construction leaves buffers as they are */
    bool   no_forward_sync_buffers;   /* forwards do */
    const char *const *ignored;       /* qualified names of parameters and buffers that are none of its business */
    int    ignored_count;
    struct delayed_params delayed;    /* count 0: none */
};
/* The wrapper is a module with one child "module"; in me's scope; NULL: failed. */
struct module  *ddp_new(struct task *me, struct module *module, struct process_group *group,
                        const struct ddp_options *options);
struct module  *ddp_module(const struct module *wrapper);   /* NULL: not a DistributedDataParallel */
struct reducer *ddp_reducer(const struct module *wrapper);  /* NULL, too, where all parameters are delayed */
struct ddp_logger *ddp_logger(const struct module *wrapper);     /* the same; logger.h */

/* What a script may read of it, and some of it set. The devices are its own. */
struct ddp_state {
    bool   find_unused_parameters, gradient_as_bucket_view, static_graph, require_forward_param_sync;
    bool   forward_sync_buffers, require_backward_grad_sync;       /* may be set */
    bool   sink_clone, manual_finalization, should_finalize_after_backward;
    bool   has_output_device;
    int    output_device;
    int    authoritative_rank;        /* whose state the last Join ended with; -1: none has */
    struct device_list device_ids;
    size_t bucket_bytes_cap;
};
bool ddp_state(const struct module *wrapper, struct ddp_state *out);     /* false: not a DistributedDataParallel */
void ddp_set_sync(struct module *wrapper, bool sync);                    /* require_backward_grad_sync: no_sync */
void ddp_set_forward_sync_buffers(struct module *wrapper, bool sync);
void ddp_set_sink_clone(struct module *wrapper, bool clone);
/* Each false: failed. */
bool ddp_set_static_graph(struct task *me, struct module *wrapper);
bool ddp_set_manual_finalization(struct task *me, struct module *wrapper, bool required);
bool ddp_finalize_backward(struct task *me, struct module *wrapper);
bool ddp_update_process_group(struct task *me, struct module *wrapper, struct process_group *group);

/* Join (join.h): the wrapper as a joinable, whose context is the wrapper. Gradients are divided by all ranks, or by those
 * that still have inputs. false: not a DistributedDataParallel. */
struct joinable; struct join_config;
bool ddp_joinable(struct module *wrapper, struct joinable *out);
void ddp_set_join(struct task *me, struct module *wrapper, const struct join_config *config);     /* zeros: the Join is over */
void ddp_divide_by_initial_world_size(struct module *wrapper, bool initial);
bool ddp_join_config(const struct module *wrapper, struct join_config *out);     /* false: not a DistributedDataParallel */

/* What syncs the buffers in the place of the broadcast. `run` may install futures in the reducer. */
struct buffer_hook {
    bool (*run)(struct task *me, void *context, struct reducer *reducer, const struct named_tensors *buffers);
    void (*drop)(struct task *me, void *context);
    void  *context;
    bool   before_forward;            /* else after it */
};
/* Takes over the context; an earlier one is dropped. */
void ddp_register_buffer_hook(struct task *me, struct module *wrapper, const struct buffer_hook *hook);
#endif

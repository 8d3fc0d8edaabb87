/* DistributedDataParallel's fields: ddp_init.c makes it, distributed_data_parallel.c runs its forward. */
#ifndef PARALLEL_DDP_INTERNAL_H
#define PARALLEL_DDP_INTERNAL_H
#include <stdatomic.h>
#include "parallel/distributed_data_parallel.h"

struct ddp_logger; struct delayed; struct replica;

/* What a graph knows of the wrapper whose output it is: it may outlive it. */
struct ddp_link { atomic_int references; struct ddp *ddp; };   /* ddp NULL: it is gone */

struct ddp {
    struct module        *module;                     /* a reference */
    struct process_group *group;
    struct reducer       *reducer;                    /* NULL: all parameters are delayed */
    struct ddp_logger    *logger;                     /* the reducer's; NULL: likewise */
    struct replica       *replica;                    /* --check-ranks; else NULL */
    struct ddp_link      *link;                       /* to the sinks of a static graph's first iteration */
    struct delayed       *delayed;                    /* NULL: none */
    struct buffer_hook    buffer_hook;                /* run is NULL: none */
    char                **ignored;                    /* of name.h */
    int                   ignored_count;
    struct named_tensors  buffers;                    /* read anew at each forward */
    int                   device, output_device;      /* device_ids' one; DEVICE_CPU: none */
    size_t                bucket_bytes_cap;
    bool                  has_output_device;
    bool                  find_unused_parameters, static_graph, gradient_as_bucket_view, manual_finalization;
    bool                  forward_sync_buffers, sink_clone;
    bool                  delay_enqueued;             /* static_graph: its first backward has begun */
    bool                  require_backward_grad_sync; /* false inside no_sync */
    bool                  require_forward_param_sync; /* buffers: false after a forward that did not synchronise */
};

extern const struct module_type ddp_type;

void ddp_link_drop(struct task *me, struct ddp_link *link);

/* ddp_wanted.c: what is neither ignored nor delayed, by `options`. false: failed. */
bool ddp_wanted_parameters(struct task *me, struct module *module, const struct ddp_options *options,
                           struct named_tensors *out);
bool ddp_wanted_buffers(struct task *me, struct module *module, const struct ddp_options *options,
                        struct named_tensors *out);
/* Takes the others out of the list, and if `trained` all that require no gradient. */
void ddp_keep_wanted(struct task *me, struct named_tensors *list, const struct ddp_options *options, bool trained);
#endif

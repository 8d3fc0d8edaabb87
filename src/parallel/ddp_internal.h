/* DistributedDataParallel's fields: ddp_init.c makes it, distributed_data_parallel.c runs its forward, of which ddp_buffers.c
 * and ddp_join.c are parts; ddp_join_hook.c is what a rank without inputs does instead. */
#ifndef PARALLEL_DDP_INTERNAL_H
#define PARALLEL_DDP_INTERNAL_H
#include <stdatomic.h>
#include "parallel/distributed_data_parallel.h"
#include "parallel/join.h"

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
    struct join_config    join;                       /* zeros: in no Join */
    struct live_ranks     live;                       /* of the last forward in a Join */
    bool                  joined;                     /* has no inputs left and shadows the others */
    int                   authoritative_rank;         /* whose state the last Join ended with; -1: none has */
};

extern const struct module_type ddp_type;

/* NULL: not a DistributedDataParallel. */
static inline struct ddp *
ddp_of(const struct module *wrapper)
{
    return wrapper != NULL && wrapper->type == &ddp_type ? wrapper->script : NULL;
}

void ddp_link_drop(struct task *me, struct ddp_link *link);

/* ddp_buffers.c: the buffers' broadcast, if this is its place and it is due. */
bool ddp_sync_buffers_if_due(struct task *me, struct ddp *ddp, bool before_forward);

/* ddp_join.c: what Join adds to a forward, nothing outside of one. Each false: failed. */
bool ddp_notify_join(struct task *me, struct ddp *ddp);                  /* before its first collective */
bool ddp_tell_backward_sync(struct task *me, struct ddp *ddp, bool syncs);   /* whether its backward reduces */
bool ddp_common_rank(struct task *me, struct ddp *ddp, int *rank);       /* whose buffers hold; outside: 0 */
/* What the ended ranks have to know of the coming backward: whether it reduces the buckets, and the delayed parameters,
 * which travel from no_sync, too. A tensor of them, shorter where nothing is delayed; NULL: failed. */
enum { REDUCES_BUCKETS, REDUCES_DELAYED, JOIN_NUMBERS };
struct tensor *ddp_join_numbers(struct task *me, const struct ddp *ddp, const float *numbers);
struct joinable ddp_join_place(const struct ddp *ddp);                   /* its group and device; no hooks */

/* ddp_wanted.c: what is neither ignored nor delayed, by `options`. false: failed. */
bool ddp_wanted_parameters(struct task *me, struct module *module, const struct ddp_options *options,
                           struct named_tensors *out);
bool ddp_wanted_buffers(struct task *me, struct module *module, const struct ddp_options *options,
                        struct named_tensors *out);
/* Both in one list, whose memory is me's scratch; of the buffers only if `buffers`. */
bool ddp_wanted_states(struct task *me, struct module *module, const struct ddp_options *options, bool buffers,
                       struct named_tensors *out);
/* Takes the others out of the list, and if `trained` all that require no gradient. */
void ddp_keep_wanted(struct task *me, struct named_tensors *list, const struct ddp_options *options, bool trained);
#endif

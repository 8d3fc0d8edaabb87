/* The reducer gathers gradients into buckets and all-reduces each as soon as its turn comes: c10d::Reducer.
 * One per DistributedDataParallel. Order of use:
 *
 *   reducer_new                      one bucket per dtype and device, a hook on every parameter's AccumulateGrad
 *   reducer_register_comm_hook       who wants to all-reduce the buckets himself
 *   reducer_set_static_graph         who promises that every iteration is as the first
 *   each forward that synchronises:
 *     reducer_prepare_for_forward    counts it
 *     reducer_rebuild_buckets        once: into the order in which gradients came
 *     reducer_prepare_for_backward   after the module's own forward: all buckets wait for all their gradients
 *   each gradient of its backward, called by the engine:
 *     the hook -> mark_variable_ready -> copy_to_bucket -> mark_bucket_ready -> all_reduce_bucket
 *   the end of that backward:
 *     reducer_finalize_backward      waits for the buckets, copies the means back
 *     (reducer_delay_all_reduce      in a static graph's first iteration: everything at once, then finalize)
 *   reducer_free */
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct tensor; struct module; struct process_group; struct reducer; struct str; struct future; struct ddp_logger; struct logger_construction; struct live_ranks;

struct reducer_options {
    size_t        first_bucket_bytes;     /* a bucket closes when it reaches its cap: 0 has each gradient travel alone */
    size_t        bucket_bytes;           /* the others' cap */
    const size_t *bucket_limits;          /* one cap after the other, then the last again, of the first buckets and the
                                             rebuilt ones, instead of the two above; copied; NULL: none */
    int           bucket_limit_count;
    bool          find_unused_parameters;
    bool          gradient_as_bucket_view;/* .grad is the bucket's memory */
    bool          static_graph;           /* reducer_set_static_graph follows: lays out the first buckets for it */
    bool          skip_all_reduce_unused_params;
    bool          batched_grad_copy;      /* a bucket's gradients are copied in when all have come */
    bool          lazy_bucket_allocation; /* buckets have memory only during a backward */
    const char *const *names;             /* qualified parameter names, copied */
    const bool        *sparse;            /* whose gradients are sparse, copied; NULL: none's */
    struct replica    *replica;           /* check_ranks.h; outlives the reducer; NULL: nobody checks */
};

/* Takes references on the parameters, borrows the group until reducer_free. NULL: failed. */
struct reducer *reducer_new(struct task *me, struct tensor *const *params, int count, struct process_group *group,
                            const struct reducer_options *options);
void reducer_free(struct task *me, struct reducer *reducer);
/* Who owns it, not a reference: lives on while a backward needs the reducer, even if nobody else holds it any more. */
void reducer_set_owner(struct reducer *reducer, struct module *owner);
bool reducer_hold(struct task *me, struct reducer *reducer);    /* ... until the backward under way is over; false: failed */
void reducer_remove_hooks(struct task *me, struct reducer *reducer);   /* gradients stay this rank's own from here on */

/* What a comm hook sees of a bucket: c10d::GradBucket. The buffer is its parameters' gradients in a row; of a sparse
 * bucket the gradient itself. */
struct grad_bucket {
    int                   index, count;
    bool                  is_last;
    struct tensor        *buffer;
    struct tensor *const *params;     /* `count`, in the buffer's order */
};
/* What all-reduces a bucket in the place of group_all_reduce. `start` is called when the bucket's turn has come, with
 * gradients that nobody has divided, and answers what `finish` waits for (NULL: failed); `finish` answers the tensor that
 * holds the bucket's new gradients (NULL: failed). `forget` takes what nobody has finished. */
struct comm_hook {
    void          *(*start)(struct task *me, void *context, const struct grad_bucket *bucket);
    struct tensor *(*finish)(struct task *me, void *context, void *started);
    void           (*forget)(struct task *me, void *context, void *started);
    void           (*drop)(struct task *me, void *context);
    void            *context;
    const char      *name;            /* in the logging data, which copy it; NULL: none */
};
/* Once; takes over the context, also where it fails. */
bool reducer_register_comm_hook(struct task *me, struct reducer *reducer, const struct comm_hook *hook);
/* Every iteration uses the same parameters as often as the first, which is watched; its all-reduces are delayed to the
 * end of its backward. Before the first forward, else failed. */
bool reducer_set_static_graph(struct task *me, struct reducer *reducer);

int64_t reducer_iterations(const struct reducer *reducer);       /* synchronising forwards so far */
/* Counts a synchronising forward; answers its number, from 0. */
int64_t reducer_prepare_for_forward(struct task *me, struct reducer *reducer);
/* Raises when the prior reduction did not finish; rebuilds once, at the second synchronising forward. */
bool reducer_rebuild_buckets(struct task *me, struct reducer *reducer);
/* The two questions in it, which its caller may ask by themselves: */
bool reducer_ensure_prior_reduction_finished(struct task *me, struct reducer *reducer);
bool reducer_should_rebuild_buckets(const struct reducer *reducer);
/* outputs: those that the backward may begin from, for find_unused_parameters; else NULL. */
bool reducer_prepare_for_backward(struct task *me, struct reducer *reducer, struct tensor *const *outputs, int count);
bool reducer_mark_variable_ready(struct task *me, struct reducer *reducer, int index);
bool reducer_mark_bucket_ready(struct task *me, struct reducer *reducer, int index);
bool reducer_delay_all_reduce(struct task *me, struct reducer *reducer);
bool reducer_finalize_backward(struct task *me, struct reducer *reducer);
/* Waited for at the end of the next finalize: what a buffer hook has started. Takes over the reference. */
bool reducer_install_future(struct task *me, struct reducer *reducer, struct future *future);

/* Join (join.h). Of a forward that has told the others that it is there: gradients are divided by those that are, not by
 * all ranks; borrowed, NULL: by all. */
void reducer_divide_by_live_ranks(struct reducer *reducer, struct live_ranks *live);
/* Of a rank that has no inputs left: whether it can know what the others send; and one of their backwards, of which this
 * rank sends its part. */
int  reducer_device(const struct reducer *reducer);              /* of its parameters, the first of them */
bool reducer_can_shadow(struct task *me, const struct reducer *reducer);
bool reducer_shadow_backward(struct task *me, struct reducer *reducer);

/* Manual finalization (PR 196651): the backward ends without its last step, and the caller takes it. */
bool reducer_set_manual_finalization(struct task *me, struct reducer *reducer, bool required);
bool reducer_should_finalize_after_backward(const struct reducer *reducer);
bool reducer_finalize_manually(struct task *me, struct reducer *reducer);
/* false: failed, a backward has begun to reduce and did not end. */
bool reducer_check_finalized(struct task *me, const struct reducer *reducer);
/* Everything about iterations is forgotten, the next backward's order makes new buckets; then the ranks of `group`, which
 * is borrowed as that of reducer_new was, are those that reduce. */
bool reducer_reset_state(struct task *me, struct reducer *reducer);   /* false: failed */
void reducer_update_process_group(struct reducer *reducer, struct process_group *group);
struct process_group *reducer_group(const struct reducer *reducer);

/* reducer_report.c. The logger, which is borrowed, learns what is known now, of the wrapper the module, the devices and
 * whether buffers are broadcast; from here on it is told of errors, too. false: failed. */
bool reducer_set_logger(struct task *me, struct reducer *reducer, struct ddp_logger *logger,
                        const struct logger_construction *wrapper);
/* At the start of a synchronising forward, before it is counted: the logger learns of the iteration before. */
bool reducer_log_stats(struct task *me, const struct reducer *reducer);
bool reducer_set_sample_rate(struct task *me, struct reducer *reducer, int64_t rate);  /* 1 or more, else failed */
#endif

/* The reducer gathers gradients into buckets and all-reduces each as soon as its turn comes: c10d::Reducer.
 * One per DistributedDataParallel. Order of use:
 *
 *   reducer_new                      one bucket per dtype and device, a hook on every parameter's AccumulateGrad
 *   reducer_register_comm_hook       who wants to all-reduce the buckets himself
 *   each forward that synchronises:
 *     reducer_prepare_for_forward    counts it
 *     reducer_rebuild_buckets        once: into the order in which gradients came
 *     reducer_prepare_for_backward   after the module's own forward: all buckets wait for all their gradients
 *   each gradient of its backward, called by the engine:
 *     reducer_autograd_hook          -> mark_variable_ready -> copy_to_bucket -> mark_bucket_ready -> all_reduce_bucket
 *   the end of that backward:
 *     reducer_finalize_backward      waits for the buckets, copies the means back
 *   reducer_free */
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct tensor; struct process_group; struct reducer; struct str;

struct reducer_options {
    size_t      first_bucket_bytes;   /* a bucket closes when it reaches its cap: 0 has each gradient travel alone */
    size_t      bucket_bytes;         /* the others' cap */
    bool        find_unused_parameters;
    const char *const *names;         /* qualified parameter names, copied */
    struct replica *replica;          /* check_ranks.h; outlives the reducer; NULL: nobody checks */
};

/* Takes references on the parameters, borrows the group until reducer_free. NULL: failed. */
struct reducer *reducer_new(struct task *me, struct tensor *const *params, int count, struct process_group *group,
                            const struct reducer_options *options);
void reducer_free(struct task *me, struct reducer *reducer);

/* What a comm hook sees of a bucket: c10d::GradBucket. The buffer is its parameters' gradients in a row. */
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
};
/* Once; takes over the context, also where it fails. */
bool reducer_register_comm_hook(struct task *me, struct reducer *reducer, const struct comm_hook *hook);

int64_t reducer_iterations(const struct reducer *reducer);       /* synchronising forwards so far */
/* Counts a synchronising forward and keeps the last order; answers its number, from 0. */
int64_t reducer_prepare_for_forward(struct reducer *reducer);
/* Raises when the prior reduction did not finish; rebuilds once, at the second synchronising forward. */
bool reducer_rebuild_buckets(struct task *me, struct reducer *reducer);
/* The two questions in it, which its caller may ask by themselves: */
bool reducer_ensure_prior_reduction_finished(struct task *me, struct reducer *reducer);
bool reducer_should_rebuild_buckets(const struct reducer *reducer);
/* outputs: those that the backward may begin from, for find_unused_parameters; else NULL. */
bool reducer_prepare_for_backward(struct task *me, struct reducer *reducer, struct tensor *const *outputs, int count);
bool reducer_mark_variable_ready(struct task *me, struct reducer *reducer, int index);
bool reducer_mark_bucket_ready(struct task *me, struct reducer *reducer, int index);
bool reducer_finalize_backward(struct task *me, struct reducer *reducer);

/* What _get_ddp_logging_data says, as text: "bucket_sizes", "rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices",
 * "has_rebuilt_buckets", "bucket_cap_bytes", "prev_iteration_grad_ready_order_indices". false: no such key. */
bool reducer_logging_data(const struct reducer *reducer, const char *key, struct str *out);
#endif

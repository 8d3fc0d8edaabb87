/* The reducer gathers gradients into buckets and all-reduces each as soon as its turn comes: c10d::Reducer.
 * One per DistributedDataParallel. Order of use:
 *
 *   reducer_new                      one bucket per dtype and device, a hook on every parameter's AccumulateGrad
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
};

/* Takes references on the parameters, borrows the group until reducer_free. NULL: failed. */
struct reducer *reducer_new(struct task *me, struct tensor *const *params, int count, struct process_group *group,
                            const struct reducer_options *options);
void reducer_free(struct task *me, struct reducer *reducer);

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

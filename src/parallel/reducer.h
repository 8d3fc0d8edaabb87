/* The reducer gathers gradients into buckets and all-reduces each as soon as its turn comes: c10d::Reducer.
 * One per DistributedDataParallel. Order of use: reducer_new, then per iteration rebuild_buckets, prepare_for_backward,
 * autograd_hook (once per parameter, by the engine), finalize_backward (its callback); then reducer_free. */
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct tensor; struct process_group; struct reducer; struct str;

struct reducer_options {
    size_t      first_bucket_bytes;   /* 0 means PyTorch's 1 MiB */
    size_t      bucket_bytes;         /* 0 means PyTorch's 25 MiB */
    bool        find_unused_parameters;
    const char *const *names;         /* qualified parameter names, copied */
};

/* compute_bucket_assignment_by_size: see its page. Arrays in `out` are the caller's to free with buckets_free.
 * inputs[i] describes the i-th tensor given; with an order its index is order[i], which is also where `sparse` is looked
 * up (inputs[order[i]].sparse). Limit 0 in `out` marks a sparse one. */
struct bucket_list { int **indices; int *sizes; size_t *limits; int count, room; };
struct bucket_input { size_t bytes; int key; /* dtype and device as one number */ bool sparse; };
bool buckets_assign(struct task *me, const struct bucket_input *inputs, int count, const size_t *limits, int limit_count,
                    const int *order /* NULL: none */, int order_count, struct bucket_list *out);
void buckets_free(struct bucket_list *list);

/* Borrows the parameters until reducer_free. NULL: failed. */
struct reducer *reducer_new(struct task *me, struct tensor *const *params, int count, struct process_group *group,
                            const struct reducer_options *options);
void reducer_free(struct task *me, struct reducer *reducer);
bool reducer_rebuild_buckets(struct task *me, struct reducer *reducer);   /* once, at the second synchronising forward;
                                                     before that it raises when the prior reduction did not finish */
/* The parts of it that its caller may ask for by themselves: */
bool reducer_ensure_prior_reduction_finished(struct task *me, struct reducer *reducer);
bool reducer_should_rebuild_buckets(const struct reducer *reducer);
void reducer_prepare_for_forward(struct task *me, struct reducer *reducer);  /* counts iterations, keeps the last order */
bool reducer_prepare_for_backward(struct task *me, struct reducer *reducer, struct tensor *const *outputs, int count);
bool reducer_mark_variable_ready(struct task *me, struct reducer *reducer, int index);
bool reducer_mark_bucket_ready(struct task *me, struct reducer *reducer, int index);
bool reducer_finalize_backward(struct task *me, struct reducer *reducer);

/* What _get_ddp_logging_data says, as text: "bucket_sizes", "rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices",
 * "has_rebuilt_buckets", "bucket_cap_bytes", "prev_iteration_grad_ready_order_indices". false: no such key. */
bool reducer_logging_data(const struct reducer *reducer, const char *key, struct str *out);
#endif

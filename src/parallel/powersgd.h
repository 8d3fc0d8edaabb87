/* PowerSGD: a bucket's gradients, seen as matrices M, travel as two thin ones. Q is random at first; P = M Q is summed
 * over the ranks and orthogonalized, Q = M' P is averaged, and P Q' stands for M. What was lost is added to the next
 * iteration's gradient. One state serves all buckets of a wrapper; order of use:
 *
 *   powersgd_new             a state: its options, what it remembers of each bucket
 *   powersgd_give_q          who wants to choose the random matrices himself
 *   powersgd_hook            as what the reducer calls; or batched_powersgd_hook
 *   hook_state_unref         (comm_hooks.h)
 *
 *   powersgd.c           the state; a bucket's way through start and finish: the story
 *   powersgd_matrices.c  which matrices a bucket has, what they and Q, P are made of
 *
 * In PyTorch: torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py. */
#ifndef PARALLEL_POWERSGD_H
#define PARALLEL_POWERSGD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/rng.h"
#include "parallel/comm_hooks.h"

struct powersgd_options {
    struct process_group *group;           /* borrowed; NULL: the default group of the day */
    int64_t matrix_approximation_rank, start_iter, random_seed, logging_frequency;
    double  min_compression_rate, orthogonalization_epsilon;
    bool    use_error_feedback, warm_start, batch_tensors_with_same_shape;
};

/* Of one bucket; each NULL: nothing yet. */
struct powersgd_memory { struct tensor *error, *p, *q; };

/* PowerSGDState. Its fields may be read and changed between backwards. */
struct powersgd {
    struct hook_state       head;
    struct powersgd_options options;
    struct generator        rng;              /* draws the seeds of the random Q, the same on all ranks */
    int64_t                 iter;             /* backwards so far */
    int64_t                 numel_before, numel_after;      /* of all buckets that were compressed so far */
    int64_t                 next_stats_report;
    struct powersgd_memory *memory;           /* by bucket */
    size_t                  memory_count, memory_room;
    struct tensor         **given_q;          /* taken in this order instead of random ones; NULL: none are given */
    size_t                  given_count, given_next;
};

/* NULL: failed (ValueError: compression would begin before the buckets have been rebuilt ...). */
struct powersgd *powersgd_new(struct task *me, const struct powersgd_options *options);
/* They are taken, before they are orthogonalized, wherever random ones would be drawn. NULL: those are drawn again.
 * false: failed. */
bool powersgd_give_q(struct task *me, struct powersgd *state, struct tensor *const *given, size_t count);
/* The bucket's memory, which is there from now on. NULL: failed. */
struct powersgd_memory *powersgd_memory(struct task *me, struct powersgd *state, size_t bucket);

/* Both refer to the state. The second sees a bucket as one square matrix, not as one for each parameter. */
struct comm_hook powersgd_hook(struct powersgd *state);
struct comm_hook batched_powersgd_hook(struct powersgd *state);
#endif

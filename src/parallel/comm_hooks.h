/* PyTorch's own communication hooks, as what the reducer calls (struct comm_hook in reducer.h): those of
 * torch/distributed/algorithms/ddp_comm_hooks. `start` divides, compresses and issues; `finish` waits, issues what comes
 * next and unpacks. Both run where the reducer runs and in the order of the buckets, so that a hook of several
 * collectives issues them in the same order on all ranks, whatever runs at the same time.
 *
 *   comm_hooks.c           allreduce, fp16, bf16, their wrappers, noop
 *   quantization_hooks.c   eight bits, per tensor and per channel
 *   post_local_sgd_hook.c  all ranks at first, then a subgroup or nobody
 *   optimizer_hook.c       another hook, then a step of the bucket's parameters
 *
 * Each function answers a hook that owns its context: reducer_register_comm_hook takes it over, or a wrapper. One whose
 * `start` is NULL has failed. Groups are borrowed. */
#ifndef PARALLEL_COMM_HOOKS_H
#define PARALLEL_COMM_HOOKS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/dtype.h"
#include "optim/optimizer.h"
#include "parallel/reducer.h"

struct task; struct tensor; struct process_group;

/* ---- states: what a lesson makes and hands over with the hook; it lives as long as the last of both ---- */

/* Head of a state's struct. `drop` frees the whole. */
struct hook_state { atomic_int references; void (*drop)(struct task *me, struct hook_state *state); };
void              *hook_state_new(struct task *me, size_t bytes);   /* zeroed, one reference; NULL: failed */
struct hook_state *hook_state_ref(struct hook_state *state);
void               hook_state_unref(struct task *me, void *state);

/* ---- what hooks are made of ---- */

/* In place, sparse ones, too. false: failed. */
bool           hook_divide(struct task *me, struct tensor *tensor, int ranks) __attribute__((warn_unused_result));
/* One all-reduce that is under way: `sent` becomes the sum, `buffer` gets it. Both are kept; NULL: failed. */
struct hook_sum;
struct hook_sum *hook_sum_begin(struct task *me, struct process_group *group, struct tensor *sent,
                                  struct tensor *buffer);
struct tensor    *hook_sum_finish(struct task *me, void *context, void *sum);  /* as comm_hook.finish, .forget */
void              hook_sum_forget(struct task *me, void *context, void *sum);
void              hook_keeps_nothing(struct task *me, void *context);                 /* as comm_hook.drop */

/* ---- the hooks ---- */

struct comm_hook allreduce_hook(struct process_group *group);
struct comm_hook fp16_compress_hook(struct process_group *group);
struct comm_hook bf16_compress_hook(struct process_group *group);
struct comm_hook noop_hook(void);
/* The bucket cast, then `inner`, which it takes over, also where it fails. */
struct comm_hook fp16_compress_wrapper(struct task *me, const struct comm_hook *inner);
struct comm_hook bf16_compress_wrapper(struct task *me, const struct comm_hook *inner);
struct comm_hook quantization_pertensor_hook(struct process_group *group);
struct comm_hook quantization_perchannel_hook(struct process_group *group);

struct post_local_sgd_state {
    struct hook_state     head;
    struct process_group *group;                 /* who averages while iter < start_iter; NULL: `world` */
    struct process_group *world;                 /* the default group, when the hook was made */
    struct process_group *subgroup;              /* those that average afterwards; NULL: not given */
    int64_t               start_iter, iter;
    bool                  post_local_allreduce;  /* false: from the start on nobody averages gradients */
};
struct post_local_sgd_state *post_local_sgd_state_new(struct task *me);      /* NULL: failed */
struct comm_hook             post_local_sgd_hook(struct post_local_sgd_state *state);

/* An optimizer that is given a parameter and its gradient. `step` of the hook's state is this or a lesson's own. */
struct functional_optimizer { struct hook_state head; struct optimizer *optimizer; struct optim_options options; };
struct functional_optimizer *functional_optimizer_new(struct task *me, enum optim_kind kind,
                                                      const struct optim_options *options);   /* NULL: failed */
bool functional_optimizer_step(struct task *me, void *functional, struct tensor *param, struct tensor *grad);

/* Who steps a bucket's parameters: all, or those that are listed. `step` and `drop` are the caller's to set. */
struct optimizer_hook_state {
    struct hook_state head;
    bool            (*step)(struct task *me, void *context, struct tensor *param, struct tensor *grad);
    void            (*drop)(struct task *me, void *context);
    void             *context;
    struct tensor   **params;
    int               count;
    bool              all;
};
struct optimizer_hook_state *optimizer_hook_state_new(struct task *me, struct tensor *const *params, int count); /* NULL:
                                                                                        all; answers NULL: failed */
struct comm_hook hook_then_optimizer(struct task *me, const struct comm_hook *inner, struct optimizer_hook_state *state);
#endif

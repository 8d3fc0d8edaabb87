/* torch.optim.SGD, Adam, AdamW, Adagrad and SparseAdam. An optimizer keeps references to its parameters, in groups, each with options of its
 * own; and what it remembers of each parameter, from that one's first step on. */
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H
#include <stdbool.h>
#include <stdint.h>

struct task; struct tensor; struct optimizer;

enum optim_kind { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAMW, OPTIM_ADAGRAD, OPTIM_SPARSE_ADAM, OPTIM_KINDS };
struct optim_options {
    double lr, weight_decay;
    double momentum, dampening;      /* SGD */
    double beta1, beta2;             /* Adam, AdamW, SparseAdam */
    double eps;                      /* all but SGD */
    double lr_decay, initial_accumulator_value; /* Adagrad */
    bool   maximize, nesterov, amsgrad;
    bool   decoupled_weight_decay;   /* Adam: as AdamW's, beside the gradient */
};
const char          *optim_name(enum optim_kind kind);
struct optim_options optim_defaults(enum optim_kind kind);

/* Without groups yet. NULL: failed. Freed by optimizer_free. */
struct optimizer *optimizer_new(struct task *me, enum optim_kind kind);
/* false: failed, and the group is not there (ValueError: lr < 0, an empty list, a tensor that has a group ...). */
bool optimizer_add_group(struct task *me, struct optimizer *optimizer, struct tensor *const *params, int count,
                         const struct optim_options *options) __attribute__((warn_unused_result));
bool optimizer_step(struct task *me, struct optimizer *optimizer) __attribute__((warn_unused_result));
/* That parameter alone, by that gradient; in its first step it gets a group of its own with those options. */
bool optimizer_step_param(struct task *me, struct optimizer *optimizer, struct tensor *param, struct tensor *grad,
                          const struct optim_options *options) __attribute__((warn_unused_result));
bool optimizer_zero_grad(struct task *me, struct optimizer *optimizer, bool set_to_none);
void optimizer_free(struct task *me, struct optimizer *optimizer);

enum optim_kind             optimizer_kind(const struct optimizer *optimizer);
int                         optimizer_groups(const struct optimizer *optimizer);
int64_t                     optimizer_steps(const struct optimizer *optimizer);   /* taken so far */
const struct optim_options *optimizer_options(const struct optimizer *optimizer, int group);
/* As they stand: only who makes a group is asked for sensible ones, a schedule may round to just below 0. */
void optimizer_set_options(struct optimizer *optimizer, int group, const struct optim_options *options);

/* What is remembered, by parameter in the order of the groups. `steps` 0: nothing yet. */
enum { OPTIM_SLOTS = 3 };
struct optim_state { struct tensor *param; int group; int64_t steps; struct tensor *slot[OPTIM_SLOTS]; };
int                       optimizer_count(const struct optimizer *optimizer);
const struct optim_state *optimizer_state(const struct optimizer *optimizer, int index);
const char               *optim_slot(enum optim_kind kind, int slot);   /* "exp_avg"; NULL: it has fewer */
/* Copies, on the parameter's device and of its dtype, take the place of what was; NULL slots stay empty. */
bool optimizer_load_state(struct task *me, struct optimizer *optimizer, int index, int64_t steps,
                          struct tensor *const *slots) __attribute__((warn_unused_result));

/* One group of SGD. NULL: failed. */
struct sgd_options { double lr, momentum, dampening, weight_decay; bool nesterov, maximize; };
struct optimizer *optim_sgd(struct task *me, struct tensor *const *params, int count,
                            const struct sgd_options *options);
#endif

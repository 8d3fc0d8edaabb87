/* torch.optim.SGD. The optimizer borrows nothing: it keeps references to its parameters. */
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H
#include <stdbool.h>

struct task; struct tensor; struct optimizer;

struct sgd_options { double lr, momentum, dampening, weight_decay; bool nesterov, maximize; };

/* NULL: failed (ValueError: lr < 0, nesterov without momentum, an empty list ...). Freed by optimizer_free. */
struct optimizer *optim_sgd(struct task *me, struct tensor *const *params, int count,
                            const struct sgd_options *options);
bool optimizer_step(struct task *me, struct optimizer *optimizer) __attribute__((warn_unused_result));
bool optimizer_zero_grad(struct task *me, struct optimizer *optimizer, bool set_to_none);
void optimizer_free(struct task *me, struct optimizer *optimizer);
double optimizer_lr(const struct optimizer *optimizer);
void   optimizer_set_lr(struct optimizer *optimizer, double lr);
#endif

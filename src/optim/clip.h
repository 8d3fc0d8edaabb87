/* torch.nn.utils.clip_grad_norm_ and clip_grad_value_. Tensors without a gradient are left out. */
#ifndef OPTIM_CLIP_H
#define OPTIM_CLIP_H
#include <stdbool.h>

struct task; struct tensor;

/* norm_type: the norm's order, may be infinite; strict: a norm that is not finite is a RuntimeError. */
struct norm_limit { double max_norm, norm_type; bool strict; };
/* The norm over all gradients before clipping, as a 0-dim tensor in me's scope; NULL: failed. */
struct tensor *clip_grad_norm(struct task *me, struct tensor *const *params, int count,
                              const struct norm_limit *limit);
bool clip_grad_value(struct task *me, struct tensor *const *params, int count, double clip_value)
    __attribute__((warn_unused_result));
#endif

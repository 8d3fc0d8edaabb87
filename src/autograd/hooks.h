/* Hooks of users: functions that are told of gradients, and may replace them. */
#ifndef AUTOGRAD_HOOKS_H
#define AUTOGRAD_HOOKS_H
#include "autograd/node.h"

/* Tensor hooks see (and may replace) a tensor's gradient once complete; a node's post-hooks run after it; an
 * AccumulateGrad post-hook runs after .grad was updated: that is what DDP uses. */
bool tensor_add_hook(struct task *me, struct tensor *tensor, const struct hook *hook, int *id);
/* Of a leaf, after its .grad was updated, with the leaf itself in place of the gradient (PyTorch 2.1:
 * register_post_accumulate_grad_hook): may step an optimizer and let the gradient go. */
bool tensor_add_post_accumulate_hook(struct task *me, struct tensor *leaf, const struct hook *hook, int *id);
bool tensor_remove_hook(struct task *me, struct tensor *tensor, int id);  /* false: no such hook */
bool tensor_retain_grad(struct task *me, struct tensor *tensor);
bool node_add_post_hook(struct task *me, struct node *node, const struct hook *hook, int *id);
#endif

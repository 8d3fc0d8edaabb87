/* Backward: torch::autograd::Engine. Dependencies are counted over edges; a node runs when all its gradients came;
 * among ready ones the one recorded last goes first, AccumulateGrad before all. CPU work runs in the calling
 * task; each device that has work gets a worker task for the length of this backward. */
#ifndef AUTOGRAD_ENGINE_H
#define AUTOGRAD_ENGINE_H
#include <stdbool.h>
#include "autograd/node.h"

struct backward_options {
    bool            keep_graph, create_graph;
    struct tensor **inputs;       /* gradients wanted of these only (autograd.grad); NULL: accumulate into .grad */
    int             input_count;
    struct tensor **results;      /* with inputs: their gradients, NULL where unused; given to me's scope */
    bool            allow_unused;
    /* With create_graph: told of each leaf whose .grad now has a history, which may lead back to the leaf itself. */
    bool          (*reached)(struct task *me, void *context, struct tensor *leaf);
    void           *context;
};

/* grads[i] NULL: ones, allowed for one-element roots only. Messages as PyTorch's. */
bool autograd_backward(struct task *me, struct tensor *const *roots, struct tensor *const *grads, int count,
                       const struct backward_options *options) __attribute__((warn_unused_result));

/* During a backward: runs after the last node, before backward returns, in order; may queue more. DDP's finalize. */
bool autograd_queue_callback(struct task *me, bool (*run)(struct task *me, void *context), void *context);

/* Hooks. Tensor hooks see (and may replace) a tensor's gradient once complete; a node's post-hooks run after it; an
 * AccumulateGrad post-hook runs after .grad was updated: that is what DDP uses. */
bool tensor_add_hook(struct task *me, struct tensor *tensor, const struct hook *hook, int *id);
/* Of a leaf, after its .grad was updated, with the leaf itself in place of the gradient (PyTorch 2.1:
 * register_post_accumulate_grad_hook): may step an optimizer and let the gradient go. */
bool tensor_add_post_accumulate_hook(struct task *me, struct tensor *leaf, const struct hook *hook, int *id);
bool tensor_remove_hook(struct task *me, struct tensor *tensor, int id);  /* false: no such hook */
bool tensor_retain_grad(struct task *me, struct tensor *tensor);
bool node_add_post_hook(struct task *me, struct node *node, const struct hook *hook, int *id);
bool node_apply(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in);
#endif

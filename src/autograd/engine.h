/* Backward: torch::autograd::Engine. Dependencies are counted over edges; a node runs when all its gradients came;
 * among ready ones the one recorded last goes first, AccumulateGrad before all. CPU work runs in the calling
 * task; each device that has work gets a worker task for the length of this backward. */
#ifndef AUTOGRAD_ENGINE_H
#define AUTOGRAD_ENGINE_H
#include <stdbool.h>
#include "autograd/hooks.h"

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
bool autograd_backward(struct task *me, struct tensor *const *tensors, struct tensor *const *grads, int count,
                       const struct backward_options *options) __attribute__((warn_unused_result));

/* During a backward: runs after the last node, before backward returns, in order; may queue more. DDP's finalize. */
bool autograd_queue_callback(struct task *me, bool (*run)(struct task *me, void *context), void *context);
/* During a backward: what must live until it is over, however it ends. Takes over the context. false: failed, dropped. */
bool autograd_drop_after(struct task *me, void (*drop)(struct task *me, void *context), void *context);

/* Of the backward that me works for; no two are alike. 0: none. */
uint64_t autograd_backward_id(const struct task *me);
/* It wants all gradients, not those of some inputs alone; nor does one around it. */
bool autograd_may_checkpoint(const struct task *me);

/* One node alone: its gradients in, those of its inputs out, in me's scope. */
bool node_apply(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in);
#endif

/* AccumulateGrad: where a leaf's gradient ends up. In PyTorch: torch/csrc/autograd/functions/accumulate_grad.h. */
#include "autograd/internal.h"
#include "device/storage.h"
#include "sched/stage.h"

/* The leaf's layout contract: a gradient lies in memory as its parameter does, so that both are walked alike. */
static bool
same_layout(const struct tensor *leaf, const struct tensor *grad)
{
    if (tensor_is_contiguous(leaf))
        return tensor_is_contiguous(grad);
    for (int i = 0; i < leaf->dims; i++)
        if (leaf->size[i] > 1 && leaf->stride[i] != grad->stride[i])
            return false;
    return true;
}

/* Nobody else holds it: its one reference is that of the buffer (or scope) that it came in. */
static bool
may_steal(const struct tensor *leaf, struct tensor *grad)
{
    if (atomic_load(&grad->references) != 1 || tensor_history(grad)->grad_fn != NULL)
        return false;
    if (tensor_is_sparse(grad))
        return tensor_is_contiguous(grad->indices) && tensor_is_contiguous(grad->values);
    return same_layout(leaf, grad);
}

/* The first gradient is taken over as it is, or copied when somebody else might see it change. Of a sparse one PyTorch
 * takes over the parts and forgets whether each row comes once; so it is here for a copy, too, since whether a hook's
 * result is still held depends on Lua's collector. */
static const char *
accumulate_first(struct task *me, struct tensor *leaf, struct tensor *grad)
{
    bool           steals = !grad_enabled(me) && may_steal(leaf, grad);
    struct tensor *kept = steals ? grad : tensor_copied(me, grad);
    if (kept == NULL)
        return NULL;
    if (steals)
        tensor_drop(me, &grad->base);
    if (tensor_is_sparse(kept) && !grad_enabled(me))
        kept->coalesced = tensor_size(kept->indices, 0) < 2;
    tensor_keep(me, &leaf->grad, kept);
    return steals ? "steal" : "clone";
}

/* A later one is added in place, so that whoever holds .grad sees it, but for a dense one beside a sparse .grad, whose
 * sum is dense; under create_graph, where grad mode is on, the old .grad may be part of a graph and must stay as it
 * is. */
static const char *
accumulate_more(struct task *me, struct tensor *leaf, struct tensor *grad)
{
    bool turns_dense = tensor_is_sparse(leaf->grad) && !tensor_is_sparse(grad);
    if (!grad_enabled(me) && !turns_dense)
        return tensor_add_(me, leaf->grad, grad, 1) != NULL ? "add" : NULL;
    struct tensor *sum = turns_dense ? tensor_add(me, grad, leaf->grad) : tensor_add(me, leaf->grad, grad);
    if (sum == NULL)
        return NULL;
    tensor_keep(me, &leaf->grad, sum);
    return "add";
}

/* AccumulateGrad itself: steal, clone, or add to what is there. */
static bool
accumulate_grad(struct task *me, struct tensor *leaf, struct tensor *grad)
{
    tensor_announce(me, grad, "incoming gradient");
    tensor_announce_named(me, leaf->grad, "gradient", leaf->name);
    STAGE(me, autograd_accumulate, stage_kept_id(me, &leaf->name_id, leaf->name));
    const char *how = leaf->grad == NULL ? accumulate_first(me, leaf, grad)
                                         : accumulate_more(me, leaf, grad);
    if (how == NULL)
        return false;
    stage_set(&stage_, 1, leaf->grad->storage->number);
    stage_set(&stage_, 2, stage_name_id(me, how));
    tensor_announce_named(me, leaf->grad, "gradient", leaf->name);
    return true;
}

/* The leaf's own hooks come first and may replace the gradient; those for afterwards come last. */
bool
accumulate_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *grad = grad_out[0];
    (void)grad_in;
    if (!hooks_run(me, node->variable->hooks, node, &grad, 1))
        return false;
    if (grad == NULL)
        return true;
    return accumulate_grad(me, node->variable, grad) && leaf_hooks_run_after(me, node->variable, node);
}

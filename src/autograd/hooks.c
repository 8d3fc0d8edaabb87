/* Hooks: functions that see gradients on their way. A tensor's hooks run once its gradient is complete, before the
 * node that made it; a node's post-hooks after it; retain_grad keeps what came out of all of them.
 *
 * Interface in order of use: tensor_add_hook, tensor_retain_grad, node_add_post_hook, tensor_remove_hook; the engine
 * calls tensor_hooks_run and hooks_run. In PyTorch: torch/csrc/autograd/function_hook.h, Tensor.register_hook. */
#include <stdlib.h>
#include "autograd/engine.h"
#include "autograd/internal.h"
#include "sched/stage.h"

/* A hook stays with the grad_fn of its registration: after an in-place op it sees the old value's gradient. */
bool
tensor_add_hook(struct task *me, struct tensor *tensor, const struct hook *hook, int *id)
{
    if (tensor == NULL)
        return false;
    if (!tensor->requires_grad && !view_is_stale(tensor))
        return failed(me, E_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    if (tensor->grad_fn == NULL) {
        tensor_has_history(tensor);
        return hook_list_add(me, &tensor->hooks, hook, id);
    }
    int          nr;
    struct node *node = gradient_edge(me, tensor, &nr);
    if (node == NULL)
        return false;
    struct hook numbered = *hook;
    numbered.nr = nr;
    bool ok = hook_list_add(me, &node->tensor_hooks, &numbered, id);
    node_unref(me, node);
    return ok;
}

bool
tensor_add_post_accumulate_hook(struct task *me, struct tensor *leaf, const struct hook *hook, int *id)
{
    if (leaf == NULL)
        return false;
    if (!leaf->requires_grad)
        return failed(me, E_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    if (leaf->grad_fn != NULL)
        return failed(me, E_RUNTIME, "post accumulate grad hooks cannot be registered on non-leaf tensors");
    struct hook after = *hook;
    after.nr = HOOK_AFTER;
    tensor_has_history(leaf);
    return hook_list_add(me, &leaf->hooks, &after, id);
}

bool
tensor_remove_hook(struct task *me, struct tensor *tensor, int id)
{
    if (tensor == NULL)
        return false;
    return hook_list_remove(me, tensor->grad_fn != NULL ? tensor->grad_fn->tensor_hooks : tensor->hooks, id);
}

bool
tensor_retain_grad(struct task *me, struct tensor *tensor)
{
    if (tensor == NULL)
        return false;
    if (!tensor->requires_grad)
        return failed(me, E_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    struct node *node = tensor->grad_fn;
    if (node == NULL)
        return true; /* a leaf keeps its gradient anyway */
    for (int i = 0; i < node->retained_count; i++)
        if (node->retained[i].tensor == tensor)
            return true;
    struct retained *more = realloc(node->retained, ((size_t)node->retained_count + 1) * sizeof *more);
    if (more == NULL)
        return failed(me, E_MEMORY, "out of memory in retain_grad");
    node->retained = more;
    more[node->retained_count++] = (struct retained){ tensor, tensor->output_nr };
    return true;
}

bool
node_add_post_hook(struct task *me, struct node *node, const struct hook *hook, int *id)
{
    return hook_list_add(me, &node->post_hooks, hook, id);
}

/* What a hook puts into grads must outlive the hook's stage. It may have put a tensor there that
 * somebody else owns, so the caller's scope gets a reference of its own; not for a first one left
 * alone, which a leaf may want to steal. */
bool
node_hook_run(struct task *me, const struct hook *hook, struct node *node,
              struct tensor **grads, int count)
{
    const struct tensor *leaf = node->variable; /* its hooks see what it has by now */
    tensor_announce_named(me, leaf != NULL ? leaf->grad : count > 0 ? grads[0] : NULL,
                          "gradient", leaf != NULL ? leaf->name : NULL);
    STAGE(me, autograd_hook, stage_name_id(me, node->name));
    struct tensor *first = count > 0 ? grads[0] : NULL;
    bool           ok    = hook->run(me, hook->context, node, grads, count);
    for (int i = 0; ok && i < count; i++)
        if (grads[i] != NULL && (i > 0 || grads[0] != first))
            grads[i] = hand_up(me, tensor_born(me, tensor_ref(grads[i])));
    return ok && !task_failed(me);
}

/* What hooks see: gradients that come to a node or leave it. */
struct hooked { struct node *node; struct tensor **grads; int count; };

/* A hook may remove itself, or others: the list is looked at anew after each. */
static bool
run_numbered(struct task *me, struct hook_list *list, int nr, const struct hooked *seen)
{
    for (int i = 0; list != NULL && i < list->count;) {
        struct hook hook = list->hooks[i];
        if (hook.nr == nr && !node_hook_run(me, &hook, seen->node, seen->grads, seen->count))
            return false;
        if (i < list->count && list->hooks[i].id == hook.id)
            i++;
    }
    return true;
}

bool
hooks_run(struct task *me, struct hook_list *list, struct node *node, struct tensor **grads, int count)
{
    return run_numbered(me, list, 0, &(struct hooked){ node, grads, count });
}

bool
leaf_hooks_run_after(struct task *me, struct tensor *leaf, struct node *node)
{
    struct tensor *told = leaf;
    return run_numbered(me, leaf->hooks, HOOK_AFTER, &(struct hooked){ node, &told, 1 });
}

static bool
retain(struct task *me, struct tensor *tensor, struct tensor *grad)
{
    struct tensor *kept = tensor->grad == NULL ? tensor_copied(me, grad) : tensor_add(me, tensor->grad, grad);
    if (kept == NULL)
        return false;
    tensor_keep(me, &tensor->grad, kept);
    return true;
}

bool
tensor_hooks_run(struct task *me, struct node *node, struct tensor **grads)
{
    struct hook_list *list = node->tensor_hooks;
    for (int i = 0; list != NULL && i < list->count;) {
        struct hook hook = list->hooks[i];
        if (grads[hook.nr] != NULL && !node_hook_run(me, &hook, node, &grads[hook.nr], 1))
            return false;
        if (i < list->count && list->hooks[i].id == hook.id)
            i++;
    }
    for (int i = 0; i < node->retained_count; i++) {
        struct retained *retained = &node->retained[i];
        if (grads[retained->nr] != NULL && !retain(me, retained->tensor, grads[retained->nr]))
            return false;
    }
    return true;
}

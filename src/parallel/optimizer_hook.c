/* Another hook, then a step of the bucket's parameters, as optimizer_overlap_hooks.py: a parameter is stepped when its
 * bucket has come, not when the whole backward is over. */
#include "parallel/comm_hooks.h"

#include "device/cells.h"
#include "optim/optimizer.h"
#include "parallel/flat.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* ---- a functional optimizer ---- */

static void
drop_functional(struct task *me, struct hook_state *head)
{
    struct functional_optimizer *functional = (struct functional_optimizer *)head;
    optimizer_free(me, functional->optimizer);
    host_return(me, functional, sizeof *functional);
}

struct functional_optimizer *
functional_optimizer_new(struct task *me, enum optim_kind kind, const struct optim_options *options)
{
    struct functional_optimizer *functional = hook_state_new(me, sizeof *functional);
    if (functional == NULL)
        return NULL;
    functional->head.drop = drop_functional;
    functional->options   = *options;
    functional->optimizer = optimizer_new(me, kind);
    if (functional->optimizer != NULL)
        return functional;
    hook_state_unref(me, functional);
    return NULL;
}

bool
functional_optimizer_step(struct task *me, void *context, struct tensor *param, struct tensor *grad)
{
    struct functional_optimizer *functional = context;
    return optimizer_step_param(me, functional->optimizer, param, grad, &functional->options);
}

/* ---- which parameters ---- */

static void
drop_state(struct task *me, struct hook_state *head)
{
    struct optimizer_hook_state *state = (struct optimizer_hook_state *)head;
    for (int i = 0; i < state->count && state->params != NULL; i++)
        tensor_drop(me, &state->params[i]);
    host_return(me, state->params, (size_t)state->count * sizeof *state->params);
    if (state->drop != NULL)
        state->drop(me, state->context);
    host_return(me, state, sizeof *state);
}

struct optimizer_hook_state *
optimizer_hook_state_new(struct task *me, struct tensor *const *params, int count)
{
    struct optimizer_hook_state *state = hook_state_new(me, sizeof *state);
    if (state == NULL)
        return NULL;
    state->head.drop = drop_state;
    state->all       = params == NULL;
    if (state->all || count == 0)
        return state;
    state->params = host_take(me, (size_t)count * sizeof *state->params);
    state->count  = state->params != NULL ? count : 0;
    for (int i = 0; i < state->count; i++)
        tensor_keep(me, &state->params[i], params[i]);
    if (state->params != NULL)
        return state;
    hook_state_unref(me, state);
    return NULL;
}

static bool
is_stepped(const struct optimizer_hook_state *state, const struct tensor *param)
{
    for (int i = 0; i < state->count; i++)
        if (state->params[i] == param)
            return true;
    return state->all;
}

/* ---- the hook ---- */

struct optimizer_hook { struct comm_hook inner; struct optimizer_hook_state *state; };
/* A bucket under way, and its parameters. */
struct stepped { void *started; struct tensor **params; int count; };

static void
drop_hook(struct task *me, void *context)
{
    struct optimizer_hook *hook = context;
    hook->inner.drop(me, hook->inner.context);
    hook_state_unref(me, hook->state);
    host_return(me, hook, sizeof *hook);
}

static void
forget_stepped(struct task *me, void *context, void *object)
{
    struct optimizer_hook *hook    = context;
    struct stepped        *stepped = object;
    if (stepped->started != NULL)
        hook->inner.forget(me, hook->inner.context, stepped->started);
    for (int i = 0; i < stepped->count && stepped->params != NULL; i++)
        tensor_drop(me, &stepped->params[i]);
    host_return(me, stepped->params, (size_t)stepped->count * sizeof *stepped->params);
    host_return(me, stepped, sizeof *stepped);
}

static void *
start_stepped(struct task *me, void *context, const struct grad_bucket *bucket)
{
    struct optimizer_hook *hook    = context;
    struct stepped        *stepped = host_take(me, sizeof *stepped);
    if (stepped == NULL)
        return NULL;
    stepped->count  = bucket->count;
    stepped->params = host_take(me, (size_t)bucket->count * sizeof *stepped->params);
    for (int i = 0; i < bucket->count && stepped->params != NULL; i++)
        tensor_keep(me, &stepped->params[i], bucket->params[i]);
    if (stepped->params != NULL)
        stepped->started = hook->inner.start(me, hook->inner.context, bucket);
    if (stepped->started != NULL)
        return stepped;
    forget_stepped(me, hook, stepped);
    return NULL;
}

/* With what the inner hook answers. PyTorch reads the bucket's buffer instead, which a hook that answers another tensor
 * leaves as it was: there each rank would step by its own gradients. */
static bool
step_params(struct task *me, const struct optimizer_hook_state *state, const struct stepped *stepped,
            struct tensor *result)
{
    struct flat_walk walk   = { .flat = result };
    bool             sparse = tensor_is_sparse(result);
    for (int i = 0; i < stepped->count; i++) {
        struct tensor *grad = sparse ? result : flat_piece_strided(me, &walk, stepped->params[i]);
        if (grad == NULL)
            return false;
        if (is_stepped(state, stepped->params[i]) &&
            !state->step(me, state->context, stepped->params[i], grad))
            return false;
    }
    return true;
}

static struct tensor *
finish_stepped(struct task *me, void *context, void *object)
{
    struct optimizer_hook *hook    = context;
    struct stepped        *stepped = object;
    void                  *started = stepped->started;
    stepped->started = NULL;
    struct tensor *result = hook->inner.finish(me, hook->inner.context, started);
    if (result != NULL && !step_params(me, hook->state, stepped, result))
        result = NULL;
    forget_stepped(me, hook, stepped);
    return result;
}

struct comm_hook
hook_then_optimizer(struct task *me, const struct comm_hook *inner, struct optimizer_hook_state *state)
{
    struct optimizer_hook *hook = host_take(me, sizeof *hook);
    if (hook == NULL) {
        inner->drop(me, inner->context);
        return (struct comm_hook){ 0 };
    }
    hook_state_ref(&state->head);
    *hook = (struct optimizer_hook){ *inner, state };
    return (struct comm_hook){ .start = start_stepped, .finish = finish_stepped, .forget = forget_stepped,
                               .drop = drop_hook, .context = hook,
                               .name = "_hook_then_optimizer.<locals>.hook_then_optimizer_wrapper" };
}

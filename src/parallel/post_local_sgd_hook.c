/* Local SGD after a start, as post_localSGD_hook.py: gradients are averaged over all ranks at first, then only within a
 * subgroup, or not at all; a model averager brings the ranks' parameters together from time to time. */
#include "parallel/comm_hooks.h"

#include "c10d/group.h"
#include "device/cells.h"
#include "sched/task.h"

static void
drop_state(struct task *me, struct hook_state *head)
{
    host_return(me, head, sizeof(struct post_local_sgd_state));
}

struct post_local_sgd_state *
post_local_sgd_state_new(struct task *me)
{
    struct post_local_sgd_state *state = hook_state_new(me, sizeof *state);
    if (state != NULL)
        state->head.drop = drop_state;
    return state;
}

/* The hook with which a bucket began: by the time it is finished another may be due. */
struct local_started { struct comm_hook hook; void *started; };

static void
forget_local(struct task *me, void *context, void *object)
{
    struct local_started *local = object;
    (void)context;
    if (local->started != NULL)
        local->hook.forget(me, local->hook.context, local->started);
    host_return(me, local, sizeof *local);
}

/* The last bucket of a backward ends an iteration, as long as they are counted. */
static struct comm_hook
hook_of_now(struct post_local_sgd_state *state, const struct grad_bucket *bucket)
{
    if (state->iter < state->start_iter) {
        state->iter += bucket->is_last;
        return allreduce_hook(state->group != NULL ? state->group : state->world);
    }
    return state->post_local_allreduce ? allreduce_hook(state->subgroup) : noop_hook();
}

static void *
start_local(struct task *me, void *context, const struct grad_bucket *bucket)
{
    struct post_local_sgd_state *state = context;
    bool local = state->iter >= state->start_iter && state->post_local_allreduce;
    if (local && state->subgroup == NULL) {
        failed(me, E_VALUE, "PostLocalSGDState has no subgroup to average in from iteration %lld on: "
                            "dist.new_subgroups(group_size) makes one", (long long)state->start_iter);
        return NULL;
    }
    struct local_started *started = host_take(me, sizeof *started);
    if (started == NULL)
        return NULL;
    started->hook    = hook_of_now(state, bucket);
    started->started = started->hook.start(me, started->hook.context, bucket);
    if (started->started != NULL)
        return started;
    forget_local(me, NULL, started);
    return NULL;
}

static struct tensor *
finish_local(struct task *me, void *context, void *object)
{
    struct local_started *local   = object;
    void                 *started = local->started;
    local->started = NULL;
    struct tensor *result = local->hook.finish(me, local->hook.context, started);
    forget_local(me, context, local);
    return result;
}

static void
drop_hook(struct task *me, void *context)
{
    hook_state_unref(me, context);
}

struct comm_hook
post_local_sgd_hook(struct post_local_sgd_state *state)
{
    hook_state_ref(&state->head);
    return (struct comm_hook){ .start = start_local, .finish = finish_local, .forget = forget_local, .drop = drop_hook,
                               .context = state, .name = "post_localSGD_hook" };
}

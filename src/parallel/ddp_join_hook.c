/* DistributedDataParallel of a rank that has no inputs left: the collectives of the others' iterations, in their order
 * (ddp_join.c), with nothing of its own. torch/nn/parallel/distributed.py: _DDPJoinHook. */
#include "c10d/group.h"
#include "parallel/ddp_internal.h"
#include "parallel/delayed_params.h"
#include "parallel/logger.h"
#include "parallel/reducer.h"
#include "parallel/state_sync.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

static bool
hear_of_backward_sync(struct task *me, struct ddp *ddp, float *numbers)
{
    struct tensor *tensor = ddp_join_numbers(me, ddp, numbers);
    return tensor != NULL && group_all_reduce_now(me, ddp->group, tensor, NULL) && tensor_read(me, tensor, numbers);
}

/* One iteration of the others, step by step as they make it. */
static bool
ddp_shadow(struct task *me, struct ddp *ddp)
{
    float           numbers[JOIN_NUMBERS] = { 0 };
    struct reducer *reducer          = ddp->reducer;
    if (reducer != NULL && (!reducer_can_shadow(me, reducer) || !reducer_ensure_prior_reduction_finished(me, reducer)))
        return false;
    if (reducer != NULL && reducer_should_rebuild_buckets(reducer) && !reducer_rebuild_buckets(me, reducer))
        return false;
    if (reducer != NULL && !ddp_sync_buffers_if_due(me, ddp, true))
        return false;
    if (!hear_of_backward_sync(me, ddp, numbers))
        return false;
    if (reducer != NULL && !ddp_sync_buffers_if_due(me, ddp, false))
        return false;
    ddp->require_forward_param_sync = numbers[REDUCES_BUCKETS] > 0;
    if (reducer != NULL && numbers[REDUCES_BUCKETS] > 0 && !reducer_shadow_backward(me, reducer))
        return false;
    return numbers[REDUCES_DELAYED] == 0 || delayed_shadow(me, ddp->delayed);
}

static bool
ddp_main_hook(struct task *me, void *context)
{
    struct ddp *ddp = context;
    ddp->joined = true;
    bool done   = ddp_shadow(me, ddp);
    ddp->joined = false;
    return done;
}

/* ---- the end ---- */

/* Parameters and buffers of the rank that all have agreed on, as when the wrapper was made. */
static bool
ddp_sync_final_states(struct task *me, struct ddp *ddp,
                      const struct named_tensors *states)
{
    int root = ddp->authoritative_rank;
    STAGE(me, ddp_join_final, states->count, named_bytes(states), root);
    const struct state_sync sync = { .tensors = states->tensors, .count = states->count,
                                     .root = root };
    return broadcast_coalesced(me, ddp->group, &sync);
}

/* Whoever ended early has old parameters: one of the last to end gives all the whole state. */
static bool
ddp_post_hook(struct task *me, void *context, bool is_last_joiner)
{
    struct ddp              *ddp     = context;
    const struct joinable    self    = ddp_join_place(ddp);
    const struct ddp_options options = { .ignored = (const char *const *)ddp->ignored,
                                         .ignored_count = ddp->ignored_count };
    struct named_tensors states = { 0 };
    if (!join_find_common_rank(me, &self, is_last_joiner, &ddp->authoritative_rank))
        return false;
    return ddp_wanted_states(me, ddp->module, &options, ddp->forward_sync_buffers, &states) &&
           ddp_sync_final_states(me, ddp, &states);
}

/* ---- taking part ---- */

bool
ddp_joinable(struct module *wrapper, struct joinable *out)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp == NULL)
        return false;
    if (ddp->logger != NULL)
        logger_set_uneven_input_join(ddp->logger);
    *out           = ddp_join_place(ddp);
    out->main_hook = ddp_main_hook;
    out->post_hook = ddp_post_hook;
    out->context   = ddp;
    return true;
}

/* DistributedDataParallel in a Join: what a forward tells the ranks that have no inputs left. Both sides follow one
 * order, that of torch/nn/parallel/distributed.py:
 *
 *   a rank that goes on                         a rank that has ended (ddp_join_hook.c)
 *     ddp_notify_join                             join_exit's question
 *     rebuild of the buckets, once                the same
 *     buffers, from a rank that goes on           the same
 *     ddp_tell_backward_sync                      hears of it
 *     forward; buffers, if a hook wants them now  the hook
 *     backward: buckets, used map, delayed ones   reducer_shadow_backward, delayed_shadow, if the others reduce */
#include "autograd/node.h"
#include "c10d/group.h"
#include "parallel/ddp_internal.h"
#include "parallel/ddp_inspect.h"
#include "parallel/delayed_params.h"
#include "parallel/reducer.h"
#include "tensor/op.h"

struct joinable
ddp_join_place(const struct ddp *ddp)
{
    return (struct joinable){ .group = ddp->group, .device = ddp->reducer != NULL ? reducer_device(ddp->reducer)
                                                                                  : delayed_device(ddp->delayed) };
}

bool
ddp_notify_join(struct task *me, struct ddp *ddp)
{
    if (!ddp->join.enable || !ddp->join.is_first_joinable)
        return !task_failed(me);
    const struct joinable self = ddp_join_place(ddp);
    return join_notify_context(me, &ddp->join, &self, &ddp->live);
}

struct tensor *
ddp_join_numbers(struct task *me, const struct ddp *ddp, const float *numbers)
{
    const int64_t  count  = ddp->delayed != NULL ? JOIN_NUMBERS : 1;
    struct tensor *tensor = tensor_zeros(me, DTYPE_F32, ddp_join_place(ddp).device, 1, &count);
    return tensor != NULL && tensor_write(me, tensor, numbers) ? tensor : NULL;
}

/* Nobody here waits for the sum. */
bool
ddp_tell_backward_sync(struct task *me, struct ddp *ddp, bool syncs)
{
    if (!ddp->join.enable)
        return !task_failed(me);
    const float    numbers[JOIN_NUMBERS] = { syncs, grad_enabled(me) };
    struct tensor *tensor                = ddp_join_numbers(me, ddp, numbers);
    struct work   *work = tensor != NULL ? group_all_reduce(me, ddp->group, tensor, NULL) : NULL;
    work_free(me, work);
    return work != NULL;
}

bool
ddp_common_rank(struct task *me, struct ddp *ddp, int *rank)
{
    *rank = 0;
    if (!ddp->join.enable)
        return !task_failed(me);
    const struct joinable self = ddp_join_place(ddp);
    return join_find_common_rank(me, &self, !ddp->joined, rank);
}

/* ---- set and asked ---- */

void
ddp_divide_by_initial_world_size(struct module *wrapper, bool initial)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp->reducer != NULL)
        reducer_divide_by_live_ranks(ddp->reducer, initial ? NULL : &ddp->live);
}

void
ddp_set_join(struct task *me, struct module *wrapper, const struct join_config *config)
{
    struct ddp *ddp = ddp_of(wrapper);
    ddp->join = *config;
    delayed_wait_for_buckets(ddp->delayed, config->enable);
    if (config->enable)
        return;
    ddp_divide_by_initial_world_size(wrapper, true);
    live_ranks_forget(me, &ddp->live);
}

bool
ddp_join_config(const struct module *wrapper, struct join_config *out)
{
    const struct ddp *ddp = ddp_of(wrapper);
    if (ddp != NULL)
        *out = ddp->join;
    return ddp != NULL;
}

/* DistributedDataParallel's buffers: before a forward that synchronises they become those of one rank, or a hook does
 * what it does. */
#include "autograd/node.h"
#include "parallel/check_ranks.h"
#include "parallel/ddp_internal.h"
#include "parallel/state_sync.h"
#include "sched/stage.h"

/* Rank 0's running statistics replace those of the others, before the forward: after a step they differ again. In a
 * Join rank 0 may have no inputs any more, and its statistics are old: the ranks agree on one that has. */
static bool
ddp_sync_buffers(struct task *me, struct ddp *ddp, int root)
{
    const struct named_tensors *buffers = &ddp->buffers;
    STAGE(me, ddp_sync_buffers, buffers->count, named_bytes(buffers));
    replica_watch_buffers(me, ddp->replica, buffers);
    const struct state_sync sync = { .tensors = buffers->tensors, .count = buffers->count,
                                     .root = root, .keeps_versions = true };
    return broadcast_coalesced(me, ddp->group, &sync);
}

/* Who has registered a hook syncs the buffers himself; DDP waits for its futures at the end of the backward. */
static bool
ddp_run_buffer_hook(struct task *me, struct ddp *ddp)
{
    STAGE(me, ddp_buffer_hook, ddp->buffers.count, named_bytes(&ddp->buffers));
    const struct buffer_hook *hook = &ddp->buffer_hook;
    bool recorded = grad_enabled(me);
    grad_set_enabled(me, false);
    bool done = hook->run(me, hook->context, ddp->reducer, &ddp->buffers);
    grad_set_enabled(me, recorded);
    return done;
}

/* Buffers are read anew: the module may have others by now (issue 63916). */
static bool
ddp_read_buffers(struct task *me, struct ddp *ddp)
{
    const struct ddp_options ignoring = { .ignored = (const char *const *)ddp->ignored,
                                          .ignored_count = ddp->ignored_count };
    named_tensors_free(me, &ddp->buffers);
    return ddp_wanted_buffers(me, ddp->module, &ignoring, &ddp->buffers);
}

bool
ddp_sync_buffers_if_due(struct task *me, struct ddp *ddp, bool before_forward)
{
    int  root   = 0;
    bool hooked = ddp->buffer_hook.run != NULL;
    bool now    = before_forward == (!hooked || ddp->buffer_hook.before_forward);
    if (!now || !ddp->require_forward_param_sync || !ddp->forward_sync_buffers)
        return true;
    if (!ddp_read_buffers(me, ddp))
        return false;
    if (ddp->buffers.count == 0)
        return true;
    if (!ddp_common_rank(me, ddp, &root))
        return false;
    return hooked ? ddp_run_buffer_hook(me, ddp) : ddp_sync_buffers(me, ddp, root);
}

/* What goes from one to all, and from all to nobody: broadcast along a binomial tree, and the barrier.
 * PyTorch: gloo's broadcast. A barrier costs one latency after the last rank has come; gloo's takes log2(N) rounds. */
#include "c10d/local.h"
#include "hw/cost.h"
#include "sched/stage.h"

/* One message leaves over one link; the stage lasts until it has arrived. The receiver's collective ends its arrow. */
static bool
link_transfer(struct task *me, const struct collective *call, struct link *link,
              struct message *message)
{
    STAGE(me, comm_transfer, link->from, link->to, (int64_t)message->bytes);
    if (!link_put(me, call, link, message))
        return false;
    sched_advance_to(me, message->arrival);
    return true;
}

static bool
tree_send(struct task *me, const struct collective *call, int to)
{
    struct message message = { .data = tensor_elements(call->tensor), .bytes = (size_t)call->bytes };
    struct link   *link    = link_between(me, call->transport, call->rank, to);
    if (link == NULL || task_failed(me))
        return false;
    message.flow = sched_next_flow(me);
    stage_depart(me, message.flow);
    return link_transfer(me, call, link, &message);
}

static bool
tree_receive(struct task *me, const struct collective *call, int from, uint32_t *flow)
{
    struct message message = { .data = tensor_elements(call->tensor), .bytes = (size_t)call->bytes };
    struct link   *link    = link_between(me, call->transport, from, call->rank);
    if (link == NULL || !link_take(me, call, link, &message, NULL))
        return false;
    *flow = message.flow;
    tensor_bump(call->tensor);
    tensor_tell(me, call->tensor);
    return true;
}

/* The root's tensor goes to all ranks along a binomial tree: whoever has it hands it on, the farthest first. Places are
 * counted from the root; the lowest set bit of a place is the distance to its parent. */
bool
local_broadcast(struct task *me, const struct collective *call)
{
    int root = call->options.root;
    STAGE(me, c10d_broadcast, call->sequence, call->bytes, root, call->ranks);
    int place = (call->rank - root + call->ranks) % call->ranks, distance = 1;
    if (!tensor_touch(me, call->tensor, place != 0, "broadcast"))
        return false;
    if (call->bytes == 0)
        return true;
    while (distance < call->ranks && (place & distance) == 0)
        distance *= 2;
    if (place != 0) {
        uint32_t flow = 0;
        if (!tree_receive(me, call, (place - distance + root) % call->ranks, &flow))
            return false;
        stage_arrive(&stage_, flow);
    }
    for (distance /= 2; distance > 0; distance /= 2)
        if (place + distance < call->ranks &&
            !tree_send(me, call, (place + distance + root) % call->ranks))
            return false;
    return true;
}

/* Nobody leaves before all have come. The last one opens it, one latency later. */
bool
local_barrier(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_barrier, call->sequence, call->ranks);
    struct local *local = call->transport;
    monitor_enter(me, &local->monitor);
    uint64_t before = local->opened;
    if (++local->arrived == local->size) {
        bool priced    = local->size > 1 && sched_is_stepped(me->sched);
        local->open_at = sched_now(me);
        local->open_at += priced ? cost_copy(sched_cost(me->sched), 0) : 0;
        local->arrived = 0;
        local->opened++;
        monitor_wake(me, &local->monitor);
    }
    while (local->opened == before)
        if (!work_await(me, call->work, &local->monitor, -1))
            return false;
    uint64_t open_at = local->open_at;
    monitor_leave(me, &local->monitor);
    sched_advance_to(me, open_at);
    return true;
}

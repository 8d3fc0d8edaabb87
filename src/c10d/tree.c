/* What goes from one to all, and from all to nobody: broadcast along a binomial tree, and the barrier.
 * PyTorch: gloo's broadcast. A barrier costs one latency after the last rank has come; gloo's takes log2(N) rounds. */
#include "c10d/local.h"
#include "c10d/nccl_internal.h"
#include "c10d/remote.h"
#include "hw/cost.h"
#include "sched/stage.h"

static bool
tree_send(struct task *me, const struct collective *call, int to)
{
    struct hop hop = { .out = link_between(me, call->channel, call->rank, to),
                       .send = { .data = tensor_elements(call->tensor), .bytes = (size_t)call->bytes } };
    return hop.out != NULL && hop_run(me, call, &hop);
}

static bool
tree_received(struct task *me, const struct collective *call)
{
    tensor_bump(call->tensor);
    tensor_tell(me, call->tensor);
    return true;
}

static bool
tree_receive(struct task *me, const struct collective *call, int from)
{
    struct hop hop = { .in = link_between(me, call->channel, from, call->rank),
                       .receive = { .data = tensor_elements(call->tensor), .bytes = (size_t)call->bytes } };
    return hop.in != NULL && hop_run(me, call, &hop) && tree_received(me, call);
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
    if (nccl_takes(call))
        return nccl_run(me, call);
    if (call->bytes == 0)
        return true;
    if (remote_takes(call))
        return remote_run(me, call) && (place == 0 || tree_received(me, call));
    while (distance < call->ranks && (place & distance) == 0)
        distance *= 2;
    if (place != 0 && !tree_receive(me, call, (place - distance + root) % call->ranks))
        return false;
    for (distance /= 2; distance > 0; distance /= 2)
        if (place + distance < call->ranks &&
            !tree_send(me, call, (place + distance + root) % call->ranks))
            return false;
    return true;
}

/* One latency: between nodes where the members do not stand on one. */
static uint64_t
barrier_price(struct task *me, const struct channel *channel)
{
    int last = 0;
    for (int i = 1; i < channel->size; i++)
        if (topology_crosses(&channel->local->topology, channel->ranks[0], channel->ranks[i]))
            last = i;
    return cost_hop(sched_cost(me->sched), channel->ranks[0], channel->ranks[last], 0);
}

/* Nobody leaves before all have come. The last one opens it, one latency later. */
bool
local_barrier(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_barrier, call->sequence, call->ranks);
    struct channel *channel = call->channel;
    if (nccl_takes(call))
        return nccl_run(me, call);
    if (remote_takes(call))
        return remote_run(me, call);
    monitor_enter(me, &channel->monitor);
    uint64_t before = channel->opened;
    if (++channel->arrived == channel->size) {
        bool priced = channel->size > 1 && sched_is_stepped(me->sched);
        channel->open_at = sched_now(me);
        channel->open_at += priced ? barrier_price(me, channel) : 0;
        channel->arrived = 0;
        channel->opened++;
        monitor_wake(me, &channel->monitor);
    }
    while (channel->opened == before)
        if (!work_await(me, call->work, &channel->monitor, -1))
            return false;
    uint64_t open_at = channel->open_at;
    monitor_leave(me, &channel->monitor);
    sched_advance_to(me, open_at);
    return true;
}

/* What goes from one to all, and from all to nobody: broadcast along a binomial tree, and the barrier.
 * PyTorch: gloo's broadcast. A barrier costs one latency after the last rank has come; gloo's takes log2(N) rounds. */
#include "c10d/internal.h"
#include "hw/cost.h"
#include "sched/stage.h"

/* One message leaves over one link; the stage lasts until it has arrived. The receiver's collective ends its arrow. */
static bool
link_transfer(struct task *me, struct work *work, struct link *link,
              struct message *message)
{
    STAGE(me, comm_transfer, link->from, link->to, (int64_t)message->bytes);
    if (!link_put(me, work, link, message))
        return false;
    sched_advance_to(me, message->arrival);
    return true;
}

static bool
tree_send(struct task *me, struct work *work, int to)
{
    struct message message = { .data = tensor_elements(work->tensor), .bytes = (size_t)work->bytes };
    struct link   *link    = world_link(me, work->group->world, work->group->rank, to);
    if (link == NULL || task_failed(me))
        return false;
    message.flow = sched_next_flow(me);
    stage_depart(me, message.flow);
    return link_transfer(me, work, link, &message);
}

static bool
tree_receive(struct task *me, struct work *work, int from, uint32_t *flow)
{
    struct message message = { .data = tensor_elements(work->tensor), .bytes = (size_t)work->bytes };
    struct link   *link    = world_link(me, work->group->world, from, work->group->rank);
    if (link == NULL || !link_take(me, work, link, &message, NULL))
        return false;
    *flow = message.flow;
    tensor_bump(work->tensor);
    tensor_tell(me, work->tensor);
    return true;
}

/* The root's tensor goes to all ranks along a binomial tree: whoever has it hands it on, the farthest first. Places are
 * counted from the root; the lowest set bit of a place is the distance to its parent. */
bool
local_broadcast(struct task *me, struct work *work)
{
    int root = work->options.root;
    STAGE(me, c10d_broadcast, work->sequence, work->bytes, root, work->ranks);
    int place = (work->group->rank - root + work->ranks) % work->ranks, distance = 1;
    if (!tensor_touch(me, work->tensor, place != 0, "broadcast"))
        return false;
    if (work->bytes == 0)
        return true;
    while (distance < work->ranks && (place & distance) == 0)
        distance *= 2;
    if (place != 0) {
        uint32_t flow = 0;
        if (!tree_receive(me, work, (place - distance + root) % work->ranks, &flow))
            return false;
        stage_arrive(&stage_, flow);
    }
    for (distance /= 2; distance > 0; distance /= 2)
        if (place + distance < work->ranks &&
            !tree_send(me, work, (place + distance + root) % work->ranks))
            return false;
    return true;
}

/* Nobody leaves before all have come. The last one opens it, one latency later. */
bool
local_barrier(struct task *me, struct work *work)
{
    STAGE(me, c10d_barrier, work->sequence, work->ranks);
    struct monitor      *monitor = &work->group->world->ledger.monitor;
    struct ledger_entry *entry   = work->entry;
    int                  size    = work->ranks;
    monitor_enter(me, monitor);
    if (++entry->arrived == size) {
        bool priced    = size > 1 && sched_is_stepped(me->sched);
        entry->open_at = sched_now(me);
        entry->open_at += priced ? cost_copy(sched_cost(me->sched), 0) : 0;
        monitor_wake(me, monitor);
    }
    while (entry->arrived < size)
        if (!work_await(me, work, monitor, -1))
            return false;
    uint64_t open_at = entry->open_at;
    monitor_leave(me, monitor);
    sched_advance_to(me, open_at);
    return true;
}

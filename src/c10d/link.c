/* Links: one per ordered pair of ranks of a group, one message in flight; over wires that take one transfer at a time.
 * A message leaves when the sender has it and the wire is free, and arrives what cost_copy says later; only then the
 * receiver's clock rises to it. Nobody waits for the other to be there: the data goes through the link's own memory.
 * Order of use: link_between, link_put at one end, link_take at the other. In `free` there are no prices. */
#include <stdlib.h>
#include <string.h>
#include "c10d/local.h"
#include "device/device.h"
#include "hw/cost.h"
#include "sched/account.h"

/* In the transport's monitor. NULL: no memory. */
static struct wire *
wire_between(struct local *local, int sender, int receiver)
{
    uint64_t key = (uint64_t)sender * (uint64_t)local->size + (uint64_t)receiver, known;
    if (map_get(&local->wires, key, &known))
        return (struct wire *)(uintptr_t)known;
    struct wire *wire = calloc(1, sizeof *wire);
    if (wire != NULL && map_set(&local->wires, key, (uintptr_t)wire))
        return wire;
    free(wire);
    return NULL;
}

static struct wire *
wire_of(struct task *me, const struct channel *channel, int from, int to)
{
    struct local *local = channel->local;
    monitor_enter(me, &local->monitor);
    struct wire *wire = wire_between(local, channel->ranks[from], channel->ranks[to]);
    monitor_leave(me, &local->monitor);
    return wire;
}

/* In the channel's monitor. NULL: no memory. */
static struct link *
link_new(struct channel *channel, struct wire *wire, int from, int to)
{
    struct link *link = calloc(1, sizeof *link);
    uint64_t     key  = (uint64_t)from * (uint64_t)channel->size + (uint64_t)to;
    if (link == NULL || !monitor_init(&link->monitor)) {
        free(link);
        return NULL;
    }
    link->sched    = channel->local->sched;
    link->wire     = wire;
    link->from     = from;
    link->to       = to;
    link->sender   = channel->ranks[from];
    link->receiver = channel->ranks[to];
    if (!map_set(&channel->links, key, (uintptr_t)link)) {
        link_free(link);
        return NULL;
    }
    link->next = channel->first_link;
    channel->first_link = link;
    return link;
}

struct link *
link_between(struct task *me, struct channel *channel, int from, int to)
{
    struct wire *wire  = wire_of(me, channel, from, to);
    struct link *link  = NULL;
    uint64_t     known = 0;
    monitor_enter(me, &channel->monitor);
    if (map_get(&channel->links, (uint64_t)from * (uint64_t)channel->size + (uint64_t)to, &known))
        link = (struct link *)(uintptr_t)known;
    else if (wire != NULL)
        link = link_new(channel, wire, from, to);
    monitor_leave(me, &channel->monitor);
    return link != NULL ? link : failed_null(me, E_MEMORY, "out of memory for the link %d -> %d", channel->ranks[from],
                                             channel->ranks[to]);
}

uint64_t
link_depart(struct task *me, struct link *link, uint64_t bytes)
{
    if (!sched_is_stepped(me->sched))
        return 0;
    struct wire *wire = link->wire;
    uint64_t start = sched_now(me) > wire->free_at ? sched_now(me) : wire->free_at;
    wire->free_at  = start + cost_copy(sched_cost(me->sched), bytes);
    return wire->free_at;
}

static bool
link_room(struct task *me, struct link *link, size_t bytes)
{
    if (bytes <= link->room)
        return true;
    host_give(link->sched, link->data, link->room);
    link->data = cell_take(me, bytes);
    link->room = link->data != NULL ? bytes : 0;
    return link->data != NULL;
}

bool
link_put(struct task *me, const struct collective *call, struct link *link, struct message *message)
{
    if (!task_work(me, message->bytes / WORK_BYTES))
        return false;
    monitor_enter(me, &link->monitor);
    while (link->full)
        if (!work_await(me, call->work, &link->monitor, link->to))
            return false;
    bool fits = link_room(me, link, message->bytes);
    if (fits) {
        if (message->bytes > 0)
            memcpy(link->data, message->data, message->bytes);
        link->bytes   = message->bytes;
        link->flow    = message->flow;
        link->arrival = message->arrival = link_depart(me, link, message->bytes);
        link->full    = true;
        monitor_wake(me, &link->monitor);
    }
    monitor_leave(me, &link->monitor);
    return fits || memory_failed(me, message->bytes, "the host");
}

/* Twice in the monitor, because a clock may not move inside: first the arrival is known, then the data is taken. */
bool
link_take(struct task *me, const struct collective *call, struct link *link, struct message *message,
          const struct reduction *reduction)
{
    monitor_enter(me, &link->monitor);
    while (!link->full)
        if (!work_await(me, call->work, &link->monitor, link->from))
            return false;
    message->arrival = link->arrival;
    monitor_leave(me, &link->monitor);
    sched_advance_to(me, message->arrival);

    monitor_enter(me, &link->monitor);
    size_t bytes = link->bytes;
    if (bytes == message->bytes && reduction != NULL && reduction->on)
        reduce_elements(reduction, message->data, link->data, bytes);
    else if (bytes == message->bytes && bytes > 0)
        memcpy(message->data, link->data, bytes);
    message->flow = link->flow;
    link->full    = false;
    monitor_wake(me, &link->monitor);
    monitor_leave(me, &link->monitor);
    return bytes == message->bytes ||
           failed(me, E_MISMATCH, "rank %d sent %zu bytes where rank %d expects %zu", link->sender, bytes,
                  link->receiver, message->bytes);
}

void
link_free(struct link *link)
{
    if (link == NULL)
        return;
    host_give(link->sched, link->data, link->room);
    monitor_destroy(&link->monitor);
    free(link);
}

/* Links: one per ordered pair of ranks, one message in flight, one transfer at a time. A message leaves when the sender
 * has it and the link is free, and arrives what cost_copy says later; only then the receiver's clock rises to it.
 * Nobody waits for the other to be there: the data goes through the link's own memory.
 * Order of use: link_between, link_put at one end, link_take at the other. In `free` there are no prices. */
#include <stdlib.h>
#include <string.h>
#include "c10d/local.h"
#include "device/device.h"
#include "hw/cost.h"
#include "sched/account.h"

static struct link *
link_new(struct local *local, int from, int to)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL || !monitor_init(&link->monitor)) {
        free(link);
        return NULL;
    }
    link->sched = local->sched;
    link->from = from;
    link->to   = to;
    link->next = local->first_link;
    local->first_link = link;
    return link;
}

struct link *
link_between(struct task *me, struct local *local, int from, int to)
{
    struct link **place = &local->links[(size_t)from * (size_t)local->size + (size_t)to];
    monitor_enter(me, &local->monitor);
    if (*place == NULL)
        *place = link_new(local, from, to);
    struct link *link = *place;
    monitor_leave(me, &local->monitor);
    return link != NULL ? link : failed_null(me, E_MEMORY, "out of memory for the link %d -> %d", from, to);
}

uint64_t
link_depart(struct task *me, struct link *link, uint64_t bytes)
{
    if (!sched_is_stepped(me->sched))
        return 0;
    uint64_t start = sched_now(me) > link->free_at ? sched_now(me) : link->free_at;
    link->free_at  = start + cost_copy(sched_cost(me->sched), bytes);
    return link->free_at;
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
    else if (bytes == message->bytes)
        memcpy(message->data, link->data, bytes);
    message->flow = link->flow;
    link->full    = false;
    monitor_wake(me, &link->monitor);
    monitor_leave(me, &link->monitor);
    return bytes == message->bytes ||
           failed(me, E_MISMATCH, "rank %d sent %zu bytes where rank %d expects %zu", link->from, bytes, link->to,
                  message->bytes);
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

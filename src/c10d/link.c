/* Links: one per ordered pair of ranks of a group, one message in flight; over wires that take one transfer at a
 * time. A message leaves when the sender has it and the wire is free, and arrives when wire.c says; only then the
 * receiver's clock rises to it. Nobody waits for the other to be there: the data goes through the link's own
 * memory.
 * Order of use: link_between, carrier_wires: put at one end, take at the other. `free` has no prices: see
 * handover.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/local.h"
#include "device/device.h"
#include "sched/account.h"

/* In the channel's monitor. NULL: no memory. */
static struct link *
link_new(struct task *me, struct channel *channel, struct wire *wire, int from, int to)
{
    struct link *link = calloc(1, sizeof *link);
    uint64_t     key  = (uint64_t)from * (uint64_t)channel->size + (uint64_t)to;
    if (link == NULL || !monitor_init(&link->monitor)) {
        free(link);
        return NULL;
    }
    link->sched    = channel->local->sched;
    link->channel  = channel;
    link->wire     = wire;
    link->from     = from;
    link->to       = to;
    link->sender   = channel->ranks[from];
    link->receiver = channel->ranks[to];
    if (!map_set(&channel->links, key, (uintptr_t)link)) {
        link_free(me, link);
        return NULL;
    }
    link->next = channel->first_link;
    channel->first_link = link;
    return link;
}

static struct link *
link_known(struct task *me, struct channel *channel, int from, int to)
{
    uint64_t known = 0;
    monitor_enter(me, &channel->monitor);
    bool is_known = map_get(&channel->links, (uint64_t)from * (uint64_t)channel->size + (uint64_t)to, &known);
    monitor_leave(me, &channel->monitor);
    return is_known ? (struct link *)(uintptr_t)known : NULL;
}

struct link *
link_between(struct task *me, struct channel *channel, int from, int to)
{
    struct link *link = link_known(me, channel, from, to);
    if (link != NULL)
        return link;
    struct wire *wire  = wire_between(me, channel->local, channel->ranks[from], channel->ranks[to]);
    uint64_t     known = 0;
    monitor_enter(me, &channel->monitor);
    if (map_get(&channel->links, (uint64_t)from * (uint64_t)channel->size + (uint64_t)to, &known))
        link = (struct link *)(uintptr_t)known;
    else if (wire != NULL)
        link = link_new(me, channel, wire, from, to);
    monitor_leave(me, &channel->monitor);
    return link != NULL ? link : failed_null(me, E_MEMORY, "out of memory for the link %d -> %d", channel->ranks[from],
                                             channel->ranks[to]);
}

/* A link keeps its memory for the next message, unless it is more than this. */
enum { KEPT_BYTES = 8 << 20 };

void
link_forget(struct link *link)
{
    if (link->room <= KEPT_BYTES)
        return;
    host_give(link->sched, link->data, link->room);
    link->data = NULL;
    link->room = 0;
}

bool
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
link_misfit(struct task *me, const struct link *link, size_t sent, size_t expected)
{
    return failed(me, E_MISMATCH, "rank %d sent %zu bytes where rank %d expects %zu", link->sender, sent,
                  link->receiver, expected);
}

void
fault_words(const struct fault_message *fault, int from, int to, char *out, size_t size)
{
    if (fault->is_cut)
        snprintf(out, size, "the link from rank %d to rank %d is cut", from, to);
    else
        snprintf(out, size, "message %" PRIu64 " from rank %d to rank %d was lost", fault->number, from, to);
}

/* The receiver learns what it waits for, though it never comes. */
void
link_lose(struct task *me, struct link *link, const struct fault_message *fault)
{
    monitor_enter(me, &link->monitor);
    if (!link->lost)
        fault_words(fault, link->sender, link->receiver, link->why, sizeof link->why);
    link->lost   = true;
    link->copied = true;
    if (!link->full)
        link->transfer = (struct transfer){ .landed = true, .arrival = sched_now(me) };
    monitor_wake(me, &link->monitor);
    monitor_leave(me, &link->monitor);
}

bool
link_await(struct task *me, const struct collective *call, struct link *link, int peer)
{
    work_wait_lost(call->work, peer == link->from && link->lost ? link->why : NULL);
    return work_await(me, call->work, &link->monitor, peer);
}

/* In the monitor: may a message be handed over? */
static bool
link_accepts(const struct link *link, const struct message *message)
{
    return !link->full && (!message->in_turn || link->wanted);
}

/* Its message leaves no earlier than its receiver asked for it. Leaves the monitor for as long as the clock rises. */
static void
link_rise(struct task *me, struct link *link)
{
    uint64_t from = link->wanted_at;
    monitor_leave(me, &link->monitor);
    sched_advance_to(me, from);
    monitor_enter(me, &link->monitor);
}

static bool
link_put(struct task *me, const struct collective *call, struct link *link, struct message *message)
{
    if (!task_work(me, message->bytes / WORK_BYTES))
        return false;
    if (link->lost || message->fault.is_lost) {
        link_lose(me, link, &message->fault);
        return true;
    }
    monitor_enter(me, &link->monitor);
    while (!link_accepts(link, message))
        if (!link_await(me, call, link, link->to))
            return false;
    if (message->in_turn)
        link_rise(me, link);
    bool fits = link_room(me, link, message->bytes);
    if (fits) {
        if (message->bytes > 0)
            memcpy(link->data, message->data, message->bytes);
        link->bytes = message->bytes;
        link->flow  = message->flow;
        link->full  = true;
        link->again   = message->fault.is_doubled;
        link->late_ps = message->fault.delay_ps;
        transfer_begin(me, link->channel->local, link->wire, &link->monitor, message->bytes, &link->transfer);
        monitor_wake(me, &link->monitor);
    }
    monitor_leave(me, &link->monitor);
    return fits || memory_failed(me, message->bytes, "the host");
}

/* The sender waits until its message has arrived, whether it was taken or not. */
static bool
link_land(struct task *me, const struct collective *call, struct link *link)
{
    monitor_enter(me, &link->monitor);
    while (!link->transfer.landed)
        if (!link_await(me, call, link, link->to))
            return false;
    uint64_t arrival = link->transfer.arrival + link->late_ps;
    monitor_leave(me, &link->monitor);
    sched_advance_to(me, arrival);
    return true;
}

static void
link_ask(struct task *me, struct link *link)
{
    link->wanted    = true;
    link->wanted_at = sched_now(me);
    monitor_wake(me, &link->monitor);
}

bool
link_carry(struct task *me, struct link *link, const struct message *message)
{
    struct wait_reason reason = { .what = "send", .sequence = -1, .peer = link->receiver };
    struct transfer    transfer;
    bool               waits = true;
    if (!task_work(me, message->bytes / WORK_BYTES))
        return false;
    monitor_enter(me, &link->monitor);
    transfer_begin(me, link->channel->local, link->wire, &link->monitor, message->bytes, &transfer);
    while (!transfer.landed && waits)
        waits = monitor_wait(me, &link->monitor, &reason);
    if (!waits)
        transfer_cancel(me, &transfer);
    monitor_leave(me, &link->monitor);
    if (waits)
        sched_advance_to(me, transfer.arrival);
    return waits && (message->fault.delay_ps == 0 || sched_sleep(me, message->fault.delay_ps));
}

/* Twice in the monitor, because a clock may not move inside: first the arrival is known, then the data is taken. */
static bool
link_take(struct task *me, const struct collective *call, struct link *link, struct message *message,
          const struct reduction *reduction)
{
    monitor_enter(me, &link->monitor);
    if (message->in_turn && !link->full)
        link_ask(me, link);
    while (!link->full || !link->transfer.landed)
        if (!link_await(me, call, link, link->from))
            return false;
    uint64_t arrival = link->transfer.arrival + link->late_ps;
    monitor_leave(me, &link->monitor);
    sched_advance_to(me, arrival);

    monitor_enter(me, &link->monitor);
    size_t bytes = link->bytes;
    if (bytes == message->bytes && reduction != NULL && reduction->on)
        reduce_elements(reduction, message->data, link->data, bytes);
    else if (bytes == message->bytes && bytes > 0)
        memcpy(message->data, link->data, bytes);
    if (!link->again)
        link_forget(link);
    message->flow = link->flow;
    link->full    = link->again;
    link->again   = false;
    link->wanted  = false;
    monitor_wake(me, &link->monitor);
    monitor_leave(me, &link->monitor);
    return bytes == message->bytes || link_misfit(me, link, bytes, message->bytes);
}

void
link_free(struct task *me, struct link *link)
{
    if (link == NULL)
        return;
    transfer_cancel(me, &link->transfer);
    host_give(link->sched, link->data, link->room);
    monitor_destroy(&link->monitor);
    free(link);
}

/* What lies in the link's own memory may be read by whoever wants it. */
static void
link_withdraw(struct task *me, struct link *link)
{
    (void)me;
    (void)link;
}

static uint32_t
link_next_flow(struct task *me, const struct link *link)
{
    (void)link;
    return sched_next_flow(me);
}

const struct carrier carrier_wires = { link_put, link_land, link_take, link_withdraw, link_next_flow };

/* How threads hand messages over: there is no virtual time, so a message is where it lies and a flag that says so. Its
 * receiver reads it there, unless the sender goes on meanwhile: then it is copied into the link's own memory first.
 * Order of use: carrier_threads: put at one end, take at the other; land before the sender's memory changes. */
#include <string.h>
#include "c10d/local.h"
#include "c10d/spin.h"
#include "device/cells.h"
#include "device/device.h"
#include "sched/account.h"

/* The sender turns empty into full; the receiver full into taken, while it reads, and that into empty. */
enum { EMPTY, FULL, TAKEN };

static void
handover_set(struct task *me, struct link *link, unsigned state)
{
    atomic_store(&link->state, state);
    if (atomic_load(&link->asleep) > 0) {
        monitor_enter(me, &link->monitor);
        monitor_wake(me, &link->monitor);
        monitor_leave(me, &link->monitor);
    }
}

/* false: failed, since nobody will turn it into that any more. */
static bool
handover_await(struct task *me, const struct collective *call, struct link *link, unsigned state)
{
    int  peer = state == FULL ? link->from : link->to;
    bool ok   = true;
    if (spin_until(&link->state, true, state, link->channel->pauses))
        return true;
    monitor_enter(me, &link->monitor);
    atomic_fetch_add(&link->asleep, 1);
    while (atomic_load(&link->state) != state && ok)
        ok = link_await(me, call, link, peer);
    atomic_fetch_sub(&link->asleep, 1);
    if (ok)
        monitor_leave(me, &link->monitor);
    return ok;
}

static bool
handover_put(struct task *me, const struct collective *call, struct link *link, struct message *message)
{
    const struct fault_message *fault = &message->fault;
    if (!task_work(me, message->bytes / WORK_BYTES) || (fault->delay_ps > 0 && !sched_sleep(me, fault->delay_ps)))
        return false;
    if (link->lost || fault->is_lost) {
        link_lose(me, link, fault);
        return true;
    }
    if (!handover_await(me, call, link, EMPTY))
        return false;
    link->at      = message->data;
    link->again   = fault->is_doubled;
    link->shifted = link->shifted || link->again;
    link->copied  = (!message->in_place || link->shifted) && message->bytes > 0;
    if (link->copied) {
        if (!link_room(me, link, message->bytes))
            return memory_failed(me, message->bytes, "the host");
        memcpy(link->data, message->data, message->bytes);
        link->at = link->data;
    }
    link->bytes = message->bytes;
    link->flow  = message->flow;
    handover_set(me, link, FULL);
    return true;
}

/* Nobody may read it any more: who has begun ends soon. */
static void
handover_withdraw(struct task *me, struct link *link)
{
    (void)me;
    unsigned full = FULL;
    if (link->copied || atomic_compare_exchange_strong(&link->state, &full, EMPTY))
        return;
    while (!spin_until(&link->state, true, EMPTY, link->channel->pauses))
        ;
}

static bool
handover_land(struct task *me, const struct collective *call, struct link *link)
{
    if (link->copied || handover_await(me, call, link, EMPTY))
        return true;
    handover_withdraw(me, link);
    return false;
}

static bool
handover_take(struct task *me, const struct collective *call, struct link *link, struct message *message,
              const struct reduction *reduction)
{
    unsigned full;
    do {
        full = FULL;
        if (!handover_await(me, call, link, FULL))
            return false;
    } while (!atomic_compare_exchange_strong(&link->state, &full, TAKEN));
    size_t bytes = link->bytes;
    if (bytes == message->bytes && reduction != NULL && reduction->on)
        reduce_elements(reduction, message->data, link->at, bytes);
    else if (bytes == message->bytes && bytes > 0)
        memcpy(message->data, link->at, bytes);
    bool again    = link->again;
    message->flow = link->flow;
    link->again   = false;
    if (!again)
        link_forget(link);
    handover_set(me, link, again ? FULL : EMPTY);
    return bytes == message->bytes || link_misfit(me, link, bytes, message->bytes);
}

static uint32_t
handover_next_flow(struct task *me, const struct link *link)
{
    (void)link;
    return sched_next_flow(me);
}

const struct carrier carrier_threads = { handover_put, handover_land, handover_take, handover_withdraw,
                                         handover_next_flow };

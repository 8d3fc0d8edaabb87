/* Links between processes: a message is one of the transport's, sent from where it lies if that stays as it is until it
 * has landed, else out of the link's own memory. What is to be added comes into that memory first.
 * Order of use: carrier_remote: put at one end, take at the other; land before the sender's memory changes. */
#include <string.h>
#include "c10d/remote.h"
#include "device/cells.h"
#include "sched/account.h"

static enum remote_hope
work_hope(const void *work)
{
    return work_is_lost(work) ? NO_HOPE : work_has_lost_members(work) ? LITTLE_HOPE : HOPE;
}

static bool
say_work(struct task *me, const void *work)
{
    if (work_is_lost(work))
        return work_say_lost(me, (struct work *)(uintptr_t)work);
    return work_say_difference(me, work) ? false : work_say_ended(me, work);
}

static bool
work_differs(struct task *me, const void *work)
{
    return work_say_difference(me, work);
}

const struct remote_vain remote_work_vain = { work_hope, say_work, work_differs };

static void
begin_wait(struct task *me, const struct collective *call, struct link *link, int peer, struct remote_wait *wait)
{
    const struct wait_reason reason = work_reason(call->work, peer);
    remote_wait_begin(wait, me, link->channel, &reason);
    wait->vain = &remote_work_vain;
    wait->what = call->work;
}

/* The last message has gone. */
static bool
link_settle(struct task *me, const struct collective *call, struct link *link)
{
    struct transport_request *request = link->sending;
    if (request == NULL)
        return true;
    struct remote_wait wait;
    begin_wait(me, call, link, link->to, &wait);
    bool gone     = remote_await(&wait, request);
    link->sending = NULL;
    host_return(me, request, sizeof *request);
    return gone;
}

static bool
remote_put(struct task *me, const struct collective *call, struct link *link, struct message *message)
{
    const struct remote_channel *remote = link->channel->remote;
    const void                  *data   = message->data;
    if (!task_work(me, message->bytes / WORK_BYTES) || !link_settle(me, call, link))
        return false;
    if (!message->in_place && message->bytes > 0) {
        if (!link_room(me, link, message->bytes))
            return memory_failed(me, message->bytes, "the host");
        data = memcpy(link->data, message->data, message->bytes);
    }
    link->sending = host_take(me, sizeof *link->sending);
    if (link->sending == NULL)
        return false;
    link->messages++;
    if (remote->table->send(remote->own, link->to, REMOTE_LINK_TAG, data, message->bytes, link->sending))
        return true;
    struct remote_wait   wait;
    struct transport_why why = link->sending->why;
    begin_wait(me, call, link, link->to, &wait);
    host_return(me, link->sending, sizeof *link->sending);
    link->sending = NULL;
    return remote_failed(&wait, &why);
}

static bool
take_into(struct task *me, const struct collective *call, struct link *link, void *data, size_t bytes)
{
    const struct remote_channel *remote  = link->channel->remote;
    struct remote_wait           wait;
    struct transport_request     request = { .peer = link->from };
    begin_wait(me, call, link, link->from, &wait);
    if (!remote->table->recv(remote->own, link->from, REMOTE_LINK_TAG, data, bytes, &request))
        return remote_failed(&wait, &request.why);
    return remote_await(&wait, &request) && (request.bytes == bytes || link_misfit(me, link, request.bytes, bytes));
}

static bool
remote_take(struct task *me, const struct collective *call, struct link *link, struct message *message,
            const struct reduction *reduction)
{
    bool  adds = reduction != NULL && reduction->on && message->bytes > 0;
    void *data = message->data;
    if (adds && !link_room(me, link, message->bytes))
        return memory_failed(me, message->bytes, "the host");
    if (adds)
        data = link->data;
    message->flow = remote_flow(link->channel, link->from, link->to, link->messages);
    if (!take_into(me, call, link, data, message->bytes))
        return false;
    link->messages++;
    if (adds)
        reduce_elements(reduction, message->data, data, message->bytes);
    link_forget(link);
    return true;
}

static void
remote_withdraw(struct task *me, struct link *link)
{
    const struct remote_channel *remote = link->channel->remote;
    if (link->sending == NULL)
        return;
    remote->table->cancel(remote->own, link->sending);
    host_return(me, link->sending, sizeof *link->sending);
    link->sending = NULL;
}

static uint32_t
remote_next_flow(struct task *me, const struct link *link)
{
    (void)me;
    return remote_flow(link->channel, link->from, link->to, link->messages);
}

const struct carrier carrier_remote = { remote_put, link_settle, remote_take, remote_withdraw, remote_next_flow };

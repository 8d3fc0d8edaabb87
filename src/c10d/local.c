/* The `local` back-end: ranks are tasks of one process. This file is its table and what the ranks of a world share: the
 * links, made when first used. Its algorithms are in files of their own.
 * Order of use: local_open, per call one of the algorithms, local_close. */
#include <stdlib.h>
#include <string.h>
#include "c10d/local.h"
#include "c10d/spin.h"
#include "hw/cost.h"
#include "sched/stage.h"

/* Above so many ranks the hops are told only to who asks for them: a ring makes 2 N (N - 1). */
enum { WORLD_WITH_HOPS = 64 };

static void
local_tell_hops(struct sched *sched, bool on)
{
    stage_category(sched, KIND_comm_hop, on);
    stage_category(sched, KIND_comm_receive, on);
    stage_category(sched, KIND_comm_numbers, on);
}

void
local_close(struct task *me, void *transport)
{
    struct local *local = transport;
    if (local->hops_off)
        local_tell_hops(me->sched, true);
    free(local->nics);
    for (size_t i = 0; i < local->wires.count; i++)
        free((struct wire *)(uintptr_t)local->wires.entries[i].value);
    map_free(&local->wires);
    monitor_destroy(&local->monitor);
    free(local);
}

static void *
local_open(struct task *me, const struct world_options *options)
{
    struct local *local = calloc(1, sizeof *local);
    if (local != NULL)
        local->topology = sched_cost(me->sched)->topology;
    int nodes = local != NULL ? topology_nodes(&local->topology, options->size) : 0;
    if (local == NULL || (nodes > 1 && (local->nics = calloc(2 * (size_t)nodes, sizeof *local->nics)) == NULL) ||
        !monitor_init(&local->monitor)) {
        if (local != NULL)
            free(local->nics);
        free(local);
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    }
    local->size     = options->size;
    local->sched    = me->sched;
    local->by_messages = fault_has_messages(me->sched);
    local->one_gpu  = fused_is_possible(me);
    local->hops_off = options->size > WORLD_WITH_HOPS && !options->trace_hops && stage_enabled(me, KIND_comm_hop);
    if (local->hops_off)
        local_tell_hops(me->sched, false);
    return local;
}

static void
local_disconnect(struct task *me, void *channel_)
{
    struct channel  *channel = channel_;
    struct local    *local   = channel->local;
    monitor_enter(me, &local->monitor);
    struct channel **place = &local->channels;
    while (*place != channel)
        place = &(*place)->next;
    *place = channel->next;
    monitor_leave(me, &local->monitor);
    for (struct link *link = channel->first_link, *next; link != NULL; link = next) {
        next = link->next;
        link_free(me, link);
    }
    shared_free(channel->shared);
    for (struct inbox *inbox = channel->first_inbox, *next; inbox != NULL; inbox = next) {
        next = inbox->next;
        inbox_free(inbox);
    }
    map_free(&channel->inboxes);
    map_free(&channel->links);
    map_free(&channel->cheapest);
    monitor_destroy(&channel->monitor);
    free(channel);
}

static void *
local_connect(struct task *me, void *transport, const int *ranks, int size)
{
    struct local   *local   = transport;
    struct channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL || !monitor_init(&channel->monitor)) {
        free(channel);
        return failed_null(me, E_MEMORY, "out of memory for a group of %d ranks", size);
    }
    channel->local = local;
    channel->ranks = ranks;
    channel->size  = size;
    channel->pauses = spin_pauses(size);
    channel->carrier = sched_is_stepped(me->sched) ? &carrier_wires : &carrier_threads;
    monitor_enter(me, &local->monitor);
    channel->next   = local->channels;
    local->channels = channel;
    monitor_leave(me, &local->monitor);
    return channel;
}

static void
channel_wake(struct task *me, struct channel *channel)
{
    monitor_enter(me, &channel->monitor);
    for (struct link *link = channel->first_link; link != NULL; link = link->next) {
        monitor_enter(me, &link->monitor);
        monitor_wake(me, &link->monitor);
        monitor_leave(me, &link->monitor);
    }
    for (struct inbox *inbox = channel->first_inbox; inbox != NULL; inbox = inbox->next)
        inbox_wake(me, inbox);
    monitor_wake(me, &channel->monitor);
    monitor_leave(me, &channel->monitor);
}

/* Who waits for a message, a mate or a barrier looks again whether it can still come. */
void
local_wake(struct task *me, void *transport)
{
    struct local *local = transport;
    monitor_enter(me, &local->monitor);
    for (struct channel *channel = local->channels; channel != NULL; channel = channel->next)
        channel_wake(me, channel);
    monitor_leave(me, &local->monitor);
}

/* They share memory. */
static bool
local_meet(struct task *me, void *channel, const struct group_meeting *meeting)
{
    (void)channel;
    (void)meeting;
    return !task_failed(me);
}

bool
local_accepts(struct task *me, const struct collective *call)
{
    return call->operation != OPERATION_ALL_REDUCE || call->options.custom != NULL ||
           algorithm_chosen(me, call) != NULL;
}

const struct group_backend backend_local = {
    .abi        = GROUP_BACKEND_ABI,
    .name       = "local",
    .open       = local_open,
    .close      = local_close,
    .wake       = local_wake,
    .connect    = local_connect,
    .meet       = local_meet,
    .disconnect = local_disconnect,
    .accepts    = local_accepts,
    .stays      = local_stays,
    .has_algorithm = algorithm_is_built_in,
    .all_reduce = local_all_reduce,
    .broadcast  = local_broadcast,
    .reduce     = local_reduce,
    .all_gather = local_all_gather,
    .gather     = local_gather,
    .scatter    = local_scatter,
    .reduce_scatter = local_reduce_scatter,
    .all_to_all = local_all_to_all,
    .barrier    = local_barrier,
    .post       = local_post,
    .send       = local_send,
    .recv       = local_recv,
    .withdraw   = local_withdraw,
};

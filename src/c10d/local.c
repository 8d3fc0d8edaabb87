/* The `local` back-end: ranks are tasks of one process. This file is its table and what the ranks of a world share: the
 * links, made when first used. Its algorithms are ring.c, tree.c and post.c.
 * Order of use: local_open, per call one of the algorithms, local_close. */
#include <stdlib.h>
#include <string.h>
#include "c10d/local.h"
#include "sched/stage.h"

/* Above so many ranks the hops are told only to who asks for them: a ring makes 2 N (N - 1). */
enum { WORLD_WITH_HOPS = 64 };

static void
local_close(struct task *me, void *transport)
{
    struct local *local = transport;
    for (struct link *link = local->first_link, *next; link != NULL; link = next) {
        next = link->next;
        link_free(link);
    }
    if (local->hops_off)
        stage_category(me->sched, KIND_comm_hop, true);
    monitor_destroy(&local->monitor);
    free(local->links);
    free(local);
}

static void *
local_open(struct task *me, const struct world_options *options)
{
    size_t        size  = (size_t)options->size;
    struct local *local = calloc(1, sizeof *local);
    if (local == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    local->size  = options->size;
    local->sched = me->sched;
    local->links = calloc(size * size, sizeof *local->links);
    if (!monitor_init(&local->monitor) || local->links == NULL) {
        local_close(me, local);
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    }
    local->hops_off = options->size > WORLD_WITH_HOPS && !options->trace_hops && stage_enabled(me, KIND_comm_hop);
    if (local->hops_off)
        stage_category(me->sched, KIND_comm_hop, false);
    return local;
}

/* Who waits for a message, a mate or a barrier looks again whether it can still come. */
static void
local_wake(struct task *me, void *transport)
{
    struct local *local = transport;
    monitor_enter(me, &local->monitor);
    for (struct link *link = local->first_link; link != NULL; link = link->next) {
        monitor_enter(me, &link->monitor);
        monitor_wake(me, &link->monitor);
        monitor_leave(me, &link->monitor);
    }
    monitor_wake(me, &local->monitor);
    monitor_leave(me, &local->monitor);
}

static bool
local_accepts(struct task *me, const struct collective *call)
{
    const char *algorithm = call->options.algorithm;
    return algorithm == NULL || strcmp(algorithm, "ring") == 0 ||
           failed(me, E_VALUE, "unknown all-reduce algorithm '%s': there is ring", algorithm);
}

const struct group_backend backend_local = {
    .abi        = GROUP_BACKEND_ABI,
    .name       = "local",
    .open       = local_open,
    .close      = local_close,
    .wake       = local_wake,
    .accepts    = local_accepts,
    .all_reduce = local_all_reduce,
    .broadcast  = local_broadcast,
    .all_gather = local_all_gather,
    .barrier    = local_barrier,
    .post       = local_post,
    .send       = local_send,
    .recv       = local_recv,
    .withdraw   = local_withdraw,
};

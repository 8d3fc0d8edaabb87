/* The world: what the ranks of one spawn have in common. The spawner makes and frees it; a rank has a rank_context.
 * Order of use: world_new, per rank rank_context_set and process_group_rendezvous, world_rank_ended, world_free. */
#include <stdlib.h>
#include "c10d/internal.h"
#include "sched/stage.h"

enum { WORLD_MAX = 4096, WORLD_WITH_HOPS = 64 };

struct world *
world_new(struct task *me, const struct world_options *options)
{
    if (options->size < 1 || options->size > WORLD_MAX)
        return failed_null(me, E_VALUE, "a world has 1 to %d ranks, not %d", WORLD_MAX, options->size);
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    size_t size       = (size_t)options->size;
    world->size       = options->size;
    world->timeout_ps = options->timeout_ps;
    atomic_init(&world->ledger.broken_from, INT64_MAX);
    world->links      = calloc(size * size, sizeof *world->links);
    world->ranks      = calloc(size, sizeof *world->ranks);
    bool ready = monitor_init(&world->ledger.monitor) && world->links != NULL && world->ranks != NULL;
    if (ready)
        world->store = store_new(me, world);
    if (world->store == NULL) {
        world_free(me, world);
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    }
    world->hops_off = options->size > WORLD_WITH_HOPS && !options->trace_hops && stage_enabled(me, KIND_comm_hop);
    if (world->hops_off)
        stage_category(me->sched, KIND_comm_hop, false);
    return world;
}

void
world_free(struct task *me, struct world *world)
{
    if (world == NULL)
        return;
    /* A comm task that could not be joined still looks at all this: then it stays until the process ends. */
    bool all_joined = true;
    for (struct process_group *group = world->groups; group != NULL; group = group->next)
        all_joined = process_group_destroy(me, group) && all_joined;
    if (!all_joined)
        return;
    for (struct process_group *group = world->groups, *next; group != NULL; group = next) {
        next = group->next;
        group_free(me, group);
    }
    for (struct link *link = world->first_link, *next; link != NULL; link = next) {
        next = link->next;
        link_free(link);
    }
    if (world->hops_off)
        stage_category(me->sched, KIND_comm_hop, true);
    store_free(world->store);
    ledger_free(&world->ledger);
    free(world->links);
    free(world->ranks);
    free(world);
}

int
world_size(const struct world *world)
{
    return world->size;
}

struct store *
world_store(struct world *world)
{
    return world->store;
}

static struct link *
link_new(struct world *world, int from, int to)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL || !monitor_init(&link->monitor)) {
        free(link);
        return NULL;
    }
    link->from = from;
    link->to   = to;
    link->next = world->first_link;
    world->first_link = link;
    return link;
}

struct link *
world_link(struct task *me, struct world *world, int from, int to)
{
    struct link **place = &world->links[(size_t)from * (size_t)world->size + (size_t)to];
    monitor_enter(me, &world->ledger.monitor);
    if (*place == NULL)
        *place = link_new(world, from, to);
    struct link *link = *place;
    monitor_leave(me, &world->ledger.monitor);
    return link != NULL ? link : failed_null(me, E_MEMORY, "out of memory for the link %d -> %d", from, to);
}

/* Who waits for a message, a key or a barrier looks again whether it can still come. */
void
world_wake_all(struct task *me, struct world *world)
{
    monitor_enter(me, &world->ledger.monitor);
    for (struct link *link = world->first_link; link != NULL; link = link->next) {
        monitor_enter(me, &link->monitor);
        monitor_wake(me, &link->monitor);
        monitor_leave(me, &link->monitor);
    }
    monitor_wake(me, &world->ledger.monitor);
    monitor_leave(me, &world->ledger.monitor);
    store_wake(me, world->store);
}

/* The rank is over: its counters stand still from here on, so a wait for a later collective is in vain. */
void
world_rank_ended(struct task *me, struct world *world, int rank)
{
    if (rank < 0 || rank >= world->size || atomic_exchange(&world->ranks[rank].ended, true))
        return;
    atomic_fetch_add(&world->ended_count, 1);
    world_wake_all(me, world);
}

int
world_lost_rank(const struct world *world, int64_t sequence)
{
    if (atomic_load(&world->ended_count) == 0)
        return -1;
    for (int rank = 0; rank < world->size; rank++)
        if (atomic_load(&world->ranks[rank].ended) && atomic_load(&world->ranks[rank].issued) <= sequence)
            return rank;
    return -1;
}

struct rank_context *
rank_context(const struct task *me)
{
    return (struct rank_context *)(uintptr_t)me->slots[SLOT_RANK];
}

void
rank_context_set(struct task *me, struct rank_context *context)
{
    me->slots[SLOT_RANK] = (uintptr_t)context;
}

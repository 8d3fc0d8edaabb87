/* The world: what the ranks of one spawn have in common. The spawner makes and frees it; a rank has a rank_context.
 * Order of use: world_new, per rank rank_context_set and process_group_rendezvous, world_rank_ended, world_free. */
#include <stdlib.h>
#include "c10d/internal.h"
#include "sched/faults.h"

enum { WORLD_MAX = 4096 };

struct world *
world_new(struct task *me, const struct world_options *options)
{
    if (sched_has_faults(me->sched))
        fault_new_world(me->sched);
    if (options->size < 1 || options->size > WORLD_MAX)
        return failed_null(me, E_VALUE, "a world has 1 to %d ranks, not %d", WORLD_MAX, options->size);
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    world->size       = options->size;
    world->timeout_ps = options->timeout_ps;
    world->check      = options->check;
    world->backend    = options->backend != NULL ? options->backend : &backend_local;
    world->ranks = calloc((size_t)options->size, sizeof *world->ranks);
    bool ready   = monitor_init(&world->monitor) && world->ranks != NULL;
    if (ready)
        world->store = store_hash_new(me, world);
    hang_watch(me->sched, world);
    if (world->store != NULL)
        world->transport = world->backend->open(me, options);
    if (world->transport == NULL) {
        world_free(me, world);
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    }
    return world;
}

static void
world_free_groups(struct task *me, struct world *world)
{
    for (struct process_group *group = world->groups, *next; group != NULL; group = next) {
        next = group->next;
        group_free(me, group);
    }
    for (struct communicator *communicator = world->communicators, *next; communicator != NULL; communicator = next) {
        next = communicator->next;
        communicator_free(me, communicator);
    }
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
    world_free_groups(me, world);
    if (world->transport != NULL)
        world->backend->close(me, world->transport);
    if (world->store != NULL)
        store_hash_leave_world(world->store);
    store_drop(me, world->store);
    hang_unwatch(world);
    monitor_destroy(&world->monitor);
    free(world->ranks);
    free(world);
}

struct store *
world_store(struct world *world)
{
    return world->store;
}

struct check_ranks *
world_check(const struct world *world)
{
    return world->check;
}

/* Who is who in a group: ranks of the group and of the world, how far each has come, who has ended. Questions only: no
 * function here waits or fails. PyTorch: get_global_rank, get_group_rank, get_process_group_ranks. */
#include "c10d/internal.h"

int
communicator_rank_of(const struct communicator *communicator, int global)
{
    if (global >= 0 && global < communicator->size && communicator->ranks[global] == global)
        return global;
    for (int i = 0; i < communicator->size; i++)
        if (communicator->ranks[i] == global)
            return i;
    return -1;
}

int
communicator_lost_rank(const struct communicator *communicator, int64_t sequence)
{
    if (atomic_load(&communicator->world->ended_count) == 0)
        return -1;
    for (int i = 0; i < communicator->size; i++)
        if (world_rank_has_ended(communicator->world, communicator->ranks[i]) &&
            atomic_load(&communicator->issued[i]) <= sequence)
            return communicator->ranks[i];
    return -1;
}

int
process_group_rank(const struct process_group *group)
{
    return group->rank;
}

int
process_group_size(const struct process_group *group)
{
    return group->communicator->size;
}

int
process_group_number(const struct process_group *group)
{
    return group->communicator->number;
}

bool
process_group_is_gone(const struct process_group *group)
{
    return group->is_gone;
}

bool
process_group_runs_on(const struct process_group *group, const struct task *me)
{
    return me == group->comm;
}

struct world *
process_group_world(const struct process_group *group)
{
    return group->world;
}

int
process_group_global_rank(const struct process_group *group, int rank)
{
    return rank < 0 || rank >= group->communicator->size ? -1 : group->communicator->ranks[rank];
}

int
process_group_group_rank(const struct process_group *group, int global)
{
    return communicator_rank_of(group->communicator, global);
}

int64_t
process_group_sequence(const struct process_group *group)
{
    return atomic_load(&group->communicator->issued[group->rank]);
}

void
process_group_set_timeout(struct process_group *group, uint64_t timeout_ps)
{
    atomic_store(&group->timeout_ps, timeout_ps);
}

uint64_t
process_group_timeout(const struct process_group *group)
{
    return atomic_load(&group->timeout_ps);
}

const int *
process_group_ranks(const struct process_group *group)
{
    return group->communicator->ranks;
}

const char *
process_group_backend(const struct process_group *group)
{
    return group->world->backend->name;
}

int
world_outside_ranks(const struct world *world, int rank, const int **ranks)
{
    const struct communicator *outside = world->ranks[rank].outside;
    *ranks = outside != NULL ? outside->ranks : NULL;
    return outside != NULL ? outside->size : 0;
}

bool
group_rank_has_ended(const struct process_group *group, int rank)
{
    return world_rank_has_ended(group->world, group->communicator->ranks[rank]);
}

uint64_t
group_timeout_ps(const struct process_group *group)
{
    return process_group_timeout(group);
}

bool
group_rank_was_killed(const struct process_group *group, int rank)
{
    return rank >= 0 && world_rank_was_killed(group->world, group->communicator->ranks[rank]);
}

/* The ranks of a world, as the others see them: who has ended, and who waits for that rank in vain. What a rank's task
 * knows of itself is its rank_context. PyTorch: torchrun's agent, which ends all ranks when one has failed. */
#include "c10d/internal.h"
#include "sched/faults.h"

int
world_size(const struct world *world)
{
    return world->size;
}

bool
world_rank_has_ended(const struct world *world, int rank)
{
    return atomic_load(&world->ranks[rank].ended);
}

/* Who waits for a message, a barrier, a key or a rank in new_group looks again whether it can still come. */
void
world_wake_all(struct task *me, struct world *world)
{
    world->backend->wake(me, world->transport);
    store_hash_wake(me, world->store);
    monitor_enter(me, &world->monitor);
    monitor_wake(me, &world->monitor);
    monitor_leave(me, &world->monitor);
}

/* The rank is over: its counters stand still from here on, so a wait for a later collective is in vain. */
void
world_rank_ended(struct task *me, struct world *world, int rank)
{
    if (rank < 0 || rank >= world->size)
        return;
    if (me->rank == rank && task_is_killed(me))
        atomic_store(&world->ranks[rank].killed, true);
    if (atomic_exchange(&world->ranks[rank].ended, true))
        return;
    atomic_fetch_add(&world->ended_count, 1);
    world_wake_all(me, world);
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

/* Vector clocks. Absent ticks are zero; arrays only grow. */
#include "sched/happens.h"
#include <stdlib.h>
#include <string.h>

static bool
clock_room(struct vclock *clock, uint32_t count)
{
    if (clock->count >= count)
        return true;
    uint32_t *ticks = realloc(clock->ticks, count * sizeof *ticks);
    if (ticks == NULL)
        return false;
    memset(ticks + clock->count, 0, (count - clock->count) * sizeof *ticks);
    clock->ticks = ticks;
    clock->count = count;
    return true;
}

bool
vclock_join(struct vclock *into, const struct vclock *from)
{
    if (!clock_room(into, from->count))
        return false;
    for (uint32_t i = 0; i < from->count; i++)
        if (from->ticks[i] > into->ticks[i])
            into->ticks[i] = from->ticks[i];
    return true;
}

bool
vclock_copy(struct vclock *into, const struct vclock *from)
{
    if (into->count > 0)
        memset(into->ticks, 0, into->count * sizeof *into->ticks);
    return vclock_join(into, from);
}

void
vclock_free(struct vclock *clock)
{
    free(clock->ticks);
    *clock = (struct vclock){ 0 };
}

bool
actor_tick(struct actor *actor)
{
    if (!actor->on)
        return true;
    if (!clock_room(&actor->knows, actor->index + 1))
        return false;
    actor->knows.ticks[actor->index]++;
    return true;
}

struct epoch
actor_epoch(const struct actor *actor)
{
    uint32_t tick = actor->index < actor->knows.count ? actor->knows.ticks[actor->index] : 0;
    return (struct epoch){ actor->index, tick };
}

bool
actor_knows(const struct actor *actor, struct epoch epoch)
{
    return epoch.index < actor->knows.count && actor->knows.ticks[epoch.index] >= epoch.tick;
}

/* Vector clocks. Absent ticks are zero; arrays only grow. A clock has no pointer to itself: it may be moved. */
#include "sched/happens.h"
#include <stdlib.h>
#include <string.h>

static uint32_t *
ticks_of(struct vclock *clock)
{
    return clock->many != NULL ? clock->many : clock->few;
}

static uint32_t
tick_at(const struct vclock *clock, uint32_t index)
{
    const uint32_t *ticks = clock->many != NULL ? clock->many : clock->few;
    return index < clock->count ? ticks[index] : 0;
}

static bool
clock_room(struct vclock *clock, uint32_t count)
{
    if (clock->count >= count)
        return true;
    if (count > VCLOCK_FEW) {
        uint32_t *many = realloc(clock->many, count * sizeof *many);
        if (many == NULL)
            return false;
        if (clock->many == NULL)
            memcpy(many, clock->few, clock->count * sizeof *many);
        clock->many = many;
    }
    memset(ticks_of(clock) + clock->count, 0, (count - clock->count) * sizeof(uint32_t));
    clock->count = count;
    return true;
}

bool
vclock_join(struct vclock *into, const struct vclock *from)
{
    if (!clock_room(into, from->count))
        return false;
    uint32_t *ticks = ticks_of(into);
    for (uint32_t i = 0; i < from->count; i++)
        if (tick_at(from, i) > ticks[i])
            ticks[i] = tick_at(from, i);
    return true;
}

bool
vclock_copy(struct vclock *into, const struct vclock *from)
{
    if (into->count > 0)
        memset(ticks_of(into), 0, into->count * sizeof(uint32_t));
    return vclock_join(into, from);
}

void
vclock_free(struct vclock *clock)
{
    free(clock->many);
    *clock = (struct vclock){ 0 };
}

bool
actor_tick(struct actor *actor)
{
    if (!actor->on)
        return true;
    if (!clock_room(&actor->knows, actor->index + 1))
        return false;
    ticks_of(&actor->knows)[actor->index]++;
    return true;
}

struct epoch
actor_epoch(const struct actor *actor)
{
    return (struct epoch){ actor->index, tick_at(&actor->knows, actor->index) };
}

bool
actor_knows(const struct actor *actor, struct epoch epoch)
{
    return epoch.index < actor->knows.count && tick_at(&actor->knows, epoch.index) >= epoch.tick;
}

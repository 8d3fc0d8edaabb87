/* Happens-before: who knows of what. Every task and stream is an actor with a vector clock; an access is ordered
 * after another when the later actor's clock covers the earlier one's tick. No timing is involved. */
#ifndef SCHED_HAPPENS_H
#define SCHED_HAPPENS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VCLOCK_FEW = 30 };
/* Absent ticks are 0. A short clock lies in `few`: most runs have few actors (DataParallel on four
 * devices 17), and a monitor is made each backward. */
struct vclock { uint32_t *many; uint32_t count, few[VCLOCK_FEW]; };

struct actor {
    bool          on;      /* false: checking is off, everything below is unused */
    uint32_t      index;
    struct vclock knows;   /* its tick at `index` is its own */
};

struct epoch { uint32_t index, tick; };                       /* one access of one actor */

bool vclock_join(struct vclock *into, const struct vclock *from); /* false: no memory */
bool vclock_copy(struct vclock *into, const struct vclock *from);
void vclock_free(struct vclock *clock);

/* Later accesses of `actor` get a new tick: call after handing its knowledge to somebody. */
bool         actor_tick(struct actor *actor);
struct epoch actor_epoch(const struct actor *actor);
bool         actor_knows(const struct actor *actor, struct epoch epoch); /* ordered before what actor does now */
#endif

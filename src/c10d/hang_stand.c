/* What a job asks of its worlds: what this process's rank is in, for how long, and whether all ranks stand still.
 *
 * Interface: hang_write_own, hang_own_wait, hang_stands, on the watcher's task (job_stand.c, job_flight.c). */
#include <string.h>
#include "base/map.h"
#include "base/vec.h"
#include "c10d/internal.h"
#include "flight/dump.h"

bool
hang_write_own(struct task *me, const struct world *world, struct str *out)
{
    struct flight flight = { .why = FLIGHT_DUMPED };
    hang_fill(me->sched, (struct world *)(uintptr_t)world, false, &flight);
    bool told = !flight.broken && world->here >= 0 && flight_write_json(&flight, world->here, out);
    flight_free(&flight);
    return told && str_ok(out);
}

/* A wait that ends by itself, or by what is no rank's. */
static bool
may_end(const struct flight_rank *rank)
{
    static const char *const words[] = { "sleep", "store.wait", "store.connect", "store.wait_for_workers" };
    for (size_t i = 0; i < countof(words); i++)
        if (rank->waits_in != NULL && strcmp(rank->waits_in, words[i]) == 0)
            return true;
    return rank->waits_in == NULL;
}

uint64_t
hang_own_wait(struct task *me, struct world *world)
{
    struct flight flight = { .why = FLIGHT_DUMPED };
    uint64_t      since  = 0;
    flight_size(&flight, world->size);
    hang_add_groups(world, &flight);
    if (!flight.broken && world->here >= 0) {
        hang_look_at_ranks(me->sched, world, &flight);
        const struct flight_rank *own = &flight.ranks[world->here];
        since = own->now == FLIGHT_WAITING && !may_end(own) ? own->since_ps : 0;
    }
    flight_free(&flight);
    return since;
}

static bool
all_wait(const struct flight *flight, uint64_t *state)
{
    *state = 0;
    for (int i = 0; i < flight->rank_count; i++) {
        const struct flight_rank *rank = &flight->ranks[i];
        const int64_t words[] = { rank->now, rank->line, rank->sequence, rank->peer, rank->tag, (int64_t)rank->count };
        bool over = rank->now == FLIGHT_RETURNED || rank->now == FLIGHT_THREW || rank->now == FLIGHT_KILLED;
        if (!over && (rank->now != FLIGHT_WAITING || may_end(rank)))
            return false;
        *state = hash_bytes(*state, words, sizeof words);
    }
    return true;
}

static bool
is_mismatch(enum hang_cause cause)
{
    return cause == HANG_ORDER || cause == HANG_OPERATION || cause == HANG_SHAPE || cause == HANG_DTYPE ||
           cause == HANG_ROOT || cause == HANG_REDUCE_OP || cause == HANG_DETAILS;
}

/* A transport may fail where sizes differ, before anybody has compared them. */
bool
work_say_difference(struct task *me, const struct work *work)
{
    struct flight flight = { .why = FLIGHT_MISMATCH };
    struct str    report = { 0 };
    struct hang   hang   = { .cause = HANG_NONE };
    hang_fill(me->sched, work->group->world, false, &flight);
    hang_complete(work->group->world, &flight);
    if (!flight.broken)
        flight_diagnose(&flight, &hang);
    bool differs = is_mismatch(hang.cause) && hang_tell(&flight, &report);
    if (differs)
        (void)failed(me, E_MISMATCH, "%s", str_text(&report));
    flight_free(&flight);
    str_free(&report);
    return differs;
}

bool
hang_stands(struct task *me, struct world *world, struct standstill *found, struct str *report)
{
    struct flight flight = { .why = FLIGHT_DEADLOCK };
    struct hang   hang   = { .cause = HANG_NONE };
    hang_fill(me->sched, world, false, &flight);
    hang_complete(world, &flight);
    bool stands = !flight.broken && all_wait(&flight, &found->state);
    if (stands)
        flight_diagnose(&flight, &hang);
    bool sure = stands && hang.cause != HANG_NONE && hang.cause != HANG_UNKNOWN && hang.cause != HANG_LATE &&
                hang.cause != HANG_OUTSIDE && hang.cause != HANG_ABSENT && hang.cause != HANG_UNSET_KEY;
    found->kind = is_mismatch(hang.cause) ? E_MISMATCH : E_DEADLOCK;
    sure = sure && hang_tell(&flight, report);
    flight_free(&flight);
    return sure;
}

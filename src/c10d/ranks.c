/* The ranks of a world, as the others see them: who has ended, and who waits for that rank in vain. What a rank's task
 * knows of itself is its rank_context. PyTorch: torchrun's agent, which ends all ranks when one has failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/internal.h"
#include "c10d/job.h"
#include "sched/account.h"
#include "sched/faults.h"

int
world_size(const struct world *world)
{
    return world->size;
}

/* Who waits for a message, a barrier, a key or a rank in new_group looks again whether it can still come. */
void
world_wake_all(struct task *me, struct world *world)
{
    if (world->transport != NULL)
        world->backend->wake(me, world->transport);
    if (world->job == NULL)
        store_hash_wake(me, world->store);
    monitor_enter(me, &world->monitor);
    monitor_wake(me, &world->monitor);
    monitor_leave(me, &world->monitor);
}

/* The rank is over: its counters stand still from here on, so a wait for a later collective is in vain. */
static struct rank_end
rank_end_of(const struct task *me)
{
    const struct error *error = &me->error;
    struct rank_end     end   = { .now = FLIGHT_RETURNED };
    if (!task_failed(me))
        return end;
    bool cut_off = error->kind == E_BUDGET && account_exhausted(me->sched); /* it would be there still */
    end.now  = task_is_killed(me) ? FLIGHT_KILLED : cut_off ? FLIGHT_RUNNING : FLIGHT_THREW;
    end.line = error->lesson_line;
    if (end.now == FLIGHT_THREW)
        snprintf(end.why, sizeof end.why, "%.*s", (int)strcspn(error->message, "\n"), error->message);
    return end;
}

static void
note_ended(struct task *me, struct world *world, int rank)
{
    atomic_store(&world->ranks[rank].ended, true);
    if (world->ranks[rank].end.now != FLIGHT_RETURNED) {
        uint64_t never = 0;
        atomic_compare_exchange_strong(&world->failed_at, &never, sched_time(me->sched) + 1);
    }
    atomic_fetch_add(&world->ended_count, 1);
    world_wake_all(me, world);
}

/* Of a job's rank, what the other processes have to know. */
static void
tell_job(struct task *me, struct world *world)
{
    struct str calls = { 0 };
    bool       told  = world->in_job.kind->write_own(me, world, &calls);
    job_say_end(me, world->job, world->in_job.number, &me->error, told ? &calls : NULL);
    str_free(&calls);
}

void
world_rank_ended(struct task *me, struct world *world, int rank)
{
    if (rank < 0 || rank >= world->size || !world_has_rank(world, rank) || world_rank_has_ended(world, rank))
        return;
    world->ranks[rank].end = rank_end_of(me);
    if (world->job != NULL)
        tell_job(me, world);
    note_ended(me, world, rank);
}

/* The first one counts: it stands for all that follow. */
void
world_end_waits(struct task *me, struct world *world, enum error_kind kind, const char *report)
{
    struct error *made = calloc(1, sizeof *made), *none = NULL;
    if (made == NULL)
        return; /* their time-outs are left */
    made->kind = kind;
    snprintf(made->message, sizeof made->message, "%s", report);
    if (!atomic_compare_exchange_strong(&world->standstill, &none, made)) {
        free(made);
        return;
    }
    sched_announce_deadlock(me, world->size, report);
    world_wake_all(me, world);
}

bool
world_say_standstill(struct task *me, const struct world *world)
{
    const struct error *why = atomic_load(&world->standstill);
    return failed(me, why->kind, "%s", why->message);
}

/* How far it had come in the groups that are known here: of one that did not return, what was over. */
static void
take_progress(struct world *world, const struct job_end *end)
{
    for (struct communicator *at = atomic_load(&world->communicators); at != NULL; at = at->next) {
        int rank = communicator_rank_of(at, end->rank);
        for (uint32_t i = 0; rank >= 0 && i < end->group_count; i++)
            if (end->groups[i].id == at->id) {
                atomic_store(&at->issued[rank], end->how == JOB_RETURNED ? end->groups[i].issued : end->groups[i].over);
                atomic_store(&at->through[rank], end->groups[i].over);
            }
    }
}

void
world_rank_gone(struct task *me, struct world *world, const struct job_end *end)
{
    static const enum flight_now now[] = { [JOB_RETURNED] = FLIGHT_RETURNED, [JOB_THREW] = FLIGHT_THREW,
                                           [JOB_KILLED] = FLIGHT_KILLED, [JOB_LOST] = FLIGHT_KILLED };
    int rank = end->rank;
    if (rank < 0 || rank >= world->size || world_has_rank(world, rank) || world_rank_has_ended(world, rank))
        return;
    const char      *between = end->inside ? " in " : " after ";
    struct rank_end *own     = &world->ranks[rank].end;
    own->now  = now[end->how];
    own->line = end->line;
    if (end->how == JOB_KILLED || end->how == JOB_LOST)
        snprintf(own->why, sizeof own->why, "%s%s%s", end->why, end->call[0] == '\0' ? "" : between, end->call);
    else
        snprintf(own->why, sizeof own->why, "%.*s", (int)strcspn(end->why, "\n"), end->why);
    take_progress(world, end);
    note_ended(me, world, rank);
}

void
world_rank_told(struct task *me)
{
    const struct rank_context *context = rank_context(me);
    if (context != NULL && context->world != NULL)
        atomic_store(&context->world->ranks[context->rank].told, true);
}

bool
world_await_ends(struct task *me, struct world *world, uint64_t grace_ps)
{
    struct wait_reason reason = { .what = "join", .sequence = -1, .peer = -1, .join = true };
    bool waits = true;
    monitor_enter(me, &world->monitor);
    while (waits && atomic_load(&world->ended_count) < world->size) {
        uint64_t failed_at = atomic_load(&world->failed_at);
        reason.until = failed_at > 0 ? failed_at + grace_ps : 0;
        waits = (failed_at == 0 || sched_time(me->sched) < reason.until) && monitor_wait(me, &world->monitor, &reason);
    }
    bool all = atomic_load(&world->ended_count) == world->size;
    monitor_leave(me, &world->monitor);
    return all;
}

void
world_say_failure(const struct world *world, struct str *out)
{
    int rank = 0;
    while (rank < world->size && (!world_rank_has_ended(world, rank) || world->ranks[rank].end.now == FLIGHT_RETURNED))
        rank++;
    if (rank < world->size)
        str_addf(out, "rank %d: %s", rank, world->ranks[rank].end.why);
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

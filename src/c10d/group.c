/* Process groups: how ranks meet, and the comm task that runs each rank's collectives in the order of their calls.
 * Order of use: process_group_rendezvous, the group_* calls, process_group_destroy. PyTorch: dist.init_process_group,
 * c10d::ProcessGroupGloo, whose worker threads our comm task stands for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/internal.h"
#include "device/cells.h"
#include "device/stream.h"
#include "sched/stage.h"
#include "trace/format.h"

/* ---- the comm task ---- */

static struct work *
comm_next(struct task *me, struct process_group *group)
{
    struct wait_reason reason = { .what = "collectives", .sequence = -1, .peer = -1, .idle = true };
    monitor_enter(me, &group->monitor);
    while (group->busy || (group->first == NULL && !group->stopping))
        if (!monitor_wait(me, &group->monitor, &reason))
            break;
    struct work *work = group->first;
    if (work != NULL) {
        group->first = work->next;
        group->last  = group->first != NULL ? group->last : NULL;
        work->next   = NULL;
        group->busy  = true;
    }
    group->is_deaf = work == NULL;
    monitor_leave(me, &group->monitor);
    return work;
}

/* Serves until the group is destroyed; what is queued by then is still done. */
static bool
comm_serve(struct task *me, void *group)
{
    struct work *work;
    me->is_carrier = true;
    while ((work = comm_next(me, group)) != NULL) {
        size_t mark = scope_mark(me);
        work_run(me, work);
        scope_release(me, mark);
    }
    return !task_failed(me);
}

/* ---- meeting and parting ---- */

static bool
rendezvous_allowed(struct task *me, struct world *world, int rank)
{
    if (task_failed(me))
        return false;
    if (rank < 0 || rank >= world->size)
        return failed(me, E_VALUE, "rank %d is outside the world of %d ranks", rank, world->size);
    bool twice = false;
    monitor_enter(me, &world->monitor);
    for (struct process_group *group = world->groups; group != NULL; group = group->next)
        twice = twice || (group->global_rank == rank && group->communicator->parent == NULL && !group->is_gone);
    monitor_leave(me, &world->monitor);
    return !twice || failed(me, E_VALUE, "init_process_group was called twice: call destroy_process_group first");
}

static struct process_group *
group_new(struct task *me, struct communicator *communicator, int global_rank, uint64_t timeout_ps)
{
    struct world         *world = communicator->world;
    struct process_group *group = calloc(1, sizeof *group);
    struct claim_line    *line  = claim_line_new();
    if (group == NULL || line == NULL || !recorder_init(&group->recorder, world->size) ||
        !monitor_init(&group->monitor)) {
        if (group != NULL)
            recorder_free(&group->recorder);
        free(group);
        claim_line_unref(line);
        return failed_null(me, E_MEMORY, "out of memory for a process group");
    }
    group->line         = line;
    group->world        = world;
    group->communicator = communicator;
    group->rank         = communicator_rank_of(communicator, global_rank);
    group->global_rank  = global_rank;
    atomic_store(&group->timeout_ps, timeout_ps);
    char name[48];
    int  length = snprintf(name, sizeof name, "r%d comm", global_rank);
    if (communicator->parent != NULL)
        snprintf(name + length, sizeof name - (size_t)length, " %d", communicator->number);
    struct task_options options = { .name = name, .rank = global_rank, .device = TASK_INHERIT, .lua = true,
                                    .idle_ok = true, .lane_kind = LANE_COMM };
    group->comm = task_spawn(me, &options, comm_serve, group);
    if (group->comm == NULL) {
        monitor_destroy(&group->monitor);
        recorder_free(&group->recorder);
        claim_line_unref(line);
        free(group);
        return NULL;
    }
    monitor_enter(me, &world->monitor);
    group->next   = world->groups;
    world->groups = group;
    monitor_leave(me, &world->monitor);
    return group;
}

/* The back-end's part of a meeting; of members alone. */
static bool
members_meet(struct task *me, const struct communicator *communicator, int global_rank, uint64_t timeout_ps)
{
    const struct world        *world   = communicator->world;
    const struct group_meeting meeting = { .id = communicator->id,
                                           .rank = communicator_rank_of(communicator, global_rank),
                                           .what = communicator->what,
                                           .timeout_ps = timeout_ps,
                                           .store = world->job != NULL ? world->store : NULL,
                                           .communicator = communicator };
    return meeting.rank < 0 || world->backend->meet(me, communicator->channel, &meeting);
}

/* Everybody says in the store that he is here; the last one to come opens the door. */
static bool
rendezvous_meet(struct task *me, struct world *world, int rank, int generation)
{
    char here[64], count[64], ready[64];
    snprintf(here, sizeof here, "default_pg/%d/rank %d", generation, rank);
    snprintf(count, sizeof count, "default_pg/%d/ranks", generation);
    snprintf(ready, sizeof ready, "default_pg/%d/ready", generation);
    if (!store_set(me, world->store, here, "1", 1))
        return false;
    int64_t ranks = store_add(me, world->store, count, 1);
    if (task_failed(me) || (ranks == world->size && !store_set(me, world->store, ready, "1", 1)))
        return false;
    atomic_store(&world->ranks[rank].joined, generation + 1);
    const char *door = ready;
    return store_wait(me, world->store, &door, 1, STORE_TIMEOUT);
}

/* What a lesson has given may be let go as soon as the ranks have met in the world's own store, too. */
static bool
rendezvous_given(struct task *me, const struct world *world, int generation, struct store *store)
{
    char key[64];
    snprintf(key, sizeof key, "default_pg/%d/given", generation);
    return store == NULL || store_barrier(me, store, key, world->size, STORE_TIMEOUT);
}

/* All ranks have come, and the back-end has connected them. NULL: failed. */
static struct communicator *
meet_all(struct task *me, struct world *world, int rank, int generation)
{
    if (world->job == NULL && !rendezvous_meet(me, world, rank, generation))
        return NULL;
    struct communicator *common = communicator_default(me, world, generation);
    if (common == NULL || (world->job != NULL && !communicator_meet(me, common, rank, world->timeout_ps)))
        return NULL;
    return members_meet(me, common, rank, world->timeout_ps) ? common : NULL;
}

/* dist.init_process_group: returns when all ranks have called it. The rank's collectives get a task of their own. */
struct process_group *
process_group_rendezvous_at(struct task *me, struct world *world, int rank,
                            struct store *store)
{
    STAGE(me, c10d_rendezvous, rank, world->size);
    if (!rendezvous_allowed(me, world, rank))
        return NULL;
    int generation = world->ranks[rank].generation++;
    if (!rendezvous_given(me, world, generation, store))
        return NULL;
    struct communicator *common = meet_all(me, world, rank, generation);
    if (common == NULL)
        return NULL;
    struct process_group *group   = group_new(me, common, rank, world->timeout_ps);
    struct rank_context  *context = rank_context(me);
    bool is_mine = context != NULL && context->world == world && context->rank == rank;
    if (group != NULL && is_mine)
        context->group = group;
    return group;
}

struct process_group *
process_group_rendezvous(struct task *me, struct world *world, int rank)
{
    return process_group_rendezvous_at(me, world, rank, NULL);
}

static int
compare_ranks(const void *a, const void *b)
{
    int first = *(const int *)a, second = *(const int *)b;
    return (first > second) - (first < second);
}

/* Checks the list and, if asked for, sorts a copy that lives as long as me's scope. */
static bool
settle_ranks(struct task *me, const struct process_group *parent, struct group_options *options)
{
    const struct communicator *above = parent->communicator;
    const char                *what  = options->what;
    if (options->ranks == NULL) {
        options->ranks = above->ranks;
        options->count = above->size;
        return true;
    }
    if (options->count < 1)
        return failed(me, E_VALUE, "%s needs at least one rank", what);
    int *ranks = scratch_new(me, (size_t)options->count, sizeof *ranks);
    if (ranks == NULL)
        return false;
    memcpy(ranks, options->ranks, (size_t)options->count * sizeof *ranks);
    qsort(ranks, (size_t)options->count, sizeof *ranks, compare_ranks);
    for (int i = 0; i < options->count; i++) {
        if (communicator_rank_of(above, ranks[i]) < 0)
            return failed(me, E_VALUE, "%s: rank %d is outside the world of %d, which has ranks 0 to %d", what,
                          ranks[i], parent->world->size, parent->world->size - 1);
        if (i > 0 && ranks[i] == ranks[i - 1])
            return failed(me, E_VALUE, "%s: rank %d is listed twice", what, ranks[i]);
    }
    if (options->sort_ranks)
        options->ranks = ranks;
    return true;
}

static bool
is_listed(const struct group_options *options, int rank)
{
    bool listed = options->ranks == NULL;
    for (int i = 0; i < options->count && !listed; i++)
        listed = options->ranks[i] == rank;
    return listed;
}

/* dist.new_group: the members meet here and get a comm task for it. Who is no member counts the call and goes on. */
bool
process_group_new(struct task *me, struct process_group *parent,
                  const struct group_options *given, struct process_group **group)
{
    struct group_options options = *given;
    int                  rank    = parent->global_rank;
    STAGE(me, c10d_new_group, parent->calls, options.count);
    *group       = NULL;
    options.what = given->what != NULL ? given->what : "new_group";
    if (task_failed(me) || (given->local_sync && !is_listed(given, rank)))
        return !task_failed(me);
    if (!settle_ranks(me, parent, &options))
        return false;
    struct communicator *common = communicator_enter(me, parent, &options);
    if (common == NULL || !communicator_meet(me, common, rank, options.timeout_ps))
        return false;
    if (communicator_rank_of(common, rank) < 0) {
        parent->world->ranks[rank].outside = common;
        return true;
    }
    if (members_meet(me, common, rank, options.timeout_ps))
        *group = group_new(me, common, rank, options.timeout_ps);
    return *group != NULL;
}

static bool
end_group(struct task *me, struct process_group *group)
{
    if (group->comm == NULL)
        return true;
    monitor_enter(me, &group->monitor);
    group->stopping = true;
    atomic_store(&group->is_gone, true);
    monitor_wake(me, &group->monitor);
    monitor_leave(me, &group->monitor);
    works_left_join(me, group, true);
    struct error of_comm = { .line = -1 };   /* overwritten when the task was joined */
    task_join(me, group->comm, &of_comm);
    if (of_comm.line != -1)
        group->comm = NULL;
    if (group->comm == NULL)
        claim_line_waited(group->line, INT64_MAX);
    return group->comm == NULL;
}

/* The next of this rank's other living groups of the same generation, the last one first; NULL: none. */
static struct process_group *
next_beside(struct task *me, const struct process_group *group, const struct process_group *after)
{
    struct world *world = group->world;
    monitor_enter(me, &world->monitor);
    struct process_group *at = after != NULL ? after->next : world->groups;
    while (at != NULL && (at->global_rank != group->global_rank || at->comm == NULL || at == group ||
                          at->communicator->generation != group->communicator->generation))
        at = at->next;
    monitor_leave(me, &world->monitor);
    return at;
}

/* Not by what a comm task runs, which would wait for its own end. */
static bool
may_destroy(struct task *me, const struct process_group *group)
{
    bool inside = process_group_runs_on(group, me);
    if (group->communicator->parent == NULL)
        for (struct process_group *at = NULL; !inside && (at = next_beside(me, group, at)) != NULL;)
            inside = process_group_runs_on(at, me);
    return !inside || failed(me, E_RUNTIME, "destroy_process_group inside of one of the group's own collectives would "
                                            "wait for itself");
}

/* The memory stays until world_free: works and reducers may still point here. The rank context forgets the group at
 * the end: an algorithm of the rank's own may still ask for it. */
bool
process_group_destroy(struct task *me, struct process_group *group)
{
    if (group == NULL || group->comm == NULL)
        return true;
    if (!may_destroy(me, group))
        return false;
    struct rank_context *context = rank_context(me);
    bool ended = true;
    if (group->communicator->parent == NULL)
        for (struct process_group *at = NULL; (at = next_beside(me, group, at)) != NULL;)
            ended = end_group(me, at) && ended;
    ended = end_group(me, group) && ended;
    if (context != NULL && context->group == group)
        context->group = NULL;
    return ended;
}

/* A run that is stopped may leave collectives that were issued when the comm task had ended. */
void
group_free(struct task *me, struct process_group *group)
{
    while (group->first != NULL) {
        struct work *queued = group->first;
        group->first = queued->next;
        work_discard(me, queued);
    }
    for (struct work *work = group->spare, *next; work != NULL; work = next) {
        next = work->next;
        if (work->event != NULL)
            event_free(me, work->event);
        free(work);
    }
    monitor_destroy(&group->monitor);
    recorder_free(&group->recorder);
    claim_line_unref(group->line);
    free(group);
}

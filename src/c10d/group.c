/* Process groups: how ranks meet, and the comm task that runs each rank's collectives in the order of their calls.
 * Order of use: process_group_rendezvous, the group_* calls, process_group_destroy. PyTorch: dist.init_process_group,
 * c10d::ProcessGroupGloo, whose worker threads our comm task stands for. */
#include <stdio.h>
#include <stdlib.h>
#include "c10d/internal.h"
#include "device/stream.h"
#include "sched/stage.h"
#include "trace/format.h"

/* ---- the comm task ---- */

static struct work *
comm_next(struct task *me, struct process_group *group)
{
    struct wait_reason reason = { .what = "collectives", .sequence = -1, .peer = -1, .idle = true };
    monitor_enter(me, &group->monitor);
    while (group->first == NULL && !group->stopping)
        if (!monitor_wait(me, &group->monitor, &reason))
            break;
    struct work *work = group->first;
    if (work != NULL) {
        group->first = work->next;
        group->last  = group->first != NULL ? group->last : NULL;
        work->next   = NULL;
    }
    monitor_leave(me, &group->monitor);
    return work;
}

/* Serves until the group is destroyed; what is queued by then is still done. */
static bool
comm_serve(struct task *me, void *group)
{
    struct work *work;
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
    monitor_enter(me, &world->ledger.monitor);
    for (struct process_group *group = world->groups; group != NULL; group = group->next)
        twice = twice || (group->rank == rank && !group->is_gone);
    monitor_leave(me, &world->ledger.monitor);
    return !twice || failed(me, E_RUNTIME, "init_process_group was called twice: call destroy_process_group first");
}

static struct process_group *
group_new(struct task *me, struct world *world, int rank)
{
    struct process_group *group = calloc(1, sizeof *group);
    if (group == NULL || !monitor_init(&group->monitor)) {
        free(group);
        return failed_null(me, E_MEMORY, "out of memory for a process group");
    }
    group->world = world;
    group->rank  = rank;
    char name[32];
    snprintf(name, sizeof name, "r%d comm", rank);
    struct task_options options = { .name = name, .rank = rank, .device = TASK_INHERIT, .idle_ok = true,
                                    .lane_kind = LANE_COMM };
    group->comm = task_spawn(me, &options, comm_serve, group);
    if (group->comm == NULL) {
        monitor_destroy(&group->monitor);
        free(group);
        return NULL;
    }
    monitor_enter(me, &world->ledger.monitor);
    group->next   = world->groups;
    world->groups = group;
    monitor_leave(me, &world->ledger.monitor);
    return group;
}

/* Everybody says in the store that he is here; the last one to come opens the door. */
static bool
rendezvous_meet(struct task *me, struct world *world, int rank)
{
    char here[64], count[64], ready[64];
    int  generation = world->ranks[rank].generation++;
    snprintf(here, sizeof here, "default_pg/%d/rank %d", generation, rank);
    snprintf(count, sizeof count, "default_pg/%d/ranks", generation);
    snprintf(ready, sizeof ready, "default_pg/%d/ready", generation);
    atomic_store(&world->ranks[rank].joined, true);
    if (!store_set(me, world->store, here, "1", 1))
        return false;
    int64_t ranks = store_add(me, world->store, count, 1);
    if (task_failed(me) || (ranks == world->size && !store_set(me, world->store, ready, "1", 1)))
        return false;
    const char *door = ready;
    return store_wait(me, world->store, &door, 1, STORE_TIMEOUT);
}

/* dist.init_process_group: returns when all ranks have called it. The rank's collectives get a task of their own. */
struct process_group *
process_group_rendezvous(struct task *me, struct world *world, int rank)
{
    STAGE(me, c10d_rendezvous, rank, world->size);
    if (!rendezvous_allowed(me, world, rank) || !rendezvous_meet(me, world, rank))
        return NULL;
    struct process_group *group   = group_new(me, world, rank);
    struct rank_context  *context = rank_context(me);
    bool is_mine = context != NULL && context->world == world && context->rank == rank;
    if (group != NULL && is_mine)
        context->group = group;
    return group;
}

/* The memory stays until world_free: works and reducers may still point here. */
bool
process_group_destroy(struct task *me, struct process_group *group)
{
    if (group == NULL || group->comm == NULL)
        return true;
    struct rank_context *context = rank_context(me);
    if (context != NULL && context->group == group)
        context->group = NULL;
    monitor_enter(me, &group->monitor);
    group->stopping = group->is_gone = true;
    monitor_wake(me, &group->monitor);
    monitor_leave(me, &group->monitor);
    struct error of_comm = { .line = -1 };   /* overwritten when the task was joined */
    task_join(me, group->comm, &of_comm);
    if (of_comm.line != -1)
        group->comm = NULL;
    return group->comm == NULL;
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
    free(group);
}

int
process_group_rank(const struct process_group *group)
{
    return group->rank;
}

int
process_group_size(const struct process_group *group)
{
    return group->world->size;
}

/* ---- collectives: checked here, on the rank that calls; numbered and compared by work_issue ---- */

static struct work *
group_issue(struct task *me, struct work *work)
{
    if (work == NULL)
        return NULL;
    struct tensor *tensor = work->call.tensor;
    bool ready = work->group->world->backend->accepts(me, &work->call) &&
                 (tensor == NULL || work_tensor_ready(me, tensor, &work->event, &work->on_device));
    if (ready && tensor != NULL && tensor->dtype == DTYPE_BOOL)
        ready = failed(me, E_DTYPE, "%s does not take bool tensors", operation_name(work->call.operation));
    if (ready && work_issue(me, work))
        return work;
    work_discard(me, work);
    return NULL;
}

struct work *
group_all_reduce(struct task *me, struct process_group *group, struct tensor *tensor,
                 const struct collective_options *options)
{
    struct collective_options plain = { .op = REDUCE_SUM };
    if (options == NULL)
        options = &plain;
    if ((int)options->op < REDUCE_SUM || options->op > REDUCE_MAX)
        return failed_null(me, E_VALUE, "unknown reduce operation %d", (int)options->op);
    struct work *work = tensor != NULL ? work_new(me, group, OPERATION_ALL_REDUCE, tensor) : NULL;
    if (work != NULL)
        work->call.options = *options;
    return group_issue(me, work);
}

struct work *
group_broadcast(struct task *me, struct process_group *group, struct tensor *tensor, int root)
{
    if (root < 0 || root >= group->world->size)
        return failed_null(me, E_VALUE, "broadcast from rank %d: the world has %d ranks", root, group->world->size);
    struct work *work = tensor != NULL ? work_new(me, group, OPERATION_BROADCAST, tensor) : NULL;
    if (work != NULL)
        work->call.options.root = root;
    return group_issue(me, work);
}

struct work *
group_all_gather(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input)
{
    int size = group->world->size;
    for (int i = 0; input != NULL && i < size; i++) {
        const struct tensor *output = outputs[i];
        if (output == NULL)
            return NULL;
        if (output->dtype != input->dtype || !tensor_same_shape(output, input) || !tensor_is_contiguous(output) ||
            tensor_device(output) != tensor_device(input))
            return failed_null(me, E_SHAPE, "allgather: output %d must have the input's shape, dtype and device and be "
                                            "contiguous", i);
    }
    struct work *work = input != NULL ? work_new(me, group, OPERATION_ALL_GATHER, input) : NULL;
    if (work == NULL)
        return NULL;
    struct tensor **kept = work->call.outputs = calloc((size_t)size, sizeof *kept);
    if (kept == NULL) {
        work_discard(me, work);
        return failed_null(me, E_MEMORY, "out of memory for allgather");
    }
    for (int i = 0; i < size; i++)
        kept[i] = tensor_ref(outputs[i]);
    return group_issue(me, work);
}

struct work *
group_barrier(struct task *me, struct process_group *group)
{
    return group_issue(me, work_new(me, group, OPERATION_BARRIER, NULL));
}

/* ---- issue, wait, free ---- */

static bool
work_now(struct task *me, struct work *work)
{
    if (work == NULL)
        return false;
    bool done = work_wait(me, work);
    work_free(me, work);
    return done;
}

bool
group_all_reduce_now(struct task *me, struct process_group *group, struct tensor *tensor,
                     const struct collective_options *options)
{
    return work_now(me, group_all_reduce(me, group, tensor, options));
}

bool
group_broadcast_now(struct task *me, struct process_group *group, struct tensor *tensor, int root)
{
    return work_now(me, group_broadcast(me, group, tensor, root));
}

bool
group_all_gather_now(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input)
{
    return work_now(me, group_all_gather(me, group, outputs, input));
}

bool
group_barrier_now(struct task *me, struct process_group *group)
{
    return work_now(me, group_barrier(me, group));
}

/* The world: what the ranks of one spawn have in common. The spawner makes and frees it; a rank has a rank_context.
 * Order of use: world_new, per rank rank_context_set and process_group_rendezvous, world_rank_ended, world_free. */
#include <stdio.h>
#include <stdlib.h>
#include "c10d/internal.h"
#include "c10d/job.h"
#include "c10d/nccl.h"
#include "c10d/remote.h"
#include "c10d/url.h"
#include "sched/faults.h"

enum { WORLD_MAX = 4096 };

static bool
has_first_rank(const struct world *world)
{
    for (int rank = 0; rank < world->here; rank++)
        if (!world_rank_has_ended(world, rank))
            return false;
    return world->here >= 0;
}

static const struct job_world_kind in_job = {
    .gone = world_rank_gone, .is_first = has_first_rank, .write_own = hang_write_own, .own_wait = hang_own_wait,
    .stands = hang_stands, .end_waits = world_end_waits,
};

/* Its store is a part of the job's, with a connection of its own, since who waits there keeps others waiting. */
static void
join_job(struct task *me, struct world *world, struct job *job)
{
    char          prefix[32];
    struct store *store = store_clone(me, job_store(job));
    world->job    = job;
    world->in_job.kind     = &in_job;
    world->in_job.world    = world;
    world->in_job.has_rank = world->here >= 0;
    snprintf(prefix, sizeof prefix, "world/%d", world->in_job.number);
    if (store != NULL)
        world->store = store_prefix_new(me, prefix, store);
    store_drop(me, store);
}

static const struct group_backend *
backend_for(struct task *me, struct world *world, const struct world_options *options)
{
    const struct group_backend *nccl = nccl_backend(me, options);
    if (nccl != NULL)
        return nccl;
    if (options->job == NULL || options->size < 2)
        return options->backend != NULL ? options->backend : &backend_local;
    world->own_backend      = backend_remote;
    world->own_backend.name = job_backend(options->job);
    return &world->own_backend;
}

/* As PyTorch's _is_barrier_after_init. */
static bool
read_init_barrier(struct task *me, struct world *world)
{
    const char *text   = getenv("TORCH_DIST_INIT_BARRIER");
    int64_t     number = 0;
    bool        right  = text == NULL || url_number(text, &number);
    world->init_barrier = number == 1;
    return right || failed(me, E_VALUE, "TORCH_DIST_INIT_BARRIER is '%.60s': it must be a whole number, 1 for a "
                                        "barrier at the end of new_group", text);
}

static struct world *
make_world(struct task *me, const struct world_options *options, int number)
{
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    world->in_job.number = number;
    world->size       = options->size;
    world->here       = options->job != NULL && job_rank(options->job) < options->size ? job_rank(options->job) : -1;
    world->timeout_ps = options->timeout_ps;
    world->check      = options->check;
    world->backend    = backend_for(me, world, options);
    world->ranks = calloc((size_t)options->size, sizeof *world->ranks);
    bool ready   = monitor_init(&world->monitor) && world->ranks != NULL && read_init_barrier(me, world);
    if (ready && options->job != NULL)
        join_job(me, world, options->job);
    else if (ready)
        world->store = store_hash_new(me, world);
    hang_watch(me->sched, world);
    if (world->store != NULL)
        world->transport = world->backend->open(me, options);
    if (world->transport == NULL) {
        world_free(me, world);
        return task_failed(me) ? NULL
                               : failed_null(me, E_MEMORY, "out of memory for a world of %d ranks", options->size);
    }
    if (world->job != NULL) /* it is whole: the watcher may look at it */
        job_add_world(me, world->job, &world->in_job);
    return world;
}

/* In a job all processes count it. One that cannot make it says so to the others, whose ranks wait for its own. */
struct world *
world_new(struct task *me, const struct world_options *options)
{
    if (sched_has_faults(me->sched))
        fault_new_world(me->sched);
    if (options->size < 1 || options->size > WORLD_MAX)
        return failed_null(me, E_VALUE, "a world has 1 to %d ranks, not %d", WORLD_MAX, options->size);
    int           number = options->job != NULL ? job_number_world(me, options->job) : -1;
    struct world *world  = make_world(me, options, number);
    if (world == NULL && options->job != NULL && job_rank(options->job) < options->size)
        job_say_end(me, options->job, number, &me->error, NULL);
    return world;
}

int
world_number(const struct world *world)
{
    return world->job != NULL ? world->in_job.number : -1;
}

struct job *
world_job(const struct world *world)
{
    return world->job;
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
    if (world->job != NULL) /* from here on its log tells this world nothing */
        job_remove_world(me, world->job, &world->in_job);
    hang_unwatch(world); /* nor does who stops the run ask it */
    world_free_groups(me, world);
    if (world->transport != NULL)
        world->backend->close(me, world->transport);
    if (world->store != NULL && world->job == NULL)
        store_hash_leave_world(world->store);
    store_drop(me, world->store);
    monitor_destroy(&world->monitor);
    free(world->standstill);
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

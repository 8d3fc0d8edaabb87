/* A world of ranks for bench: task 0 spawns a task for each, as a lesson's dist.spawn does, and joins them.
 *
 * Interface: bench_world_run, bench_keep_core. */
#include "cli/bench_world.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "c10d/group.h"
#include "c10d/local.h"
#include "cli/message.h"
#include "device/device.h"
#include "hw/cost.h"
#include "tensor/blas.h"

struct bench_rank { struct bench_world *world; int rank; struct task *task; };

static bool
bench_rank_main(struct task *me, void *argument)
{
    struct bench_rank   *one     = argument;
    struct bench_world  *all     = one->world;
    struct rank_context  context = { .world = all->world, .rank = one->rank };
    rank_context_set(me, &context);
    struct process_group *group = process_group_rendezvous(me, all->world, one->rank);
    bool                  ok    = group != NULL && all->body(me, group, all->context);
    world_rank_ended(me, all->world, one->rank);
    return process_group_destroy(me, group) && ok;
}

static bool
bench_world_main(struct task *me, void *argument)
{
    struct bench_world  *all     = argument;
    struct world_options options = { .size = all->size };
    struct bench_rank   *ranks   = calloc((size_t)all->size, sizeof *ranks);
    all->world = ranks != NULL ? world_new(me, &options) : NULL;
    bool ok = all->world != NULL && devices_ready(me, 0);
    for (int rank = 0; rank < all->size && ok; rank++) {
        char name[32];
        snprintf(name, sizeof name, "r%d main", rank);
        struct task_options of_task = { .name = name, .rank = rank, .device = DEVICE_CPU };
        ranks[rank] = (struct bench_rank){ .world = all, .rank = rank };
        ranks[rank].task = task_spawn(me, &of_task, bench_rank_main, &ranks[rank]);
        ok = ranks[rank].task != NULL;
    }
    for (int rank = 0; rank < all->size && ranks != NULL && ranks[rank].task != NULL; rank++)
        ok = task_join(me, ranks[rank].task, NULL) && ok;
    if (all->world != NULL)
        world_free(me, all->world);
    free(ranks);
    return ok;
}

bool
bench_world_run(struct bench_world *all, enum executor_kind executor)
{
    char              why[300];
    struct cost_model cost;
    struct error      error;
    cost_preset(&cost, "classroom");
    struct sched_options options = { .executor = executor, .cost = &cost, .no_race_check = true };
    struct sched        *sched   = sched_new(&options, why, sizeof why);
    if (sched != NULL)
        blas_use(sched, all->blas);
    bool ok = sched != NULL && sched_run(sched, bench_world_main, all, &error);
    if (!ok)
        message(0, "bench: %s", sched == NULL ? why : error.message);
    if (sched != NULL) {
        devices_free(sched);
        sched_free(sched);
    }
    return ok;
}

void
bench_keep_core(int rank, int ranks)
{
    cpu_set_t cores;
    if (ranks > (int)sysconf(_SC_NPROCESSORS_ONLN))
        return;
    CPU_ZERO(&cores);
    CPU_SET(rank, &cores);
    (void)pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

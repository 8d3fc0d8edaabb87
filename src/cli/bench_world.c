/* A world of ranks for bench: task 0 spawns a task for each, as a lesson's dist.spawn does, and joins them.
 *
 * In a job the process's own task is its rank.
 *
 * Interface: bench_world_run, bench_tell, bench_keep_core. */
#include "cli/bench_world.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "c10d/group.h"
#include "c10d/job.h"
#include "c10d/local.h"
#include "cli/bench.h"
#include "cli/message.h"
#include "device/device.h"
#include "device/load.h"
#include "hw/cost.h"
#include "tensor/blas.h"
#include "tensor/tensor.h"

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
    bool ok = all->world != NULL && (all->backend == NULL || devices_use(me, all->backend)) &&
              devices_ready(me, all->backend != NULL ? all->size : 0);
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

/* What is wrong stays in the task, whose run ends with it. */
static bool
bench_world_in_job(struct task *me, struct bench_world *all)
{
    struct world_options options = { .size = all->size, .job = all->job->job };
    all->world = world_new(me, &options);
    struct bench_rank one = { .world = all, .rank = job_rank(all->job->job), .task = me };
    bool ok = all->world != NULL && bench_rank_main(me, &one);
    rank_context_set(me, NULL);
    world_free(me, all->world);
    return ok;
}

bool
bench_world_run(struct bench_world *all, enum executor_kind executor)
{
    char              why[300];
    struct cost_model cost;
    struct error      error;
    if (all->job != NULL)
        return bench_world_in_job(all->job->me, all);
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

bool
bench_tell(struct task *me, struct process_group *group, const double *mine, int count, double *all)
{
    int64_t sizes[2] = { count, (int64_t)count * process_group_size(group) };
    size_t  mark     = scope_mark(me);
    if (world_job(process_group_world(group)) == NULL)
        return true;
    struct tensor *own = tensor_empty(me, DTYPE_F64, DEVICE_CPU, 1, &sizes[0]);
    struct tensor *of_all = own != NULL ? tensor_empty(me, DTYPE_F64, DEVICE_CPU, 1, &sizes[1]) : NULL;
    if (of_all != NULL)
        memcpy(tensor_elements(own), mine, (size_t)tensor_bytes(own));
    bool ok = of_all != NULL && group_all_gather_into_tensor_now(me, group, of_all, own);
    if (ok)
        memcpy(all, tensor_elements(of_all), (size_t)tensor_bytes(of_all));
    scope_release(me, mark);
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

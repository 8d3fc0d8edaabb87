/* A world of the lesson's own script: alone it is the only rank, so that a program written for ranks runs without
 * them; its collectives go the same way as everybody's. As a PyTorch process with RANK=0 and WORLD_SIZE=1. In a job
 * of several processes the scripts of all of them are its ranks, as under torchrun.
 *
 * Interface: lone_rank_new in init_process_group, lone_rank_free when the script ends. */
#include <stdio.h>
#include <stdlib.h>
#include "c10d/job.h"
#include "device/device.h"
#include "lua/lesson.h"
#include "lua/rank.h"
#include "lua/share.h"
#include "lua/spawn.h"
#include "lua/trace_job.h"

/* From here on the process is a rank as a whole. false: failed. */
static bool
become_rank(struct task *me, struct script *script, struct job *job)
{
    struct share *share  = share_of(me, script, job);
    int           device = job_local_rank(job);
    task_becomes_rank(me, job_rank(job), device >= 0 && device < device_count(me) ? device : DEVICE_CPU);
    if (lesson_of(me) != NULL)
        lesson_becomes_rank(lesson_of(me));
    return share != NULL && trace_job_tell(me, script, share);
}

struct rank *
lone_rank_new(lua_State *L, struct task *me, enum debug_level level)
{
    struct script       *script  = script_of(L);
    struct job          *job     = share_job(me);
    struct world_options options = { .size = job != NULL ? job_size(job) : 1, .job = job };
    if (job != NULL)
        job_note_call(job, &(struct job_call){
                               .sequence = -1, .operation = "init_process_group", .line = me->line, .inside = true });
    if (job != NULL && lesson_of(me) != NULL)
        lesson_set_prints(lesson_of(me), PRINTS_SHOWN); /* before the wait for the others, which may be long */
    if (job != NULL && !job_join(me, job))
        return NULL;
    struct rank *rank = calloc(1, sizeof *rank);
    if (rank == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a process group");
    rank->context.world = world_new(me, &options);
    if (rank->context.world == NULL) {
        free(rank);
        return NULL;
    }
    rank->context.rank        = job != NULL ? job_rank(job) : 0;
    rank->context.debug_level = level;
    rank->script = script;
    rank->task   = me;
    snprintf(rank->name, sizeof rank->name, "r%d main", rank->context.rank);
    rank_context_set(me, &rank->context);
    script->parts[SCRIPT_DISTRIBUTED] = script->lone = rank;
    return job == NULL || become_rank(me, script, job) ? rank : NULL;
}

/* The others, who may wait for it, learn so before it waits for them: its groups end when what is queued has. */
void
script_is_over(struct task *me, const struct script *script)
{
    const struct rank *rank = script->lone;
    if (rank != NULL && share_job(me) != NULL)
        world_rank_ended(me, rank->context.world, rank->context.rank);
}

void
lone_rank_free(struct task *me, struct rank *rank)
{
    if (rank == NULL)
        return;
    if (share_job(me) != NULL)
        world_rank_ended(me, rank->context.world, rank->context.rank);
    if (rank_context(me) == &rank->context)
        rank_context_set(me, NULL);
    world_free(me, rank->context.world);
    free(rank);
}

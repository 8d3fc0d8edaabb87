/* A job that stands still: where every rank waits, and none for what could still come, the run is over, and all are told
 * why at once instead of after their time-outs. One process looks: that of the lowest rank that lives, whenever its own
 * rank has waited for a while; twice, so that nobody was just on his way. What it finds goes into the job's log, and every
 * process ends with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/internal.h"
#include "c10d/job_internal.h"
#include "c10d/store.h"

#define SECOND_PS UINT64_C(1000000000000)
#define STOP_WORD "stop "
enum { WAITED_S = 2 };

/* ---- told ---- */

bool
job_is_stop(const char *entry)
{
    return strncmp(entry, STOP_WORD, strlen(STOP_WORD)) == 0;
}

/* "stop 0\nREPORT": 1 where calls differ. */
void
job_stop(struct task *me, const char *entry)
{
    const char *report = strchr(entry, '\n');
    if (report != NULL)
        sched_stop(me->sched, entry[strlen(STOP_WORD)] == '1' ? E_MISMATCH : E_DEADLOCK, report + 1);
}

static bool
tell(struct task *me, struct job *job, const struct standstill *found, const struct str *report)
{
    struct str text = { 0 };
    str_addf(&text, STOP_WORD "%d\n%s", found->kind == E_MISMATCH, str_text(report));
    struct store_text entry = { str_text(&text), text.len };
    bool ok = str_ok(&text) && store_post(me, job->watched, JOB_LOG, &entry);
    str_free(&text);
    return ok;
}

/* ---- found ---- */

/* The newest world in which this process has the lowest rank that lives; NULL: it is for another to look. */
static struct world *
world_to_look_at(const struct job *job)
{
    struct world *world = job->worlds;
    while (world != NULL && world->here < 0)
        world = world->next_in_job;
    for (int rank = 0; world != NULL && rank < world->here; rank++)
        if (!world_rank_has_ended(world, rank))
            return NULL;
    return world;
}

/* In the monitor, so that the world stays. false: it does not stand still, or not for certain. */
static bool
look(struct task *me, struct job *job, struct standstill *found, struct str *report)
{
    struct world *world = world_to_look_at(job);
    return world != NULL && hang_own_wait(me->sched, world) >= WAITED_S * SECOND_PS &&
           hang_of_job(me->sched, world, found, report);
}

bool
job_look_for_standstill(struct task *me, struct job *job)
{
    struct standstill found  = { .state = 0 };
    struct str        report = { 0 };
    uint64_t          now    = sched_now(me);
    if (now < job->next_look || job->options.size < 2)
        return true;
    job->next_look = now + SECOND_PS / 2;
    monitor_enter(me, &job->monitor);
    bool stands = look(me, job, &found, &report);
    monitor_leave(me, &job->monitor);
    bool again = stands && found.state == job->stood;
    job->stood = stands ? found.state : 0;
    bool ok    = !again || tell(me, job, &found, &report);
    str_free(&report);
    return ok;
}

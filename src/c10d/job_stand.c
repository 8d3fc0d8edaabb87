/* A job that stands still: where every rank waits, and none for what could still come, all their waits fail, and
 * say why at once instead of after their time-outs. One process looks: that of the lowest rank that lives,
 * whenever its own rank has waited for a while; twice, so that nobody was just on his way. What it finds goes into
 * the job's log, and every process ends with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "c10d/job_internal.h"
#include "c10d/store.h"

#define SECOND_PS UINT64_C(1000000000000)
#define STOP_WORD "stop "   /* "stop WORLD 0\nREPORT"; 1 where calls differ */
enum { WAITED_S = 2 };

/* ---- told ---- */

bool
job_is_stop(const char *entry)
{
    return strncmp(entry, STOP_WORD, strlen(STOP_WORD)) == 0;
}

void
job_stop(struct task *me, struct job *job, const char *entry)
{
    const char *report = strchr(entry, '\n');
    int         number = -1, differ = 0;
    if (report == NULL || sscanf(entry, STOP_WORD "%d %d", &number, &differ) != 2)
        return;
    monitor_enter(me, &job->monitor);
    for (struct job_world *world = job->worlds; world != NULL; world = world->next)
        if (world->number == number)
            world->kind->end_waits(me, world->world, differ != 0 ? E_MISMATCH : E_DEADLOCK, report + 1);
    monitor_leave(me, &job->monitor);
}

static bool
tell(struct task *me, struct job *job, const struct standstill *found, const struct str *report)
{
    struct str text = { 0 };
    str_addf(&text, STOP_WORD "%d %d\n%s", found->world, found->kind == E_MISMATCH, str_text(report));
    struct store_text entry = { str_text(&text), text.len };
    bool ok = str_ok(&text) && store_post(me, job->watched, JOB_LOG, &entry);
    str_free(&text);
    return ok;
}

/* ---- found ---- */

/* In the monitor, so that the world stays: the newest one in which this process has the lowest rank that lives;
 * else it is for another to look. false: it does not stand still, or not for certain. */
static bool
look(struct task *me, struct job *job, struct standstill *found, struct str *report)
{
    const struct job_world *world = job->worlds;
    while (world != NULL && !world->has_rank)
        world = world->next;
    if (world != NULL)
        found->world = world->number;
    return world != NULL && world->kind->is_first(world->world) &&
           world->kind->own_wait(me, world->world) >= WAITED_S * SECOND_PS &&
           world->kind->stands(me, world->world, found, report);
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

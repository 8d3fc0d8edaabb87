/* Says in words who waits for whom: the text of a deadlock or a timeout. One sentence a task, leaves first told. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "sched/internal.h"
#include "sched/stage.h"

static void
name_task(const struct task *task, struct str *out)
{
    if (task->rank >= 0)
        str_addf(out, "rank %d", task->rank);
    else
        str_addf(out, "%s", task->name);
}

static void
explain_wait(const struct task *task, const struct wait_reason *reason, struct str *out)
{
    name_task(task, out);
    str_addf(out, " waits in %s", reason->what);
    if (reason->sequence >= 0)
        str_addf(out, " #%" PRId64, reason->sequence);
    int peer = wait_reason_peer(reason);
    if (peer >= 0)
        str_addf(out, " for rank %d", peer);
    if (reason->holder != NULL) {
        str_add(out, " for ");
        name_task(reason->holder, out);
        if (reason->holder->rank >= 0 || task->rank >= 0)
            str_addf(out, " (%s)", reason->holder->name);
    }
    if (task_line(task) > 0)
        str_addf(out, " (line %u)", (unsigned)task_line(task));
    if (reason->detail != NULL)
        str_addf(out, ", %s", reason->detail);
}

/* ---- circles ---- */

static bool
waits_for_rank(const struct task *task)
{
    const struct wait_reason *reason = task->waiting;
    return task->rank >= 0 && reason != NULL && !reason->idle && !reason->join && reason->peer >= 0;
}

/* By rank: the rank that it waits for, -1: none; of several tasks of a rank the first counts. NULL: nobody waits, or no
 * memory. */
static int *
awaited_ranks(const struct sched *sched, int *count)
{
    *count = 0;
    for (const struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        const struct task *task = &machine->task;
        if (waits_for_rank(task) && task->rank >= *count)
            *count = task->rank + 1;
        if (waits_for_rank(task) && task->waiting->peer >= *count)
            *count = task->waiting->peer + 1;
    }
    int *awaits = *count > 0 ? malloc((size_t)*count * sizeof *awaits) : NULL;
    for (int rank = 0; awaits != NULL && rank < *count; rank++)
        awaits[rank] = -1;
    for (const struct machine *machine = sched->first; awaits != NULL && machine != NULL; machine = machine->next)
        if (waits_for_rank(&machine->task) && awaits[machine->task.rank] < 0)
            awaits[machine->task.rank] = machine->task.waiting->peer;
    return awaits;
}

/* The first circle: each of its ranks waits for the next. */
static void
explain_circle(struct sched *sched, struct str *out)
{
    int  count, at = -1;
    int *awaits = awaited_ranks(sched, &count), *seen = calloc((size_t)count + 1, sizeof *seen);
    for (int first = 0; awaits != NULL && seen != NULL && first < count && at < 0; first++) {
        for (at = first; at >= 0 && seen[at] == 0; at = awaits[at])
            seen[at] = first + 1;
        if (at >= 0 && seen[at] != first + 1)
            at = -1;
    }
    if (at >= 0) {
        for (int next = awaits[at], met = at; next != met; next = awaits[next])
            at = next < at ? next : at;
        int next = at;
        str_addf(out, ". They wait in a circle: %d", at);
        do
            str_addf(out, " -> %d", next = awaits[next]);
        while (next != at);
    }
    free(awaits);
    free(seen);
}

static void
explain_waits(struct sched *sched, struct str *out)
{
    int told = 0;
    pthread_mutex_lock(&sched->registry);
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        const struct wait_reason *reason = machine->task.waiting;
        if (reason == NULL || reason->idle || reason->join)
            continue;
        str_add(out, told++ > 0 ? "; " : "");
        explain_wait(&machine->task, reason, out);
    }
    if (told == 0)
        str_add(out, "tasks wait for each other's end");
    explain_circle(sched, out);
    pthread_mutex_unlock(&sched->registry);
}

const struct explainer *
sched_set_explainer(struct sched *sched, const struct explainer *explainer)
{
    pthread_rwlock_wrlock(&sched->explaining);
    const struct explainer *before = sched->explainer;
    sched->explainer = explainer;
    pthread_rwlock_unlock(&sched->explaining);
    return before;
}

void
sched_explain(struct sched *sched, const struct stop *stop, struct str *out)
{
    pthread_rwlock_rdlock(&sched->explaining);
    const struct explainer *explainer = sched->explainer;
    bool told = explainer != NULL && explainer->explain(explainer->context, stop, out);
    pthread_rwlock_unlock(&sched->explaining);
    if (told)
        return;
    if (stop->cause == STOP_TIMEOUT)
        str_addf(out, "timed out after %.9g s: ", (double)stop->limit_ps / 1e12);
    explain_waits(sched, out);
    str_add(out, stop->cause == STOP_DEADLOCK ? ". Nobody can go on." : ".");
}

/* Nobody can go on, or one waits for somebody who will not come any more: who waits for whom. */
void
sched_announce_deadlock(struct task *me, int waiting, const char *text)
{
    int64_t report = stage_text_id(me, text);
    POINT(me, fault_deadlock, waiting, report);
}

/* A wait took longer than it may: who waits for whom. */
static void
timeout_announce(struct task *me, const struct str *report)
{
    int64_t text = stage_text_id(me, str_text(report));
    POINT(me, fault_timeout, 1, text);
}

bool
sched_timed_out(struct task *me, uint64_t limit_ps)
{
    struct stop stop   = { STOP_TIMEOUT, limit_ps };
    struct str  report = { 0 };
    sched_explain(me->sched, &stop, &report);
    timeout_announce(me, &report);
    failed(me, E_TIMEOUT, "%s", str_text(&report));
    str_free(&report);
    return false;
}

unsigned
sched_errors(const struct sched *sched)
{
    return atomic_load(&sched->errors);
}

uint64_t
sched_time(const struct sched *sched)
{
    struct timespec now;
    if (sched_is_stepped(sched))
        return sched->now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = (int64_t)(now.tv_sec - sched->started.tv_sec) * 1000000000 + now.tv_nsec - sched->started.tv_nsec;
    return (uint64_t)ns * 1000;
}

static bool
was_there(const struct machine *machine, uint32_t line)
{
    for (size_t i = 0; i < countof(machine->seen_lines); i++)
        if (machine->seen_lines[i] == line)
            return true;
    return false;
}

/* Called now and then by somebody who is no task: since when each task has been in the line where it is, or in a loop
 * of a few lines around it. */
void
sched_look_at_lines(struct sched *sched)
{
    uint64_t now = sched_time(sched);
    pthread_mutex_lock(&sched->registry);
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        struct task *task = &machine->task;
        uint32_t     line = task_line(task);
        if (task->waiting != NULL || (task->since != 0 && was_there(machine, line)))
            continue;
        machine->seen_lines[machine->seen_count++ % countof(machine->seen_lines)] = line;
        task->since = now;
    }
    pthread_mutex_unlock(&sched->registry);
}

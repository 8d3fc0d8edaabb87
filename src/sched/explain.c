/* Says in words who waits for whom: the text of a deadlock or a timeout. One sentence a task, leaves first told. */
#include <inttypes.h>
#include <string.h>
#include "sched/internal.h"

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
    if (task->line > 0)
        str_addf(out, " (line %u)", (unsigned)task->line);
    if (reason->detail != NULL)
        str_addf(out, ", %s", reason->detail);
}

void
sched_explain(struct sched *sched, struct str *out)
{
    int told = 0;
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        const struct wait_reason *reason = machine->task.waiting;
        if (reason == NULL || reason->idle || reason->join)
            continue;
        str_add(out, told++ > 0 ? "; " : "");
        explain_wait(&machine->task, reason, out);
    }
    if (told == 0)
        str_add(out, "tasks wait for each other's end");
    str_add(out, ". Nobody can go on.");
}

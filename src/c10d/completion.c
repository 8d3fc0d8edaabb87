/* Hooks on completion: a look at each collective when it has ended, on the rank's comm task.
 * Order of use: process_group_on_completion, collectives; process_group_forget_hooks before what a hook needs is gone.
 * PyTorch: ProcessGroup._register_on_completion_hook, which ProcessGroupNCCL runs on a thread of its own. */
#include "c10d/internal.h"

bool
process_group_on_completion(struct task *me, struct process_group *group, const struct completion_hook *hook)
{
    monitor_enter(me, &group->monitor);
    bool taken = group->hook.run != NULL;
    if (!taken)
        group->hook = *hook;
    monitor_leave(me, &group->monitor);
    return !taken || failed(me, E_RUNTIME, "ProcessGroup OnCompletion hook already registered");
}

/* In the group's monitor. */
static bool
await_group(struct task *me, struct process_group *group)
{
    struct wait_reason reason = { .what = "completion hooks", .sequence = -1, .peer = -1, .holder = group->comm,
                                  .join = true };
    group->waiting++;
    bool waits = monitor_wait(me, &group->monitor, &reason);
    group->waiting--;
    return waits;
}

int
process_group_forget_hooks(struct task *me, struct world *world, int rank)
{
    int count = 0;
    monitor_enter(me, &world->monitor);
    struct process_group *first = world->groups;
    monitor_leave(me, &world->monitor);
    for (struct process_group *group = first; group != NULL; group = group->next) {
        if (group->global_rank != rank)
            continue;
        monitor_enter(me, &group->monitor);
        count += group->hook.run != NULL;
        group->hook = (struct completion_hook){ 0 };
        while (group->in_hook && await_group(me, group))
            ;
        monitor_leave(me, &group->monitor);
    }
    return count;
}

bool
process_group_wait_for_pending(struct task *me, struct process_group *group)
{
    bool waits = true;
    if (me == group->comm)
        return failed(me, E_RUNTIME, "a completion hook cannot wait for its own group's collectives");
    monitor_enter(me, &group->monitor);
    while (waits && group->finished < process_group_sequence(group))
        waits = await_group(me, group);
    if (waits)
        claim_line_waited(group->line, group->finished);
    monitor_leave(me, &group->monitor);
    return waits;
}

void
completion_tell(struct task *me, struct work *work)
{
    struct process_group *group = work->group;
    monitor_enter(me, &group->monitor);
    struct completion_hook hook = group->hook;
    group->in_hook = hook.run != NULL;
    monitor_leave(me, &group->monitor);
    if (hook.run == NULL)
        return;
    const struct completion completion = {
        .group = group, .operation = operation_name(work->call.operation), .number = work->call.sequence + 1,
        .issued_at = work->issued_at, .begun_at = work->begun_at, .finished_at = sched_now(me) };
    if (!hook.run(me, hook.context, &completion)) {
        if (work->error.kind == E_NONE)
            work->error = me->error;
        task_clear_error(me);
    }
    monitor_enter(me, &group->monitor);
    group->in_hook = false;
    monitor_wake(me, &group->monitor);
    monitor_leave(me, &group->monitor);
}

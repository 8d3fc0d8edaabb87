/* How works are let go: a collective goes on and is recycled when it has ended; an isend or irecv that nobody
 * waits for has a task, which the group joins. */
#include "c10d/internal.h"

/* Nobody waits for it: the comm task recycles it at its end. */
void
work_forget(struct task *me, struct work *work)
{
    if (work == NULL)
        return;
    struct process_group *group = work->group;
    monitor_enter(me, &group->monitor);
    work->is_owned = false;
    if (work->told)
        work_recycle(me, work);
    monitor_leave(me, &group->monitor);
}

/* The first of those that nobody waits for and that has ended; `all`: the first. */
static struct work *
work_left(struct task *me, struct process_group *group, bool all)
{
    monitor_enter(me, &group->monitor);
    struct work **place = &group->left;
    while (*place != NULL && !all && !(*place)->done)
        place = &(*place)->next;
    struct work *work = *place;
    if (work != NULL)
        *place = work->next;
    monitor_leave(me, &group->monitor);
    return work;
}

void
works_left_join(struct task *me, struct process_group *group, bool all)
{
    for (struct work *work = work_left(me, group, all); work != NULL; work = work_left(me, group, all)) {
        struct error discarded;
        task_join(me, work->task, &discarded);
        work->task = NULL;
        work_discard(me, work);
    }
}

/* An isend or irecv that nobody waits for goes on by itself, as long as the group will join it. */
static void
work_leave(struct task *me, struct work *work)
{
    struct process_group *group = work->group;
    monitor_enter(me, &group->monitor);
    work->next  = group->left;
    group->left = work;
    bool last   = group->is_gone;
    monitor_leave(me, &group->monitor);
    works_left_join(me, group, last);
}

/* Nobody waits for a collective that nobody asks for: the comm task recycles the work at its end. */
void
work_free(struct task *me, struct work *work)
{
    if (work == NULL)
        return;
    if (work->post.is_later) {
        work_leave(me, work);
        return;
    }
    work_forget(me, work);
}

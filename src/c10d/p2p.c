/* Point to point: checked here, moved by the back-end. isend and irecv post at once and leave the waiting to a task of
 * their own. Order of use: group_send against group_recv; group_isend, work_wait, work_free. */
#include <stdio.h>
#include "c10d/internal.h"
#include "device/stream.h"
#include "sched/stage.h"

static bool
p2p_run(struct task *me, const struct process_group *group, struct post *post)
{
    if (!post->is_send)
        return group->world->backend->recv(me, post);
    stage_depart(me, post->flow);
    return group->world->backend->send(me, post);
}

/* Checks, and puts the post into the line: from here on the order of the calls is fixed. What the comm task sends
 * belongs to the collective that it is in, and shall not meet what the rank sends meanwhile. */
static bool
p2p_begin(struct task *me, const struct process_group *group, struct post *post, struct event **event)
{
    bool on_device = false;
    const char *what = post->is_send ? "send to" : "recv from";
    if (post->peer < 0 || post->peer >= group->communicator->size)
        return failed(me, E_VALUE, "%s rank %d: the group has %d ranks", what, post->peer, group->communicator->size);
    if (post->peer == group->rank)
        return failed(me, E_VALUE, "%s rank %d: a rank cannot %s itself", what, post->peer, what);
    if (group->is_gone)
        return failed(me, E_RUNTIME, "the process group was destroyed: call init_process_group again");
    if (!work_tensor_ready(me, post->tensor, event, &on_device))
        return false;
    if (me == group->comm)
        post->tag = -1 - post->tag;
    post->group   = group;
    post->channel = group->communicator->channel;
    post->event   = on_device ? *event : NULL;
    if (post->is_send)
        post->flow = sched_next_flow(me);
    return group->world->backend->post(me, post);
}

static bool
p2p_now(struct task *me, const struct process_group *group, struct post *post)
{
    struct event *event = NULL;
    bool done = p2p_begin(me, group, post, &event) && p2p_run(me, group, post);
    if (event != NULL)
        event_free(me, event);
    return done;
}

bool
group_send(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    struct post post = { .tensor = tensor, .is_send = true, .rank = group->rank, .peer = peer, .tag = tag,
                         .line = me->line };
    return p2p_now(me, group, &post);
}

bool
group_recv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    struct post post = { .tensor = tensor, .rank = group->rank, .peer = peer, .tag = tag, .line = me->line };
    return p2p_now(me, group, &post);
}

static bool
p2p_serve(struct task *me, void *argument)
{
    struct work *work = argument;
    p2p_run(me, work->group, &work->post);
    work_finish(me, work);
    return true;
}

static struct work *
p2p_later(struct task *me, struct process_group *group, const struct post *post, enum operation operation)
{
    struct work *work = post->tensor != NULL ? work_new(me, group, operation, post->tensor) : NULL;
    if (work == NULL)
        return NULL;
    work->post = *post;
    if (!p2p_begin(me, group, &work->post, &work->event)) {
        work_discard(me, work);
        return NULL;
    }
    char name[32];
    snprintf(name, sizeof name, "r%d i%s", group->global_rank, operation_name(operation));
    struct task_options options = { .name = name, .rank = TASK_INHERIT, .device = TASK_INHERIT };
    work->task = task_spawn(me, &options, p2p_serve, work);
    if (work->task != NULL)
        return work;
    group->world->backend->withdraw(me, &work->post);
    work_discard(me, work);
    return NULL;
}

struct work *
group_isend(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    struct post post = { .tensor = tensor, .is_send = true, .rank = group->rank, .peer = peer, .tag = tag,
                         .line = me->line };
    return p2p_later(me, group, &post, OPERATION_SEND);
}

struct work *
group_irecv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    struct post post = { .tensor = tensor, .rank = group->rank, .peer = peer, .tag = tag, .line = me->line };
    return p2p_later(me, group, &post, OPERATION_RECV);
}

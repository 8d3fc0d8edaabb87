/* Point to point: checked here, moved by the back-end. isend and irecv post at once and leave the waiting to a task of
 * their own; a batch posts all or nothing. Order of use: group_send against group_recv; group_isend, work_wait,
 * work_free. PyTorch: send, recv, isend, irecv, batch_isend_irecv of torch/distributed/distributed_c10d.py. */
#include <inttypes.h>
#include <stdio.h>
#include "c10d/internal.h"
#include "device/stream.h"
#include "sched/stage.h"

/* What is to be done, and how. */
struct p2p { struct p2p_op op; bool later, to_self; };

static const char *
p2p_name(const struct p2p *p2p)
{
    if (p2p->op.is_send)
        return p2p->later ? "isend" : "send";
    return p2p->later ? "irecv" : "recv";
}

/* For whoever looks at a rank that waits: what is not as usual. */
static void
describe_wait(const struct process_group *group, struct post *post)
{
    char tag[24] = "", of[20] = "";
    if (post->tag > 0)
        snprintf(tag, sizeof tag, "tag %" PRId64, post->tag);
    if (group->communicator->number > 0)
        snprintf(of, sizeof of, "%sgroup %d", post->tag > 0 ? " of " : "of ", group->communicator->number);
    snprintf(post->detail, sizeof post->detail, "%s%s%s%s", post->peer < 0 ? "from any rank" : "",
             post->peer < 0 && (tag[0] != '\0' || of[0] != '\0') ? ", " : "", tag, of);
}

static bool
p2p_allowed(struct task *me, const struct process_group *group, const struct p2p *p2p)
{
    const struct p2p_op *op   = &p2p->op;
    const char          *name = p2p_name(p2p), *way = op->is_send ? "to" : "from";
    int                  size = group->communicator->size;
    if (task_failed(me) || op->tensor == NULL)
        return failed(me, E_TYPE, "%s needs a tensor", name);
    if (op->peer == group->rank && !p2p->to_self)
        return failed(me, E_VALUE, "%s %s rank %d: that is this rank itself; only in a batch_isend_irecv a rank sends "
                      "to itself", name, way, group->global_rank);
    if (!tensor_is_contiguous(op->tensor))
        return failed(me, E_RUNTIME, "%s: input tensor has to be contiguous: %s", name,
                      op->is_send ? "send t:contiguous()" : "receive into one that is, and copy it");
    if (op->peer >= size || op->peer < ANY_SOURCE || (op->is_send && op->peer == ANY_SOURCE))
        return failed(me, E_VALUE, "%s %s rank %d: the group has %d ranks", name, way, op->peer, size);
    if (op->tag < 0)
        return failed(me, E_RUNTIME, "%s: the tag must not be negative, but is %" PRId64, name, op->tag);
    if (group->is_gone && !process_group_runs_on(group, me))
        return failed(me, E_RUNTIME, "the process group was destroyed: call init_process_group again");
    return true;
}

/* Puts the post into the line: from here on the order of the calls is fixed. What the comm task sends belongs to the
 * collective that it is in, and shall not meet what the rank sends meanwhile. */
static bool
p2p_post(struct task *me, struct process_group *group, const struct p2p *p2p, struct post *post,
         struct event **event)
{
    const struct p2p_op *op = &p2p->op;
    bool on_device = false;
    *post = (struct post){ .group = group, .channel = group->communicator->channel, .name = p2p_name(p2p),
                           .is_send = op->is_send, .is_later = p2p->later, .rank = group->rank, .peer = op->peer,
                           .tag = me == group->comm ? -1 - op->tag : op->tag, .tensor = op->tensor, .line = me->line };
    if (!work_tensor_ready(me, op->tensor, event, &on_device))
        return false;
    post->event = on_device ? *event : NULL;
    if (op->is_send)
        post->flow = sched_next_flow(me);
    describe_wait(group, post);
    if (post->tag >= 0)
        post->recorded = recorder_post(me, group, post);
    return mirrored_post(me, post) && group->world->backend->post(me, post);
}

static bool
p2p_run(struct task *me, struct process_group *group, struct post *post)
{
    const struct group_backend *backend = group->world->backend;
    if (post->is_send)
        stage_depart(me, post->flow);
    recorder_reach(group, post->recorded, FLIGHT_STARTED, sched_now(me));
    bool done = (post->is_send ? backend->send : backend->recv)(me, post) && mirrored_received(me, post);
    if (done)
        recorder_reach(group, post->recorded, FLIGHT_COMPLETED, sched_now(me));
    return done;
}

bool
post_in_vain(struct task *me, const struct post *post, const char *words)
{
    const struct wait_reason reason = { .what = post->name, .sequence = -1, .tag = post->tag,
                                        .peer = process_group_global_rank(post->group, post->peer),
                                        .detail = post->detail[0] != '\0' ? post->detail : NULL };
    if (post->tag < 0)
        return failed(me, E_DEADLOCK, "%s", words); /* within a collective, which is told as a whole */
    return hang_in_vain(me, post->group->world, &reason, "%s", words);
}

/* ---- now ---- */

static bool
p2p_now(struct task *me, struct process_group *group, const struct p2p_op *op, int *source)
{
    struct p2p    p2p   = { .op = *op };
    struct post   post;
    struct event *event = NULL;
    bool done = p2p_allowed(me, group, &p2p) && p2p_post(me, group, &p2p, &post, &event) && p2p_run(me, group, &post);
    if (event != NULL)
        event_free(me, event);
    if (done && source != NULL)
        *source = post.peer;
    return done;
}

bool
group_send(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    return p2p_now(me, group, &(struct p2p_op){ true, tensor, peer, tag }, NULL);
}

bool
group_recv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    return p2p_now(me, group, &(struct p2p_op){ false, tensor, peer, tag }, NULL);
}

int
group_recv_any(struct task *me, struct process_group *group, struct tensor *tensor, int64_t tag)
{
    int source = -1;
    return p2p_now(me, group, &(struct p2p_op){ false, tensor, ANY_SOURCE, tag }, &source) ? source : -1;
}

/* ---- later ---- */

static bool
p2p_serve(struct task *me, void *argument)
{
    struct work *work = argument;
    me->is_carrier = true;
    if (p2p_run(me, work->group, &work->post))
        reuse_moved(me, work);
    work_finish(me, work);
    return true;
}

/* What is sent is read from here on; what is received is changed, and nobody reads it before the wait. */
static bool
p2p_claim(struct task *me, struct work *work, const struct p2p *p2p)
{
    struct access access = tensor_access(p2p->op.tensor, false, p2p_name(p2p));
    if (p2p->op.is_send)
        return claims_allow(me, &access, 1);
    work->post = (struct post){ .name = p2p_name(p2p), .peer = p2p->op.peer, .tag = p2p->op.tag };
    return work_claims(me, work) && work_claim(me, work, p2p->op.tensor, true);
}

static struct work *
p2p_later(struct task *me, struct process_group *group, const struct p2p *p2p)
{
    enum operation operation = p2p->op.is_send ? OPERATION_SEND : OPERATION_RECV;
    works_left_join(me, group, false);
    struct work *work = work_new(me, group, operation, p2p->op.tensor);
    if (work == NULL)
        return NULL;
    if (!p2p_claim(me, work, p2p) || !p2p_post(me, group, p2p, &work->post, &work->event)) {
        work_discard(me, work);
        return NULL;
    }
    claimer_issue(work->claimer, recorder_sequence(&group->recorder, work->post.recorded));
    reuse_watch(work);
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

static struct work *
p2p_one(struct task *me, struct process_group *group, const struct p2p *p2p)
{
    return p2p_allowed(me, group, p2p) ? p2p_later(me, group, p2p) : NULL;
}

struct work *
group_isend(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    return p2p_one(me, group, &(struct p2p){ .op = { true, tensor, peer, tag }, .later = true });
}

struct work *
group_irecv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag)
{
    return p2p_one(me, group, &(struct p2p){ .op = { false, tensor, peer, tag }, .later = true });
}

/* All are checked before the first is posted; where memory ends between, those that were posted go on alone. */
bool
group_batch_isend_irecv(struct task *me, struct process_group *group, const struct p2p_op *ops, int count,
                        struct work **works)
{
    int posted = 0;
    for (int i = 0; i < count; i++)
        if (!p2p_allowed(me, group, &(struct p2p){ ops[i], .later = true, .to_self = true }))
            return false;
    while (posted < count) {
        works[posted] = p2p_later(me, group, &(struct p2p){ ops[posted], .later = true, .to_self = true });
        if (works[posted] == NULL)
            break;
        posted++;
    }
    for (int i = 0; posted < count && i < posted; i++)
        work_free(me, works[i]);
    return posted == count;
}

int
work_source_rank(struct task *me, struct work *work)
{
    return work->post.is_later && !work->post.is_send && work_done(me, work) ? work->post.peer : -1;
}

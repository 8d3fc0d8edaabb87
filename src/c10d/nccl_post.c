/* Sends and receives of the back-end nccl. NCCL pairs them by their order alone, and each one waits in its stream
 * until the other end is there: so each direction between two ranks has a communicator and a stream of its own, and
 * its messages take turns in the order in which they were posted. Tags are not compared, as in PyTorch; nor are
 * lengths.
 *
 * Order of use, all by post.c: nccl_takes_post, nccl_post_begin; nccl_post_run; nccl_post_end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/nccl_internal.h"
#include "c10d/nccl_events.h"

bool
nccl_takes_post(const struct post *post)
{
    const struct channel *channel = post->channel;
    return channel->nccl != NULL && tensor_device(post->tensor) >= 0;
}

static bool
may_be(struct task *me, const struct post *post)
{
    const struct channel *channel = post->channel;
    int device = tensor_device(post->tensor), own = channel->nccl->ends[post->rank].device;
    if (post->peer < 0)
        return failed(me, E_VALUE, "%s from any rank: NCCL has no such receive; name the rank that sends", post->name);
    if (post->peer == post->rank)
        return failed(me, E_VALUE, "%s: what lies on a GPU is not sent to oneself by messages of NCCL; copy it",
                      post->name);
    return device == own || failed(me, E_DEVICE,
                                   "%s: the tensor is on device:%d, but this rank's NCCL is on device:%d: a "
                                   "rank has one GPU", post->name, device, own);
}

/* In the monitor. NULL: no memory. */
static struct nccl_way *
way_of(struct nccl_channel *nccl, const struct post *post)
{
    int  from = post->is_send ? post->rank : post->peer, to = post->is_send ? post->peer : post->rank;
    bool within = post->tag < 0;
    for (struct nccl_way *way = nccl->ways; way != NULL; way = way->next)
        if (way->from == from && way->to == to && way->within == within)
            return way;
    struct nccl_way *way = calloc(1, sizeof *way);
    if (way == NULL)
        return NULL;
    *way = (struct nccl_way){ .next = nccl->ways, .from = from, .to = to, .within = within };
    return nccl->ways = way;
}

bool
nccl_post_begin(struct task *me, struct post *post)
{
    struct channel *channel = post->channel;
    if (!may_be(me, post))
        return false;
    monitor_enter(me, &channel->monitor);
    post->way = way_of(channel->nccl, post);
    if (post->way != NULL)
        post->turn = post->way->side[!post->is_send].posted++;
    monitor_leave(me, &channel->monitor);
    return post->way != NULL || failed(me, E_MEMORY, "out of memory for %s", post->name);
}

/* Its turn is over, whether it ran or was withdrawn. Turns end in their order, so that one that is withdrawn, which is
 * always the last, waits for nobody. */
void
nccl_post_end(struct task *me, struct post *post)
{
    struct channel *channel = post->channel;
    monitor_enter(me, &channel->monitor);
    if (post->is_over)
        post->way->side[!post->is_send].served++;
    if (post->is_over && task_failed(me))
        post->way->is_lost = true;
    if (!post->is_over)
        post->way->side[!post->is_send].posted--;
    monitor_wake(me, &channel->monitor);
    monitor_leave(me, &channel->monitor);
    post->way = NULL;
}

static struct wait_reason
reason_of(const struct post *post)
{
    return (struct wait_reason){ .what = post->name, .sequence = -1, .group = -1, .tag = post->tag,
                                 .peer = process_group_global_rank(post->group, post->peer),
                                 .detail = post->detail[0] != '\0' ? post->detail : NULL,
                                 .timeout_ps = group_timeout_ps(post->group) };
}

/* Those that were posted before it go first. */
static bool
await_turn(struct task *me, struct post *post)
{
    struct channel          *channel = post->channel;
    const struct wait_reason reason  = reason_of(post);
    bool                     waits   = true;
    monitor_enter(me, &channel->monitor);
    while (waits && !post->way->is_lost && post->way->side[!post->is_send].served != post->turn)
        waits = monitor_wait(me, &channel->monitor, &reason);
    bool lost = post->way->is_lost;
    monitor_leave(me, &channel->monitor);
    post->is_over = true;
    return waits && (!lost || failed(me, E_DIST_NETWORK, "%s: an earlier message between these two ranks failed",
                                     post->name));
}

/* Two ranks of the world are its members: the sender is rank 0. */
static bool
open_way(struct task *me, struct post *post, struct nccl_end *end, struct remote_wait *wait)
{
    struct channel      *channel = post->channel;
    struct nccl_channel *nccl    = channel->nccl;
    struct nccl_way     *way     = post->way;
    const int            ranks[2] = { channel->ranks[way->from], channel->ranks[way->to] };
    char                 key[80];
    snprintf(key, sizeof key, "nccl/%016llx/%d to %d%s", (unsigned long long)nccl->meeting, way->from, way->to,
             way->within ? " within" : "");
    const struct nccl_meeting meeting = { key, &way->id, &way->has_id, !post->is_send, 2, nccl->number, ranks };
    return nccl_equip(me, nccl->nccl, nccl->ends[post->rank].device, end) &&
           nccl_join(me, nccl, &meeting, end, wait);
}

static void
begin_wait(struct task *me, struct post *post, const struct remote_vain *vain, struct remote_wait *wait)
{
    const struct wait_reason reason = reason_of(post);
    remote_wait_begin(wait, me, post->channel, &reason);
    wait->vain = vain;
    wait->what = post;
}

bool
nccl_post_run(struct task *me, struct post *post, const struct remote_vain *vain)
{
    struct nccl_channel *nccl = ((struct channel *)post->channel)->nccl;
    struct nccl_end     *end  = &post->way->side[!post->is_send].end;
    struct remote_wait   wait;
    void                *at   = nccl_elements(post->tensor);
    const struct nccl_operation one = { post->is_send ? NCCL_SEND : NCCL_RECV, at, at,
                                       (size_t)tensor_count(post->tensor),
                                        !post->is_send ? 0 : 1 };
    const struct nccl_launch launch = { .operations = &one, .count = 1, .dtype = (enum nccl_dtype)post->tensor->dtype };
    if (!await_turn(me, post))
        return false;
    begin_wait(me, post, vain, &wait);
    if (end->stream == NULL && !open_way(me, post, end, &wait))
        return false;
    begin_wait(me, post, vain, &wait);
    return one.count == 0 || nccl_launch(me, nccl, end, &launch, &wait);
}

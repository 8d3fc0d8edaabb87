/* Point to point in `local`. Unbuffered: send returns when the other side has received. A send and a recv pair up by
 * their tag, in the order in which they were posted; the receiver, who knows both, copies.
 * Order of use: local_post, then local_send, local_recv or local_withdraw. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "c10d/local.h"
#include "device/stream.h"
#include "sched/stage.h"

static struct link *
post_link(struct task *me, const struct post *post)
{
    return post->is_send ? link_between(me, post->channel, post->rank, post->peer)
                         : link_between(me, post->channel, post->peer, post->rank);
}

/* Finds the other end, or stands in line for it. */
bool
local_post(struct task *me, struct post *post)
{
    struct link *link = post_link(me, post);
    if (link == NULL)
        return false;
    monitor_enter(me, &link->monitor);
    struct post **place = &link->posts[!post->is_send];
    while (*place != NULL && (*place)->tag != post->tag)
        place = &(*place)->next;
    if (*place != NULL) {
        post->mate       = *place;
        *place           = post->mate->next;
        post->mate->mate = post;
        monitor_wake(me, &link->monitor);
    } else {
        for (place = &link->posts[post->is_send]; *place != NULL;)
            place = &(*place)->next;
        *place = post;
    }
    monitor_leave(me, &link->monitor);
    return true;
}

/* The post's owner gives up: nobody may look at it any more. Answers false. */
static bool
post_abandon(struct task *me, struct link *link, struct post *post)
{
    monitor_enter(me, &link->monitor);
    struct post **place = &link->posts[post->is_send];
    while (*place != NULL && *place != post)
        place = &(*place)->next;
    if (*place != NULL)
        *place = post->next;
    if (post->mate != NULL && !post->done) {
        post->mate->abandoned = true;
        post->mate->mate      = NULL;
    }
    monitor_wake(me, &link->monitor);
    monitor_leave(me, &link->monitor);
    return false;
}

static bool
post_lost(struct task *me, const struct post *post, bool abandoned)
{
    if (group_gives_up(post->group, post->tag))
        return group_say_why(me, post->group);
    char line[32] = "";
    if (post->line > 0)
        snprintf(line, sizeof line, " (line %" PRIu32 ")", post->line);
    return failed(me, E_RANK_LOST, "rank %d waits in %s %s rank %d%s, but rank %d %s", post->rank,
                  post->is_send ? "send" : "recv", post->is_send ? "to" : "from", post->peer, line, post->peer,
                  abandoned ? "has given up" : "has ended");
}

/* One wait in the link's monitor; false: failed, and the monitor was left. */
static bool
post_await(struct task *me, struct link *link, struct post *post)
{
    struct wait_reason reason = { .what = post->is_send ? "send" : "recv", .sequence = -1, .peer = post->peer,
                                  .timeout_ps = group_timeout_ps(post->group) };
    bool abandoned = post->abandoned || group_gives_up(post->group, post->tag);
    bool lost = abandoned || (post->mate == NULL && group_rank_has_ended(post->group, post->peer));
    if (!lost && monitor_wait(me, &link->monitor, &reason))
        return true;
    monitor_leave(me, &link->monitor);
    return lost && post_lost(me, post, abandoned);
}

static void
post_print(const struct post *post, struct str *out)
{
    str_addf(out, "%s ", dtype_name(post->tensor->dtype));
    shape_print(post->tensor->dims, post->tensor->size, out);
    if (post->line > 0)
        str_addf(out, " (line %" PRIu32 ")", post->line);
}

/* In the monitor: both ends must speak of equally many elements of one dtype; else both learn why not. */
static bool
posts_fit(struct post *receive, struct post *send)
{
    if (receive->tensor->dtype == send->tensor->dtype && tensor_count(receive->tensor) == tensor_count(send->tensor))
        return true;
    struct str text = { 0 };
    str_addf(&text, "rank %d sends ", send->rank);
    post_print(send, &text);
    str_addf(&text, " where rank %d receives ", receive->rank);
    post_print(receive, &text);
    snprintf(receive->why, sizeof receive->why, "%s", str_ok(&text) ? str_text(&text) : "send and recv differ");
    memcpy(send->why, receive->why, sizeof send->why);
    str_free(&text);
    send->refused = receive->refused = true;
    return false;
}

static bool
post_send(struct task *me, struct link *link, struct post *post)
{
    if ((post->event != NULL && !event_synchronize(me, post->event)) || !tensor_touch(me, post->tensor, false, "send"))
        return false;
    monitor_enter(me, &link->monitor);
    post->ready = true;
    monitor_wake(me, &link->monitor);
    while (!post->done && !post->refused)
        if (!post_await(me, link, post))
            return false;
    monitor_leave(me, &link->monitor);
    sched_advance_to(me, post->arrival);
    return !post->refused || failed(me, E_MISMATCH, "%s", post->why);
}

/* The transfer begins when both are there and the link is free. */
static bool
post_receive(struct task *me, struct link *link, struct post *post)
{
    if ((post->event != NULL && !event_synchronize(me, post->event)) || !tensor_touch(me, post->tensor, true, "recv"))
        return false;
    size_t bytes = (size_t)tensor_bytes(post->tensor);
    monitor_enter(me, &link->monitor);
    while (post->mate == NULL || !post->mate->ready)
        if (!post_await(me, link, post))
            return false;
    bool fits = posts_fit(post, post->mate);
    if (fits)
        post->arrival = link_depart(me, link, bytes);
    monitor_wake(me, &link->monitor);
    monitor_leave(me, &link->monitor);
    if (!fits)
        return failed(me, E_MISMATCH, "%s", post->why);
    sched_advance_to(me, post->arrival);

    monitor_enter(me, &link->monitor);
    struct post *mate = post->mate;
    if (mate != NULL) {
        if (bytes > 0)
            memcpy(tensor_elements(post->tensor), tensor_elements(mate->tensor), bytes);
        post->flow    = mate->flow;
        mate->arrival = post->arrival;
        mate->done = post->done = true;
    }
    monitor_wake(me, &link->monitor);
    monitor_leave(me, &link->monitor);
    return mate != NULL || post_lost(me, post, true);
}

/* Returns when the other side has received: there is no buffer in between. */
bool
local_send(struct task *me, struct post *post)
{
    STAGE(me, c10d_send, post->peer, tensor_bytes(post->tensor), post->tag);
    struct link *link = post_link(me, post);
    return post_send(me, link, post) || post_abandon(me, link, post);
}

/* The tensor's elements are replaced by those of the first send from `peer` with this tag. */
bool
local_recv(struct task *me, struct post *post)
{
    STAGE(me, c10d_recv, post->peer, tensor_bytes(post->tensor), post->tag);
    struct link *link = post_link(me, post);
    if (!post_receive(me, link, post))
        return post_abandon(me, link, post);
    stage_arrive(&stage_, post->flow);
    tensor_bump(post->tensor);
    tensor_tell(me, post->tensor);
    return true;
}

/* Nobody will wait for it. */
void
local_withdraw(struct task *me, struct post *post)
{
    post_abandon(me, post_link(me, post), post);
}

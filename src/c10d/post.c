/* Point to point in `local`. Unbuffered: send returns when the other side has received. A post waits for its other end
 * at the rank that receives, in line with all posts of its tag there; the first that fits is taken, so that receives
 * from any source and from one rank get their messages in the order in which both were posted. The sender, once both
 * are there, lets the wire take its time (one comm.hop, on its own lane) and copies. To oneself nothing travels.
 * Order of use: local_post, then local_send, local_recv or local_withdraw. PyTorch: ProcessGroupGloo::send, recv,
 * recvAnysource. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "c10d/local.h"
#include "c10d/nccl_internal.h"
#include "c10d/remote.h"
#include "device/cells.h"
#include "device/device.h"
#include "device/stream.h"
#include "sched/account.h"
#include "sched/stage.h"

/* ---- lines ---- */

/* In the channel's monitor. NULL: no memory. */
static struct inbox *
inbox_new(struct channel *channel, int rank)
{
    struct inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox == NULL || !monitor_init(&inbox->monitor)) {
        free(inbox);
        return NULL;
    }
    if (!map_set(&channel->inboxes, (uint64_t)rank, (uintptr_t)inbox)) {
        inbox_free(inbox);
        return NULL;
    }
    inbox->next = channel->first_inbox;
    channel->first_inbox = inbox;
    return inbox;
}

static struct inbox *
inbox_of(struct task *me, struct channel *channel, int rank)
{
    uint64_t known = 0;
    monitor_enter(me, &channel->monitor);
    struct inbox *inbox = map_get(&channel->inboxes, (uint64_t)rank, &known) ? (struct inbox *)(uintptr_t)known
                                                                            : inbox_new(channel, rank);
    monitor_leave(me, &channel->monitor);
    return inbox;
}

void
repeat_free(struct repeat *repeat)
{
    struct sched *sched = repeat->sched;
    monitor_destroy(&repeat->post.monitor);
    host_give(sched, repeat, repeat->bytes);
}

/* A second send, which nobody took, may stand in a line still. */
void
inbox_free(struct inbox *inbox)
{
    for (int i = 0; i < LINES; i++)
        for (struct post *post = inbox->lines[true][i].first, *next; post != NULL; post = next) {
            next = post->next;
            if (post->repeat != NULL)
                repeat_free(post->repeat);
        }
    monitor_destroy(&inbox->monitor);
    free(inbox);
}

static struct line *
line_of(struct inbox *inbox, bool is_send, int64_t tag)
{
    return &inbox->lines[is_send][(uint64_t)tag % LINES];
}

static void
line_leave(struct line *line, struct post *post)
{
    *(post->before != NULL ? &post->before->next : &line->first) = post->next;
    *(post->next != NULL ? &post->next->before : &line->last)    = post->before;
    post->next = post->before = NULL;
}

static void
line_join(struct line *line, struct post *post)
{
    post->before = line->last;
    *(line->last != NULL ? &line->last->next : &line->first) = post;
    line->last = post;
}

static bool
posts_match(const struct post *receive, const struct post *send)
{
    return receive->tag == send->tag && (receive->peer < 0 || receive->peer == send->rank);
}

/* In the inbox's monitor. NULL: nobody has posted the other end yet. */
static struct post *
find_mate(struct inbox *inbox, const struct post *post)
{
    struct post *other = line_of(inbox, !post->is_send, post->tag)->first;
    while (other != NULL && !(post->is_send ? posts_match(other, post) : posts_match(post, other)))
        other = other->next;
    return other;
}

/* The post's task looks again. In the inbox's monitor, so that the post is still there. */
static void
post_call(struct task *me, struct post *post)
{
    monitor_enter(me, &post->monitor);
    post->called = true;
    monitor_wake(me, &post->monitor);
    monitor_leave(me, &post->monitor);
}

/* Who has no mate looks again whether one can still come. */
void
inbox_wake(struct task *me, struct inbox *inbox)
{
    monitor_enter(me, &inbox->monitor);
    for (int i = 0; i < 2 * LINES; i++)
        for (struct post *post = inbox->lines[i / LINES][i % LINES].first; post != NULL; post = post->next)
            post_call(me, post);
    monitor_leave(me, &inbox->monitor);
}

/* Sends of several ranks meet where a receive takes from any of them. */
static void
post_meets(struct task *me, const struct post *post)
{
    const int64_t where[3] = { process_group_number(post->group), post->is_send ? post->peer : post->rank, post->tag };
    if (post->is_send)
        sched_touch(me, TOUCH_GIVE, "message", where);
    else if (post->peer < 0)
        sched_touch(me, TOUCH_TAKE_ANY, "message", where);
}

static const struct remote_vain vain;   /* below */

/* Of ranks that are processes, which NCCL alone connects. */
static bool
needs_gloo(const struct post *post)
{
    const struct channel *channel = post->channel;
    return channel->nccl != NULL && channel->remote == NULL && channel->local->job != NULL && post->peer != post->rank;
}

/* Finds the other end, or stands in line for it. */
bool
local_post(struct task *me, struct post *post)
{
    const struct channel *channel = post->channel;
    if (nccl_takes_post(post))
        return nccl_post_begin(me, post);
    if (channel->remote != NULL && post->peer != post->rank)
        return remote_post_begin(me, post, &vain);
    if (needs_gloo(post))
        return failed(me, E_DEVICE,
                      "%s: the tensor lies in the host's memory, which goes between processes by Gloo, and that "
                      "is not here: move it to the GPU (t:cuda())", post->name);
    post_meets(me, post);
    struct inbox *inbox = inbox_of(me, post->channel, post->is_send ? post->peer : post->rank);
    if (inbox == NULL || !monitor_init(&post->monitor))
        return failed(me, E_MEMORY, "out of memory for %s", post->name);
    post->inbox = inbox;
    monitor_enter(me, &inbox->monitor);
    struct post *mate = find_mate(inbox, post);
    if (mate != NULL) {
        line_leave(line_of(inbox, mate->is_send, mate->tag), mate);
        post->mate = mate;
        mate->mate = post;
        post->met = mate->met = true;
        post_call(me, mate);
    } else {
        line_join(line_of(inbox, post->is_send, post->tag), post);
    }
    monitor_leave(me, &inbox->monitor);
    return true;
}

/* The message once more, as it is now: it finds a receive, or stands in line for one. */
bool
repeat_send(struct task *me, const struct post *post)
{
    size_t         bytes = (size_t)tensor_bytes(post->tensor), all = sizeof(struct repeat) + bytes;
    struct inbox  *inbox = post->inbox;
    struct repeat *repeat = cell_take(me, all);
    if (repeat == NULL || !monitor_init(&repeat->post.monitor))
        return memory_failed(me, all, "the host");
    *repeat = (struct repeat){ .post = { .group = post->group, .channel = post->channel, .name = post->name,
                                         .is_send = true, .rank = post->rank, .peer = post->peer, .tag = post->tag,
                                         .tensor = &repeat->like, .line = post->line, .flow = post->flow,
                                         .inbox = inbox, .monitor = repeat->post.monitor, .repeat = repeat,
                                         .arrival = sched_now(me) },
                               .like = *post->tensor, .sched = me->sched, .bytes = all };
    if (bytes > 0)
        memcpy(repeat + 1, tensor_elements(post->tensor), bytes);
    monitor_enter(me, &inbox->monitor);
    struct post *mate = find_mate(inbox, &repeat->post);
    if (mate != NULL) {
        line_leave(line_of(inbox, false, mate->tag), mate);
        repeat->post.mate = mate;
        mate->mate = &repeat->post;
        mate->met  = true;
        post_call(me, mate);
    } else {
        line_join(line_of(inbox, true, post->tag), &repeat->post);
    }
    monitor_leave(me, &inbox->monitor);
    return true;
}

/* In the monitor. */
static void
post_abandon(struct task *me, struct post *mate)
{
    mate->killed    = me->error.kind == E_KILLED;
    mate->abandoned = true;
    mate->why_kind  = mate->tag < 0 && !mate->killed ? (int)me->error.kind : E_NONE;
    mate->mate      = NULL;
    snprintf(mate->why, sizeof mate->why, "%.200s", mate->killed ? "" : me->error.message);
}

/* Its owner is through with it, or gives up: nobody may look at it any more. */
static void
post_end(struct task *me, struct post *post)
{
    struct inbox *inbox = post->inbox;
    if (post->way != NULL) {
        nccl_post_end(me, post);
        return;
    }
    if (post->request != NULL) {
        remote_post_end(me, post);
        return;
    }
    monitor_enter(me, &inbox->monitor);
    struct post *mate = post->mate;
    if (mate != NULL && mate->repeat != NULL) {
        repeat_free(mate->repeat);
    } else if (mate != NULL) {
        post_abandon(me, mate);
        if (post->is_send)
            mate->peer = post->rank;
        post_call(me, mate);
    }
    if (!post->met)
        line_leave(line_of(inbox, post->is_send, post->tag), post);
    monitor_leave(me, &inbox->monitor);
    monitor_destroy(&post->monitor);
}

/* Nobody will wait for it. */
void
local_withdraw(struct task *me, struct post *post)
{
    post_end(me, post);
}

/* ---- waiting ---- */

static int
world_rank(const struct post *post, int rank)
{
    return process_group_global_rank(post->group, rank);
}

/* Nobody who could be its mate will post any more. */
static bool
post_is_hopeless(const struct post *post)
{
    const struct channel *channel = post->channel;
    if (post->met || post->peer >= 0)
        return !post->met && group_rank_is_through(post->group, post->peer, post->tag);
    for (int rank = 0; rank < channel->size; rank++)
        if (rank != post->rank && !group_rank_is_through(post->group, rank, post->tag))
            return false;
    return true;
}

/* Of the other end's rank. */
static const char *
post_fate(const struct post *post)
{
    if (post->killed || group_rank_was_killed(post->group, post->peer))
        return "was killed";
    return post->abandoned ? "has given up" : post->tag < 0 ? "has gone on" : "has ended";
}

static bool
post_say_lost(struct task *me, const struct post *post)
{
    if (group_gives_up(post->group, post->tag))
        return group_say_why(me, post->group);
    if (post->abandoned && post->why_kind != E_NONE)
        return failed(me, (enum error_kind)post->why_kind, "rank %d failed in it: %s", world_rank(post, post->peer),
                      post->why);
    char line[32] = "", peer[48] = "", who[40] = "all others have ended";
    const char *why = post->abandoned && !post->killed ? post->why : "";
    if (post->line > 0)
        snprintf(line, sizeof line, " (line %" PRIu32 ")", post->line);
    if (post->peer >= 0) {
        snprintf(who, sizeof who, "rank %d %s", world_rank(post, post->peer), post_fate(post));
        snprintf(peer, sizeof peer, " %s rank %d", post->is_send ? "to" : "from", world_rank(post, post->peer));
    }
    char words[600];
    snprintf(words, sizeof words, "rank %d waits in %s%s%s%s%s, but %s%s%s", world_rank(post, post->rank), post->name,
             peer, line, post->detail[0] != '\0' ? ", " : "", post->detail, who, why[0] != '\0' ? ": " : "", why);
    return post_in_vain(me, post, words);
}

static enum remote_hope
hope_of(const void *post_)
{
    const struct post *post = post_;
    if (group_gives_up(post->group, post->tag))
        return NO_HOPE;
    return post_is_hopeless(post) ? LITTLE_HOPE : HOPE;
}

static bool
say_lost(struct task *me, const void *post)
{
    return post_say_lost(me, post);
}

static const struct remote_vain vain = { hope_of, say_lost, NULL };

/* One wait, in the inbox's monitor, which it leaves meanwhile. false: failed, and it was left. */
static bool
post_await(struct task *me, struct post *post)
{
    struct wait_reason reason = { .what = post->name, .sequence = -1, .peer = world_rank(post, post->peer),
                                  .detail = post->detail[0] != '\0' ? post->detail : NULL,
                                  .lost = post->lost, .tag = post->tag, .timeout_ps = group_timeout_ps(post->group) };
    bool lost = post->abandoned || post_is_hopeless(post) || group_gives_up(post->group, post->tag);
    monitor_leave(me, &post->inbox->monitor);
    if (lost)
        return post_say_lost(me, post);

    bool waits = true;
    monitor_enter(me, &post->monitor);
    while (!post->called && waits)
        waits = monitor_wait(me, &post->monitor, &reason);
    post->called = false;
    monitor_leave(me, &post->monitor);
    if (waits)
        monitor_enter(me, &post->inbox->monitor);
    return waits;
}

/* ---- moving ---- */

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
posts_fit(struct task *me, struct post *receive, struct post *send)
{
    if (receive->tensor->dtype == send->tensor->dtype && tensor_count(receive->tensor) == tensor_count(send->tensor))
        return true;
    struct str text = { 0 };
    str_addf(&text, "rank %d sends ", world_rank(send, send->rank));
    post_print(send, &text);
    str_addf(&text, " where rank %d receives ", world_rank(receive, receive->rank));
    post_print(receive, &text);
    snprintf(receive->why, sizeof receive->why, "%s", str_ok(&text) ? str_text(&text) : "send and recv differ");
    memcpy(send->why, receive->why, sizeof send->why);
    str_free(&text);
    send->refused = receive->refused = true;
    send->mate = receive->mate = NULL;
    post_call(me, receive);
    return false;
}

/* The host reads or writes the tensor from here on. Who changes it meanwhile is told so elsewhere: that is no race. */
static bool
post_touch(struct task *me, struct post *post)
{
    if (!post_ready(me, post))
        return false;
    if (post->is_later && tensor_version(post->tensor) != post->version)
        return true;
    uint64_t      begin  = (uint64_t)post->tensor->offset * dtype_size(post->tensor->dtype);
    struct access access = { .storage = post->tensor->storage, .begin = begin, .what = post->name,
                             .end = begin + (uint64_t)tensor_bytes(post->tensor), .write = !post->is_send,
                             .yields = post->is_later };
    return access.begin == access.end || storage_access_by_host(me, &access);
}

/* Both are there: the message takes its way. */
static bool
post_carry(struct task *me, struct post *post, struct fault_message *fault)
{
    struct hop hop = { .direct = true, .dtype = (int)post->tensor->dtype,
                       .send = { .data = tensor_elements(post->tensor), .bytes = (size_t)tensor_bytes(post->tensor) } };
    if (post->peer == post->rank)
        return true;
    hop.out = link_between(me, post->channel, post->rank, post->peer);
    bool carried = hop.out != NULL && hop_run(me, NULL, &hop);
    *fault = hop.send.fault;
    return carried;
}

/* The sender goes on, its receiver waits for what never comes. */
static void
post_lose(struct task *me, struct post *post, const struct fault_message *fault)
{
    monitor_enter(me, &post->inbox->monitor);
    struct post *mate = post->mate;
    if (mate != NULL) {
        fault_words(fault, world_rank(post, post->rank), world_rank(post, post->peer), mate->detail,
                    sizeof mate->detail);
        mate->lost = true;
        mate->mate = post->mate = NULL;
        post_call(me, mate);
    }
    monitor_leave(me, &post->inbox->monitor);
}

/* The elements as they are when the message arrives. */
static bool
post_deliver(struct task *me, struct post *post)
{
    size_t bytes = (size_t)tensor_bytes(post->tensor);
    monitor_enter(me, &post->inbox->monitor);
    struct post *mate = post->mate;
    if (mate != NULL) {
        if (bytes > 0)
            memmove(tensor_elements(mate->tensor), tensor_elements(post->tensor), bytes);
        mate->flow    = post->flow;
        mate->peer    = post->rank;
        mate->arrival = sched_now(me);
        mate->done    = true;
        mate->mate = post->mate = NULL;
        post_call(me, mate);
    }
    monitor_leave(me, &post->inbox->monitor);
    return mate != NULL || post_say_lost(me, post);
}

static bool
post_send(struct task *me, struct post *post)
{
    if (!post_touch(me, post))
        return false;
    if (post->way != NULL)
        return nccl_post_run(me, post, &vain);
    if (post->request != NULL)
        return remote_post_send(me, post, &vain);
    monitor_enter(me, &post->inbox->monitor);
    while (post->mate == NULL || !post->mate->ready)
        if (!post_await(me, post))
            return false;
    bool     fits  = posts_fit(me, post->mate, post);
    uint64_t since = fits ? post->mate->since : 0;
    monitor_leave(me, &post->inbox->monitor);
    if (!fits)
        return failed(me, E_MISMATCH, "%s", post->why);
    sched_advance_to(me, since);
    struct fault_message fault = { 0 };
    if (!post_carry(me, post, &fault))
        return false;
    if (fault.is_lost) {
        post_lose(me, post, &fault);
        return true;
    }
    return post_deliver(me, post) && (!fault.is_doubled || repeat_send(me, post));
}

/* In the monitor: what the second send brings, if that is the other end. */
static void
post_take_repeat(struct task *me, struct post *post)
{
    struct post *send = post->mate;
    if (send == NULL || send->repeat == NULL)
        return;
    if (posts_fit(me, post, send)) {
        memcpy(tensor_elements(post->tensor), send->repeat + 1, (size_t)tensor_bytes(post->tensor));
        post->flow    = send->flow;
        post->peer    = send->rank;
        post->arrival = send->arrival;
        post->done    = true;
    }
    post->mate = NULL;
    repeat_free(send->repeat);
}

static bool
post_receive(struct task *me, struct post *post)
{
    if (!post_touch(me, post))
        return false;
    if (post->way != NULL)
        return nccl_post_run(me, post, &vain);
    if (post->request != NULL)
        return remote_post_receive(me, post, &vain);
    uint64_t now = sched_now(me);
    monitor_enter(me, &post->inbox->monitor);
    post->since = now;
    post->ready = true;
    if (post->mate != NULL)
        post_call(me, post->mate);
    post_take_repeat(me, post);
    while (!post->done && !post->refused) {
        if (!post_await(me, post))
            return false;
        post_take_repeat(me, post);
    }
    monitor_leave(me, &post->inbox->monitor);
    if (post->refused)
        return failed(me, E_MISMATCH, "%s", post->why);
    sched_advance_to(me, post->arrival);
    return true;
}

/* Returns when the other side has received: there is no buffer in between. */
bool
local_send(struct task *me, struct post *post)
{
    int peer = world_rank(post, post->peer);
    tensor_announce(me, post->tensor, "tensor");
    STAGE(me, c10d_send, peer, tensor_bytes(post->tensor), post->tag);
    bool sent = post_send(me, post);
    post_end(me, post);
    return sent;
}

/* The tensor's elements are replaced by those of the first send that fits; post->peer is who sent it. */
bool
local_recv(struct task *me, struct post *post)
{
    int peer = world_rank(post, post->peer);
    tensor_announce(me, post->tensor, "tensor");
    STAGE(me, c10d_recv, peer, tensor_bytes(post->tensor), post->tag);
    bool received = post_receive(me, post);
    post_end(me, post);
    if (!received)
        return false;
    stage_set(&stage_, 0, world_rank(post, post->peer));
    stage_arrive(&stage_, post->flow);
    tensor_bump(post->tensor);
    tensor_tell(me, post->tensor);
    return tensor_changed(me, post->tensor, "recv");
}

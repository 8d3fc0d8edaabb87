/* Point to point between processes: a post is handed to the transport at once, so the order of the calls counts; who
 * sends or receives then waits for it. Lengths are compared, nobody compares dtypes. What a rank sends to itself is
 * post.c's alone. Order of use, all by post.c: remote_post_begin, remote_post_send or remote_post_receive,
 * remote_post_end. */
#include <stdio.h>
#include <string.h>
#include "c10d/job.h"
#include "c10d/remote.h"
#include "device/cells.h"
#include "device/stream.h"

/* Of a message's number among those between two ranks, for its arrow; receivers count when they know from whom. */
static uint32_t
post_flow(struct channel *channel, int from, int to, int64_t tag)
{
    uint64_t key = ((uint64_t)from * (uint64_t)channel->size + (uint64_t)to) << 32 ^ (uint64_t)tag, number = 0;
    (void)map_get(&channel->post_counts, key, &number);
    (void)map_set(&channel->post_counts, key, number + 1);
    return remote_flow(channel, from, to, number ^ (uint64_t)tag << 32 ^ UINT64_C(1) << 63);
}

/* What the transport says is told with who has died, if that is why. */
static void
begin_wait(struct task *me, struct post *post, const struct remote_vain *vain, struct remote_wait *wait)
{
    const struct wait_reason reason = { .what = post->name, .sequence = -1, .group = -1, .tag = post->tag,
                                        .peer = process_group_global_rank(post->group, post->peer),
                                        .detail = post->detail[0] != '\0' ? post->detail : NULL,
                                        .timeout_ps = group_timeout_ps(post->group) };
    remote_wait_begin(wait, me, post->channel, &reason);
    wait->vain = vain;
    wait->what = post;
}

static bool
hand_over(struct task *me, struct post *post)
{
    struct channel        *channel = post->channel;
    struct remote_channel *remote  = channel->remote;
    void                  *data    = tensor_elements(post->tensor);
    size_t                 bytes   = (size_t)tensor_bytes(post->tensor);
    uint32_t               tag     = remote_tag(post->tag);
    post->request->peer = post->peer;
    if (post->is_send) {
        monitor_enter(me, &channel->monitor);
        post->flow = post_flow(channel, post->rank, post->peer, post->tag);
        monitor_leave(me, &channel->monitor);
        return remote->table->send(remote->own, post->peer, tag, data, bytes, post->request);
    }
    return remote->table->recv(remote->own, post->peer, tag, data, bytes, post->request);
}

bool
remote_post_begin(struct task *me, struct post *post, const struct remote_vain *vain)
{
    if (post->tag >= REMOTE_TAGS || post->tag < -REMOTE_TAGS)
        return failed(me, E_VALUE, "%s: a tag between processes is at most %d", post->name, REMOTE_TAGS - 1);
    if (!post_ready(me, post))
        return false;
    post->request = host_take(me, sizeof *post->request);
    if (post->request == NULL)
        return false;
    if (hand_over(me, post))
        return true;
    struct remote_wait wait;
    begin_wait(me, post, vain, &wait);
    (void)remote_failed(&wait, &post->request->why);
    post->is_over = true;
    remote_post_end(me, post);
    return false;
}

void
remote_post_end(struct task *me, struct post *post)
{
    const struct remote_channel *remote = ((struct channel *)post->channel)->remote;
    if (!post->is_over)
        remote->table->cancel(remote->own, post->request);
    host_return(me, post->request, sizeof *post->request);
    post->request = NULL;
}

/* On the job's page: "recv from rank 1". */
static void
note(const struct post *post, bool inside)
{
    char text[64], peer[24] = "any rank";
    if (post->peer >= 0)
        snprintf(peer, sizeof peer, "rank %d", process_group_global_rank(post->group, post->peer));
    snprintf(text, sizeof text, "%s %s %s", post->is_send ? "send" : "recv", post->is_send ? "to" : "from", peer);
    job_note_call(((struct channel *)post->channel)->remote->job,
                  &(struct job_call){ .operation = text, .sequence = -1, .line = post->line, .inside = inside });
}

static bool
await(struct task *me, struct post *post, const struct remote_vain *vain)
{
    struct remote_wait wait;
    begin_wait(me, post, vain, &wait);
    note(post, true);
    post->is_over = true; /* done, failed or cancelled there */
    bool done = remote_await(&wait, post->request);
    if (done)
        note(post, false);
    return done;
}

struct carried { struct post *post; const struct remote_vain *vain; };

static bool
carry(struct task *me, struct hop *hop)
{
    const struct carried *carried = hop->context;
    return await(me, carried->post, carried->vain);
}

bool
remote_post_send(struct task *me, struct post *post, const struct remote_vain *vain)
{
    struct carried carried = { post, vain };
    struct hop hop = { .direct = true, .carry = carry, .context = &carried, .dtype = (int)post->tensor->dtype,
                       .send = { .data = tensor_elements(post->tensor), .bytes = (size_t)tensor_bytes(post->tensor) } };
    if (hop.send.bytes == 0)
        return await(me, post, vain);
    hop.out = link_between(me, post->channel, post->rank, post->peer);
    return hop.out != NULL && hop_run(me, NULL, &hop);
}

/* As many elements as were sent: fewer would leave some as they were. */
static bool
fits(struct task *me, const struct post *post)
{
    size_t room = (size_t)tensor_bytes(post->tensor), came = post->request->bytes;
    return came == room ||
           failed(me, E_MISMATCH, "rank %d sends %zu bytes where rank %d receives %zu",
                  process_group_global_rank(post->group, post->request->peer), came,
                  process_group_global_rank(post->group, post->rank), room);
}

/* From here on it is received; its arrow ends here. */
bool
remote_post_receive(struct task *me, struct post *post, const struct remote_vain *vain)
{
    struct channel *channel = post->channel;
    if (!await(me, post, vain) || !fits(me, post))
        return false;
    post->peer = post->request->peer;
    monitor_enter(me, &channel->monitor);
    post->flow = post_flow(channel, post->peer, post->rank, post->tag);
    monitor_leave(me, &channel->monitor);
    return true;
}

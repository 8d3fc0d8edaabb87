/* Messages of a transport's own algorithms as hops: each that leaves is a comm.hop, each that is waited for a
 * comm.receive, with one flow at both ends. They come on the thread that runs the collective, one inside of the
 * other or one after the other, so each is a stage that is opened in one call and closed in the next. */
#include "c10d/remote.h"

/* The number of a message from one rank to another among those of this collective. Both ends count, so that they agree;
 * in each collective anew. */
static uint64_t
message_number(struct remote_wait *wait, int from, int to)
{
    struct channel *channel  = wait->channel;
    uint64_t        key      = (uint64_t)from * (uint64_t)channel->size + (uint64_t)to, known = 0;
    uint64_t        sequence = (uint64_t)wait->call->sequence;
    bool            counts   = map_get(&channel->hop_counts, key, &known) && known >> 20 == sequence;
    uint64_t        next     = counts ? known : sequence << 20;
    (void)map_set(&channel->hop_counts, key, next + 1); /* without memory arrows are missing */
    return next;
}

static void
open_stage(struct remote_wait *wait, const struct transport_hop *hop)
{
    const struct channel *channel = wait->channel;
    const enum kind       kind    = hop->is_send ? KIND_comm_hop : KIND_comm_receive;
    wait->stage =
        (struct stage){ .me = wait->me,
                        .kind = (uint16_t)kind,
                        .args = { (int64_t)(hop->slot & 0xff), (int64_t)hop->bytes, channel->ranks[hop->peer], 0 } };
    stage_enter(&wait->stage);
    wait->in_stage = true;
}

void
remote_hop_begin(void *context, const struct transport_hop *hop)
{
    struct remote_wait *wait = context;
    int                 mine = wait->call->rank;
    if (wait->in_stage || !stage_enabled(wait->me, KIND_comm_hop))
        return;
    if (hop->is_send)
        stage_depart(wait->me, remote_flow(wait->channel, mine, hop->peer,
                                           message_number(wait, mine, hop->peer)));
    open_stage(wait, hop);
}

void
remote_hop_end(void *context, const struct transport_hop *hop)
{
    struct remote_wait *wait = context;
    int                 mine = wait->call->rank;
    if (!wait->in_stage)
        return;
    if (!hop->is_send && hop->peer >= 0) {
        wait->stage.args[2] = wait->channel->ranks[hop->peer];
        stage_arrive(&wait->stage, remote_flow(wait->channel, hop->peer, mine,
                                               message_number(wait, hop->peer, mine)));
    }
    stage_leave(&wait->stage);
    wait->in_stage = false;
}

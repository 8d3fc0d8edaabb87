/* Hops: what every algorithm is made of. In one hop a rank sends a message over one link, receives one over another, or
 * both at once; what comes takes the place of elements or is reduced into them. Each message is one comm.hop, told on
 * the lane of its sender; a rank that only receives tells comm.receive.
 * Order of use: fill a struct hop, hop_run. */
#include "c10d/local.h"
#include "sched/stage.h"

static bool
hop_take(struct task *me, const struct collective *call, struct hop *hop)
{
    struct reduction reduction = { .on = hop->reduce, .op = call->options.op };
    if (call->tensor != NULL)
        reduction.dtype = (int)call->tensor->dtype;
    return link_take(me, call, hop->in, &hop->receive, &reduction) &&
           (hop->received == NULL || hop->received(me, hop));
}

/* A message goes to one rank while another comes from another one, and is added to ours or takes its
 * place. The send comes first: if all received first, all would wait. Over when both have arrived. */
static bool
hop_send(struct task *me, const struct collective *call, struct hop *hop)
{
    int64_t bytes = (int64_t)hop->send.bytes;
    STAGE(me, comm_hop, hop->chunk, bytes, hop->out->receiver, hop->reduce);
    if (!link_put(me, call, hop->out, &hop->send))
        return false;
    if (hop->in != NULL && !hop_take(me, call, hop))
        return false;
    sched_advance_to(me, hop->send.arrival);
    if (hop->in != NULL)
        stage_arrive(&stage_, hop->receive.flow);
    return true;
}

/* Nothing of ours leaves meanwhile. */
static bool
hop_receive(struct task *me, const struct collective *call, struct hop *hop)
{
    int64_t bytes = (int64_t)hop->receive.bytes;
    STAGE(me, comm_receive, hop->chunk, bytes, hop->in->sender, hop->reduce);
    if (!hop_take(me, call, hop))
        return false;
    stage_arrive(&stage_, hop->receive.flow);
    return true;
}

/* An empty message is not sent, unless that is asked for: its receiver knows that too. */
bool
hop_run(struct task *me, const struct collective *call, struct hop *hop)
{
    if (task_failed(me))
        return false;
    if (hop->in != NULL && hop->receive.bytes == 0 && !hop->even_empty)
        hop->in = NULL;
    if (hop->out != NULL && (hop->send.bytes > 0 || hop->even_empty)) {
        hop->send.flow = sched_next_flow(me);
        stage_depart(me, hop->send.flow);
        return hop_send(me, call, hop);
    }
    return hop->in == NULL || hop_receive(me, call, hop);
}

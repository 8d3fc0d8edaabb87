/* All-to-all: inputs[j] of rank i becomes outputs[i] of rank j. In step s every rank sends to the one s after it and
 * receives from the one s before it, so no two messages of a step share a link or an end. Empty messages travel too:
 * they show that both ends agree on it. PyTorch: gloo's alltoall. */
#include "c10d/local.h"
#include "c10d/nccl_internal.h"
#include "c10d/remote.h"
#include "sched/stage.h"

static bool
all_to_all_received(struct task *me, struct hop *hop)
{
    struct tensor *tensor = hop->context;
    tensor_bump(tensor);
    tensor_tell(me, tensor);
    return true;
}

/* By the transport, all at once. */
static bool
received_all(struct task *me, const struct collective *call)
{
    for (int i = 1; i < call->ranks; i++)
        (void)all_to_all_received(me, &(struct hop){ .context = call->outputs[(call->rank + i) % call->ranks] });
    return true;
}

static bool
all_to_all_step(struct task *me, const struct collective *call, int step)
{
    int            to = (call->rank + step) % call->ranks, from = (call->rank - step + call->ranks) % call->ranks;
    struct tensor *out = call->inputs[to], *in = call->outputs[from];
    struct link   *there = link_between(me, call->channel, call->rank, to);
    struct link   *here  = link_between(me, call->channel, from, call->rank);
    struct hop     hop = { .chunk = to, .even_empty = true, .out = there, .in = here,
                           .send = { .data = tensor_elements(out), .bytes = (size_t)tensor_bytes(out) },
                           .receive = { .data = tensor_elements(in), .bytes = (size_t)tensor_bytes(in) },
                           .received = all_to_all_received, .context = in };
    return there != NULL && here != NULL && hop_run(me, call, &hop);
}

/* Everybody to everybody; what a rank has for itself stays there. */
bool
local_all_to_all(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_alltoall, call->sequence, call->bytes, call->elements, call->ranks);
    for (int i = 0; i < call->ranks; i++)
        if (!tensor_touch(me, call->inputs[i], false, "all-to-all") ||
            !tensor_touch(me, call->outputs[i], true, "all-to-all"))
            return false;
    if (nccl_takes(call))
        return nccl_run(me, call);
    tensor_paste(me, call->outputs[call->rank], call->inputs[call->rank]);
    tensor_bump(call->outputs[call->rank]);
    if (remote_takes(call))
        return remote_run(me, call) && received_all(me, call);
    for (int step = 1; step < call->ranks; step++)
        if (!all_to_all_step(me, call, step))
            return false;
    return true;
}

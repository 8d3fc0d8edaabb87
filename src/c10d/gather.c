/* Gather and scatter: each rank and the root, directly. The root sends or receives one message a rank, one after the
 * other, beginning with the rank after it. PyTorch: gloo's gather and scatter. */
#include "c10d/local.h"
#include "c10d/nccl_internal.h"
#include "c10d/remote.h"
#include "sched/stage.h"

/* Pieces are numbered by the rank that is not the root. */
static bool
send_to(struct task *me, const struct collective *call, struct tensor *tensor, int to)
{
    struct hop hop = { .chunk = to == call->options.root ? call->rank : to,
                       .out = link_between(me, call->channel, call->rank, to),
                       .send = { .data = tensor_elements(tensor), .bytes = (size_t)tensor_bytes(tensor) } };
    return hop.out != NULL && hop_run(me, call, &hop);
}

static bool
received(struct task *me, struct tensor *tensor)
{
    tensor_bump(tensor);
    tensor_tell(me, tensor);
    return true;
}

static bool
receive_from(struct task *me, const struct collective *call, struct tensor *tensor, int from)
{
    struct hop hop = { .chunk = from == call->options.root ? call->rank : from,
                       .in = link_between(me, call->channel, from, call->rank),
                       .receive = { .data = tensor_elements(tensor), .bytes = (size_t)tensor_bytes(tensor) } };
    return hop.in != NULL && hop_run(me, call, &hop) && received(me, tensor);
}

/* By the transport, all at once. */
static bool
received_all(struct task *me, const struct collective *call)
{
    for (int i = 1; i < call->ranks; i++)
        (void)received(me, call->outputs[(call->options.root + i) % call->ranks]);
    return true;
}

static bool
touch_all(struct task *me, const struct collective *call, struct tensor *const *tensors, bool write, const char *what)
{
    for (int i = 0; i < call->ranks; i++)
        if (!tensor_touch(me, tensors[i], write, what))
            return false;
    return true;
}

/* Rank r's tensor becomes outputs[r] of the root. */
bool
local_gather(struct task *me, const struct collective *call)
{
    int root = call->options.root;
    STAGE(me, c10d_gather, call->sequence, call->bytes, root, call->ranks);
    if (!tensor_touch(me, call->tensor, false, "gather"))
        return false;
    if (nccl_takes(call))
        return nccl_run(me, call);
    bool carried = remote_takes(call);
    if (call->rank != root)
        return carried ? remote_run(me, call) : send_to(me, call, call->tensor, root);
    if (!touch_all(me, call, call->outputs, true, "gather"))
        return false;
    tensor_paste(me, call->outputs[root], call->tensor);
    tensor_bump(call->outputs[root]);
    if (carried)
        return remote_run(me, call) && received_all(me, call);
    for (int i = 1; i < call->ranks; i++) {
        int from = (root + i) % call->ranks;
        if (!receive_from(me, call, call->outputs[from], from))
            return false;
    }
    return true;
}

/* inputs[r] of the root becomes rank r's tensor. */
bool
local_scatter(struct task *me, const struct collective *call)
{
    int root = call->options.root;
    STAGE(me, c10d_scatter, call->sequence, call->bytes, root, call->ranks);
    if (!tensor_touch(me, call->tensor, true, "scatter"))
        return false;
    if (nccl_takes(call))
        return nccl_run(me, call);
    bool carried = remote_takes(call);
    if (call->rank != root)
        return carried ? remote_run(me, call) && received(me, call->tensor)
                       : receive_from(me, call, call->tensor, root);
    if (!touch_all(me, call, call->inputs, false, "scatter"))
        return false;
    if (carried && !remote_run(me, call))
        return false;
    for (int i = 1; i < call->ranks && !carried; i++) {
        int to = (root + i) % call->ranks;
        if (!send_to(me, call, call->inputs[to], to))
            return false;
    }
    tensor_paste(me, call->tensor, call->inputs[root]);
    tensor_bump(call->tensor);
    return true;
}

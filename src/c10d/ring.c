/* Rings: every rank sends to one neighbour and receives from the other, so all links are busy all the time.
 * An all-reduce goes round twice: reduce-scatter leaves each rank with one chunk that holds everybody's sum, all-gather
 * shows it to the others. Bytes sent by a rank: 2 (N-1)/N of the tensor, whatever N is. A rank sends to rank + 1; with
 * `ring_backwards` to rank - 1, in Gloo's chunks and order of additions. In PyTorch: gloo's ring, NCCL's ring. */
#include <string.h>
#include "c10d/local.h"
#include "sched/stage.h"

/* Small tensors in small worlds tell the trace their elements after every hop, the others at the end. */
enum { TOLD_BYTES = 4096 };

/* One time round, as one rank sees it: it sends chunk `first`, then each time the one that came last. */
struct ring_order {
    int rank, size;
    int turn;                    /* 1: sends to rank + 1; -1: to rank - 1 */
    int first;                   /* the chunk that it sends first */
};

struct ring {
    const struct collective *call;
    struct ring_order        order;
    struct link             *out, *in;
    struct tensor   *whole;      /* cut in chunks; NULL: an all-gather's chunk r is outputs[r] */
    char            *data;       /* its elements */
    int64_t          bytes, chunk_bytes;
    struct reduction reduction;
};

struct hop { int send, receive; bool reduce; uint32_t flow; int64_t bytes; };

/* ---- the order ---- */

static int
ring_place(const struct ring_order *order, int number)
{
    return ((number % order->size) + order->size) % order->size;
}

/* The chunk that is sent as number `step`; one later it is the one that was received. */
static int
ring_chunk_at(const struct ring_order *order, int step)
{
    return ring_place(order, order->first - order->turn * step);
}

/* Gloo's ring begins with the chunk of the rank that it receives from: so each rank ends with its own. */
static struct ring_order
ring_order_of(const struct collective *call)
{
    bool backwards = call->options.ring_backwards;
    return (struct ring_order){ .rank = call->rank, .size = call->ranks, .turn = backwards ? -1 : 1,
                                .first = backwards ? call->rank + 1 : call->rank };
}

static bool
ring_links(struct task *me, struct ring *ring)
{
    const struct ring_order *order = &ring->order;
    int next = ring_place(order, order->rank + order->turn), previous = ring_place(order, order->rank - order->turn);
    ring->out = link_between(me, ring->call->transport, order->rank, next);
    ring->in  = link_between(me, ring->call->transport, previous, order->rank);
    return ring->out != NULL && ring->in != NULL;
}

/* ---- hops ---- */

/* Chunk `index` as a message: the last ones may be short or empty. */
static struct message
ring_chunk(const struct ring *ring, int index)
{
    if (ring->data == NULL)
        return (struct message){ .data = tensor_elements(ring->call->outputs[index]), .bytes = (size_t)ring->bytes };
    int64_t begin = ring->chunk_bytes * index, end = begin + ring->chunk_bytes;
    begin = begin < ring->bytes ? begin : ring->bytes;
    end   = end < ring->bytes ? end : ring->bytes;
    return (struct message){ .data = ring->data + begin, .bytes = (size_t)(end - begin) };
}

static bool
ring_receive(struct task *me, struct ring *ring, const struct hop *hop, struct message *message)
{
    struct reduction reduction = ring->reduction;
    reduction.on = hop->reduce;
    if (!link_take(me, ring->call, ring->in, message, &reduction))
        return false;
    if (ring->data == NULL)
        tensor_tell(me, ring->call->outputs[hop->receive]);
    else if (ring->bytes * ring->order.size <= TOLD_BYTES)
        tensor_tell(me, ring->whole);
    return true;
}

/* One step of the ring: a chunk goes to one neighbour while another comes from the other one, and is added to ours
 * (reduce-scatter) or takes its place (all-gather). The send comes first: if all received first, all would wait. */
static bool
ring_hop(struct task *me, struct ring *ring, const struct hop *hop)
{
    STAGE(me, comm_hop, hop->send, hop->bytes, ring->out->to, hop->reduce);
    struct message out = ring_chunk(ring, hop->send);
    struct message in  = ring_chunk(ring, hop->receive);
    out.flow = hop->flow;
    if (!link_put(me, ring->call, ring->out, &out))
        return false;
    if (in.bytes > 0 && !ring_receive(me, ring, hop, &in))
        return false;
    sched_advance_to(me, out.arrival);
    stage_arrive(&stage_, in.flow);
    return true;
}

/* An empty chunk is not sent: its receiver knows that too. */
static bool
ring_step(struct task *me, struct ring *ring, struct hop *hop)
{
    if (task_failed(me))
        return false;
    hop->bytes = (int64_t)ring_chunk(ring, hop->send).bytes;
    if (hop->bytes > 0) {
        hop->flow = sched_next_flow(me);
        stage_depart(me, hop->flow);
        return ring_hop(me, ring, hop);
    }
    struct message in = ring_chunk(ring, hop->receive);
    return in.bytes == 0 || ring_receive(me, ring, hop, &in);
}

/* Once round: N - 1 steps, in each of which every chunk but one moves on by a rank. */
static bool
ring_round(struct task *me, struct ring *ring, bool reduce)
{
    for (int step = 0; step < ring->order.size - 1; step++) {
        struct hop hop = { .send    = ring_chunk_at(&ring->order, step),
                           .receive = ring_chunk_at(&ring->order, step + 1), .reduce = reduce };
        if (!ring_step(me, ring, &hop))
            return false;
    }
    return true;
}

/* ---- collectives ---- */

/* torch.chunk's rule: ceil(n / N) elements each, the last take what is left. Gloo cuts finer and rounds up twice. */
static int64_t
ring_chunk_bytes(const struct collective *call, int64_t element)
{
    int64_t size = call->ranks, bytes = call->bytes;
    if (!call->options.ring_backwards)
        return (bytes / element + size - 1) / size * element;
    int64_t segments = (bytes + (1 << 20) - 1) >> 20;
    segments = segments > 2 * size ? segments : 2 * size;
    segments = (segments + size - 1) / size * size;
    int64_t segment = (bytes + segments - 1) / segments;
    return segments / size * ((segment + element - 1) / element * element);
}

/* The chunk that came last has everybody's part in it: this rank owns it, and AVG is divided here, once. */
static bool
ring_reduce_scatter(struct task *me, struct ring *ring)
{
    int ranks = ring->order.size;
    if (!ring_round(me, ring, true))
        return false;
    ring->order.first = ring_chunk_at(&ring->order, ranks - 1);
    if (ring->reduction.op == REDUCE_AVG) {
        struct message mine = ring_chunk(ring, ring->order.first);
        reduce_average(ring->reduction.dtype, mine.data, mine.bytes, ranks);
    }
    return true;
}

/* Each rank begins with the chunk that it owns and passes on what came last. */
static bool
ring_all_gather(struct task *me, struct ring *ring)
{
    return ring_round(me, ring, false);
}

/* All ranks end with the sum (mean, product, ...) of their tensors: reduce-scatter, then all-gather. Each element is
 * summed once, by the owner of its chunk, so the result has the same bits everywhere. */
bool
local_all_reduce(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_allreduce, call->sequence, call->bytes, call->elements, call->ranks);
    struct tensor *tensor = call->tensor;
    struct ring    ring   = { .call = call, .whole = tensor, .bytes = call->bytes };
    if (!tensor_touch(me, tensor, true, "all-reduce"))
        return false;
    if (ring.bytes == 0 || call->ranks == 1)
        return true;
    ring.order           = ring_order_of(call);
    ring.data            = tensor_elements(tensor);
    ring.chunk_bytes     = ring_chunk_bytes(call, (int64_t)dtype_size(tensor->dtype));
    ring.reduction.op    = call->options.op;
    ring.reduction.dtype = (int)tensor->dtype;
    if (!ring_links(me, &ring))
        return false;

    if (!ring_reduce_scatter(me, &ring) || !ring_all_gather(me, &ring))
        return false;
    tensor_bump(tensor);
    if (ring.bytes * call->ranks > TOLD_BYTES)
        tensor_tell(me, tensor);
    return true;
}

/* Where it all goes: one tensor for each rank, or a whole one whose part r is rank r's chunk. */
static bool
ring_touch_outputs(struct task *me, const struct collective *call)
{
    if (call->gathered != NULL)
        return tensor_touch(me, call->gathered, true, "all-gather");
    for (int i = 0; i < call->ranks; i++)
        if (!tensor_touch(me, call->outputs[i], true, "all-gather"))
            return false;
    return true;
}

/* This rank's chunk is the first to be there. */
static void
ring_begin_gather(struct task *me, struct ring *ring)
{
    const struct collective *call = ring->call;
    ring->order = ring_order_of(call);
    if (ring->whole == NULL) {
        tensor_paste(me, call->outputs[call->rank], call->tensor);
        return;
    }
    ring->data        = tensor_elements(ring->whole);
    ring->chunk_bytes = ring->bytes;
    ring->bytes      *= call->ranks;
    memmove(ring_chunk(ring, call->rank).data, tensor_elements(call->tensor), (size_t)ring->chunk_bytes);
}

static void
ring_end_gather(struct task *me, const struct ring *ring)
{
    for (int i = 0; ring->whole == NULL && i < ring->call->ranks; i++)
        tensor_bump(ring->call->outputs[i]);
    if (ring->whole == NULL)
        return;
    tensor_bump(ring->whole);
    if (ring->bytes * ring->call->ranks > TOLD_BYTES)
        tensor_tell(me, ring->whole);
}

/* Rank r's tensor becomes outputs[r], or part r of the whole, on all ranks: the second half of an all-reduce, with
 * whole tensors as chunks. */
bool
local_all_gather(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_allgather, call->sequence, call->bytes, call->elements, call->ranks);
    struct ring ring = { .call = call, .whole = call->gathered, .bytes = call->bytes };
    if (!tensor_touch(me, call->tensor, false, "all-gather") ||
        !ring_touch_outputs(me, call))
        return false;
    if (ring.bytes == 0)
        return true;
    ring_begin_gather(me, &ring);
    if (call->ranks > 1 && (!ring_links(me, &ring) || !ring_all_gather(me, &ring)))
        return false;
    ring_end_gather(me, &ring);
    return true;
}

/* Rings: every rank sends to one neighbour and receives from the other, so all links are busy all the time.
 * An all-reduce goes round twice: reduce-scatter leaves each rank with one chunk that holds everybody's sum, all-gather
 * shows it to the others. Bytes sent by a rank: 2 (N-1)/N of the tensor, whatever N is. A rank sends to rank - 1, in
 * Gloo's chunks and order of additions; with `ring_forwards` to rank + 1, in NCCL's.
 * PyTorch: the rings of gloo and NCCL. */
#include "c10d/local.h"
#include "sched/stage.h"

/* Above it, over all ranks, a tensor tells the trace its elements at the end only. */
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
    char            *data;       /* all-reduce: one tensor cut in chunks; all-gather: NULL, chunk r is outputs[r] */
    int64_t          bytes, chunk_bytes;
    int              step;       /* of this time round */
};

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
ring_order_of(const struct collective *call, bool backwards)
{
    return (struct ring_order){ .rank = call->rank, .size = call->ranks, .turn = backwards ? -1 : 1,
                                .first = backwards ? call->rank + 1 : call->rank };
}

static bool
ring_links(struct task *me, struct ring *ring)
{
    const struct ring_order *order = &ring->order;
    int next = ring_place(order, order->rank + order->turn), previous = ring_place(order, order->rank - order->turn);
    ring->out = link_between(me, ring->call->channel, order->rank, next);
    ring->in  = link_between(me, ring->call->channel, previous, order->rank);
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

/* Small tensors in small worlds tell the trace their elements after every hop. */
static bool
ring_received(struct task *me, struct hop *hop)
{
    const struct ring *ring = hop->context;
    if (ring->data == NULL)
        tensor_tell(me, ring->call->outputs[ring_chunk_at(&ring->order, ring->step + 1)]);
    else if (ring->bytes * ring->order.size <= TOLD_BYTES)
        tensor_tell(me, ring->call->tensor);
    return true;
}

/* Once round: N - 1 steps, in each of which every chunk but one moves on by a rank. */
static bool
ring_round(struct task *me, struct ring *ring, bool reduce)
{
    for (int step = 0; step < ring->order.size - 1; step++) {
        int        mine = ring_chunk_at(&ring->order, step), theirs = ring_chunk_at(&ring->order, step + 1);
        struct hop hop  = { .chunk = mine, .reduce = reduce, .out = ring->out, .in = ring->in,
                            .send = ring_chunk(ring, mine), .receive = ring_chunk(ring, theirs),
                            .received = ring_received, .context = ring };
        ring->step = step;
        if (!hop_run(me, ring->call, &hop))
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
    if (call->options.ring_forwards)
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
    if (ring->call->options.op == REDUCE_AVG) {
        struct message mine = ring_chunk(ring, ring->order.first);
        reduce_average((int)ring->call->tensor->dtype, mine.data, mine.bytes, ranks);
    }
    return true;
}

/* Each rank begins with the chunk that it owns and passes on what came last. */
static bool
ring_all_gather(struct task *me, struct ring *ring)
{
    return ring_round(me, ring, false);
}

/* Somebody else's algorithm, of sends and receives. */
static bool
local_custom(struct task *me, const struct collective *call)
{
    const struct custom_algorithm *custom = call->options.custom;
    if (!custom->run(me, custom->context, call->tensor, call->options.op))
        return false;
    tensor_tell(me, call->tensor);
    return true;
}

/* All ranks end with the sum (mean, product, ...) of their tensors: reduce-scatter, then all-gather. Each element is
 * summed once, by the owner of its chunk, so the result has the same bits everywhere. */
bool
local_all_reduce(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_allreduce, call->sequence, call->bytes, call->elements, call->ranks);
    struct tensor *tensor = call->tensor;
    struct ring    ring   = { .call = call, .bytes = call->bytes };
    if (!tensor_touch(me, tensor, true, "all-reduce"))
        return false;
    if (call->options.custom != NULL)
        return local_custom(me, call);
    if (ring.bytes == 0 || call->ranks == 1)
        return true;
    ring.order           = ring_order_of(call, !call->options.ring_forwards);
    ring.data            = tensor_elements(tensor);
    ring.chunk_bytes     = ring_chunk_bytes(call, (int64_t)dtype_size(tensor->dtype));
    if (!ring_links(me, &ring))
        return false;

    if (!ring_reduce_scatter(me, &ring) || !ring_all_gather(me, &ring))
        return false;
    tensor_bump(tensor);
    if (ring.bytes * call->ranks > TOLD_BYTES)
        tensor_tell(me, tensor);
    return true;
}

/* Rank r's tensor becomes outputs[r] on all ranks: the second half of an all-reduce, with whole tensors as chunks. */
bool
local_all_gather(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_allgather, call->sequence, call->bytes, call->elements, call->ranks);
    struct ring ring = { .call = call, .bytes = call->bytes };
    if (!tensor_touch(me, call->tensor, false, "all-gather"))
        return false;
    for (int i = 0; i < call->ranks; i++)
        if (!tensor_touch(me, call->outputs[i], true, "all-gather"))
            return false;
    if (ring.bytes == 0)
        return true;
    ring.order = ring_order_of(call, false);
    tensor_paste(me, call->outputs[call->rank], call->tensor);
    if (call->ranks > 1 && (!ring_links(me, &ring) || !ring_all_gather(me, &ring)))
        return false;
    for (int i = 0; i < call->ranks; i++)
        tensor_bump(call->outputs[i]);
    return true;
}

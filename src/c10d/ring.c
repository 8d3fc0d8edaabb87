/* Rings: every rank sends to one neighbour and receives from the other, so all links are busy all the time.
 * An all-reduce goes round twice: reduce-scatter leaves each rank with one chunk that holds everybody's sum, all-gather
 * shows it to the others. Bytes sent by a rank: 2 (N-1)/N of the tensor, whatever N is. A rank sends to rank + 1; with
 * `ring_backwards` to rank - 1, in Gloo's chunks and order of additions. In PyTorch: gloo's ring, NCCL's ring. */
#include "c10d/internal.h"
#include "sched/stage.h"

/* Small tensors in small worlds tell the trace their elements after every hop, the others at the end. */
enum { TOLD_BYTES = 4096 };

struct ring {
    struct work     *work;
    struct link     *out, *in;
    char            *data;       /* all-reduce: one tensor cut in chunks; all-gather: NULL, chunk r is outputs[r] */
    int64_t          bytes, chunk_bytes;
    struct reduction reduction;
};

struct hop { int send, receive; bool reduce; uint32_t flow; int64_t bytes; };

static int
ring_place(int number, int size)
{
    return ((number % size) + size) % size;
}

/* Chunk `index` as a message: the last ones may be short or empty. */
static struct message
ring_chunk(const struct ring *ring, int index)
{
    if (ring->data == NULL)
        return (struct message){ .data = tensor_elements(ring->work->outputs[index]), .bytes = (size_t)ring->bytes };
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
    if (!link_take(me, ring->work, ring->in, message, &reduction))
        return false;
    if (ring->data == NULL)
        tensor_tell(me, ring->work->outputs[hop->receive]);
    else if (ring->bytes * ring->work->ranks <= TOLD_BYTES)
        tensor_tell(me, ring->work->tensor);
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
    if (!link_put(me, ring->work, ring->out, &out))
        return false;
    if (in.bytes > 0 && !ring_receive(me, ring, hop, &in))
        return false;
    sched_advance_to(me, out.arrival);
    stage_arrive(&stage_, in.flow);
    return true;
}

/* An empty chunk is not sent: its receiver knows that too. */
static bool
ring_step(struct task *me, struct ring *ring, int send, int receive, bool reduce)
{
    int        size = ring->work->ranks;
    struct hop hop  = { ring_place(send, size), ring_place(receive, size), reduce, 0, 0 };
    if (task_failed(me))
        return false;
    hop.bytes = (int64_t)ring_chunk(ring, hop.send).bytes;
    if (hop.bytes > 0) {
        hop.flow = sched_next_flow(me);
        stage_depart(me, hop.flow);
        return ring_hop(me, ring, &hop);
    }
    struct message in = ring_chunk(ring, hop.receive);
    return in.bytes == 0 || ring_receive(me, ring, &hop, &in);
}

static bool
ring_links(struct task *me, struct ring *ring, int step)
{
    struct process_group *group = ring->work->group;
    int                   size  = group->world->size;
    ring->out = world_link(me, group->world, group->rank, ring_place(group->rank + step, size));
    ring->in  = world_link(me, group->world, ring_place(group->rank - step, size), group->rank);
    return ring->out != NULL && ring->in != NULL;
}

/* torch.chunk's rule: ceil(n / N) elements each, the last take what is left. Gloo cuts finer and rounds up twice. */
static int64_t
ring_chunk_bytes(const struct work *work, int64_t element)
{
    int64_t size = work->ranks, bytes = work->bytes;
    if (!work->options.ring_backwards)
        return (bytes / element + size - 1) / size * element;
    int64_t segments = (bytes + (1 << 20) - 1) >> 20;
    segments = segments > 2 * size ? segments : 2 * size;
    segments = (segments + size - 1) / size * size;
    int64_t segment = (bytes + segments - 1) / segments;
    return segments / size * ((segment + element - 1) / element * element);
}

/* After N - 1 steps this rank owns one chunk that everybody has added to. */
static bool
ring_reduce_scatter(struct task *me, struct ring *ring)
{
    const struct work *work = ring->work;
    int rank = work->group->rank, size = work->ranks;
    for (int step = 0; step < size - 1; step++) {
        bool done = work->options.ring_backwards
                        ? ring_step(me, ring, rank + 1 + step, rank + 2 + step, true)
                        : ring_step(me, ring, rank - step, rank - step - 1, true);
        if (!done)
            return false;
    }
    return true;
}

/* Each rank begins with the chunk that it owns and passes on what came last. */
static bool
ring_all_gather(struct task *me, struct ring *ring, int owned)
{
    int size = ring->work->ranks;
    int back = ring->work->options.ring_backwards ? -1 : 1;
    for (int step = 0; step < size - 1; step++)
        if (!ring_step(me, ring, owned - back * step, owned - back * (step + 1), false))
            return false;
    return true;
}

/* All ranks end with the sum (mean, product, ...) of their tensors: reduce-scatter, then all-gather. Each element is
 * summed once, by the owner of its chunk, so the result has the same bits everywhere. */
bool
local_all_reduce(struct task *me, struct work *work)
{
    STAGE(me, c10d_allreduce, work->sequence, work->bytes, work->elements, work->ranks);
    struct tensor *tensor = work->tensor;
    int            rank = work->group->rank, size = work->ranks;
    struct ring    ring = { .work = work, .bytes = work->bytes };
    if (!tensor_touch(me, tensor, true, "all-reduce"))
        return false;
    if (ring.bytes == 0 || size == 1)
        return true;
    ring.data            = tensor_elements(tensor);
    ring.chunk_bytes     = ring_chunk_bytes(work, (int64_t)dtype_size(tensor->dtype));
    ring.reduction.op    = work->options.op;
    ring.reduction.dtype = (int)tensor->dtype;
    if (!ring_links(me, &ring, work->options.ring_backwards ? -1 : 1))
        return false;

    if (!ring_reduce_scatter(me, &ring))
        return false;
    int owned = ring_place(work->options.ring_backwards ? rank : rank + 1, size);
    if (work->options.op == REDUCE_AVG) {
        struct message mine = ring_chunk(&ring, owned);
        reduce_average((int)tensor->dtype, mine.data, mine.bytes, size);
    }
    if (!ring_all_gather(me, &ring, owned))
        return false;
    tensor_bump(tensor);
    if (ring.bytes * size > TOLD_BYTES)
        tensor_tell(me, tensor);
    return true;
}

/* Rank r's tensor becomes outputs[r] on all ranks: the second half of an all-reduce, with whole tensors as chunks. */
bool
local_all_gather(struct task *me, struct work *work)
{
    STAGE(me, c10d_allgather, work->sequence, work->bytes, work->elements, work->ranks);
    int         rank = work->group->rank, size = work->ranks;
    struct ring ring = { .work = work, .bytes = work->bytes };
    if (!tensor_touch(me, work->tensor, false, "all-gather"))
        return false;
    for (int i = 0; i < size; i++)
        if (!tensor_touch(me, work->outputs[i], true, "all-gather"))
            return false;
    if (ring.bytes == 0)
        return true;
    tensor_paste(me, work->outputs[rank], work->tensor);
    if (size > 1 && (!ring_links(me, &ring, 1) || !ring_all_gather(me, &ring, rank)))
        return false;
    for (int i = 0; i < size; i++)
        tensor_bump(work->outputs[i]);
    return true;
}

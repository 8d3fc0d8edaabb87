/* Rings: every rank sends to one neighbour and receives from the other, so all links are busy all the time.
 * An all-reduce goes round twice: reduce-scatter leaves each rank with one chunk that holds everybody's sum, all-gather
 * shows it to the others. Bytes sent by a rank: 2 (N-1)/N of the tensor, whatever N is. A rank sends to rank - 1, in
 * Gloo's chunks and order of additions; with `ring_forwards` to rank + 1, in NCCL's.
 * Order of use: fill a struct ring, ring_open, then a round or two. PyTorch: the rings of gloo and NCCL. */
#include <string.h>
#include "c10d/local.h"
#include "c10d/nccl_internal.h"
#include "c10d/remote.h"
#include "sched/stage.h"

/* ---- the order ---- */

static int
ring_place(const struct ring *ring, int number)
{
    return ((number % ring->size) + ring->size) % ring->size;
}

static int
ring_turn(const struct ring *ring)
{
    return ring->forwards ? 1 : -1;
}

/* The rank of the group so many places further. */
static int
ring_rank(const struct ring *ring, int places)
{
    int apart = ring->apart > 0 ? ring->apart : 1;
    return ring->first_rank + apart * ring_place(ring, ring->place + places);
}

/* The chunk that is sent as number `step` of a round that begins with `first`; one later it is the one that was
 * received. */
static int
ring_chunk_at(const struct ring *ring, int first, int step)
{
    return ring_place(ring, first - ring_turn(ring) * step);
}

/* Gloo's ring begins with the chunk of the rank that it receives from: so each rank ends with its own. */
static int
ring_first(const struct ring *ring)
{
    return ring_place(ring, ring->forwards ? ring->place : ring->place + 1);
}

bool
ring_open(struct task *me, struct ring *ring)
{
    const struct collective *call = ring->call;
    if (ring->size == 1 || rehearses(call))
        return true;
    ring->out = link_between(me, call->channel, call->rank, ring_rank(ring, ring_turn(ring)));
    ring->in  = link_between(me, call->channel, ring_rank(ring, -ring_turn(ring)), call->rank);
    return ring->out != NULL && ring->in != NULL;
}

/* ---- rounds ---- */

/* An all-gather's chunk `index` is output `index`, or that part of the one tensor it gathers into. */
static struct message
gathered_chunk(const struct collective *call, int index)
{
    if (call->gathered != NULL)
        return (struct message){ .data = (char *)tensor_elements(call->gathered) + index * call->bytes,
                                 .bytes = (size_t)call->bytes };
    return (struct message){ .data = tensor_elements(call->outputs[index]),
                             .bytes = (size_t)tensor_bytes(call->outputs[index]) };
}

static bool
is_gather(const struct collective *call)
{
    return call->outputs != NULL || call->gathered != NULL;
}

/* The last ones may be short or empty. */
static struct part
ring_chunk(const struct ring *ring, int index)
{
    if (ring->chunk == 0)
        return part_of(ring->part, index, ring->size);
    int64_t count = ring->part.count, begin = ring->chunk * index, end = begin + ring->chunk;
    begin = begin < count ? begin : count;
    end   = end < count ? end : count;
    return (struct part){ ring->part.first + begin, end - begin };
}

/* A whole tensor of an all-gather has come. */
static bool
ring_gathered(struct task *me, struct hop *hop)
{
    if (hop->context != NULL)
        tensor_tell(me, hop->context);
    return true;
}

static bool
gather_step(struct task *me, const struct ring *ring, int mine, int theirs)
{
    const struct collective *call = ring->call;
    struct hop hop = { .chunk = ring->first_chunk + mine, .out = ring->out, .in = ring->in,
                       .send = gathered_chunk(call, mine), .receive = gathered_chunk(call, theirs),
                       .received = ring_gathered, .context = call->outputs != NULL ? call->outputs[theirs] : NULL };
    hop.send.in_place = true;
    return hop_run(me, call, &hop);
}

static bool
sum_step(struct task *me, const struct ring *ring, int mine, int theirs, bool reduce)
{
    struct exchange step = { .to = ring_rank(ring, ring_turn(ring)), .from = ring_rank(ring, -ring_turn(ring)),
                             .out = ring->out, .in = ring->in, .chunk = ring->first_chunk + mine,
                             .send = ring_chunk(ring, mine), .receive = ring_chunk(ring, theirs),
                             .reduce = reduce, .in_place = true };
    return exchange_run(me, ring->call, &step);
}

/* Once round: N - 1 steps, in each of which every chunk but one moves on by a rank. */
static bool
ring_round(struct task *me, struct ring *ring, int first, bool reduce)
{
    bool ok = true;
    for (int step = 0; step < ring->size - 1 && ok; step++) {
        int mine = ring_chunk_at(ring, first, step), theirs = ring_chunk_at(ring, first, step + 1);
        ok = is_gather(ring->call) ? gather_step(me, ring, mine, theirs) : sum_step(me, ring, mine, theirs, reduce);
    }
    return ok;
}

/* The chunk that came last has everybody's part in it: this rank owns it. */
bool
ring_reduce_scatter(struct task *me, struct ring *ring)
{
    return ring_round(me, ring, ring_first(ring), true);
}

/* Each rank begins with the chunk that it owns and passes on what came last. */
bool
ring_all_gather(struct task *me, struct ring *ring)
{
    return ring_round(me, ring, ring_chunk_at(ring, ring_first(ring), ring->size - 1), false);
}

/* ---- collectives ---- */

int64_t
gloo_chunk(const struct collective *call)
{
    int64_t element = call->bytes / call->elements;
    return gloo_chunk_bytes(call->bytes, element, call->ranks) / element;
}

int64_t
gloo_chunk_bytes(int64_t bytes, int64_t element, int64_t size)
{
    int64_t segments = (bytes + (1 << 20) - 1) >> 20;
    segments = segments > 2 * size ? segments : 2 * size;
    segments = (segments + size - 1) / size * size;
    int64_t segment = (bytes + segments - 1) / segments;
    return segments / size * ((segment + element - 1) / element * element);
}

static bool
ring_all_reduce(struct task *me, const struct collective *call)
{
    struct ring ring = { .call = call, .place = call->rank, .size = call->ranks,
                         .forwards = call->options.ring_forwards, .part = { 0, call->elements } };
    ring.chunk = ring.forwards ? 0 : gloo_chunk(call);
    return ring_open(me, &ring) && ring_reduce_scatter(me, &ring) && ring_all_gather(me, &ring);
}

static struct cut
ring_cut(const struct collective *call)
{
    return (struct cut){ call->ranks, 1, call->options.ring_forwards ? 0 : gloo_chunk(call) };
}

const struct algorithm algorithm_ring = {
    "ring", ring_all_reduce, ring_cut, true, "2 N (N-1)", "2 (N-1)/N S",
    "a chunk a rank goes round twice, first adding up, then telling the sum; all links are busy all the time"
};

/* Where it all goes: one tensor for each rank, or one whose part r is rank r's. */
static bool
touch_gathered(struct task *me, const struct collective *call)
{
    if (call->gathered != NULL)
        return tensor_touch(me, call->gathered, true, "all-gather");
    for (int i = 0; i < call->ranks; i++)
        if (!tensor_touch(me, call->outputs[i], true, "all-gather"))
            return false;
    return true;
}

static void
paste_mine(struct task *me, const struct collective *call)
{
    if (call->gathered == NULL)
        tensor_paste(me, call->outputs[call->rank], call->tensor);
    else if (call->bytes > 0)
        memcpy(gathered_chunk(call, call->rank).data, tensor_elements(call->tensor), (size_t)call->bytes);
}

static void
bump_gathered(struct task *me, const struct collective *call)
{
    for (int i = 0; call->outputs != NULL && i < call->ranks; i++)
        tensor_bump(call->outputs[i]);
    if (call->gathered != NULL) {
        tensor_bump(call->gathered);
        tensor_tell(me, call->gathered);
    }
}

/* Rank r's tensor becomes outputs[r], or part r of the one that is gathered into, on all ranks: the second
 * half of an all-reduce, with whole tensors as chunks. */
bool
local_all_gather(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_allgather, call->sequence, call->bytes, call->elements, call->ranks);
    struct ring ring = { .call = call, .place = call->rank, .size = call->ranks,
                         .forwards = true };
    if (!tensor_touch(me, call->tensor, false, "all-gather") || !touch_gathered(me, call))
        return false;
    if (nccl_takes(call))
        return nccl_run(me, call);
    paste_mine(me, call);
    bool carried = remote_takes(call);
    if (carried && !remote_run(me, call))
        return false;
    if (!carried && (!ring_open(me, &ring) || !ring_round(me, &ring, call->rank, false)))
        return false;
    bump_gathered(me, call);
    return true;
}

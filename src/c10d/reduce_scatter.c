/* Reduce-scatter and reduce: the first half of a ring all-reduce, then each piece goes where it is wanted. A ring adds
 * by chunks, and rank k ends with chunk k; what is wanted by rank r are slots: of a reduce-scatter slot r, of a reduce
 * all of them by the root. Where a slot begins in another chunk than its own, its rank gets the rest from the chunk's.
 * All that keeps the sums: PyTorch 2.15 with gloo composes a reduce-scatter of all-reduces, one for each tensor of the
 * list or one for the single tensor, and so each element is added in the order of that all-reduce's chunks.
 * PyTorch: gloo's reduce; ProcessGroupGloo's reduce_scatter and _reduce_scatter_base. */
#include <string.h>
#include "c10d/local.h"
#include "c10d/nccl_internal.h"
#include "device/cells.h"
#include "sched/stage.h"

/* The slots' elements in scratch memory, chunk after chunk; in each chunk, slot after slot. Numbers are of bytes. */
struct slots {
    const struct collective *call;
    bool     in_one;       /* chunks are those of all slots together, else each slot has its own */
    int64_t *begin;        /* slot r lies from begin[r] to begin[r + 1], as if they were one tensor */
    int64_t *chunk;        /* chunk k lies in the scratch from chunk[k] to chunk[k + 1] */
    int64_t  element;
    char    *scratch;
};

/* Of slot `slot` in chunk `k`: from where in the slot, and how many. */
struct piece { int64_t from, bytes; };

static int64_t
at_most(int64_t number, int64_t most)
{
    return number < most ? number : most;
}

/* Gloo cuts for a reduce in segments of its own: at least two a chunk, of at most 1 MiB. */
static int64_t
reduce_chunk_bytes(int64_t bytes, int64_t element, int64_t size)
{
    int64_t segment = at_most((bytes + 2 * size - 1) / (2 * size), 1 << 20);
    segment = (segment + element - 1) / element * element;
    int64_t segments = segment > 0 ? (bytes + segment - 1) / segment : 0;
    segments = segments > 2 * size ? segments : 2 * size;
    return (segments + size - 1) / size * segment;
}

static int64_t
chunk_bytes(const struct slots *slots, int64_t bytes)
{
    int ranks = slots->call->ranks;
    return slots->call->operation == OPERATION_REDUCE ? reduce_chunk_bytes(bytes, slots->element, ranks)
                                                      : gloo_chunk_bytes(bytes, slots->element, ranks);
}

static struct piece
piece_of(const struct slots *slots, int slot, int k)
{
    int64_t begin  = slots->begin[slot], bytes = slots->begin[slot + 1] - begin;
    int64_t length = chunk_bytes(slots, slots->in_one ? slots->begin[slots->call->ranks] : bytes);
    int64_t from   = length * k - (slots->in_one ? begin : 0), end = from + length;
    from = from > 0 ? at_most(from, bytes) : 0;
    end  = end > 0 ? at_most(end, bytes) : 0;
    return (struct piece){ .from = from, .bytes = end - from };
}

/* ---- into the scratch memory ---- */

static bool
slots_place(struct task *me, struct slots *slots, const struct collective *call)
{
    int ranks    = call->ranks, root = call->options.root;
    slots->begin = scratch_new(me, (size_t)ranks + 1, sizeof *slots->begin);
    slots->chunk = scratch_new(me, (size_t)ranks + 1, sizeof *slots->chunk);
    if (slots->begin == NULL || slots->chunk == NULL)
        return false;
    for (int i = 0; i < ranks; i++) {
        int64_t bytes = call->inputs != NULL ? tensor_bytes(call->inputs[i]) : i == root ? call->bytes : 0;
        slots->begin[i + 1] = slots->begin[i] + bytes;
    }
    int64_t all = slots->begin[ranks], length = chunk_bytes(slots, all);
    for (int k = 0; k < ranks; k++) {
        slots->chunk[k + 1] = slots->in_one ? at_most(length * (k + 1), all) : slots->chunk[k];
        for (int slot = 0; !slots->in_one && slot < ranks; slot++)
            slots->chunk[k + 1] += piece_of(slots, slot, k).bytes;
    }
    slots->scratch = scratch_new(me, (size_t)all + 1, 1);
    return slots->scratch != NULL;
}

static bool
slots_fill(struct task *me, const struct slots *slots, const struct collective *call, const char *what)
{
    for (int slot = 0; call->inputs != NULL && slot < call->ranks; slot++)
        if (!tensor_touch(me, call->inputs[slot], false, what))
            return false;
    if (call->inputs == NULL) {
        memcpy(slots->scratch, tensor_elements(call->tensor), (size_t)call->bytes);
        return true;
    }
    for (int slot = 0; slots->in_one && slot < call->ranks; slot++)
        memcpy(slots->scratch + slots->begin[slot], tensor_elements(call->inputs[slot]),
               (size_t)(slots->begin[slot + 1] - slots->begin[slot]));
    for (int k = 0; !slots->in_one && k < call->ranks; k++) {
        char *to = slots->scratch + slots->chunk[k];
        for (int slot = 0; slot < call->ranks; slot++) {
            struct piece piece = piece_of(slots, slot, k);
            memcpy(to, (const char *)tensor_elements(call->inputs[slot]) + piece.from, (size_t)piece.bytes);
            to += piece.bytes;
        }
    }
    return true;
}

/* ---- the ring ---- */

static struct message
chunk_of(const struct slots *slots, int number)
{
    int k = (number % slots->call->ranks + slots->call->ranks) % slots->call->ranks;
    return (struct message){ .data = slots->scratch + slots->chunk[k],
                             .bytes = (size_t)(slots->chunk[k + 1] - slots->chunk[k]),
                             .first = slots->chunk[k] / slots->element };
}

/* Sends to rank - 1, beginning with the chunk of the rank after it, and so ends with its own. */
static bool
ring_of_slots(struct task *me, const struct slots *slots, const struct collective *call)
{
    int          rank = call->rank, ranks = call->ranks;
    struct link *out = link_between(me, call->channel, rank, (rank + ranks - 1) % ranks);
    struct link *in  = link_between(me, call->channel, (rank + 1) % ranks, rank);
    if (out == NULL || in == NULL)
        return false;
    for (int step = 0; step < ranks - 1; step++) {
        struct hop hop = { .chunk = (rank + 1 + step) % ranks, .reduce = true, .out = out, .in = in,
                           .send = chunk_of(slots, rank + 1 + step), .receive = chunk_of(slots, rank + 2 + step) };
        if (!hop_run(me, call, &hop))
            return false;
    }
    return true;
}

/* ---- pieces go home ---- */

static char *
home_of(const struct slots *slots, struct piece piece)
{
    return (char *)tensor_elements(slots->call->tensor) + piece.from;
}

/* Where the piece of that slot lies in my chunk. */
static struct message
my_piece(const struct slots *slots, int slot)
{
    int          rank  = slots->call->rank;
    struct piece piece = piece_of(slots, slot, rank);
    int64_t      at    = slots->in_one ? slots->begin[slot] + piece.from : slots->chunk[rank];
    for (int before = 0; !slots->in_one && before < slot; before++)
        at += piece_of(slots, before, rank).bytes;
    return (struct message){ .data = slots->scratch + at, .bytes = (size_t)piece.bytes, .first = at / slots->element };
}

static bool
pieces_go_home(struct task *me, const struct slots *slots, const struct collective *call)
{
    int            rank = call->rank, ranks = call->ranks;
    struct message own  = my_piece(slots, rank);
    memcpy(home_of(slots, piece_of(slots, rank, rank)), own.data, own.bytes);
    for (int step = 1; step < ranks; step++) {
        int          to = (rank + step) % ranks, from = (rank - step + ranks) % ranks;
        struct piece mine = piece_of(slots, rank, from);
        struct hop   hop  = { .chunk = rank, .send = my_piece(slots, to),
                              .receive = { .data = home_of(slots, mine), .bytes = (size_t)mine.bytes } };
        if (hop.send.bytes > 0 && (hop.out = link_between(me, call->channel, rank, to)) == NULL)
            return false;
        if (hop.receive.bytes > 0 && (hop.in = link_between(me, call->channel, from, rank)) == NULL)
            return false;
        if (!hop_run(me, call, &hop))
            return false;
    }
    return true;
}

/* Chunks of one length are told; where slots differ they have none. */
static void
slots_announce(struct task *me, const struct slots *slots)
{
    int     ranks = slots->call->ranks;
    int64_t all   = slots->begin[ranks], each = slots->chunk[1], most = each > 0 ? each : 1;
    for (int k = 0; k < ranks; k++)
        if (slots->chunk[k + 1] != at_most(most * (k + 1), all))
            return;
    struct cut cut = { ranks, 1, most / slots->element };
    algorithm_announce(me, "ring", all / slots->element, &cut);
}

/* A mean is divided last, by the owner of the chunk. */
static bool
slots_reduce(struct task *me, const struct collective *call, const char *what)
{
    struct slots slots = { .call = call, .in_one = call->in_one || call->inputs == NULL,
                           .element = (int64_t)dtype_size(call->tensor->dtype) };
    if (!slots_place(me, &slots, call) || !slots_fill(me, &slots, call, what))
        return false;
    size_t bytes = (size_t)slots.begin[call->ranks];
    if (call->options.op == REDUCE_PREMUL_SUM)
        reduce_multiply((int)call->tensor->dtype, slots.scratch, bytes, call->options.factor);
    slots_announce(me, &slots);
    if (!ring_of_slots(me, &slots, call))
        return false;
    struct message mine = chunk_of(&slots, call->rank);
    if (call->options.op == REDUCE_AVG)
        reduce_average((int)call->tensor->dtype, mine.data, mine.bytes, call->ranks);
    return pieces_go_home(me, &slots, call);
}

static void
tell_outcome(struct task *me, const struct collective *call)
{
    tensor_bump(call->tensor);
    tensor_tell(me, call->tensor);
}

/* Slot r of all ranks, added up, becomes rank r's tensor. */
bool
local_reduce_scatter(struct task *me, const struct collective *call)
{
    int64_t elements = call->elements;
    STAGE(me, c10d_reduce_scatter, call->sequence, call->bytes, elements, call->ranks);
    if (!tensor_touch(me, call->tensor, true, "reduce-scatter"))
        return false;
    if (nccl_takes(call))
        return nccl_run(me, call);
    if (!slots_reduce(me, call, "reduce-scatter"))
        return false;
    tell_outcome(me, call);
    return true;
}

/* The sum of all ranks' tensors becomes the root's; the others keep theirs. */
bool
local_reduce(struct task *me, const struct collective *call)
{
    int root = call->options.root;
    STAGE(me, c10d_reduce, call->sequence, call->bytes, root, call->ranks);
    if (!tensor_touch(me, call->tensor, call->rank == root, "reduce"))
        return false;
    if (nccl_takes(call))
        return nccl_run(me, call);
    if (!slots_reduce(me, call, "reduce"))
        return false;
    if (call->rank == root)
        tell_outcome(me, call);
    return true;
}

/* Collectives that reduce: all_reduce, reduce, reduce_scatter. What is reduced is cut into a part for each rank;
 * the part's rank gets what all have of it, adds it up and, but for a reduce_scatter, hands the sum on, a piece
 * after the other. On one machine pieces go through shared memory, else as messages between all.
 *
 * Elements are added in the order of Gloo's ring, as everywhere in the engine: of chunk k rank k - 1 comes first,
 * then k - 2, and so on round to rank k. Chunks are cut as Gloo cuts them, so the bits are those of the other
 * back-ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/mpi/mpi.h"

/* Up to SMALL bytes each adds up everything, and one meeting is enough; MESSAGE bytes of each part go at once. */
enum { LINE = 64, SMALL = 4 << 10, MESSAGE = 256 << 10 };

struct cut {
    struct channel              *channel;
    const struct transport_call *call;
    int                          rank, size;
    size_t                       chunk;       /* bytes of what is added in one order */
    bool                         in_place;    /* my part's sum is made where my part lies */
};

/* ---- how Gloo cuts ---- */

static size_t
ceiling(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t
all_reduce_chunk(size_t bytes, size_t element, size_t size)
{
    size_t segments = (bytes + (1 << 20) - 1) >> 20;
    segments = ceiling(segments > 2 * size ? segments : 2 * size, size);
    return segments / size * ceiling((bytes + segments - 1) / segments, element);
}

static size_t
reduce_chunk(size_t bytes, size_t element, size_t size)
{
    size_t segment = (bytes + 2 * size - 1) / (2 * size);
    segment = ceiling(segment < 1 << 20 ? segment : 1 << 20, element);
    size_t segments = segment > 0 ? (bytes + segment - 1) / segment : 0;
    return ceiling(segments > 2 * size ? segments : 2 * size, size) / size * segment;
}

static struct cut
cut_of(struct channel *channel, const struct transport_call *call)
{
    struct cut cut = { .channel = channel, .call = call, .rank = channel->rank, .size = channel->size };
    bool   is_reduce = call->operation == TRANSPORT_REDUCE;
    size_t bytes = call->span.bytes, size = (size_t)cut.size;
    cut.in_place = call->operation == TRANSPORT_ALL_REDUCE || (is_reduce && call->root == cut.rank);
    cut.chunk = is_reduce ? reduce_chunk(bytes, call->element, size) : all_reduce_chunk(bytes, call->element, size);
    return cut;
}

static size_t
part_bytes(const struct cut *cut, int part)
{
    size_t begin = cut->chunk * (size_t)part, all = cut->call->span.bytes;
    if (cut->call->operation == TRANSPORT_REDUCE_SCATTER)
        return cut->call->inputs[part].bytes;
    return begin >= all ? 0 : all - begin < cut->chunk ? all - begin : cut->chunk;
}

/* Of part `part`, what lies from `at` on, at most `most` bytes. */
static size_t
piece_bytes(const struct cut *cut, int part, size_t at, size_t most)
{
    size_t bytes = part_bytes(cut, part);
    return at >= bytes ? 0 : bytes - at < most ? bytes - at : most;
}

static char *
piece_at(const struct cut *cut, int part, size_t at)
{
    if (cut->call->operation == TRANSPORT_REDUCE_SCATTER)
        return (char *)cut->call->inputs[part].data + at;
    return (char *)cut->call->span.data + cut->chunk * (size_t)part + at;
}

static size_t
longest_part(const struct cut *cut)
{
    size_t longest = 0;
    for (int i = 0; i < cut->size; i++)
        longest = part_bytes(cut, i) > longest ? part_bytes(cut, i) : longest;
    return longest;
}

/* ---- adding ---- */

/* What each rank has lies in `parts`; the sum so far takes each one's place, and ends in that of rank k. */
static void
fold(const struct cut *cut, int k, size_t offset, size_t bytes)
{
    char *const *parts = cut->channel->parts;
    for (int step = 2; step <= cut->size; step++)
        cut->call->reduce(cut->call, parts[(k - step + 2 * cut->size) % cut->size] + offset,
                          parts[(k - step + 1 + cut->size) % cut->size] + offset, bytes);
}

/* My part's piece at `at`. The sum ends in my own place of `parts`; that of a reduce_scatter, where chunks change
 * within, in the span. */
static void
fold_piece(const struct cut *cut, size_t at, size_t bytes)
{
    if (cut->call->operation != TRANSPORT_REDUCE_SCATTER) {
        fold(cut, cut->rank, 0, bytes);
        return;
    }
    for (size_t done = 0; done < bytes;) {
        size_t k = (at + done) / cut->chunk, end = (k + 1) * cut->chunk - at;
        size_t some = (end < bytes ? end : bytes) - done;
        fold(cut, (int)k, done, some);
        bytes_copy((char *)cut->call->span.data + at + done, cut->channel->parts[k] + done, some);
        done += some;
    }
}

/* ---- through shared memory ---- */

/* All show everything, and each adds it up. */
static bool
all_reduce_small(const struct cut *cut)
{
    struct shared  *shared   = cut->channel->shared;
    struct patience patience = patience_new(cut->channel, cut->call->waiter, MEMORY_LOOKS);
    uint64_t        round    = shared_round(shared);
    _Alignas(LINE) char sums[2][SMALL];
    memcpy(shared_slot(shared, cut->rank, round), cut->call->span.data, cut->call->span.bytes);
    if (!shared_meet(shared, &patience))
        return false;
    for (int k = 0; k < cut->size; k++) {
        size_t      offset = cut->chunk * (size_t)k, bytes = part_bytes(cut, k);
        const char *sum    = shared_slot(shared, (k - 1 + cut->size) % cut->size, round) + offset;
        for (int step = 2; step <= cut->size && bytes > 0; step++) {
            int   from = (k - step + 2 * cut->size) % cut->size;
            char *into = step == cut->size ? piece_at(cut, k, 0) : sums[step % 2];
            memcpy(into, shared_slot(shared, from, round) + offset, bytes);
            cut->call->reduce(cut->call, into, sum, bytes);
            sum = into;
        }
    }
    return true;
}

static void
show_pieces(const struct cut *cut, char *slot, size_t at, size_t piece)
{
    for (int i = 0; i < cut->size; i++)
        if (i != cut->rank || !cut->in_place)
            bytes_copy(slot + (size_t)i * piece, piece_at(cut, i, at), piece_bytes(cut, i, at, piece));
}

static void
take_sums(const struct cut *cut, uint64_t round, size_t at, size_t piece)
{
    for (int i = 0; i < cut->size; i++)
        if (i != cut->rank)
            bytes_copy(piece_at(cut, i, at), shared_slot(cut->channel->shared, i, round) + (size_t)i * piece,
                       piece_bytes(cut, i, at, piece));
}

static bool
reduce_shared(const struct cut *cut)
{
    struct shared  *shared   = cut->channel->shared;
    struct patience patience = patience_new(cut->channel, cut->call->waiter, MEMORY_LOOKS);
    size_t          piece    = shared_room(shared) / (size_t)cut->size / LINE * LINE;
    size_t          longest  = longest_part(cut);
    for (size_t at = 0; at < longest; at += piece) {
        uint64_t round = shared_round(shared);
        size_t   bytes = piece_bytes(cut, cut->rank, at, piece), place = (size_t)cut->rank * piece;
        char    *mine  = shared_slot(shared, cut->rank, round);
        show_pieces(cut, mine, at, piece);
        if (!shared_meet(shared, &patience))
            return false;
        for (int i = 0; i < cut->size; i++)
            cut->channel->parts[i] = shared_slot(shared, i, round) + place;
        if (cut->in_place)
            cut->channel->parts[cut->rank] = piece_at(cut, cut->rank, at);
        fold_piece(cut, at, bytes);
        if (cut->call->operation == TRANSPORT_REDUCE_SCATTER)
            continue;
        bytes_copy(mine + place, cut->channel->parts[cut->rank], bytes);
        if (!shared_meet(shared, &patience))
            return false;
        if (cut->in_place)
            take_sums(cut, round, at, piece);
    }
    return true;
}

/* ---- by messages ---- */

/* Each rank's piece of my part comes to me, and mine of theirs goes to them. */
static bool
collect(const struct cut *cut, struct flight *flight, size_t at, size_t bytes)
{
    char **parts = cut->channel->parts;
    for (int i = 0; i < cut->size; i++)
        parts[i] = cut->channel->scratch + (size_t)i * MESSAGE;
    for (int step = 1; step < cut->size && bytes > 0; step++) {
        int from = (cut->rank + cut->size - step) % cut->size;
        flight_recv(flight, from, at, parts[from], bytes);
    }
    for (int step = 1; step < cut->size; step++) {
        int    to   = (cut->rank + step) % cut->size;
        size_t some = piece_bytes(cut, to, at, MESSAGE);
        if (some > 0)
            flight_send(flight, to, at, piece_at(cut, to, at), some);
    }
    if (cut->in_place)
        parts[cut->rank] = piece_at(cut, cut->rank, at);
    else
        bytes_copy(parts[cut->rank], piece_at(cut, cut->rank, at), bytes);
    return flight_land(flight);
}

/* My sum goes to whoever wants it, and I get the others' if I want them. */
static bool
distribute(const struct cut *cut, struct flight *flight, size_t at, size_t bytes)
{
    for (int step = 1; step < cut->size && cut->in_place; step++) {
        int    from = (cut->rank + cut->size - step) % cut->size;
        size_t some = piece_bytes(cut, from, at, MESSAGE);
        if (some > 0)
            flight_recv(flight, from, at, piece_at(cut, from, at), some);
    }
    for (int step = 1; step < cut->size && bytes > 0; step++) {
        int to = (cut->rank + step) % cut->size;
        if (cut->call->operation == TRANSPORT_ALL_REDUCE || to == cut->call->root)
            flight_send(flight, to, at, cut->channel->parts[cut->rank], bytes);
    }
    return flight_land(flight);
}

static bool
reduce_by_messages(const struct cut *cut, struct flight *flight)
{
    struct channel *channel = cut->channel;
    size_t          longest = longest_part(cut);
    if (channel->scratch == NULL)
        channel->scratch = aligned_alloc(LINE, (size_t)cut->size * MESSAGE);
    if (channel->scratch == NULL) {
        snprintf(flight->why->text, sizeof flight->why->text, "out of memory for what other ranks send");
        return false;
    }
    for (size_t at = 0; at < longest; at += MESSAGE) {
        size_t bytes = piece_bytes(cut, cut->rank, at, MESSAGE);
        if (!collect(cut, flight, at, bytes))
            return false;
        fold_piece(cut, at, bytes);
        if (cut->call->operation != TRANSPORT_REDUCE_SCATTER && !distribute(cut, flight, at, bytes))
            return false;
    }
    return true;
}

/* Of one rank all parts are its own. */
static bool
reduce_alone(const struct transport_call *call)
{
    if (call->operation == TRANSPORT_REDUCE_SCATTER)
        bytes_copy(call->span.data, call->inputs[0].data, call->span.bytes);
    return true;
}

bool
reduce_run(struct channel *channel, const struct transport_call *call, struct transport_why *why)
{
    struct cut    cut    = cut_of(channel, call);
    struct flight flight = { .channel = channel, .call = call, .why = why };
    if (cut.size == 1)
        return reduce_alone(call);
    if (channel->shared == NULL)
        return reduce_by_messages(&cut, &flight);
    if (call->operation == TRANSPORT_ALL_REDUCE && call->span.bytes > 0 && call->span.bytes <= SMALL)
        return all_reduce_small(&cut);
    return reduce_shared(&cut);
}

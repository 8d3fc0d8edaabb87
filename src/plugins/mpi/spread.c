/* Collectives that move bytes as they are: to and from each other rank at once, but for a broadcast, which goes
 * down a tree. */
#include <string.h>
#include "plugins/mpi/mpi.h"

/* A long broadcast goes in pieces, so that who has one hands it on while the next is on its way. */
enum { PIECE = 1 << 20 };

void
bytes_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from)
        memmove(to, from, bytes);
}

/* What goes to each rank and comes from it: my own part from me to me. NULL: nothing does. */
static void
swap(struct flight *flight, const struct transport_span *out, const struct transport_span *in)
{
    int rank = flight->channel->rank, size = flight->channel->size;
    for (int step = 1; step < size; step++) {
        int from = (rank + size - step) % size;
        if (in != NULL && in[from].bytes > 0)
            flight_recv(flight, from, 0, in[from].data, in[from].bytes);
    }
    for (int step = 1; step < size; step++) {
        int to = (rank + step) % size;
        if (out != NULL && out[to].bytes > 0)
            flight_send(flight, to, 0, out[to].data, out[to].bytes);
    }
}

static void
give_all(struct flight *flight, const struct transport_span *span)
{
    int rank = flight->channel->rank, size = flight->channel->size;
    for (int step = 1; step < size && span->bytes > 0; step++)
        flight_send(flight, (rank + step) % size, 0, span->data, span->bytes);
}

static bool
all_to_all(struct flight *flight, const struct transport_call *call)
{
    int rank = flight->channel->rank;
    swap(flight, call->inputs, call->outputs);
    bytes_copy(call->outputs[rank].data, call->inputs[rank].data, call->outputs[rank].bytes);
    return flight_land(flight);
}

static bool
all_gather(struct flight *flight, const struct transport_call *call)
{
    int rank = flight->channel->rank;
    swap(flight, NULL, call->outputs);
    give_all(flight, &call->span);
    bytes_copy(call->outputs[rank].data, call->span.data, call->span.bytes);
    return flight_land(flight);
}

static bool
gather(struct flight *flight, const struct transport_call *call)
{
    if (flight->channel->rank == call->root) {
        swap(flight, NULL, call->outputs);
        bytes_copy(call->outputs[call->root].data, call->span.data, call->span.bytes);
    } else if (call->span.bytes > 0) {
        flight_send(flight, call->root, 0, call->span.data, call->span.bytes);
    }
    return flight_land(flight);
}

static bool
scatter(struct flight *flight, const struct transport_call *call)
{
    if (flight->channel->rank == call->root) {
        swap(flight, call->inputs, NULL);
        bytes_copy(call->span.data, call->inputs[call->root].data, call->span.bytes);
    } else if (call->span.bytes > 0) {
        flight_recv(flight, call->root, 0, call->span.data, call->span.bytes);
    }
    return flight_land(flight);
}

/* Places are counted from the root. The lowest set bit of a place is the distance to its parent; the farthest
 * child comes first. */
static bool
broadcast(struct flight *flight, const struct transport_call *call)
{
    int    size = flight->channel->size, place = (flight->channel->rank - call->root + size) % size, reach = 1;
    size_t pieces = (call->span.bytes + PIECE - 1) / PIECE;
    while (reach < size && (place & reach) == 0)
        reach *= 2;
    for (size_t i = 0; i < pieces; i++) {
        char  *at    = (char *)call->span.data + i * PIECE;
        size_t bytes = i + 1 < pieces ? PIECE : call->span.bytes - i * PIECE;
        if (place > 0) {
            flight_recv(flight, (place - reach + call->root) % size, i, at, bytes);
            if (!flight_land(flight))
                return false;
        }
        for (int distance = reach / 2; distance > 0; distance /= 2)
            if (place + distance < size)
                flight_send(flight, (place + distance + call->root) % size, i, at, bytes);
        if (!flight_land(flight))
            return false;
    }
    return true;
}

/* In round k each has heard of 2^k others. */
static bool
barrier(struct flight *flight)
{
    struct channel *channel = flight->channel;
    int             rank = channel->rank, size = channel->size;
    if (channel->shared != NULL) {
        struct patience patience = patience_new(channel, flight->call->waiter, MEMORY_LOOKS);
        shared_round(channel->shared);
        return shared_meet(channel->shared, &patience);
    }
    for (int distance = 1; distance < size; distance *= 2) {
        flight_recv(flight, (rank + size - distance) % size, (uint64_t)distance, NULL, 0);
        flight_send(flight, (rank + distance) % size, (uint64_t)distance, NULL, 0);
        if (!flight_land(flight))
            return false;
    }
    return true;
}

bool
spread_run(struct channel *channel, const struct transport_call *call, struct transport_why *why)
{
    struct flight flight = { .channel = channel, .call = call, .why = why };
    switch (call->operation) {
    case TRANSPORT_BROADCAST:  return broadcast(&flight, call);
    case TRANSPORT_ALL_GATHER: return all_gather(&flight, call);
    case TRANSPORT_GATHER:     return gather(&flight, call);
    case TRANSPORT_SCATTER:    return scatter(&flight, call);
    case TRANSPORT_ALL_TO_ALL: return all_to_all(&flight, call);
    default:                   return barrier(&flight);
    }
}

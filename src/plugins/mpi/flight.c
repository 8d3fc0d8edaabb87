/* The messages of one collective that are under way together, and how their thread waits: first only looking, then
 * asking the waiter. Whoever gives up takes his receives back, so that nobody writes to his memory later.
 * Order of use: flight_send, flight_recv; flight_land, which ends them all. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "plugins/mpi/mpi.h"

/* Some 20 us each. */
enum { MESSAGE_LOOKS = 256, CROWDED_LOOKS = 4, ASK_EVERY = 16, PROGRESS_EVERY = 64 };

/* ---- waiting ---- */

static inline void
rest(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* MPI moves messages only while somebody is in it: who waits for other things lends a hand. */
static bool
patience_ask(struct patience *patience)
{
    int is_there;
    if (patience->looks % PROGRESS_EVERY == 0)
        MPI_Iprobe(MPI_ANY_SOURCE, 0, patience->channel->calls, &is_there, MPI_STATUS_IGNORE);
    if (patience->looks % ASK_EVERY == 0 && !patience->waiter->pause(patience->waiter->context, patience->asked++))
        return false;
    sched_yield();
    return true;
}

struct patience
patience_new(struct channel *channel, const struct transport_waiter *waiter, unsigned free_looks)
{
    bool crowded = channel->size > channel->mpi->cores;
    return (struct patience){ .channel = channel, .waiter = waiter,
                              .free_looks = crowded ? CROWDED_LOOKS : free_looks };
}

bool
patience_look(struct patience *patience)
{
    if (++patience->looks > patience->free_looks)
        return patience_ask(patience);
    rest();
    return true;
}

/* ---- messages ---- */

/* Calls of a channel follow each other in one order on all ranks; a tag for each keeps one that does not from
 * taking another's. */
static int
tag_of(const struct flight *flight)
{
    return (int)(flight->call->number % 30000);
}

static void
flight_fail(struct flight *flight, int error, const struct transport_hop *hop)
{
    char what[60];
    snprintf(what, sizeof what, "%s rank %d", hop->is_send ? "sending to" : "receiving from", hop->peer);
    if (!flight->failed)
        mpi_why(flight->why, error, what);
    flight->failed = true;
}

static void
hop_begin(const struct flight *flight, const struct transport_hop *hop)
{
    const struct transport_waiter *waiter = flight->call->waiter;
    if (waiter->hop_begin != NULL)
        waiter->hop_begin(waiter->context, hop);
}

static void
hop_end(const struct flight *flight, const struct transport_hop *hop)
{
    const struct transport_waiter *waiter = flight->call->waiter;
    if (waiter->hop_end != NULL)
        waiter->hop_end(waiter->context, hop);
}

void
flight_send(struct flight *flight, int peer, uint64_t slot, const void *data, size_t bytes)
{
    struct leg *leg = &flight->channel->legs[flight->count];
    *leg = (struct leg){ .hop = { .peer = peer, .is_send = true, .slot = slot, .data = data, .bytes = bytes } };
    if (flight->failed)
        return;
    hop_begin(flight, &leg->hop);
    int error = message_isend(flight->channel->calls, peer, tag_of(flight), data, bytes, &leg->request);
    if (error != MPI_SUCCESS)
        flight_fail(flight, error, &leg->hop);
    else
        flight->count++;
}

void
flight_recv(struct flight *flight, int peer, uint64_t slot, void *data, size_t bytes)
{
    struct leg *leg = &flight->channel->legs[flight->count];
    *leg = (struct leg){ .hop = { .peer = peer, .slot = slot, .data = data, .bytes = bytes }, .data = data };
    if (flight->failed)
        return;
    hop_begin(flight, &leg->hop);
    int error = message_irecv(flight->channel->calls, peer, tag_of(flight), data, bytes, &leg->request);
    if (error != MPI_SUCCESS)
        flight_fail(flight, error, &leg->hop);
    else
        flight->count++;
}

/* ---- landing ---- */

static void
flight_wrong_length(struct flight *flight, const struct leg *leg, size_t came)
{
    char length[40] = "more";
    if (came != leg->hop.bytes)
        snprintf(length, sizeof length, "%zu bytes", came);
    if (!flight->failed)
        snprintf(flight->why->text, sizeof flight->why->text,
                 "rank %d sent %s where %zu bytes are expected: the ranks' sizes differ", leg->hop.peer, length,
                 leg->hop.bytes);
    flight->failed = true;
}

/* Whether it is over. */
static bool
leg_look(struct flight *flight, struct leg *leg)
{
    MPI_Status status;
    int        over = 0, class = MPI_SUCCESS;
    memset(&status, 0, sizeof status);
    int error = MPI_Test(&leg->request, &over, &status);
    if (error == MPI_SUCCESS && !over)
        return false;
    leg->over = true;
    MPI_Error_class(error, &class);
    bool differs = error == MPI_SUCCESS && !leg->hop.is_send && message_bytes(&status) != leg->hop.bytes;
    if (class == MPI_ERR_TRUNCATE || differs)
        flight_wrong_length(flight, leg, message_bytes(&status));
    else if (error != MPI_SUCCESS)
        flight_fail(flight, error, &leg->hop);
    else
        hop_end(flight, &leg->hop);
    return true;
}

static bool
legs_look(struct flight *flight)
{
    bool all = true;
    for (int i = 0; i < flight->count && !flight->failed; i++) {
        struct leg *leg = &flight->channel->legs[i];
        all = (leg->over || leg_look(flight, leg)) && all;
    }
    return all;
}

bool
flight_land(struct flight *flight)
{
    struct channel *channel  = flight->channel;
    struct patience patience = patience_new(channel, flight->call->waiter, MESSAGE_LOOKS);
    bool            given_up = false;
    while (!flight->failed && !given_up && !legs_look(flight))
        given_up = !patience_look(&patience);
    for (int i = 0; i < flight->count && (given_up || flight->failed); i++)
        if (!channel->legs[i].over)
            message_cancel(channel, &channel->legs[i].request);
    flight->count = 0;
    if (given_up)
        flight->failed = true;
    return !flight->failed;
}

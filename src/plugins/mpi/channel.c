/* The members of a group meet: first in the store, where whoever does not come holds nobody up; then in MPI, whose
 * way blocks, waits for a dead member for ever and keeps all later groups waiting meanwhile. So a thread of its
 * own goes it, while the caller's asks its waiter. Whoever gives up leaves that thread behind; it then ends by
 * itself, or with the process.
 * Order of use: channel_connect on all members; messages and calls; channel_disconnect. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/mpi/mpi.h"

enum { DEFAULT_TIMEOUT_MS = 30 * 60 * 1000, LEAST_TAGS = 32767 };

enum { MEETING, MET, LEFT };

/* Belongs to both threads until one is done with it: the second frees it. */
struct meeting {
    atomic_int           state;
    struct channel      *channel;
    int                 *ranks;
    int                  tag;
    bool                 fine;
    struct transport_why why;
};

static void
channel_free(struct channel *channel)
{
    if (channel == NULL)
        return;
    shared_free(channel->shared);
    free(channel->legs);
    free(channel->parts);
    free(channel->scratch);
    free(channel);
}

static void
meeting_free(struct meeting *meeting)
{
    if (meeting == NULL)
        return;
    channel_free(meeting->channel);
    free(meeting->ranks);
    free(meeting);
}

/* ---- the thread ---- */

static int
communicators_new(struct meeting *meeting)
{
    struct channel *channel = meeting->channel;
    MPI_Group       all, ours = MPI_GROUP_NULL;
    int             error = MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (error != MPI_SUCCESS)
        return error;
    error = MPI_Group_incl(all, channel->size, meeting->ranks, &ours);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_create_group(MPI_COMM_WORLD, ours, meeting->tag, &channel->calls);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_set_errhandler(channel->calls, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_dup(channel->calls, &channel->messages);
    if (ours != MPI_GROUP_NULL)
        MPI_Group_free(&ours);
    MPI_Group_free(&all);
    return error;
}

static void *
meeting_run(void *data)
{
    struct meeting *meeting = data;
    struct channel *channel = meeting->channel;
    int             error   = communicators_new(meeting), expected = MEETING;
    if (error != MPI_SUCCESS)
        mpi_why(&meeting->why, error, "meeting the other ranks");
    else
        channel->shared = shared_new(channel->calls, channel->rank, channel->size);
    meeting->fine = error == MPI_SUCCESS;
    if (!atomic_compare_exchange_strong(&meeting->state, &expected, MET))
        meeting_free(meeting);
    return NULL;
}

/* ---- the caller ---- */

/* Groups that meet at once must not take each other's messages. */
static int
tag_of_name(const char *name, int tag_max)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return (int)(hash % ((uint32_t)tag_max + 1));
}

static struct meeting *
meeting_new(struct mpi *mpi, const struct transport_channel_options *options)
{
    struct meeting *meeting = calloc(1, sizeof *meeting);
    struct channel *channel = calloc(1, sizeof *channel);
    size_t          size    = (size_t)options->size;
    int            *tag_max = NULL, is_told = 0;
    if (meeting == NULL || channel == NULL) {
        free(meeting);
        free(channel);
        return NULL;
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &is_told);
    *channel = (struct channel){ .mpi = mpi, .rank = options->rank, .size = options->size,
                                 .tag_max = is_told ? *tag_max : LEAST_TAGS };
    channel->legs    = calloc(2 * size, sizeof *channel->legs);
    channel->parts   = calloc(size, sizeof *channel->parts);
    meeting->channel = channel;
    meeting->tag     = tag_of_name(options->name, channel->tag_max);
    meeting->ranks   = calloc(size, sizeof *meeting->ranks);
    if (channel->legs == NULL || channel->parts == NULL || meeting->ranks == NULL) {
        meeting_free(meeting);
        return NULL;
    }
    memcpy(meeting->ranks, options->ranks, size * sizeof *meeting->ranks);
    return meeting;
}

/* How long the caller waits, in the store and in MPI together. */
struct deadline {
    const struct transport_channel_options *options;
    struct transport_why                   *why;
    uint64_t                                begin, most, looks;
};

/* false: the waiter gave up, or it is too late. */
static bool
deadline_pause(struct deadline *deadline)
{
    const struct transport_waiter *waiter = deadline->options->waiter;
    if (!waiter->pause(waiter->context, deadline->looks++))
        return false;
    if (mpi_milliseconds() - deadline->begin <= deadline->most)
        return true;
    snprintf(deadline->why->text, sizeof deadline->why->text, "not all of %d ranks came within %g s",
             deadline->options->size, (double)deadline->most / 1000);
    return false;
}

static void
key_of(const struct transport_channel_options *options, int rank, char *key, size_t size)
{
    snprintf(key, size, "mpi/%s/%d", options->name, rank);
}

/* Says that this one is there, and waits until all have. */
static bool
members_await(struct deadline *deadline)
{
    const struct transport_channel_options *options = deadline->options;
    const struct transport_store           *store   = options->store;
    char   key[TRANSPORT_WHY];
    void  *seen  = NULL;
    size_t count = 0;
    key_of(options, options->rank, key, sizeof key);
    if (store == NULL)
        return true;
    bool fine = store->set(store->context, key, "1", 1);
    for (int rank = 0; rank < options->size && fine; rank++) {
        key_of(options, rank, key, sizeof key);
        for (int got = 0; (got = store->get(store->context, key, &seen, &count)) != 1;) {
            if (got == 0 && deadline_pause(deadline))
                continue;
            if (got == 0)
                return false;
            fine = false;
            break;
        }
        if (fine)
            free(seen);
    }
    if (!fine)
        snprintf(deadline->why->text, sizeof deadline->why->text,
                 "the store where the ranks meet does not answer");
    return fine;
}

/* Whether they have met; if not, why not, unless the waiter gave up. */
static bool
meeting_await(struct meeting *meeting, struct deadline *deadline)
{
    deadline->looks = 0;
    while (atomic_load(&meeting->state) == MEETING)
        if (!deadline_pause(deadline))
            return false;
    if (!meeting->fine)
        *deadline->why = meeting->why;
    return meeting->fine;
}

void *
channel_connect(void *data, const struct transport_channel_options *options, struct transport_why *why)
{
    struct mpi     *mpi     = data;
    struct meeting *meeting = meeting_new(mpi, options);
    struct channel *channel = NULL;
    pthread_t       thread;
    int             expected = MEETING;
    struct deadline deadline = { .options = options, .why = why, .begin = mpi_milliseconds(),
                                 .most = options->timeout_ms > 0 ? options->timeout_ms : DEFAULT_TIMEOUT_MS };
    why->text[0] = '\0';
    if (meeting != NULL && !members_await(&deadline)) {
        meeting_free(meeting);
        return NULL;
    }
    if (meeting == NULL || pthread_create(&thread, NULL, meeting_run, meeting) != 0) {
        meeting_free(meeting);
        snprintf(why->text, sizeof why->text, "out of memory or threads for meeting the other ranks");
        return NULL;
    }
    pthread_detach(thread);
    if (meeting_await(meeting, &deadline)) {
        channel = meeting->channel;
        meeting->channel = NULL;
    } else {
        atomic_store(&mpi->broken, true);
        if (atomic_compare_exchange_strong(&meeting->state, &expected, LEFT)) {
            atomic_store(&mpi->left_behind, true);
            return NULL;
        }
    }
    meeting_free(meeting);
    return channel;
}

/* Of a broken channel MPI keeps what it has, as others may still send to it. */
void
channel_disconnect(void *data, bool broken)
{
    struct channel *channel = data;
    if (broken || atomic_load(&channel->dead)) {
        atomic_store(&channel->mpi->broken, true);
    } else {
        MPI_Comm_free(&channel->messages);
        MPI_Comm_free(&channel->calls);
    }
    channel_free(channel);
}

/* Communicators: what the members of a group have in common. Ranks find theirs by the order of their calls: the n-th
 * call of new_group of each rank of the world is one and the same, members or not; with local_sync it is the next one
 * among equal lists of members. Whoever comes first makes it.
 * Order of use: communicator_enter (or communicator_default) and communicator_meet on each rank; communicator_free with
 * the world. PyTorch: new_group, whose ranks meet in a barrier of the store. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/internal.h"
#include "sched/account.h"

/* ---- made and freed ---- */

static size_t
communicator_bytes(int world_size, int size)
{
    return sizeof(struct communicator) + (size_t)world_size +
           (size_t)size * (sizeof(int) + sizeof(atomic_int_least64_t));
}

void
communicator_free(struct task *me, struct communicator *communicator)
{
    if (communicator == NULL)
        return;
    const struct world *world = communicator->world;
    if (communicator->channel != NULL)
        world->backend->disconnect(me, communicator->channel);
    ledger_free(&communicator->ledger);
    account_give(me->sched, communicator_bytes(world->size, communicator->size));
    free(communicator->ranks);
    free(communicator->issued);
    free(communicator->here);
    free(communicator->monitored);
    free(communicator);
}

static bool
communicator_fill(struct task *me, struct communicator *communicator, const int *ranks)
{
    const struct world *world = communicator->world;
    size_t size = (size_t)communicator->size;
    communicator->ranks  = calloc(size, sizeof *communicator->ranks);
    communicator->issued = calloc(size, sizeof *communicator->issued);
    communicator->here   = calloc((size_t)world->size, sizeof *communicator->here);
    if (!ledger_init(&communicator->ledger) || communicator->ranks == NULL || communicator->issued == NULL ||
        communicator->here == NULL)
        return false;
    for (int i = 0; i < communicator->size; i++)
        communicator->ranks[i] = ranks != NULL ? ranks[i] : i;
    communicator->channel = world->backend->connect(me, world->transport, communicator->ranks, communicator->size);
    return communicator->channel != NULL;
}

/* In the world's monitor: the new one is the list's first. ranks NULL: all. NULL: no memory. */
static struct communicator *
communicator_new(struct task *me, struct world *world, const int *ranks, int size)
{
    if (!account_take(me->sched, communicator_bytes(world->size, size)))
        return NULL;
    struct communicator *communicator = calloc(1, sizeof *communicator);
    if (communicator == NULL) {
        account_give(me->sched, communicator_bytes(world->size, size));
        return NULL;
    }
    communicator->world      = world;
    communicator->size       = size;
    communicator->call       = -1;
    communicator->generation = -1;
    communicator->expected   = world->size;
    if (!communicator_fill(me, communicator, ranks)) {
        communicator_free(me, communicator);
        return NULL;
    }
    communicator->number  = world->communicator_count++;
    communicator->next    = world->communicators;
    world->communicators  = communicator;
    return communicator;
}

/* ---- found ---- */

static bool
same_ranks(const struct communicator *communicator, const int *ranks, int size)
{
    bool same = communicator->size == size;
    for (int i = 0; i < size && same; i++)
        same = communicator->ranks[i] == (ranks != NULL ? ranks[i] : i);
    return same;
}

static struct communicator *
find_call(const struct world *world, int call)
{
    struct communicator *at = world->communicators;
    while (at != NULL && at->call != call)
        at = at->next;
    return at;
}

/* The oldest with these members to which `rank` has not come. */
static struct communicator *
find_local(const struct world *world, int rank, const int *ranks, int size)
{
    struct communicator *found = NULL;
    for (struct communicator *at = world->communicators; at != NULL; at = at->next)
        if (at->call < 0 && at->generation < 0 && same_ranks(at, ranks, size) && !at->here[rank])
            found = at;
    return found;
}

static void
print_ranks(const int *ranks, int size, char *out, size_t room)
{
    size_t used = (size_t)snprintf(out, room, "{");
    for (int i = 0; i < size && used + 16 < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%d", i > 0 ? ", " : "", ranks != NULL ? ranks[i] : i);
    snprintf(out + used, room - used, "}");
}

/* Not all ranks that come mean the same group: those who wait and those who come learn it. */
static void
describe_difference(struct communicator *communicator, int rank, uint32_t line, const int *ranks, int size)
{
    char first[200], mine[200];
    print_ranks(communicator->ranks, communicator->size, first, sizeof first);
    print_ranks(ranks, size, mine, sizeof mine);
    int other = 0;
    while (!communicator->here[other])
        other++;
    communicator->differs = true;
    communicator->why     = (struct error){ .kind = E_MISMATCH, .function = __func__, .line = __LINE__,
                                            .lesson_line = line, .rank = rank };
    snprintf(communicator->why.message, sizeof communicator->why.message,
             "new_group #%d differs: rank %d calls it for ranks %s (line %" PRIu32 ") but rank %d for ranks %s (line %"
             PRIu32 "); all ranks must call new_group in the same order, members or not",
             communicator->call, other, first, communicator->line, rank, mine, line);
}

static struct communicator *
enter(struct task *me, struct world *world, int rank, const struct group_options *options)
{
    int call = options->local_sync ? -1 : world->ranks[rank].groups;
    struct communicator *communicator = options->local_sync ? find_local(world, rank, options->ranks, options->count)
                                                            : find_call(world, call);
    if (communicator == NULL) {
        communicator = communicator_new(me, world, options->ranks, options->count);
        if (communicator == NULL)
            return NULL;
        communicator->call     = call;
        communicator->expected = options->local_sync ? options->count : world->size;
        communicator->line     = me->line;
    } else if (!same_ranks(communicator, options->ranks, options->count)) {
        describe_difference(communicator, rank, me->line, options->ranks, options->count);
    }
    world->ranks[rank].groups += call >= 0;
    communicator->here[rank] = true;
    communicator->come++;
    return communicator;
}

struct communicator *
communicator_enter(struct task *me, struct world *world, int rank, const struct group_options *options)
{
    monitor_enter(me, &world->monitor);
    struct communicator *communicator = enter(me, world, rank, options);
    monitor_wake(me, &world->monitor);
    monitor_leave(me, &world->monitor);
    if (communicator == NULL && !task_failed(me))
        (void)memory_failed(me, communicator_bytes(world->size, options->count), "a process group");
    return communicator;
}

struct communicator *
communicator_default(struct task *me, struct world *world, int generation)
{
    monitor_enter(me, &world->monitor);
    struct communicator *at = world->communicators;
    while (at != NULL && at->generation != generation)
        at = at->next;
    if (at == NULL && (at = communicator_new(me, world, NULL, world->size)) != NULL)
        at->generation = generation;
    monitor_leave(me, &world->monitor);
    if (at == NULL && !task_failed(me))
        (void)memory_failed(me, communicator_bytes(world->size, world->size), "a process group");
    return at;
}

/* ---- met ---- */

static bool
must_come(const struct communicator *communicator, int rank)
{
    return communicator->call >= 0 || communicator_rank_of(communicator, rank) >= 0;
}

/* The first rank that has still to come; those that have ended come first. */
static int
first_missing(const struct communicator *communicator)
{
    int missing = -1;
    for (int rank = 0; rank < communicator->world->size; rank++) {
        if (communicator->here[rank] || !must_come(communicator, rank))
            continue;
        if (world_rank_has_ended(communicator->world, rank))
            return rank;
        missing = missing < 0 ? rank : missing;
    }
    return missing;
}

static bool
meeting_lost(struct task *me, const struct communicator *communicator, int rank, int missing)
{
    char of[240] = "", ranks[200];
    print_ranks(communicator->ranks, communicator->size, ranks, sizeof ranks);
    if (communicator->call >= 0)
        snprintf(of, sizeof of, " #%d", communicator->call);
    return failed(me, E_RANK_LOST, "rank %d waits in new_group%s of ranks %s (line %" PRIu32 "), but rank %d has ended "
                                   "without calling it: %s", rank, of, ranks, me->line, missing,
                  communicator->call >= 0 ? "every rank of the world calls new_group, members or not, unless "
                                            "use_local_synchronization is true" : "every member calls it");
}

bool
communicator_meet(struct task *me, struct communicator *communicator, int rank)
{
    struct world *world = communicator->world;
    bool          met = false, waits = true;
    int           missing = -1;
    monitor_enter(me, &world->monitor);
    while (waits && !communicator->differs && !(met = communicator->come == communicator->expected)) {
        missing = first_missing(communicator);
        if (world_rank_has_ended(world, missing))
            break;
        struct wait_reason reason = { .what = "new_group", .sequence = communicator->call, .peer = missing,
                                      .timeout_ps = world->timeout_ps };
        waits = monitor_wait(me, &world->monitor, &reason);
    }
    monitor_leave(me, &world->monitor);
    if (communicator->differs)
        return failed(me, communicator->why.kind, "%s", communicator->why.message);
    return met || (waits && meeting_lost(me, communicator, rank, missing));
}

/* Communicators: what the members of a group have in common. Ranks find theirs by the order of their calls: the n-th
 * call of new_group in a parent, which is the default group but for split_group, is one and the same on all ranks of
 * it, members or not; with local_sync it is the next one among equal lists of members. Whoever comes first makes it.
 * Members wait for members; under TORCH_DIST_INIT_BARRIER=1 all ranks of the parent wait for all.
 * Order of use: communicator_enter (or communicator_default) and communicator_meet on each rank; communicator_free with
 * the world. PyTorch: new_group. The number of the call is the group's name, under which its members find each other in
 * the store; in 1.13 it ended with a barrier of all ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/internal.h"
#include "c10d/job.h"
#include "c10d/store.h"
#include "sched/account.h"

/* ---- made and freed ---- */

static size_t
communicator_bytes(int world_size, int size)
{
    return sizeof(struct communicator) + (size_t)world_size +
           (size_t)size * (sizeof(int) + 2 * sizeof(atomic_int_least64_t));
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
    free(communicator->through);
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
    communicator->through = calloc(size, sizeof *communicator->through);
    communicator->here   = calloc((size_t)world->size, sizeof *communicator->here);
    if (!ledger_init(&communicator->ledger) || communicator->ranks == NULL || communicator->issued == NULL ||
        communicator->through == NULL || communicator->here == NULL)
        return false;
    for (int i = 0; i < communicator->size; i++)
        communicator->ranks[i] = ranks != NULL ? ranks[i] : i;
    communicator->channel = world->backend->connect(me, world->transport, communicator->ranks, communicator->size);
    return communicator->channel != NULL;
}

/* In the world's monitor: the new one is the list's first. ranks NULL: all; parent NULL: a default group. NULL: no
 * memory. */
static struct communicator *
communicator_new(struct task *me, struct world *world, struct communicator *parent, const int *ranks, int size)
{
    if (!account_take(me->sched, communicator_bytes(world->size, size)))
        return NULL;
    struct communicator *communicator = calloc(1, sizeof *communicator);
    if (communicator == NULL) {
        account_give(me->sched, communicator_bytes(world->size, size));
        return NULL;
    }
    communicator->world    = world;
    communicator->parent   = parent;
    communicator->size     = size;
    communicator->call     = -1;
    communicator->expected = world->size;
    communicator->present  = world->job != NULL ? 1 : size;
    if (!communicator_fill(me, communicator, ranks)) {
        communicator_free(me, communicator);
        return NULL;
    }
    if (parent == NULL)
        world->communicator_count = 0;
    communicator->number  = world->communicator_count++;
    communicator->index   = world->communicators_made++;
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
find_call(const struct communicator *parent, int call, const struct group_options *options)
{
    struct communicator *at = parent->world->communicators;
    while (at != NULL && (at->call != call || at->parent != parent ||
                          !same_ranks(at, options->ranks, options->count)))
        at = at->next;
    return at;
}

/* The oldest with these members to which `rank` has not come. */
static struct communicator *
find_local(const struct communicator *parent, int rank, const int *ranks, int size)
{
    struct communicator *found = NULL;
    for (struct communicator *at = parent->world->communicators; at != NULL; at = at->next)
        if (at->call < 0 && at->parent == parent && same_ranks(at, ranks, size) && !at->here[rank])
            found = at;
    return found;
}

static void
print_ranks(const int *ranks, int size, char *out, size_t room)
{
    size_t used = (size_t)snprintf(out, room, "{");
    int    i    = 0;
    for (; i < size && used + 20 < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%d", i > 0 ? ", " : "", ranks != NULL ? ranks[i] : i);
    snprintf(out + used, room - used, i < size ? ", ...}" : "}");
}

/* Must `rank` of the world come? */
static bool
must_come(const struct communicator *communicator, int rank)
{
    bool                       all = communicator->world->init_barrier && communicator->call >= 0 &&
                                     communicator->parent != NULL;
    const struct communicator *callers = all ? communicator->parent : communicator;
    return communicator_rank_of(callers, rank) >= 0;
}

/* In the world's monitor. Each rank is passed over once, however many come. */
static void
note_come(struct communicator *communicator, int rank)
{
    int missing = atomic_load(&communicator->missing), size = communicator->world->size;
    communicator->here[rank] = true;
    communicator->come += must_come(communicator, rank);
    while (missing >= 0 && missing < size && (communicator->here[missing] || !must_come(communicator, missing)))
        missing++;
    atomic_store(&communicator->missing, communicator->come == communicator->expected ? -1 : missing);
}

/* Equal in all processes of a job, whatever else each of them has made, and of no other group: the parent's or the
 * world's, and which call of it; or the members, and how many of these there were before. Never 0. */
static uint64_t
id_in_job(const struct communicator *communicator)
{
    uint64_t above    = communicator->world->job != NULL ? (uint64_t)communicator->world->in_job.number : 0;
    uint64_t words[4] = { communicator->parent != NULL ? communicator->parent->id : above,
                          (uint64_t)communicator->generation, (uint64_t)(int64_t)communicator->call, 0 };
    if (communicator->call < 0) {
        words[2] = hash_bytes(1, communicator->ranks, (size_t)communicator->size * sizeof *communicator->ranks);
        for (const struct communicator *at = communicator->next; at != NULL; at = at->next)
            words[3] += at->call < 0 && at->parent == communicator->parent &&
                        same_ranks(at, communicator->ranks, communicator->size);
    }
    return hash_bytes(2, words, sizeof words) | 1;
}

static struct communicator *
enter(struct task *me, struct process_group *parent, const struct group_options *options)
{
    struct communicator *above = parent->communicator;
    int                  rank  = parent->global_rank, call = options->local_sync ? -1 : parent->calls;
    struct communicator *communicator =
        options->local_sync ? find_local(above, rank, options->ranks, options->count) : find_call(above, call, options);
    if (communicator == NULL) {
        communicator = communicator_new(me, parent->world, above, options->ranks, options->count);
        if (communicator == NULL)
            return NULL;
        communicator->generation = above->generation;
        communicator->what       = options->what;
        communicator->call       = call;
        communicator->expected   = parent->world->init_barrier && call >= 0 ? above->size : options->count;
        communicator->lowest     = parent->world->size;
    }
    if (rank < communicator->lowest) {
        communicator->lowest = rank;
        communicator->line   = me->line;
    }
    parent->calls += call >= 0;
    note_come(communicator, rank);
    if (communicator->id == 0)
        communicator->id = id_in_job(communicator);
    return communicator;
}

/* ---- compared: calls of one number for other members ---- */

enum { CALL_SIZE = 80 };

/* "{0, 2} (line 5)": of many ranks the first, so that it fits in a line of a report. */
static void
print_call(const struct communicator *communicator, uint32_t line, char out[CALL_SIZE])
{
    char ranks[48];
    print_ranks(communicator->ranks, communicator->size, ranks, sizeof ranks);
    snprintf(out, CALL_SIZE, "%s (line %" PRIu32 ")", ranks, line);
}

struct caller { int rank; const char *call; };

/* Only what is known: whether a rank skips a call or makes it later, its next calls would show. The lower rank first,
 * whoever has come first. */
static void
describe_difference(const struct communicator *communicator, struct caller one, struct caller other, char *out,
                    size_t size)
{
    const char         *what  = communicator->what;
    const struct caller lower = one.rank < other.rank ? one : other, upper = one.rank < other.rank ? other : one;
    snprintf(out, size, "%s #%d differs between ranks %d and %d\ncause: skipped call or other order\n\n"
             "rank %d calls it for ranks %s\nrank %d calls it for ranks %s\n"
             "all ranks must call %s in the same order, members or not", what, communicator->call, lower.rank,
             upper.rank, lower.rank, lower.call, upper.rank, upper.call, what);
}

/* The members of `one` wait in vain: one of them has come to `other` instead; or members have come to both, and would
 * find each other's under one name. */
static bool
is_in_vain(const struct communicator *one, const struct communicator *other)
{
    bool vain = one->world->init_barrier || (one->size > 1 && other->size > 1 && one->come > 0 && other->come > 0);
    for (int i = 0; i < one->size && !vain; i++)
        vain = other->here[one->ranks[i]];
    return vain && !one->differs && one->come < one->expected;
}

/* Those who wait in `in_vain` learn why. */
static void
note_difference(struct task *me, struct communicator *in_vain, const struct communicator *other)
{
    char in_vain_call[CALL_SIZE], other_call[CALL_SIZE];
    print_call(in_vain, in_vain->line, in_vain_call);
    print_call(other, other->line, other_call);
    in_vain->differs = true;
    describe_difference(in_vain, (struct caller){ in_vain->lowest, in_vain_call },
                        (struct caller){ other->lowest, other_call }, in_vain->why, sizeof in_vain->why);
    monitor_wake(me, &in_vain->world->monitor);
}

/* In the world's monitor, when the rank has come to it. */
static void
compare_calls(struct task *me, struct communicator *communicator)
{
    for (struct communicator *at = communicator->world->communicators; at != NULL; at = at->next) {
        if (at == communicator || at->call < 0 || at->call != communicator->call || at->parent != communicator->parent)
            continue;
        if (is_in_vain(communicator, at))
            note_difference(me, communicator, at);
        if (is_in_vain(at, communicator))
            note_difference(me, at, communicator);
    }
}

/* Who waits is woken by the last to come: one by one, each would find that it still has to wait. */
struct communicator *
communicator_enter(struct task *me, struct process_group *parent, const struct group_options *options)
{
    struct world *world = parent->world;
    monitor_enter(me, &world->monitor);
    struct communicator *communicator = enter(me, parent, options);
    if (communicator != NULL)
        compare_calls(me, communicator);
    if (communicator != NULL && communicator->come == communicator->expected)
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
    while (at != NULL && (at->generation != generation || at->parent != NULL))
        at = at->next;
    if (at == NULL && (at = communicator_new(me, world, NULL, NULL, world->size)) != NULL) {
        at->generation = generation;
        at->what       = "init_process_group";
        at->call       = 0;
        at->id         = id_in_job(at);
        atomic_store(&at->missing, 0);
        if (world->here >= 0)
            note_come(at, world->here);
    }
    monitor_leave(me, &world->monitor);
    if (at == NULL && !task_failed(me))
        (void)memory_failed(me, communicator_bytes(world->size, world->size), "a process group");
    return at;
}

/* ---- met ---- */

/* Which of two ranks has ended, -1: none: one that was killed before one that threw, which may follow from it. */
static int
worse_end(const struct world *world, int before, int rank)
{
    if (!world_rank_has_ended(world, rank))
        return before;
    return before < 0 || (world_rank_was_killed(world, rank) && !world_rank_was_killed(world, before)) ? rank : before;
}

/* A rank that has ended without coming; -1: none. */
static int
lost_caller(const struct communicator *communicator)
{
    const struct world *world = communicator->world;
    if (atomic_load(&world->ended_count) == 0)
        return -1;
    int lost = -1;
    for (int rank = 0; rank < world->size; rank++)
        if (!communicator->here[rank] && must_come(communicator, rank))
            lost = worse_end(world, lost, rank);
    return lost;
}

static bool
meeting_lost(struct task *me, const struct communicator *communicator, const struct wait_reason *reason,
             int lost)
{
    char of[240] = "", ranks[200];
    const char *what = communicator->what;
    bool        all  = communicator->call >= 0;
    struct wait_reason in_vain = *reason;      /* whoever is missing first may still come: this one does not */
    in_vain.peer     = lost;
    in_vain.peer_now = NULL;
    print_ranks(communicator->ranks, communicator->size, ranks, sizeof ranks);
    if (all)
        snprintf(of, sizeof of, " #%d", communicator->call);
    return hang_in_vain(me, communicator->world, &in_vain,
                        "rank %d waits in %s%s of ranks %s (line %" PRIu32 "), but rank %d %s "
                        "without calling it: %s%s%s", me->rank, what, of, ranks, me->line, lost,
                        world_rank_fate(communicator->world, lost),
                        all ? "every rank calls " : "every member calls it", all ? what : "",
                        all ? ", members or not, unless use_local_synchronization is true" : "");
}

/* All have called it; one ended before everybody was connected. */
bool
communicator_say_lost(struct task *me, const struct communicator *communicator)
{
    const struct world *world = communicator->world;
    char                ranks[200];
    int                 lost = -1;
    for (int i = 0; i < communicator->size; i++)
        lost = worse_end(world, lost, communicator->ranks[i]);
    struct wait_reason in_vain = { .what = communicator->what, .sequence = communicator->call, .group = -1,
                                   .peer = lost, .since = sched_now(me) };
    print_ranks(communicator->ranks, communicator->size, ranks, sizeof ranks);
    return hang_in_vain(me, communicator->world, &in_vain,
                        "rank %d waits in %s of ranks %s (line %" PRIu32 "), but rank %d %s before all were connected",
                        me->rank, communicator->what, ranks, me->line, lost, world_rank_fate(world, lost));
}

/* The wait itself says so: one more turn of it, behind its limit. */
static bool
meeting_late(struct task *me, struct world *world, const struct wait_reason *reason)
{
    monitor_enter(me, &world->monitor);
    bool waits = true;
    while (waits)
        waits = monitor_wait(me, &world->monitor, reason);
    monitor_leave(me, &world->monitor);
    return false;
}

int
communicator_number(const struct communicator *communicator)
{
    return communicator->number;
}

bool
communicator_is_lost(const struct communicator *communicator)
{
    for (int i = 0; i < communicator->size; i++)
        if (world_rank_has_ended(communicator->world, communicator->ranks[i]))
            return true;
    return false;
}

enum { LOOKS = 50 };
#define LOOK_PS UINT64_C(100000000)   /* 0.1 ms more from look to look */

/* ---- met through the store of a job: each says what it calls it for, and reads what the others do ---- */

enum { HASH_LETTERS = 16 };

/* What it is called for, to be compared; whether the caller is about to look for other members; and for people. */
static void
write_call(const struct communicator *communicator, uint32_t line, char *out, size_t size)
{
    char call[CALL_SIZE];
    bool looks = communicator->size > 1 && communicator_rank_of(communicator, communicator->world->here) >= 0;
    print_call(communicator, line, call);
    snprintf(out, size, "%016" PRIx64 "%c%s",
             hash_bytes(3, communicator->ranks, (size_t)communicator->size * sizeof *communicator->ranks),
             looks ? '+' : ' ', call);
}

static void
key_of(const struct communicator *communicator, int rank, char *out, size_t size)
{
    snprintf(out, size, "group/%016" PRIx64 "/%d", communicator->id, rank);
}

static bool
peek_call(struct task *me, const struct communicator *communicator, int rank, struct store_text *out, bool *there)
{
    char key[64];
    key_of(communicator, rank, key, sizeof key);
    return store_peek(me, communicator->world->store, key, out, there) &&
           (!*there || out->count > HASH_LETTERS || failed(me, E_RUNTIME, "a call of %s is cut short in the store",
                                                          communicator->what));
}

/* This rank waits for the other in vain; or would take it for a member, since they use one name. */
static bool
call_differs(struct task *me, const struct communicator *communicator, const char *theirs, const char *mine, int rank)
{
    bool confused = theirs[HASH_LETTERS] == '+' && mine[HASH_LETTERS] == '+';
    char words[1024];
    if (memcmp(theirs, mine, HASH_LETTERS) == 0 || !(confused || must_come(communicator, rank)))
        return false;
    describe_difference(communicator, (struct caller){ me->rank, mine + HASH_LETTERS + 1 },
                        (struct caller){ rank, theirs + HASH_LETTERS + 1 }, words, sizeof words);
    (void)(task_failed(me) || hang_differs(me, communicator->world, words));
    return true;
}

/* Those that must come and have, one after the other; `all`: and what others have called it for. false: failed.
 * *missing: the first that has not come; -1: none. */
static bool
read_comers(struct task *me, struct communicator *communicator, const char *mine, bool all, int *missing)
{
    struct store_text text;
    bool              there = false;
    *missing = -1;
    for (int rank = 0; rank < communicator->world->size; rank++) {
        bool awaited = must_come(communicator, rank);
        if (communicator->here[rank] || !(awaited || all))
            continue;
        size_t mark = scope_mark(me);
        bool   ok   = peek_call(me, communicator, rank, &text, &there) &&
                      !(there && call_differs(me, communicator, text.bytes, mine, rank));
        scope_release(me, mark);
        if (!ok)
            return false;
        if (there && awaited)
            note_come(communicator, rank);
        else if (awaited && *missing < 0)
            *missing = rank;
    }
    return true;
}

/* The store goes with the process that serves it: then that one is why, as the job learns in a moment. */
static bool
store_has_failed(struct task *me, const struct communicator *communicator)
{
    const uint64_t step_ps = LOOKS * LOOK_PS, most_ps = UINT64_C(2000000000000);
    struct error   error   = me->error;
    bool           goes_on = error.kind == E_DIST_NETWORK;
    task_clear_error(me);
    for (uint64_t waited = 0; goes_on && waited < most_ps && !communicator_is_lost(communicator); waited += step_ps)
        goes_on = sched_sleep(me, step_ps);
    if (goes_on && communicator_is_lost(communicator))
        return communicator_say_lost(me, communicator);
    if (!task_failed(me))
        task_take_error(me, &error);
    return false;
}

static bool
meet_in_store(struct task *me, struct communicator *communicator, uint64_t timeout_ps)
{
    struct world      *world  = communicator->world;
    uint64_t           begin  = sched_now(me), limit = timeout_ps > 0 ? timeout_ps : sched_timeout(me->sched);
    struct wait_reason reason = { .what = communicator->what, .sequence = communicator->call, .group = -1, .peer = -1,
                                  .detail = "which has not called it", .timeout_ps = limit, .since = begin };
    char               key[64], mine[300];
    int                missing = -1;
    key_of(communicator, world->here, key, sizeof key);
    write_call(communicator, me->line, mine, sizeof mine);
    struct store_text text = { mine, strlen(mine) };
    if (!store_multi_set(me, world->store, &(const char *){ key }, &text, 1))
        return store_has_failed(me, communicator);
    if (!must_come(communicator, world->here))
        return true;
    for (uint64_t looks = 0;; looks++) {
        int lost = lost_caller(communicator);
        if (!read_comers(me, communicator, mine, looks == 0, &missing))
            return store_has_failed(me, communicator);
        if (missing < 0)
            return true;
        if (world_stands(world))
            return world_say_standstill(me, world);
        if (lost >= 0 && !communicator->here[lost])
            return meeting_lost(me, communicator, &reason, lost);
        reason.peer = missing;
        if (!sched_poll(me, (looks < LOOKS ? looks : LOOKS) * LOOK_PS, &reason))
            return false;
        if (sched_now(me) - begin >= limit)
            return meeting_late(me, world, &reason);
    }
}

/* On the job's page: what this process is in, as long as it is. */
static bool
meet_in_job(struct task *me, struct communicator *communicator, uint64_t timeout_ps)
{
    struct job_call call = { .operation = communicator->what, .sequence = -1, .line = me->line, .inside = true };
    job_note_call(communicator->world->job, &call);
    bool met    = meet_in_store(me, communicator, timeout_ps);
    sched_wait_over(me);
    call.inside = !met;
    job_note_call(communicator->world->job, &call);
    return met;
}

bool
communicator_meet(struct task *me, struct communicator *communicator, int rank, uint64_t timeout_ps)
{
    if (communicator->world->job != NULL)
        return meet_in_job(me, communicator, timeout_ps);
    if (!must_come(communicator, rank))
        return true;
    struct world            *world  = communicator->world;
    const struct wait_reason reason = { .what = communicator->what, .sequence = communicator->call, .group = -1,
                                        .peer = -1, .peer_now = &communicator->missing,
                                        .detail = "which has not called it", .timeout_ps = timeout_ps };
    bool met = false, waits = true;
    int  lost = -1;
    monitor_enter(me, &world->monitor);
    while (waits && !communicator->differs && !(met = communicator->come == communicator->expected) &&
           (lost = lost_caller(communicator)) < 0)
        waits = monitor_wait(me, &world->monitor, &reason);
    bool differs = communicator->differs;
    monitor_leave(me, &world->monitor);
    if (differs)
        return hang_differs(me, world, communicator->why);
    return met || (waits && meeting_lost(me, communicator, &reason, lost));
}

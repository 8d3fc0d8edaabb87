/* Why nobody goes on, over a job: what this process knows is one dump, the others' come through the store (job_flight.c),
 * and the same diagnosis reads them all. PyTorch: the Flight Recorder's analyser, over the dumps of all ranks. */
#include <string.h>
#include "base/map.h"
#include "base/vec.h"
#include "c10d/internal.h"
#include "c10d/job.h"
#include "flight/dump.h"

bool
hang_write_own(struct sched *sched, const struct world *world, struct str *out)
{
    struct flight flight = { .why = FLIGHT_DUMPED };
    hang_fill(sched, (struct world *)(uintptr_t)world, false, &flight);
    bool told = !flight.broken && world->here >= 0 && flight_write_json(&flight, world->here, out);
    flight_free(&flight);
    return told && str_ok(out);
}

/* Dumps of all ranks on their way into one flight. */
struct gathering { const struct world *world; struct dumps dumps; };

static bool
gathering_asks(void *context, int rank)
{
    const struct gathering *gathering = context;
    return rank != gathering->world->here && !world_rank_has_ended(gathering->world, rank);
}

/* What cannot be read is as if it had not come. */
static void
gathering_take(void *context, int rank, const void *dump, size_t bytes)
{
    struct gathering *gathering = context;
    (void)dump_read(&gathering->dumps, "a rank", dump, bytes, rank);
}

/* Who lives, as far as is known, and says nothing. */
static void
note_silent(const struct world *world, struct flight *flight)
{
    for (int rank = 0; rank < flight->rank_count; rank++)
        if (flight->ranks[rank].now == FLIGHT_ABSENT && !world_rank_has_ended(world, rank))
            flight->ranks[rank].detail = "stopped, or cut off";
}

/* What the others say of themselves, beside what is known here. */
static void
add_others(const struct world *world, struct flight *flight)
{
    struct flight    whole     = { .why = flight->why, .after_ps = flight->after_ps };
    struct str       own       = { 0 };
    struct gathering gathering = { .world = world, .dumps.flight = &whole };
    if (flight->broken || world->here < 0 || !flight_write_json(flight, world->here, &own)) {
        str_free(&own);
        return;
    }
    flight_size(&whole, world->size);
    gathering_take(&gathering, world->here, own.text, own.len);
    struct job_ask ask = { world->size, &gathering, gathering_asks, gathering_take };
    (void)job_ask_flights(world->job, &ask);
    bool settled  = dump_settle(&gathering.dumps) && !whole.broken;
    whole.before  = flight->before;
    whole.why     = flight->why;
    whole.after_ps = flight->after_ps;
    dumps_free(&gathering.dumps);
    str_free(&own);
    if (settled) {
        hang_look_at_ends(world, &whole);
        note_silent(world, &whole);
    }
    flight_free(settled ? flight : &whole);
    if (settled)
        *flight = whole;
}

/* With the ranks that live elsewhere, whatever this process has noted so far. */
void
hang_complete(const struct world *world, struct flight *flight)
{
    if (world->job != NULL)
        add_others(world, flight);
}

/* A wait that ends by itself, or by what is no rank's. */
static bool
may_end(const struct flight_rank *rank)
{
    static const char *const words[] = { "sleep", "store.wait", "store.connect", "store.wait_for_workers" };
    for (size_t i = 0; i < countof(words); i++)
        if (rank->waits_in != NULL && strcmp(rank->waits_in, words[i]) == 0)
            return true;
    return rank->waits_in == NULL;
}

uint64_t
hang_own_wait(struct sched *sched, struct world *world)
{
    struct flight flight = { .why = FLIGHT_DUMPED };
    uint64_t      since  = 0;
    flight_size(&flight, world->size);
    hang_add_groups(world, &flight);
    if (!flight.broken && world->here >= 0) {
        hang_look_at_ranks(sched, world, &flight);
        const struct flight_rank *own = &flight.ranks[world->here];
        since = own->now == FLIGHT_WAITING && !may_end(own) ? own->since_ps : 0;
    }
    flight_free(&flight);
    return since;
}

static bool
all_wait(const struct flight *flight, uint64_t *state)
{
    *state = 0;
    for (int i = 0; i < flight->rank_count; i++) {
        const struct flight_rank *rank = &flight->ranks[i];
        const int64_t words[] = { rank->now, rank->line, rank->sequence, rank->peer, rank->tag, (int64_t)rank->count };
        bool over = rank->now == FLIGHT_RETURNED || rank->now == FLIGHT_THREW || rank->now == FLIGHT_KILLED;
        if (!over && (rank->now != FLIGHT_WAITING || may_end(rank)))
            return false;
        *state = hash_bytes(*state, words, sizeof words);
    }
    return true;
}

static bool
is_mismatch(enum hang_cause cause)
{
    return cause == HANG_ORDER || cause == HANG_OPERATION || cause == HANG_SHAPE || cause == HANG_DTYPE ||
           cause == HANG_ROOT || cause == HANG_REDUCE_OP || cause == HANG_DETAILS;
}

bool
hang_of_job(struct sched *sched, struct world *world, struct standstill *found, struct str *report)
{
    struct flight flight = { .why = FLIGHT_DEADLOCK };
    struct hang   hang   = { .cause = HANG_NONE };
    hang_fill(sched, world, false, &flight);
    hang_complete(world, &flight);
    bool stands = !flight.broken && all_wait(&flight, &found->state);
    if (stands)
        flight_diagnose(&flight, &hang);
    bool sure = stands && hang.cause != HANG_NONE && hang.cause != HANG_UNKNOWN && hang.cause != HANG_LATE &&
                hang.cause != HANG_OUTSIDE && hang.cause != HANG_ABSENT && hang.cause != HANG_UNSET_KEY;
    found->kind = is_mismatch(hang.cause) ? E_MISMATCH : E_DEADLOCK;
    sure = sure && hang_tell(&flight, report);
    flight_free(&flight);
    return sure;
}

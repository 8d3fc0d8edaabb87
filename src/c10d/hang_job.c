/* Why nobody goes on, over a job: what this process knows is one dump, the others' come through the store
 * (job_flight.c), and the same diagnosis reads them all. PyTorch: the Flight Recorder's analyser, over the dumps
 * of all ranks. */
#include <string.h>
#include "c10d/internal.h"
#include "flight/dump.h"

void
hang_look_at_ends(const struct world *world, struct flight *flight)
{
    for (int i = 0; i < world->size; i++) {
        const struct rank_end *end = &world->ranks[i].end;
        if (!world_rank_has_ended(world, i))
            continue;
        flight->ranks[i].now    = end->now;
        flight->ranks[i].line   = end->line;
        flight->ranks[i].detail = end->why[0] != '\0' ? flight_text(flight, end->why) : NULL;
    }
}

/* Dumps of all ranks on their way into one flight. */
struct gathering { const struct world *world; struct dumps dumps; };

static bool
gathering_asks(void *context, int rank)
{
    const struct gathering *gathering = context;
    return rank != gathering->world->here;
}

static bool
gathering_ended(void *context, int rank)
{
    const struct gathering *gathering = context;
    return world_rank_has_ended(gathering->world, rank);
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
            flight->ranks[rank].detail = "not started, stopped, or cut off";
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
    struct job_ask ask = { .size = world->size, .context = &gathering, .world = world->in_job.number,
                           .is_asked = gathering_asks, .has_ended = gathering_ended, .take = gathering_take };
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

/* The state as of an event. Forwards it is folded event by event; backwards it starts again from the nearest
 * checkpoint. Where checkpoints become many or large, every second one goes: the way back to one grows with the trace,
 * what all of them take does not.
 *
 * Interface in order of use: state_new, state_seek or state_seek_some, then any question; state_free. The folding is in
 * fold.c. */
#include "analysis/state.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "base/vec.h"
#include "trace/reader.h"

enum { CHECKPOINT_EVENTS = 4096, CHECKPOINTS_MOST = 1024, CHECKPOINT_BYTES_MOST = 16 << 20 };

/* ---- moments ---- */

static void
moment_clear(struct moment *moment)
{
    open_free(&moment->open);
    storages_free(&moment->storages);
    free(moment->memory.items);
    free(moment->buckets.items);
    free(moment->locks.items);
    free(moment->calls.items);
    free(moment->ranks.items);
    free(moment->tasks.items);
    free(moment->stores.items);
    *moment = (struct moment){ 0 };
}

static bool
rows_copy(struct rows *to, const struct rows *from)
{
    size_t room = 0;
    *to = (struct rows){ .size = from->size };
    if (from->count == 0)
        return true;
    if (!vec_room(&to->items, &room, from->count, from->size))
        return false;
    to->room = room;
    to->count = from->count;
    memcpy(to->items, from->items, from->count * from->size);
    return true;
}

/* `to` is empty before, and after a failure. */
static bool
moment_copy(struct moment *to, const struct moment *from)
{
    to->next = from->next;
    to->untold = from->untold;
    to->iteration = from->iteration;
    if (rows_copy(&to->memory, &from->memory) && rows_copy(&to->buckets, &from->buckets) &&
        rows_copy(&to->locks, &from->locks) && rows_copy(&to->calls, &from->calls) &&
        rows_copy(&to->ranks, &from->ranks) && rows_copy(&to->tasks, &from->tasks) &&
        rows_copy(&to->stores, &from->stores) && open_copy(&to->open, &from->open) &&
        storages_copy(&to->storages, &from->storages))
        return true;
    moment_clear(to);
    return false;
}

static size_t
rows_bytes(const struct rows *rows)
{
    return rows->count * rows->size;
}

static size_t
moment_bytes(const struct moment *moment)
{
    return sizeof *moment + open_bytes(&moment->open) + storages_bytes(&moment->storages) +
           rows_bytes(&moment->memory) + rows_bytes(&moment->buckets) + rows_bytes(&moment->locks) +
           rows_bytes(&moment->calls) + rows_bytes(&moment->ranks) + rows_bytes(&moment->tasks) +
           rows_bytes(&moment->stores);
}

/* ---- checkpoints ---- */

static void
thin_out(struct state *state)
{
    size_t kept = 0;
    state->checkpoint_bytes = 0;
    for (size_t i = 0; i < state->checkpoint_count; i++) {
        struct moment *checkpoint = &state->checkpoints[i];
        if (i % 2 == 0) {
            moment_clear(checkpoint);
            continue;
        }
        state->checkpoint_bytes += moment_bytes(checkpoint);
        state->checkpoints[kept++] = *checkpoint;
    }
    state->checkpoint_count = kept;
    state->checkpoint_step *= 2;
}

/* A checkpoint that finds no memory, or is larger than all of them may be, is left out: going back takes longer. */
static void
take_checkpoint(struct state *state)
{
    size_t bytes = moment_bytes(&state->now);
    bool   fits = bytes <= CHECKPOINT_BYTES_MOST;
    while (fits && (state->checkpoint_count == CHECKPOINTS_MOST ||
                    state->checkpoint_bytes + bytes > CHECKPOINT_BYTES_MOST))
        thin_out(state);
    if (fits && vec_room(&state->checkpoints, &state->checkpoint_room, state->checkpoint_count + 1,
                         sizeof *state->checkpoints)) {
        struct moment *checkpoint = &state->checkpoints[state->checkpoint_count];
        *checkpoint = (struct moment){ 0 };
        if (moment_copy(checkpoint, &state->now)) {
            state->checkpoint_count++;
            state->checkpoint_bytes += bytes;
        }
    }
    state->checkpoint_due = state->now.next + state->checkpoint_step;
}

/* The latest checkpoint that `next` events have reached; NULL: none. */
static const struct moment *
nearest_checkpoint(const struct state *state, size_t next)
{
    size_t low = 0, high = state->checkpoint_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->checkpoints[middle].next <= next)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &state->checkpoints[low - 1] : NULL;
}

/* Begins at a checkpoint when `next` lies before now, or when one lies between. */
static bool
start_from_nearest(struct state *state, size_t next)
{
    const struct moment *checkpoint = nearest_checkpoint(state, next);
    if (state->now.next <= next && (checkpoint == NULL || checkpoint->next <= state->now.next))
        return true;
    moment_clear(&state->now);
    return checkpoint == NULL || moment_copy(&state->now, checkpoint);
}

/* ---- the state ---- */

static void
forget_all(struct state *state)
{
    moment_clear(&state->now);
    for (size_t i = 0; i < state->checkpoint_count; i++)
        moment_clear(&state->checkpoints[i]);
    free(state->checkpoints);
    contents_free(&state->contents);
    *state = (struct state){ .trace = state->trace, .meanings = state->meanings, .kind_count = state->kind_count,
                             .version = trace_order_version(state->trace), .checkpoint_step = CHECKPOINT_EVENTS,
                             .checkpoint_due = CHECKPOINT_EVENTS };
}

struct state *
state_new(struct trace *trace)
{
    struct state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return NULL;
    state->trace = trace;
    state->version = trace_order_version(trace);
    state->checkpoint_step = state->checkpoint_due = CHECKPOINT_EVENTS;
    if (!state_learn_kinds(state)) {
        free(state);
        return NULL;
    }
    return state;
}

void
state_free(struct state *state)
{
    if (state == NULL)
        return;
    forget_all(state);
    free(state->meanings);
    free(state);
}

enum state_progress
state_seek_some(struct state *state, size_t seq, size_t budget)
{
    if (seq >= trace_count(state->trace))
        return STATE_FAILED;
    if (state->version != trace_order_version(state->trace))
        forget_all(state);
    if (!start_from_nearest(state, seq + 1))
        return STATE_FAILED;
    for (; state->now.next < seq + 1 && budget > 0; budget--) {
        if (!state_fold(state, state->now.next)) {
            moment_clear(&state->now); /* half an event may be in it */
            return STATE_FAILED;
        }
        if (state->now.next >= state->checkpoint_due)
            take_checkpoint(state);
    }
    return state->now.next == seq + 1 ? STATE_THERE : STATE_GOES_ON;
}

bool
state_seek(struct state *state, size_t seq)
{
    return state_seek_some(state, seq, SIZE_MAX) == STATE_THERE;
}

/* Before the first seek there is no event: SIZE_MAX. */
size_t
state_seq(const struct state *state)
{
    return state->now.next - 1;
}

/* ---- questions ---- */

size_t
state_open(const struct state *state, uint32_t lane, size_t *seqs, size_t room)
{
    const struct open_spans *open = &state->now.open;
    uint32_t                 innermost = lane < open->lanes ? open->innermost[lane] : 0;
    size_t                   count = 0;
    for (uint32_t place = innermost; place != 0; place = open->spans[place - 1].around)
        count++;
    size_t at = count;
    for (uint32_t place = innermost; place != 0; place = open->spans[place - 1].around)
        if (--at < room)
            seqs[at] = open->spans[place - 1].seq;
    return count;
}

struct state_memory
state_memory(const struct state *state, int device)
{
    const struct memory_row *row = rows_find(&state->now.memory, device, 0, NULL);
    return row != NULL ? row->memory : (struct state_memory){ 0 };
}

int64_t
state_snapshot_before(const struct state *state, int64_t storage, size_t before, size_t *seq)
{
    size_t at = contents_before(&state->contents, storage, before < state->noted ? before : state->noted);
    if (at == SIZE_MAX)
        return 0;
    const struct trace_event *event = trace_event(state->trace, at);
    const struct meaning     *meaning = &state->meanings[event->kind < state->kind_count ? event->kind : 0];
    if (seq != NULL)
        *seq = at;
    return meaning->fact == FACT_SNAPSHOT && meaning->arg[1] >= 0 ? event->args[meaning->arg[1]] : 0;
}

int64_t
state_snapshot(const struct state *state, int64_t storage, size_t *seq)
{
    return state_snapshot_before(state, storage, state->now.next, seq);
}

static struct state_bucket
bucket_told(const struct state *state, const struct bucket_row *row)
{
    return (struct state_bucket){
        .index = row->key.second, .bytes = row->bytes, .params = row->params, .ready = row->ready,
        .copied = row->copied, .sequence = row->sequence, .ready_bits = row->ready_bits,
        .unused_bits = row->unused_bits, .launched = row->launched, .reduced = row->reduced,
        .has_sequence = row->has_sequence, .finalized = row->finalized, .rebuilt = row->rebuilt,
        .indices = trace_text_at(state->trace, row->indices),
    };
}

size_t
state_buckets(const struct state *state, int rank, struct state_bucket *out, size_t room)
{
    const struct rows *rows = &state->now.buckets;
    size_t from = 0, count = 0;
    rows_find(rows, rank, INT64_MIN, &from);
    const struct bucket_row *row = (const void *)rows->items;
    for (size_t i = from; i < rows->count && row[i].key.first == rank; i++, count++)
        if (count < room)
            out[count] = bucket_told(state, &row[i]);
    return count;
}

size_t
state_locks(const struct state *state, struct state_lock *out, size_t room)
{
    const struct lock_row *row = (const void *)state->now.locks.items;
    for (size_t i = 0; i < state->now.locks.count && i < room; i++)
        out[i] = (struct state_lock){ .name = trace_text_at(state->trace, row[i].key.second),
                                      .holder_lane = (int)row[i].holder - 1, .waiting = row[i].waiting };
    return state->now.locks.count;
}

/* The last ones are kept in order while all are looked at: there may be thousands, and a screen shows some. */
size_t
state_keys(const struct state *state, struct state_key *out, size_t room)
{
    const struct store_row *row = (const void *)state->now.stores.items;
    size_t count = 0;
    for (size_t i = 0; i < state->now.stores.count; i++, row++) {
        size_t at = count;
        while (at > 0 && out[at - 1].seq < row->seq - 1)
            at--;
        if (at == room)
            continue;
        count += count < room;
        memmove(out + at + 1, out + at, (count - at - 1) * sizeof *out);
        const char *name = trace_text_at(state->trace, row->key.first);
        out[at] = (struct state_key){ name, row->rank, row->seq - 1, row->times };
    }
    return state->now.stores.count;
}

int
state_iteration(const struct state *state)
{
    return (int)state->now.iteration;
}

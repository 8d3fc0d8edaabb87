/* The state as of an event. Forwards it is folded event by event; backwards it starts again from the nearest
 * checkpoint. Checkpoints are as rare as they are large, so that all of them together stay in proportion.
 *
 * Interface in order of use: state_new, state_seek, then any question; state_free. The folding is in fold.c. */
#include "analysis/state.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "base/vec.h"
#include "trace/reader.h"

enum { CHECKPOINT_EVENTS = 4096 };

/* ---- moments ---- */

static void
moment_clear(struct moment *moment)
{
    free(moment->open);
    free(moment->memory.items);
    free(moment->buckets.items);
    free(moment->locks.items);
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
    to->iteration = from->iteration;
    if (rows_copy(&to->memory, &from->memory) && rows_copy(&to->buckets, &from->buckets) &&
        rows_copy(&to->locks, &from->locks) &&
        vec_room(&to->open, &to->open_room, from->open_count + 1, sizeof *to->open)) {
        to->open_count = from->open_count;
        if (from->open_count > 0)
            memcpy(to->open, from->open, from->open_count * sizeof *to->open);
        return true;
    }
    moment_clear(to);
    return false;
}

static size_t
moment_size(const struct moment *moment)
{
    return moment->open_count + moment->memory.count + moment->buckets.count + moment->locks.count;
}

/* ---- checkpoints ---- */

/* A checkpoint that finds no memory is left out: going back only takes longer. */
static void
take_checkpoint(struct state *state)
{
    size_t last = state->checkpoint_count > 0 ? state->checkpoints[state->checkpoint_count - 1].next : 0;
    size_t size = moment_size(&state->now);
    if (state->now.next < last + CHECKPOINT_EVENTS || state->now.next - last < size)
        return;
    if (!vec_room(&state->checkpoints, &state->checkpoint_room, state->checkpoint_count + 1,
                  sizeof *state->checkpoints))
        return;
    struct moment *checkpoint = &state->checkpoints[state->checkpoint_count];
    *checkpoint = (struct moment){ 0 };
    if (moment_copy(checkpoint, &state->now))
        state->checkpoint_count++;
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
    for (size_t i = 0; i < state->snapshot_count; i++)
        free(state->snapshots[i].notes);
    free(state->checkpoints);
    free(state->snapshots);
    free(state->notes);
    map_free(&state->storages);
    map_free(&state->snapshot_of);
    *state = (struct state){ .trace = state->trace, .meanings = state->meanings, .kind_count = state->kind_count,
                             .version = trace_order_version(state->trace) };
}

struct state *
state_new(struct trace *trace)
{
    struct state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return NULL;
    state->trace = trace;
    state->version = trace_order_version(trace);
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

bool
state_seek(struct state *state, size_t seq)
{
    if (seq >= trace_count(state->trace))
        return false;
    if (state->version != trace_order_version(state->trace))
        forget_all(state);
    if (!start_from_nearest(state, seq + 1))
        return false;
    while (state->now.next < seq + 1) {
        if (!state_fold(state, state->now.next)) {
            moment_clear(&state->now); /* half an event may be in it */
            return false;
        }
        take_checkpoint(state);
    }
    return true;
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
    size_t count = 0;
    for (size_t i = 0; i < state->now.open_count; i++) {
        if (state->now.open[i].lane != lane)
            continue;
        if (count < room)
            seqs[count] = state->now.open[i].seq;
        count++;
    }
    return count;
}

struct state_memory
state_memory(const struct state *state, int device)
{
    const struct memory_row *row = rows_find(&state->now.memory, device, 0, NULL);
    return row != NULL ? row->memory : (struct state_memory){ 0 };
}

int64_t
state_snapshot(const struct state *state, int64_t storage, size_t *seq)
{
    uint64_t index;
    if (!map_get(&state->snapshot_of, (uint64_t)storage, &index))
        return 0;
    const struct snapshot_list *list = &state->snapshots[index];
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->notes[middle].seq < state->now.next)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    if (seq != NULL)
        *seq = list->notes[low - 1].seq;
    return list->notes[low - 1].id;
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

int
state_iteration(const struct state *state)
{
    return (int)state->now.iteration;
}

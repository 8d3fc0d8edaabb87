/* One event into the state: what it says about open stages, memory, buckets, locks. Kinds are known by name, so a
 * trace of another version that still has them is understood.
 *
 * Interface: state_learn_kinds once, then state_fold event by event; rows_find for the queries. */
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "base/vec.h"
#include "trace/reader.h"

static const struct { const char *name; enum fact fact; const char *args[4]; } facts[] = {
    { "memory.alloc",             FACT_ALLOC,     { "storage", "bytes", "block" } },
    { "memory.free",              FACT_FREE,      { "storage", "bytes" } },
    { "memory.segment",           FACT_SEGMENT,   { "reserved" } },
    { "memory.role",              FACT_ROLE,      { "storage", "role" } },
    { "autograd.accumulate",      FACT_GRADIENT,  { "storage" } },
    { "memory.snapshot",          FACT_SNAPSHOT,  { "storage", "snapshot" } },
    { "ddp.bucket",               FACT_BUCKET,    { "bucket", "bytes", "params", "indices" } },
    { "ddp.mark_variable_ready",  FACT_READY,     { "bucket", "param" } },
    { "ddp.mark_unused",          FACT_UNUSED,    { NULL } },
    { "ddp.copy_bucket_to_grad",  FACT_COPIED,    { "bucket" } },
    { "ddp.finalize_backward",    FACT_FINALIZED, { NULL } },
    { "ddp.rebuild_buckets",      FACT_REBUILD,   { NULL } },
    { "ddp.prepare_for_backward", FACT_PREPARE,   { NULL } },
    { "ddp.all_reduce_bucket",    FACT_LAUNCH,    { "bucket" } },
    { "c10d.issue",               FACT_ISSUE,     { "sequence" } },
    { "c10d.allreduce",           FACT_REDUCED,   { "sequence" } },
    { "c10d.wait",                FACT_REDUCED,   { "sequence" } },
    { "lock.wait",                FACT_LOCK_WAIT, { "lock" } },
    { "lock.hold",                FACT_LOCK_HOLD, { "lock" } },
};

static struct meaning
meaning_of_kind(const struct trace_kind *kind)
{
    struct meaning meaning = { .fact = FACT_NONE, .says = memory_role_in_stage(kind->name) };
    for (size_t i = 0; i < countof(facts); i++) {
        if (strcmp(facts[i].name, kind->name) != 0)
            continue;
        meaning.fact = facts[i].fact;
        for (int arg = 0; arg < 4; arg++) {
            meaning.arg[arg] = -1;
            for (int at = 0; facts[i].args[arg] != NULL && at < kind->arg_count; at++) {
                if (strcmp(kind->arg_name[at], facts[i].args[arg]) == 0)
                    meaning.arg[arg] = (int8_t)at;
            }
        }
    }
    return meaning;
}

bool
state_learn_kinds(struct state *state)
{
    state->kind_count = trace_kinds(state->trace);
    state->meanings = calloc(state->kind_count, sizeof *state->meanings);
    if (state->meanings == NULL)
        return false;
    for (size_t kind = 0; kind < state->kind_count; kind++)
        state->meanings[kind] = meaning_of_kind(trace_kind(state->trace, (unsigned)kind));
    return true;
}

/* ---- rows ---- */

static int
compare_row_keys(struct row_key a, struct row_key b)
{
    if (a.first != b.first)
        return a.first < b.first ? -1 : 1;
    return a.second < b.second ? -1 : a.second > b.second;
}

void *
rows_find(const struct rows *rows, int64_t first, int64_t second, size_t *place)
{
    const struct row_key wanted = { first, second };
    size_t low = 0, high = rows->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct row_key key;
        memcpy(&key, rows->items + middle * rows->size, sizeof key);
        int order = compare_row_keys(key, wanted);
        if (order == 0) {
            low = middle;
            break;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (place != NULL)
        *place = low;
    return low < high ? rows->items + low * rows->size : NULL;
}

/* The row of this key, new and zero if there was none; NULL: no memory. */
static void *
rows_take(struct rows *rows, int64_t first, int64_t second, size_t size)
{
    size_t place;
    rows->size = size;
    void *row = rows_find(rows, first, second, &place);
    if (row != NULL)
        return row;
    if (!vec_room(&rows->items, &rows->room, rows->count + 1, size))
        return NULL;
    unsigned char *at = rows->items + place * size;
    memmove(at + size, at, (rows->count - place) * size);
    memset(at, 0, size);
    memcpy(at, &(struct row_key){ first, second }, sizeof(struct row_key));
    rows->count++;
    return at;
}

/* The rows whose key begins with `first`. */
static void *
rows_range(const struct rows *rows, int64_t first, size_t *count)
{
    size_t from, to;
    if (rows->count == 0) {
        *count = 0;
        return NULL;
    }
    rows_find(rows, first, INT64_MIN, &from);
    rows_find(rows, first, INT64_MAX, &to);
    *count = to - from;
    return rows->items + from * rows->size;
}

/* ---- facts ---- */

static int64_t
fact_argument(const struct meaning *meaning, const struct trace_event *event, int which)
{
    return meaning->arg[which] >= 0 ? event->args[meaning->arg[which]] : 0;
}

/* The stages around an event, from the inside: the first that says something. Memory that is taken outside of any
 * stage is what a lesson makes to begin with; by an op there, what it works out. */
static enum memory_role
role_at_birth(const struct state *state, const struct trace_event *event)
{
    enum memory_role otherwise = ROLE_INPUTS;
    for (size_t i = state->now.open_count; i-- > 0;) {
        const struct open_span *span = &state->now.open[i];
        if (span->lane != event->lane)
            continue;
        unsigned kind = trace_event(state->trace, span->seq)->kind;
        uint8_t  says = kind < state->kind_count ? state->meanings[kind].says : STAGE_SAYS_NOTHING;
        if (says < MEMORY_ROLES)
            return says;
        if (says == STAGE_IS_OP)
            otherwise = ROLE_ACTIVATIONS;
    }
    return otherwise;
}

static struct storage_note *
storage_noted(const struct state *state, int64_t storage)
{
    uint64_t index;
    return map_get(&state->storages, (uint64_t)storage, &index) ? &state->notes[index] : NULL;
}

/* Noted once, whatever way the state is moved later. NULL: no memory. */
static struct storage_note *
note_storage(struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    int64_t storage = fact_argument(meaning, event, 0), bytes = fact_argument(meaning, event, 1);
    int64_t block = fact_argument(meaning, event, 2);
    struct storage_note *known = storage_noted(state, storage);
    if (known != NULL)
        return known;
    if (!vec_room(&state->notes, &state->note_room, state->note_count + 1, sizeof *state->notes) ||
        !map_set(&state->storages, (uint64_t)storage, state->note_count))
        return NULL;
    if (event->device >= 0 && block > 0)
        bytes = block;
    state->notes[state->note_count] = (struct storage_note){
        .bytes = bytes > 0 ? (uint64_t)bytes : 0, .device = event->device,
        .born = (uint8_t)role_at_birth(state, event),
    };
    return &state->notes[state->note_count++];
}

/* As of just before event `seq`. */
static enum memory_role
role_of(const struct storage_note *note, size_t seq)
{
    enum memory_role role = note->born;
    for (int i = 0; i < note->changes && note->changed[i] < seq; i++)
        role = note->became[i];
    return role;
}

static void
take_away(uint64_t *from, uint64_t bytes)
{
    *from -= bytes < *from ? bytes : *from;
}

/* A free names its storage; which device that was on, how large it was and what for, is noted. */
static bool
fold_memory(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    bool                 taken = meaning->fact == FACT_ALLOC;
    struct storage_note *note = taken ? note_storage(state, meaning, event)
                                      : storage_noted(state, fact_argument(meaning, event, 0));
    if (note == NULL)
        return !taken; /* it came before the trace did */
    struct memory_row *row = rows_take(&state->now.memory, note->device, 0, sizeof *row);
    if (row == NULL)
        return false;
    struct state_memory *memory = &row->memory;
    uint64_t            *role = &memory->role[role_of(note, seq)];
    if (taken) {
        memory->allocated += note->bytes;
        *role += note->bytes;
        memory->blocks++;
        if (memory->allocated > memory->peak)
            memory->peak = memory->allocated;
    } else {
        take_away(&memory->allocated, note->bytes);
        take_away(role, note->bytes);
        memory->blocks -= memory->blocks > 0;
    }
    return true;
}

static bool
fold_segment(struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    struct memory_row *row = rows_take(&state->now.memory, event->device, 0, sizeof *row);
    int64_t            reserved = fact_argument(meaning, event, 0);
    if (row != NULL)
        row->memory.reserved = reserved > 0 ? (uint64_t)reserved : 0;
    return row != NULL;
}

/* A storage turns out to be something: its bytes change sides. */
static bool
fold_role(struct state *state, int64_t storage, enum memory_role role, size_t seq)
{
    struct storage_note *note = storage_noted(state, storage);
    if (note == NULL || role_of(note, seq) == role)
        return true;
    if (seq >= state->noted && note->changes < ROLE_CHANGES) {
        note->changed[note->changes]  = (uint32_t)seq;
        note->became[note->changes++] = (uint8_t)role;
    }
    struct memory_row *row = rows_take(&state->now.memory, note->device, 0, sizeof *row);
    if (row == NULL)
        return false;
    take_away(&row->memory.role[role_of(note, seq)], note->bytes);
    row->memory.role[role_of(note, seq + 1)] += note->bytes;
    return true;
}

/* Buckets are announced from 0 upwards, again after they were rebuilt: the first one replaces all. */
static bool
fold_bucket(struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    struct rows *buckets = &state->now.buckets;
    int64_t index = fact_argument(meaning, event, 0);
    const struct bucket_row *old = rows_find(buckets, event->rank, 0, NULL);
    bool rebuilt = old != NULL && (index == 0 ? old->rebuilding : old->rebuilt);
    if (index == 0 && buckets->count > 0) {
        size_t count;
        unsigned char *first = rows_range(buckets, event->rank, &count);
        size_t behind = (size_t)(buckets->items + buckets->count * buckets->size - first) - count * buckets->size;
        memmove(first, first + count * buckets->size, behind);
        buckets->count -= count;
    }
    struct bucket_row *row = rows_take(buckets, event->rank, index, sizeof *row);
    if (row == NULL)
        return false;
    *row = (struct bucket_row){ .key = row->key, .bytes = fact_argument(meaning, event, 1),
                                .params = fact_argument(meaning, event, 2),
                                .indices = fact_argument(meaning, event, 3), .rebuilt = rebuilt };
    return true;
}

/* Of a parameter in "3 2 1 0": its place, as a bit; 0 from the 65th on, and for one that is not in it. */
static uint64_t
bucket_bit(const char *indices, int64_t param)
{
    char *end = NULL;
    for (int place = 0; place < 64; place++, indices = end) {
        long long index = strtoll(indices, &end, 10);
        if (end == indices)
            break;
        if (index == param)
            return 1ull << place;
    }
    return 0;
}

static void
fold_bucket_progress(struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    bool begins = event->phase == PHASE_BEGIN, ends = event->phase == PHASE_END;
    int64_t value = fact_argument(meaning, event, 0);
    size_t count;
    struct bucket_row *row = rows_range(&state->now.buckets, event->rank, &count);
    for (; count > 0; count--, row++) {
        bool mine = row->key.second == value;
        if (meaning->fact == FACT_PREPARE && begins) {
            *row = (struct bucket_row){ .key = row->key, .bytes = row->bytes, .params = row->params,
                                        .indices = row->indices, .rebuilt = row->rebuilt };
        } else if (meaning->fact == FACT_READY && ends && mine) {
            uint64_t bit = bucket_bit(trace_text_at(state->trace, row->indices), fact_argument(meaning, event, 1));
            row->ready++;
            row->ready_bits |= bit;
            row->unused_bits |= row->marks_unused ? bit : 0;
        } else if (meaning->fact == FACT_UNUSED) {
            row->marks_unused = begins;
        } else if (meaning->fact == FACT_COPIED && ends && mine) {
            row->copied++;
        } else if (meaning->fact == FACT_FINALIZED && ends) {
            row->finalized = true;
        } else if (meaning->fact == FACT_REBUILD) {
            row->rebuilding = begins;
        } else if (meaning->fact == FACT_LAUNCH && mine) {
            row->launching = begins;
            row->launched = true;
        } else if (meaning->fact == FACT_ISSUE && row->launching) {
            row->sequence = value;
            row->has_sequence = true;
        } else if (meaning->fact == FACT_REDUCED && ends && row->has_sequence && row->sequence == value) {
            row->reduced = true;
        }
    }
}

static bool
fold_lock(struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    struct lock_row *row = rows_take(&state->now.locks, event->rank, fact_argument(meaning, event, 0), sizeof *row);
    if (row == NULL)
        return false;
    bool begins = event->phase == PHASE_BEGIN;
    if (meaning->fact == FACT_LOCK_HOLD)
        row->holder = begins ? (int64_t)event->lane + 1 : 0;
    else if (begins)
        row->waiting++;
    else if (row->waiting > 0)
        row->waiting--;
    return true;
}

/* Contents are a history: noted once, whatever way the state is moved later. */
static bool
note_snapshot(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    uint64_t storage = (uint64_t)fact_argument(meaning, event, 0), index;
    if (!map_get(&state->snapshot_of, storage, &index)) {
        index = state->snapshot_count;
        if (!vec_room(&state->snapshots, &state->snapshot_room, index + 1, sizeof *state->snapshots) ||
            !map_set(&state->snapshot_of, storage, index))
            return false;
        state->snapshots[state->snapshot_count++] = (struct snapshot_list){ 0 };
    }
    struct snapshot_list *list = &state->snapshots[index];
    if (!vec_room(&list->notes, &list->room, list->count + 1, sizeof *list->notes))
        return false;
    list->notes[list->count++] = (struct snapshot_note){ (uint32_t)seq, fact_argument(meaning, event, 1) };
    return true;
}

static bool
fold_fact(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    switch (meaning->fact) {
    case FACT_NONE:
        return true;
    case FACT_ALLOC:
    case FACT_FREE:
        return fold_memory(state, meaning, event, seq);
    case FACT_SEGMENT:
        return fold_segment(state, meaning, event);
    case FACT_ROLE: {
        const char *word = trace_text_at(state->trace, fact_argument(meaning, event, 1));
        return fold_role(state, fact_argument(meaning, event, 0), memory_role_of_word(word), seq);
    }
    case FACT_GRADIENT:
        return event->phase != PHASE_END || fold_role(state, fact_argument(meaning, event, 0), ROLE_GRADIENTS, seq);
    case FACT_SNAPSHOT:
        return seq < state->noted || note_snapshot(state, meaning, event, seq);
    case FACT_BUCKET:
        return fold_bucket(state, meaning, event);
    case FACT_LOCK_WAIT:
    case FACT_LOCK_HOLD:
        return fold_lock(state, meaning, event);
    case FACT_READY:
    case FACT_PREPARE:
    case FACT_LAUNCH:
    case FACT_ISSUE:
    case FACT_REDUCED:
    case FACT_UNUSED:
    case FACT_COPIED:
    case FACT_FINALIZED:
    case FACT_REBUILD:
        fold_bucket_progress(state, meaning, event);
    }
    return true;
}

/* ---- open stages ---- */

static bool
open_begin(struct moment *now, const struct trace_event *event, size_t seq)
{
    if (!vec_room(&now->open, &now->open_room, now->open_count + 1, sizeof *now->open))
        return false;
    now->open[now->open_count++] = (struct open_span){ (uint32_t)seq, event->lane };
    return true;
}

static bool
open_end(struct state *state, size_t seq)
{
    if (!trace_whole(state->trace))
        return false;
    struct moment *now = &state->now;
    size_t begin = trace_partner(state->trace, seq), low = 0, high = now->open_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (now->open[middle].seq < begin)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == now->open_count || now->open[low].seq != begin)
        return true;
    memmove(now->open + low, now->open + low + 1, (now->open_count - low - 1) * sizeof *now->open);
    now->open_count--;
    return true;
}

bool
state_fold(struct state *state, size_t seq)
{
    const struct trace_event *event = trace_event(state->trace, seq);
    if (event == NULL)
        return false;
    if (event->phase == PHASE_BEGIN && !open_begin(&state->now, event, seq))
        return false;
    if (event->phase == PHASE_END && !open_end(state, seq))
        return false;
    if (event->kind < state->kind_count && !fold_fact(state, &state->meanings[event->kind], event, seq))
        return false;
    state->now.iteration = event->iteration;
    state->now.next = seq + 1;
    if (state->noted < seq + 1)
        state->noted = seq + 1;
    return true;
}

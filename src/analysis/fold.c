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
    struct meaning meaning = { .fact = FACT_NONE, .says = memory_role_in_stage(kind->name), .nests = kind->is_stage };
    for (size_t i = 0; i < countof(facts); i++) {
        if (strcmp(facts[i].name, kind->name) != 0)
            continue;
        meaning.fact = (uint8_t)facts[i].fact;
        for (int arg = 0; arg < 4; arg++) {
            meaning.arg[arg] = -1;
            for (int at = 0; facts[i].args[arg] != NULL && at < kind->arg_count; at++) {
                if (strcmp(kind->arg_name[at], facts[i].args[arg]) == 0)
                    meaning.arg[arg] = (int8_t)at;
            }
        }
    }
    calls_learn(kind, &meaning);
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
    const struct open_spans *open      = &state->now.open;
    enum memory_role         otherwise = ROLE_INPUTS;
    uint32_t                 place     = event->lane < open->lanes ? open->innermost[event->lane] : 0;
    for (; place != 0; place = open->spans[place - 1].around) {
        unsigned kind = open->spans[place - 1].kind;
        uint8_t  says = kind < state->kind_count ? state->meanings[kind].says : STAGE_SAYS_NOTHING;
        if (says < MEMORY_ROLES)
            return says;
        if (says == STAGE_IS_OP)
            otherwise = ROLE_ACTIVATIONS;
    }
    return otherwise;
}

static void
take_away(uint64_t *from, uint64_t bytes)
{
    *from -= bytes < *from ? bytes : *from;
}

/* As large as its block on a device, on the host as large as was asked for. */
static struct storage
storage_of_event(const struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    int64_t bytes = fact_argument(meaning, event, 1), block = fact_argument(meaning, event, 2);
    if (event->device >= 0 && block > 0)
        bytes = block;
    return (struct storage){ .number = fact_argument(meaning, event, 0), .bytes = bytes > 0 ? (uint64_t)bytes : 0,
                             .device = event->device, .role = (uint8_t)role_at_birth(state, event), .used = true };
}

static bool
count_memory(struct state *state, const struct storage *storage, bool taken)
{
    struct memory_row *row = rows_take(&state->now.memory, storage->device, 0, sizeof *row);
    if (row == NULL)
        return false;
    struct state_memory *memory = &row->memory;
    if (taken) {
        memory->allocated += storage->bytes;
        memory->role[storage->role] += storage->bytes;
        memory->blocks++;
        if (memory->allocated > memory->peak)
            memory->peak = memory->allocated;
    } else {
        take_away(&memory->allocated, storage->bytes);
        take_away(&memory->role[storage->role], storage->bytes);
        memory->blocks -= memory->blocks > 0;
    }
    return true;
}

/* Of more storages than the table takes only the bytes are counted. */
static bool
fold_alloc(struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    struct storage taken = storage_of_event(state, meaning, event);
    bool           full = false;
    if (storage_find(&state->now.storages, taken.number) != NULL)
        return true; /* damage: a storage is taken once */
    struct storage *storage = storage_take(&state->now.storages, taken.number, &full);
    if (storage != NULL) {
        *storage = taken;
    } else if (full) {
        taken.role = ROLE_OTHER;
        state->now.untold++;
    } else {
        return false;
    }
    return count_memory(state, &taken, true);
}

/* A free names its storage; which device that was on, how large it was and what for, is known since it was taken. */
static bool
fold_free(struct state *state, const struct meaning *meaning, const struct trace_event *event)
{
    struct storage *storage = storage_find(&state->now.storages, fact_argument(meaning, event, 0));
    if (storage != NULL) {
        struct storage given = *storage;
        storage_give(&state->now.storages, storage);
        return count_memory(state, &given, false);
    }
    if (state->now.untold == 0)
        return true; /* it came before the trace did */
    struct storage given = storage_of_event(state, meaning, event);
    given.role = ROLE_OTHER;
    state->now.untold--;
    return count_memory(state, &given, false);
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
fold_role(struct state *state, int64_t number, enum memory_role role)
{
    struct storage *storage = storage_find(&state->now.storages, number);
    if (storage == NULL || storage->role == role)
        return true;
    struct memory_row *row = rows_take(&state->now.memory, storage->device, 0, sizeof *row);
    if (row == NULL)
        return false;
    take_away(&row->memory.role[storage->role], storage->bytes);
    row->memory.role[role] += storage->bytes;
    storage->role = (uint8_t)role;
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
    if (index == 0)
        rows_drop(buckets, event->rank);
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
        } else if (meaning->fact == FACT_READY && begins && mine) {
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

static bool
fold_fact(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    switch ((enum fact)meaning->fact) {
    case FACT_NONE:
        return true;
    case FACT_ALLOC:
        return fold_alloc(state, meaning, event);
    case FACT_FREE:
        return fold_free(state, meaning, event);
    case FACT_SEGMENT:
        return fold_segment(state, meaning, event);
    case FACT_ROLE: {
        const char *word = trace_text_at(state->trace, fact_argument(meaning, event, 1));
        return fold_role(state, fact_argument(meaning, event, 0), memory_role_of_word(word));
    }
    case FACT_GRADIENT:
        return event->phase != PHASE_END || fold_role(state, fact_argument(meaning, event, 0), ROLE_GRADIENTS);
    case FACT_SNAPSHOT:
        return seq < state->noted || contents_add(&state->contents, fact_argument(meaning, event, 0), seq);
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

bool
state_fold(struct state *state, size_t seq)
{
    const struct trace_event *event = trace_event(state->trace, seq);
    if (event == NULL)
        return false;
    const struct meaning *meaning = event->kind < state->kind_count ? &state->meanings[event->kind] : NULL;
    if (event->phase == PHASE_BEGIN) {
        const struct open_span span = { .seq = (uint32_t)seq, .kind = event->kind };
        if (!open_begin(&state->now.open, &span, event->lane))
            return false;
    } else if (event->phase == PHASE_END) {
        bool nests = meaning != NULL ? meaning->nests : trace_kind(state->trace, event->kind)->is_stage;
        open_end(&state->now.open, state->trace, event, nests);
    }
    bool tells = meaning != NULL && meaning->fact != FACT_NONE, calls = meaning != NULL && meaning->call != CALL_NONE;
    if ((tells && !fold_fact(state, meaning, event, seq)) || (calls && !calls_fold(state, meaning, event, seq)))
        return false;
    state->now.iteration = event->iteration;
    state->now.next = seq + 1;
    if (state->noted < seq + 1)
        state->noted = seq + 1;
    return true;
}

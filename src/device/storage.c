/* Storages: blocks counted by references, told to the trace when they come and go, and watched for races.
 *
 * The checker remembers each access that a later one may have to be ordered after. A new access is compared with
 * those that overlap it: if one of the two writes and the new actor does not know the old epoch, nobody has waited.
 * Time plays no part, so a race is found in every run or in none.
 *
 * Storages are made in memory.c.
 *
 * Interface in order of use: storage_ref, storage_access_by_host and the like, storage_snapshot,
 * storage_unref. In PyTorch: c10/core/StorageImpl.h, torch/cuda/_sanitizer.py. */
#include "device/storage.h"
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include "base/dtype.h"
#include "base/str.h"
#include "base/vec.h"
#include "device/claims.h"
#include "device/internal.h"
#include "device/real.h"
#include "sched/count.h"
#include "trace/writer.h"


void
storage_emit(struct task *me, enum kind kind, int device, const int64_t args[4])
{
    struct devices *devices = sched_part(me->sched, PART_DEVICES);
    if (!stage_enabled(me, kind))
        return;
    if (devices->on_stream == NULL) {
        point_emit_on(me, device, kind, args);
        return;
    }
    struct lane_event event = *devices->on_stream;
    event.kind   = kind;
    event.phase  = PHASE_INSTANT;
    event.device = device;
    memcpy(event.args, args, sizeof event.args);
    lane_emit(me, &event);
}

int64_t
allocated_on(struct task *me, int device)
{
    const struct device *where = device_of(sched_part(me->sched, PART_DEVICES), device);
    if (where->cache != NULL)
        return (int64_t)cache_allocated(where->cache);
    return (int64_t)__atomic_load_n(&where->memory.allocated, __ATOMIC_RELAXED);
}

/* Lets go of what it holds; the struct is left. */
static void
storage_empty(struct storage *storage)
{
    struct sched   *sched = storage->sched;
    struct devices *devices = sched_part(sched, PART_DEVICES);
    struct device  *device = device_of(devices, storage->device);
    if (storage->number == 0 && storage->block != NULL)
        real_hidden_give(devices, storage);
    else if (storage->number == 0)
        pool_give(&devices->host->pool, storage->data, storage->block_bytes);
    else if (storage->device == DEVICE_CPU)
        pool_give_booked(&device->pool, storage->data, storage->block_bytes, &device->memory, storage->bytes);
    else
        cache_give(device->cache, storage->block, devices->queued > 0);
    storage->block = NULL;
    if (storage->mirror_block != NULL)
        real_mirror_give(storage);
    if (storage->claims != NULL)
        claims_free(storage);
    host_give(storage->sched, storage->notes, storage->note_room * sizeof *storage->notes);
    storage->notes      = NULL;
    storage->note_count = storage->note_room = 0;
    count_down(sched, &devices->living);
}

/* An access that the block's own stream does not know of, and that it was not told to wait for, may still happen when
 * others have the bytes; unless me, which gives them back, knows that it has happened. */
static void
leave_notes(const struct task *me, const struct storage *storage)
{
    struct device *device = device_of(sched_part(storage->sched, PART_DEVICES), storage->device);
    if (storage->number == 0 || storage->block == NULL || block_is_recorded(storage->block))
        return;
    for (size_t i = 0; i < storage->note_count; i++) {
        if (!actor_knows(storage->order, storage->notes[i].epoch) && !actor_knows(&me->actor, storage->notes[i].epoch))
            device->left[device->left_next++ % LEFT_NOTES] =
                (struct left_note){ block_place(storage->block), storage->notes[i] };
    }
}

/* Gives the block back; the number of bytes allocated is the one without it. Entries that still use the bytes keep the
 * struct. */
static void
storage_retire(struct task *me, struct storage *storage)
{
    int      device = storage->device;
    uint32_t number = storage->number;
    int64_t  bytes = (int64_t)storage->bytes, block = (int64_t)storage->block_bytes;
    leave_notes(me, storage);
    storage_empty(storage);
    if (storage->entries == 0)
        host_return(me, storage, sizeof *storage);
    if (number != 0 && stage_enabled(me, KIND_memory_free))
        storage_emit(me, KIND_memory_free, device,
                     (const int64_t[4]){ number, bytes, block, allocated_on(me, device) });
}

struct storage *
storage_blank(struct task *me, int device, size_t bytes)
{
    struct storage *storage = host_take(me, sizeof *storage);
    if (storage == NULL)
        return NULL;
    atomic_init(&storage->references, 1);
    storage->device = device;
    storage->bytes  = bytes;
    storage->sched  = me->sched;
    return storage;
}

struct storage *
storage_ref(struct storage *storage)
{
    if (storage != NULL)
        count_up(storage->sched, &storage->references);
    return storage;
}

void
storage_unref(struct task *me, struct storage *storage)
{
    if (storage != NULL && count_down(me->sched, &storage->references))
        storage_retire(me, storage);
}

/* The block of a device's storage is protected by its stream: whoever gets it next comes later in the same order. */
static bool
is_in_cache(const struct storage *storage)
{
    return storage->device != DEVICE_CPU && storage->order != NULL; /* also when the block has gone */
}

void
storage_hold(struct storage *storage)
{
    if (is_in_cache(storage))
        storage->entries++;
    else
        storage_ref(storage);
}

void
storage_let_go(struct task *me, struct storage *storage)
{
    if (!is_in_cache(storage))
        storage_unref(me, storage);
    else if (--storage->entries == 0 && atomic_load(&storage->references) == 0)
        host_return(me, storage, sizeof *storage);
}

void
storage_abandon(struct storage *storage)
{
    struct sched *sched = storage->sched;
    bool          last;
    if (is_in_cache(storage))
        last = --storage->entries == 0 && atomic_load(&storage->references) == 0;
    else
        last = count_down(sched, &storage->references);
    if (last && !is_in_cache(storage))
        storage_empty(storage);
    if (last)
        host_give(sched, storage, sizeof *storage);
}

static void
describe(struct str *out, const struct access_note *note)
{
    str_addf(out, "%s by %s (", note->what, note->who);
    if (note->rank >= 0)
        str_addf(out, "rank %d, ", note->rank);
    str_addf(out, "line %u) %s bytes %llu to %llu", note->line, note->write ? "writes" : "reads",
             (unsigned long long)note->begin, (unsigned long long)note->end - 1);
}

static bool
race_found(struct task *me, const struct storage *storage, const struct access_note *old,
           const struct access_note *new)
{
    struct str report = { 0 };
    str_addf(&report, "race on storage %u: ", storage->number);
    describe(&report, new);
    str_add(&report, " while nothing orders it after ");
    describe(&report, old);
    str_add(&report, "; let the later one wait: record an event after the first and wait for it, or synchronize");
    if (old->left)
        str_add(&report, "; the first used the memory for a tensor that is gone: t:record_stream(s) keeps it so long");
    if (!str_ok(&report)) {
        str_free(&report);
        return failed(me, E_MEMORY, "out of memory");
    }
    race_tell(me, storage, str_text(&report));
    str_free(&report);
    return false;
}

/* The old access need not be remembered once `new` is: whoever is ordered after `new` is ordered after it too. A
 * read stands for earlier reads only, since others may read beside it without having seen the earlier write. */
static bool
stands_for(const struct actor *actor, const struct access_note *new, const struct access_note *old)
{
    return (new->write || !old->write) && (!new->yields || old->yields) && new->begin <= old->begin &&
           old->end <= new->end && actor_knows(actor, old->epoch);
}

/* Of one line, one actor and one moment, and the bytes meet: a tensor that is read or written piece by piece leaves one
 * note. */
static bool
continues(const struct access_note *new, const struct access_note *old)
{
    return new->epoch.index == old->epoch.index && new->epoch.tick == old->epoch.tick && new->write == old->write &&
           new->yields == old->yields && new->line == old->line && new->what == old->what &&
           new->begin <= old->end && old->begin <= new->end;
}

/* From the host's pool: every op of a steady step leaves a note. */
static bool
note_room(struct task *me, struct storage *storage, size_t need)
{
    size_t more = need > 2 * storage->note_room ? need : 2 * storage->note_room, item = sizeof *storage->notes;
    if (need <= storage->note_room)
        return true;
    struct access_note *grown = pool_ask(me, &devices_of(me)->host->pool, more * item);
    if (grown == NULL)
        return false;
    if (storage->note_count > 0)
        memcpy(grown, storage->notes, storage->note_count * item);
    host_give(me->sched, storage->notes, storage->note_room * item);
    storage->notes     = grown;
    storage->note_room = more;
    return true;
}

/* Where memory is short the checker goes without. */
void
storage_inherit(struct task *me, struct storage *storage)
{
    struct device *device = device_of(devices_of(me), storage->device);
    uint64_t       place  = storage->block != NULL && device->left_next > 0 ? block_place(storage->block) : 0;
    for (int i = 0; place != 0 && i < LEFT_NOTES; i++) {
        struct left_note *left = &device->left[i];
        uint64_t begin = left->place + left->note.begin, end = left->place + left->note.end;
        if (left->place == 0 || end <= place || begin >= place + storage->bytes ||
            !note_room(me, storage, storage->note_count + 1))
            continue;
        struct access_note *note = &storage->notes[storage->note_count++];
        *note       = left->note;
        note->begin = begin > place ? begin - place : 0;
        note->end   = end - place;
        note->left  = true;
        left->place = 0;
    }
}

static bool
note_access(struct task *me, const struct actor *actor, struct storage *storage, const struct access_note *new)
{
    size_t kept = 0;
    for (size_t i = 0; i < storage->note_count; i++) {
        if (!stands_for(actor, new, &storage->notes[i]))
            storage->notes[kept++] = storage->notes[i];
    }
    storage->note_count = kept;
    struct access_note *last = kept > 0 ? &storage->notes[kept - 1] : NULL;
    if (last != NULL && continues(new, last)) {
        last->begin = new->begin < last->begin ? new->begin : last->begin;
        last->end   = new->end > last->end ? new->end : last->end;
        return true;
    }
    if (!note_room(me, storage, kept + 1))
        return false;
    storage->notes[storage->note_count++] = *new;
    return true;
}

static bool
access_by(struct task *me, const struct actor *actor, const char *who, const struct access *access)
{
    struct storage *storage = access->storage;
    if (storage->number == 0 || access->begin >= access->end)
        return true;
    struct access_note new = { .epoch = actor_epoch(actor), .begin = access->begin, .end = access->end,
                               .line = me->line, .write = access->write, .yields = access->yields, .rank = me->rank,
                               .what = access->what };
    snprintf(new.who, sizeof new.who, "%s", who);
    for (size_t i = 0; i < storage->note_count; i++) {
        const struct access_note *old = &storage->notes[i];
        if (old->begin < new.end && new.begin < old->end && (old->write || new.write) &&
            !(old->yields && new.write) && !actor_knows(actor, old->epoch))
            return race_found(me, storage, old, &new);
    }
    return note_access(me, actor, storage, &new);
}

bool
storage_accesses_by(struct task *me, const struct actor *actor, const char *who, const struct access *accesses,
                    int count)
{
    bool allowed = claims_allow(me, accesses, count);
    for (int i = 0; i < count && actor->on && allowed; i++)
        allowed = access_by(me, actor, who, &accesses[i]);
    return allowed;
}

bool
storage_accesses_by_host(struct task *me, const struct access *accesses, int count)
{
    return storage_accesses_by(me, &me->actor, me->name, accesses, count);
}

bool
storage_access_by_host(struct task *me, const struct access *access)
{
    return storage_accesses_by_host(me, access, 1);
}

/* Every NaN as the same one: which of two operands gives a sum its NaN, sign and all, is the compiler's choice. */
static void
equal_nans(enum dtype dtype, void *elements, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char  *at    = (char *)elements + i * dtype_size(dtype);
        double value = dtype_fraction(dtype, at);
        if (value != value)
            dtype_put_fraction(dtype, at, NAN);
    }
}

uint32_t
elements_snapshot(struct task *me, const struct storage_content *content)
{
    struct trace_writer *writer = sched_writer(me->sched);
    const void *from  = content->from;
    enum dtype  dtype = (enum dtype)content->dtype;
    size_t      count = 1;
    if (writer == NULL || !sched_is_stepped(me->sched))
        return 0;
    for (int i = 0; i < content->dims; i++)
        count *= (size_t)content->sizes[i]; /* of a tensor that exists */
    size_t bytes = count * dtype_size(dtype);
    struct trace_snapshot snapshot = { .dtype = content->dtype, .dims = content->dims, .bytes = bytes };
    if (bytes > SNAPSHOT_BYTES || (size_t)content->dims > countof(snapshot.sizes))
        return 0;
    if (content->dims > 0)
        memcpy(snapshot.sizes, content->sizes, (size_t)content->dims * sizeof *content->sizes);
    _Alignas(8) char copy[SNAPSHOT_BYTES];
    if (content->storage != NULL || dtype_is_float(dtype)) {
        if (content->storage == NULL)
            memcpy(copy, from, bytes);
        else if (!device_peek(me, content->storage, copy, from, bytes))
            return 0;
        from = copy;
    }
    if (dtype_is_float(dtype))
        equal_nans(dtype, copy, count);
    snapshot.elements = from;
    return trace_snapshot(writer, &snapshot);
}

/* How far into the storage `from` lies, which may be in its mirror. */
static int64_t
place_in(const struct storage *storage, const void *from)
{
    const char *at = from, *mirror = storage->mirror;
    bool        mirrored = mirror != NULL && at >= mirror && at <= mirror + storage->bytes;
    return at - (mirrored ? mirror : (const char *)storage->data);
}

/* Of what is too large for a snapshot the first and the last elements. */
static void
storage_edges(struct task *me, const struct storage *storage, const struct storage_content *content, int64_t bytes)
{
    enum { EACH = 32, LARGEST = 8 };
    _Alignas(8) char edges[2 * EACH * LARGEST];
    const int64_t    sizes[] = { 2, EACH };
    const size_t     half = EACH * dtype_size((enum dtype)content->dtype);
    if (!sched_is_stepped(me->sched) || !stage_enabled(me, KIND_memory_edges))
        return;
    if (!device_peek(me, storage, edges, content->from, half) ||
        !device_peek(me, storage, edges + half, (const char *)content->from + bytes - half, half))
        return;
    uint32_t id = elements_snapshot(me, &(struct storage_content){ content->dtype, 2, sizes, edges, NULL });
    if (id != 0)
        storage_emit(me, KIND_memory_edges, storage->device,
                     (const int64_t[4]){ storage->number, id, bytes, place_in(storage, content->from) });
}

/* The elements of a small tensor as they are now, so that any past moment can be shown. */
void
storage_snapshot(struct task *me, struct storage *storage, const struct storage_content *given)
{
    if (storage->number == 0 || !stage_enabled(me, KIND_memory_snapshot))
        return;
    int64_t bytes = (int64_t)dtype_size((enum dtype)given->dtype);
    for (int i = 0; i < given->dims; i++)
        bytes *= given->sizes[i];
    bool     whole = bytes <= (storage_is_large(storage) ? PART_BYTES : SNAPSHOT_BYTES);
    struct storage_content content = *given;
    content.storage = storage->device != DEVICE_CPU ? storage : NULL;
    uint32_t id = whole ? elements_snapshot(me, &content) : 0;
    if (id != 0)
        storage_emit(me, KIND_memory_snapshot, storage->device,
                     (const int64_t[4]){ storage->number, id, bytes, place_in(storage, given->from) });
    else if (!whole)
        storage_edges(me, storage, given, bytes);
}

/* ---- who is told of changes ---- */

void
storage_add_watch(struct storage *storage, struct storage_watch *watch)
{
    watch->next      = storage->watches;
    storage->watches = watch;
}

void
storage_remove_watch(struct storage *storage, struct storage_watch *watch)
{
    struct storage_watch **link = &storage->watches;
    while (*link != NULL && *link != watch)
        link = &(*link)->next;
    if (*link != NULL)
        *link = watch->next;
}

bool
storage_tell_change(struct task *me, const struct storage_change *change)
{
    bool ok = true;
    for (struct storage_watch *watch = change->access.storage->watches, *next; watch != NULL && ok; watch = next) {
        next = watch->next;
        ok   = watch->changed(me, watch, change);
    }
    return ok;
}

bool
storage_changed(struct task *me, const struct access *access, bool is_op)
{
    const struct storage_change change = { .access = *access, .line = me->line, .stage = me->stage, .is_op = is_op };
    return storage_tell_change(me, &change);
}

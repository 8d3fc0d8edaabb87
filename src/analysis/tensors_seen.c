/* Which tensors an event is about, and which of other ranks are the same.
 *
 * Interface: tensors_of_event, tensors_of_peers, tensors_named. */
#include "analysis/tensors_internal.h"

#include <stdio.h>
#include <string.h>

#include "analysis/state.h"
#include "base/dtype.h"
#include "trace/reader.h"

enum { STAGES_AROUND = 64, PEERS_LOOKED_AT = 4096, MESSAGE_WITHIN = 64 };

/* ---- of an event ---- */

static bool
is_same_place(const struct seen_tensor *a, const struct seen_tensor *b)
{
    return a->storage == b->storage && a->offset == b->offset && a->dims == b->dims && a->dtype == b->dtype &&
           memcmp(a->size, b->size, (size_t)a->dims * sizeof *a->size) == 0 &&
           memcmp(a->stride, b->stride, (size_t)a->dims * sizeof *a->stride) == 0;
}

/* Behind those that are there; one that is there already is not said twice, but may get a name. */
static size_t
add_seen(struct seen_tensor *out, size_t count, const struct seen_tensor *seen)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_same_place(&out[i], seen))
            continue;
        if (out[i].name[0] == '\0')
            memcpy(out[i].name, seen->name, sizeof seen->name);
        return count;
    }
    if (count < TENSORS_OF_EVENT)
        out[count++] = *seen;
    return count;
}

static size_t
add_group(const struct tensors *tensors, size_t seq, struct seen_tensor *out, size_t count)
{
    const struct told_group *group = group_of_event(tensors, seq);
    for (uint32_t i = 0; group != NULL && i < group->count; i++) {
        struct seen_tensor seen;
        if (seen_at(tensors, tensors->told[group->first + i], &seen))
            count = add_seen(out, count, &seen);
    }
    return count;
}

/* The layout under which all of a storage was seen last: which of several views is meant nobody can tell. */
static bool
last_seen(const struct tensors *tensors, int64_t storage, size_t seq, struct seen_tensor *out)
{
    const struct storage_line *line = line_of(tensors, storage);
    struct storage_facts facts = tensors_storage(tensors, storage, seq);
    size_t place = line != NULL ? line_place(line, seq) : 0;
    for (size_t i = place; i-- > 0 && place - i < 256;)
        if (telling_of(tensors, line->seqs[i])->told == TOLD_TENSOR && seen_at(tensors, line->seqs[i], out) &&
            seen_count(out) * (int64_t)dtype_size((enum dtype)out->dtype) == facts.bytes)
            return true;
    return false;
}

static bool
shape_of_snapshot(const struct tensors *tensors, int64_t id, struct seen_tensor *out)
{
    struct trace_snapshot snapshot;
    if (!trace_snapshot_at(tensors->trace, id, &snapshot))
        return false;
    out->shaped = true;
    out->dtype = snapshot.dtype;
    out->dims = snapshot.dims;
    memcpy(out->size, snapshot.sizes, sizeof out->size);
    row_major_strides(out->dims, out->size, out->stride);
    return true;
}

/* A storage that no event announced: what a snapshot of it says. */
static void
shape_of_storage(const struct tensors *tensors, size_t seq, struct seen_tensor *out)
{
    const struct storage_line *line = line_of(tensors, out->storage);
    for (size_t i = line != NULL ? line_place(line, seq) : 0; i-- > 0;) {
        const struct telling *telling = telling_of(tensors, line->seqs[i]);
        if (telling->told == TOLD_SNAPSHOT && telling->a >= 0 &&
            shape_of_snapshot(tensors, trace_event(tensors->trace, line->seqs[i])->args[telling->a], out))
            return;
    }
}

/* Storages and numbers among the event's own arguments. */
static size_t
add_arguments(const struct tensors *tensors, size_t seq, struct seen_tensor *out, size_t count)
{
    const struct trace_event *event = trace_event(tensors->trace, seq);
    const struct trace_kind  *kind = trace_kind(tensors->trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++) {
        struct seen_tensor seen = { .told = seq, .version = -1, .rank = event->rank, .device = event->device };
        bool numbers = strcmp(kind->name, "comm.numbers") == 0 && strcmp(kind->arg_type[i], "snapshot") == 0;
        if (event->args[i] <= 0 || (!numbers && strcmp(kind->arg_type[i], "storage") != 0))
            continue;
        if (numbers) {
            seen.numbers = event->args[i];
            shape_of_snapshot(tensors, seen.numbers, &seen);
        } else if (!last_seen(tensors, event->args[i], seq, &seen)) {
            seen = (struct seen_tensor){ .told = seq, .version = -1, .rank = event->rank, .device = event->device,
                                         .storage = event->args[i] };
            shape_of_storage(tensors, seq, &seen);
        }
        snprintf(seen.role, sizeof seen.role, "%s", numbers ? "the message" : kind->arg_name[i]);
        if (!numbers && seen.name[0] == '\0')
            tensors_storage_name(tensors, seen.storage, seq, seen.name);
        count = add_seen(out, count, &seen);
    }
    return count;
}

/* What a message carries is told before the hop that sends it, and beside the memory that it leaves. */
static size_t
add_message(const struct tensors *tensors, size_t begin, struct seen_tensor *out, size_t count)
{
    const struct trace_event *hop = trace_event(tensors->trace, begin);
    if (strcmp(trace_kind(tensors->trace, hop->kind)->name, "comm.hop") != 0)
        return count;
    for (size_t at = begin; at-- > 0 && begin - at < MESSAGE_WITHIN;) {
        const struct trace_event *event = trace_event(tensors->trace, at);
        if (event->lane != hop->lane || telling_of(tensors, at)->told == TOLD_TENSOR)
            continue;
        return strcmp(trace_kind(tensors->trace, event->kind)->name, "comm.numbers") == 0
                   ? add_arguments(tensors, at, out, count) : count;
    }
    return count;
}

static size_t
own_tensors(const struct tensors *tensors, size_t seq, struct seen_tensor *out)
{
    const struct trace_event *event = trace_event(tensors->trace, seq);
    size_t begin = event->phase == PHASE_END ? trace_partner(tensors->trace, seq) : seq, count = 0;
    if (begin != SIZE_MAX && event->phase != PHASE_INSTANT)
        count = add_message(tensors, begin, out, count);
    count = add_group(tensors, seq, out, count);
    if (begin != SIZE_MAX && begin != seq)
        count = add_group(tensors, begin, out, count);
    return count > 0 && event->phase != PHASE_INSTANT ? count : add_arguments(tensors, seq, out, count);
}

size_t
tensors_of_event(const struct tensors *tensors, const struct state *state, size_t seq,
                 struct seen_tensor out[TENSORS_OF_EVENT], size_t *of)
{
    const struct trace_event *event = trace_event(tensors->trace, seq);
    struct seen_tensor alone;
    *of = seq;
    if (event == NULL)
        return 0;
    if (seen_at(tensors, seq, &alone)) {
        out[0] = alone;
        return 1;
    }
    size_t count = own_tensors(tensors, seq, out), open[STAGES_AROUND];
    size_t around = count > 0 || state == NULL ? 0 : state_open(state, event->lane, open, STAGES_AROUND);
    around = around < STAGES_AROUND ? around : STAGES_AROUND;
    for (; count == 0 && around > 0; around--) {
        *of = open[around - 1];
        count = add_group(tensors, *of, out, 0);
    }
    return count;
}

/* ---- names and ranks ---- */

static size_t
list_place(const struct named_list *list, size_t seq)
{
    const struct storage_line line = { .seqs = list->seqs, .count = (uint32_t)list->count };
    return line_place(&line, seq);
}

/* In order of rank, then device; one of each pair. */
static size_t
add_peer(struct seen_tensor *out, size_t count, size_t room, const struct seen_tensor *seen)
{
    size_t place = 0;
    for (; place < count; place++) {
        const struct seen_tensor *other = &out[place];
        if (other->rank == seen->rank && (seen->rank >= 0 || other->device == seen->device))
            return count;
        if (other->rank > seen->rank || (other->rank == seen->rank && other->device > seen->device))
            break;
    }
    if (count == room)
        return count;
    memmove(out + place + 1, out + place, (count - place) * sizeof *out);
    out[place] = *seen;
    return count + 1;
}

/* Before it is read what it says. */
static bool
is_known_peer(const struct seen_tensor *peers, size_t count, const struct trace_event *event)
{
    for (size_t i = 0; i < count; i++)
        if (peers[i].rank == event->rank && (event->rank >= 0 || peers[i].device == event->device))
            return true;
    return false;
}

static size_t
peers_by_name(const struct tensors *tensors, const struct seen_tensor *tensor, size_t seq, struct seen_tensor *out,
              size_t room)
{
    uint64_t index;
    size_t   count = add_peer(out, 0, room, tensor);
    if (!map_get_text(&tensors->names, tensor->name, &index))
        return count;
    const struct named_list *list = &tensors->named[index];
    size_t place = list_place(list, seq);
    for (size_t i = place; i-- > 0 && place - i < PEERS_LOOKED_AT;) {
        struct seen_tensor seen;
        if (!is_known_peer(out, count, trace_event(tensors->trace, list->seqs[i])) &&
            seen_at(tensors, list->seqs[i], &seen))
            count = add_peer(out, count, room, &seen);
    }
    return count;
}

/* A collective has one number on all ranks; a kind's other events have none that tells them apart. */
static bool
is_same_collective(const struct tensors *tensors, const struct trace_event *a, const struct trace_event *b)
{
    const struct trace_kind *kind = trace_kind(tensors->trace, a->kind);
    return a->kind == b->kind && b->phase == PHASE_BEGIN && a->args[0] == b->args[0] &&
           strncmp(kind->name, "c10d.", 5) == 0 && kind->arg_count > 0 && strcmp(kind->arg_name[0], "sequence") == 0;
}

static size_t
peers_by_collective(const struct tensors *tensors, const struct seen_tensor *tensor, size_t of, size_t seq,
                    struct seen_tensor *out, size_t room)
{
    const struct trace_event *mine = trace_event(tensors->trace, of);
    size_t count = add_peer(out, 0, room, tensor), behind = groups_until(tensors, seq);
    for (size_t i = behind; i-- > 0 && behind - i < PEERS_LOOKED_AT;) {
        const struct told_group *group = &tensors->groups[i];
        struct seen_tensor       seen;
        if (is_same_collective(tensors, mine, trace_event(tensors->trace, group->seq)) &&
            seen_at(tensors, tensors->told[group->first], &seen) && strcmp(seen.role, tensor->role) == 0)
            count = add_peer(out, count, room, &seen);
    }
    return count;
}

size_t
tensors_of_peers(const struct tensors *tensors, const struct seen_tensor *tensor, size_t of, size_t seq,
                 struct seen_tensor *out, size_t room)
{
    if (tensor->name[0] != '\0')
        return peers_by_name(tensors, tensor, seq, out, room);
    return peers_by_collective(tensors, tensor, of, seq, out, room);
}

bool
tensors_named(const struct tensors *tensors, const char *name, int rank, size_t seq, struct seen_tensor *out)
{
    uint64_t index;
    if (!map_get_text(&tensors->names, name, &index))
        return false;
    const struct named_list *list = &tensors->named[index];
    for (size_t i = list_place(list, seq); i-- > 0;)
        if ((rank < 0 || trace_event(tensors->trace, list->seqs[i])->rank == rank) &&
            seen_at(tensors, list->seqs[i], out))
            return true;
    return false;
}

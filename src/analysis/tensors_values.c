/* What tensors hold as of an event, and the storages that they lie in.
 *
 * Interface: tensors_values, seen_element, seen_summary; tensors_storage, tensors_storage_name, tensors_extents,
 * tensors_largest. */
#include "analysis/tensors_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "trace/reader.h"

enum { LOOKED_AT = 512, EDGE_PIECES = 3 };
#define FARTHEST ((int64_t)1 << 60)

/* ---- values ---- */

/* In bytes of the storage, from the first element to behind the last. */
static void
reach_of(const struct seen_tensor *tensor, int64_t *begin, int64_t *end)
{
    int64_t size = (int64_t)dtype_size((enum dtype)tensor->dtype), last = tensor->offset;
    for (int i = 0; i < tensor->dims; i++)
        last += tensor->size[i] > 0 ? (tensor->size[i] - 1) * tensor->stride[i] : 0;
    *begin = tensor->offset * size;
    *end = (last + 1) * size;
}

static void
add_piece(struct tensor_values *values, const void *bytes, int64_t begin, size_t count)
{
    values->pieces[values->count++] = (struct value_piece){ bytes, begin, begin + (int64_t)count };
}

/* Of edges the snapshot's first half lies at the front, the second at the end; what lies between was written then, too,
 * and is not known: a piece without bytes. true: it holds all from begin to end. */
static bool
take_snapshot(const struct tensors *tensors, size_t seq, int64_t begin, int64_t end, struct tensor_values *values)
{
    const struct telling     *telling = telling_of(tensors, seq);
    const struct trace_event *event = trace_event(tensors->trace, seq);
    struct trace_snapshot     snapshot;
    if (telling->a < 0 || telling->b < 0 || !trace_snapshot_at(tensors->trace, event->args[telling->a], &snapshot))
        return false;
    bool    edges = telling->told == TOLD_EDGES;
    int64_t at = telling->c >= 0 ? event->args[telling->c] : 0;
    int64_t bytes = edges ? event->args[telling->b] : (int64_t)snapshot.bytes;
    if (at < 0 || at > FARTHEST || bytes < (int64_t)snapshot.bytes || bytes > FARTHEST || at >= end ||
        at + bytes <= begin)
        return false;
    if (edges) {
        const char *elements = snapshot.elements;
        size_t      half = snapshot.bytes / 2;
        add_piece(values, elements, at, half);
        add_piece(values, elements + half, at + bytes - (int64_t)half, half);
        add_piece(values, NULL, at, (size_t)bytes);
        values->edges = true;
    } else {
        add_piece(values, snapshot.elements, at, snapshot.bytes);
    }
    return at <= begin && at + bytes >= end;
}

/* A write of which no snapshot tells: the stream's own comes between its begin and its end. */
static bool
is_unseen_write(const struct tensors *tensors, const struct storage_line *line, size_t place)
{
    size_t begin = trace_partner(tensors->trace, line->seqs[place]);
    for (size_t i = place; begin != SIZE_MAX && i-- > 0 && line->seqs[i] > begin;) {
        uint8_t told = telling_of(tensors, line->seqs[i])->told;
        if (told == TOLD_SNAPSHOT || told == TOLD_EDGES)
            return false;
    }
    return true;
}

void
tensors_values(const struct tensors *tensors, const struct seen_tensor *tensor, size_t seq, struct tensor_values *out)
{
    *out = (struct tensor_values){ .seq = SIZE_MAX, .written_since = SIZE_MAX };
    struct trace_snapshot numbers;
    if (tensor->numbers > 0 && trace_snapshot_at(tensors->trace, tensor->numbers, &numbers)) {
        add_piece(out, numbers.elements, 0, numbers.bytes);
        out->seq = tensor->told;
    }
    const struct storage_line *line = line_of(tensors, tensor->storage);
    if (tensor->numbers > 0 || line == NULL || !tensor->shaped)
        return;
    int64_t begin, end;
    size_t  place = line_place(line, seq);
    bool    whole = false;
    reach_of(tensor, &begin, &end);
    for (size_t i = place; i-- > 0 && place - i < LOOKED_AT && out->count + EDGE_PIECES <= VALUE_PIECES && !whole;) {
        size_t  at = line->seqs[i];
        uint8_t told = telling_of(tensors, at)->told;
        if (told == TOLD_WRITE && out->count == 0 && is_unseen_write(tensors, line, i))
            out->written_since = at;
        if (told == TOLD_SNAPSHOT || told == TOLD_EDGES) {
            whole = take_snapshot(tensors, at, begin, end, out);
            out->seq = out->seq == SIZE_MAX && out->count > 0 ? at : out->seq;
        }
    }
}

const void *
seen_element(const struct seen_tensor *tensor, const struct tensor_values *values, int64_t index)
{
    int64_t size = (int64_t)dtype_size((enum dtype)tensor->dtype), place = tensor->offset;
    for (int i = tensor->dims; i-- > 0;) {
        if (tensor->size[i] <= 0)
            return NULL;
        place += index % tensor->size[i] * tensor->stride[i];
        index /= tensor->size[i];
    }
    if (index != 0)
        return NULL;
    for (int i = 0; i < values->count; i++) {
        const struct value_piece *piece = &values->pieces[i];
        if (place * size >= piece->begin && (place + 1) * size <= piece->end)
            return piece->bytes != NULL ? piece->bytes + (place * size - piece->begin) : NULL;
    }
    return NULL;
}

struct value_summary
seen_summary(const struct seen_tensor *tensor, const struct tensor_values *values, int64_t limit)
{
    struct value_summary summary = { .count = seen_count(tensor), .least = INFINITY, .most = -INFINITY };
    uint32_t hash = 2166136261u;
    double   sum = 0;
    size_t   size = dtype_size((enum dtype)tensor->dtype);
    int64_t  half = limit / 2;
    for (int64_t i = 0; i < summary.count; i++) {
        if (summary.count > limit && i == half)
            i = summary.count - half; /* its edges are all that can be there */
        const unsigned char *bytes = seen_element(tensor, values, i);
        if (bytes == NULL)
            continue;
        double value = dtype_fraction((enum dtype)tensor->dtype, bytes);
        summary.known++;
        for (size_t b = 0; b < size; b++)
            hash = (hash ^ bytes[b]) * 16777619u;
        summary.nans += isnan(value) != 0;
        summary.infinities += isinf(value) != 0;
        if (!isfinite(value))
            continue;
        sum += value;
        summary.least = value < summary.least ? value : summary.least;
        summary.most = value > summary.most ? value : summary.most;
    }
    int64_t finite = summary.known - summary.nans - summary.infinities;
    summary.mean = finite > 0 ? sum / (double)finite : NAN;
    summary.hash = (hash ^ hash >> 16) & 0xffff;
    return summary;
}

/* ---- storages ---- */

struct storage_facts
tensors_storage(const struct tensors *tensors, int64_t storage, size_t seq)
{
    const struct storage_line *line = line_of(tensors, storage);
    struct storage_facts facts = { .storage = storage, .device = -1, .rank = -1, .freed = SIZE_MAX, .stage = SIZE_MAX };
    if (line == NULL || line->born == 0 || line->born - 1 > seq)
        return facts;
    const struct trace_event *event = trace_event(tensors->trace, line->born - 1);
    const struct telling     *telling = telling_of(tensors, line->born - 1);
    facts.known = true;
    facts.bytes = telling->a >= 0 ? event->args[telling->a] : 0;
    facts.block = telling->b >= 0 ? event->args[telling->b] : facts.bytes;
    facts.device = event->device;
    facts.rank = event->rank;
    facts.born = line->born - 1;
    facts.freed = line->freed != 0 && line->freed - 1 <= seq ? line->freed - 1 : SIZE_MAX;
    facts.stage = line->stage != 0 ? line->stage - 1 : SIZE_MAX;
    return facts;
}

/* Whose event a tensor was told for: the next one of its lane, which is not far. */
static size_t
owner_of(const struct tensors *tensors, size_t told)
{
    uint32_t lane = trace_event(tensors->trace, told)->lane;
    for (size_t at = told + 1; at < tensors->seen && at < told + 64; at++)
        if (trace_event(tensors->trace, at)->lane == lane && group_of_event(tensors, at) != NULL)
            return at;
    return SIZE_MAX;
}

/* "output of Linear 0", "result of add". */
static void
say_role(const struct tensors *tensors, const struct seen_tensor *seen, char out[160])
{
    size_t owner = owner_of(tensors, seen->told);
    const struct trace_event *event = owner != SIZE_MAX ? trace_event(tensors->trace, owner) : NULL;
    const struct trace_kind  *kind = event != NULL ? trace_kind(tensors->trace, event->kind) : NULL;
    bool module = kind != NULL && strcmp(kind->name, "module.forward") == 0;
    if (kind == NULL)
        snprintf(out, 160, "%.40s", seen->role);
    else if (kind->arg_count > 0 && strcmp(kind->arg_type[0], "text") == 0)
        snprintf(out, 160, "%.40s of %.40s%s%.60s", seen->role, trace_text_at(tensors->trace, event->args[0]),
                 module ? " " : "", module ? trace_text_at(tensors->trace, event->args[1]) : "");
    else
        snprintf(out, 160, "%.40s of %.80s", seen->role, kind->name);
}

void
tensors_storage_name(const struct tensors *tensors, int64_t storage, size_t seq, char out[160])
{
    const struct storage_line *line = line_of(tensors, storage);
    size_t place = line != NULL ? line_place(line, seq) : 0;
    struct seen_tensor latest = { .told = SIZE_MAX };
    out[0] = '\0';
    for (size_t i = place; i-- > 0 && place - i < 64;) {
        struct seen_tensor seen;
        if (telling_of(tensors, line->seqs[i])->told != TOLD_TENSOR || !seen_at(tensors, line->seqs[i], &seen))
            continue;
        if (seen.name[0] != '\0' && strcmp(seen.role, "slot") != 0) {
            memcpy(out, seen.name, sizeof seen.name);
            return;
        }
        if (latest.told == SIZE_MAX || strcmp(seen.role, "result") == 0 || strcmp(seen.role, "output") == 0)
            latest = seen; /* who made it says more than who used it */
    }
    if (latest.told != SIZE_MAX)
        say_role(tensors, &latest, out);
}

/* ---- extents ---- */

static size_t
add_extent(struct extent *out, size_t count, size_t room, const struct extent *extent)
{
    size_t place = 0;
    while (place < count && (out[place].begin < extent->begin ||
                             (out[place].begin == extent->begin && out[place].end < extent->end)))
        place++;
    if (place < count && out[place].begin == extent->begin && out[place].end == extent->end) {
        if (out[place].label[0] == '\0')
            memcpy(out[place].label, extent->label, sizeof extent->label);
        return count;
    }
    if (count == room)
        return count;
    memmove(out + place + 1, out + place, (count - place) * sizeof *out);
    out[place] = *extent;
    return count + 1;
}

size_t
tensors_extents(const struct tensors *tensors, int64_t storage, size_t seq, struct extent *out, size_t room)
{
    const struct storage_line *line = line_of(tensors, storage);
    size_t count = 0, place = line != NULL ? line_place(line, seq) : 0;
    for (size_t i = place; i-- > 0 && place - i < LOOKED_AT;) {
        const struct telling     *telling = telling_of(tensors, line->seqs[i]);
        const struct trace_event *event = trace_event(tensors->trace, line->seqs[i]);
        struct extent      extent = { .told = line->seqs[i] };
        struct seen_tensor seen;
        if (telling->told == TOLD_ALIAS && telling->a >= 0 && telling->b >= 0) {
            extent.begin = event->args[telling->a];
            if (__builtin_add_overflow(extent.begin, event->args[telling->b], &extent.end))
                continue;
        } else if (telling->told == TOLD_TENSOR && seen_at(tensors, line->seqs[i], &seen) && seen_count(&seen) > 0) {
            int64_t size = (int64_t)dtype_size((enum dtype)seen.dtype);
            reach_of(&seen, &extent.begin, &extent.end);
            extent.begin /= size;
            extent.end /= size;
            memcpy(extent.label, seen.name[0] != '\0' ? seen.name : seen.role,
                   seen.name[0] != '\0' ? sizeof seen.name : sizeof seen.role);
        } else {
            continue;
        }
        if (extent.end > extent.begin && extent.begin >= 0)
            count = add_extent(out, count, room, &extent);
    }
    return count;
}

/* ---- the largest ---- */

static size_t
add_largest(struct storage_facts *out, size_t count, size_t room, const struct storage_facts *facts)
{
    size_t place = count;
    while (place > 0 && out[place - 1].block < facts->block)
        place--;
    if (place == room)
        return count;
    size_t kept = count < room ? count : room - 1;
    memmove(out + place + 1, out + place, (kept - place) * sizeof *out);
    out[place] = *facts;
    return kept + 1;
}

size_t
tensors_largest(const struct tensors *tensors, int device, size_t seq, struct storage_facts *out, size_t room)
{
    size_t count = 0;
    for (size_t block = 0; room > 0 && block * LIVE_BLOCK < tensors->storage_count; block++) {
        size_t first = block * LIVE_BLOCK;
        if (tensors->block_freed[block] <= seq)
            continue;
        for (size_t i = first; i < first + LIVE_BLOCK && i < tensors->storage_count; i++) {
            const struct storage_line *line = &tensors->storages[i];
            if (line->born == 0 || line->born - 1 > seq || (line->freed != 0 && line->freed - 1 <= seq))
                continue;
            struct storage_facts facts = tensors_storage(tensors, (int64_t)i, seq);
            if (facts.device == device)
                count = add_largest(out, count, room, &facts);
        }
    }
    return count;
}

/* The index of tensors: grown event by event, in one pass.
 *
 * Interface in order of use: tensors_new, tensors_grow, tensors_seen, tensors_free. Questions about events and ranks
 * are in tensors_seen.c, about values and storages in tensors_values.c. */
#include "analysis/tensors_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/reader.h"

static const struct { const char *kind; enum told told; const char *storage, *args[3]; } tellings[] = {
    { "memory.alloc",         TOLD_ALLOC,    "storage", { "bytes", "block" } },
    { "memory.free",          TOLD_FREE,     "storage", { NULL } },
    { "memory.role",          TOLD_ROLE,     "storage", { "role" } },
    { "memory.alias",         TOLD_ALIAS,    "storage", { "offset", "elements" } },
    { "memory.tensor",        TOLD_TENSOR,   "storage", { "offset", "version", "what" } },
    { "memory.snapshot",      TOLD_SNAPSHOT, "storage", { "snapshot", "bytes", "at" } },
    { "memory.edges",         TOLD_EDGES,    "storage", { "snapshot", "bytes", "at" } },
    { "kernel",               TOLD_WRITE,    "out",     { NULL } },
    { "memory.copy",          TOLD_WRITE,    "out",     { NULL } },
    { "memory.segment",       TOLD_MEMORY,   "",        { NULL } },
    { "memory.record_stream", TOLD_MEMORY,   "",        { NULL } },
};

static int8_t
place_of_argument(const struct trace_kind *kind, const char *name)
{
    for (int i = 0; name != NULL && i < kind->arg_count; i++)
        if (strcmp(kind->arg_name[i], name) == 0)
            return (int8_t)i;
    return -1;
}

static struct telling
telling_of_kind(const struct trace_kind *kind)
{
    for (size_t i = 0; i < countof(tellings); i++)
        if (strcmp(tellings[i].kind, kind->name) == 0)
            return (struct telling){
                (uint8_t)tellings[i].told, kind->is_stage, place_of_argument(kind, tellings[i].storage),
                place_of_argument(kind, tellings[i].args[0]), place_of_argument(kind, tellings[i].args[1]),
                place_of_argument(kind, tellings[i].args[2]) };
    return (struct telling){ TOLD_NOTHING, kind->is_stage, -1, -1, -1, -1 };
}

struct tensors *
tensors_new(struct trace *trace)
{
    struct tensors *tensors = calloc(1, sizeof *tensors);
    if (tensors == NULL)
        return NULL;
    tensors->trace = trace;
    tensors->version = trace_order_version(trace);
    tensors->kind_count = trace_kinds(trace);
    tensors->tellings = calloc(tensors->kind_count + 1, sizeof *tensors->tellings);
    if (tensors->tellings == NULL) {
        free(tensors);
        return NULL;
    }
    for (size_t kind = 0; kind < tensors->kind_count; kind++)
        tensors->tellings[kind] = telling_of_kind(trace_kind(trace, (unsigned)kind));
    return tensors;
}

static void
forget(struct tensors *tensors)
{
    for (size_t i = 0; i < tensors->storage_count; i++)
        free(tensors->storages[i].seqs);
    for (size_t i = 0; i < tensors->named_count; i++)
        free(tensors->named[i].seqs);
    for (size_t i = 0; i < tensors->lane_count; i++)
        free(tensors->lanes[i].open);
    free(tensors->storages);
    free(tensors->block_freed);
    free(tensors->groups);
    free(tensors->told);
    free(tensors->lanes);
    free(tensors->named);
    map_free(&tensors->name_of_text);
    map_free(&tensors->names);
    *tensors = (struct tensors){ .trace = tensors->trace, .tellings = tensors->tellings,
                                 .kind_count = tensors->kind_count, .version = trace_order_version(tensors->trace) };
}

void
tensors_free(struct tensors *tensors)
{
    if (tensors == NULL)
        return;
    forget(tensors);
    free(tensors->tellings);
    free(tensors);
}

size_t
tensors_seen(const struct tensors *tensors)
{
    return tensors->seen;
}

/* ---- storages ---- */

/* Storages are numbered in the order of their creation: a number far above what was seen so far is none. NULL: no
 * memory, or no such storage. */
static struct storage_line *
take_storage(struct tensors *tensors, int64_t storage, bool *starved)
{
    size_t number = (size_t)storage;
    if (storage <= 0 || number > 2 * tensors->seen + 4096)
        return NULL;
    if (number >= tensors->storage_count) {
        size_t blocks = number / LIVE_BLOCK + 1;
        if (!vec_room(&tensors->storages, &tensors->storage_room, number + 1, sizeof *tensors->storages) ||
            !vec_room(&tensors->block_freed, &tensors->block_room, blocks, sizeof *tensors->block_freed)) {
            *starved = true;
            return NULL;
        }
        size_t known = tensors->storage_count > 0 ? (tensors->storage_count - 1) / LIVE_BLOCK + 1 : 0;
        memset(tensors->storages + tensors->storage_count, 0,
               (number + 1 - tensors->storage_count) * sizeof *tensors->storages);
        memset(tensors->block_freed + known, 0, (blocks - known) * sizeof *tensors->block_freed);
        tensors->storage_count = number + 1;
    }
    return &tensors->storages[number];
}

static bool
add_line(struct storage_line *line, size_t seq)
{
    size_t room = line->room;
    if (!vec_room(&line->seqs, &room, (size_t)line->count + 1, sizeof *line->seqs))
        return false;
    line->room = (uint32_t)room;
    line->seqs[line->count++] = (uint32_t)seq;
    return true;
}

/* As long as one of them lives, a block of storages is looked through. */
static void
update_block(struct tensors *tensors, size_t number)
{
    size_t   block = number / LIVE_BLOCK;
    uint32_t latest = 0;
    for (size_t i = block * LIVE_BLOCK; i < (block + 1) * LIVE_BLOCK && i < tensors->storage_count; i++) {
        const struct storage_line *line = &tensors->storages[i];
        uint32_t ends = line->born == 0 ? 0 : line->freed == 0 ? UINT32_MAX : line->freed;
        latest = ends > latest ? ends : latest;
    }
    tensors->block_freed[block] = latest;
}

/* ---- names ---- */

/* The list of the tensors that a text names; NULL: it names none, or there is no memory. */
static struct named_list *
named_by(struct tensors *tensors, int64_t text, bool *starved)
{
    uint64_t index = 0;
    if (map_get(&tensors->name_of_text, (uint64_t)text, &index))
        return index > 0 ? &tensors->named[index - 1] : NULL;
    struct seen_tensor seen;
    bool named = seen_parse(trace_text_at(tensors->trace, text), &seen) && seen.name[0] != '\0';
    index = tensors->named_count;
    if (named && !map_get_text(&tensors->names, seen.name, &index)) {
        *starved = !vec_room(&tensors->named, &tensors->named_room, index + 1, sizeof *tensors->named) ||
                   !map_set_text(&tensors->names, seen.name, index);
        if (*starved)
            return NULL;
        tensors->named[tensors->named_count++] = (struct named_list){ 0 };
    }
    *starved = !map_set(&tensors->name_of_text, (uint64_t)text, named ? index + 1 : 0);
    return named && !*starved ? &tensors->named[index] : NULL;
}

static bool
note_name(struct tensors *tensors, const struct telling *telling, const struct trace_event *event, size_t seq)
{
    bool starved = false;
    struct named_list *list = telling->c >= 0 ? named_by(tensors, event->args[telling->c], &starved) : NULL;
    if (list == NULL)
        return !starved;
    if (!vec_room(&list->seqs, &list->room, list->count + 1, sizeof *list->seqs))
        return false;
    list->seqs[list->count++] = (uint32_t)seq;
    return true;
}

/* ---- lanes ---- */

static struct tensor_lane *
take_lane(struct tensors *tensors, uint32_t lane)
{
    if (lane >= trace_lanes(tensors->trace))
        return NULL;
    if (lane >= tensors->lane_count) {
        if (!vec_room(&tensors->lanes, &tensors->lane_room, (size_t)lane + 1, sizeof *tensors->lanes))
            return NULL;
        memset(tensors->lanes + tensors->lane_count, 0, (lane + 1 - tensors->lane_count) * sizeof *tensors->lanes);
        tensors->lane_count = (size_t)lane + 1;
    }
    return &tensors->lanes[lane];
}

/* What was told on the lane belongs to this event. */
static bool
close_group(struct tensors *tensors, struct tensor_lane *lane, size_t seq)
{
    size_t count = (size_t)lane->pending_count;
    if (count == 0)
        return true;
    if (!vec_room(&tensors->groups, &tensors->group_room, tensors->group_count + 1, sizeof *tensors->groups) ||
        !vec_room(&tensors->told, &tensors->told_room, tensors->told_count + count, sizeof *tensors->told))
        return false;
    tensors->groups[tensors->group_count++] =
        (struct told_group){ (uint32_t)seq, (uint32_t)tensors->told_count, (uint32_t)count };
    memcpy(tensors->told + tensors->told_count, lane->pending, count * sizeof *lane->pending);
    tensors->told_count += count;
    lane->pending_count = 0;
    return true;
}

static bool
note_stage(struct tensors *tensors, struct tensor_lane *lane, const struct trace_event *event, size_t seq)
{
    if (event->phase == PHASE_BEGIN) {
        if (!vec_room(&lane->open, &lane->open_room, lane->open_count + 1, sizeof *lane->open))
            return false;
        lane->open[lane->open_count++] = (uint32_t)seq;
    }
    for (size_t i = lane->open_count; event->phase == PHASE_END && i-- > 0;) {
        if (trace_event(tensors->trace, lane->open[i])->kind == event->kind) {
            lane->open_count = i;
            break;
        }
    }
    return true;
}

/* ---- growing ---- */

static bool
note_storage(struct tensors *tensors, const struct telling *telling, const struct tensor_lane *lane, size_t seq)
{
    const struct trace_event *event = trace_event(tensors->trace, seq);
    bool starved = false;
    struct storage_line *line = telling->storage < 0 ? NULL
                              : take_storage(tensors, event->args[telling->storage], &starved);
    if (line == NULL)
        return !starved;
    if (telling->told == TOLD_ALLOC && line->born == 0) {
        line->born = (uint32_t)seq + 1;
        line->stage = lane->open_count > 0 ? lane->open[lane->open_count - 1] + 1 : 0;
        tensors->block_freed[(size_t)event->args[telling->storage] / LIVE_BLOCK] = UINT32_MAX;
    } else if (telling->told == TOLD_FREE) {
        line->freed = (uint32_t)seq + 1;
        update_block(tensors, (size_t)event->args[telling->storage]);
    }
    return add_line(line, seq);
}

static bool
take_event(struct tensors *tensors, const struct trace_event *event, size_t seq)
{
    if (event->kind >= tensors->kind_count)
        return true;
    const struct telling *telling = &tensors->tellings[event->kind];
    struct tensor_lane   *lane = take_lane(tensors, event->lane);
    if (lane == NULL)
        return event->lane >= trace_lanes(tensors->trace);
    if (telling->told == TOLD_NOTHING || telling->told == TOLD_WRITE) {
        if (!close_group(tensors, lane, seq) || (telling->stage && !note_stage(tensors, lane, event, seq)))
            return false;
        if (telling->told == TOLD_NOTHING || event->phase == PHASE_BEGIN)
            return true;
    }
    if (telling->told == TOLD_TENSOR) {
        if (lane->pending_count < TENSORS_OF_EVENT)
            lane->pending[lane->pending_count++] = (uint32_t)seq;
        if (!note_name(tensors, telling, event, seq))
            return false;
    }
    return note_storage(tensors, telling, lane, seq);
}

bool
tensors_grow(struct tensors *tensors, size_t slice)
{
    if (tensors->version != trace_order_version(tensors->trace))
        forget(tensors);
    size_t count = trace_count(tensors->trace), left = count > tensors->seen ? count - tensors->seen : 0;
    size_t to = tensors->seen + (slice < left ? slice : left);
    for (; tensors->seen < to; tensors->seen++) {
        const struct trace_event *event = trace_event(tensors->trace, tensors->seen);
        if (event == NULL || tensors->seen >= UINT32_MAX - 1 || !take_event(tensors, event, tensors->seen))
            return false;
    }
    return tensors->seen < count;
}

/* ---- for the questions ---- */

const struct storage_line *
line_of(const struct tensors *tensors, int64_t storage)
{
    return storage > 0 && (size_t)storage < tensors->storage_count ? &tensors->storages[storage] : NULL;
}

size_t
line_place(const struct storage_line *line, size_t seq)
{
    size_t low = 0, high = line->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (line->seqs[middle] <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct telling *
telling_of(const struct tensors *tensors, size_t seq)
{
    static const struct telling nothing = { TOLD_NOTHING, false, -1, -1, -1, -1 };
    const struct trace_event *event = trace_event(tensors->trace, seq);
    return event != NULL && event->kind < tensors->kind_count ? &tensors->tellings[event->kind] : &nothing;
}

size_t
groups_until(const struct tensors *tensors, size_t seq)
{
    size_t low = 0, high = tensors->group_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tensors->groups[middle].seq <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct told_group *
group_of_event(const struct tensors *tensors, size_t seq)
{
    size_t behind = groups_until(tensors, seq);
    return behind > 0 && tensors->groups[behind - 1].seq == seq ? &tensors->groups[behind - 1] : NULL;
}

bool
seen_at(const struct tensors *tensors, size_t seq, struct seen_tensor *out)
{
    const struct telling     *telling = telling_of(tensors, seq);
    const struct trace_event *event = trace_event(tensors->trace, seq);
    if (telling->told != TOLD_TENSOR || telling->storage < 0 || telling->a < 0 || telling->c < 0 ||
        !seen_parse(trace_text_at(tensors->trace, event->args[telling->c]), out))
        return false;
    out->told = seq;
    out->storage = event->args[telling->storage];
    out->offset = event->args[telling->a];
    out->version = telling->b >= 0 ? event->args[telling->b] : -1;
    out->rank = event->rank;
    out->device = event->device;
    return out->offset >= 0 && out->offset <= (int64_t)1 << 44;
}

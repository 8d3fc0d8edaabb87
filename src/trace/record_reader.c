/* What a trace says about itself: its kinds, lanes, texts, snapshots, options and the lesson. Texts stay in the
 * mapping; tables of pointers find them. Ids come from outside: one that is larger than the file could hold is no id.
 *
 * Interface: records_take as records are met; trace_kind, trace_lane_at, trace_text_at ... for everybody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/reader.h"
#include "base/vec.h"
#include "trace/internal.h"

static const struct trace_kind unknown_kind = { .name = "?", .function = "", .pytorch = "", .file = "", .source = "",
                                                .args = "" };
static const struct trace_lane_info unknown_lane = { .name = "?", .rank = -1, .device = -1, .kind = LANE_HOST };

/* Makes a table of `size`-byte items reach past `id`; what is new is zero. */
static bool
table_reach(void *items, size_t *count, size_t *room, size_t id, size_t size)
{
    size_t before = *count;
    if (id < before)
        return true;
    if (!vec_room(items, room, id + 1, size))
        return false;
    unsigned char *bytes;
    memcpy(&bytes, items, sizeof bytes);
    memset(bytes + before * size, 0, (id + 1 - before) * size);
    *count = id + 1;
    return true;
}

/* Every record has at least 16 bytes, so a file has fewer of them than this; gaps are few. */
static bool
id_possible(const struct trace *trace, size_t id)
{
    return id < trace->limit / 16;
}

/* ---- taking records in ---- */

static char *
trimmed(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        text[--length] = '\0';
    return text;
}

/* "bytes, op:text" into names and types. */
static bool
parse_args(struct trace *trace, struct trace_kind *kind)
{
    char *list = arena_text(&trace->arena, kind->args);
    if (list == NULL)
        return false;
    while (list != NULL && kind->arg_count < 4) {
        char *next = strchr(list, ',');
        if (next != NULL)
            *next++ = '\0';
        char *type = strchr(list, ':');
        if (type != NULL)
            *type++ = '\0';
        char *name = trimmed(list);
        if (*name != '\0') {
            kind->arg_name[kind->arg_count] = name;
            kind->arg_type[kind->arg_count] = type != NULL ? trimmed(type) : "int";
            kind->arg_count++;
        }
        list = next;
    }
    return true;
}

static bool
take_kind(struct trace *trace, struct reader *record)
{
    size_t id = read_u16(record);
    struct trace_kind kind = { .is_stage = read_u8(record) != 0 };
    read_u8(record);
    kind.name = read_text(record);
    kind.function = read_text(record);
    kind.pytorch = read_text(record);
    kind.args = read_text(record);
    kind.file = read_text(record);
    kind.first_line = read_u32(record);
    kind.line = read_u32(record);
    kind.source = read_text(record);
    if (record->broken || id == 0 || (id < trace->kind_count && trace->kinds[id] != NULL))
        return true;
    struct trace_kind *kept = arena_take(&trace->arena, sizeof *kept);
    if (kept == NULL || !parse_args(trace, &kind) ||
        !table_reach(&trace->kinds, &trace->kind_count, &trace->kind_room, id, sizeof *trace->kinds))
        return false;
    *kept = kind;
    trace->kinds[id] = kept;
    return true;
}

static bool
take_lane(struct trace *trace, struct reader *record)
{
    size_t id = read_u32(record);
    struct trace_lane_info lane = { 0 };
    lane.rank = (int16_t)read_u16(record);
    lane.device = (int16_t)read_u16(record);
    unsigned kind = read_u16(record);
    read_u16(record);
    lane.name = read_text(record);
    lane.kind = kind >= LANE_HOST && kind <= LANE_LESSON ? (enum lane_kind)kind : LANE_HOST;
    lane.rank = lane.rank < -1 ? -1 : lane.rank;
    lane.device = lane.device < -1 ? -1 : lane.device;
    if (record->broken || !id_possible(trace, id) || (id < trace->lane_count && trace->lanes[id] != NULL))
        return true;
    struct trace_lane_info *kept = arena_take(&trace->arena, sizeof *kept);
    if (kept == NULL || !table_reach(&trace->lanes, &trace->lane_count, &trace->lane_room, id, sizeof *trace->lanes))
        return false;
    *kept = lane;
    trace->lanes[id] = kept;
    return true;
}

static bool
take_text(struct trace *trace, struct reader *record)
{
    size_t id = read_u32(record);
    const char *text = read_text(record);
    if (record->broken || id == 0 || !id_possible(trace, id))
        return true;
    if (!table_reach(&trace->texts, &trace->text_count, &trace->text_room, id, sizeof *trace->texts))
        return false;
    if (trace->texts[id] == NULL)
        trace->texts[id] = text;
    return true;
}

static bool
take_snapshot(struct trace *trace, struct reader *record, size_t offset)
{
    size_t id = read_u32(record);
    if (record->broken || id == 0 || !id_possible(trace, id))
        return true;
    if (!table_reach(&trace->snapshots, &trace->snapshot_count, &trace->snapshot_room, id, sizeof *trace->snapshots))
        return false;
    if (trace->snapshots[id] == 0)
        trace->snapshots[id] = offset;
    return true;
}

static bool
take_option(struct trace *trace, struct reader *record)
{
    const char *key = read_text(record), *value = read_text(record);
    if (record->broken)
        return true;
    if (!vec_room(&trace->options, &trace->option_room, trace->option_count + 1, sizeof *trace->options))
        return false;
    trace->options[trace->option_count][0] = key;
    trace->options[trace->option_count++][1] = value;
    return true;
}

static void
take_source(struct trace *trace, struct reader *record)
{
    const char *path = read_text(record), *text = read_text(record);
    if (record->broken || trace->source != NULL)
        return;
    trace->source_path = path;
    trace->source = text;
}

bool
records_take(struct trace *trace, const struct record_bytes *taken)
{
    struct reader record = reader_of(taken->payload, taken->bytes);
    switch (taken->type) {
    case RECORD_KIND: return take_kind(trace, &record);
    case RECORD_LANE: return take_lane(trace, &record);
    case RECORD_TEXT: return take_text(trace, &record);
    case RECORD_OPTION: return take_option(trace, &record);
    case RECORD_SOURCE: take_source(trace, &record); return true;
    case RECORD_SNAPSHOT: return take_snapshot(trace, &record, taken->offset);
    default: return true; /* a newer writer's: it says nothing to us */
    }
}

void
records_free(struct trace *trace)
{
    arena_free(&trace->arena);
    free(trace->kinds);
    free(trace->lanes);
    free(trace->texts);
    free(trace->snapshots);
    free(trace->options);
}

/* ---- handing out ---- */

size_t
trace_kinds(const struct trace *trace)
{
    return trace->kind_count > 0 ? trace->kind_count : 1;
}

const struct trace_kind *
trace_kind(const struct trace *trace, unsigned kind)
{
    return kind < trace->kind_count && trace->kinds[kind] != NULL ? trace->kinds[kind] : &unknown_kind;
}

int
trace_kind_id(const struct trace *trace, const char *name)
{
    for (size_t i = 0; i < trace->kind_count; i++) {
        if (trace->kinds[i] != NULL && strcmp(trace->kinds[i]->name, name) == 0)
            return (int)i;
    }
    return -1;
}

size_t
trace_lanes(const struct trace *trace)
{
    return trace->lane_count > 0 ? trace->lane_count : 1;
}

const struct trace_lane_info *
trace_lane_at(const struct trace *trace, size_t lane)
{
    return lane < trace->lane_count && trace->lanes[lane] != NULL ? trace->lanes[lane] : &unknown_lane;
}

const char *
trace_text_at(const struct trace *trace, int64_t id)
{
    return id > 0 && (uint64_t)id < trace->text_count && trace->texts[id] != NULL ? trace->texts[id] : "?";
}

/* Its record, in the mapping; what its head says of its length is looked at again, since a file may change. */
static struct reader
snapshot_record(const struct trace *trace, size_t id)
{
    size_t at = trace->snapshots[id] - TRACE_PAGE, index = at / TRACE_CHUNK, within = at % TRACE_CHUNK;
    struct chunk *chunk = &trace->chunks[index];
    uint32_t length;
    if (!chunk->touched)
        chunk_touch(trace->touched, trace->chunks, index);
    memcpy(&length, chunk->base + within - sizeof length, sizeof length);
    return reader_of(chunk->base + within, length < TRACE_CHUNK - within ? length : TRACE_CHUNK - within);
}

bool
trace_snapshot_at(const struct trace *trace, int64_t id, struct trace_snapshot *out)
{
    if (id <= 0 || (uint64_t)id >= trace->snapshot_count || trace->snapshots[id] == 0)
        return false;
    struct reader record = snapshot_record(trace, (size_t)id);
    read_u32(&record); /* the id */
    struct trace_snapshot snapshot = { .dtype = read_u8(&record) };
    snapshot.dims = read_u8(&record);
    read_u16(&record);
    if (record.broken || snapshot.dtype >= DTYPE_COUNT || snapshot.dims > 8)
        return false;
    size_t bytes = dtype_size((enum dtype)snapshot.dtype);
    for (int i = 0; i < snapshot.dims; i++) {
        uint64_t size = read_u64(&record);
        if (size > INT64_MAX || __builtin_mul_overflow(bytes, (size_t)size, &bytes))
            return false;
        snapshot.sizes[i] = (int64_t)size;
    }
    snapshot.elements = read_bytes(&record, bytes);
    snapshot.bytes = bytes;
    if (snapshot.elements == NULL)
        return false;
    *out = snapshot;
    return true;
}

const char *
trace_option_of(const struct trace *trace, const char *key)
{
    for (size_t i = trace->option_count; i > 0; i--) {
        if (strcmp(trace->options[i - 1][0], key) == 0)
            return trace->options[i - 1][1];
    }
    return "";
}

bool
option_is_of_story(const char *key)
{
    return strncmp(key, STORY_PART, strlen(STORY_PART)) == 0 || strncmp(key, STORY_TELL, strlen(STORY_TELL)) == 0;
}

bool
trace_option_at(const struct trace *trace, size_t index, const char **key, const char **value)
{
    if (index >= trace->option_count)
        return false;
    *key   = trace->options[index][0];
    *value = trace->options[index][1];
    return true;
}

const char *
trace_source_text(const struct trace *trace, const char **path)
{
    if (path != NULL)
        *path = trace->source_path != NULL ? trace->source_path : "";
    return trace->source != NULL ? trace->source : "";
}

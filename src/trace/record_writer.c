/* Records: what events refer to by number, and what the file says of itself. Every record is composed aside and
 * copied in one piece, its type last, so a reader meets whole ones only.
 *
 * Interface: trace_declare at creation; trace_option, trace_source, trace_lane, trace_text, trace_snapshot whenever
 * something new is met, before the event that refers to it. */
#include "trace/writer.h"

#include <stdio.h>
#include <string.h>

#include "trace/internal.h"

/* A record lies within one chunk; longer texts are cut. */
enum {
    RECORD_HEAD = 8,
    RECORD_ROOM = (int)(TRACE_CHUNK - sizeof(struct chunk_head)) - RECORD_HEAD,
    TEXT_LIMIT = 200 * 1024
};

static void
record_u16(struct str *record, uint16_t value)
{
    str_add_bytes(record, &value, sizeof value);
}

static void
record_u32(struct str *record, uint32_t value)
{
    str_add_bytes(record, &value, sizeof value);
}

/* Cut between characters. */
static void
record_text(struct str *record, const char *text)
{
    size_t length = strlen(text);
    if (length > TEXT_LIMIT) {
        length = TEXT_LIMIT;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
            length--;
    }
    record_u32(record, (uint32_t)length);
    str_add_bytes(record, text, length);
    str_add_bytes(record, "", 1);
}

/* Copies what was composed into the file. The caller holds the mutex. */
static bool
write_record(struct trace_writer *writer, enum record_type type)
{
    const struct str *record = &writer->scratch;
    size_t bytes = RECORD_HEAD + (record->len + 7) / 8 * 8;
    if (!str_ok(record) || record->len > RECORD_ROOM)
        return false;
    if ((size_t)(writer->records_end - writer->records) < bytes) {
        struct trace_place place;
        const struct chunk_head head = { .kind = CHUNK_RECORDS, .sequence = writer->record_chunks };
        if (!writer_chunk(writer, &place, &head))
            return false;
        chunk_finish(writer, &writer->record_place);
        writer->record_place = place;
        writer->record_chunks++;
        writer->records = place.chunk + sizeof(struct chunk_head);
        writer->records_end = place.chunk + TRACE_CHUNK;
    }
    uint32_t length = (uint32_t)record->len;
    memcpy(writer->records + 4, &length, sizeof length);
    memcpy(writer->records + RECORD_HEAD, str_text(record), record->len);
    __atomic_store_n((uint16_t *)(void *)writer->records, (uint16_t)type, __ATOMIC_RELEASE);
    writer->records += bytes;
    return true;
}

static struct str *
begin_record(struct trace_writer *writer)
{
    str_clear(&writer->scratch);
    return &writer->scratch;
}

/* What a file says of a kind. */
static bool
write_kind(struct trace_writer *writer, unsigned id, const struct trace_kind *kind)
{
    struct str *record = begin_record(writer);
    record_u16(record, (uint16_t)id);
    str_add_bytes(record, (const unsigned char[2]){ kind->is_stage, 0 }, 2);
    record_text(record, kind->name);
    record_text(record, kind->function);
    record_text(record, kind->pytorch);
    record_text(record, kind->args);
    record_text(record, kind->file);
    record_u32(record, kind->first_line);
    record_u32(record, kind->line);
    record_text(record, kind->source);
    return write_record(writer, RECORD_KIND);
}

bool
trace_declare(struct trace_writer *writer, unsigned id, const struct trace_kind *kind)
{
    pthread_mutex_lock(&writer->mutex);
    bool written = write_kind(writer, id, kind);
    pthread_mutex_unlock(&writer->mutex);
    return written;
}

uint32_t
trace_text(struct trace_writer *writer, const char *text)
{
    uint64_t id = 0;
    pthread_mutex_lock(&writer->mutex);
    if (!map_get_text(&writer->texts, text, &id)) {
        struct str *record = begin_record(writer);
        record_u32(record, writer->text_count + 1);
        record_text(record, text);
        if (write_record(writer, RECORD_TEXT)) {
            id = ++writer->text_count;
            map_set_text(&writer->texts, text, id); /* without memory it is written again next time */
        }
    }
    pthread_mutex_unlock(&writer->mutex);
    return (uint32_t)id;
}

uint32_t
trace_snapshot(struct trace_writer *writer, const struct trace_snapshot *snapshot)
{
    uint32_t id = 0;
    if (snapshot->dims < 0 || snapshot->dims > 8 || snapshot->bytes > TEXT_LIMIT)
        return 0;
    pthread_mutex_lock(&writer->mutex);
    struct str *record = begin_record(writer);
    record_u32(record, writer->snapshot_count + 1);
    const unsigned char shape[4] = { (unsigned char)snapshot->dtype, (unsigned char)snapshot->dims };
    str_add_bytes(record, shape, sizeof shape);
    str_add_bytes(record, snapshot->sizes, (size_t)snapshot->dims * sizeof *snapshot->sizes);
    str_add_bytes(record, snapshot->elements, snapshot->bytes);
    if (write_record(writer, RECORD_SNAPSHOT))
        id = ++writer->snapshot_count;
    pthread_mutex_unlock(&writer->mutex);
    return id;
}

/* The lane has its number even if the disk is too full for its name. */
uint32_t
trace_lane(struct trace_writer *writer, int rank, int device, enum lane_kind kind, const char *name)
{
    pthread_mutex_lock(&writer->mutex);
    uint32_t lane = writer->lane_count++;
    struct str *record = begin_record(writer);
    record_u32(record, lane);
    record_u16(record, (uint16_t)(int16_t)rank);
    record_u16(record, (uint16_t)(int16_t)device);
    record_u16(record, (uint16_t)kind);
    record_u16(record, 0);
    record_text(record, name);
    write_record(writer, RECORD_LANE);
    pthread_mutex_unlock(&writer->mutex);
    return lane;
}

static void
write_two_texts(struct trace_writer *writer, enum record_type type, const char *first, const char *second)
{
    pthread_mutex_lock(&writer->mutex);
    struct str *record = begin_record(writer);
    record_text(record, first);
    record_text(record, second);
    write_record(writer, type);
    pthread_mutex_unlock(&writer->mutex);
}

void
trace_option(struct trace_writer *writer, const char *key, const char *value)
{
    write_two_texts(writer, RECORD_OPTION, key, value);
}

void
trace_source(struct trace_writer *writer, const char *path, const char *text)
{
    snprintf(writer->lesson, sizeof writer->lesson, "%s", path);
    write_two_texts(writer, RECORD_SOURCE, path, text);
}

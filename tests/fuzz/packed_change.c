/* Changes that know the format (trace/format.h): most of what a blind change of bytes makes is refused at the door. */
#include "packed_change.h"

#include <stddef.h>
#include <string.h>

#include "base/vec.h"
#include "fuzz.h"
#include "packed.h"

enum { EVENT = sizeof(struct trace_event), RECORD_FRONT = 8 };

static void
put(void *at, size_t bytes, uint64_t value)
{
    memcpy(at, &value, bytes); /* little-endian */
}

/* ---- the head ---- */

static void
change_head(struct packed *packed, uint64_t *random)
{
    static const struct { size_t at, bytes; } fields[] = {
        { offsetof(struct trace_head, version), 4 }, { offsetof(struct trace_head, event_bytes), 4 },
        { offsetof(struct trace_head, chunk_bytes), 4 }, { offsetof(struct trace_head, magic), 8 },
    };
    struct trace_head *head = &packed->head;
    switch (dice(random, 10)) {
    case 0:
        head->complete = dice(random, 4) != 0 ? !head->complete : dice_number(random);
        break;
    case 1:
        head->lost = dice_number(random);
        break;
    case 2:
        head->clock = (uint32_t)dice(random, 4);
        break;
    case 3:
        head->tick_base = dice_number(random);
        break;
    case 4:
        head->ticks_per_ms = dice_number(random);
        break;
    case 5:
        head->valid_bytes = dice_number(random) % (2 * TRACE_PAGE + PACKED_CHUNKS * (uint64_t)TRACE_CHUNK);
        break;
    case 6:
        packed->mode ^= 1u << dice(random, 4);
        break;
    case 7:
        packed->cut = (uint32_t)dice_number(random);
        break;
    case 8:
        packed->mode ^= PACKED_VALID;
        break;
    default:
        if (dice(random, 16) == 0) { /* the door: seldom */
            size_t k = (size_t)dice(random, countof(fields));
            put((uint8_t *)head + fields[k].at, fields[k].bytes, dice_number(random));
        }
    }
}

/* ---- chunks ---- */

static void
copy_chunk(struct packed_chunk *to, const struct packed_chunk *from)
{
    uint8_t *body = to->body;
    uint32_t bytes = to->bytes;
    *to = *from;
    to->body = body;
    to->bytes = bytes;
    packed_resize(to, from->bytes);
    memcpy(to->body, from->body, from->bytes);
}

static void
change_row(struct packed *packed, uint64_t *random)
{
    struct packed_chunk *one = &packed->chunks[dice(random, (uint64_t)packed->count)];
    struct packed_chunk *other = &packed->chunks[dice(random, (uint64_t)packed->count)], kept = *one;
    switch (dice(random, 4)) {
    case 0:
        *one = *other;
        *other = kept;
        break;
    case 1:
        if (packed->count < PACKED_CHUNKS)
            copy_chunk(&packed->chunks[packed->count++], one);
        break;
    case 2: /* gone */
        *one = packed->chunks[packed->count - 1];
        packed->chunks[packed->count - 1] = kept;
        packed_resize(&packed->chunks[packed->count - 1], 0);
        break;
    default:
        packed_resize(one, (size_t)dice(random, one->bytes + 65));
    }
}

static void
change_chunk_head(struct packed_chunk *chunk, uint64_t *random)
{
    switch (dice(random, 6)) {
    case 0:
        chunk->head.writer = (uint32_t)(dice(random, 4) != 0 ? dice(random, 4) : dice_number(random));
        break;
    case 1:
        chunk->head.sequence = (uint32_t)(dice(random, 4) != 0 ? dice(random, 4) : dice_number(random));
        break;
    case 2:
        chunk->head.kind = (uint32_t)dice(random, 4);
        break;
    case 3:
        chunk->copies = (uint32_t)(dice(random, 8) != 0 ? dice(random, 4) : dice_number(random));
        break;
    case 4:
        chunk->head.magic = dice(random, 4) == 0 ? (uint32_t)dice_number(random) : CHUNK_MAGIC;
        break;
    default:
        chunk->head.reserved[dice(random, 6)] = dice_number(random);
    }
}

/* ---- events and records ---- */

static void
change_event(struct trace_event *event, uint64_t *random)
{
    switch (dice(random, 11)) {
    case 0:
        event->time = dice(random, 2) == 0 ? dice_number(random) : event->time + dice(random, 2000) - 1000;
        break;
    case 1:
    case 2:
        event->args[dice(random, 4)] = (int64_t)dice_number(random);
        break;
    case 3:
        event->flow = (uint32_t)dice_number(random);
        break;
    case 4:
        event->line = (uint32_t)dice_number(random);
        break;
    case 5:
        event->iteration = (uint32_t)dice_number(random);
        break;
    case 6:
        event->lane = (uint32_t)(dice(random, 8) != 0 ? dice(random, 8) : dice_number(random));
        break;
    case 7:
        event->rank = (int16_t)dice_number(random);
        event->device = (int16_t)dice_number(random);
        break;
    case 8:
        event->phase = (uint8_t)(dice(random, 8) != 0 ? 1 + dice(random, 3) : dice_number(random));
        break;
    case 9:
        event->depth = (uint8_t)dice_number(random);
        break;
    default:
        event->kind = (uint16_t)(dice(random, 8) != 0 ? dice(random, 130) : dice_number(random));
    }
}

static void
change_events(struct packed_chunk *chunk, uint64_t *random)
{
    uint8_t one[EVENT], other[EVENT];
    size_t count = chunk->bytes / EVENT;
    if (count == 0) {
        packed_resize(chunk, EVENT);
        return;
    }
    uint8_t *first = chunk->body + dice(random, count) * EVENT, *second = chunk->body + dice(random, count) * EVENT;
    struct trace_event event;
    switch (dice(random, 6)) {
    case 0: /* swapped */
        memcpy(one, first, EVENT);
        memcpy(other, second, EVENT);
        memcpy(first, other, EVENT);
        memcpy(second, one, EVENT);
        break;
    case 1: /* one more, at the end */
        memcpy(one, first, EVENT);
        if (packed_resize(chunk, chunk->bytes + EVENT))
            memcpy(chunk->body + chunk->bytes - EVENT, one, EVENT);
        break;
    case 2: /* one less */
        memmove(first, first + EVENT, (size_t)(chunk->body + chunk->bytes - first) - EVENT);
        packed_resize(chunk, chunk->bytes - EVENT);
        break;
    default:
        memcpy(&event, first, EVENT);
        for (uint64_t times = 1 + dice(random, 3); times > 0; times--)
            change_event(&event, random);
        memcpy(first, &event, EVENT);
    }
}

static size_t
record_bytes(const struct packed_chunk *chunk, size_t at)
{
    uint32_t length;
    memcpy(&length, chunk->body + at + 4, sizeof length);
    size_t left = chunk->bytes - at;
    return length > left - RECORD_FRONT ? left : RECORD_FRONT + (length + (size_t)7) / 8 * 8 > left
        ? left : RECORD_FRONT + (length + (size_t)7) / 8 * 8;
}

/* Where some record begins; chunk->bytes: there is none. */
static size_t
some_record(const struct packed_chunk *chunk, uint64_t *random)
{
    size_t starts[512], count = 0;
    for (size_t at = 0; chunk->bytes - at >= RECORD_FRONT && count < countof(starts);) {
        starts[count++] = at;
        at += record_bytes(chunk, at);
    }
    return count > 0 ? starts[dice(random, count)] : chunk->bytes;
}

/* One more at the end, which is as another one. */
static void
double_record(struct packed_chunk *chunk, size_t at)
{
    size_t bytes = record_bytes(chunk, at), end = chunk->bytes;
    if (packed_resize(chunk, end + bytes))
        memmove(chunk->body + end, chunk->body + at, bytes);
}

static void
change_records(struct packed_chunk *chunk, uint64_t *random)
{
    size_t at = some_record(chunk, random);
    if (at == chunk->bytes) {
        packed_resize(chunk, RECORD_FRONT + dice(random, 64));
        return;
    }
    size_t bytes = record_bytes(chunk, at);
    uint8_t *record = chunk->body + at;
    switch (dice(random, 7)) {
    case 0:
        put(record, 2, dice(random, 8) != 0 ? dice(random, 8) : dice_number(random));
        break;
    case 1:
        put(record + 4, 4, dice(random, 2) == 0 ? bytes + dice(random, 24) - 12 : dice_number(random));
        break;
    case 2:
        double_record(chunk, at);
        break;
    case 3:
        memmove(record, record + bytes, chunk->bytes - at - bytes);
        packed_resize(chunk, chunk->bytes - bytes);
        break;
    case 4: /* the id, or the number that stands there */
        if (bytes >= RECORD_FRONT + 4)
            put(record + RECORD_FRONT, dice(random, 2) == 0 ? 2 : 4,
                dice(random, 8) != 0 ? dice(random, 200) : dice_number(random));
        break;
    case 5: /* a length within */
        if (bytes >= RECORD_FRONT + 8)
            put(record + RECORD_FRONT + dice(random, bytes - RECORD_FRONT - 3), 4, dice_number(random) % 64);
        break;
    default:
        if (bytes > RECORD_FRONT)
            LLVMFuzzerMutate(record + RECORD_FRONT, bytes - RECORD_FRONT, bytes - RECORD_FRONT);
    }
}

void
packed_change(struct packed *packed, uint64_t *random)
{
    uint64_t what = dice(random, 16);
    if (what == 0 || packed->count == 0) {
        change_head(packed, random);
        return;
    }
    if (what == 1) {
        change_row(packed, random);
        return;
    }
    struct packed_chunk *chunk = &packed->chunks[dice(random, (uint64_t)packed->count)];
    if (what == 2)
        change_chunk_head(chunk, random);
    else if (what == 3 && chunk->bytes > 0)
        LLVMFuzzerMutate(chunk->body, chunk->bytes, chunk->bytes);
    else if (chunk->head.kind == CHUNK_RECORDS)
        change_records(chunk, random);
    else
        change_events(chunk, random);
}

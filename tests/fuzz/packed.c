/* The packed form of a trace: read, written, and made a file of. */
#include "packed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

enum { CHUNK_FRONT = sizeof(struct chunk_head) + 2 * sizeof(uint32_t) };

static const uint8_t *
take(const uint8_t *from, void *into, size_t size)
{
    memcpy(into, from, size);
    return from + size;
}

bool
packed_resize(struct packed_chunk *chunk, size_t bytes)
{
    if (bytes > PACKED_BODY)
        return false;
    uint8_t *body = realloc(chunk->body, bytes + 1);
    fuzz_assert(body != NULL, "there is memory for a chunk");
    if (bytes > chunk->bytes)
        memset(body + chunk->bytes, 0, bytes - chunk->bytes);
    chunk->body = body;
    chunk->bytes = (uint32_t)bytes;
    return true;
}

/* A chunk that says it is longer than what is left ends there. */
bool
packed_read(struct packed *packed, const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;
    *packed = (struct packed){ 0 };
    if (size < 2 * sizeof(uint32_t) + sizeof packed->head)
        return false;
    data = take(data, &packed->cut, sizeof packed->cut);
    data = take(data, &packed->mode, sizeof packed->mode);
    data = take(data, &packed->head, sizeof packed->head);
    while (packed->count < PACKED_CHUNKS && end - data >= CHUNK_FRONT) {
        struct packed_chunk *chunk = &packed->chunks[packed->count++];
        uint32_t bytes;
        data = take(data, &chunk->head, sizeof chunk->head);
        data = take(data, &bytes, sizeof bytes);
        data = take(data, &chunk->copies, sizeof chunk->copies);
        size_t left = (size_t)(end - data) < PACKED_BODY ? (size_t)(end - data) : PACKED_BODY;
        packed_resize(chunk, bytes < left ? bytes : left);
        data = take(data, chunk->body, chunk->bytes);
    }
    return true;
}

size_t
packed_write(const struct packed *packed, uint8_t *data, size_t max)
{
    size_t size = 2 * sizeof(uint32_t) + sizeof packed->head;
    for (int i = 0; i < packed->count; i++)
        size += CHUNK_FRONT + packed->chunks[i].bytes;
    if (size > max)
        return 0;
    memcpy(data, &packed->cut, sizeof packed->cut);
    memcpy(data + 4, &packed->mode, sizeof packed->mode);
    memcpy(data + 8, &packed->head, sizeof packed->head);
    data += 8 + sizeof packed->head;
    for (int i = 0; i < packed->count; i++) {
        const struct packed_chunk *chunk = &packed->chunks[i];
        memcpy(data, &chunk->head, sizeof chunk->head);
        memcpy(data + sizeof chunk->head, &chunk->bytes, sizeof chunk->bytes);
        memcpy(data + sizeof chunk->head + 4, &chunk->copies, sizeof chunk->copies);
        memcpy(data + CHUNK_FRONT, chunk->body, chunk->bytes);
        data += CHUNK_FRONT + chunk->bytes;
    }
    return size;
}

void
packed_free(struct packed *packed)
{
    for (int i = 0; i < packed->count; i++)
        free(packed->chunks[i].body);
}

size_t
packed_length(const struct packed *packed)
{
    return TRACE_PAGE + (size_t)packed->count * TRACE_CHUNK;
}

/* What lies behind `end` is left out. */
static void
put_bytes(int fd, const void *bytes, size_t count, size_t at, size_t end)
{
    count = at >= end ? 0 : count < end - at ? count : end - at;
    fuzz_assert(pwrite(fd, bytes, count, (off_t)at) == (ssize_t)count, "the file takes it");
}

/* Only what is not zero is written: a file in memory has the rest for nothing. */
void
packed_put(const struct packed *packed, int fd, size_t bytes)
{
    struct trace_head head = packed->head;
    if (packed->mode & PACKED_VALID)
        head.valid_bytes = packed_length(packed);
    fuzz_assert(ftruncate(fd, (off_t)bytes) == 0, "the file has that length");
    put_bytes(fd, &head, sizeof head, 0, bytes);
    for (int i = 0; i < packed->count; i++) {
        const struct packed_chunk *chunk = &packed->chunks[i];
        size_t at = TRACE_PAGE + (size_t)i * TRACE_CHUNK, copies = chunk->bytes > 0 ? PACKED_BODY / chunk->bytes : 0;
        put_bytes(fd, &chunk->head, sizeof chunk->head, at, bytes);
        at += sizeof chunk->head;
        copies = chunk->copies < copies ? chunk->copies : copies;
        for (size_t k = 0; k < copies || k == 0; k++)
            put_bytes(fd, chunk->body, chunk->bytes, at + k * chunk->bytes, bytes);
    }
}

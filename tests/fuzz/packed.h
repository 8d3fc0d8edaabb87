/* A trace file without its empty space, as fuzz_trace's inputs hold it: a real one has 256 KiB of zeros for each
 * handful of events, which nobody can change to any effect. Little-endian, without padding:
 *
 *   u32 cut          bytes missing at the file's end, modulo its length
 *   u32 mode         enum packed_mode, or-ed
 *   struct trace_head
 *   then chunks      struct chunk_head, u32 bytes, u32 copies (the body is there so often, as far as it fits), body
 *
 * Order of use: packed_read, packed_put or any change and packed_write, packed_free. */
#ifndef FUZZ_PACKED_H
#define FUZZ_PACKED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/format.h"

enum packed_mode {
    PACKED_GROWS  = 1, /* half of it is there when it is opened, the rest comes afterwards */
    PACKED_VALID  = 2, /* valid_bytes is what there is */
    PACKED_SHRINK = 4, /* at last the file is cut where `cut` says, while it is open */
    PACKED_DRAWN  = 8  /* the viewer draws it too */
};

enum { PACKED_CHUNKS = 6, PACKED_BODY = TRACE_CHUNK - sizeof(struct chunk_head) };

struct packed_chunk {
    struct chunk_head head;
    uint32_t          bytes, copies;
    uint8_t          *body;            /* malloc'd by packed_read */
};

struct packed {
    uint32_t            cut, mode;
    struct trace_head   head;
    struct packed_chunk chunks[PACKED_CHUNKS];
    int                 count;
};

bool   packed_read(struct packed *packed, const uint8_t *data, size_t size); /* false: too short; nothing to free */
size_t packed_write(const struct packed *packed, uint8_t *data, size_t max); /* 0: it does not fit */
void   packed_free(struct packed *packed);
bool   packed_resize(struct packed_chunk *chunk, size_t bytes);              /* false: more than a chunk can hold */

size_t packed_length(const struct packed *packed);                           /* of the file that it stands for */
/* Into the file as much of what it stands for as `bytes` hold; the rest of it zeros. */
void   packed_put(const struct packed *packed, int fd, size_t bytes);
#endif

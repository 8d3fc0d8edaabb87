/* Which chunks of an open trace may have pages in memory.
 *
 * Interface: chunk_touch. */
#include <sys/mman.h>

#include "trace/internal.h"

/* Pages that were looked at are let go after a while; what they hold stays in the file and comes back when wanted. */
void
chunk_touch(struct touched *touched, struct chunk *chunks, size_t index)
{
    if (touched->count == TOUCHED_MOST) {
        for (uint32_t i = 0; i < touched->count; i++) {
            struct chunk *chunk = &chunks[touched->chunks[i]];
            madvise((void *)(uintptr_t)chunk->base, TRACE_CHUNK, MADV_DONTNEED);
            chunk->touched = false;
        }
        touched->count = 0;
    }
    chunks[index].touched = true;
    touched->chunks[touched->count++] = (uint32_t)index;
}

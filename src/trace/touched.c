/* Which chunks of an open trace may have pages in memory.
 *
 * Interface: touched_new, trace_hold, chunk_touch. */
#include <stdlib.h>
#include <sys/mman.h>

#include "trace/internal.h"

/* Pages that were looked at are let go after a while; what they hold stays in the file and comes back when wanted. */
void
chunk_touch(struct touched *touched, struct chunk *chunks, size_t index)
{
    if (touched->count == touched->most) {
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

struct touched *
touched_new(uint32_t most)
{
    struct touched *touched = malloc(sizeof *touched + most * sizeof touched->chunks[0]);
    if (touched != NULL)
        *touched = (struct touched){ .most = most };
    return touched;
}

void
trace_hold(struct trace *trace, size_t bytes)
{
    size_t most = bytes / TRACE_CHUNK;
    struct touched *touched = most > trace->touched->most && most < UINT32_MAX ? touched_new((uint32_t)most) : NULL;
    if (touched == NULL)
        return;
    touched->count = trace->touched->count;
    for (uint32_t i = 0; i < touched->count; i++)
        touched->chunks[i] = trace->touched->chunks[i];
    free(trace->touched);
    trace->touched = touched;
}

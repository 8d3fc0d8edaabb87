/* Chunks of the file that is written: taken one by one from its end, begun by whoever fills them, finished when full.
 *
 * Interface: writer_chunk; or chunk_take, made ready by another thread, then chunk_begin; at last chunk_finish. */
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"

void
chunk_begin(unsigned char *chunk, const struct chunk_head *head)
{
    struct chunk_head *begun = (struct chunk_head *)(void *)chunk;
    begun->kind = head->kind;
    begun->writer = head->writer;
    begun->sequence = head->sequence;
    __atomic_store_n(&begun->magic, CHUNK_MAGIC, __ATOMIC_RELEASE); /* last: before it the chunk is not there */
}

bool
chunk_take(struct trace_writer *writer, struct trace_place *place)
{
    if (atomic_load_explicit(&writer->full, memory_order_relaxed))
        return false;
    bool refused = writer->refuses != NULL && writer->refuses(writer->refuses_context);
    if (refused || !space_chunk(&writer->space, place)) {
        atomic_store(&writer->full, true);
        return false;
    }
    __atomic_store_n(&writer->head->valid_bytes, writer->space.handed, __ATOMIC_RELEASE);
    return true;
}

/* What finds no room counts in the hash all the same. */
static bool
chunk_outside(struct trace_writer *writer, struct trace_place *place)
{
    if (!writer->hashing)
        return false;
    *place = (struct trace_place){ .chunk = calloc(1, TRACE_CHUNK) };
    if (place->chunk == NULL)
        atomic_store(&writer->unsummed, true);
    return place->chunk != NULL;
}

bool
writer_chunk(struct trace_writer *writer, struct trace_place *place, const struct chunk_head *head)
{
    bool taken = chunk_take(writer, place);
    if (taken && !space_prepare(&writer->space, place)) {
        atomic_store(&writer->full, true);
        space_release(place);
        taken = false;
    }
    if (!taken && !chunk_outside(writer, place))
        return false;
    chunk_begin(place->chunk, head);
    return true;
}

void
chunk_finish(struct trace_writer *writer, struct trace_place *place)
{
    if (place->chunk == NULL)
        return;
    if (writer->hashing)
        atomic_fetch_add_explicit(&writer->sum, chunk_sum(place->chunk, writer->lesson), memory_order_relaxed);
    if (place->offset > 0)
        space_release(place);
    else
        free(place->chunk);
    *place = (struct trace_place){ 0 };
}

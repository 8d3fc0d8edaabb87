/* Chunks of the file that is written: taken one by one from its end, each begun by whoever fills it.
 *
 * Interface: writer_chunk; or chunk_take, made ready by another thread, then chunk_begin. */
#include "trace/internal.h"

void
chunk_begin(unsigned char *chunk, enum chunk_kind kind, uint32_t number, uint32_t sequence)
{
    struct chunk_head *head = (struct chunk_head *)(void *)chunk;
    head->kind = kind;
    head->writer = number;
    head->sequence = sequence;
    __atomic_store_n(&head->magic, CHUNK_MAGIC, __ATOMIC_RELEASE); /* last: before it the chunk is not there */
}

unsigned char *
chunk_take(struct trace_writer *writer, size_t *offset)
{
    if (atomic_load_explicit(&writer->full, memory_order_relaxed))
        return NULL;
    unsigned char *chunk = space_chunk(&writer->space, offset);
    if (chunk == NULL)
        atomic_store(&writer->full, true);
    else
        __atomic_store_n(&writer->head->valid_bytes, writer->space.handed, __ATOMIC_RELEASE);
    return chunk;
}

unsigned char *
writer_chunk(struct trace_writer *writer, enum chunk_kind kind, uint32_t number, uint32_t sequence)
{
    size_t offset;
    unsigned char *chunk = chunk_take(writer, &offset);
    if (chunk == NULL)
        return NULL;
    if (!space_prepare(&writer->space, chunk, offset)) {
        atomic_store(&writer->full, true);
        return NULL;
    }
    chunk_begin(chunk, kind, number, sequence);
    return chunk;
}

/* The hash of a trace: of what its chunks hold, each taken by itself and added up, so that it can be taken while the
 * trace is written, in any order, and of the finished file again. Where a chunk belongs is in its head (which writer's,
 * the how many-th), so a chunk that moved among its own would change the sum; the file's head and the room that nobody
 * filled say nothing. Nothing here is secret: the sum tells runs apart, it does not guard them.
 *
 * Interface: chunk_sum, sum_digits. */
#include <string.h>

#include "trace/internal.h"

static uint64_t
mixed(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static uint64_t
word_at(const unsigned char *chunk, size_t index)
{
    uint64_t word;
    memcpy(&word, chunk + index * sizeof word, sizeof word);
    return word;
}

uint64_t
chunk_sum(const unsigned char *chunk)
{
    struct chunk_head head;
    size_t words = TRACE_CHUNK / sizeof(uint64_t), first = sizeof head / sizeof(uint64_t);
    memcpy(&head, chunk, sizeof head);
    if (head.magic != CHUNK_MAGIC)
        return 0;
    while (words > first && word_at(chunk, words - 1) == 0)
        words--;
    uint64_t sum = mixed((uint64_t)head.kind << 32 | head.writer) + mixed((uint64_t)head.sequence << 32 | words);
    for (size_t i = first; i < words; i++)
        sum = (sum ^ word_at(chunk, i)) * 0x9e3779b97f4a7c15u + (sum >> 29);
    return mixed(sum);
}

uint32_t
sum_digits(uint64_t sum)
{
    sum = mixed(sum);
    return (uint32_t)((sum ^ sum >> 24 ^ sum >> 48) & 0xffffff);
}

/* Plain data that dies together: one arena per iteration, per lesson, per file that is read.
 *
 * Interface in order of use: arena_take, arena_text; arena_free gives everything back and leaves an empty arena. */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_FIRST ((size_t)4096) /* bytes of the first block; each further one doubles up to the last */
#define ARENA_LAST  ((size_t)1 << 20)

struct arena_block {
    _Alignas(16) struct arena_block *older;
};

void *
arena_take(struct arena *arena, size_t bytes)
{
    if (bytes > PTRDIFF_MAX - 64)
        return NULL;
    size_t size = (bytes + 15) & ~(size_t)15;
    if (size == 0)
        size = 16; /* two results are never the same address */

    if (arena->block == NULL || size > arena->size - arena->used) {
        size_t room = arena->size == 0 ? ARENA_FIRST : arena->size * 2;
        if (room > ARENA_LAST)
            room = ARENA_LAST;
        if (room < size)
            room = size;
        struct arena_block *block = malloc(sizeof *block + room);
        if (block == NULL)
            return NULL;
        block->older = arena->block;
        *arena = (struct arena){ .block = block, .size = room };
    }
    void *taken = (char *)(arena->block + 1) + arena->used;
    arena->used += size;
    return memset(taken, 0, size);
}

char *
arena_text(struct arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = arena_take(arena, size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

void
arena_free(struct arena *arena)
{
    for (struct arena_block *block = arena->block, *older; block != NULL; block = older) {
        older = block->older;
        free(block);
    }
    *arena = (struct arena){ 0 };
}

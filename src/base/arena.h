/* Plain data that dies together. Blocks are taken from the system in growing pieces and given back at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stdbool.h>
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *block; /* newest first */
    size_t              used, size;
};

void *arena_take(struct arena *arena, size_t bytes);   /* zeroed, 16-aligned; NULL: no memory */
char *arena_text(struct arena *arena, const char *text); /* a copy */
void  arena_free(struct arena *arena);
#endif

/* The name that was meant by a misspelt one. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H
#include <stddef.h>

/* How many letters differ, their case aside: insertions, deletions, changes; two neighbours swapped are one. Words of
 * more than 47 letters are far from everything. */
size_t word_distance(const char *a, const char *b);
/* The farthest that a name may lie from `word` to be what was meant. */
size_t word_reach(const char *word);
/* The nearest of the names (every `stride` bytes a const char *), NULL: none is near. */
const char *nearest(const char *word, const void *names, size_t count, size_t stride);
#endif

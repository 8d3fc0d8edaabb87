/* The name that was meant by a misspelt one: the least edit distance, if it is small for the word's length.
 *
 * Interface: word_distance, word_reach, nearest. */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

enum { LETTERS = 47 };

static int
lower(char letter)
{
    return tolower((unsigned char)letter);
}

size_t
word_distance(const char *a, const char *b)
{
    size_t row[3][LETTERS + 1], rows = strlen(a), columns = strlen(b);
    if (rows > LETTERS || columns > LETTERS)
        return LETTERS + 1;
    for (size_t j = 0; j <= columns; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = last[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]) &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[rows % 3][columns];
}

size_t
word_reach(const char *word)
{
    return strlen(word) / 3 + 1;
}

const char *
nearest(const char *word, const void *names, size_t count, size_t stride)
{
    const char *best = NULL;
    size_t least = word_reach(word) + 1;
    for (size_t i = 0; i < count; i++) {
        const char *name = *(const char *const *)((const char *)names + i * stride);
        size_t far = word_distance(word, name);
        if (far > 1 && strncmp(name, word, strlen(word)) == 0)
            far = 1;
        if (far < least) {
            least = far;
            best  = name;
        }
    }
    return best;
}

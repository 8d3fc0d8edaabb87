/* One line on stderr for people, and the nearest name for a misspelt one.
 *
 * Interface: message, nearest. */
#include "cli/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
message(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout); /* so that narration and error stand in their order where both go to one place */
    fputs("ringside: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return status;
}

/* Levenshtein's distance; words of more than 31 letters are far from everything. */
static size_t
distance(const char *a, const char *b)
{
    size_t row[32], rows = strlen(a), columns = strlen(b);
    if (rows > 31 || columns > 31)
        return 32;
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[columns];
}

const char *
nearest(const char *word, const void *names, size_t count, size_t stride)
{
    const char *best = NULL;
    size_t least = strlen(word) / 3 + 2;
    for (size_t i = 0; i < count; i++) {
        const char *name = *(const char *const *)((const char *)names + i * stride);
        size_t far = distance(word, name);
        if (strncmp(name, word, strlen(word)) == 0)
            far = 1;
        if (far < least) {
            least = far;
            best  = name;
        }
    }
    return best;
}

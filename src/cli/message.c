/* One line on stderr for people, and the nearest name for a misspelt one.
 *
 * Interface: message, nearest. */
#include "cli/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A lesson's words may hold anything: the message stays one line, and the terminal what it was. */
static void
put_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '\n' || byte == '\t')
            fputc(' ', stderr);
        else if (byte < 32 || byte == 127)
            fprintf(stderr, "\\x%02x", byte);
        else
            fputc(byte, stderr);
    }
}

int
message(int status, const char *format, ...)
{
    char    text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fflush(stdout); /* so that narration and error stand in their order where both go to one place */
    fputs("ringside: ", stderr);
    put_plain(text);
    fputc('\n', stderr);
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

/* One line on stderr for people.
 *
 * Interface: message. */
#include "cli/message.h"

#include <stdarg.h>
#include <stdio.h>

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

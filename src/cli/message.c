/* One line for people: on stderr what went wrong, on stdout an answer.
 *
 * Interface: message, message_error, message_failure, answer_line, hash_line, output_finish. */
#include "cli/message.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/visible.h"

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
    visible_write(stderr, text, strlen(text), VISIBLE_LINE);
    fputc('\n', stderr);
    return status;
}

void
message_error(const char *where, const char *text)
{
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        length--;
    fflush(stdout);
    fputs("ringside: ", stderr);
    visible_write(stderr, where, strlen(where), VISIBLE_LINE);
    for (const char *end = text + length, *line = text; line <= end;) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        const char *stop = feed != NULL ? feed : end;
        if (line > text)
            fputs("\n  ", stderr);
        if (line > text && line < stop && *line == '\t')
            line++; /* indented already, as load_state_dict's list of what does not fit */
        visible_write(stderr, line, (size_t)(stop - line), VISIBLE_LINE);
        line = stop + 1;
    }
    fputc('\n', stderr);
}

/* A report of why ranks wait begins with two lines that tell the cause: only the kind stands before them. */
static bool
is_report(const char *text)
{
    static const char mark[] = "\ncause: ";
    const char       *feed   = strchr(text, '\n');
    return feed != NULL && strncmp(feed, mark, sizeof mark - 1) == 0;
}

/* Memory may have been why: none is asked for. */
void
message_failure(const struct failure *failure, bool one_line)
{
    char        line[24] = "", where[PATH_MAX + 100], place[PATH_MAX + 30];
    const char *colon = failure->kind[0] != '\0' ? ": " : "";
    bool        last  = is_report(failure->text) && !one_line;
    if (failure->line > 0)
        snprintf(line, sizeof line, ":%u", (unsigned)failure->line);
    snprintf(place, sizeof place, "%s%s", failure->file, line);
    snprintf(where, sizeof where, "%s%s%s%s%s", last ? "" : place, last ? "" : ": ", failure->kind, colon,
             failure->who);
    if (one_line) {
        message(0, "%s%s", where, failure->text);
        return;
    }
    message_error(where, failure->text);
    if (!last)
        return;
    fputs("  ", stderr);
    visible_write(stderr, place, strlen(place), VISIBLE_LINE);
    fputc('\n', stderr);
}

void
answer_line(const char *label, const char *text)
{
    fputs(label, stdout);
    visible_write(stdout, text, strlen(text), VISIBLE_LINE);
    putchar('\n');
}

void
hash_line(uint32_t hash, bool repeats)
{
    printf("trace hash %06x%s\n", (unsigned)hash, repeats ? "" : " (of this run alone: a free run does not repeat)");
}

int
output_finish(int status)
{
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (!lost || errno == EPIPE || status == STATUS_USAGE)
        return status;
    const char *why = errno != 0 ? strerror(errno) : "it ends too early";
    return message(STATUS_USAGE, "cannot write standard output: %s", why);
}

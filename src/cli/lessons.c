/* ringside lessons: the course as the lesson files themselves tell it, from the text of their rs.lesson { ... }.
 * Nothing is run.
 *
 * Interface: cli_lessons. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/place.h"
#include "base/reader.h"
#include "base/str.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/message.h"

enum { LESSON_BYTES = 1 << 20, PATH_COLUMN = 84 };

/* Behind "NAME =" within the header; NULL: the header has no such field. */
static const char *
field(const char *header, const char *end, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = header; (at = strstr(at, name)) != NULL && at < end; at += length) {
        const char *behind = at + length + strspn(at + length, " \t\n");
        bool        starts = at > header && strchr(" \t\n,{", at[-1]) != NULL;
        if (starts && *behind == '=' && behind[1] != '=')
            return behind + 1 + strspn(behind + 1, " \t\n");
    }
    return NULL;
}

/* The first text of a field: "..." or '...', also inside braces. */
static void
text_of(const char *at, char *out, size_t size)
{
    out[0] = '\0';
    if (at == NULL)
        return;
    at += strspn(at, "{ \t\n");
    char quote = *at;
    if (quote != '"' && quote != '\'')
        return;
    size_t used = 0;
    for (at++; *at != '\0' && *at != quote && *at != '\n' && used + 1 < size; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
        out[used++] = *at;
    }
    out[used] = '\0';
}

/* An exercise has no header: its first line is a comment, "-- Exercise 01: repair the model.". */
static void
title_of_comment(const char *text, char *out, size_t size)
{
    size_t      length = strcspn(text, "\n");
    const char *colon  = strncmp(text, "-- ", 3) == 0 ? memchr(text, ':', length) : NULL;
    if (colon == NULL || colon[1] != ' ')
        return;
    int rest = (int)(text + length - colon - 2);
    snprintf(out, size, "%.*s", rest > 0 && colon[1 + rest] == '.' ? rest - 1 : rest, colon + 2);
}

struct listing { const char *folder; struct dirent **entries; int count; };

/* Whether the folder, or the course, has the lesson of that number. */
static bool
has_lesson(const struct listing *listing, const char *number, size_t length)
{
    char word[16], found[NAME_MAX + 1];
    for (int i = 0; i < listing->count; i++)
        if (strncmp(listing->entries[i]->d_name, number, length) == 0 && listing->entries[i]->d_name[length] == '-')
            return true;
    snprintf(word, sizeof word, "%.*s", (int)length, number);
    return course_has(word, found, sizeof found);
}

/* "03, 14 (to come)": a number that no lesson has yet is marked. */
static void
add_needs(struct str *line, const struct listing *listing, const char *needs)
{
    str_add(line, "   needs ");
    for (const char *at = needs; *at != '\0';) {
        size_t digits = strspn(at, "0123456789"), length = digits > 0 ? digits : strcspn(at, "0123456789");
        visible_add(line, at, length, VISIBLE_LINE);
        if (digits == 2 && !has_lesson(listing, at, digits))
            str_add(line, " (to come)");
        at += length;
    }
}

/* Answers the exit status. */
static int
print_lesson(const struct listing *listing, const char *name)
{
    char        path[2 * PATH_MAX + 400], title[128], needs[128];
    size_t      size = 0;
    const char *why  = NULL;
    snprintf(path, sizeof path, "%s/%s", listing->folder, name);
    errno = 0;
    char *text = file_read(path, LESSON_BYTES, &size, &why);
    if (text == NULL) {
        return message(errno == ENOMEM ? STATUS_FAILED : STATUS_USAGE, "%s: %s", path, why);
    }
    const char *header = strstr(text, "rs.lesson");
    const char *end    = header != NULL ? strchr(header, '\n') : NULL;
    for (int lines = 0; end != NULL && lines < 12 && strchr(end + 1, '\n') != NULL; lines++)
        end = strchr(end + 1, '\n');
    if (header != NULL && end == NULL)
        end = text + size;
    text_of(header != NULL ? field(header, end, "title") : NULL, title, sizeof title);
    text_of(header != NULL ? field(header, end, "needs") : NULL, needs, sizeof needs);
    if (header == NULL)
        title_of_comment(text, title, sizeof title);
    const char *minutes = header != NULL ? field(header, end, "minutes") : NULL;
    struct str line = { 0 };
    visible_add(&line, name, strlen(name) - 4, VISIBLE_LINE);
    str_addf(&line, "%*s ", line.len < 26 ? 26 - (int)line.len : 0, "");
    if (minutes != NULL && atoi(minutes) > 0)
        str_addf(&line, "%4d min  ", atoi(minutes));
    else
        str_add(&line, "          "); /* an exercise takes as long as it takes */
    visible_add(&line, title, strlen(title), VISIBLE_LINE);
    if (needs[0] != '\0' && strcmp(needs, "nothing") != 0)
        add_needs(&line, listing, needs);
    str_addf(&line, "%*s  ", line.len < PATH_COLUMN ? PATH_COLUMN - (int)line.len : 0, "");
    visible_add(&line, path, strlen(path), VISIBLE_LINE);
    bool whole = str_ok(&line);
    if (whole)
        answer_line("", str_text(&line));
    str_free(&line);
    free(text);
    return whole ? STATUS_DONE : message(STATUS_FAILED, "%s: out of memory", path);
}

static int
worse(int a, int b)
{
    return a > b ? a : b;
}

static int
is_lesson(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && entry->d_name[0] != '.' && strcmp(entry->d_name + length - 4, ".lua") == 0;
}

int
cli_lessons(int argc, char **argv)
{
    char            folder[2 * PATH_MAX];
    struct dirent **entries = NULL;
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        puts("ringside lessons [FOLDER]    the course: name, minutes, title, what it needs, and the file\n\n"
             "FOLDER is one of yours, or one of the course: exercises, checks, solutions, examples.\n"
             "From any folder, run and step take a lesson's number or name: ringside run 01,\n"
             "ringside step ring-by-hand, ringside exercise 01. A file of yours goes before the course:\n"
             "ringside run 01-six-rows takes ./01-six-rows.lua if that is there.");
        return STATUS_DONE;
    }
    if (argc > 2)
        return message(STATUS_USAGE, "lessons takes one folder");
    if (argc == 2)
        lessons_folder(argv[1], folder, sizeof folder);
    else if (!course_folder(folder, sizeof folder))
        return message(STATUS_USAGE, "no lessons found with the program or in ./lessons; name their folder");
    int count = scandir(folder, &entries, is_lesson, alphasort);
    if (count < 0)
        return message(STATUS_USAGE, "%s: %s", folder,
                       errno == ENOMEM ? "out of memory" : "not a folder that can be read");
    int status = STATUS_DONE;
    const struct listing listing = { folder, entries, count };
    for (int i = 0; i < count && status != STATUS_FAILED; i++) /* without memory the rest would fail the same way */
        status = worse(status, print_lesson(&listing, entries[i]->d_name));
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return status;
}

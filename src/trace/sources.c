/* Names to one trace. Interface in order of use: sources_add, sources_is_name, sources_open, sources_note. */
#include "trace/sources.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "trace/reader.h"

/* The traces that are open, with names of their own where a folder gave them. */
struct opened { struct join_part parts[JOIN_MOST]; char *names[JOIN_MOST]; size_t count; struct str note; };

bool
sources_add(struct sources *sources, const char *path)
{
    if (sources->count == SOURCES_MOST)
        return false;
    sources->paths[sources->count++] = path;
    return true;
}

bool
sources_is_name(const char *word)
{
    size_t length = strlen(word);
    return (length > 6 && strcmp(word + length - 6, ".trace") == 0) || (length > 1 && word[length - 1] == '/');
}

static bool
open_one(struct opened *opened, const char *path, char *why, size_t why_size)
{
    if (opened->count == JOIN_MOST) {
        snprintf(why, why_size, "%d traces at most are shown as one", JOIN_MOST);
        return false;
    }
    struct trace *trace = trace_open(path, why, why_size);
    char         *name  = trace != NULL ? strdup(path) : NULL;
    if (name == NULL) {
        if (trace != NULL)
            snprintf(why, why_size, "out of memory");
        trace_release(trace);
        return false;
    }
    opened->names[opened->count]   = name;
    opened->parts[opened->count++] = (struct join_part){ name, trace };
    return true;
}

static int
is_trace(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 6 && strcmp(entry->d_name + length - 6, ".trace") == 0;
}

/* The first of a folder's that is of another job than the one before it; 0: they may be one's. */
static size_t
stranger(const struct opened *opened, size_t from, size_t *other)
{
    size_t known = SIZE_MAX;
    for (size_t i = from; i < opened->count; i++) {
        const char *id = trace_option_of(opened->parts[i].trace, JOB_ID);
        if (id[0] == '\0')
            continue;
        if (known != SIZE_MAX && strcmp(id, trace_option_of(opened->parts[known].trace, JOB_ID)) != 0) {
            *other = known;
            return i;
        }
        known = i;
    }
    return 0;
}

static const char *
file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Every NAME.trace in it, in the order of their names, numbers by their size: r2 before r10. */
static bool
open_folder(struct opened *opened, const char *folder, char *why, size_t why_size)
{
    struct dirent **entries;
    int             count = scandir(folder, &entries, is_trace, versionsort);
    size_t          from = opened->count, other = 0;
    const char     *gap  = folder[0] != '\0' && folder[strlen(folder) - 1] == '/' ? "" : "/";
    if (count <= 0)
        snprintf(why, why_size, "%.300s: a folder without a NAME.trace", folder);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s%s%s", folder, gap, entries[i]->d_name);
        if (!open_one(opened, path, why, why_size))
            str_addf(&opened->note, "%s%.300s", opened->note.len > 0 ? "; " : "left out: ", file_of(why));
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    size_t odd = stranger(opened, from, &other);
    if (odd > 0)
        snprintf(why, why_size, "%.300s: %.80s and %.80s are of different jobs; name those that belong together",
                 folder, file_of(opened->parts[other].path), file_of(opened->parts[odd].path));
    return opened->count > from && odd == 0;
}

static bool
is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool
open_all(struct opened *opened, const struct sources *sources, char *why, size_t why_size)
{
    for (size_t i = 0; i < sources->count; i++)
        if (is_folder(sources->paths[i]) ? !open_folder(opened, sources->paths[i], why, why_size)
                                         : !open_one(opened, sources->paths[i], why, why_size))
            return false;
    return true;
}

struct trace *
sources_open(const struct sources *sources, char *why, size_t why_size)
{
    if (sources->count == 1 && !is_folder(sources->paths[0]))
        return trace_open(sources->paths[0], why, why_size);
    struct opened *opened = calloc(1, sizeof *opened);
    struct trace  *trace  = NULL;
    if (opened == NULL) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    if (open_all(opened, sources, why, why_size)) {
        const struct join_wish wish = { .clock = sources->clock, .note = str_text(&opened->note) };
        trace = trace_join(opened->parts, opened->count, &wish, why, why_size);
    }
    for (size_t i = 0; i < opened->count; i++) {
        trace_release(opened->parts[i].trace);
        free(opened->names[i]);
    }
    str_free(&opened->note);
    free(opened);
    return trace;
}

const char *
sources_note(const struct trace *trace)
{
    const char *note = trace_note(trace);
    return note[0] != '\0' ? note : trace_option_of(trace, JOIN_NOTE);
}

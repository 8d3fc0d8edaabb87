/* Names to one trace. Interface: sources_add, sources_open. */
#include "sources.h"

#include "trace/reader.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The traces that are open, with names of their own where a folder gave them. */
struct opened { struct join_part parts[JOIN_MOST]; char *names[JOIN_MOST]; size_t count; };

bool
sources_add(struct sources *sources, const char *path)
{
    if (sources->count == SOURCES_MOST)
        return false;
    sources->paths[sources->count++] = path;
    return true;
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

/* Every NAME.trace in it, in the order of their names, numbers by their size: r2 before r10. */
static bool
open_folder(struct opened *opened, const char *folder, char *why, size_t why_size)
{
    struct dirent **entries;
    int             count = scandir(folder, &entries, is_trace, versionsort);
    bool            good  = count > 0;
    if (!good)
        snprintf(why, why_size, "%.300s: a folder without a NAME.trace", folder);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        good = good && open_one(opened, path, why, why_size);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return good;
}

static bool
is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

struct trace *
sources_open(const struct sources *sources, char *why, size_t why_size)
{
    if (sources->count == 1 && !is_folder(sources->paths[0]))
        return trace_open(sources->paths[0], why, why_size);
    struct opened *opened = calloc(1, sizeof *opened);
    struct trace  *trace  = NULL;
    bool           good   = opened != NULL;
    if (!good)
        snprintf(why, why_size, "out of memory");
    for (size_t i = 0; i < sources->count && good; i++)
        good = is_folder(sources->paths[i]) ? open_folder(opened, sources->paths[i], why, why_size)
                                            : open_one(opened, sources->paths[i], why, why_size);
    if (good)
        trace = trace_join(opened->parts, opened->count, &(struct join_wish){ .clock = sources->clock }, why, why_size);
    for (size_t i = 0; opened != NULL && i < opened->count; i++) {
        trace_release(opened->parts[i].trace);
        free(opened->names[i]);
    }
    free(opened);
    return trace;
}

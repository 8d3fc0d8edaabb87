/* What is looked at: a trace, or several as one, by their names on the command line; a folder means the traces in it. */
#ifndef VIEWER_SOURCES_H
#define VIEWER_SOURCES_H
#include <stdbool.h>
#include <stddef.h>
#include "trace/join.h"

struct trace;

enum { SOURCES_MOST = 1024 };

struct sources {
    const char     *paths[SOURCES_MOST];
    size_t          count;
    enum join_clock clock;    /* of several */
};

bool          sources_add(struct sources *sources, const char *path);   /* false: there are too many */
/* NULL: `why` says in one sentence what is wrong with which. */
struct trace *sources_open(const struct sources *sources, char *why, size_t why_size);
#endif

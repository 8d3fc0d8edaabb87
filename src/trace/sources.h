/* What is looked at: a trace, or several as one, by their names on the command line; a folder means the traces in
 * it. Order of use: sources_add for each name; sources_open; sources_note of what was opened. */
#ifndef TRACE_SOURCES_H
#define TRACE_SOURCES_H
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
/* The word names a trace that goes with those before it: "b.trace", "jobs/". What else it is, others know. */
bool          sources_is_name(const char *word);
/* NULL: `why` says in one sentence what is wrong with which. In a folder what cannot be opened is left out and
 * said in the note, but traces of several jobs are refused. */
struct trace *sources_open(const struct sources *sources, char *why, size_t why_size);
/* What is missing from it, in one sentence: its own note, or the whole's. "" : nothing. */
const char   *sources_note(const struct trace *trace);
#endif

/* From keys and lines to what they do: counts, prompts, questions, and whether the trace or a running engine
 * carries a command out. The same for a terminal, for --keys and for tests. */
#ifndef VIEWER_DRIVE_H
#define VIEWER_DRIVE_H
#include <stdbool.h>
#include <stdint.h>
#include "session.h"
#include "view.h"

/* Typed while the engine runs: a line that it has to wait for, and every key after it, in order. While a recorded trace
 * is searched: keys alone. */
struct typed_ahead { bool held; char line[640], keys[64][16]; int count; };

struct driver {
    struct model   *model;
    struct view    *view;
    struct session *session;   /* NULL: a recorded trace */
    int64_t         count;     /* typed before a key; 0 none */
    char            last[640]; /* the last line, for an empty one */
    bool            leave;
    bool            breaks;    /* breakpoints were made in the session, so they are asked for behind each reply */
    struct typed_ahead ahead;
};

void drive_key(struct driver *driver, const char *key);
void drive_line(struct driver *driver, const char *line);
/* A reply has come (or can be waited for): stands where the engine stands. */
void drive_reply(struct driver *driver);
/* Goes on with a search of a recorded trace, a slice; what was typed meanwhile is done once it ends. false: there is
 * none under way. */
bool drive_on(struct driver *driver);
#endif

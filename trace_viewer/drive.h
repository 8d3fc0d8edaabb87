/* From keys and lines to what they do: counts, prompts, questions, and whether the trace or a running engine
 * carries a command out. The same for a terminal, for --keys and for tests. */
#ifndef VIEWER_DRIVE_H
#define VIEWER_DRIVE_H
#include <stdbool.h>
#include <stdint.h>
#include "decode.h"
#include "session.h"
#include "view.h"

/* Typed while the engine runs: a line that it has to wait for, and every key after it, in order. While a recorded trace
 * is searched: keys alone. */
struct typed_ahead { bool held; char line[640], keys[64][KEY_ROOM]; int count; };

/* What a key asked for that only a terminal can do. */
enum wish { WISH_NONE, WISH_SUSPEND, WISH_REDRAW, WISH_EDIT };

/* A key that is the first half of something: a letter follows. */
enum half { HALF_NONE, HALF_MARK, HALF_JUMP };

struct driver {
    struct model   *model;
    struct view    *view;
    struct session *session;   /* NULL: a recorded trace */
    int             command;   /* the last one, enum command */
    int64_t         count;     /* typed before a key; 0 none */
    int64_t         again;     /* moves still to come of a counted one, and where the one under way began */
    size_t          from;
    char            last[640]; /* the last line, for an empty one */
    bool            leave;
    bool            breaks;    /* breakpoints were made in the session, so they are asked for behind each reply */
    bool            detached;  /* it has left, and the run waits for the next screen */
    enum wish       wish;
    enum half       half;
    struct typed_ahead ahead;
};

void drive_key(struct driver *driver, const char *key);
void drive_line(struct driver *driver, const char *line);
/* Takes the engine's reply alone: whoever sent the line waits for it. */
void drive_take_reply(struct driver *driver);
void drive_again(struct driver *driver);
/* A reply has come (or can be waited for): stands where the engine stands. */
void drive_reply(struct driver *driver);
/* Goes on with a search of a recorded trace, a slice; what was typed meanwhile is done once it ends. false: there is
 * none under way. */
bool drive_on(struct driver *driver);
bool drive_is_busy(const struct driver *driver);
/* ^C: an engine is asked to pause, a search stops where it is. */
void drive_pause(struct driver *driver);
#endif

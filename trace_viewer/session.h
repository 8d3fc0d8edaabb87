/* The viewer's end of the wire to a running engine. Lines go out, replies come back (control/commands.h). */
#ifndef VIEWER_SESSION_H
#define VIEWER_SESSION_H
#include <stdbool.h>
#include <stddef.h>
#include "base/str.h"
#include "view.h"

struct session {
    int    fd;
    bool   waiting;  /* a reply is due */
    size_t at;       /* where it stood when it answered last */
};

struct reply {
    bool           stands;      /* the status line said where */
    size_t         seq;
    enum run_state run;
    char           why[256];
    char           trace[4096]; /* the file to read from now on; "" unchanged */
    struct str     text;        /* what the command answered */
};

bool session_ask(struct session *session, const char *line);          /* false: the engine is gone */
bool session_answer(struct session *session, struct reply *reply);    /* waits for it; false: the engine is gone */
void reply_free(struct reply *reply);
/* A reply's text in its parts; broken lines count as text. */
void reply_parse(const char *text, struct reply *reply);
#endif

/* The viewer's end of the wire to a running engine. Lines go out, replies come back (control/commands.h). */
#ifndef VIEWER_SESSION_H
#define VIEWER_SESSION_H
#include <stdbool.h>
#include <stddef.h>
#include "base/str.h"
#include "view.h"

struct session {
    int    fd;
    struct control_reader reader; /* on it */
    bool   waiting;  /* a reply is due */
    size_t at;       /* where it stood when it answered last */
};

struct reply {
    bool           stands;      /* the status line said where */
    bool           news;        /* it tells what another screen has done */
    size_t         seq;
    enum run_state run;
    char           why[256];
    char           trace[4096]; /* the file to read from now on; "" unchanged */
    struct branches branches;   /* none: there is one run */
    struct edited edited;       /* how this run was changed first */
    struct str     text;        /* what the command answered */
};

bool session_ask(struct session *session, const char *line);          /* false: the engine is gone */
/* Waits for the answer; news that come before it are left out, but for the trace that they name. Where nothing was asked
 * it waits for news. false: the engine is gone. */
bool session_answer(struct session *session, struct reply *reply);
bool session_has_news(const struct session *session);  /* read already, and not answered by session_answer yet */
void reply_free(struct reply *reply);
/* A reply's text in its parts; broken lines count as text. */
void reply_parse(const char *text, struct reply *reply);
#endif

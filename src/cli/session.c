/* A session: opened with its first run, asked how it stands, closed. What it does is in its other files (session.h).
 *
 * Interface in order of use: session_open, session_state_name, session_close. */
#include "cli/session.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool
open_folder(struct session *session, char *why, size_t why_size)
{
    const char *record = session->engine.record;
    session->folder.lock = -1;
    if (record != NULL && strlen(record) >= sizeof session->trace_path) {
        snprintf(why, why_size, "cannot create %.60s...: the path is too long", record);
        return false;
    }
    bool made = runtime_folder_make(&session->folder, RUNTIME_RECORDS, why, why_size);
    if (!made)
        session->folder.path[0] = '\0';
    return made || record != NULL; /* without it only the newest run is kept */
}

bool
session_open(struct session *session, const struct session_engine *engine, char *why, size_t why_size)
{
    *session = (struct session){ .engine = *engine, .reader = { .fd = -1 }, .viewer = engine->watched,
                                 .words = -1, .death = -1 };
    if (!open_folder(session, why, why_size))
        return false;
    if (!session_run_begin(session)) {
        snprintf(why, why_size, "out of memory");
        session_close(session);
        return false;
    }
    if (session_start(session, why, why_size))
        return true;
    session_close(session);
    return false;
}

void
session_close(struct session *session)
{
    session_stop(session, session->engine.record != NULL);
    session_hide(session);
    session_runs_free(session);
    runtime_folder_remove(&session->folder);
    breaks_free(&session->rules.breaks);
    if (session->words >= 0)
        close(session->words);
}

const char *
session_state_name(const struct session *session)
{
    if (session->died)
        return "dead";
    if (!session->ended || session->cursor < session->head)
        return "paused";
    return session->status == 0 ? "finished" : "failed";
}

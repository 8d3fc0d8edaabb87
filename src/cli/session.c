/* The engine's process: started, asked, ended. Every run writes a trace of its own, so that a viewer may keep the old
 * one mapped; the newest is the session's. */
#include "cli/session.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include "analysis/state.h"
#include "cli/message.h"
#include "trace/reader.h"

enum { FAULT_SEARCH = 4096 }; /* events at the end that may tell of a failure */

static void
forget_trace(struct session *session)
{
    state_free(session->state);
    if (session->trace != NULL)
        trace_release(session->trace);
    session->state = NULL;
    session->trace = NULL;
}

/* The engine has closed its end, and is gone or about to be. */
static bool
has_hung_up(const struct session *session)
{
    struct pollfd end = { .fd = session->reader.fd };
    return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

/* Waits for the engine to end, and answers how it did. */
static int
bury_engine(struct session *session)
{
    int status = 0;
    while (waitpid(session->child, &status, 0) < 0 && errno == EINTR)
        continue;
    session->child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int
session_told_status(struct session *session)
{
    return session->died && session->child > 0 && has_hung_up(session) ? bury_engine(session) : 0;
}

/* A run that ended has only its record to close, if somebody wants that: then it ends by itself once nobody asks. */
static bool
ends_by_itself(struct session *session)
{
    const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
    if (session->engine.record == NULL || !session->ended || session->died)
        return false;
    close(session->reader.fd);
    session->reader.fd = -1;
    for (int i = 0; i < 500; i++) {
        pid_t ended = waitpid(session->child, NULL, WNOHANG);
        if (ended != 0 && (ended > 0 || errno != EINTR))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Killed before it can see that nobody listens: it would run on to the end and report there. */
static void
stop_engine(struct session *session)
{
    if (session->child > 0 && !ends_by_itself(session)) {
        kill(session->child, SIGKILL);
        while (waitpid(session->child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    session->child = 0;
    if (session->reader.fd >= 0)
        close(session->reader.fd);
    session->reader = (struct control_reader){ .fd = -1 };
    if (session->trace_path[0] != '\0' && session->engine.record == NULL)
        unlink(session->trace_path);
}

/* Waits until the engine says something. false: the viewer has left meanwhile, and nobody waits for the answer. */
static bool
engine_speaks(const struct session *session)
{
    struct pollfd ends[2] = { { .fd = session->reader.fd, .events = POLLIN }, { .fd = session->viewer } };
    while (poll(ends, 2, -1) < 0) {
        if (errno != EINTR)
            return false;
    }
    return ends[0].revents != 0;
}

/* "at SEQ" or "end STATUS SEQ", then "."; anything else means that the engine died. */
static bool
hear_position(struct session *session)
{
    struct str line = { 0 };
    int        status;
    uint64_t   seq;
    bool       heard = engine_speaks(session) && control_read_line(&session->reader, &line);
    if (heard && sscanf(str_text(&line), "at %" SCNu64, &seq) == 1) {
        session->head = seq;
    } else if (heard && sscanf(str_text(&line), "end %d %" SCNu64, &status, &seq) == 2) {
        session->head   = seq;
        session->ended  = true;
        session->status = status;
    } else {
        session->starved = heard; /* it had no memory to say where it is, and waits */
        heard = false;
    }
    while (heard && strcmp(str_text(&line), ".") != 0)
        heard = control_read_line(&session->reader, &line);
    session->starved = session->starved || !str_ok(&line);
    str_free(&line);
    if (!heard)
        session->ended = session->died = true;
    return heard;
}

static void
be_the_engine(struct session *session, int fd)
{
    signal(SIGINT, SIG_IGN); /* the session decides */
    if (session->folder.lock >= 0)
        close(session->folder.lock); /* the folder is the session's, which may die first */
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would ever ask this run again */
#endif
    if (freopen("/dev/null", "r", stdin) == NULL || freopen("/dev/null", "w", stdout) == NULL)
        _exit(message(STATUS_USAGE, "cannot start the engine: %s", strerror(errno))); /* narration is in the trace */
    int status = session->engine.run(session->engine.context, fd, session->trace_path, session->edits,
                                     session->edit_count);
    fflush(NULL);
    _exit(status);
}

static bool
read_record(struct session *session, char *why, size_t why_size)
{
    forget_trace(session);
    session->trace = trace_open(session->trace_path, why, why_size);
    if (session->trace == NULL)
        return false;
    breaks_use(&session->rules.breaks, session->trace);
    session->state = state_new(session->trace);
    if (session->state == NULL || trace_starved(session->trace))
        snprintf(why, why_size, "out of memory");
    else if (trace_count(session->trace) == 0 && trace_events_lost(session->trace) > 0)
        snprintf(why, why_size, "its record had no room for the first event: out of memory, or the disk is full");
    else if (trace_count(session->trace) == 0)
        snprintf(why, why_size, "the lesson ended before its first event");
    return session->state != NULL && trace_count(session->trace) > 0;
}

static bool
start_engine(struct session *session, char *why, size_t why_size)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        snprintf(why, why_size, "cannot start the engine: %s", strerror(errno));
        return false;
    }
    session->generation++;
    if (session->engine.record != NULL)
        snprintf(session->trace_path, sizeof session->trace_path, "%s", session->engine.record);
    else
        snprintf(session->trace_path, sizeof session->trace_path, "%s/" RUNTIME_RECORD "%d.trace", session->folder.path,
                 session->generation);
    fflush(NULL);
    session->child = fork();
    if (session->child == 0) {
        close(ends[0]);
        be_the_engine(session, ends[1]);
    }
    close(ends[1]);
    session->reader = (struct control_reader){ .fd = ends[0] };
    session->ended = session->died = session->starved = false;
    session->head = 0;
    if (session->child < 0 || !hear_position(session)) {
        if (session->child > 0 && has_hung_up(session))
            session->status = bury_engine(session); /* its words, if it said nothing and ended by itself */
        snprintf(why, why_size, session->starved ? "out of memory" : "the lesson could not be started");
        return false;
    }
    if (read_record(session, why, why_size))
        return true;
    session->status = 0; /* the engine has not said why */
    return false;
}

bool
session_open(struct session *session, const struct session_engine *engine, char *why, size_t why_size)
{
    *session = (struct session){ .engine = *engine, .reader = { .fd = -1 }, .viewer = engine->watched };
    session->folder.lock = -1;
    if (engine->record != NULL && strlen(engine->record) >= sizeof session->trace_path) {
        snprintf(why, why_size, "cannot create %.60s...: the path is too long", engine->record);
        return false;
    }
    if (engine->record == NULL && !runtime_folder_make(&session->folder, RUNTIME_RECORDS, why, why_size))
        return false;
    bool started    = start_engine(session, why, why_size);
    session->viewer = -1;
    if (started)
        return true;
    session_close(session);
    return false;
}

void
session_close(struct session *session)
{
    stop_engine(session);
    forget_trace(session);
    runtime_folder_remove(&session->folder);
    breaks_free(&session->rules.breaks);
    free(session->edits);
    session->edits = NULL;
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

static bool
send_line(struct session *session, const char *text)
{
    struct str line = { 0 };
    str_addf(&line, "%s\n", text);
    bool sent = str_ok(&line) && control_send(session->reader.fd, line.text, line.len);
    session->starved = !str_ok(&line);
    str_free(&line);
    if (!sent)
        session->ended = session->died = true;
    return sent;
}

bool
session_reach(struct session *session, uint64_t seq)
{
    if (session->head < seq && !session->ended) {
        char request[40];
        snprintf(request, sizeof request, "go %" PRIu64, seq);
        if (send_line(session, request))
            hear_position(session);
        trace_refresh(session->trace);
        session->starved = session->starved || trace_starved(session->trace);
        size_t count = trace_count(session->trace);
        if (count > 0 && session->head >= count)
            session->head = count - 1;
        if (count == 0)
            session->ended = session->died = true; /* its record cannot be read any more */
    }
    return session->head >= seq;
}

bool
session_interrupted(const struct session *session)
{
    static const char pause_line[] = "pause\n";
    char              next[sizeof pause_line - 1];
    if (session->viewer < 0)
        return false;
    if (recv(session->viewer, next, sizeof next, MSG_PEEK | MSG_DONTWAIT) != (ssize_t)sizeof next)
        return false;
    if (memcmp(next, pause_line, sizeof next) != 0)
        return false;
    return recv(session->viewer, next, sizeof next, MSG_DONTWAIT) == (ssize_t)sizeof next;
}

/* What the last fault among its last events says. */
struct session_failure
session_failure(const struct session *session)
{
    struct session_failure failure = { "", "", -1, 0 };
    size_t                 count   = trace_count(session->trace);
    for (size_t seq = count; seq > 0 && count - seq < FAULT_SEARCH; seq--) {
        const struct trace_event *event = trace_event(session->trace, seq - 1);
        const struct trace_kind  *kind  = event != NULL ? trace_kind(session->trace, event->kind) : NULL;
        if (kind == NULL || strncmp(kind->name, "fault.", 6) != 0 || strcmp(kind->name, "fault.injected") == 0)
            continue;
        failure.line = event->line;
        failure.rank = event->rank;
        for (int i = 0; i < kind->arg_count; i++) {
            if (strcmp(kind->arg_name[i], "message") == 0 || strcmp(kind->arg_name[i], "report") == 0)
                failure.message = trace_text_at(session->trace, event->args[i]);
            else if (strcmp(kind->arg_name[i], "error") == 0)
                failure.kind = trace_text_at(session->trace, event->args[i]);
        }
        break;
    }
    return failure;
}

bool
session_wind(struct session *session, struct str *out)
{
    if (session->head == session->cursor && !session->died)
        return true;
    char why[400];
    if (session->head > session->cursor || session->died) {
        stop_engine(session);
        if (!start_engine(session, why, sizeof why)) {
            str_addf(out, "%s\n", why);
            return false;
        }
    }
    if (session_reach(session, session->cursor) && session->head == session->cursor)
        return true;
    const char *reason = session->starved ? "out of memory"
                         : session->died  ? "the engine is gone" : session_failure(session).message;
    str_addf(out, "the run cannot be brought back to event %" PRIu64 "%s%s\n", session->cursor,
             reason[0] != '\0' ? ": " : "", reason);
    return false;
}

bool
session_ask(struct session *session, const char *request, struct str *reply)
{
    struct str line  = { 0 };
    bool       first = true, ok = false;
    bool       heard = send_line(session, request);
    while (heard && (heard = control_read_line(&session->reader, &line)) && strcmp(str_text(&line), ".") != 0) {
        if (first && (strcmp(str_text(&line), "ok") == 0 || strcmp(str_text(&line), "no") == 0))
            ok = strcmp(str_text(&line), "ok") == 0;
        else
            str_addf(reply, "%s\n", str_text(&line));
        first = false;
    }
    if (!heard) {
        session->ended = session->died = true;
        session->starved = session->starved || !str_ok(&line);
        str_add(reply, session->starved ? "out of memory\n" : "the engine is gone\n");
    }
    str_free(&line);
    return heard && ok;
}

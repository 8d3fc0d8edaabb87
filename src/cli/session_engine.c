/* The engine's process: started, asked, ended. Each writes a trace of its own, so that a viewer may keep the old one
 * mapped, and a run that was left its record.
 *
 * Interface: session_start, session_wind, session_bring, session_reach, session_ask, session_stop. */
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
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#endif
#include "analysis/state.h"
#include "analysis/story.h"
#include "base/now.h"
#include "base/vec.h"
#include "base/visible.h"
#include "cli/message.h"
#include "trace/reader.h"

enum { FAULT_SEARCH = 4096 }; /* events at the end that may tell of a failure */

void
session_hide(struct session *session)
{
    state_free(session->state);
    story_free(session->story);
    if (session->trace != NULL)
        trace_release(session->trace);
    session->state = NULL;
    session->story = NULL;
    session->trace = NULL;
}

/* The engine has closed its end, and is gone or about to be. */
static bool
has_hung_up(const struct session *session)
{
    struct pollfd end = { .fd = session->reader.fd };
    return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

/* It does not answer any more. If it is gone, how it went is seen at once. */
static void
engine_died(struct session *session)
{
    session->ended = session->died = true;
    if (session->child <= 0 || !has_hung_up(session))
        return;
    while (waitpid(session->child, &session->death, 0) < 0 && errno == EINTR)
        continue;
    session->child = 0;
}

int
session_told_status(struct session *session)
{
    bool told = session->died && session->death >= 0 && WIFEXITED(session->death);
    return told ? WEXITSTATUS(session->death) : 0;
}

/* A viewer's screen is no place for them: they are kept. */
static void
keep_words(struct session *session)
{
    if (session->words >= 0)
        close(session->words);
    session->words = -1;
#ifdef __linux__
    if (session->engine.watched >= 0)
        session->words = memfd_create("words", MFD_CLOEXEC);
#endif
}

/* Whoever waits for the viewer reads why there will be none. */
static void
tell_words(const struct session *session)
{
    char    text[4096];
    ssize_t count = session->words >= 0 ? pread(session->words, text, sizeof text, 0) : 0;
    if (count > 0)
        visible_write(stderr, text, (size_t)count, VISIBLE_LINES);
}

void
session_last_words(const struct session *session, char *line, size_t room)
{
    char    text[1024];
    off_t   end  = session->words >= 0 ? lseek(session->words, 0, SEEK_END) : 0;
    off_t   from = end > (off_t)sizeof text - 1 ? end - (off_t)(sizeof text - 1) : 0;
    ssize_t count = end > 0 ? pread(session->words, text, sizeof text - 1, from) : 0;
    text[count > 0 ? count : 0] = '\0';
    for (size_t length = strlen(text); length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' ');)
        text[--length] = '\0';
    const char *newline = strrchr(text, '\n'), *last = newline != NULL ? newline + 1 : text;
    last += strncmp(last, "ringside: ", 10) == 0 ? 10 : 0;
    snprintf(line, room, "%s", last);
}

void
session_print_death(const struct session *session, struct str *out)
{
    str_add(out, "engine gone");
    if (session->death >= 0 && WIFSIGNALED(session->death))
        str_addf(out, " (signal %d%s)", WTERMSIG(session->death),
                 WTERMSIG(session->death) == SIGABRT ? ", an assertion" : "");
    else if (session->death >= 0)
        str_addf(out, " (exit status %d)", WEXITSTATUS(session->death));
    str_addf(out, " after event %" PRIu64, session->head);
    char words[200];
    session_last_words(session, words, sizeof words);
    str_addf(out, "%s%s\n", words[0] != '\0' ? ": " : "", words);
}

/* A run that ended has only its record to close, if somebody wants that: then it ends by itself once nobody asks. */
static bool
ends_by_itself(struct session *session)
{
    const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
    if (!session->engine_ended || session->died)
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

void
session_forget_file(struct session *session, const char *path)
{
    if (path[0] != '\0' && (session->engine.record == NULL || strcmp(path, session->engine.record) != 0))
        unlink(path);
}

static bool
is_record(const struct session *session, const char *path)
{
    bool is = strcmp(session->trace_path, path) == 0;
    for (size_t i = 0; i < session->run_count && !is; i++)
        is = session->runs[i].number != session->run && strcmp(session->runs[i].trace_path, path) == 0;
    return is;
}

/* Killed before it can see that nobody listens: it would run on to the end and report there. `keep`: somebody will read
 * its record. */
void
session_stop(struct session *session, bool keep)
{
    if (session->child > 0 && !(keep && ends_by_itself(session))) {
        kill(session->child, SIGKILL);
        while (waitpid(session->child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    session->child = 0;
    if (session->reader.fd >= 0)
        close(session->reader.fd);
    session->reader = (struct control_reader){ .fd = -1 };
    if (!is_record(session, session->engine_path))
        session_forget_file(session, session->engine_path);
    session->engine_path[0] = '\0';
    session->engine_run     = -1;
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
        session->engine_head = seq;
    } else if (heard && sscanf(str_text(&line), "end %d %" SCNu64, &status, &seq) == 2) {
        session->engine_head   = seq;
        session->engine_ended  = true;
        session->engine_status = status;
    } else {
        session->starved = heard; /* it had no memory to say where it is, and waits */
        heard = false;
    }
    while (heard && strcmp(str_text(&line), ".") != 0)
        heard = control_read_line(&session->reader, &line);
    session->starved = session->starved || !str_ok(&line);
    str_free(&line);
    if (!heard)
        engine_died(session);
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
    if (session->words >= 0)
        dup2(session->words, STDERR_FILENO);
    int status = session->engine.run(session->engine.context, fd, session->engine_path, session->edits,
                                     session->edit_count);
    fflush(NULL);
    _exit(status);
}

bool
session_show(struct session *session, char *why, size_t why_size)
{
    session_hide(session);
    session->shown++;
    session->trace = trace_open(session->trace_path, why, why_size);
    if (session->trace == NULL)
        return false;
    breaks_use(&session->rules.breaks, session->trace);
    session->state = state_new(session->trace);
    session->story = story_new(session->trace);
    if (session->state == NULL || session->story == NULL || trace_starved(session->trace))
        snprintf(why, why_size, "out of memory");
    else if (trace_count(session->trace) == 0 && trace_events_lost(session->trace) > 0)
        snprintf(why, why_size, "its record had no room for the first event: out of memory, or the disk is full");
    else if (trace_count(session->trace) == 0)
        snprintf(why, why_size, "the lesson ended before its first event");
    return session->state != NULL && trace_count(session->trace) > 0;
}

/* Another file with the same contents. */
static bool
copy_file(const char *from, const char *to)
{
    bool ok = false;
#ifdef __linux__
    int in  = open(from, O_RDONLY | O_CLOEXEC);
    int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    ssize_t sent = 1;
    while (out >= 0 && sent > 0)
        sent = sendfile(out, in, NULL, 1 << 20);
    ok = out >= 0 && sent == 0;
    if (in >= 0)
        close(in);
    ok = (out < 0 || close(out) == 0) && ok;
    if (out >= 0 && !ok)
        unlink(to);
#endif
    return ok;
}

/* The named place is about to get another record: whose record lies there now moves into the folder. */
static void
keep_named_record(struct session *session)
{
    const char *record = session->engine.record;
    char        kept[300];
    snprintf(kept, sizeof kept, "%s/" RUNTIME_RECORD "%d.kept.trace", session->folder.path, session->generation);
    for (size_t i = 0; i <= session->run_count; i++) {
        char *path = i < session->run_count ? session->runs[i].trace_path : session->trace_path;
        bool  present = i < session->run_count && session->runs[i].number == session->run;
        if (present || strcmp(path, record) != 0)
            continue;
        bool room = session->folder.path[0] != '\0' && (link(record, kept) == 0 || copy_file(record, kept));
        snprintf(path, sizeof session->trace_path, "%s", room ? kept : "");
    }
}

static void
name_engines_record(struct session *session, bool replay)
{
    const char *record = session->engine.record;
    session->generation++;
    session->replays = record != NULL && replay && session->folder.path[0] != '\0';
    if (record != NULL && !session->replays) {
        keep_named_record(session);
        snprintf(session->engine_path, sizeof session->engine_path, "%s", record);
    } else {
        snprintf(session->engine_path, sizeof session->engine_path, "%s/" RUNTIME_RECORD "%d.trace",
                 session->folder.path, session->generation);
    }
}

/* Of the present run, from its beginning. */
static bool
start_engine(struct session *session, bool replay, char *why, size_t why_size)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        snprintf(why, why_size, "cannot start the engine: %s", strerror(errno));
        return false;
    }
    name_engines_record(session, replay);
    keep_words(session);
    fflush(NULL);
    session->child = fork();
    if (session->child == 0) {
        close(ends[0]);
        be_the_engine(session, ends[1]);
    }
    close(ends[1]);
    session->reader       = (struct control_reader){ .fd = ends[0] };
    session->engine_run   = session->run;
    session->engine_ended = session->died = session->starved = false;
    session->death        = -1;
    session->engine_head  = 0;
    if (session->child > 0 && hear_position(session))
        return true;
    tell_words(session);
    if (session->death >= 0 && WIFEXITED(session->death)) /* its words, if it said nothing and ended by itself */
        session->status = WEXITSTATUS(session->death);
    snprintf(why, why_size, session->starved ? "out of memory" : "the lesson could not be started");
    return false;
}

/* What it knows of its run is what the record holds. */
static void
follow_engine(struct session *session)
{
    session->head   = session->engine_head;
    session->ended  = session->engine_ended || session->died;
    session->status = session->engine_ended ? session->engine_status : session->status;
}

/* The engine's record is the present run's from here on. */
static void
record_here(struct session *session)
{
    if (strcmp(session->trace_path, session->engine_path) != 0)
        session_forget_file(session, session->trace_path);
    snprintf(session->trace_path, sizeof session->trace_path, "%s", session->engine_path);
    follow_engine(session);
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
        engine_died(session);
    return sent;
}

/* false: it died, or did not come so far. */
static bool
engine_go(struct session *session, uint64_t seq)
{
    char request[40];
    if (session->engine_head >= seq || session->engine_ended)
        return session->engine_head >= seq;
    snprintf(request, sizeof request, "go %" PRIu64, seq);
    return send_line(session, request) && hear_position(session) && session->engine_head >= seq;
}

bool
session_start(struct session *session, char *why, size_t why_size)
{
    bool started    = start_engine(session, false, why, why_size);
    session->viewer = -1;
    if (!started)
        return false;
    record_here(session);
    if (session_show(session, why, why_size))
        return true;
    session->status = 0; /* the engine has not said why */
    return false;
}

static bool
engine_is_here(const struct session *session)
{
    return session->reader.fd >= 0 && session->engine_run == session->run && !session->died;
}

bool
session_reach(struct session *session, uint64_t seq)
{
    uint64_t before = session->head;
    if (session->head < seq && !session->ended) {
        engine_go(session, seq);
        follow_engine(session);
        trace_refresh(session->trace);
        session->starved = session->starved || trace_starved(session->trace);
        size_t count = trace_count(session->trace);
        if (count > 0 && (session->head >= count || session->died)) /* what it recorded before it died counts */
            session->head = count - 1;
        bool stuck = session->starved && session->head < seq && session->head <= before;
        if (count == 0 || stuck)
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

void
session_tell_failure(const struct session *session, const char *lesson)
{
    struct session_failure failure = session_failure(session);
    static const char *const about_ranks[] = { "DeadlockError", "TimeoutError", "MismatchError", "KilledError" };
    struct failure told = { lesson, failure.line, strcmp(failure.kind, "LuaError") == 0 ? "" : failure.kind, "",
                            failure.message };
    char           who[24] = "";
    if (failure.rank >= 0)
        snprintf(who, sizeof who, "rank %d: ", failure.rank);
    bool named = strncmp(failure.message, who, strlen(who)) == 0 ||
                 (strcmp(failure.kind, "RaceError") == 0 && strncmp(failure.message, "rank ", 5) == 0);
    for (size_t i = 0; i < countof(about_ranks); i++)
        named = named || strcmp(failure.kind, about_ranks[i]) == 0;
    told.who = named ? "" : who;
    message_failure(&told, false);
}

static bool
say_not_there(struct session *session, uint64_t seq, struct str *out)
{
    const char *reason = session->starved ? "out of memory"
                         : session->died  ? "the engine is gone again" : session_failure(session).message;
    if (reason[0] == '\0') /* a run repeats, unless the machine gives less */
        reason = "made anew it ended before: no memory was left, or no disk";
    str_addf(out, "the run cannot be brought back to event %" PRIu64 ": %s\n", seq, reason);
    return false;
}

static bool
restart_engine(struct session *session, bool replay, struct str *out)
{
    char why[400];
    session_stop(session, true);
    if (start_engine(session, replay, why, sizeof why))
        return true;
    str_addf(out, "%s\n", why);
    return false;
}

/* Its record grows with the engine: the one that is there, or a new one that has come as far. */
bool
session_bring(struct session *session, struct str *out)
{
    char     why[400];
    uint64_t head = session->head;
    bool     here = engine_is_here(session) && session->engine_head <= head && !session->replays;
    if (session->ended || (here && strcmp(session->engine_path, session->trace_path) == 0))
        return true;
    if (!here && !restart_engine(session, false, out))
        return false;
    if (!engine_go(session, head))
        return say_not_there(session, head, out);
    record_here(session);
    if (session_show(session, why, sizeof why))
        return true;
    str_addf(out, "%s\n", why);
    return false;
}

bool
session_wind(struct session *session, struct str *out)
{
    if (engine_is_here(session) && session->engine_head == session->cursor)
        return true;
    if (session->died) { /* its record ends where it died: it is made again */
        session->ended = session->died = false;
        session->head  = session->cursor;
        return session_bring(session, out);
    }
    int64_t from = now_ms();
    bool    again = !engine_is_here(session) || session->engine_head > session->cursor;
    if (again && !restart_engine(session, true, out))
        return false;
    if (!engine_go(session, session->cursor) || session->engine_head != session->cursor)
        return say_not_there(session, session->cursor, out);
    session->again_ms = again ? now_ms() - from : -1;
    return true;
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
        engine_died(session);
        session->starved = session->starved || !str_ok(&line);
        if (session->starved)
            str_add(reply, "out of memory\n");
        else
            session_print_death(session, reply);
    }
    str_free(&line);
    return heard && ok;
}

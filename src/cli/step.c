/* ringside step: the debugger, with the viewer as its screen or, with --batch, without one.
 * Without --batch there are three processes: the viewer (this one, by exec), the session that it talks to over a
 * private socket, and the session's engine. The viewer outlives whatever the engine does. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/vec.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/screens.h"
#include "cli/session.h"
#include "cli/viewer.h"

/* One command after the other, separated by ";". The first that fails ends the batch. */
static int
run_batch(struct session *session, const char *commands)
{
    struct str line = { 0 }, out = { 0 };
    bool       ok = true, starved = false;
    while (ok && !session->died && *commands != '\0' && !session->quit) {
        commands += strspn(commands, " ");
        size_t length = strcspn(commands, ";\n");
        str_clear(&line);
        str_clear(&out);
        str_add_bytes(&line, commands, length);
        ok = str_ok(&line) && session_command(session, str_text(&line), &out);
        starved = session->starved || !str_ok(&line) || !str_ok(&out);
        if (starved)
            break;
        if (ok)
            visible_write(stdout, str_text(&out), out.len, VISIBLE_LINES);
        else
            message(STATUS_USAGE, "step: '%.*s': %.*s", (int)length, commands, (int)out.len - 1, str_text(&out));
        commands += length + (commands[length] != '\0');
    }
    str_free(&line);
    str_free(&out);
    if (starved)
        return message(STATUS_FAILED, "step: out of memory");
    int told = ok ? session_told_status(session) : 0;
    if (told != 0)
        return told;
    if (ok && session->died)
        return message(STATUS_FAILED, "step: the engine or its record is gone, the run was not at its end");
    return ok ? STATUS_DONE : STATUS_USAGE;
}

static int
step_batch(struct run_options *options)
{
    struct session        session;
    struct session_engine engine = { run_in_session, options, options->trace, -1 };
    char                  why[500];
    signal(SIGPIPE, SIG_IGN);
    if (!session_open(&session, &engine, why, sizeof why)) {
        return session.status != 0 ? session.status : message(STATUS_USAGE, "%s", why);
    }
    int status = run_batch(&session, options->batch);
    if (status == 0 && session.ended) {
        status = session.status;
        if (status >= STATUS_USAGE)
            session_tell_failure(&session, options->lesson);
    }
    session_close(&session);
    return status;
}

/* ---- with the viewer ---- */

static void
be_quiet(void)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2 && null >= 0; fd++)
        dup2(null, fd);
}

/* What a terminal or a shell sends to the whole group: the viewer ends by it, and the session cleans up behind it. */
static const int left_to_the_viewer[] = { SIGPIPE, SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGTERM };

struct session_start { int listener, ready; struct runtime_folder *folder; const sigset_t *before; };

/* The session's process. Tells through `ready` in one byte whether the lesson could be started. Signals are blocked
 * until it ignores them: whatever ends the viewer to be, the session takes the files away. */
static void
be_the_session(struct run_options *options, const struct session_start *start)
{
    int                   ready = start->ready;
    struct session        session;
    struct session_engine engine = { run_in_session, options, options->trace, ready };
    char                  why[500];
    for (size_t i = 0; i < countof(left_to_the_viewer); i++)
        signal(left_to_the_viewer[i], SIG_IGN);
    sigprocmask(SIG_SETMASK, start->before, NULL);
    bool opened = session_open(&session, &engine, why, sizeof why);
    if (!opened && session.status == 0)
        message(STATUS_USAGE, "%s", why);
    char status = opened ? 0 : (char)(session.status != 0 ? session.status : 2);
    bool told   = write(ready, &status, 1) == 1;
    be_quiet();
    if (opened && told)
        screens_serve(&session, start->listener, ready);
    if (opened)
        session_close(&session);
    runtime_folder_remove(start->folder);
    _exit(0);
}

/* Answers only when it cannot. */
static int
become_viewer(const struct run_options *options, char *path)
{
    const struct { bool given; const char *name; } flags[] = {
        { options->ascii, "--ascii" }, { options->no_color, "--no-color" }, { options->plain, "--plain" },
        { options->teacher, "--teacher" },
    };
    char  name[] = "trace_viewer", attach[] = "--attach", theme[] = "--theme", flag[countof(flags)][16];
    char *arguments[10] = { name, attach, path };
    int   count = 3;
    for (size_t i = 0; i < countof(flags); i++)
        if (flags[i].given) {
            snprintf(flag[i], sizeof flag[i], "%s", flags[i].name);
            arguments[count++] = flag[i];
        }
    if (options->theme != NULL) {
        arguments[count++] = theme;
        arguments[count++] = (char *)(uintptr_t)options->theme;
    }
    return viewer_exec(arguments);
}

static int
step_viewer(struct run_options *options)
{
    char                  why[300], path[200];
    int                   ends[2];
    struct runtime_folder folder;
    sigset_t              held, before;
    sigemptyset(&held);
    for (size_t i = 0; i < countof(left_to_the_viewer); i++)
        sigaddset(&held, left_to_the_viewer[i]);
    sigprocmask(SIG_BLOCK, &held, &before);
    if (!runtime_folder_make(&folder, RUNTIME_SOCKET, why, sizeof why))
        return message(STATUS_USAGE, "%s", why);
    int listener = control_listen(folder.path, path, sizeof path, why, sizeof why);
    if (listener < 0 || pipe(ends) != 0) {
        int status = message(STATUS_USAGE, "%s", listener < 0 ? why : strerror(errno));
        runtime_folder_remove(&folder);
        return status;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_the_session(options, &(struct session_start){ listener, ends[1], &folder, &before });
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    close(listener);
    char status = 2;
    if (child < 0 || read(ends[0], &status, 1) != 1 || status != 0) {
        runtime_folder_remove(&folder);
        return status != 0 ? status : 2;
    }
    fcntl(ends[0], F_SETFD, 0); /* the viewer keeps it, until it ends */
    status = (char)become_viewer(options, path);
    close(control_connect(path, why, sizeof why)); /* a viewer that came and went: the session ends */
    return status;
}

int
cli_step(int argc, char **argv)
{
    struct run_options options;
    int                status = options_parse(argc, argv, OPTION_STEP, &options);
    if (status >= 0)
        return status;
    if (options.executor == EXECUTOR_FREE)
        return message(STATUS_USAGE, "step needs the stepped executor: what runs free cannot be stepped, only run");
    status = lesson_choose(argv[0], &options);
    if (status >= 0)
        return status;
    if (options.batch != NULL)
        return step_batch(&options);
    if (!options.plain && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        return message(STATUS_USAGE, "step needs a terminal; without one use step --plain, step --batch 'COMMANDS', "
                                     "or run");
    return step_viewer(&options);
}

/* Interface: edit_program and edit_place, then edit_run once the screen was given away. */
#include "edit.h"

#include "panes.h"
#include "trace/reader.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_FOUND = 127 };

const char *
edit_program(void)
{
    const char *visual = getenv("VISUAL"), *editor = getenv("EDITOR");
    if (visual != NULL && visual[0] != '\0')
        return visual;
    return editor != NULL && editor[0] != '\0' ? editor : NULL;
}

bool
edit_place(const struct model *model, const struct view *view, struct source_place *out, char *why, size_t why_size)
{
    const struct trace_event *event = view->cursor != NO_EVENT ? trace_event(model->trace, view->cursor) : NULL;
    *out = (struct source_place){ "", 1 };
    if (event != NULL) {
        const struct trace_kind *kind = trace_kind(model->trace, event->kind);
        *out = (struct source_place){ kind->file, kind->line };
        if (kind->source[0] == '\0' || model_work(model, view->cursor) == WORK_LESSON) {
            trace_source_text(model->trace, &out->file);
            out->line = lesson_line(model, view->cursor);
        }
    }
    if (edit_program() == NULL)
        snprintf(why, why_size, "set VISUAL or EDITOR to a program that opens +LINE FILE");
    else if (out->file[0] == '\0')
        snprintf(why, why_size, "the trace names no file for this event");
    else if (access(out->file, R_OK) != 0)
        snprintf(why, why_size, "%.200s is not here; what is shown is the trace's own copy", out->file);
    else
        return true;
    return false;
}

/* As git and others do it: the program may have arguments of its own, so a shell reads it. */
static void
become_editor(const struct source_place *place)
{
    char line[32], command[1024];
    snprintf(line, sizeof line, "+%u", place->line > 0 ? place->line : 1);
    snprintf(command, sizeof command, "%s \"$@\"", edit_program());
    signal(SIGINT, SIG_DFL);
    signal(SIGTSTP, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execl("/bin/sh", "sh", "-c", command, "sh", line, place->file, (char *)NULL);
    _exit(NOT_FOUND);
}

/* An editor that is stopped takes the screen with it to the shell; what comes back goes on. */
static int
await(pid_t child)
{
    int             status = 0;
    sigset_t        stop;
    struct timespec now = { 0, 0 };
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    while (waitpid(child, &status, WUNTRACED) < 0 || WIFSTOPPED(status)) {
        if (!WIFSTOPPED(status))
            continue;
        raise(SIGSTOP);
        kill(child, SIGCONT);
        status = 0;
    }
    while (sigtimedwait(&stop, NULL, &now) == SIGTSTP)
        continue;
    return status;
}

bool
edit_run(const struct source_place *place, char *why, size_t why_size)
{
    pid_t child = fork();
    if (child == 0)
        become_editor(place);
    int status = child > 0 ? await(child) : 0;
    if (child < 0)
        snprintf(why, why_size, "no process for an editor");
    else if (WIFSIGNALED(status))
        snprintf(why, why_size, "%.100s was ended by signal %d", edit_program(), WTERMSIG(status));
    else if (WEXITSTATUS(status) == NOT_FOUND)
        snprintf(why, why_size, "%.100s is not there (status 127)", edit_program());
    else if (WEXITSTATUS(status) != 0)
        snprintf(why, why_size, "%.100s ended with status %d", edit_program(), WEXITSTATUS(status));
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The guardian of the terminal: a parent that only waits. A handler for crashes would need mutable globals and could
 * not help against SIGKILL; a parent needs neither. Interface: guard_run. */
#include "guard.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* Leaves the alternate screen, shows the cursor, ends colours, mouse reports, bracketed paste and keypad mode. */
static void
restore_terminal(const struct termios *before)
{
    static const char reset[] = "\x1b[?1049l\x1b[?25h\x1b[0m\x1b[?1000l\x1b[?1002l\x1b[?1006l"
                                "\x1b[?2004l\x1b[?1l\x1b>\r\n";
    ssize_t written = write(STDOUT_FILENO, reset, sizeof reset - 1);
    (void)written;
    tcsetattr(STDIN_FILENO, TCSANOW, before);
}

/* What ends or stops a program goes on to the child, which leaves the terminal clean; what the child does is awaited.
 * The guardian stops when the child has, so that a shell does not find the terminal raw; it never runs without it. */
static int
await_child(pid_t child, const sigset_t *signals)
{
    for (;;) {
        int status, signal;
        pid_t done = waitpid(child, &status, WNOHANG | WUNTRACED);
        if (done == child && (WIFEXITED(status) || WIFSIGNALED(status)))
            return status;
        if (done == child && WIFSTOPPED(status)) {
            raise(SIGSTOP);
            kill(child, SIGCONT);
            continue;
        }
        if (sigwait(signals, &signal) == 0 && signal != SIGCHLD)
            kill(child, signal == SIGQUIT ? SIGTERM : signal); /* the terminal first */
    }
}

/* Should the guardian be killed first, nobody waits for this screen any more: it ends as if the terminal had gone, and
 * puts that back although the shell has it by then, for which others would be stopped (SIGTTOU). */
static void
outlive_guardian(void)
{
#ifdef __linux__
    signal(SIGTTOU, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGHUP);
#endif
}

int
guard_run(int (*run)(void *argument), void *argument)
{
    struct termios before;
    bool terminal = tcgetattr(STDIN_FILENO, &before) == 0;
    sigset_t signals, old;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGQUIT);
    sigaddset(&signals, SIGTSTP);
    sigprocmask(SIG_BLOCK, &signals, &old);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        sigprocmask(SIG_SETMASK, &old, NULL);
        return run(argument); /* without a guardian */
    }
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &old, NULL);
        outlive_guardian();
        _exit(run(argument));
    }
    int status = await_child(child, &signals);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (terminal)
        restore_terminal(&before);
    fprintf(stderr, "trace_viewer: ended by a signal: %s\n", strsignal(WTERMSIG(status)));
    return 128 + WTERMSIG(status);
}

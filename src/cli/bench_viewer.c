/* bench viewer_open: how long one waits for a trace of so many events, in whole processes, from their start. A first
 * frame is whole once its last row, the keys, has come out of the terminal; the screen has worked out all it keeps (its
 * index) before it is timed. Traces are made, and taken away again.
 *
 * Interface: bench_viewer_open. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/place.h"
#include "base/vec.h"
#include "cli/bench.h"
#include "cli/message.h"
#include "cli/synth.h"
#include "cli/watch.h"
#include "trace/writer.h"

enum { COLUMNS = 200, ROWS = 60, PATIENCE_S = 20, QUIET_MS = 300, TAIL = 8192 };

static const char last_words[] = " quit"; /* of the row of keys, which is drawn last, in one colour */

struct opening { char folder[PATH_MAX / 2], trace[PATH_MAX], program[PATH_MAX]; };

/* What a process came to. */
struct outcome { double seconds, mib; bool good; };

/* ---- the trace ---- */

static bool
make_trace(struct opening *opening, uint64_t events)
{
    char                    why[512];
    const struct synth_plan plan = { .events = events, .lanes = 64, .ranks = 8, .depth = 12, .flows = events / 100 };
    snprintf(opening->trace, sizeof opening->trace, "%s/made.trace", opening->folder);
    const struct trace_options options = { .path = opening->trace, .clock = CLOCK_VIRTUAL_PS };
    struct trace_writer       *writer  = trace_create(&options, why, sizeof why);
    if (writer == NULL)
        return message(STATUS_FAILED, "bench: %s", why) == 0;
    bool good = synth_write(&plan, writer);
    trace_close(writer);
    return good || message(STATUS_FAILED, "bench: no room for a trace of %.0f MB in %s", (double)events * 64 / 1e6,
                           opening->folder) == 0;
}

/* Whatever the screen has put beside the trace, too: its cache is in this folder as long as the bench runs. */
static bool
begin_opening(struct opening *opening)
{
    const char *home = getenv("TMPDIR");
    snprintf(opening->folder, sizeof opening->folder, "%.1900s/ringside-bench-XXXXXX",
             home != NULL && home[0] != '\0' ? home : "/tmp");
    if (mkdtemp(opening->folder) == NULL)
        return message(STATUS_FAILED, "bench: %s: %s", opening->folder, strerror(errno)) == 0;
    return true;
}

/* true: it ended well. */
static bool
wait_for(pid_t child, double begin, struct outcome *outcome)
{
    int           status;
    struct rusage used;
    while (wait4(child, &status, 0, &used) < 0)
        if (errno != EINTR)
            return false;
    outcome->seconds = bench_now() - begin;
    outcome->mib     = (double)used.ru_maxrss / 1024;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void
end_opening(const struct opening *opening)
{
    struct outcome outcome;
    pid_t          child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", "--", opening->folder, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || !wait_for(child, 0, &outcome))
        message(STATUS_FAILED, "bench: %s could not be taken away", opening->folder);
}

/* ---- processes ---- */

static void
become(const struct opening *opening, const char *name, const char *subcommand)
{
    char     path[PATH_MAX + 32];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    unsetenv("LD_PRELOAD"); /* what counts allocations is the bench's own */
    setenv("XDG_CACHE_HOME", opening->folder, 1);
    snprintf(path, sizeof path, "%s/%s", opening->program, name);
    if (subcommand != NULL)
        execl(path, name, subcommand, opening->trace, (char *)NULL);
    else
        execl(path, name, opening->trace, (char *)NULL);
    _exit(127);
}

/* The lines of what the process prints, and that it ends well. */
static bool
count_lines(const struct opening *opening, uint64_t *lines)
{
    char           text[TAIL];
    int            ends[2];
    struct outcome outcome;
    ssize_t        got;
    *lines = 0;
    if (pipe(ends) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        become(opening, "ringside", "events");
    }
    close(ends[1]);
    while (child > 0 && (got = read(ends[0], text, sizeof text)) > 0)
        for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + got - at))) != NULL; at++)
            ++*lines;
    close(ends[0]);
    return child > 0 && wait_for(child, 0, &outcome);
}

static struct outcome
print_text(const struct opening *opening)
{
    struct outcome outcome = { 0 };
    double         begin   = bench_now();
    pid_t          child   = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        become(opening, "ringside", "events");
    }
    outcome.good = child > 0 && wait_for(child, begin, &outcome);
    return outcome;
}

/* ---- a terminal ---- */

static int
open_terminal(char *name, size_t size)
{
    int         terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    bool        ready    = terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0;
    const char *found    = ready ? ptsname(terminal) : NULL;
    if (found == NULL) {
        if (terminal >= 0)
            close(terminal);
        return -1;
    }
    snprintf(name, size, "%s", found);
    return terminal;
}

static void
become_viewer(const struct opening *opening, const char *terminal)
{
    const struct winsize size = { .ws_row = ROWS, .ws_col = COLUMNS };
    setsid();
    int fd = open(terminal, O_RDWR);
    ioctl(fd, TIOCSCTTY, 0);
    ioctl(fd, TIOCSWINSZ, &size);
    for (int i = 0; i < 3; i++)
        dup2(fd, i);
    setenv("TERM", "xterm-256color", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("LINES");
    unsetenv("COLUMNS");
    become(opening, "trace_viewer", NULL);
}

/* Reads until the row of keys is there. The words may lie across two reads. */
static bool
read_frame(int terminal, double begin)
{
    char   text[TAIL + sizeof last_words];
    size_t kept = 0;
    while (bench_now() - begin < PATIENCE_S) {
        struct pollfd wait = { .fd = terminal, .events = POLLIN };
        if (poll(&wait, 1, 1000) <= 0)
            continue;
        ssize_t got = read(terminal, text + kept, TAIL);
        if (got <= 0)
            return false;
        size_t have = kept + (size_t)got;
        if (memmem(text, have, last_words, sizeof last_words - 1) != NULL)
            return true;
        kept = have < sizeof last_words ? have : sizeof last_words;
        memmove(text, text + have - kept, kept);
    }
    return false;
}

/* CPU time of the process in ticks; -1: it is gone. */
static long
ticks_of(pid_t child)
{
    char          path[64], line[512] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    FILE *file = fopen(path, "r");
    bool  read = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        fclose(file);
    const char *behind = read ? strrchr(line, ')') : NULL;
    if (behind == NULL || sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return -1;
    return (long)(user + system);
}

/* Takes what is drawn until the process has nothing to do any more. */
static void
wait_until_idle(int terminal, pid_t child, double begin)
{
    char text[TAIL];
    long before = -1, now;
    while ((now = ticks_of(child)) != before && bench_now() - begin < PATIENCE_S) {
        struct pollfd wait = { .fd = terminal, .events = POLLIN };
        double        until = bench_now() + QUIET_MS / 1e3;
        before = now;
        for (int left; (left = (int)((until - bench_now()) * 1e3)) > 0 && poll(&wait, 1, left) > 0;)
            if (read(terminal, text, sizeof text) <= 0)
                return;
    }
}

static struct outcome
draw_frame(const struct opening *opening, bool to_the_end)
{
    struct outcome outcome = { 0 }, end = { 0 };
    char           name[128];
    int            terminal = open_terminal(name, sizeof name);
    double         begin    = bench_now();
    pid_t          child    = terminal >= 0 ? fork() : -1;
    if (child == 0)
        become_viewer(opening, name);
    bool drawn      = child > 0 && read_frame(terminal, begin);
    outcome.seconds = bench_now() - begin;
    if (drawn && to_the_end)
        wait_until_idle(terminal, child, begin);
    bool asked = drawn && write(terminal, "Q", 1) == 1;
    if (child > 0 && !asked)
        kill(child, SIGKILL);
    char text[TAIL];
    while (asked && read(terminal, text, sizeof text) > 0)
        continue; /* until it has closed the terminal */
    outcome.good = child > 0 && wait_for(child, begin, &end) && drawn;
    outcome.mib  = end.mib;
    if (terminal >= 0)
        close(terminal);
    return outcome;
}

/* ---- cases ---- */

static const struct opening_case {
    const char *name;
    uint64_t    events;
    bool        frame;
} cases[] = {
    { "first-frame-1M", 1000000, true },
    { "text-1M", 1000000, false },
    { "first-frame-10M", 10000000, true },
};

static bool
was_interrupted(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM));
}

static void
report(const struct bench_options *options, const struct opening_case *c, const char *metric, double *samples,
       bool good)
{
    char                    extra[64];
    const struct bench_line line = { .bench = "viewer_open", .impl = "ringside", .name = c->name, .metric = metric,
                                     .unit = metric[0] == 'w' ? "s" : "MiB", .threads = 1, .count = BENCH_SAMPLES,
                                     .samples = samples, .ok = good, .extra = extra };
    snprintf(extra, sizeof extra, ", \"events\": %llu", (unsigned long long)c->events);
    bench_report(options, &line);
}

static bool
run_case(const struct bench_options *options, const struct opening *opening, const struct opening_case *c)
{
    double   seconds[BENCH_SAMPLES], mib[BENCH_SAMPLES];
    uint64_t lines = 0;
    bool     good  = c->frame ? draw_frame(opening, true).good : count_lines(opening, &lines) && lines == c->events;
    if (!good && !was_interrupted())
        return message(STATUS_FAILED, "bench: %s did not come to its end", c->frame ? "a first frame" : "events") == 0;
    for (int i = 0; i < BENCH_SAMPLES && !was_interrupted(); i++) {
        struct outcome outcome = c->frame ? draw_frame(opening, false) : print_text(opening);
        seconds[i] = outcome.seconds;
        mib[i]     = outcome.mib;
        good       = good && outcome.good;
    }
    if (!was_interrupted()) {
        report(options, c, "wall", seconds, good);
        report(options, c, "rss", mib, good);
    }
    return true;
}

static bool
run_cases(const struct bench_options *options, struct opening *opening)
{
    uint64_t made = 0;
    for (size_t i = 0; i < countof(cases) && !was_interrupted(); i++) {
        if (!bench_wants(options, cases[i].name))
            continue;
        if (made != cases[i].events && !make_trace(opening, cases[i].events))
            return false;
        made = cases[i].events;
        if (!run_case(options, opening, &cases[i]))
            return false;
    }
    return true;
}

bool
bench_viewer_open(const struct bench_options *options)
{
    struct opening opening;
    sigset_t       ends, before;
    if (options->threads > 1)
        return true;
    if (!program_folder(opening.program, sizeof opening.program))
        return message(STATUS_FAILED, "bench: nobody tells where this program lies") == 0;
    if (!begin_opening(&opening))
        return false;
    sigemptyset(&ends);
    watch_add_signal(&ends, SIGINT);
    watch_add_signal(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before); /* half a gigabyte is not left behind */
    bool good = run_cases(options, &opening);
    end_opening(&opening);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return good;
}

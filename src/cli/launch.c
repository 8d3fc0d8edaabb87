/* ringside launch: a lesson in many processes, one a rank, as torchrun does. Starts them, serves the store in which
 * they meet, gives out what they say, and sees to it that all end when one does.
 *
 * Interface: cli_launch. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/now.h"
#include "base/vec.h"
#include "c10d/store_server.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/launch_end.h"
#include "cli/launch_lines.h"
#include "cli/launch_plan.h"
#include "cli/launch_start.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/watch.h"

/* What was asked of those that still run. */
enum pressure { PRESS_NONE, PRESS_GRACE, PRESS_TERM /* SIGTERM */, PRESS_KILL };

enum { AGAIN_MS = 500, ASKED_MS = 5000, NODES_MS = 300000, LOOK_MS = 20, HELD_MOST = 1 << 20 };

struct launch {
    const char         *command;
    struct launch_plan  plan;
    struct worker      *workers;
    int                 started, alive;
    struct pollfd      *polls;
    const struct worker **ordered;     /* room for those that failed */
    struct sink         out, err;
    int                 signals;       /* a signalfd */
    struct launch_inheritance inheritance;
    struct store_server *store;        /* NULL: on another machine */
    bool                store_gone;    /* it did not answer */
    enum pressure       pressure;
    int64_t             due;           /* of the next pressure, ms */
    int                 by;            /* the signal that has stopped the job; 0: none */
    int64_t             by_at;
    bool                hurries;       /* it was stopped twice */
    int64_t             leaves_at;     /* all here have ended: how long the store stays for others; 0: not */
    bool                told;          /* what was held is out, and nothing is held any more */
};

/* ---- signals ---- */

static bool
open_signals(struct launch *launch)
{
    struct sigaction pipe;
    sigset_t         signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    watch_add_signal(&signals, SIGINT);
    watch_add_signal(&signals, SIGTERM);
    watch_add_signal(&signals, SIGHUP);
    launch->inheritance.parent     = getpid();
    launch->inheritance.pipe_kills = sigaction(SIGPIPE, NULL, &pipe) == 0 && pipe.sa_handler == SIG_DFL;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored, nobody would learn how they ended */
    pthread_sigmask(SIG_BLOCK, &signals, &launch->inheritance.mask);
    launch->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return launch->signals >= 0;
}

static void
signal_all(const struct launch *launch, int number)
{
    for (int i = 0; i < launch->started; i++)
        if (launch->workers[i].pid > 0)
            kill(launch->workers[i].pid, number);
}

static void
press(struct launch *launch, enum pressure pressure)
{
    launch->pressure = pressure;
    launch->due      = now_ms() + (pressure == PRESS_GRACE ? (int64_t)launch->plan.grace_ms : ASKED_MS);
    if (pressure == PRESS_TERM) {
        signal_all(launch, SIGTERM);
        signal_all(launch, SIGCONT); /* one that was stopped hears it, too */
    }
    if (pressure == PRESS_KILL)
        signal_all(launch, SIGKILL);
}

/* One that the terminal sends has reached everybody; who sends one to the launcher alone means everybody. A second one
 * kills; one that comes at once is the first again, sent to the process and to its group. */
static void
hear_stop(struct launch *launch, int number, bool from_terminal)
{
    if (launch->by > 0) {
        launch->hurries = launch->hurries || now_ms() - launch->by_at >= AGAIN_MS;
        if (launch->hurries)
            press(launch, PRESS_KILL);
        return;
    }
    launch->by    = number;
    launch->by_at = now_ms();
    if (!from_terminal)
        signal_all(launch, number);
    if (launch->pressure == PRESS_NONE)
        press(launch, PRESS_GRACE);
}

/* ---- lines ---- */

/* What a process says once its page tells that it has failed waits for those that failed before it. */
static void
hold_lines(struct worker *worker, struct str *lines)
{
    if (worker->held.len + lines->len <= HELD_MOST)
        str_add_bytes(&worker->held, str_text(lines), lines->len);
    else
        worker->dropped += lines->len;
    if (!str_ok(&worker->held) || !str_ok(lines))
        worker->dropped += lines->len;
}

static bool
read_err(struct launch *launch, struct worker *worker)
{
    struct str lines = { 0 };
    bool       holds = !launch->told && worker_has_failed(worker);
    bool       more  = stream_read(&worker->err, holds ? &lines : &launch->err.queue);
    if (holds)
        hold_lines(worker, &lines);
    str_free(&lines);
    return more;
}

/* It has ended: all that it has said is in its pipes. */
static void
read_rest(struct launch *launch, struct worker *worker)
{
    struct str lines = { 0 };
    bool       holds = !launch->told && worker->last.failed_ns != 0;
    while (stream_read(&worker->out, &launch->out.queue))
        continue;
    while (read_err(launch, worker))
        continue;
    stream_finish(&worker->out, &launch->out.queue);
    stream_finish(&worker->err, holds ? &lines : &launch->err.queue);
    if (holds)
        hold_lines(worker, &lines);
    str_free(&lines);
}

static void
tell_held(struct launch *launch, struct worker *worker, bool *reported)
{
    struct str *out = &launch->err.queue;
    *reported = held_words(worker, *reported, out);
    if (worker->dropped > 0)
        str_addf(out, "ringside launch: rank %d said %zu bytes more, for which there was no room\n", worker->rank,
                 worker->dropped);
    str_free(&worker->held);
    worker->dropped = 0;
}

/* Killed, or gone with a bare status: no line of its own says why. What its page calls an error it has told. */
static bool
went_without_a_word(const struct worker *worker)
{
    bool killed = worker->pid == 0 && WIFSIGNALED(worker->status);
    return worker->held.len == 0 && (killed || worker->last.failed_ns == 0);
}

/* Everybody's last words, who failed first first. Of one that could say none it is said how it went, in its place. */
static void
tell_all(struct launch *launch)
{
    if (launch->told)
        return;
    launch->told = true;
    for (int i = 0; i < launch->started; i++)
        if (launch->workers[i].pid > 0 && worker_has_failed(&launch->workers[i])) {
            job_page_read(launch->workers[i].page, &launch->workers[i].last);
            launch->workers[i].failed_ns = launch->workers[i].last.failed_ns;
        }
    int  failed = ends_in_order(launch->workers, launch->started, launch->ordered);
    bool any    = false, reported = false;
    for (int i = 0; i < failed; i++)
        any = any || launch->ordered[i]->held.len > 0;
    for (int i = 0; i < failed; i++) {
        struct worker *worker = &launch->workers[launch->ordered[i]->local_rank];
        if (any && went_without_a_word(worker)) {
            struct str words = { 0 };
            end_words(worker, &words);
            str_enclose(&launch->err.queue, "ringside launch: ", &words, "\n");
            str_free(&words);
        }
        tell_held(launch, worker, &reported);
    }
}

/* ---- ends ---- */

static void
bury(struct launch *launch, struct worker *worker, int status)
{
    bool ended = launch->pressure >= PRESS_TERM || launch->by > 0;
    worker_note_end(worker, status, ended);
    launch->alive--;
    bool others = launch->alive > 0 || launch->plan.nodes > 1;
    if (others && !launch->store_gone && worker_left_others(worker))
        launch->store_gone = !worker_post_end(&launch->plan, worker);
    read_rest(launch, worker);
    if ((worker->end == WORKER_FAILED || worker->end == WORKER_KILLED) && launch->pressure == PRESS_NONE)
        press(launch, PRESS_GRACE);
}

static void
bury_the_dead(struct launch *launch)
{
    for (int i = 0; i < launch->started; i++) {
        int   status = 0;
        pid_t pid    = launch->workers[i].pid;
        if (pid > 0 && waitpid(pid, &status, WNOHANG) == pid)
            bury(launch, &launch->workers[i], status);
    }
}

static void
hear_signals(struct launch *launch)
{
    struct signalfd_siginfo heard;
    while (read(launch->signals, &heard, sizeof heard) == (ssize_t)sizeof heard)
        if (heard.ssi_signo == SIGCHLD)
            bury_the_dead(launch);
        else
            hear_stop(launch, (int)heard.ssi_signo, heard.ssi_code == SI_KERNEL);
}

static void
press_the_late(struct launch *launch)
{
    if (launch->pressure == PRESS_NONE || launch->alive == 0 || now_ms() < launch->due)
        return;
    tell_all(launch);
    press(launch, launch->pressure == PRESS_GRACE ? PRESS_TERM : PRESS_KILL);
}

/* ---- the loop ---- */

/* Until when poll may wait, in ms; -1: for ever. */
static int
patience(const struct launch *launch)
{
    int64_t left = 0;
    if (launch->alive > 0 && launch->pressure == PRESS_NONE)
        return -1;
    if (launch->alive > 0)
        left = launch->due - now_ms();
    else if (launch->leaves_at > 0)
        left = LOOK_MS;
    else if (launch->by > 0 && !launch->hurries)
        left = launch->by_at + (int64_t)launch->plan.grace_ms - now_ms();
    else if (!launch->hurries && (sink_waits(&launch->out) || sink_waits(&launch->err)))
        return -1;
    return left <= 0 ? 0 : left < INT_MAX ? (int)left : INT_MAX;
}

static struct pollfd
watched(int fd, bool wanted, short events)
{
    return (struct pollfd){ .fd = wanted ? fd : -1, .events = events };
}

/* signals, our two outputs, then two of each process. */
static void
wait_for_news(struct launch *launch)
{
    struct pollfd *polls = launch->polls;
    int            count = 3;
    polls[0] = watched(launch->signals, true, POLLIN);
    polls[1] = watched(launch->out.fd, sink_waits(&launch->out), POLLOUT);
    polls[2] = watched(launch->err.fd, sink_waits(&launch->err), POLLOUT);
    for (int i = 0; i < launch->started; i++) {
        polls[count++] = watched(launch->workers[i].out.fd, !sink_is_crowded(&launch->out), POLLIN);
        polls[count++] = watched(launch->workers[i].err.fd, !sink_is_crowded(&launch->err), POLLIN);
    }
    if (poll(polls, (nfds_t)count, patience(launch)) < 0)
        for (int i = 0; i < count; i++)
            polls[i].revents = 0;
}

/* Lines before ends, so that what a process has said stands before what comes of it. */
static void
take_news(struct launch *launch)
{
    for (int i = 0; i < launch->started; i++) {
        if (launch->polls[3 + 2 * i].revents != 0)
            stream_read(&launch->workers[i].out, &launch->out.queue);
        if (launch->polls[4 + 2 * i].revents != 0)
            read_err(launch, &launch->workers[i]);
    }
    sink_mend(&launch->out);
    sink_mend(&launch->err);
    if (launch->polls[1].revents != 0)
        sink_write(&launch->out);
    if (launch->polls[2].revents != 0)
        sink_write(&launch->err);
    if (launch->polls[0].revents != 0)
        hear_signals(launch);
    press_the_late(launch);
}

/* Who was stopped waits a while for a reader, and not at all if that was said twice. */
static bool
waits_for_reader(const struct launch *launch)
{
    bool late = launch->by > 0 && now_ms() - launch->by_at >= (int64_t)launch->plan.grace_ms;
    return (sink_waits(&launch->out) || sink_waits(&launch->err)) && !launch->hurries && !late;
}

/* Ranks on other machines still need the store: until they have left it. */
static bool
waits_for_nodes(const struct launch *launch)
{
    return launch->store != NULL && launch->plan.nodes > 1 && launch->by == 0 && now_ms() < launch->leaves_at &&
           store_server_peers(launch->store) > 0;
}

/* Until all have ended and what they said is out. */
static void
watch_over(struct launch *launch)
{
    while (launch->alive > 0) {
        wait_for_news(launch);
        take_news(launch);
    }
    tell_all(launch);
    int failed = ends_in_order(launch->workers, launch->started, launch->ordered);
    job_words(launch->workers, launch->started, launch->ordered, failed, launch->by, &launch->err.queue);
    launch->leaves_at = now_ms() + (failed > 0 ? (int64_t)launch->plan.grace_ms : NODES_MS);
    while (waits_for_nodes(launch)) {
        wait_for_news(launch);
        take_news(launch);
    }
    launch->leaves_at = 0;
    do {
        wait_for_news(launch);
        take_news(launch);
    } while (waits_for_reader(launch));
}

/* ---- begin and end ---- */

/* Two descriptors a process stay open here, and the store's peers have theirs. */
static void
ask_for_descriptors(int processes)
{
    struct rlimit files;
    rlim_t        wanted = 6 * (rlim_t)processes + 128;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY || files.rlim_cur >= wanted)
        return;
    files.rlim_cur = files.rlim_max == RLIM_INFINITY || files.rlim_max > wanted ? wanted : files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files); /* refused: what there is may do */
}

/* -1: go on; else the exit status. */
static int
serve_store(struct launch *launch)
{
    char why[300];
    int  status = STATUS_FAILED;
    if (launch->plan.node > 0)
        return -1;
    int listener = launch_listen(launch->command, &launch->plan, &status);
    if (listener < 0)
        return status;
    launch->store = store_server_start(NULL, listener, why, sizeof why);
    return launch->store != NULL ? -1 : message(STATUS_FAILED, "%s: %s", launch->command, why);
}

static bool
start_all(struct launch *launch)
{
    const struct launch_plan *plan = &launch->plan;
    for (int i = 0; i < plan->local; i++) {
        if (!worker_start(launch->command, plan, &launch->inheritance, i, &launch->workers[i]))
            return false;
        launch->started++;
        launch->alive++;
    }
    return true;
}

/* Nobody has said anything yet that somebody has to read. */
static void
end_all(struct launch *launch)
{
    signal_all(launch, SIGKILL);
    for (int i = 0; i < launch->started; i++)
        while (waitpid(launch->workers[i].pid, NULL, 0) < 0 && errno == EINTR)
            continue;
}

static int
check_outputs(const struct launch *launch, int status)
{
    if (launch->out.lost || launch->err.lost)
        message(0, "%s: out of memory: some lines are missing", launch->command);
    if (launch->out.error != 0)
        return message(STATUS_USAGE, "cannot write standard output: %s", strerror(launch->out.error));
    return status;
}

static int
run_all(struct launch *launch)
{
    size_t count    = (size_t)launch->plan.local;
    launch->workers = calloc(count, sizeof *launch->workers);
    launch->polls   = calloc(2 * count + 3, sizeof *launch->polls);
    launch->ordered = calloc(count, sizeof *launch->ordered);
    if (launch->workers == NULL || launch->polls == NULL || launch->ordered == NULL)
        return message(STATUS_FAILED, "out of memory");
    ask_for_descriptors(launch->plan.world);
    if (!open_signals(launch))
        return message(STATUS_FAILED, "%s: cannot wait for signals: %s", launch->command, strerror(errno));
    int status = serve_store(launch);
    if (status >= 0)
        return status;
    launch_plan_clear(&launch->plan);
    if (!start_all(launch)) {
        end_all(launch);
        return STATUS_FAILED;
    }
    watch_over(launch);
    int failed = ends_in_order(launch->workers, launch->started, launch->ordered);
    status     = job_status(launch->workers, launch->started, launch->ordered, failed, launch->by);
    return check_outputs(launch, status);
}

static void
launch_end(struct launch *launch)
{
    store_server_stop(launch->store, 0);
    for (int i = 0; i < launch->started; i++)
        worker_free(&launch->workers[i]);
    if (launch->signals >= 0)
        close(launch->signals);
    sink_free(&launch->out);
    sink_free(&launch->err);
    free(launch->ordered);
    free(launch->polls);
    free(launch->workers);
}

int
cli_launch(int argc, char **argv)
{
    struct launch      launch = { .command = argv[0], .signals = -1, .out = { .fd = STDOUT_FILENO },
                                  .err = { .fd = STDERR_FILENO } };
    struct run_options options;
    int                status = options_parse(argc, argv, OPTION_LAUNCH, &options);
    status = status < 0 ? lesson_choose(argv[0], &options) : status;
    status = status < 0 ? launch_plan_make(argv[0], &options, &launch.plan) : status;
    if (status < 0) {
        status = run_all(&launch);
        launch_end(&launch);
    }
    options_free(&options);
    return status;
}

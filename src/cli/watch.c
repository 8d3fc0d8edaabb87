/* The thread that watches a run. It asks the run to end, which every script, op and wait hears; what has not ended a
 * moment later is ended here, by the process's exit: the record is whole at every instant.
 *
 * Interface: watch_start, watch_end; watch_add_signal. */
#include "cli/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/str.h"
#include "cli/message.h"
#include "sched/sched.h"

enum { TICK_NS = 20 * 1000 * 1000, GRACE_TICKS = 25, CLEARING = 10 /* a GiB of small objects takes its time */ };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
enum { PATIENCE = 10, MEMORY_TELLS = 0 };   /* their shadow is no memory of the lesson's */
#else
enum { PATIENCE = 1, MEMORY_TELLS = 1 };
#endif

static double
cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What the process holds and shares with no file; 0: this system does not say. */
static size_t
memory_held(void)
{
    unsigned long all, resident, shared;
    char          text[128];
    int           file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t       got  = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = '\0';
    bool known = sscanf(text, "%lu %lu %lu", &all, &resident, &shared) == 3 && resident > shared;
    return known ? (size_t)(resident - shared) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Nobody answers any more: locks may be held, so nothing is flushed that could wait. */
static void
end_process(const char *reason, int status)
{
    char line[200];
    int  length = snprintf(line, sizeof line, "ringside: %s%s\n", status == STATUS_USAGE ? "BudgetError: " : "",
                           reason);
    if (ftrylockfile(stdout) == 0)
        fflush_unlocked(stdout);
    ssize_t wrote = write(STDERR_FILENO, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
    (void)wrote;
    _exit(status);
}

/* What stands against the run going on, in words; NULL: nothing. */
static const char *
limit_reached(const struct watch *watch, char *words, size_t size)
{
    const struct watch_limits *limits = &watch->limits;
    if (atomic_load(&watch->lesson_over))
        return NULL;
    if (limits->cpu_seconds > 0 && cpu_seconds() - watch->started > limits->cpu_seconds * PATIENCE) {
        snprintf(words, size, "the run has used the %g seconds of CPU time that it may; --limit-seconds N sets another "
                              "limit, --trust lifts it", limits->cpu_seconds * PATIENCE);
        return words;
    }
    if (limits->memory > 0 && MEMORY_TELLS && memory_held() > limits->memory) {
        snprintf(words, size, "the run holds more than the %zu MiB of memory that it may; --trust lifts the limit",
                 limits->memory >> 20);
        return words;
    }
    return NULL;
}

struct ending { const char *reason; int status, ticks; char words[160]; };

/* What the ranks wait for is told while they still do; in `stepped` whoever is cut off tells it (spawn.c). */
static void
stop_run(const struct watch *watch, enum error_kind kind, const char *why)
{
    struct str text = { 0 };
    str_addf(&text, "%s\n", why);
    size_t alone = text.len;
    if (!sched_is_stepped(watch->sched))
        sched_explain(watch->sched, &(struct stop){ .cause = STOP_INTERRUPT }, &text);
    if (text.len == alone && str_ok(&text))
        text.text[--text.len] = '\0';
    sched_stop(watch->sched, kind, str_ok(&text) ? str_text(&text) : why);
    str_free(&text);
}

/* The second interrupt does not wait. */
static void
hear_signal(struct watch *watch, struct ending *ending, int number)
{
    if (ending->reason != NULL && ending->status > 128)
        _exit(128 + number);
    stop_run(watch, E_STOPPED, number == SIGINT ? "the run was stopped by an interrupt"
                                                : "the run was stopped by a signal");
    *ending = (struct ending){ .reason = "interrupted, and the run did not end by itself", .status = 128 + number };
}

static void
look_at_limits(struct watch *watch, struct ending *ending)
{
    if (ending->reason != NULL) {
        int grace = GRACE_TICKS * PATIENCE * (atomic_load(&watch->lesson_over) ? CLEARING : 1);
        if (++ending->ticks > grace)
            end_process(ending->reason, ending->status);
        return;
    }
    if (sched_was_stopped(watch->sched)) {
        ending->reason = "the run was stopped, and a rank did not end";
        ending->status = STATUS_FAILED;
        return;
    }
    ending->reason = limit_reached(watch, ending->words, sizeof ending->words);
    ending->status = STATUS_USAGE;
    if (ending->reason != NULL)
        stop_run(watch, E_BUDGET, ending->reason);
}

/* SIGUSR2, sent to this thread alone, says that the run is over. */
static void *
watch_run(void *argument)
{
    static const struct timespec tick = { .tv_nsec = TICK_NS };
    struct watch *watch  = argument;
    struct ending ending = { 0 };
    bool          looks  = !sched_is_stepped(watch->sched);
    bool          timed  = looks || watch->limits.cpu_seconds > 0 || watch->limits.memory > 0;
    for (;;) {
        bool ticking = timed || ending.reason != NULL;
        int  number  = ticking ? sigtimedwait(&watch->signals, NULL, &tick) : sigwaitinfo(&watch->signals, NULL);
        if (number == SIGUSR2 && atomic_load(&watch->ended)) /* anybody else's means nothing */
            return NULL;
        if (number > 0 && number != SIGUSR2)
            hear_signal(watch, &ending, number);
        else if (errno == EAGAIN)
            look_at_limits(watch, &ending);
        if (looks)
            sched_look_at_lines(watch->sched);
    }
}

/* Who started the program with a signal ignored (nohup does) means it: sigwait would take it all the same. */
void
watch_add_signal(sigset_t *signals, int number)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0 || action.sa_handler != SIG_IGN)
        sigaddset(signals, number);
}

void
watch_start(struct watch *watch, struct sched *sched, const struct watch_limits *limits)
{
    watch->sched   = sched;
    watch->limits  = *limits;
    watch->started = cpu_seconds();
    sigemptyset(&watch->signals);
    sigaddset(&watch->signals, SIGUSR2);
    if (limits->signals) {
        watch_add_signal(&watch->signals, SIGINT);
        watch_add_signal(&watch->signals, SIGTERM);
        watch_add_signal(&watch->signals, SIGHUP);
    }
    pthread_sigmask(SIG_BLOCK, &watch->signals, &watch->before);
    watch->running = pthread_create(&watch->thread, NULL, watch_run, watch) == 0;
    if (!watch->running) /* then an interrupt ends the process, as it does by itself */
        pthread_sigmask(SIG_SETMASK, &watch->before, NULL);
}

void
watch_end(struct watch *watch)
{
    if (!watch->running)
        return;
    atomic_store(&watch->ended, true);
    pthread_kill(watch->thread, SIGUSR2);
    pthread_join(watch->thread, NULL);
    pthread_sigmask(SIG_SETMASK, &watch->before, NULL);
}

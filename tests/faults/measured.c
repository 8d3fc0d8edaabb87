/* measured OUT ERR COMMAND WORDS...: runs the command in a process group of its own, its stdout and stderr in the files
 * named, and prints in one line how it ended and what it took:
 *
 *   exit|signal|killed NUMBER cpu MS wall MS peak KIB own KIB
 *
 * `peak` is the most that was resident (wait4), `own` the most that was resident and shared with no file, as far as a
 * look 50 times a second sees it. What exceeds the hard limits below is killed with its group: `killed` and the limit. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK_NS = 20 * 1000 * 1000, WALL_MS = 200 * 1000, CPU_MS = 30 * 1000, OWN_KIB = 3 << 20 };

struct measure { long cpu_ms, wall_ms, peak_kib, own_kib; const char *killed; };

static long
milliseconds(clockid_t clock)
{
    struct timespec now = { 0 };
    clock_gettime(clock, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

static long
own_kib(pid_t pid)
{
    char  path[64], line[128];
    long  kib = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

static void
run_command(char **words)
{
    int out = open(words[0], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int err = open(words[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int in  = open("/dev/null", O_RDONLY);
    if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(126);
    setpgid(0, 0);
    execvp(words[2], words + 2);
    _exit(127);
}

/* Which hard limit it is beyond; NULL: none. */
static const char *
beyond(pid_t pid, struct measure *measure, long started)
{
    clockid_t clock;
    long      own = own_kib(pid);
    if (own > measure->own_kib)
        measure->own_kib = own;
    measure->wall_ms = milliseconds(CLOCK_MONOTONIC) - started;
    if (measure->wall_ms > WALL_MS)
        return "wall";
    if (clock_getcpuclockid(pid, &clock) == 0 && milliseconds(clock) > CPU_MS)
        return "cpu";
    return own > OWN_KIB ? "memory" : NULL;
}

static int
watch(pid_t pid, struct measure *measure)
{
    static const struct timespec tick = { .tv_nsec = TICK_NS };
    long          started = milliseconds(CLOCK_MONOTONIC);
    struct rusage usage   = { 0 };
    int           status  = 0;
    while (wait4(pid, &status, WNOHANG, &usage) == 0) {
        const char *limit = beyond(pid, measure, started);
        if (limit != NULL && measure->killed == NULL) {
            measure->killed = limit;
            kill(-pid, SIGKILL);
        }
        nanosleep(&tick, NULL);
    }
    measure->wall_ms  = milliseconds(CLOCK_MONOTONIC) - started;
    measure->cpu_ms   = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000L
                      + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
    measure->peak_kib = usage.ru_maxrss;
    kill(-pid, SIGKILL); /* what it may have left behind */
    return status;
}

int
main(int argc, char **argv)
{
    struct measure measure = { 0 };
    if (argc < 4)
        return 2;
    pid_t pid = fork();
    if (pid == 0)
        run_command(argv + 1);
    if (pid < 0)
        return 2;
    setpgid(pid, pid);
    int status = watch(pid, &measure);
    if (measure.killed != NULL)
        printf("killed %s", measure.killed);
    else if (WIFSIGNALED(status))
        printf("signal %d", WTERMSIG(status));
    else
        printf("exit %d", WEXITSTATUS(status));
    printf(" cpu %ld wall %ld peak %ld own %ld\n", measure.cpu_ms, measure.wall_ms, measure.peak_kib, measure.own_kib);
    return 0;
}

/* Processes for bench: mpirun starts those that meet by MPI, this process itself those that meet by Gloo, with
 * torchrun's environment; rank 0 serves the store. See bench_job.h. */
#include "cli/bench_job.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/place.h"
#include "c10d/job.h"
#include "c10d/plugin.h"
#include "cli/bench_world.h"
#include "cli/job_start.h"
#include "cli/message.h"
#include "device/device.h"
#include "hw/cost.h"
#include "sched/task.h"
#include "tensor/blas.h"

enum { WORDS = 64 };

static bool
is_mpi(const struct bench_options *options)
{
    return strcmp(options->backend, "mpi") == 0;
}

bool
bench_job_is_rank(const struct bench_options *options)
{
    if (is_mpi(options))
        return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL;
    return getenv("RANK") != NULL && getenv("WORLD_SIZE") != NULL;
}

/* ---- starting them ---- */

struct start {
    const struct bench_options *options;
    char                      **argv;      /* bench's own */
    char                        program[PATH_MAX + 16];
    int                         world, port;
    pid_t                       parent;
};

/* Ends the list with NULL; what does not fit was told when it was counted. */
static void
add_own_words(const struct start *start, const char *words[WORDS], int count)
{
    words[count++] = start->program;
    for (int i = 0; start->argv[i] != NULL; i++)
        words[count++] = start->argv[i];
    words[count] = NULL;
}

/* Cores as the peer has them. */
static void
become_mpirun(const struct start *start)
{
    char        world[16];
    const char *words[WORDS], *bind = start->world <= (int)sysconf(_SC_NPROCESSORS_ONLN) ? "core" : "none";
    int         count = 0;
    snprintf(world, sizeof world, "%d", start->world);
    words[count++] = "mpirun";
    if (geteuid() == 0)
        words[count++] = "--allow-run-as-root";
    const char *const options[] = { "-n", world, "--bind-to", bind, "--oversubscribe", "--mca", "btl", "self,vader",
                                    "--mca", "pml", "ob1" };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        words[count++] = options[i];
    add_own_words(start, words, count);
    execvp("mpirun.openmpi", (char *const *)words);
    if (errno == ENOENT)
        execvp("mpirun", (char *const *)words);
    message(0, "bench: neither mpirun.openmpi nor mpirun can be run: install openmpi-bin");
}

static void
set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

static void
become_rank(const struct start *start, int rank)
{
    const char *words[WORDS];
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", start->world);
    set_number("LOCAL_WORLD_SIZE", start->world);
    set_number("MASTER_PORT", start->port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    add_own_words(start, words, 0);
    execv(start->program, (char *const *)words);
    message(0, "bench: %s cannot be run: %s", start->program, strerror(errno));
}

/* Ends when this process does. -1: there is none. */
static pid_t
start_one(const struct start *start, int rank)
{
    pid_t child = fork();
    if (child < 0)
        message(0, "bench: no process can be started: %s", strerror(errno));
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == start->parent && is_mpi(start->options))
        become_mpirun(start);
    else if (getppid() == start->parent)
        become_rank(start, rank);
    _exit(STATUS_FAILED);
}

/* The exit status of one that has ended. */
static int
status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILED;
}

/* All end when one fails: what the first one said is why. */
static int
await_all(pid_t *children, int count)
{
    int result = STATUS_DONE;
    for (int left = count; left > 0; left--) {
        int   status = 0;
        pid_t ended  = waitpid(-1, &status, 0);
        for (int i = 0; i < count; i++)
            children[i] = children[i] == ended ? -1 : children[i];
        if (ended < 0 || result != STATUS_DONE || status_of(status) == STATUS_DONE)
            continue;
        result = status_of(status);
        if (WIFSIGNALED(status))
            message(0, "bench: a process was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        for (int i = 0; i < count; i++)
            if (children[i] > 0)
                kill(children[i], SIGTERM);
    }
    return result;
}

static int
run_world(struct start *start)
{
    pid_t children[BENCH_RANKS];
    int   wanted = is_mpi(start->options) ? 1 : start->world, count = 0;
    start->port = is_mpi(start->options) ? 0 : job_start_free_port();
    fflush(NULL);
    while (count < wanted && (children[count] = start_one(start, count)) > 0)
        count++;
    for (int i = 0; i < count && count < wanted; i++)
        kill(children[i], SIGTERM);
    int status = await_all(children, count);
    return count < wanted ? STATUS_FAILED : status;
}

int
bench_job_start(const struct bench_options *options, char **argv)
{
    char                 folder[PATH_MAX];
    struct transport_why why   = { "" };
    struct start         start = { .options = options, .argv = argv, .parent = getpid() };
    int                  count = 0, status = STATUS_DONE;
    while (argv[count] != NULL)
        count++;
    if (count > WORDS - 16)
        return message(STATUS_USAGE, "bench: %d words are too many", count);
    if (plugin_open(options->backend, &why) == NULL)
        return message(STATUS_USAGE, "bench: --backend %s: %s", options->backend, why.text);
    if (!program_folder(folder, sizeof folder))
        return message(STATUS_FAILED, "bench: nobody tells where this program lies");
    snprintf(start.program, sizeof start.program, "%s/ringside", folder);
    for (start.world = 2; start.world <= BENCH_RANKS && status == STATUS_DONE; start.world *= 2)
        if (options->world == 0 || options->world == start.world)
            status = run_world(&start);
    return status;
}

/* ---- being one ---- */

struct part { struct bench_options *options; struct bench_job job; bool (*body)(void *context); void *context; };

static bool
work_in_job(struct task *me, void *argument)
{
    struct part *part = argument;
    struct job  *job  = part->job.job;
    part->job.me = me;
    bool ok = job_join(me, job) && devices_ready(me, 0);
    task_becomes_rank(me, job_rank(job), DEVICE_CPU);
    ok = ok && part->body(part->context);
    job_leave(me, job, NULL);
    return ok;
}

static bool
run_part(struct part *part)
{
    char              why[300];
    struct error      error = { .kind = E_NONE };
    struct cost_model cost;
    cost_preset(&cost, "classroom");
    struct sched_options options = { .executor = EXECUTOR_FREE, .cost = &cost, .no_race_check = true };
    struct sched        *sched   = sched_new(&options, why, sizeof why);
    if (sched == NULL)
        return message(STATUS_FAILED, "bench: %s", why) == 0;
    sched_set_part(sched, PART_JOB, part->job.job);
    if (part->job.blas->sgemm != NULL)
        blas_use(sched, part->job.blas);
    bool ok = sched_run(sched, work_in_job, part, &error);
    if (error.kind != E_NONE)
        message(0, "bench: rank %d: %s", job_rank(part->job.job), error.message);
    devices_free(sched);
    job_close(part->job.job);
    sched_free(sched);
    return ok;
}

int
bench_job_work(struct bench_options *options, bool (*body)(void *context), void *context)
{
    const struct run_options run  = { .backend = options->backend };
    struct part              part = { .options = options, .body = body, .context = context };
    struct job_start         start;
    struct blas              blas;
    blas_open(&blas); /* before there is a second thread */
    int status = job_start(&run, &start);
    if (status < 0 && (job_size(start.job) != 2 && job_size(start.job) != BENCH_RANKS))
        status = message(STATUS_USAGE, "bench: its cases have worlds of 2 and %d, this job has %d processes",
                         BENCH_RANKS, job_size(start.job));
    if (status < 0) {
        part.job      = (struct bench_job){ .job = start.job, .blas = &blas };
        options->job  = &part.job;
        status        = run_part(&part) ? STATUS_DONE : STATUS_FAILED;
        options->job  = NULL;
    }
    job_free(start.job);
    return status;
}

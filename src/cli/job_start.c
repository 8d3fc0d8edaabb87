/* A process learns that it is one of many, and which. PyTorch: torch.distributed.run's environment variables, env://.
 *
 * Interface: job_start_settle, job_start, job_start_free_port, job_trace_path. */
#include "cli/job_start.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/vec.h"
#include "c10d/job.h"
#include "c10d/nccl.h"
#include "c10d/plugin.h"
#include "c10d/transport.h"
#include "cli/message.h"
#include "sched/faults.h"

enum { RANKS_MOST = 4096, PORTS_MOST = 65535, HOST = 256 };
static const char *const names[] = { "local", "gloo", "mpi", "nccl" };

/* ---- is it one? ---- */

static bool
is_backend(const struct run_options *options, const char *name)
{
    return options->backend != NULL && strcmp(options->backend, name) == 0;
}

static bool
has_place(void)
{
    return getenv("RANK") != NULL && getenv("WORLD_SIZE") != NULL;
}

static bool
has_others(void)
{
    return strcmp(getenv("WORLD_SIZE"), "1") != 0;
}

static bool
is_wanted(const struct run_options *options)
{
    return options->backend != NULL && !is_backend(options, "nccl") ? !is_backend(options, "local") : has_place();
}

/* What asks for a job: for messages. */
static const char *
cause_of(const struct run_options *options)
{
    if (options->backend == NULL)
        return "RANK and WORLD_SIZE set";
    return is_backend(options, "mpi") ? "--backend mpi" : is_backend(options, "nccl") ? "--backend nccl"
        : "--backend gloo";
}

static int
refuse_name(const char *command, const char *name)
{
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(name, names[i]) == 0)
            return -1;
    const char *meant = nearest(name, names, countof(names), sizeof names[0]);
    if (meant != NULL)
        return message(STATUS_USAGE, "%s: no --backend %s; did you mean %s?", command, name, meant);
    return message(STATUS_USAGE,
                   "%s: built without --backend %s, there are local, gloo, mpi and nccl; 'ringside devices' "
                   "says what is missing", command, name);
}

/* What `launch` starts are processes that meet by Gloo. */
static int
settle_launch(const char *command, const struct run_options *options)
{
    if (is_backend(options, "mpi"))
        return message(STATUS_USAGE, "%s: MPI has a launcher of its own: mpirun -n 2 ringside run --backend mpi LESSON",
                       command);
    if (is_backend(options, "local"))
        return message(STATUS_USAGE, "%s: ranks of a launch are processes, of --backend local tasks of one process: "
                       "ringside run", command);
    return -1;
}

/* What NCCL moves lies on GPUs, which keep their own time. */
static int
settle_nccl(const char *command, enum option_scope scope, struct run_options *options, bool has_executor)
{
    struct backend_why why;
    if (!is_backend(options, "nccl"))
        return -1;
    if (options->device == NULL || strcmp(options->device, "cuda") != 0)
        return message(STATUS_USAGE, "%s: --backend nccl moves what lies on GPUs: it needs --device cuda", command);
    if (scope == OPTION_STEP || (has_executor && options->executor == EXECUTOR_STEPPED))
        return message(STATUS_USAGE,
                       "%s: --backend nccl: GPUs keep their own time, so ranks run by themselves: --executor "
                       "free only", command);
    if (nccl_table_open(&why) == NULL)
        return message(STATUS_USAGE, "%s: --backend nccl: %s", command, why.text);
    options->executor = EXECUTOR_FREE;
    return -1;
}

int
job_start_settle(const char *command, enum option_scope scope, struct run_options *options, bool has_executor)
{
    int status = options->backend != NULL ? refuse_name(command, options->backend) : -1;
    if (status < 0)
        status = settle_nccl(command, scope, options, has_executor);
    if (scope == OPTION_LAUNCH)
        return status < 0 && options->backend != NULL ? settle_launch(command, options) : status;
    if (status >= 0 || !is_wanted(options) || (scope != OPTION_RUN && options->backend == NULL && !has_others()))
        return status;
    if (scope != OPTION_RUN)
        return message(STATUS_USAGE, "%s: with %s, ranks are processes, which only 'ringside run' runs", command,
                       cause_of(options));
    if (has_executor && options->executor == EXECUTOR_STEPPED)
        return message(STATUS_USAGE, "%s: with %s, ranks are processes, which run by themselves: --executor free only",
                       command, cause_of(options));
    if (options->check_ranks)
        return message(STATUS_USAGE, "%s: --check-ranks compares replicas within one process, but with %s ranks are "
                       "processes", command, cause_of(options));
    const char *lesson = options->lesson != NULL ? options->lesson : "LESSON";
    if (is_backend(options, "gloo") && getenv("RANK") == NULL && getenv("WORLD_SIZE") == NULL)
        return message(STATUS_USAGE, "%s: --backend gloo is for ranks that are processes, and something has to start "
                       "them: ringside launch --nproc 2 %s", command, lesson);
    options->executor = EXECUTOR_FREE;
    return -1;
}

/* ---- the environment ---- */

/* false: told. */
static bool
read_number(const char *name, int least, int most, int *out)
{
    const char *text = getenv(name);
    char       *end;
    if (text == NULL) {
        message(0, "environment variable %s expected, but not set: 'ringside launch' sets it", name);
        return false;
    }
    errno       = 0;
    long number = strtol(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && number >= least && number <= most) {
        *out = (int)number;
        return true;
    }
    message(0, "%s is '%.60s': it must be a whole number from %d to %d", name, text, least, most);
    return false;
}

/* Of what may be missing. */
static bool
read_number_or(const char *name, int least, int most, int otherwise, int *out)
{
    *out = otherwise;
    return getenv(name) == NULL || read_number(name, least, most, out);
}

/* By hand the local numbers may be missing: then all is on one machine. */
static bool
read_place(struct job_options *job)
{
    if (!read_number("RANK", 0, RANKS_MOST - 1, &job->rank) || !read_number("WORLD_SIZE", 1, RANKS_MOST, &job->size))
        return false;
    if (job->rank >= job->size) {
        message(0, "RANK is %d, but WORLD_SIZE is %d: ranks count from 0 to one less than that", job->rank, job->size);
        return false;
    }
    return read_number_or("LOCAL_RANK", 0, RANKS_MOST - 1, job->rank, &job->local_rank) &&
           read_number_or("LOCAL_WORLD_SIZE", 1, RANKS_MOST, job->size, &job->local_size);
}

static bool
read_master(struct job_options *job)
{
    const char *hosted = getenv("TORCHELASTIC_USE_AGENT_STORE");
    job->host      = getenv("MASTER_ADDR");
    job->is_hosted = hosted != NULL && strcmp(hosted, "True") == 0;
    if (job->host == NULL || job->host[0] == '\0') {
        message(0, "environment variable MASTER_ADDR expected, but not set: the host on which rank 0 serves the job's "
                   "store");
        return false;
    }
    return read_number("MASTER_PORT", 1, PORTS_MOST, &job->port);
}

/* ---- mpirun ---- */

/* Where rank 0 will serve the store. */
struct address { char host[HOST]; int port; };

int
job_start_free_port(void)
{
    struct sockaddr_in in   = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
    socklen_t          size = sizeof in;
    int                fd   = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&in, sizeof in) == 0 &&
              getsockname(fd, (struct sockaddr *)&in, &size) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? ntohs(in.sin_port) : 0;
}

static void
choose_address(const struct transport_place *place, struct address *out)
{
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (host != NULL && host[0] != '\0')
        snprintf(out->host, sizeof out->host, "%s", host);
    else if (place->local_size == place->size || gethostname(out->host, sizeof out->host - 1) != 0)
        snprintf(out->host, sizeof out->host, "127.0.0.1");
    if (port == NULL)
        out->port = job_start_free_port();
    else if (!read_number("MASTER_PORT", 1, PORTS_MOST, &out->port))
        out->port = -1; /* told */
}

static int
ask_launcher(const struct transport *transport, struct job_options *job, struct address *address)
{
    struct transport_place place = { 0 };
    struct transport_why   why   = { "" };
    if (!transport->place(&place, &why) && why.text[0] != '\0')
        return message(STATUS_USAGE, "--backend %s: %s", transport->name, why.text);
    if (place.size < 1)
        return message(STATUS_USAGE, "--backend %s is for ranks that are processes, and something has to start them: "
                       "mpirun -n 2 ringside run --backend %s LESSON", transport->name, transport->name);
    if (place.rank == 0)
        choose_address(&place, address);
    if (!transport->tell_all(address, sizeof *address, &why))
        return message(STATUS_FAILED, "--backend %s: %s", transport->name, why.text);
    address->host[HOST - 1] = '\0';
    if (address->port <= 0)
        return place.rank == 0 && address->port == 0 ? message(STATUS_FAILED, "no port is free for the job's store")
                                                     : STATUS_USAGE;
    *job = (struct job_options){ .rank = place.rank, .size = place.size, .local_rank = place.local_rank,
                                 .local_size = place.local_size, .host = address->host, .port = address->port };
    return -1;
}

/* Open MPI's launcher has begun several of us, who know nothing of each other: the first one says so, once for all. */
static void
tell_strangers(const struct run_options *options)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    long        count = size != NULL ? strtol(size, NULL, 10) : 0;
    if (options->backend == NULL && count > 1 && rank != NULL && strcmp(rank, "0") == 0)
        message(0, "mpirun started %ld processes, and each runs the whole lesson by itself: with --backend mpi they "
                "are its ranks", count);
}

/* ---- the job ---- */

/* What a plug-in starts (MPI's own threads) must leave signals to whoever watches the run: mpirun's SIGTERM would end
 * the process before it has said why. */
static void
keep_signals(sigset_t *before)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, before);
}

static int
start(const struct run_options *options, struct job_start *out)
{
    struct job_options o = { .size = 0 };
    struct address     address = { .port = 0 };
    char               why[300] = "";
    *out = (struct job_start){ .job = NULL };
    if (!is_wanted(options)) {
        tell_strangers(options);
        return -1;
    }
    const char *name = options->backend != NULL ? options->backend : "gloo";
    const struct transport *transport = plugin_open(is_backend(options, "nccl") ? "gloo" : name, &out->missing);
    if (transport == NULL && options->backend != NULL && !is_backend(options, "nccl"))
        return message(STATUS_USAGE, "--backend %s: %s", name, out->missing.text);
    if (transport == NULL && is_backend(options, "nccl")) {
        struct transport_why gloo = out->missing;
        snprintf(out->missing.text, sizeof out->missing.text, "Gloo moves what NCCL does not, and is not here: %.200s",
                 gloo.text);
    }
    if (is_backend(options, "mpi")) {
        int status = ask_launcher(transport, &o, &address);
        if (status >= 0)
            return status;
    } else if (!read_place(&o) || !read_master(&o)) {
        return STATUS_USAGE;
    }
    o.transport = transport;
    o.missing   = transport == NULL ? out->missing.text : NULL;
    o.backend   = name;
    out->job    = job_new(&o, why, sizeof why);
    return out->job != NULL ? -1 : message(STATUS_FAILED, "%s", why);
}

int
job_start(const struct run_options *options, struct job_start *out)
{
    sigset_t before;
    keep_signals(&before);
    int status = start(options, out);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* `ringside launch` gives each process a file of its own. Where no folder can be made the others do without this
 * trace. */
const char *
job_trace_path(const struct run_options *options, const struct job *job, struct runtime_folder *folder,
               char room[PATH_MAX])
{
    struct stat about;
    char        why[300];
    if (job == NULL)
        return options->trace;
    if (options->trace != NULL && (stat(options->trace, &about) != 0 || !S_ISDIR(about.st_mode)))
        return options->trace;
    if (options->trace != NULL)
        snprintf(room, PATH_MAX, "%s/rank%d.trace", options->trace, job_rank(job));
    else if (job_size(job) > 1 && runtime_folder_make(folder, RUNTIME_RECORDS, why, sizeof why))
        snprintf(room, PATH_MAX, "%s/" RUNTIME_RECORD "trace", folder->path);
    else
        return NULL;
    return room;
}

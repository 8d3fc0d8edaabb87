/* torchrun's options as numbers. Nonsense is refused here, in one line each, before anything starts.
 *
 * Interface: launch_plan_make, launch_plan_clear. */
#include "cli/launch_plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/message.h"
#include "cli/options.h"
#include "cli/run.h"
#include "trace/format.h"

enum { WORLD_MOST = 1024, PORT_USUAL = 29500, PORT_MOST = 65535, GRACE_MS = 5000 };

static bool
whole_number(const char *text, long least, long most, int *out)
{
    char *end   = NULL;
    errno       = 0;
    long number = strtol(text, &end, 10);
    *out        = (int)number;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && number >= least && number <= most;
}

/* ---- how many ---- */

static int
processors(void)
{
    cpu_set_t set;
    bool      known = sched_getaffinity(0, sizeof set, &set) == 0;
    int       count = known ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > WORLD_MOST ? WORLD_MOST : count;
}

/* No device of this machine counts by itself: the ones that lessons have are virtual. */
static int
read_nproc(const char *command, const struct launch_words *words, struct launch_plan *plan)
{
    const char *nproc   = words->nproc != NULL ? words->nproc : "1";
    int         devices = 0;
    bool        gpu     = strcmp(nproc, "gpu") == 0;
    if (words->devices != NULL && !whole_number(words->devices, 1, WORLD_MOST, &devices))
        return message(STATUS_USAGE, "%s: '%s' is no N for --devices: it takes a whole number of devices, 1 to %d",
                       command, words->devices, WORLD_MOST);
    if (gpu && devices == 0)
        return message(STATUS_USAGE, "%s: --nproc gpu: there is no GPU that this ringside can use; --devices N says "
                       "how many virtual devices to count", command);
    plan->local = gpu || devices > 0 ? devices : processors();
    if (gpu || strcmp(nproc, "auto") == 0)
        return -1;
    if (strcmp(nproc, "cpu") == 0) {
        plan->local = processors();
        return -1;
    }
    if (!whole_number(nproc, 1, WORLD_MOST, &plan->local))
        return message(STATUS_USAGE, "%s: '%s' is no number of processes for --nproc: it takes 1 to %d, auto, gpu or "
                       "cpu", command, nproc, WORLD_MOST);
    return -1;
}

/* torchrun's "2:2", too; "1:2" would be elastic. */
static int
read_nnodes(const char *command, const char *text, struct launch_plan *plan)
{
    char        least[16];
    const char *colon  = text != NULL ? strchr(text, ':') : NULL;
    int         bounds[2];
    plan->nodes = 1;
    if (text == NULL)
        return -1;
    snprintf(least, sizeof least, "%.*s", colon != NULL ? (int)(colon - text) : 15, text);
    bool good = whole_number(least, 1, WORLD_MOST, &bounds[0]) &&
                whole_number(colon != NULL ? colon + 1 : least, 1, WORLD_MOST, &bounds[1]);
    if (!good || (colon == NULL && strlen(text) > 15))
        return message(STATUS_USAGE, "%s: '%s' is no number of machines for --nnodes: it takes 1 to %d", command, text,
                       WORLD_MOST);
    if (bounds[0] != bounds[1])
        return message(STATUS_USAGE, "%s: --nnodes %s is an elastic job, which there is none of here: its bounds have "
                       "to be equal", command, text);
    plan->nodes = bounds[0];
    return -1;
}

static int
read_node_rank(const char *command, const char *text, struct launch_plan *plan)
{
    if (text == NULL && plan->nodes > 1)
        return message(STATUS_USAGE, "%s: of %d machines, which is this? --node-rank takes 0 to %d", command,
                       plan->nodes, plan->nodes - 1);
    if (text != NULL && !whole_number(text, 0, plan->nodes - 1, &plan->node))
        return message(STATUS_USAGE, "%s: '%s' is no R for --node-rank: with --nnodes %d it takes %s%d", command, text,
                       plan->nodes, plan->nodes > 1 ? "0 to " : "", plan->nodes - 1);
    plan->world = plan->local * plan->nodes;
    plan->first = plan->local * plan->node;
    if (plan->world > WORLD_MOST)
        return message(STATUS_USAGE, "%s: %d machines with %d processes each are %d ranks: a job has at most %d",
                       command, plan->nodes, plan->local, plan->world, WORLD_MOST);
    return -1;
}

/* ---- where they meet ---- */

static int
keep_host(const char *command, const char *option, const char *text, size_t length, struct launch_plan *plan)
{
    if (length > 1 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof plan->host)
        return message(STATUS_USAGE, "%s: '%s' has no host's name or address for --%s", command, text, option);
    memcpy(plan->host, text, length);
    plan->host[length] = '\0';
    return -1;
}

static int
keep_port(const char *command, const char *option, const char *text, struct launch_plan *plan)
{
    if (whole_number(text, 0, PORT_MOST, &plan->port) && (plan->port > 0 || plan->nodes == 1))
        return -1;
    return message(STATUS_USAGE, "%s: '%s' is no port for --%s: it takes %s to %d", command, text, option,
                   plan->nodes > 1 ? "1" : "0 (any that is free)", PORT_MOST);
}

/* "host", "host:1234", "[::1]:1234"; an address with colons and no brackets has no port. */
static int
read_endpoint(const char *command, const char *text, struct launch_plan *plan)
{
    const char *colon  = strrchr(text, ':'), *bracket = strrchr(text, ']');
    bool        bare   = colon != NULL && text[0] != '[' && strchr(text, ':') != colon;
    bool        port   = colon != NULL && !bare && (bracket == NULL || colon > bracket);
    int         status = keep_host(command, "rdzv-endpoint", text, port ? (size_t)(colon - text) : strlen(text), plan);
    return status >= 0 || !port ? status : keep_port(command, "rdzv-endpoint", colon + 1, plan);
}

static int
read_meeting(const char *command, const struct launch_words *words, struct launch_plan *plan)
{
    const char *kind   = words->rendezvous;
    int         status = -1;
    snprintf(plan->host, sizeof plan->host, "127.0.0.1");
    plan->port = plan->nodes > 1 ? PORT_USUAL : 0;
    if (words->endpoint != NULL && (words->master_addr != NULL || words->master_port != NULL))
        return message(STATUS_USAGE, "%s: --rdzv-endpoint is --master-addr and --master-port in one: either, not both",
                       command);
    if (words->standalone && plan->nodes > 1)
        return message(STATUS_USAGE, "%s: --standalone is one machine, not --nnodes %d", command, plan->nodes);
    if (kind != NULL && strcmp(kind, "static") != 0 && strcmp(kind, "c10d") != 0)
        return message(STATUS_USAGE, "%s: no --rdzv-backend '%s'; there are static and c10d", command, kind);
    if (words->standalone)
        return -1; /* as torchrun: whatever else is said of the place */
    if (words->endpoint != NULL)
        return read_endpoint(command, words->endpoint, plan);
    if (words->master_addr != NULL)
        status = keep_host(command, "master-addr", words->master_addr, strlen(words->master_addr), plan);
    if (status < 0 && words->master_port != NULL)
        status = keep_port(command, "master-port", words->master_port, plan);
    if (status < 0 && plan->nodes > 1 && words->master_addr == NULL)
        return message(STATUS_USAGE, "%s: of %d machines, where is the first? --master-addr takes its name or address",
                       command, plan->nodes);
    return status;
}

/* ---- what they run ---- */

static int
find_program(const char *command, struct launch_plan *plan)
{
    ssize_t length = readlink("/proc/self/exe", plan->program, sizeof plan->program - 1);
    if (length <= 0)
        return message(STATUS_FAILED, "%s: cannot tell which file this program is: %s", command, strerror(errno));
    plan->program[length] = '\0';
    return -1;
}

static int
make_folder(const char *command, struct launch_plan *plan)
{
    const char *path = plan->options->trace;
    struct stat there;
    if (path == NULL || plan->world == 1)
        return -1;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return message(STATUS_USAGE, "%s: cannot make the folder %.1000s for the ranks' traces: %s", command, path,
                       strerror(errno));
    if (stat(path, &there) != 0 || !S_ISDIR(there.st_mode))
        return message(STATUS_USAGE, "%s: --trace %.1000s is there and no folder: of several processes each rank's "
                       "trace goes into it, as rank0.trace", command, path);
    plan->folder = path;
    return -1;
}

int
launch_plan_make(const char *command, const struct run_options *options, struct launch_plan *plan)
{
    const struct launch_words *words = &options->launch;
    *plan = (struct launch_plan){ .options = options, .job = words->job != NULL ? words->job : "none",
                                  .grace_ms = words->grace > 0 ? (uint64_t)(words->grace * 1000) : GRACE_MS };
    int status = -1;
    if (words->restarts != NULL && strcmp(words->restarts, "0") != 0)
        status = message(STATUS_USAGE, "%s: --max-restarts takes 0 alone: nobody is started again", command);
    status = status < 0 ? read_nproc(command, words, plan) : status;
    status = status < 0 ? read_nnodes(command, words->nnodes, plan) : status;
    status = status < 0 ? read_node_rank(command, words->node_rank, plan) : status;
    status = status < 0 ? read_meeting(command, words, plan) : status;
    status = status < 0 ? lesson_precheck(options) : status; /* once, not in each process */
    status = status < 0 ? find_program(command, plan) : status;
    return status < 0 ? make_folder(command, plan) : status;
}

/* ---- traces of a larger job ---- */

/* "rank3.trace", as a rank would call its own; -1: it is none. */
static int
rank_of_name(const char *name)
{
    char own[32];
    int  rank = -1;
    if (sscanf(name, "rank%9d", &rank) != 1)
        return -1;
    snprintf(own, sizeof own, "rank%d.trace", rank);
    return strcmp(own, name) == 0 ? rank : -1;
}

static bool
is_trace(int folder, const char *name)
{
    char        magic[sizeof TRACE_MAGIC] = "";
    struct stat about;
    int         fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
              read(fd, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, TRACE_MAGIC, sizeof magic) == 0;
    if (fd >= 0)
        close(fd);
    return is;
}

void
launch_plan_clear(const struct launch_plan *plan)
{
    DIR           *folder = plan->folder != NULL ? opendir(plan->folder) : NULL;
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (rank_of_name(entry->d_name) >= plan->world && is_trace(dirfd(folder), entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0); /* refused: who reads the folder is told */
    if (folder != NULL)
        closedir(folder);
}

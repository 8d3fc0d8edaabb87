/* ringside synth: a made trace of any size, the same for the same options.
 *
 * Interface: cli_synth. What is in it is synth_make.c's. */
#include "cli/synth.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/vec.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "trace/writer.h"

enum { LANES_MOST = 100000, RANKS_MOST = 1024, RANKS_USUAL = 8, DEPTH_MOST = 1000, DEPTH_USUAL = 12, FLOW_SHARE = 100 };

static const char usage[] = "usage: ringside synth --events N [options] -o TRACE";

struct synth_request {
    struct synth_plan plan;
    bool              has_ranks, has_flows, help;
    const char       *path;
};

#define FIELD(name) offsetof(struct synth_request, plan.name)
static const struct { const char *name; uint64_t least, most; size_t field; const char *help; } numbers[] = {
    { "events", 1, UINT32_MAX, FIELD(events), "how many, exactly" },
    { "lanes", 1, LANES_MOST, FIELD(lanes), "of all ranks: each has host, compute and comm; 24 if not given" },
    { "ranks", 1, RANKS_MOST, FIELD(ranks), "a third of the lanes, at most 8, if not given" },
    { "depth", 1, DEPTH_MOST, FIELD(depth), "of stages in stages; 12 if not given" },
    { "flows", 0, UINT32_MAX / FLOW_EVENTS, FIELD(flows), "messages between ranks; one per 100 events if not given" },
    { "faults", 0, UINT32_MAX, FIELD(faults), "spread over the trace; none if not given" },
    { "seed", 0, UINT64_MAX, FIELD(seed), "another seed, another trace; 0 if not given" },
};
#undef FIELD

static int
print_help(void)
{
    printf("%s\n\nWrites a made trace: stages in stages on lanes of several ranks, with memory, collectives\n"
           "and messages, for trying how a screen or a script does with many events. The same\n"
           "options make the same file.\n\n", usage);
    for (size_t i = 0; i < countof(numbers); i++)
        printf("  --%s N%*s%s\n", numbers[i].name, (int)(8 - strlen(numbers[i].name)), "", numbers[i].help);
    puts("  -o TRACE    where to; 64 bytes an event\n"
         "  --help      this text\n\n"
         "  ringside synth --events 10000000 --lanes 64 -o big.trace\n"
         "  ringside view big.trace");
    return STATUS_DONE;
}

/* ---- what is asked ---- */

/* Takes `word` and, unless its value is behind a '=', the next one. -1: go on. */
static int
take_number(struct synth_request *request, int argc, char **argv, int *at)
{
    const char *name   = argv[*at] + 2;
    size_t      length = strcspn(name, "="), i = 0;
    while (i < countof(numbers) && (strlen(numbers[i].name) != length || memcmp(numbers[i].name, name, length) != 0))
        i++;
    if (i == countof(numbers)) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)length, name);
        const char *meant = nearest(word, numbers, countof(numbers), sizeof numbers[0]);
        if (meant != NULL)
            return message(STATUS_USAGE, "synth: no option --%s; did you mean --%s?", word, meant);
        return message(STATUS_USAGE, "synth: no option --%s; 'ringside synth --help' lists them", word);
    }
    const char *value = name[length] == '=' ? name + length + 1 : *at + 1 < argc ? argv[++*at] : "";
    char       *end;
    errno = 0;
    uint64_t number = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != '\0' || errno != 0 || number < numbers[i].least ||
        number > numbers[i].most)
        return message(STATUS_USAGE, "synth: --%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                       numbers[i].name, numbers[i].least, numbers[i].most, value);
    memcpy((char *)request + numbers[i].field, &number, sizeof number);
    request->has_ranks |= strcmp(numbers[i].name, "ranks") == 0;
    request->has_flows |= strcmp(numbers[i].name, "flows") == 0;
    return -1;
}

static int
read_words(struct synth_request *request, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int stop = -1;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            request->help = true;
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc && argv[i + 1][0] != '\0')
            request->path = argv[++i];
        else if (strcmp(argv[i], "-o") == 0)
            stop = message(STATUS_USAGE, "synth: -o takes the name of the trace");
        else if (argv[i][0] == '-' && argv[i][1] == '-' && argv[i][2] != '\0')
            stop = take_number(request, argc, argv, &i);
        else
            stop = message(STATUS_USAGE, "synth takes no '%s'; %s", argv[i], usage);
        if (stop >= 0)
            return stop;
    }
    return request->help ? print_help() : -1;
}

/* Ranks whose lanes have one of communication. */
static uint64_t
talking_ranks(const struct synth_plan *plan)
{
    uint64_t each = plan->lanes / plan->ranks, more = plan->lanes % plan->ranks;
    return each >= RANK_LANES ? plan->ranks : each == RANK_LANES - 1 ? more : 0;
}

/* What was not said, and what does not go together. -1: go on. */
static int
complete(struct synth_request *request)
{
    struct synth_plan *plan = &request->plan;
    if (plan->events == 0)
        return message(STATUS_USAGE, "synth: how many events? %s", usage);
    if (request->path == NULL)
        return message(STATUS_USAGE, "synth: where to? %s", usage);
    if (!request->has_ranks) {
        uint64_t third = plan->lanes / RANK_LANES;
        plan->ranks = third < 1 ? 1 : third > RANKS_USUAL ? RANKS_USUAL : third;
    }
    if (plan->ranks > plan->lanes)
        return message(STATUS_USAGE, "synth: %" PRIu64 " ranks on %" PRIu64 " lanes: each rank has at least one",
                       plan->ranks, plan->lanes);
    bool talk = talking_ranks(plan) >= 2;
    if (!request->has_flows)
        plan->flows = talk ? plan->events / FLOW_SHARE : 0;
    if (plan->flows > 0 && request->has_ranks && plan->ranks < 2)
        return message(STATUS_USAGE, "synth: flows go from one rank to another: --ranks 2 at least");
    if (plan->flows > 0 && !talk)
        return message(STATUS_USAGE, "synth: flows go from one rank to another and each needs a lane for it: --lanes %"
                       PRIu64 " at least", RANK_LANES * (plan->ranks < 2 ? 2 : plan->ranks));
    if (FLOW_EVENTS * plan->flows + plan->faults > plan->events)
        return message(STATUS_USAGE, "synth: %" PRIu64 " flows (%d events each) and %" PRIu64 " faults are more than %"
                       PRIu64 " events", plan->flows, FLOW_EVENTS, plan->faults, plan->events);
    return -1;
}

/* ---- the file ---- */

static double
bytes_of(const struct synth_plan *plan)
{
    return (double)plan->events * (double)sizeof(struct trace_event);
}

/* Said before anything is written, so that an older trace stays. -1: there is, or nobody knows. */
static int
look_for_room(const struct synth_request *request)
{
    char           folder[4096];
    struct statvfs disk;
    struct stat    old;
    const char    *slash = strrchr(request->path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - request->path + 1) : 1,
             slash != NULL ? request->path : ".");
    if (statvfs(folder, &disk) != 0)
        return -1;
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (stat(request->path, &old) == 0 && !S_ISREG(old.st_mode))
        return -1;
    if (bytes_of(&request->plan) <= room)
        return -1;
    return message(STATUS_FAILED, "%s: %" PRIu64 " events take %.1f MB and its disk has %.1f MB left", request->path,
                   request->plan.events, bytes_of(&request->plan) / 1e6, room / 1e6);
}

/* A part of what was asked for would pass for the whole. */
static int
take_back(const char *path)
{
    char *real = realpath(path, NULL);
    unlink(real != NULL ? real : path);
    free(real);
    return message(STATUS_FAILED, "%s: no room for it, on the disk or in memory; nothing of it is left", path);
}

static int
write_trace(const struct synth_request *request)
{
    char                       why[512];
    const struct trace_options options = { .path = request->path, .clock = CLOCK_VIRTUAL_PS };
    int                        status  = look_for_room(request);
    if (status >= 0)
        return status;
    struct trace_writer *writer = trace_create(&options, why, sizeof why);
    if (writer == NULL)
        return message(STATUS_USAGE, "%s", why);
    bool good = synth_write(&request->plan, writer);
    trace_close(writer);
    if (!good)
        return take_back(request->path);
    const struct synth_plan *plan = &request->plan;
    printf("%" PRIu64 " events, %" PRIu64 " lanes of %" PRIu64 " ranks, %" PRIu64 " flows, %" PRIu64 " faults: ",
           plan->events, plan->lanes, plan->ranks, plan->flows, plan->faults);
    answer_line("", request->path);
    return STATUS_DONE;
}

int
cli_synth(int argc, char **argv)
{
    struct synth_request request = { .plan = { .lanes = 24, .depth = DEPTH_USUAL } };
    int                  status  = read_words(&request, argc, argv);
    if (status < 0)
        status = complete(&request);
    return status < 0 ? write_trace(&request) : status;
}

/* One row per option: its name, what its value is, where it is kept, help. Contradictions are refused here, in one
 * line each, before anything starts.
 *
 * Interface: options_parse, options_free. */
#include "cli/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/vec.h"
#include "cli/job_start.h"
#include "device/load.h"
#include "cli/message.h"
#include "hw/presets.h"

enum option_type { OPTION_FLAG, OPTION_TEXT, OPTION_SEED, OPTION_VARIANT, OPTION_RANKS, OPTION_SECONDS, OPTION_EXECUTOR,
                   OPTION_COUNT, OPTION_FAULT, OPTION_HELP };

struct option {
    const char      *name;   /* first: `nearest` walks over it */
    const char      *value;  /* what it takes, as help shows it; "" nothing */
    enum option_type type;
    int              scope;
    size_t           field;
    const char      *help;
};

enum { RANKS_MOST = 1024, SCHEDULES_MOST = 1000000000 };

#define BOTH (OPTION_RUN | OPTION_STEP | OPTION_LAUNCH)
#define ALL (BOTH | OPTION_EXPLORE | OPTION_STORY)
#define RUNS (OPTION_RUN | OPTION_LAUNCH)
#define HERE (OPTION_RUN | OPTION_STEP)
#define FIELD(name) offsetof(struct run_options, name)
static const struct option option_table[] = {
    { "nproc", "N", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.nproc),
      "processes here, 1 if not given; auto: as many as devices, else processors; gpu: as devices" },
    { "nproc-per-node", "N", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.nproc), "the same, as torchrun has it" },
    { "devices", "N", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.devices),
      "virtual devices, for auto and gpu to count" },
    { "nnodes", "M", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.nnodes),
      "machines, 1 if not given; launch runs on each" },
    { "node-rank", "R", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.node_rank), "which of them this is, from 0" },
    { "master-addr", "A", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.master_addr),
      "of machine 0, where the job's store is; 127.0.0.1 if not given" },
    { "master-port", "P", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.master_port),
      "of the store; of one machine a free one, else 29500, if not given" },
    { "rdzv-endpoint", "A:P", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.endpoint), "both of them" },
    { "rdzv-backend", "NAME", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.rendezvous), "static or c10d: the same here" },
    { "rdzv-id", "NAME", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.job), "of the job, TORCHELASTIC_RUN_ID; none" },
    { "standalone", "", OPTION_FLAG, OPTION_LAUNCH, FIELD(launch.standalone), "one machine, a free port" },
    { "max-restarts", "0", OPTION_TEXT, OPTION_LAUNCH, FIELD(launch.restarts), "0: nobody is started again" },
    { "grace", "SECONDS", OPTION_SECONDS, OPTION_LAUNCH, FIELD(launch.grace),
      "that the others have to end by themselves when one has failed; 5" },
    { "trace", "FILE", OPTION_TEXT, HERE, FIELD(trace), "keep the trace there (none is kept without it)" },
    { "trace", "DIR", OPTION_TEXT, OPTION_LAUNCH, FIELD(trace),
      "each rank's trace, as DIR/rank0.trace; of one process a file" },
    { "hash", "", OPTION_FLAG, RUNS, FIELD(hash),
      "print a short hash of what happened, for a class to compare (no file names, no lines)" },
    { "batch", "'CMD; CMD'", OPTION_TEXT, OPTION_STEP, FIELD(batch), "the debugger without a screen" },
    { "count", "", OPTION_FLAG, OPTION_STORY, FIELD(count),
      "how many stops, questions and the like, instead of the stops" },
    { "seed", "N", OPTION_SEED, BOTH | OPTION_STORY, FIELD(seed), "of the policy, and of what nobody seeds" },
    { "schedules", "N", OPTION_COUNT, OPTION_EXPLORE, FIELD(schedules),
      "how many; 1000, exhaustive 10000 if not given" },
    { "seed", "N", OPTION_SEED, OPTION_EXPLORE, FIELD(seed), "of the first schedule; the next has the next number" },
    { "policy", "NAME", OPTION_TEXT, OPTION_EXPLORE, FIELD(policy), "random or pct; both in turn if not given" },
    { "exhaustive", "", OPTION_FLAG, OPTION_EXPLORE, FIELD(exhaustive),
      "each class of equivalent interleavings once: small programs on the host" },
    { "faults", "KINDS", OPTION_TEXT, OPTION_EXPLORE, FIELD(fault_kinds),
      "draw some for each schedule: all, or any of late,kill,lose,delay,double,cut,allocation,write" },
    { "policy", "NAME", OPTION_TEXT, HERE | OPTION_STORY, FIELD(policy),
      "order, random or round-robin: who goes first among equals; or a file that explore saved" },
    { "executor", "NAME", OPTION_EXECUTOR, HERE, FIELD(executor), "stepped (virtual time, repeatable) or free" },
    { "executor", "NAME", OPTION_EXECUTOR, OPTION_LAUNCH, FIELD(executor), "free: ranks are processes" },
    { "timeout", "SECONDS", OPTION_SECONDS, BOTH, FIELD(timeout), "of a wait that sets none of its own" },
    { "fault", "'FAULT'", OPTION_FAULT, ALL, FIELD(fault_count),
      "go wrong on purpose: 'kill 2 at 40'; may be given several times, see below" },
    { "check-races", "", OPTION_FLAG, HERE, FIELD(check_races),
      "look for races between streams (stepped always does); both tell a missing work:wait()" },
    { "check-ranks", "", OPTION_FLAG, BOTH, FIELD(check_ranks),
      "stop at the first event that makes the ranks' replicas of a model differ" },
    { "teacher", "", OPTION_FLAG, BOTH, FIELD(teacher), "show the lesson's notes for teachers" },
    { "hardware", "PRESET", OPTION_TEXT, ALL, FIELD(hardware), "price work as on this, whatever the lesson says" },
    { "device", "KIND", OPTION_TEXT, BOTH, FIELD(device),
      "cpu: devices are virtual; cuda: they are GPUs, several of them on one where there are fewer" },
    { "backend", "NAME", OPTION_TEXT, BOTH, FIELD(backend),
      "local: ranks are tasks of this process; gloo, mpi: each a process; nccl: either, with a GPU each" },
    { "world", "N", OPTION_RANKS, ALL, FIELD(world), "ranks of a spawn that does not say how many" },
    { "hops", "", OPTION_FLAG, BOTH, FIELD(hops), "record each message of a collective above 64 ranks, too" },
    { "variant", "SEED", OPTION_VARIANT, BOTH | OPTION_STORY, FIELD(variant),
      "an exercise with other sizes; 0: as written" },
    { "limit-seconds", "N", OPTION_SECONDS, ALL, FIELD(limit_seconds),
      "CPU seconds for the lesson, 60 if not given; above, its steps of work grow too" },
    { "tap", "", OPTION_FLAG, BOTH, FIELD(tap), "narration and print as # lines, and a plan at the end" },
    { "trust", "", OPTION_FLAG, ALL, FIELD(trust), "no sandbox, no limits, raw narration: for lessons of your own" },
    { "exact", "", OPTION_FLAG, ALL, FIELD(exact), "products in a fixed order, the same bits on every CPU" },
    { "quiet", "", OPTION_FLAG, BOTH, FIELD(quiet), "no narration" },
    { "no-color", "", OPTION_FLAG, BOTH, FIELD(no_color), "no colours" },
    { "ascii", "", OPTION_FLAG, BOTH, FIELD(ascii), "nothing but ASCII on the screen" },
    { "plain", "", OPTION_FLAG, OPTION_STEP, FIELD(plain), "no screen: commands are typed, steps are told in words" },
    { "theme", "NAME", OPTION_TEXT, OPTION_STEP, FIELD(theme), "dark, light, high-contrast, colour-blind or none" },
    { "help", "", OPTION_HELP, ALL, 0, "this list" },
};
#undef FIELD
#undef BOTH
#undef ALL
#undef RUNS
#undef HERE

/* What `launch` starts are processes in any case. */
static const char *
help_of(const struct option *option, enum option_scope scope)
{
    if (scope == OPTION_LAUNCH && strcmp(option->name, "backend") == 0)
        return "gloo if not given: one process a rank; nccl: each on a GPU; mpi is for mpirun, see below";
    return option->help;
}

static int
print_options_help(enum option_scope scope)
{
    if (scope == OPTION_RUN)
        puts("ringside run [options] LESSON [-- ARGS]     runs a lesson, narration on stdout");
    else if (scope == OPTION_EXPLORE)
        puts("ringside explore [options] LESSON [-- ARGS]   in other orders: which of them hang, race or differ?");
    else if (scope == OPTION_LAUNCH)
        puts("ringside launch [options] LESSON [-- ARGS]    a lesson in many processes, one a rank, as torchrun does");
    else if (scope == OPTION_STORY)
        puts("ringside story [options] LESSON | TRACE [-- ARGS]   the stops of n: number, event, sentence");
    else
        puts("ringside step [options] LESSON [-- ARGS]    the same on a screen, paused at the first event");
    puts("LESSON is a file, or a lesson of the course by number or name: 01, six-rows, checks/01\n");
    for (size_t i = 0; i < countof(option_table); i++) {
        const struct option *option = &option_table[i];
        char left[40];
        snprintf(left, sizeof left, "--%s %s", option->name, option->value);
        if (option->scope & scope)
            printf("  %-20s  %s\n", left, help_of(option, scope));
    }
    puts("\nFaults, counted from 0, so that the same plan gives the same run:\n"
         "  kill R at N                       rank R is gone at its scheduling point number N\n"
         "  late R at N by T us               it stands still there\n"
         "  lose A -> B message N             that message from rank A to rank B never arrives\n"
         "  delay A -> B message N by T us    it comes later\n"
         "  double A -> B message N           it comes twice\n"
         "  cut A -> B message N              it and all later ones are lost\n"
         "  allocation N                      that request for memory is refused\n"
         "  write N                           that write to a file finds a full disk");
    if (scope == OPTION_EXPLORE)
        puts("\nEach schedule is a run of its own; what was found is made as short as it gets and saved in\n"
             "LESSON.schedule here: 'ringside step --policy LESSON.schedule LESSON' shows it.\n\n"
             "Exit status: 0 all schedules end as the usual one does, 2 usage, 3 some do not.");
    else if (scope == OPTION_LAUNCH)
        puts("\nEach process is 'ringside run --executor free LESSON' with torchrun's environment: RANK, LOCAL_RANK,\n"
             "WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and so on. Rank 0's lines come as\n"
             "they are, each of the others behind its rank: '[2] ...'. Names may have _ for -, as torchrun's.\n"
             "They meet by Gloo. MPI has a launcher of its own: mpirun -n 4 ringside run --backend mpi LESSON\n"
             "When one fails, what it says comes first, what the others say of it behind it, and the last line tells\n"
             "how the job ended. ^C reaches all, a second one kills.\n\n"
             "Exit status: that of the process that failed first, 3 if a signal killed it; 1 if only checks failed.");
    else
        puts("\nExit status: 0 all checks hold, 1 a check failed, 2 usage or script error, 3 the run failed.");
    return STATUS_DONE;
}

/* As strncmp == 0; launch's names may have torchrun's _ for -. */
static bool
begins_name(const char *name, const char *word, size_t length, enum option_scope scope)
{
    size_t i = 0;
    while (i < length && (name[i] == word[i] || (scope == OPTION_LAUNCH && name[i] == '-' && word[i] == '_')))
        i++;
    return i == length;
}

/* By name or unambiguous beginning; NULL: none, or several. */
static const struct option *
find_option(const char *name, size_t length, enum option_scope scope, bool *several)
{
    const struct option *found = NULL;
    *several = false;
    for (size_t i = 0; i < countof(option_table); i++) {
        const struct option *option = &option_table[i];
        if (!(option->scope & (int)scope) || !begins_name(option->name, name, length, scope))
            continue;
        if (option->name[length] == '\0')
            return option;
        *several = found != NULL;
        found    = option;
    }
    return *several ? NULL : found;
}

static int
unknown(const char *command, enum option_scope scope, const char *text, bool several)
{
    const char *names[countof(option_table)];
    size_t      count = 0;
    char        word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    if (several)
        return message(STATUS_USAGE, "%s: --%s could be several options; 'ringside %s --help' lists them", command,
                       word, command);
    for (size_t i = 0; i < countof(option_table); i++)
        if (option_table[i].scope & (int)scope)
            names[count++] = option_table[i].name;
    const char *meant = nearest(word, names, count, sizeof names[0]);
    if (meant != NULL)
        return message(STATUS_USAGE, "%s: no option --%s; did you mean --%s?", command, word, meant);
    return message(STATUS_USAGE, "%s: no option --%s; 'ringside %s --help' lists them", command, word, command);
}

/* What a value of that type may be. */
static const char *
range_of(enum option_type type)
{
    switch (type) {
    case OPTION_SEED:
        return "a whole number from 0 to 18446744073709551615";
    case OPTION_VARIANT:
        return "a whole number from 0 to 999999999";
    case OPTION_RANKS:
        return "a whole number of ranks, 1 to 1024";
    case OPTION_COUNT:
        return "a whole number, at least 1";
    case OPTION_SECONDS:
        return "seconds, more than 0 and at most 1000000";
    case OPTION_EXECUTOR:
        return "stepped or free";
    case OPTION_FAULT:
        return "a fault as --help lists them, at most 64 of them";
    default:
        return "some text";
    }
}

static bool
keep_count(const char *value, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    *out  = strtoull(value, &end, 10);
    return *value >= '0' && *value <= '9' && *end == '\0' && errno == 0 && *out >= least && *out <= most;
}

/* Keeps one value; false: `value` is not what the option takes. */
static bool
keep_option(struct run_options *out, const struct option *option, const char *value)
{
    void *field = (char *)out + option->field;
    char *end;
    switch (option->type) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return true;
    case OPTION_TEXT:
        *(const char **)field = value;
        return *value != '\0';
    case OPTION_SEED:
        return keep_count(value, 0, UINT64_MAX, field);
    case OPTION_VARIANT:
        return keep_count(value, 0, VARIANT_MOST, field);
    case OPTION_COUNT:
        return keep_count(value, 1, SCHEDULES_MOST, field);
    case OPTION_RANKS:
        return keep_count(value, 1, RANKS_MOST, field);
    case OPTION_SECONDS:
        *(double *)field = strtod(value, &end);
        return end != value && *end == '\0' && *(double *)field > 0 && *(double *)field <= 1e6;
    case OPTION_EXECUTOR:
        *(enum executor_kind *)field = strcmp(value, "free") == 0 ? EXECUTOR_FREE : EXECUTOR_STEPPED;
        return strcmp(value, "free") == 0 || strcmp(value, "stepped") == 0;
    case OPTION_FAULT:
        return out->fault_count < FAULTS_MOST && fault_parse(value, &out->faults[out->fault_count++]);
    case OPTION_HELP:
        break;
    }
    return true;
}

/* A policy has a name, or is a file: what looks like one is read by who runs it. */
static bool
policy_is_known(enum option_scope scope, const char *policy)
{
    static const struct { const char *name; int scope; } policies[] = {
        { "order", OPTION_RUN | OPTION_STEP | OPTION_STORY },
        { "random", OPTION_RUN | OPTION_STEP | OPTION_STORY | OPTION_EXPLORE },
        { "round-robin", OPTION_RUN | OPTION_STEP | OPTION_STORY }, { "pct", OPTION_EXPLORE },
    };
    for (size_t i = 0; i < countof(policies); i++)
        if (strcmp(policy, policies[i].name) == 0 && (policies[i].scope & (int)scope) != 0)
            return true;
    return scope != OPTION_EXPLORE && (strpbrk(policy, "./") != NULL || access(policy, F_OK) == 0);
}

/* Asked before anything runs: a lesson's first words are no place to learn that there is no GPU. */
static bool
device_is_here(const char *command, const char *kind)
{
    struct backend_why           why;
    struct backend_probe         probe;
    const struct device_backend *backend = device_backend_open(kind, &why);
    if (backend != NULL)
        backend->probe(&probe);
    if (backend != NULL && probe.count > 0)
        return true;
    message(STATUS_USAGE, "%s: --device %s: %s; 'ringside devices' says more", command, kind,
            backend != NULL ? probe.why : why.text);
    return false;
}

/* What does not go together, or was not built. */
static int
refuse_combination(const char *command, enum option_scope scope, const struct run_options *o)
{
    bool known = o->policy == NULL || policy_is_known(scope, o->policy);
    if (o->lesson == NULL)
        return message(STATUS_USAGE, "%s: which lesson? For example: ringside %s 01; 'ringside lessons' lists them",
                       command, command);
    if (!known)
        return message(STATUS_USAGE, "%s: unknown policy '%s'; there are %s", command, o->policy,
                       scope == OPTION_EXPLORE ? "random and pct"
                                               : "order, random, round-robin, and files that explore has saved");
    if (scope == OPTION_LAUNCH && o->executor != EXECUTOR_FREE)
        return message(STATUS_USAGE, "%s: ranks of a job are processes, which run by themselves: --executor free only",
                       command);
    if (o->exhaustive && o->fault_kinds != NULL)
        return message(STATUS_USAGE, "%s: --exhaustive draws no faults; --fault gives each run the same ones", command);
    if (o->exhaustive && (o->policy != NULL || o->has_seed))
        return message(STATUS_USAGE, "%s: --exhaustive takes every order: no --policy, no --seed", command);
    if (o->policy != NULL && o->executor == EXECUTOR_FREE)
        return message(STATUS_USAGE, "%s: --policy orders the stepped executor; in free the system decides", command);
    if (o->check_races && o->executor == EXECUTOR_FREE)
        return message(STATUS_USAGE, "%s: --check-races needs the stepped executor; a missing work:wait() is told in "
                       "free without it", command);
    if (o->device != NULL && !device_is_here(command, o->device))
        return STATUS_USAGE;
    if (o->hardware != NULL && preset_find(o->hardware) == NULL) {
        const char *meant = nearest(o->hardware, preset_at(0), preset_count(), sizeof(struct preset));
        return message(STATUS_USAGE, "%s: unknown hardware '%s'%s%s%s", command, o->hardware,
                       meant ? "; did you mean " : "; 'ringside devices' lists them", meant ? meant : "",
                       meant ? "?" : "");
    }
    return -1;
}

/* The command line that is read; `status` is what to exit with once a word was refused. */
struct option_words {
    const char        *command;
    enum option_scope  scope;
    struct run_options *out;
    int                status;
    bool               has_executor;
};

/* Words of launch that are for each process's `run`: those that `run` knows too. */
static void
pass_on(struct option_words *words, const struct option *option, const char *const *given, int count)
{
    struct launch_words *launch = &words->out->launch;
    for (int i = 0; i < count && launch->passed != NULL && (option->scope & OPTION_RUN) != 0; i++)
        launch->passed[launch->passed_count++] = given[i];
}

/* One argument that begins with "--"; `value` is what follows it. Answers how many words it took, 0: refused. */
static int
read_option(struct option_words *words, const char *word, const char *value)
{
    size_t length = strcspn(word + 2, "=");
    bool several, joined = word[2 + length] == '=';
    const struct option *option = find_option(word + 2, length, words->scope, &several);
    if (option == NULL) {
        words->status = unknown(words->command, words->scope, word, several);
        return 0;
    }
    if (option->type == OPTION_HELP) {
        words->status = print_options_help(words->scope);
        return 0;
    }
    if (joined)
        value = word + 2 + length + 1;
    bool takes = option->value[0] != '\0';
    if ((takes && value == NULL) || (!takes && joined)) {
        words->status = message(STATUS_USAGE, "%s: --%s takes %s%s", words->command, option->name,
                                takes ? "a value: " : "no value", option->value);
        return 0;
    }
    if (!keep_option(words->out, option, value)) {
        words->status = message(STATUS_USAGE, "%s: '%s' is no %s for --%s: it takes %s", words->command, value,
                                option->value, option->name, range_of(option->type));
        return 0;
    }
    words->has_executor  = words->has_executor || option->type == OPTION_EXECUTOR;
    words->out->has_seed = words->out->has_seed || strcmp(option->name, "seed") == 0;
    pass_on(words, option, (const char *const[]){ word, value }, takes && !joined ? 2 : 1);
    return takes && !joined ? 2 : 1;
}

void
options_free(struct run_options *options)
{
    free(options->launch.passed);
    options->launch.passed = NULL;
}

int
options_parse(int argc, char **argv, enum option_scope scope, struct run_options *out)
{
    struct option_words words = { argv[0], scope, out, -1, false };
    *out = (struct run_options){ .executor = scope == OPTION_LAUNCH ? EXECUTOR_FREE : EXECUTOR_STEPPED };
    if (scope == OPTION_LAUNCH && (out->launch.passed = calloc((size_t)argc + 1, sizeof *out->launch.passed)) == NULL)
        return message(STATUS_FAILED, "out of memory");
    for (int i = 1; i < argc;) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0) {
            out->args      = argv + i + 1;
            out->arg_count = argc - i - 1;
            break;
        }
        if (strcmp(word, "-h") == 0)
            return print_options_help(scope);
        if (word[0] == '-' && word[1] == '-') {
            int taken = read_option(&words, word, i + 1 < argc ? argv[i + 1] : NULL);
            if (taken == 0)
                return words.status;
            i += taken;
        } else if (word[0] == '-' && word[1] != '\0') {
            return message(STATUS_USAGE, "%s: no option %s; 'ringside %s --help' lists them", argv[0], word, argv[0]);
        } else if (out->lesson != NULL) {
            return message(STATUS_USAGE, "%s: one lesson at a time, not '%s' and '%s'; words for it go behind --",
                           argv[0], out->lesson, word);
        } else {
            out->lesson = word;
            i++;
        }
    }
    int status = job_start_settle(argv[0], scope, out, words.has_executor);
    return status >= 0 ? status : refuse_combination(argv[0], scope, out);
}

/* ringside explore LESSON: other orders of what ranks do, each a run of its own; which of them hang, race or come to
 * something else, and the shortest schedule that shows it.
 *
 * Interface: cli_explore. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/map.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/draw_faults.h"
#include "cli/findings.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/trials.h"
#include "sched/search.h"

enum { SCHEDULES = 1000, SCHEDULES_EXHAUSTIVE = 10000, STATUS_INTERRUPTED = 130 };

struct explore {
    struct run_options options;
    char               name[SCHEDULE_LESSON];
    struct trials     *trials;
    struct outcome     usual;
    uint64_t           schedules, ran;
    struct map         digests;            /* of the schedules that differed */
    struct findings    findings;
    struct search     *search;             /* shared with the runs */
    unsigned           fault_kinds;        /* a bit for each that may be drawn */
    struct fault_counts counts;            /* of the usual run */
    struct schedule    drawn;              /* the faults of the schedule that is begun */
    uint64_t           struck;             /* schedules that failed as their faults want it */
    bool               starved;
};

static int
no_runs(void)
{
    return message(STATUS_FAILED, "explore: no process, or no memory, for a run");
}

static void
run_ended(void *context, uint64_t number, const struct outcome *outcome)
{
    struct explore *explore = context;
    explore->ran++;
    bool kept = map_set(&explore->digests, outcome->digest, number);
    explore->struck += outcome->kind == OUTCOME_STRUCK;
    if (outcome->kind != OUTCOME_SAME && outcome->kind != OUTCOME_STRUCK)
        kept = findings_add(&explore->findings, number, outcome) && kept;
    explore->starved = explore->starved || !kept;
}

/* What stands in the command that shows it, behind the schedule. */
static void
describe_call(const struct run_options *options, struct str *out)
{
    if (options->world > 0)
        str_addf(out, "--world %" PRIu64 " ", options->world);
    if (options->hardware != NULL)
        str_addf(out, "--hardware %s ", options->hardware);
    str_addf(out, "%s%s", options->trust ? "--trust " : "", options->lesson);
    for (int i = 0; i < options->arg_count; i++)
        str_addf(out, "%s %s", i == 0 ? " --" : "", options->args[i]);
}

static int
tell_findings(struct explore *explore, const char *number)
{
    const struct run_options *options = &explore->options;
    struct str                call    = { 0 };
    describe_call(options, &call);
    const struct findings_words words = { explore->name, number, str_text(&call), options->faults,
                                          options->fault_count };
    findings_tell(&explore->findings, explore->trials, &words);
    explore->starved = explore->starved || !str_ok(&call);
    str_free(&call);
    if (explore->starved)
        return message(STATUS_FAILED, "explore: out of memory for all that was found");
    if (explore->findings.count > 0)
        return STATUS_FAILED;
    return trials_stopped(explore->trials) ? STATUS_INTERRUPTED : STATUS_DONE;
}

/* ---- schedules from seeds ---- */

static bool
uses_pct(const struct explore *explore, uint64_t seed)
{
    const char *policy = explore->options.policy;
    return policy != NULL ? strcmp(policy, "pct") == 0 : seed % 2 == 1;
}

static void
prepare_seed(void *context, uint64_t seed, struct choosing *choosing)
{
    struct explore *explore = context;
    bool            pct     = uses_pct(explore, seed);
    *choosing = (struct choosing){ .how = pct ? CHOOSE_PCT : CHOOSE_RANDOM, .seed = seed,
                                   .depth = pct ? 1 + (int)(seed / 2 % CHOOSE_DEEPEST) : 0,
                                   .length = explore->usual.choices };
    if (explore->fault_kinds == 0)
        return;
    explore->starved = !draw_faults(&explore->counts, explore->fault_kinds, seed, &explore->drawn.faults) ||
                       explore->starved;
    choosing->schedule = &explore->drawn;
}

static int
explore_seeds(struct explore *explore)
{
    const struct trials_user user  = { explore, prepare_seed, run_ended };
    uint64_t                 first = explore->options.seed;
    if (!trials_run(explore->trials, &user, first, explore->schedules) && !trials_stopped(explore->trials))
        return no_runs();
    printf("%s%" PRIu64 " schedules, %zu of them different, seeds %" PRIu64 " to %" PRIu64 "%s\n",
           trials_stopped(explore->trials) ? "stopped after " : "", explore->ran, explore->digests.count, first,
           first + explore->schedules - 1, explore->findings.count == 0 ? ": all end as usual" : "");
    if (explore->struck > 0)
        printf("%" PRIu64 " of them failed as their faults want it: by name, and to the end\n", explore->struck);
    return tell_findings(explore, "seed");
}

/* ---- every class of interleavings ---- */

/* What was told before a key was learnt belongs to another search. */
static void
forget_findings(struct explore *explore)
{
    findings_free(&explore->findings);
    explore->findings = (struct findings){ 0 };
}

/* false: none could be run. */
static bool
search_once(struct explore *explore, bool *more)
{
    const struct choosing choosing = { .search = explore->search };
    struct outcome        outcome;
    if (!trials_one(explore->trials, &choosing, &outcome))
        return false;
    if (explore->search->end == SEARCH_COMPLETE)
        run_ended(explore, explore->search->runs, &outcome);
    else if (explore->search->end == SEARCH_LEARNT)
        forget_findings(explore);
    *more = search_next(explore->search);
    return true;
}

static int
explore_all(struct explore *explore)
{
    struct search *search = explore->search;
    bool           more = true, ran = true;
    search_begin(search);
    while (more && ran && search->runs < explore->schedules)
        ran = search_once(explore, &more);
    if (search->end == SEARCH_TOO_LARGE)
        return message(STATUS_USAGE, "explore: --exhaustive is for small programs: this one has more than %d tasks "
                       "at a time, or than %d steps that can be ordered", SEARCH_MOVES, SEARCH_DEPTH);
    if (!ran && !trials_stopped(explore->trials))
        return no_runs();
    printf("%s: %" PRIu64 " class%s of interleavings, %" PRIu64 " blocked prefix%s, %" PRIu64 " run%s%s\n",
           !more ? "complete" : "incomplete", search->complete, search->complete == 1 ? "" : "es", search->blocked,
           search->blocked == 1 ? "" : "es", search->runs, search->runs == 1 ? "" : "s",
           explore->findings.count == 0 ? ": all end as usual" : "");
    return tell_findings(explore, "run");
}

static int
explore_exhaustively(struct explore *explore)
{
    void *memory = mmap(NULL, sizeof *explore->search, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return message(STATUS_FAILED, "out of memory");
    explore->search = memory;
    int status      = explore_all(explore);
    munmap(memory, sizeof *explore->search);
    return status;
}

/* ---- the command ---- */

static int
explore_lesson(struct explore *explore)
{
    const struct run_options *options = &explore->options;
    const char               *why;
    explore->trials = trials_new(options, &why);
    if (explore->trials == NULL)
        return message(STATUS_FAILED, "explore: %s", why);
    if (!trials_usual(explore->trials, &explore->usual, explore->fault_kinds != 0))
        return trials_stopped(explore->trials) ? STATUS_USAGE : no_runs();
    if (!explore->usual.trial->ended)
        return message(STATUS_USAGE, "explore: already the usual order did not come to an end");
    explore->counts = explore->usual.trial->counts;
    if (explore->usual.kind != OUTCOME_SAME) {
        printf("already the usual order %s:\n", outcome_verb(&explore->usual, true));
        findings_tell_cause(explore->usual.cause);
    }
    explore->schedules = options->schedules > 0 ? options->schedules
                         : options->exhaustive  ? SCHEDULES_EXHAUSTIVE : SCHEDULES;
    return options->exhaustive ? explore_exhaustively(explore) : explore_seeds(explore);
}

/* "lessons/01-six-rows.lua" -> "01-six-rows". */
static void
name_lesson(struct explore *explore)
{
    const char *slash = strrchr(explore->options.lesson, '/');
    const char *base  = slash != NULL ? slash + 1 : explore->options.lesson;
    size_t      length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".lua") == 0)
        length -= 4;
    snprintf(explore->name, sizeof explore->name, "%.*s", (int)(length < 120 ? length : 120), base);
}

static int
read_fault_kinds(struct explore *explore)
{
    char word[40];
    if (explore->options.fault_kinds == NULL ||
        fault_kinds_read(explore->options.fault_kinds, &explore->fault_kinds, word, sizeof word))
        return -1;
    return message(STATUS_USAGE, "explore: '%s' is no kind of fault; --faults takes all, or some of late,kill,lose,"
                   "delay,double,cut,allocation,write", word);
}

int
cli_explore(int argc, char **argv)
{
    struct explore *explore = calloc(1, sizeof *explore);
    if (explore == NULL)
        return message(STATUS_FAILED, "out of memory");
    int status = options_parse(argc, argv, OPTION_EXPLORE, &explore->options);
    if (status < 0)
        status = lesson_choose(argv[0], &explore->options);
    if (status < 0)
        status = read_fault_kinds(explore);
    if (status < 0) {
        name_lesson(explore);
        status = explore_lesson(explore);
    }
    if (explore->trials != NULL)
        trials_free(explore->trials);
    map_free(&explore->digests);
    findings_free(&explore->findings);
    schedule_free(&explore->drawn);
    free(explore);
    return status;
}

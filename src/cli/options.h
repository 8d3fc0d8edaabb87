/* The options that `run` and `step` share, parsed once. As getopt_long reads them: `--name value`, `--name=value`, any
 * unambiguous beginning of a name, options behind the lesson too, `--` ends them; what follows goes to the lesson. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "sched/faults.h"
#include "sched/sched.h"

enum { VARIANT_MOST = 999999999, FAULTS_MOST = 64 };
enum option_scope { OPTION_RUN = 1, OPTION_STEP = 2, OPTION_EXPLORE = 4, OPTION_LAUNCH = 8, OPTION_STORY = 16 };

struct exercise_report; struct trial;

/* launch's own, as they were given; NULL: not said. What they mean is launch_plan.h's. */
struct launch_words {
    const char  *nproc, *devices, *nnodes, *node_rank, *master_addr, *master_port, *endpoint, *rendezvous, *job,
                *restarts;
    bool         standalone;
    double       grace;         /* seconds; 0: not said */
    const char **passed;        /* words for the `run` of each process; freed by options_free */
    int          passed_count;
};

struct run_options {
    const char        *lesson;        /* as given; then its path, see cli/course.h */
    char               found[PATH_MAX];
    char *const       *args;          /* behind `--` */
    int                arg_count;
    const char        *trace, *policy, *hardware, *device, *backend, *batch, *theme;
    enum executor_kind executor;
    bool               has_seed, check_races, teacher, tap, trust, exact, quiet, no_color, ascii, hash, hops,
                       check_ranks, plain, count;
    uint64_t           seed;
    uint64_t           world;         /* 0: as the lesson says */
    uint64_t           variant;       /* of an exercise; 0: as it is written */
    struct exercise_report *report;   /* cli/exercise.c's; NULL: checks are printed */
    double             timeout, limit_seconds; /* 0: none given */
    struct fault       faults[FAULTS_MOST];    /* --fault, as often as it is given */
    size_t             fault_count;
    /* explore */
    uint64_t           schedules;     /* 0: not said */
    bool               exhaustive;
    const char        *fault_kinds;   /* NULL: none are drawn */
    struct trial      *trial;         /* cli/trial.h: the run is one of many; NULL: it speaks for itself */
    struct launch_words launch;
};

/* argv[0] is the subcommand. -1: go on with `out`; else the exit status (help was printed, or what is wrong). */
int options_parse(int argc, char **argv, enum option_scope scope, struct run_options *out);
void options_free(struct run_options *options); /* what `launch` keeps; nothing for others */
#endif

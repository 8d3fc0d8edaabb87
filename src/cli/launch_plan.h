/* What `ringside launch` was asked for, checked: who is who in the job, where its store is, what each process runs. */
#ifndef CLI_LAUNCH_PLAN_H
#define CLI_LAUNCH_PLAN_H
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct run_options;

struct launch_plan {
    const struct run_options *options;
    int         local;             /* processes here */
    int         nodes, node;       /* machines; which one this is */
    int         world, first;      /* ranks of the job; the first one here */
    char        host[256];         /* MASTER_ADDR */
    int         port;              /* MASTER_PORT; 0: a free one, which the store finds */
    const char *job;               /* TORCHELASTIC_RUN_ID */
    uint64_t    grace_ms;
    char        program[PATH_MAX]; /* of each process: this one's own */
    const char *folder;            /* of the traces; NULL: none, or one file */
};

/* -1: go on; else the exit status, and what is wrong has been said. */
int launch_plan_make(const char *command, const struct run_options *options, struct launch_plan *plan);
/* Before the first process: traces that ranks of an earlier, larger job left in the folder would be taken for this one's. */
void launch_plan_clear(const struct launch_plan *plan);
#endif

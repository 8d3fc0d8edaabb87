/* One of many runs of a lesson, as explore makes them: how it chooses, and how it ended. It lies in memory that two
 * processes share, so that what a run did is known whatever becomes of it.
 * Order of use: trial_new; for each run trial_prepare, a process with it in its run_options (cli/trials.h), then what it
 * tells; trial_free. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/chooser.h"
#include "sched/task.h"

struct sched;

enum { TRIAL_STEPS = 1 << 18, TRIAL_RANKS = 64, TRIAL_FAULTS = 8 };

/* Where faults could strike: how many of each there were. */
struct fault_counts {
    uint64_t points[TRIAL_RANKS], messages[TRIAL_RANKS][TRIAL_RANKS], allocations, writes;
};
struct trial {
    struct choosing choosing;
    uint64_t        work_limit;       /* 0: as any run */
    struct fault    faults[TRIAL_FAULTS];
    size_t          fault_count;
    bool            counts_faults;
    bool            begun;            /* the lesson was there, and could be read */
    bool            ended;            /* by itself: what follows was told */
    int             status, rank;
    uint32_t        line;
    enum error_kind kind;             /* E_NONE: it went well, or a check failed */
    char            message[1200];
    uint64_t        work;             /* steps of the account */
    size_t          left;             /* bytes that nobody gave back */
    struct fault_counts counts;
    struct chosen   chosen;           /* last: its steps follow */
};

struct trial *trial_new(void);        /* NULL: no memory */
void          trial_free(struct trial *trial);
/* The faults of the choosing's schedule are copied. */
void          trial_prepare(struct trial *trial, const struct choosing *choosing, uint64_t work_limit);

/* For the run; NULL is fine: it is no trial. */
const struct choosing *trial_choosing(const struct trial *trial);
uint64_t               trial_work_limit(const struct trial *trial, uint64_t limit);
void                   trial_begin(struct trial *trial);
void                   trial_fail(struct trial *trial, const struct error *error);
bool                   trial_counts_faults(const struct trial *trial);
void                   trial_end(struct trial *trial, struct sched *sched, int status);
#endif

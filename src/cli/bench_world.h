/* A world of ranks that are threads, or processes, without a script: for what bench measures between ranks. */
#ifndef CLI_BENCH_WORLD_H
#define CLI_BENCH_WORLD_H
#include <stdbool.h>
#include "sched/sched.h"

struct bench_job; struct blas; struct device_backend; struct process_group; struct task; struct world;

enum { BENCH_RANKS = 4 };     /* the most that a case in `free` has */

struct bench_world {
    int           size;
    bool        (*body)(struct task *me, struct process_group *group, void *context);  /* each rank's */
    void         *context;
    struct blas  *blas;       /* NULL: the exact product */
    const struct device_backend *backend;  /* devices are its, one a rank; NULL: there are none */
    const struct bench_job *job;   /* NULL: ranks are threads; else this process is one, of a job of this size */
    struct world *world;      /* of the run */
};
/* Runs the ranks to their ends, with no events recorded. false: one failed (the reason was printed). */
bool bench_world_run(struct bench_world *all, enum executor_kind executor);
/* Between processes: what each rank knows, by rank. `mine` are `count` numbers, `all` has as many for each. Between threads
 * nothing is to be told: does nothing. */
bool bench_tell(struct task *me, struct process_group *group, const double *mine, int count, double *all);
/* A core for each rank, as the peers have them, where there are so many. */
void bench_keep_core(int rank, int ranks);
#endif

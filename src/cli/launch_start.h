/* Processes of a job, begun: each with torchrun's environment, a page that it writes what it does in, and pipes for what
 * it says.
 * Order of use: launch_listen where node 0 is; worker_start for each; worker_free once it has ended. */
#ifndef CLI_LAUNCH_START_H
#define CLI_LAUNCH_START_H
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/str.h"
#include "c10d/job_page.h"
#include "cli/launch_lines.h"

struct launch_plan;

/* How a worker has come to its end, for who is asked first. */
enum worker_end { WORKER_WELL, WORKER_CHECKS /* some failed */, WORKER_FAILED, WORKER_KILLED /* by a signal */,
                  WORKER_ENDED /* by the launcher */ };

struct worker {
    int              rank, local_rank;
    pid_t            pid;         /* 0: it has ended */
    struct stream    out, err;
    struct job_page *page;        /* shared with it; NULL: none */
    struct job_page  last;        /* what the page said at its end */
    struct str       held;        /* of its lines on stderr, those after it had failed */
    size_t           dropped;     /* bytes of these that were too many */
    enum worker_end  end;
    int              status;      /* as waitpid has it */
    uint64_t         failed_ns;   /* CLOCK_REALTIME; 0: it has not */
};

/* What a child gets back of what the launcher has changed for itself. */
struct launch_inheritance {
    sigset_t mask;
    pid_t    parent;
    bool     pipe_kills;          /* SIGPIPE was as it is by default */
};

/* The socket of the job's store, on the master's address; plan->port becomes its port if that was 0. -1: the exit status
 * is in *status, and what is wrong has been said. */
int  launch_listen(const char *command, struct launch_plan *plan, int *status);

/* false: what is wrong has been said, and nothing of it is left. */
bool worker_start(const char *command, const struct launch_plan *plan, const struct launch_inheritance *inheritance,
                  int local_rank, struct worker *worker);
bool worker_has_failed(const struct worker *worker);  /* its page says so; it may still run */
void worker_free(struct worker *worker);
#endif

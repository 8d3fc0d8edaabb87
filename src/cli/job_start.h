/* Whether `run` is one process of a job, and the job it is of: from torchrun's environment, as `ringside launch` and torchrun set it
 * and as it may be set by hand, or from mpirun.
 * Order of use: job_start_settle when the options are read; job_start before the run, job_free after it. */
#ifndef CLI_JOB_START_H
#define CLI_JOB_START_H
#include <limits.h>
#include "base/runtime_folder.h"
#include "c10d/transport.h"
#include "cli/options.h"

struct job;

/* What does not go together with a job, or without one, in one line. -1: go on, with the executor that the run has; else the
 * exit status. `has_executor`: the command line says which. */
int job_start_settle(const char *command, enum option_scope scope, struct run_options *options, bool has_executor);
/* Makes the job, if this is a process of one; else its `job` is NULL. -1: go on; else the exit status. */
struct job_start { struct job *job; struct transport_why missing; /* outlives it */ };
int job_start(const struct run_options *options, struct job_start *out);
int job_start_free_port(void);   /* one that nobody has at the moment; 0: there is none */
/* Where the trace of this process goes: options->trace, or in it, where that is a folder; in a job that has several processes
 * always somewhere, where the others find it: in `folder`. May lie in `room`. NULL: in memory. */
const char *job_trace_path(const struct run_options *options, const struct job *job, struct runtime_folder *folder,
                           char room[PATH_MAX]);
#endif

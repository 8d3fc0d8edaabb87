/* `ringside bench --backend mpi` and `gloo`: ranks that are processes. Who types it starts the processes, for each size of
 * world one after the other; in each of them, bench finds that it is one of a job and measures.
 * Order of use: bench_job_is_rank; then bench_job_start, or bench_job_work. */
#ifndef CLI_BENCH_JOB_H
#define CLI_BENCH_JOB_H
#include <stdbool.h>
#include "cli/bench.h"

/* Something has started this process as one rank. */
bool bench_job_is_rank(const struct bench_options *options);
/* `argv` is bench's own, from its name on. Answers the exit status. */
int  bench_job_start(const struct bench_options *options, char **argv);
/* This process's part: `body` measures, with options->job set. Answers the exit status. */
int  bench_job_work(struct bench_options *options, bool (*body)(void *context), void *context);
#endif

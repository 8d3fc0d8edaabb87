/* What the groups of `ringside bench` share: options, the clock, and the one line that each case prints. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H
#include <stdbool.h>
#include <stddef.h>

struct blas; struct job; struct task;

/* This process is one rank of a job: all that is measured runs on `me`. */
struct bench_job { struct job *job; struct task *me; struct blas *blas; };

struct bench_options {
    const char *only_case;   /* NULL: all */
    const char *backend;     /* NULL: ranks are threads; "gloo", "mpi": processes */
    const char *device;      /* "cuda": device_step's devices are GPUs; NULL: virtual */
    int         threads;     /* 0: all */
    int         world;       /* with a backend: this many ranks; 0: each number that there is */
    bool        quick, json;
    const struct bench_job *job;   /* NULL: ranks are threads of this process */
};

struct bench_line {
    const char *bench, *impl, *name, *metric, *unit;
    int         threads, count;
    double     *samples;     /* sorted by bench_report */
    bool        ok;          /* the result was verified in this run */
    const char *extra;       /* ", \"key\": value", "" none */
};

enum { BENCH_SAMPLES = 9 };

double bench_now(void);                                      /* seconds, monotonic */
bool   bench_has_world(const struct bench_options *options, int ranks); /* in this process */
bool   bench_is_silent(const struct bench_options *options); /* of a job the first process tells for all */
bool   bench_wants(const struct bench_options *options, const char *name);
void   bench_report(const struct bench_options *options, const struct bench_line *line);

/* Each answers false when it could not measure (the reason was printed). */
bool bench_trace_cost(const struct bench_options *options);
bool bench_trace_steps(const struct bench_options *options); /* cases of trace_cost */
bool bench_viewer_open(const struct bench_options *options);
bool bench_switch(const struct bench_options *options);
bool bench_train_step(const struct bench_options *options);
bool bench_dp_step(const struct bench_options *options);
bool bench_ddp_step(const struct bench_options *options);
bool bench_device_step(const struct bench_options *options);
bool bench_allreduce(const struct bench_options *options);
bool bench_sim_allreduce(const struct bench_options *options);
#endif

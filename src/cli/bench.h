/* What the groups of `ringside bench` share: options, the clock, and the one line that each case prints. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H
#include <stdbool.h>
#include <stddef.h>

struct bench_options {
    const char *only_case;   /* NULL: all */
    int         threads;     /* 0: all */
    bool        quick, json;
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
bool bench_allreduce(const struct bench_options *options);
bool bench_sim_allreduce(const struct bench_options *options);
#endif

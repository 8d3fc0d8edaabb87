/* bench trace_cost, cases embed6, mlp64 and tfm8x64: training steps from C with every category recorded, against the
 * same steps with none. Short windows of both take turns in one process; a sample is the ratio of the fastest of each,
 * so that what other programs do to this machine meanwhile counts for neither.
 *
 * Interface: bench_trace_steps. */
#include <stdio.h>
#include "base/vec.h"
#include "cli/bench_train.h"
#include "sched/stage.h"

/* Each window is long enough to fill chunks of the trace, and to wait for fresh ones if they are late. */
static const struct traced_case { const char *name; int steps, turns; } cases[] = {
    { "embed6", 100, 100 }, { "mlp64", 32, 6 }, { "tfm8x64", 16, 3 },
};

struct traced {
    struct train             train;     /* first: train_run hands it on */
    const struct traced_case *of;
    double                   slowdown[BENCH_SAMPLES], step_us[BENCH_SAMPLES];
    double                   event_ns[BENCH_SAMPLES]; /* what recording one adds */
    uint64_t                 events;    /* a step */
};

static void
record_all(struct task *me, bool on)
{
    for (int kind = 1; kind < KIND_COUNT; kind++)
        stage_category(me->sched, (enum kind)kind, on);
}

/* The fastest of the windows of each sort, us a step. */
static bool
take_turns(struct task *me, struct traced *traced, int turns, double *off, double *on)
{
    for (int turn = 0; turn < turns; turn++) {
        double us[2] = { 0, 0 };
        for (int recorded = 0; recorded <= 1; recorded++) {
            record_all(me, recorded);
            bool ok = train_time_steps(me, &traced->train, traced->of->steps, &us[recorded]);
            record_all(me, false);
            if (!ok)
                return false;
        }
        *off = turn == 0 || us[0] < *off ? us[0] : *off;
        *on  = turn == 0 || us[1] < *on ? us[1] : *on;
    }
    return true;
}

static bool
count_step_events(struct task *me, struct traced *traced)
{
    record_all(me, true);
    uint64_t before = stage_seq(me);
    bool     ok     = train_step(me, &traced->train, NULL);
    traced->events  = stage_seq(me) - before;
    record_all(me, false);
    return ok;
}

static bool
measure_steps(struct task *me, void *argument)
{
    struct traced *traced = argument;
    struct train  *train  = &traced->train;
    int            turns  = train->options->quick ? (traced->of->turns + 2) / 3 : traced->of->turns;
    double         off = 0, on = 0;
    record_all(me, false);
    bool ok = train_build(me, train) && train_step(me, train, &train->first_loss) &&
              count_step_events(me, traced) && take_turns(me, traced, 1, &off, &on);
    for (int i = 0; i < BENCH_SAMPLES && ok; i++) {
        ok = take_turns(me, traced, turns, &off, &on);
        traced->slowdown[i] = on / off;
        traced->step_us[i]  = off;
        traced->event_ns[i] = (on - off) * 1e3 / (double)traced->events;
    }
    ok = ok && train_step(me, train, &train->last_loss);
    train_free(me, train);
    return ok;
}

static void
report_one(const struct traced *traced, const char *metric, const char *unit, double *samples)
{
    char extra[40];
    snprintf(extra, sizeof extra, ", \"events\": %llu", (unsigned long long)traced->events);
    struct bench_line line = { .bench = "trace_cost", .impl = "ringside", .name = traced->of->name, .metric = metric,
                               .unit = unit, .threads = 1, .count = BENCH_SAMPLES, .samples = samples,
                               .ok = train_learnt(&traced->train), .extra = extra };
    bench_report(traced->train.options, &line);
}

static void
report_steps(struct traced *traced)
{
    report_one(traced, "slowdown", "ratio", traced->slowdown);
    report_one(traced, "per_event", "ns", traced->event_ns);
    report_one(traced, "step", "us", traced->step_us);
}

bool
bench_trace_steps(const struct bench_options *options)
{
    struct blas blas;
    bool        fast = blas_open(&blas), ok = true;
    for (size_t i = 0; i < countof(cases) && ok; i++) {
        struct traced traced = { .of = &cases[i] };
        if (!bench_wants(options, cases[i].name))
            continue;
        traced.train = (struct train){ .options = options, .name = cases[i].name, .blas = fast ? &blas : NULL };
        ok = train_run(&traced.train, true, measure_steps, &traced.train);
        if (ok)
            report_steps(&traced);
    }
    return ok;
}

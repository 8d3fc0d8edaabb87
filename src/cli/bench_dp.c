/* bench dp_step: what nn.DataParallel adds to a training step. A model of bench train_step lies on device 0 and is
 * trained bare and through DataParallel over 1, 2 and 4 virtual devices, by turns every few milliseconds of one run:
 * the machine's moods meet both.
 *
 * Interface: bench_dp_step. The gap is the median of the pairs' differences, the ratio that of their ratios. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/vec.h"
#include "cli/bench_train.h"
#include "device/device.h"
#include "optim/optimizer.h"
#include "parallel/data_parallel.h"
#include "tensor/op.h"

enum { DP_DEVICES = 4, SLICES = 32 };

/* What DataParallel adds to a step, and how many times as long the step is. */
struct gap { double us, ratio; };
/* A sample is made of so many slices of so many steps. */
struct slices { int count, steps; };

/* The two share the model, its optimizer and the batch: `wrapped` calls it through DataParallel. */
struct pair {
    struct train bare, wrapped;
    int          devices;
    struct gap   wall, cpu;      /* cpu: of all threads, which other programs on the machine do not lengthen */
    bool         same_loss;      /* before the first step both found the same */
};

static bool
build_pair(struct task *me, struct pair *pair)
{
    static const int             ids[DP_DEVICES] = { 0, 1, 2, 3 };
    struct train                *bare = &pair->bare;
    struct data_parallel_options options = { { ids, pair->devices }, ids[0], 0 };
    if (!devices_ready(me, DP_DEVICES) || !train_build(me, bare) || !module_to(me, bare->model, ids[0]))
        return false;
    bare->input    = tensor_to(me, bare->input, ids[0], bare->input->dtype);
    bool loss_only = bare->target == NULL;
    if (!loss_only)
        bare->target = tensor_to(me, bare->target, ids[0], bare->target->dtype);
    pair->wrapped       = *bare;
    pair->wrapped.model = data_parallel_new(me, bare->model, &options);
    return bare->input != NULL && (loss_only || bare->target != NULL) && pair->wrapped.model != NULL;
}

/* Both see the same weights here: a step of theirs would change them for the other. */
static bool
compare_losses(struct task *me, struct pair *pair)
{
    size_t mark = scope_mark(me);
    double bare = NAN, wrapped = NAN;
    bool   ok = tensor_item(me, train_forward(me, &pair->bare), &bare) &&
              tensor_item(me, train_forward(me, &pair->wrapped), &wrapped);
    pair->same_loss = ok && fabs(bare - wrapped) <= 1e-5 * (1 + fabs(bare));
    scope_release(me, mark);
    return ok;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double
median(double values[BENCH_SAMPLES])
{
    qsort(values, BENCH_SAMPLES, sizeof *values, by_value);
    return values[BENCH_SAMPLES / 2];
}

static double
process_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Sample number `at` of one of the two, of which this is one slice. What its steps took from the system is their
 * average over all samples. */
static bool
time_slice(struct task *me, struct train *train, const struct slices *slices, int at, double *cpu_us)
{
    double us     = 0, cpu = process_seconds();
    long   before = bench_allocations();
    bool   ok     = train_time_steps(me, train, slices->steps, &us);
    double steps  = (double)slices->steps * slices->count;
    train->samples[at] += us / slices->count;
    *cpu_us += (process_seconds() - cpu) * 1e6 / steps;
    train->allocations = before < 0 ? -1 : train->allocations + (double)(bench_allocations() - before) /
                                                                    (steps * BENCH_SAMPLES);
    return ok;
}

/* In each sample the two take turns every few milliseconds. */
static bool
time_pair(struct task *me, struct pair *pair)
{
    double        gaps[BENCH_SAMPLES], ratios[BENCH_SAMPLES], cpu_gaps[BENCH_SAMPLES], cpu_ratios[BENCH_SAMPLES];
    struct slices slices = { .count = SLICES };
    bool          ok     = train_steps_per_window(me, &pair->bare, &slices.steps) &&
              train_time_steps(me, &pair->wrapped, slices.steps / SLICES + 1, &gaps[0]);
    slices.steps = slices.steps / SLICES + 1;
    for (int i = 0; i < BENCH_SAMPLES && ok; i++) {
        double cpu[2] = { 0, 0 };
        for (int turn = 0; turn < slices.count && ok; turn++)
            ok = time_slice(me, &pair->bare, &slices, i, &cpu[0]) &&
                 time_slice(me, &pair->wrapped, &slices, i, &cpu[1]);
        gaps[i]       = pair->wrapped.samples[i] - pair->bare.samples[i];
        ratios[i]     = pair->wrapped.samples[i] / pair->bare.samples[i];
        cpu_gaps[i]   = cpu[1] - cpu[0];
        cpu_ratios[i] = cpu[1] / cpu[0];
    }
    if (!ok)
        return false;
    pair->wall = (struct gap){ median(gaps), median(ratios) };
    pair->cpu  = (struct gap){ median(cpu_gaps), median(cpu_ratios) };
    return true;
}

static bool
measure_pair(struct task *me, void *argument)
{
    struct pair *pair = argument;
    bool         ok   = build_pair(me, pair) && compare_losses(me, pair) &&
              train_step(me, &pair->bare, &pair->bare.first_loss) && time_pair(me, pair) &&
              train_step(me, &pair->wrapped, &pair->bare.last_loss);
    train_free(me, &pair->bare);
    return ok;
}

static void
report_pair(struct pair *pair)
{
    char                        metric[32], extra[240], bare_extra[40];
    const struct bench_options *options = pair->bare.options;
    bool                        ok      = pair->same_loss && train_learnt(&pair->bare);
    snprintf(metric, sizeof metric, "step on %d", pair->devices);
    snprintf(extra, sizeof extra,
             ", \"devices\": %d, \"gap_us\": %.4g, \"ratio\": %.6g, \"cpu_gap_us\": %.4g, \"cpu_ratio\": %.6g, "
             "\"allocs\": %.6g",
             pair->devices, pair->wall.us, pair->wall.ratio, pair->cpu.us, pair->cpu.ratio, pair->wrapped.allocations);
    snprintf(bare_extra, sizeof bare_extra, ", \"allocs\": %.6g", pair->bare.allocations);
    struct bench_line line = { .bench = "dp_step", .impl = "bare", .name = pair->bare.name, .metric = metric,
                               .unit = "us", .threads = 1, .count = BENCH_SAMPLES, .samples = pair->bare.samples,
                               .ok = ok, .extra = bare_extra };
    bench_report(options, &line);
    line.impl    = "DataParallel";
    line.threads = pair->devices;
    line.samples = pair->wrapped.samples;
    line.extra   = extra;
    bench_report(options, &line);
    if (options->json)
        return;
    printf("            gap %.4g us, ratio %.4g; of CPU time %.4g us, %.4g", pair->wall.us, pair->wall.ratio,
           pair->cpu.us, pair->cpu.ratio);
    if (pair->wrapped.allocations >= 0)
        printf("; allocations a step: %.4g, bare %.4g", pair->wrapped.allocations, pair->bare.allocations);
    putchar('\n');
}

bool
bench_dp_step(const struct bench_options *options)
{
    static const char *const names[]   = { "embed6", "mlp64", "mlp512" };
    static const int         devices[] = { 1, 2, 4 };
    struct blas              blas;
    bool                     fast = blas_open(&blas), ok = true;
    for (size_t i = 0; i < countof(names); i++) {
        for (size_t d = 0; d < countof(devices) && ok && bench_wants(options, names[i]); d++) {
            if (options->threads > 0 && options->threads != devices[d])
                continue;
            struct pair pair = { .bare = { .options = options, .name = names[i], .blas = fast ? &blas : NULL },
                                 .devices = devices[d] };
            ok = train_run(&pair.bare, false, measure_pair, &pair);
            if (ok)
                report_pair(&pair);
        }
    }
    return ok;
}

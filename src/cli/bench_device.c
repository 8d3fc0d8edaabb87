/* bench device_step: what work on a device costs: launches, elements, copies, products, training steps, all-reduces
 * between devices. --device cuda: on GPUs, of which several devices may share one; else on virtual ones, where the
 * host does the work. A sample is so many operations and one wait for the device behind them, but for launches, which
 * are timed without it.
 *
 * Interface: bench_device_step. Twenty samples go by before 200 count; --quick: two before nine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/operators.h"
#include "base/vec.h"
#include "c10d/group.h"
#include "cli/bench_train.h"
#include "cli/bench_world.h"
#include "cli/message.h"
#include "device/device.h"
#include "device/load.h"
#include "device/stream.h"
#include "optim/optimizer.h"
#include "parallel/distributed_data_parallel.h"
#include "tensor/op.h"

enum { SAMPLES = 200, WARM = 20, QUICK_SAMPLES = 9, QUICK_WARM = 2, REDUCE_RANKS = 8, DDP_RANKS = 4 };

enum device_work { WORK_LAUNCH, WORK_TWICE, WORK_COPY, WORK_PRODUCT, WORK_STEP, WORK_REDUCE };

struct device_case {
    const char *name, *metric, *unit;
    enum device_work work;
    int      ranks;           /* devices, one a rank */
    int      calls;           /* in a sample */
    int64_t  size, quick;     /* of its tensors; with --quick */
};

struct device_bench {
    const struct bench_options   *options;
    const struct device_backend  *backend;
    const struct device_case     *which;
    struct tensor                *operand[REDUCE_RANKS][2];
    double                        samples[SAMPLES];
    int                           count;
    bool                          right;
    struct train                  train[REDUCE_RANKS];
};

/* ---- operations ---- */

static bool
in_scope(struct task *me, size_t mark, bool ok)
{
    scope_release(me, mark);
    return ok;
}

/* What a case makes of its operand; of a training the loss goes its own way. NULL: failed. */
static struct tensor *
result_of(struct task *me, struct process_group *group, struct device_bench *bench)
{
    struct tensor *const *operand = bench->operand[group != NULL ? process_group_rank(group) : 0];
    switch (bench->which->work) {
    case WORK_LAUNCH:  return tensor_fill(me, operand[0], 1) ? operand[0] : NULL;
    case WORK_TWICE:   return tensor_mul_number(me, operand[0], 2);
    case WORK_COPY:    return tensor_to(me, operand[1], 0, DTYPE_F32);
    case WORK_PRODUCT: return tensor_mm(me, operand[0], operand[0]);
    default:           return group_all_reduce_now(me, group, operand[0], NULL) ? operand[0] : NULL;
    }
}

static bool
work_once(struct task *me, struct process_group *group, struct device_bench *bench, struct train *train)
{
    size_t mark = scope_mark(me);
    if (bench->which->work == WORK_STEP)
        return train_step(me, train, NULL);
    return in_scope(me, mark, result_of(me, group, bench) != NULL);
}

/* Of operands that are 1 everywhere. */
static double
expected(const struct device_bench *bench, int64_t size)
{
    switch (bench->which->work) {
    case WORK_TWICE:   return 2;
    case WORK_PRODUCT: return (double)size;
    case WORK_REDUCE:  return bench->which->ranks;
    default:           return 1;
    }
}

static bool
verify(struct task *me, struct process_group *group, struct device_bench *bench, int rank, int64_t size)
{
    size_t mark = scope_mark(me);
    double sum  = NAN;
    bool   ok   = tensor_fill(me, bench->operand[rank][0], 1) &&
              (bench->operand[rank][1] == NULL || tensor_fill(me, bench->operand[rank][1], 1));
    struct tensor *result = ok ? result_of(me, group, bench) : NULL;
    ok = result != NULL && tensor_item(me, tensor_sum(me, result), &sum);
    if (ok && rank == 0)
        bench->right = fabs(sum / (double)tensor_count(result) / expected(bench, size) - 1) < 1e-5;
    return in_scope(me, mark, ok);
}

static const struct device_case cases[] = {
    { "launch",      "launch",  "us",   WORK_LAUNCH,  1,            100, 1,             1 },
    { "elementwise", "rate",    "GB/s", WORK_TWICE,   1,            5,   (int64_t)1 << 26, 1 << 12 },
    { "copy",        "rate",    "GB/s", WORK_COPY,    1,            1,   (int64_t)1 << 26, 1 << 12 },
    { "mm4096",      "product", "us",   WORK_PRODUCT, 1,            1,   4096,          64 },
    { "mlp64",       "step",    "us",   WORK_STEP,    1,            5,   1,             1 },
    { "allreduce",   "time",    "us",   WORK_REDUCE,  REDUCE_RANKS, 1,   25 << 18,      1 << 10 },
    { "ddp",         "step",    "us",   WORK_STEP,    DDP_RANKS,    5,   1,             1 },
};

/* ---- a rank ---- */

static bool
train_ready(struct task *me, struct process_group *group, struct train *train, int device)
{
    if (!train_build(me, train) || !module_to(me, train->model, device))
        return false;
    train->input  = tensor_to(me, train->input, device, train->input->dtype);
    train->target = tensor_to(me, train->target, device, train->target->dtype);
    if (group != NULL)
        train->model = ddp_new(me, train->model, group, &(struct ddp_options){ 0 });
    return train->input != NULL && train->target != NULL && train->model != NULL &&
           train_step(me, train, &train->first_loss);
}

static bool
operands_ready(struct task *me, struct device_bench *bench, int rank)
{
    const struct device_case *which = bench->which;
    int64_t size  = bench->options->quick ? which->quick : which->size, sizes[2] = { size, size };
    int     dims  = which->work == WORK_PRODUCT ? 2 : 1;
    for (int at = 0; at < 2; at++) {
        int device = at == 0 ? rank : DEVICE_CPU;
        if (at == 1 && which->work != WORK_COPY)
            break;
        bench->operand[rank][at] = tensor_zeros(me, DTYPE_F32, device, dims, sizes);
        if (bench->operand[rank][at] == NULL)
            return false;
    }
    return tensor_fill(me, bench->operand[rank][0], 0);
}

static double
measured(const struct device_case *which, double seconds, int64_t size)
{
    if (strcmp(which->unit, "us") == 0)
        return seconds * 1e6 / which->calls;
    double moved = (which->work == WORK_TWICE ? 2.0 : 1.0) * (double)size * sizeof(float);
    return moved * which->calls / seconds * 1e-9;
}

/* All ranks begin together; rank 0's clock counts, from there to the end of the last one. */
static bool
take_sample(struct task *me, struct process_group *group, struct device_bench *bench, int rank, double *seconds)
{
    const struct device_case *which = bench->which;
    bool   ok    = group == NULL || group_barrier_now(me, group);
    double begin = bench_now();
    for (int call = 0; call < which->calls && ok; call++)
        ok = work_once(me, group, bench, &bench->train[rank]);
    if (which->work == WORK_LAUNCH)
        *seconds = bench_now() - begin;
    ok = ok && device_synchronize(me, rank) && (group == NULL || group_barrier_now(me, group));
    if (which->work != WORK_LAUNCH)
        *seconds = bench_now() - begin;
    return ok;
}

static bool
measure(struct task *me, struct process_group *group, struct device_bench *bench, int rank)
{
    const struct device_case *which = bench->which;
    struct train             *train = &bench->train[rank];
    bool   quick = bench->options->quick;
    int    warm  = quick ? QUICK_WARM : WARM, count = quick ? QUICK_SAMPLES : SAMPLES;
    bool   trains = which->work == WORK_STEP;
    int64_t size  = quick ? which->quick : which->size;
    bool   ok    = trains ? train_ready(me, group, train, rank) : operands_ready(me, bench, rank);
    for (int i = -warm; i < count && ok; i++) {
        double seconds = 0;
        ok = take_sample(me, group, bench, rank, &seconds);
        if (i >= 0 && rank == 0)
            bench->samples[i] = measured(which, seconds, size);
    }
    ok = ok && (trains ? train_step(me, train, &train->last_loss) : verify(me, group, bench, rank, size));
    if (train->optimizer != NULL)
        train_free(me, train);
    bench->count = count;
    return ok;
}

static bool
measure_rank(struct task *me, struct process_group *group, void *context)
{
    size_t mark = scope_mark(me);
    return in_scope(me, mark, measure(me, group, context, process_group_rank(group)));
}

static bool
measure_alone(struct task *me, void *context)
{
    struct device_bench *bench = context;
    return devices_use(me, bench->backend) && devices_ready(me, 1) && measure(me, NULL, bench, 0);
}

/* ---- a case ---- */

static bool
run_case(struct device_bench *bench, struct blas *blas)
{
    struct bench_world world = { .size = bench->which->ranks, .body = measure_rank, .context = bench, .blas = blas,
                                 .backend = bench->backend };
    for (int rank = 0; rank < bench->which->ranks; rank++)
        bench->train[rank] = (struct train){ .options = bench->options, .name = "mlp64", .blas = blas,
                                             .data_seed = rank + 1 };
    if (bench->which->ranks > 1)
        return bench_world_run(&world, EXECUTOR_FREE);
    return train_run(&bench->train[0], false, measure_alone, bench);
}

static bool
ranks_learnt(const struct device_bench *bench)
{
    double first = 0, last = 0;
    for (int rank = 0; rank < bench->which->ranks; rank++) {
        first += bench->train[rank].first_loss;
        last  += bench->train[rank].last_loss;
    }
    return isfinite(last) && last < first;
}

static int
by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void
report(struct device_bench *bench)
{
    char                      extra[120];
    const struct device_case *which = bench->which;
    qsort(bench->samples, (size_t)bench->count, sizeof *bench->samples, by_size);
    double p95 = bench->samples[bench->count * 95 / 100];
    snprintf(extra, sizeof extra, ", \"device\": \"%s\", \"devices\": %d, \"p95\": %.9g", bench->backend->name,
             which->ranks, p95);
    struct bench_line line = { .bench = "device_step", .impl = "ringside", .name = which->name, .metric = which->metric,
                               .unit = which->unit, .threads = which->ranks, .count = bench->count,
                               .samples = bench->samples, .extra = extra,
                               .ok = which->work == WORK_STEP ? ranks_learnt(bench) : bench->right };
    bench_report(bench->options, &line);
}

bool
bench_device_step(const struct bench_options *options)
{
    struct blas        blas;
    struct backend_why why;
    bool               fast = blas_open(&blas), ok = true;
    const struct device_backend *backend = device_backend_open(options->device != NULL ? options->device : "cpu", &why);
    if (backend == NULL) {
        message(0, "bench: --device %s: %s", options->device, why.text);
        return false;
    }
    for (size_t i = 0; i < countof(cases) && ok; i++) {
        if (!bench_wants(options, cases[i].name))
            continue;
        struct device_bench *bench = calloc(1, sizeof *bench);
        if (bench == NULL)
            return false;
        bench->options = options;
        bench->backend = backend;
        bench->which   = &cases[i];
        ok = run_case(bench, fast ? &blas : NULL);
        if (ok)
            report(bench);
        free(bench);
    }
    return ok;
}

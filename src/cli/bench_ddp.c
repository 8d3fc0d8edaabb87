/* bench ddp_step: training steps through DistributedDataParallel on ranks that are threads, or with --backend
 * processes, one of BLAS each, every rank with a batch of its own. Three things take turns every few milliseconds
 * of one run, so that the machine's moods meet all: "step" is the whole step, "local" the same under no_sync,
 * "comm" one all-reduce for each bucket-sized piece of the same bytes with nothing else running. "cost" is step /
 * local, sample by sample. The model is wrapped as the peer wraps it; "ringside-local-views" has
 * gradient_as_bucket_view besides.
 *
 * Interface: bench_ddp_step. A window lasts from the first rank's begin to the last one's end; between processes
 * as long as the slowest rank's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "c10d/local.h"
#include "cli/bench_train.h"
#include "cli/bench_world.h"
#include "optim/optimizer.h"
#include "parallel/distributed_data_parallel.h"
#include "sched/task.h"
#include "tensor/tensor.h"

enum { FIRST_STEPS = 6, MOST_PIECES = 64, DDP_SLICES = 8, MIB_FLOATS = 1 << 18 };
enum timed { TIMED_STEP, TIMED_LOCAL, TIMED_COMM, TIMED_COUNT };

struct ddp_rank {
    struct train   train;          /* its model is the wrapper */
    struct tensor *piece[MOST_PIECES];
    double         begin, end;     /* of the latest window */
};

struct ddp_bench {
    const struct bench_options *options;
    char        name[48];          /* "mlp64-w2-cap25" */
    bool        views;             /* gradient_as_bucket_view */
    bool        in_job;            /* ranks are processes: of each the own rank's part is true */
    int         world, cap_mb, pieces, slices;
    int         calls[TIMED_COUNT]; /* in a window */
    int64_t     params;
    double      us[TIMED_COUNT][BENCH_SAMPLES], cpu_us[TIMED_COUNT][BENCH_SAMPLES], cost[BENCH_SAMPLES];
    double      allocations;       /* of all ranks in one step; -1: nobody counted */
    bool        same;              /* replicas after the first steps, gradients after the last one */
    struct ddp_rank rank[BENCH_RANKS];
};

/* ---- a rank's model ---- */

static bool
wrap_model(struct task *me, struct process_group *group, struct ddp_bench *bench, struct train *train)
{
    const struct ddp_options options = { .has_bucket_cap = true, .bucket_cap_mb = bench->cap_mb,
                                         .gradient_as_bucket_view = bench->views };
    train->model = ddp_new(me, train->model, group, &options);
    return train->model != NULL;
}

/* As the peer cuts them: a first one of 1 MiB at most, then of the cap. */
static bool
make_pieces(struct task *me, struct ddp_bench *bench, struct ddp_rank *one)
{
    int64_t params = 0, cap = MIB_FLOATS;
    int     count  = 0;
    for (int i = 0; i < optimizer_count(one->train.optimizer); i++)
        params += tensor_count(optimizer_state(one->train.optimizer, i)->param);
    for (int64_t left = params; left > 0 && count < MOST_PIECES; cap = (int64_t)bench->cap_mb * MIB_FLOATS) {
        int64_t size = left < cap ? left : cap;
        one->piece[count] = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 1, &size);
        if (one->piece[count++] == NULL)
            return false;
        left -= size;
    }
    bench->params = params;
    bench->pieces = count;
    return true;
}

/* ---- what is measured ---- */

static bool
reduce_pieces(struct task *me, struct process_group *group, const struct ddp_bench *bench, struct ddp_rank *one)
{
    struct work *works[MOST_PIECES] = { NULL };
    bool         ok = true;
    for (int i = 0; i < bench->pieces && ok; i++)
        ok = (works[i] = group_all_reduce(me, group, one->piece[i], NULL)) != NULL;
    for (int i = 0; i < bench->pieces; i++) {
        ok = ok && work_wait(me, works[i]);
        work_free(me, works[i]);
    }
    return ok;
}

static bool
run_part(struct task *me, struct process_group *group, const struct ddp_bench *bench, struct ddp_rank *one,
         enum timed part)
{
    double us = 0;
    bool   ok = true;
    ddp_set_sync(one->train.model, part == TIMED_STEP);
    if (part != TIMED_COMM)
        return train_time_steps(me, &one->train, bench->calls[part], &us);
    for (int i = 0; i < bench->calls[part] && ok; i++)
        ok = reduce_pieces(me, group, bench, one);
    return ok;
}

/* Between processes: what the others' window took, of time, CPU time and allocations; mine become all ranks'. */
static bool
share_window(struct task *me, struct process_group *group, struct ddp_bench *bench, double *cpu, double *allocations)
{
    struct ddp_rank *one     = &bench->rank[process_group_rank(group)];
    double           mine[3] = { one->end - one->begin, *cpu, *allocations }, all[3 * BENCH_RANKS];
    if (!bench_tell(me, group, mine, 3, all))
        return false;
    *cpu = *allocations = 0;
    for (int rank = 0; rank < bench->world; rank++) {
        bench->rank[rank].begin = 0;
        bench->rank[rank].end   = all[3 * rank];
        *cpu += all[3 * rank + 1];
        *allocations += all[3 * rank + 2];
    }
    return true;
}

static double
window_seconds(const struct ddp_bench *bench)
{
    double begin = bench->rank[0].begin, end = bench->rank[0].end;
    for (int rank = 1; rank < bench->world; rank++) {
        begin = fmin(begin, bench->rank[rank].begin);
        end   = fmax(end, bench->rank[rank].end);
    }
    return end - begin;
}

static double
cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* All ranks begin and end together; rank 0 adds up what a sample's windows took. */
static bool
run_window(struct task *me, struct process_group *group, struct ddp_bench *bench, enum timed part, int sample)
{
    int              rank   = process_group_rank(group);
    struct ddp_rank *one    = &bench->rank[rank];
    double           calls  = (double)bench->calls[part] * bench->slices;
    bool             ok     = group_barrier_now(me, group);
    double           cpu    = cpu_seconds();
    long             before = bench_allocations();
    one->begin = bench_now();
    ok         = ok && run_part(me, group, bench, one, part);
    one->end   = bench_now();
    ok         = ok && group_barrier_now(me, group);
    double spent = cpu_seconds() - cpu, taken = (double)(bench_allocations() - before);
    if (bench->in_job)
        ok = ok && share_window(me, group, bench, &spent, &taken);
    if (rank == 0) {
        bench->us[part][sample] += window_seconds(bench) * 1e6 / calls;
        bench->cpu_us[part][sample] += spent * 1e6 / calls;
        if (part == TIMED_STEP && before >= 0)
            bench->allocations += taken / (calls * BENCH_SAMPLES);
    }
    return ok && group_barrier_now(me, group);
}

/* Between processes: what rank 0 has found is the others', too. */
static bool
share_fit(struct task *me, struct process_group *group, struct ddp_bench *bench)
{
    double mine[TIMED_COUNT + 1] = { bench->slices }, all[BENCH_RANKS * (TIMED_COUNT + 1)];
    for (int part = 0; part < TIMED_COUNT; part++)
        mine[part + 1] = bench->calls[part];
    if (!bench->in_job)
        return true;
    bool ok = bench_tell(me, group, mine, TIMED_COUNT + 1, all);
    for (int part = 0; part < TIMED_COUNT && ok; part++)
        bench->calls[part] = (int)all[part + 1];
    bench->slices = ok ? (int)all[0] : 1;
    return ok;
}

/* How many calls a window has, so that a sample's windows of one part last as long as they should: rank 0 tells all. */
static bool
fit_windows(struct task *me, struct process_group *group, struct ddp_bench *bench)
{
    double window = train_window(bench->options) / 2;
    bool   ok     = true, first = process_group_rank(group) == 0;
    for (int part = 0; part < TIMED_COUNT && ok; part++) {
        double warm = 0;
        for (int round = 0; round < 2 && ok; round++) {
            warm = bench->us[part][0];
            ok   = run_window(me, group, bench, (enum timed)part, 0);
        }
        if (!first)
            continue;
        double us = bench->us[part][0] - warm;
        bench->us[part][0] = bench->cpu_us[part][0] = 0;
        bench->calls[part] = (int)fmax(1, fmin(20000, window / DDP_SLICES * 1e6 / us));
        if (part == TIMED_STEP)
            bench->slices = (int)fmax(1, fmin(DDP_SLICES, window * 1e6 / us));
    }
    if (first)
        bench->allocations = bench_allocations() < 0 ? -1 : 0;
    return ok && group_barrier_now(me, group) && share_fit(me, group, bench);
}

static bool
take_samples(struct task *me, struct process_group *group, struct ddp_bench *bench)
{
    bool ok = fit_windows(me, group, bench);
    for (int sample = 0; sample < BENCH_SAMPLES && ok; sample++) {
        for (int slice = 0; slice < bench->slices && ok; slice++)
            for (int part = 0; part < TIMED_COUNT && ok; part++)
                ok = run_window(me, group, bench, (enum timed)part, sample);
        if (process_group_rank(group) == 0)
            bench->cost[sample] = bench->us[TIMED_STEP][sample] / bench->us[TIMED_LOCAL][sample];
    }
    ddp_set_sync(bench->rank[process_group_rank(group)].train.model, true);
    return ok;
}

/* ---- whether it was right ---- */

static bool
same_elements(const struct tensor *a, const struct tensor *b)
{
    return a != NULL && b != NULL && tensor_bytes(a) == tensor_bytes(b) &&
           memcmp(tensor_elements(a), tensor_elements(b), (size_t)tensor_bytes(a)) == 0;
}

/* Between processes: each compares its own with rank 0's, and tells the others, with its losses. */
static bool
compare_processes(struct task *me, struct process_group *group, struct ddp_bench *bench, bool gradients)
{
    struct train           *train = &bench->rank[process_group_rank(group)].train;
    const struct optimizer *mine  = train->optimizer;
    size_t                  mark  = scope_mark(me);
    bool                    ok    = true;
    for (int i = 0; i < optimizer_count(mine) && ok; i++) {
        const struct tensor *param = optimizer_state(mine, i)->param, *own = gradients ? param->grad : param;
        struct tensor       *first = own != NULL ? tensor_empty_like(me, own->dtype, DEVICE_CPU, own) : NULL;
        if (first != NULL)
            memcpy(tensor_elements(first), tensor_elements(own), (size_t)tensor_bytes(own));
        ok          = first != NULL && group_broadcast_now(me, group, first, 0);
        bench->same = bench->same && same_elements(first, own);
    }
    scope_release(me, mark);
    double words[3] = { bench->same, train->first_loss, train->last_loss }, all[3 * BENCH_RANKS];
    ok = ok && bench_tell(me, group, words, 3, all);
    for (int rank = 0; rank < bench->world && ok; rank++) {
        bench->same = bench->same && all[3 * rank] > 0;
        bench->rank[rank].train.first_loss = all[3 * rank + 1];
        bench->rank[rank].train.last_loss  = all[3 * rank + 2];
    }
    return ok;
}

/* Rank 0 reads the others' memory while they wait. */
static bool
compare_ranks(struct task *me, struct process_group *group, struct ddp_bench *bench, bool gradients)
{
    if (bench->in_job)
        return compare_processes(me, group, bench, gradients);
    if (!group_barrier_now(me, group))
        return false;
    const struct optimizer *mine = bench->rank[0].train.optimizer;
    for (int rank = 1; rank < bench->world && process_group_rank(group) == 0; rank++)
        for (int i = 0; i < optimizer_count(mine); i++) {
            const struct tensor *a = optimizer_state(mine, i)->param;
            const struct tensor *b = optimizer_state(bench->rank[rank].train.optimizer, i)->param;
            bench->same = bench->same && same_elements(gradients ? a->grad : a, gradients ? b->grad : b);
        }
    return group_barrier_now(me, group);
}

static bool
first_steps(struct task *me, struct train *train)
{
    bool ok = train_step(me, train, &train->first_loss);
    for (int i = 2; i < FIRST_STEPS && ok; i++)
        ok = train_step(me, train, NULL);
    return ok && train_step(me, train, &train->last_loss);
}

/* Steps under no_sync part the replicas; their gradients are one again in the next step. */
static bool
measure_rank(struct task *me, struct process_group *group, struct ddp_bench *bench)
{
    struct ddp_rank *one = &bench->rank[process_group_rank(group)];
    return train_build(me, &one->train) && wrap_model(me, group, bench, &one->train) && make_pieces(me, bench, one) &&
           first_steps(me, &one->train) && compare_ranks(me, group, bench, false) && take_samples(me, group, bench) &&
           train_step(me, &one->train, NULL) && compare_ranks(me, group, bench, true);
}

static bool
ddp_body(struct task *me, struct process_group *group, void *context)
{
    struct ddp_bench *bench = context;
    struct ddp_rank  *one   = &bench->rank[process_group_rank(group)];
    if (!bench->in_job)
        bench_keep_core(process_group_rank(group), bench->world);
    size_t mark = scope_mark(me);
    bool   ok   = measure_rank(me, group, bench);
    if (one->train.optimizer != NULL)
        train_free(me, &one->train);
    scope_release(me, mark);
    return ok;
}

/* ---- what is told ---- */

/* The mean of the ranks' losses: on a batch of its own a single one's may rise. */
static bool
ranks_learnt(const struct ddp_bench *bench)
{
    double first = 0, last = 0;
    for (int rank = 0; rank < bench->world; rank++) {
        first += bench->rank[rank].train.first_loss;
        last  += bench->rank[rank].train.last_loss;
    }
    return isfinite(last) && last < first;
}

/* Sorted: after bench_report. */
static double
part_median(const struct ddp_bench *bench, enum timed part)
{
    return bench->us[part][BENCH_SAMPLES / 2];
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double
cpu_median(struct ddp_bench *bench, enum timed part)
{
    qsort(bench->cpu_us[part], BENCH_SAMPLES, sizeof *bench->cpu_us[part], by_value);
    return bench->cpu_us[part][BENCH_SAMPLES / 2];
}

static void
report_ddp(struct ddp_bench *bench)
{
    static const char *const metrics[TIMED_COUNT] = { "step", "local", "comm" };
    char   base[120], extra[400], impl[48];
    snprintf(base, sizeof base, ", \"world\": %d, \"cap_mb\": %d, \"params\": %lld, \"pieces\": %d", bench->world,
             bench->cap_mb, (long long)bench->params, bench->pieces);
    snprintf(impl, sizeof impl, "ringside-%s%s", bench->in_job ? bench->options->backend : "local",
             bench->views ? "-views" : "");
    struct bench_line line = { .bench = "ddp_step", .impl = impl, .name = bench->name, .unit = "us", .threads = 1,
                               .count = BENCH_SAMPLES, .ok = bench->same && ranks_learnt(bench) };
    for (int part = TIMED_COUNT - 1; part >= 0; part--) {
        snprintf(extra, sizeof extra, "%s, \"cpu_us\": %.4g", base, cpu_median(bench, (enum timed)part));
        line.metric  = metrics[part];
        line.samples = bench->us[part];
        line.extra   = extra;
        bench_report(bench->options, &line);
    }
    double exposed = part_median(bench, TIMED_STEP) - part_median(bench, TIMED_LOCAL);
    double overlap = fmax(0, fmin(1, 1 - exposed / part_median(bench, TIMED_COMM)));
    double cpu     = cpu_median(bench, TIMED_STEP) / cpu_median(bench, TIMED_LOCAL);
    snprintf(extra, sizeof extra, "%s, \"exposed_us\": %.4g, \"overlap\": %.4g, \"cpu_cost\": %.6g, \"allocs\": %.6g",
             base, exposed, overlap, cpu, bench->allocations);
    line.metric  = "cost";
    line.unit    = "ratio";
    line.samples = bench->cost;
    bench_report(bench->options, &line);
    if (bench->options->json || bench_is_silent(bench->options))
        return;
    printf("            exposed %.4g us, overlap %.2f; of CPU time %.4g", exposed, overlap, cpu);
    if (bench->allocations >= 0)
        printf("; allocations a step, all ranks: %.4g", bench->allocations);
    putchar('\n');
}

static bool
run_ddp_case(const struct ddp_bench *of, const char *model, struct blas *blas)
{
    struct ddp_bench bench = *of;
    for (int rank = 0; rank < bench.world; rank++)
        bench.rank[rank].train = (struct train){ .options = bench.options, .name = model, .data_seed = 1 + rank };
    struct bench_world all = { .size = bench.world, .body = ddp_body, .context = &bench, .blas = blas,
                               .job = bench.options->job };
    if (!bench_world_run(&all, EXECUTOR_FREE))
        return false;
    report_ddp(&bench);
    return true;
}

/* As the peer makes it; and, where there is time, with gradients that are views into the buckets. */
static bool
run_both_ways(const struct bench_options *options, const char *model, int world, int cap_mb, struct blas *blas)
{
    struct ddp_bench bench = { .options = options, .world = world, .cap_mb = cap_mb, .slices = 1,
                               .calls = { 3, 3, 3 }, .same = true, .in_job = options->job != NULL };
    bool ok = true;
    snprintf(bench.name, sizeof bench.name, "%s-w%d-cap%d", model, world, cap_mb);
    int  most = !options->quick && !bench.in_job;
    for (int views = 0; views <= most && ok && bench_wants(options, bench.name); views++) {
        bench.views = views != 0;
        ok          = run_ddp_case(&bench, model, blas);
    }
    return ok;
}

bool
bench_ddp_step(const struct bench_options *options)
{
    static const char *const models[] = { "embed6", "embed384", "mlp64", "mlp512", "mlpwide64" };
    static const int         caps[]   = { 1, 25 };
    struct blas blas;
    bool        fast = options->job == NULL && blas_open(&blas), ok = true; /* a job has its own */
    if (options->threads > 1)
        return true;
    for (size_t i = 0; i < countof(models); i++)
        for (int world = 2; world <= BENCH_RANKS; world *= 2)
            for (size_t cap = 0; bench_has_world(options, world) && cap < countof(caps) && ok; cap++)
                ok = run_both_ways(options, models[i], world, caps[cap], fast ? &blas : NULL);
    return ok;
}

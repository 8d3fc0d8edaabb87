/* bench allreduce: all-reduces of floats between ranks that are threads, or with --backend processes, called from
 * C with no events recorded. "time" is back-to-back calls, as osu_allreduce takes them; "touched" has each rank
 * rewrite its buffer before each, as backward does, and takes the rewriting alone off. bench sim_allreduce: how
 * many messages of rings over 1 MiB the stepped executor moves in a second of CPU time, several rings one after
 * the other, world and tensors included.
 *
 * Interface: bench_allreduce, bench_sim_allreduce. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "c10d/local.h"
#include "cli/bench.h"
#include "cli/bench_world.h"
#include "tensor/tensor.h"

enum { REDUCE_LEAST = 1024, REDUCE_MOST = 64 << 20, SIMULATED_BYTES = 1 << 20,
       SIMULATED_MESSAGES = 400000, QUICK_MESSAGES = 60000 };

/* ---- allreduce ---- */

enum reduce_mode { MODE_PLAIN, MODE_TOUCH_ONLY, MODE_TOUCHED, MODE_COUNT };

struct reduce_bench {
    int         ranks;
    int64_t     bytes;
    const char *algorithm;
    double      window;                       /* s: a sample's */
    int         calls;                        /* in it */
    double      begin[BENCH_RANKS], end[BENCH_RANKS];
    double      plain_us[BENCH_SAMPLES], touched_us[BENCH_SAMPLES];
    bool        right[BENCH_RANKS];
};

static bool
reduce_once(struct task *me, struct process_group *group, struct tensor *tensor, const struct reduce_bench *bench)
{
    const struct collective_options options = { .op = REDUCE_SUM, .algorithm = bench->algorithm };
    return group_all_reduce_now(me, group, tensor, &options);
}

/* Rank r has (r + 1) (i % 5 + 1), so that each sum is exact; afterwards zeros, so that sums of sums stay finite. */
static bool
reduce_check(struct task *me, struct process_group *group, struct tensor *tensor, struct reduce_bench *bench)
{
    float  *floats = tensor_elements(tensor);
    int64_t count  = bench->bytes / (int64_t)sizeof *floats, wrong = 0;
    int     rank   = process_group_rank(group), ranks = bench->ranks;
    for (int64_t i = 0; i < count; i++)
        floats[i] = (float)((rank + 1) * (i % 5 + 1));
    bool ok = reduce_once(me, group, tensor, bench);
    for (int64_t i = 0; i < count; i++)
        wrong += floats[i] != (float)(ranks * (ranks + 1) / 2 * (i % 5 + 1));
    bench->right[rank] = wrong == 0;
    memset(floats, 0, (size_t)bench->bytes);
    return ok;
}

/* Between processes each has its own clock: the slowest rank's time counts. */
static bool
share_sample(struct task *me, struct process_group *group, struct reduce_bench *bench)
{
    int    rank    = process_group_rank(group);
    double mine[2] = { bench->end[rank] - bench->begin[rank], bench->right[rank] };
    double all[2 * BENCH_RANKS];
    if (world_job(process_group_world(group)) == NULL)
        return true;
    bool ok = bench_tell(me, group, mine, 2, all);
    for (int r = 0; r < bench->ranks && ok; r++) {
        bench->begin[r] = 0;
        bench->end[r]   = all[2 * r];
        bench->right[r] = all[2 * r + 1] > 0;
    }
    return ok;
}

/* One sample's calls in one mode: us of a call, from the first rank's begin to the last one's end. */
static bool
reduce_sample(struct task *me, struct process_group *group, struct tensor *tensor, struct reduce_bench *bench,
              enum reduce_mode mode)
{
    int  rank = process_group_rank(group);
    bool ok   = group_barrier_now(me, group);
    bench->begin[rank] = bench_now();
    for (int i = 0; i < bench->calls && ok; i++) {
        if (mode != MODE_PLAIN)
            memset(tensor_elements(tensor), 0, (size_t)bench->bytes);
        __asm__ volatile("" ::: "memory");
        if (mode != MODE_TOUCH_ONLY)
            ok = reduce_once(me, group, tensor, bench);
    }
    bench->end[rank] = bench_now();
    return ok && group_barrier_now(me, group) && share_sample(me, group, bench);
}

/* Between processes a call may take a thousand times as long as between threads: as many fit into a sample's window as
 * the slowest rank says. */
static bool
fit_calls(struct task *me, struct process_group *group, struct tensor *tensor, struct reduce_bench *bench)
{
    enum { TRIED = 3 };
    double all[BENCH_RANKS], slowest = 1e-9;
    if (world_job(process_group_world(group)) == NULL)
        return true;
    bool   ok    = group_barrier_now(me, group);
    double begin = bench_now();
    for (int i = 0; i < TRIED && ok; i++)
        ok = reduce_once(me, group, tensor, bench);
    double mine = (bench_now() - begin) / TRIED;
    ok = ok && bench_tell(me, group, &mine, 1, all);
    for (int r = 0; r < bench->ranks && ok; r++)
        slowest = all[r] > slowest ? all[r] : slowest;
    bench->calls = (int)(bench->window / slowest) + 1;
    return ok;
}

static double
reduce_us(const struct reduce_bench *bench)
{
    double begin = bench->begin[0], end = bench->end[0];
    for (int rank = 1; rank < bench->ranks; rank++) {
        begin = bench->begin[rank] < begin ? bench->begin[rank] : begin;
        end   = bench->end[rank] > end ? bench->end[rank] : end;
    }
    return (end - begin) / bench->calls * 1e6;
}

static bool
reduce_body(struct task *me, struct process_group *group, void *context)
{
    struct reduce_bench *bench = context;
    int64_t              count = bench->bytes / (int64_t)sizeof(float);
    int                  rank  = process_group_rank(group);
    if (world_job(process_group_world(group)) == NULL)
        bench_keep_core(rank, bench->ranks);
    struct tensor *tensor = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count);
    bool           ok     = tensor != NULL && reduce_check(me, group, tensor, bench) &&
                            fit_calls(me, group, tensor, bench);
    for (int sample = 0; sample < BENCH_SAMPLES && ok; sample++) {
        double us[MODE_COUNT] = { 0 };
        for (int mode = MODE_PLAIN; mode < MODE_COUNT && ok; mode++) {
            ok       = reduce_sample(me, group, tensor, bench, (enum reduce_mode)mode);
            us[mode] = reduce_us(bench);
        }
        if (rank != 0)
            continue;
        double touched = us[MODE_TOUCHED] - us[MODE_TOUCH_ONLY];
        bench->plain_us[sample]   = us[MODE_PLAIN];
        bench->touched_us[sample] = touched > 0.001 ? touched : 0.001;
    }
    return ok;
}

static void
report_reduce(const struct bench_options *options, struct reduce_bench *bench, const char *impl, const char *name)
{
    char extra[120];
    bool ok = true;
    for (int rank = 0; rank < bench->ranks; rank++)
        ok = ok && bench->right[rank];
    snprintf(extra, sizeof extra, ", \"bytes\": %lld, \"world\": %d", (long long)bench->bytes, bench->ranks);
    struct bench_line line = { .bench = "allreduce", .impl = impl, .name = name, .metric = "time", .unit = "us",
                               .threads = bench->ranks, .count = BENCH_SAMPLES, .samples = bench->plain_us, .ok = ok,
                               .extra = extra };
    bench_report(options, &line);
    line.metric  = "touched";
    line.samples = bench->touched_us;
    bench_report(options, &line);
}

static bool
run_reduce_case(const struct bench_options *options, int ranks, int64_t bytes, const char *name)
{
    static const struct { const char *impl, *algorithm; } impls[] = {
        { "ringside-local", NULL }, { "ringside-ring", "ring" }, { "ringside-tree", "tree" },
    };
    char   name_of_job[32];
    size_t impl_count = options->job != NULL ? 1 : countof(impls);
    double window = options->quick ? 0.001 : 0.005;
    double guess  = (double)bytes * ranks / 2e10 + (ranks > (int)sysconf(_SC_NPROCESSORS_ONLN) ? 40e-6 : 2e-6) * ranks;
    snprintf(name_of_job, sizeof name_of_job, "ringside-%s", options->backend);
    for (size_t i = 0; i < impl_count; i++) {
        struct reduce_bench bench = { .ranks = ranks, .bytes = bytes, .algorithm = impls[i].algorithm, .window = window,
                                      .calls = (int)(window / guess) + 1 };
        struct bench_world world = { .size = ranks, .body = reduce_body, .context = &bench,
                                     .job = options->job };
        if (!bench_world_run(&world, EXECUTOR_FREE))
            return false;
        report_reduce(options, &bench, options->job != NULL ? name_of_job : impls[i].impl, name);
    }
    return true;
}

bool
bench_allreduce(const struct bench_options *options)
{
    bool ok = true;
    for (int ranks = 2; ranks <= BENCH_RANKS; ranks *= 2)
        for (int64_t bytes = REDUCE_LEAST; bytes <= REDUCE_MOST && ok; bytes *= 4) {
            char name[48];
            snprintf(name, sizeof name, "allreduce-w%d-%lld", ranks, (long long)bytes);
            if (bench_has_world(options, ranks) && bench_wants(options, name) &&
                (options->threads == 0 || options->threads == ranks))
                ok = run_reduce_case(options, ranks, bytes, name);
        }
    return ok;
}

/* ---- sim_allreduce ---- */

struct simulation { int ranks, rings, wrong; };

/* All elements are `value`; they become `sum`. */
static bool
simulate_ring(struct task *me, struct process_group *group, struct tensor *tensor, float value, float sum)
{
    const struct collective_options options = { .algorithm = "ring" };
    int64_t last = SIMULATED_BYTES / (int64_t)sizeof(float) - 1;
    float  *data = tensor_elements(tensor);
    bool    done = data[0] == value && group_all_reduce_now(me, group, tensor, &options);
    return done && data[0] == sum && data[last] == sum;
}

/* Ones in the first ring, then zeros, so that the sums of sums stay what they are. */
static bool
simulate_body(struct task *me, struct process_group *group, void *context)
{
    struct simulation *simulation = context;
    int64_t            count      = SIMULATED_BYTES / (int64_t)sizeof(float);
    struct tensor     *tensor     = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count), 1);
    if (tensor == NULL)
        return false;
    for (int ring = 0; ring < simulation->rings; ring++) {
        bool first = ring == 0;
        bool right = simulate_ring(me, group, tensor, first, first ? (float)simulation->ranks : 0);
        simulation->wrong += !right;
        if (task_failed(me))
            return false;
        if (first)
            memset(tensor_elements(tensor), 0, SIMULATED_BYTES);
    }
    return true;
}

static double
cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool
run_simulation(const struct bench_options *options, int ranks, const char *name)
{
    double            samples[BENCH_SAMPLES];
    double            messages   = 2.0 * ranks * (ranks - 1);
    double            most       = options->quick ? QUICK_MESSAGES : SIMULATED_MESSAGES;
    struct simulation simulation = { .ranks = ranks, .rings = (int)(most / messages) + 1 };
    messages *= simulation.rings;
    for (int i = 0; i < BENCH_SAMPLES; i++) {
        struct bench_world world = { .size = ranks, .body = simulate_body, .context = &simulation };
        double              begin = cpu_seconds();
        if (!bench_world_run(&world, EXECUTOR_STEPPED))
            return false;
        samples[i] = messages / (cpu_seconds() - begin);
    }
    struct rusage usage;
    char          extra[80];
    getrusage(RUSAGE_SELF, &usage);
    snprintf(extra, sizeof extra, ", \"messages\": %.0f, \"rss_kb\": %ld", messages, usage.ru_maxrss);
    struct bench_line line = { .bench = "sim_allreduce", .impl = "ringside-stepped", .name = name,
                               .metric = "messages/cpu_s", .unit = "messages/cpu_s", .threads = 1,
                               .count = BENCH_SAMPLES, .samples = samples, .ok = simulation.wrong == 0,
                               .extra = extra };
    bench_report(options, &line);
    return true;
}

bool
bench_sim_allreduce(const struct bench_options *options)
{
    static const int ranks[] = { 8, 64, 256, 1024 };
    bool             ok      = true;
    for (size_t i = 0; i < countof(ranks) && ok; i++) {
        char name[32];
        snprintf(name, sizeof name, "ring-%d", ranks[i]);
        if (bench_wants(options, name) && (options->only_case != NULL || !options->quick || ranks[i] <= 256))
            ok = run_simulation(options, ranks[i], name);
    }
    return ok;
}

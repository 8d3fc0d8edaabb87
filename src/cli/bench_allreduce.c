/* bench allreduce: all-reduces of floats between ranks that are threads, called from C with no events recorded.
 * "time" is back-to-back calls, as osu_allreduce takes them; "touched" has each rank rewrite its buffer before each, as
 * backward does, and takes the rewriting alone off. bench sim_allreduce: how many messages of rings over 1 MiB the
 * stepped executor moves in a second of CPU time, several rings one after the other, world and tensors included.
 *
 * Interface: bench_allreduce, bench_sim_allreduce. */
#include <pthread.h>
#include <sched.h>
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
#include "cli/message.h"
#include "device/device.h"
#include "hw/cost.h"
#include "sched/sched.h"
#include "tensor/tensor.h"
#include "trace/writer.h"

enum { REDUCE_RANKS = 4, REDUCE_LEAST = 1024, REDUCE_MOST = 64 << 20, SIMULATED_BYTES = 1 << 20,
       SIMULATED_MESSAGES = 400000, QUICK_MESSAGES = 60000 };

/* ---- a world of ranks ---- */

struct reduce_world {
    int           size;
    bool        (*body)(struct task *me, struct process_group *group, void *context);
    void         *context;
    struct world *world;
};
struct reduce_rank { struct reduce_world *world; int rank; struct task *task; };

static bool
reduce_rank_main(struct task *me, void *argument)
{
    struct reduce_rank  *one     = argument;
    struct reduce_world *all     = one->world;
    struct rank_context  context = { .world = all->world, .rank = one->rank };
    rank_context_set(me, &context);
    struct process_group *group = process_group_rendezvous(me, all->world, one->rank);
    bool                  ok    = group != NULL && all->body(me, group, all->context);
    world_rank_ended(me, all->world, one->rank);
    return process_group_destroy(me, group) && ok;
}

static bool
reduce_world_main(struct task *me, void *argument)
{
    struct reduce_world *all     = argument;
    struct world_options options = { .size = all->size };
    struct reduce_rank  *ranks   = calloc((size_t)all->size, sizeof *ranks);
    all->world = ranks != NULL ? world_new(me, &options) : NULL;
    bool ok = all->world != NULL && devices_ready(me, 0);
    for (int rank = 0; rank < all->size && ok; rank++) {
        char name[32];
        snprintf(name, sizeof name, "r%d main", rank);
        struct task_options of_task = { .name = name, .rank = rank, .device = DEVICE_CPU };
        ranks[rank] = (struct reduce_rank){ .world = all, .rank = rank };
        ranks[rank].task = task_spawn(me, &of_task, reduce_rank_main, &ranks[rank]);
        ok = ranks[rank].task != NULL;
    }
    for (int rank = 0; rank < all->size && ranks != NULL && ranks[rank].task != NULL; rank++)
        ok = task_join(me, ranks[rank].task, NULL) && ok;
    if (all->world != NULL)
        world_free(me, all->world);
    free(ranks);
    return ok;
}

static bool
reduce_world_run(struct reduce_world *all, enum executor_kind executor)
{
    char              why[300];
    struct cost_model cost;
    struct error      error;
    cost_preset(&cost, "classroom");
    struct sched_options options = { .executor = executor, .cost = &cost, .no_race_check = true };
    struct sched        *sched   = sched_new(&options, why, sizeof why);
    bool                 ok      = sched != NULL && sched_run(sched, reduce_world_main, all, &error);
    if (!ok)
        message(0, "bench: %s", sched == NULL ? why : error.message);
    if (sched != NULL) {
        devices_free(sched);
        sched_free(sched);
    }
    return ok;
}

/* ---- allreduce ---- */

enum reduce_mode { MODE_PLAIN, MODE_TOUCH_ONLY, MODE_TOUCHED, MODE_COUNT };

struct reduce_bench {
    int         ranks;
    int64_t     bytes;
    const char *algorithm;
    int         calls;                        /* a sample's */
    double      begin[REDUCE_RANKS], end[REDUCE_RANKS];
    double      plain_us[BENCH_SAMPLES], touched_us[BENCH_SAMPLES];
    bool        right[REDUCE_RANKS];
};

/* A core for each, as the peers have them, where there are so many. */
static void
keep_core(int rank, int ranks)
{
    cpu_set_t cores;
    if (ranks > (int)sysconf(_SC_NPROCESSORS_ONLN))
        return;
    CPU_ZERO(&cores);
    CPU_SET(rank, &cores);
    (void)pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

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
    return ok && group_barrier_now(me, group);
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
    keep_core(rank, bench->ranks);
    struct tensor *tensor = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count);
    bool           ok     = tensor != NULL && reduce_check(me, group, tensor, bench);
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
    double window = options->quick ? 0.001 : 0.005;
    double guess  = (double)bytes * ranks / 2e10 + (ranks > (int)sysconf(_SC_NPROCESSORS_ONLN) ? 40e-6 : 2e-6) * ranks;
    for (size_t i = 0; i < countof(impls); i++) {
        struct reduce_bench bench = { .ranks = ranks, .bytes = bytes, .algorithm = impls[i].algorithm,
                                      .calls = (int)(window / guess) + 1 };
        struct reduce_world world = { .size = ranks, .body = reduce_body, .context = &bench };
        if (!reduce_world_run(&world, EXECUTOR_FREE))
            return false;
        report_reduce(options, &bench, impls[i].impl, name);
    }
    return true;
}

bool
bench_allreduce(const struct bench_options *options)
{
    bool ok = true;
    for (int ranks = 2; ranks <= REDUCE_RANKS; ranks *= 2)
        for (int64_t bytes = REDUCE_LEAST; bytes <= REDUCE_MOST && ok; bytes *= 4) {
            char name[48];
            snprintf(name, sizeof name, "allreduce-w%d-%lld", ranks, (long long)bytes);
            if (bench_wants(options, name) && (options->threads == 0 || options->threads == ranks))
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
        struct reduce_world world = { .size = ranks, .body = simulate_body, .context = &simulation };
        double              begin = cpu_seconds();
        if (!reduce_world_run(&world, EXECUTOR_STEPPED))
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

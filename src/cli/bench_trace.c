/* bench trace_cost: what one event costs the thread that is traced. Pages are ready (the same chunk is written over
 * and over); preparing fresh ones is a line of its own. */
#include <stdio.h>
#include <string.h>
#include "cli/bench.h"
#include "cli/message.h"
#include "hw/cost.h"
#include "sched/stage.h"
#include "trace/clock.h"
#include "trace/writer.h"

struct probe {
    const struct bench_options *options;
    const char                 *name;
    bool                        off;   /* measure with the category switched off */
    double                      samples[BENCH_SAMPLES];
    bool                        ok;
};

enum { EVENTS = 1 << 20, PER_CHUNK = (int)((TRACE_CHUNK - sizeof(struct chunk_head)) / sizeof(struct trace_event)) };

/* One pass over a chunk, from its first slot again. */
static void
rewind_buffer(struct trace_buffer *buffer, struct trace_event *first)
{
    buffer->next = first;
}

static double
pass(struct task *me, struct trace_event *first, int events)
{
    double begin = bench_now();
    for (int done = 0; done < events; done += PER_CHUNK) {
        rewind_buffer(me->buffer, first);
        for (int i = 0; i < PER_CHUNK; i++) {
            POINT(me, kernel, i, done);
            __asm__ volatile("" ::: "memory");
        }
    }
    return bench_now() - begin;
}

static double
empty_pass(int events)
{
    double begin = bench_now();
    for (int done = 0; done < events; done += PER_CHUNK)
        for (int i = 0; i < PER_CHUNK; i++)
            __asm__ volatile("" ::"r"(i) : "memory");
    return bench_now() - begin;
}

static bool
measure_points(struct task *me, void *argument)
{
    struct probe *probe  = argument;
    int           events = probe->options->quick ? EVENTS / 4 : EVENTS;
    int           rounds = (events + PER_CHUNK - 1) / PER_CHUNK * PER_CHUNK;
    POINT(me, kernel, 0);
    struct trace_event *first  = me->buffer->end - PER_CHUNK;
    uint64_t            before = me->buffer->count;
    if (probe->off)
        stage_category(me->sched, KIND_kernel, false);
    pass(me, first, PER_CHUNK);
    for (int i = 0; i < BENCH_SAMPLES; i++)
        probe->samples[i] = pass(me, first, events) / rounds * 1e9;
    uint64_t written = me->buffer->count - before;
    uint64_t all     = (uint64_t)PER_CHUNK + (uint64_t)BENCH_SAMPLES * (uint64_t)rounds;
    probe->ok        = written == (probe->off ? 0 : all);
    if (probe->off)
        for (int i = 0; i < BENCH_SAMPLES; i++)
            probe->samples[i] -= empty_pass(events) / rounds * 1e9;
    return true;
}

/* Fresh chunks: what trace_buffer_more costs, spread over the events of a chunk. */
static bool
measure_pages(struct task *me, void *argument)
{
    struct probe *probe  = argument;
    int           chunks = probe->options->quick ? 16 : 64;
    for (int i = 0; i < BENCH_SAMPLES; i++) {
        double begin = bench_now();
        for (int chunk = 0; chunk < chunks; chunk++) {
            me->buffer->next = me->buffer->end;
            POINT(me, kernel, chunk);
        }
        probe->samples[i] = (bench_now() - begin) / chunks / PER_CHUNK * 1e9;
    }
    probe->ok = true;
    return true;
}

static bool
run_probe(struct probe *probe, enum executor_kind executor, bool (*measure)(struct task *me, void *argument))
{
    char                 why[300];
    struct cost_model    cost;
    struct error         error;
    struct trace_options trace = { .clock = executor == EXECUTOR_FREE ? trace_wall_clock() : CLOCK_VIRTUAL_PS };
    cost_preset(&cost, "classroom");
    struct trace_writer *writer = trace_create(&trace, why, sizeof why);
    if (writer == NULL)
        return message(STATUS_FAILED, "bench: %s", why) == 0;
    struct sched_options options = { .executor = executor, .writer = writer, .cost = &cost, .no_race_check = true };
    struct sched        *sched   = sched_new(&options, why, sizeof why);
    bool                 ok      = sched != NULL && sched_run(sched, measure, probe, &error);
    sched_free(sched);
    trace_close(writer);
    if (!ok)
        return message(STATUS_FAILED, "bench: %s", sched == NULL ? why : error.message) == 0;
    struct bench_line line = { .bench = "trace_cost", .impl = "ringside", .name = probe->name, .metric = "per_event",
                               .unit = "ns", .threads = 1, .count = BENCH_SAMPLES, .samples = probe->samples,
                               .ok = probe->ok, .extra = "" };
    bench_report(probe->options, &line);
    return true;
}

static void
report_size(const struct bench_options *options)
{
    double sizes[BENCH_SAMPLES];
    for (int i = 0; i < BENCH_SAMPLES; i++)
        sizes[i] = sizeof(struct trace_event);
    struct bench_line line = { .bench = "trace_cost", .impl = "ringside", .name = "stage-event", .metric = "size",
                               .unit = "B", .threads = 1, .count = BENCH_SAMPLES, .samples = sizes, .ok = true,
                               .extra = "" };
    bench_report(options, &line);
}

bool
bench_trace_cost(const struct bench_options *options)
{
    struct probe stage = { .options = options, .name = "stage-event" };
    struct probe virt  = { .options = options, .name = "virtual-time" };
    struct probe off   = { .options = options, .name = "disabled-branch", .off = true };
    struct probe pages = { .options = options, .name = "page-preparation" };
    bool         ok    = true;
    if (bench_wants(options, stage.name)) {
        ok = run_probe(&stage, EXECUTOR_FREE, measure_points);
        report_size(options);
    }
    if (bench_wants(options, virt.name))
        ok = run_probe(&virt, EXECUTOR_STEPPED, measure_points) && ok;
    if (bench_wants(options, off.name))
        ok = run_probe(&off, EXECUTOR_STEPPED, measure_points) && ok;
    if (bench_wants(options, pages.name))
        ok = run_probe(&pages, EXECUTOR_STEPPED, measure_pages) && ok;
    return bench_trace_steps(options) && ok;
}

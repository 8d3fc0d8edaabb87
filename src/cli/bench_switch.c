/* bench switch: N tasks hand the baton round. "handover" is the bare switch by clock; "event" adds a trace event. */
#include <stdio.h>
#include <stdlib.h>
#include "cli/bench.h"
#include "cli/message.h"
#include "hw/cost.h"
#include "sched/stage.h"
#include "trace/writer.h"

struct relay {
    int     tasks;
    int64_t turns, done;     /* per task; in all */
    bool    events;
};

static bool
run_leg(struct task *me, void *argument)
{
    struct relay *relay = argument;
    for (int64_t i = 0; i < relay->turns; i++) {
        relay->done++;
        if (relay->events)
            POINT(me, kernel, i);
        sched_advance(me, 10);
    }
    return true;
}

static bool
run_relay(struct task *me, void *argument)
{
    struct relay *relay = argument;
    struct task **tasks = calloc((size_t)relay->tasks, sizeof(struct task *));
    if (tasks == NULL)
        return failed(me, E_MEMORY, "out of memory");
    bool ok = true;
    for (int i = 0; i < relay->tasks && ok; i++) {
        struct task_options options = { .name = "runner", .rank = TASK_INHERIT, .device = TASK_INHERIT };
        tasks[i] = task_spawn(me, &options, run_leg, relay);
        ok       = tasks[i] != NULL;
    }
    for (int i = 0; i < relay->tasks && tasks[i] != NULL; i++)
        ok = task_join(me, tasks[i], NULL) && ok;
    free(tasks);
    return ok;
}

static bool
time_relay(struct relay *relay, double *ns)
{
    char                 why[300];
    struct cost_model    cost;
    struct error         error;
    struct trace_options trace = { .clock = CLOCK_VIRTUAL_PS };
    cost_preset(&cost, "classroom");
    struct trace_writer *writer = trace_create(&trace, why, sizeof why);
    struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer, .cost = &cost,
                                     .no_race_check = true };
    struct sched        *sched   = writer != NULL ? sched_new(&options, why, sizeof why) : NULL;
    if (sched == NULL) {
        if (writer != NULL)
            trace_close(writer);
        return message(STATUS_FAILED, "bench: %s", why) == 0;
    }
    relay->done  = 0;
    double begin = bench_now();
    bool   ok    = sched_run(sched, run_relay, relay, &error);
    *ns          = (bench_now() - begin) / (double)(relay->turns * relay->tasks) * 1e9;
    sched_free(sched);
    trace_close(writer);
    return ok || message(STATUS_FAILED, "bench: %s", error.message) == 0;
}

static bool
run_switch_case(const struct bench_options *options, int tasks, bool events)
{
    char   name[32];
    double samples[BENCH_SAMPLES];
    snprintf(name, sizeof name, "tasks-%d", tasks);
    if (!bench_wants(options, name))
        return true;
    struct relay relay = { .tasks = tasks, .turns = (options->quick ? 50000 : 400000) / tasks, .events = events };
    for (int i = 0; i < BENCH_SAMPLES; i++)
        if (!time_relay(&relay, &samples[i]))
            return false;
    struct bench_line line = { .bench = "switch", .impl = "ringside-stepped", .name = name,
                               .metric = events ? "event" : "handover", .unit = "ns", .threads = 1,
                               .count = BENCH_SAMPLES, .samples = samples,
                               .ok = relay.done == relay.turns * tasks, .extra = "" };
    bench_report(options, &line);
    return true;
}

bool
bench_switch(const struct bench_options *options)
{
    static const int tasks[] = { 2, 8, 64, 512 };
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        for (int events = 0; events <= 1; events++)
            if (!run_switch_case(options, tasks[i], events != 0))
                return false;
    return true;
}

/* bench trace_cost, case embed6: a training step of Embedding(1000, 10) and Linear(10, 10) on six indices, in C, with
 * every category recorded against none. */
#include "autograd/call.h"
#include "autograd/engine.h"
#include "cli/bench.h"
#include "cli/message.h"
#include "device/device.h"
#include "hw/cost.h"
#include "nn/layers.h"
#include "optim/optimizer.h"
#include "sched/stage.h"
#include "tensor/tensor.h"
#include "trace/clock.h"
#include "trace/writer.h"

struct embed6 {
    const struct bench_options *options;
    struct module              *model;
    struct tensor              *indices;
    struct optimizer           *optimizer;
    double                      slowdown[BENCH_SAMPLES], step_us[BENCH_SAMPLES];
    double                      first_loss, last_loss;
};

static bool
train_step(struct task *me, struct embed6 *bench, double *loss_out)
{
    size_t         mark = scope_mark(me);
    bool           ok   = optimizer_zero_grad(me, bench->optimizer, true);
    struct tensor *loss = tensor_sum(me, module_forward_tensor(me, bench->model, bench->indices));
    ok = ok && loss != NULL && autograd_backward(me, &loss, NULL, 1, NULL);
    ok = ok && optimizer_step(me, bench->optimizer);
    if (ok && loss_out != NULL)
        ok = tensor_item(me, loss, loss_out);
    scope_release(me, mark);
    return ok;
}

static bool
build(struct task *me, struct embed6 *bench)
{
    struct named_tensors params  = { 0 };
    struct sgd_options   options = { .lr = 1e-6 };
    int64_t              rows[6] = { 1, 2, 3, 4, 5, 6 }, count = 6;
    struct module       *parts[2] = { nn_embedding(me, 1000, 10, NULL), nn_linear(me, 10, 10, NULL) };
    if (parts[0] == NULL || parts[1] == NULL)
        return false;
    bench->model   = nn_sequential(me, parts, 2);
    bench->indices = tensor_from(me, DTYPE_I64, 1, &count, rows);
    bool ok        = bench->model != NULL && bench->indices != NULL &&
              module_named_parameters(me, bench->model, &params);
    if (ok)
        bench->optimizer = optim_sgd(me, params.tensors, params.count, &options);
    named_tensors_free(&params);
    return ok && bench->optimizer != NULL;
}

static bool
time_steps(struct task *me, struct embed6 *bench, int steps, double *seconds)
{
    bool   ok    = true;
    double begin = bench_now();
    for (int i = 0; i < steps && ok; i++)
        ok = train_step(me, bench, NULL);
    *seconds = bench_now() - begin;
    return ok;
}

static void
record_all(struct task *me, bool on)
{
    for (int kind = 1; kind < KIND_COUNT; kind++)
        stage_category(me->sched, (enum kind)kind, on);
}

static bool
measure(struct task *me, void *argument)
{
    struct embed6 *bench = argument;
    int            steps = bench->options->quick ? 500 : 3000;
    double         on = 0, off = 0;
    record_all(me, false);
    bool ok = build(me, bench) && train_step(me, bench, &bench->first_loss) && time_steps(me, bench, steps, &off);
    for (int i = 0; i < BENCH_SAMPLES && ok; i++) {
        ok = time_steps(me, bench, steps, &off);
        record_all(me, true);
        ok = ok && time_steps(me, bench, steps, &on);
        record_all(me, false);
        bench->slowdown[i] = on / off;
        bench->step_us[i]  = off / steps * 1e6;
    }
    ok = ok && train_step(me, bench, &bench->last_loss);
    if (bench->optimizer != NULL)
        optimizer_free(me, bench->optimizer);
    return ok;
}

static void
report(struct embed6 *bench)
{
    struct bench_line line = { .bench = "trace_cost", .impl = "ringside", .name = "embed6", .threads = 1,
                               .count = BENCH_SAMPLES, .ok = bench->last_loss < bench->first_loss, .extra = "" };
    line.metric  = "slowdown";
    line.unit    = "ratio";
    line.samples = bench->slowdown;
    bench_report(bench->options, &line);
    line.metric  = "step";
    line.unit    = "us";
    line.samples = bench->step_us;
    bench_report(bench->options, &line);
}

bool
bench_embed6(const struct bench_options *options)
{
    char                 why[300];
    struct embed6        bench = { .options = options };
    struct cost_model    cost;
    struct error         error;
    struct trace_options trace = { .clock = trace_wall_clock(), .prepare = true };
    cost_preset(&cost, "classroom");
    struct trace_writer *writer  = trace_create(&trace, why, sizeof why);
    struct sched_options choices = { .executor = EXECUTOR_FREE, .writer = writer, .cost = &cost };
    struct sched        *sched   = writer != NULL ? sched_new(&choices, why, sizeof why) : NULL;
    bool                 ok      = sched != NULL && sched_run(sched, measure, &bench, &error);
    if (!ok)
        message(STATUS_FAILED, "bench: %s", sched == NULL ? why : error.message);
    if (sched != NULL) {
        devices_free(sched);
        sched_free(sched);
    }
    if (writer != NULL)
        trace_close(writer);
    if (ok)
        report(&bench);
    return ok;
}

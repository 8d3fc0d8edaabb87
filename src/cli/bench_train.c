/* bench train_step: whole training steps of models that PyTorch's peer builds the same way, on one thread. "ringside"
 * calls the engine from C with no events recorded, "ringside-lua" is a lesson with all stages on.
 *
 * Interface: bench_train_step. In PyTorch: zero_grad, forward and loss, backward, step; gradients are set to none. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/engine.h"
#include "base/vec.h"
#include "cli/bench_train.h"
#include "cli/message.h"
#include "device/device.h"
#include "functional/functional.h"
#include "hw/cost.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "sched/sched.h"
#include "tensor/tensor.h"
#include "trace/clock.h"
#include "trace/writer.h"

double
train_window(const struct bench_options *options)
{
    return options->quick ? 0.04 : 0.2;
}

/* The counter is another library's, loaded before this program (src/plugins/allocations.c). */
long
bench_allocations(void)
{
    long (*seen)(void);
    void *found = dlsym(RTLD_DEFAULT, "allocations_seen");
    memcpy(&seen, &found, sizeof seen);
    return seen != NULL ? seen() : -1;
}

/* ---- steps ---- */

struct tensor *
train_forward(struct task *me, struct train *train)
{
    struct tensor *output = module_forward_tensor(me, train->model, train->input);
    if (train->target == NULL)
        return tensor_sum(me, output);
    return (train->target->dtype == DTYPE_I64 ? cross_entropy : mse_loss)(me, output, train->target);
}

bool
train_step(struct task *me, struct train *train, double *loss_out)
{
    size_t         mark = scope_mark(me);
    bool           ok   = optimizer_zero_grad(me, train->optimizer, true);
    struct tensor *loss = train_forward(me, train);
    ok = ok && loss != NULL && autograd_backward(me, &loss, NULL, 1, NULL);
    ok = ok && optimizer_step(me, train->optimizer);
    if (ok && loss_out != NULL)
        ok = tensor_item(me, loss, loss_out);
    scope_release(me, mark);
    return ok;
}

static bool
train_step_in_phases(struct task *me, struct train *train)
{
    size_t         mark = scope_mark(me);
    double         begin = bench_now();
    bool           ok   = optimizer_zero_grad(me, train->optimizer, true);
    struct tensor *loss = train_forward(me, train);
    double         middle = bench_now();
    ok = ok && loss != NULL && autograd_backward(me, &loss, NULL, 1, NULL);
    double late = bench_now();
    ok = ok && optimizer_step(me, train->optimizer);
    double end = bench_now();
    scope_release(me, mark);
    train->phase_us[0] += (middle - begin) * 1e6 / TRAIN_PHASES;
    train->phase_us[1] += (late - middle) * 1e6 / TRAIN_PHASES;
    train->phase_us[2] += (end - late) * 1e6 / TRAIN_PHASES;
    return ok;
}

bool
train_time_steps(struct task *me, struct train *train, int steps, double *us)
{
    bool   ok    = true;
    double begin = bench_now();
    for (int i = 0; i < steps && ok; i++)
        ok = train_step(me, train, NULL);
    *us = (bench_now() - begin) / steps * 1e6;
    return ok;
}

bool
train_steps_per_window(struct task *me, struct train *train, int *steps)
{
    double begin = bench_now(), us = 0;
    bool   ok = true;
    for (int i = 0; ok && (i < 3 || bench_now() - begin < 0.08); i++)
        ok = train_time_steps(me, train, 3, &us);
    *steps = (int)(train_window(train->options) * 1e6 / (us > 0 ? us : 1));
    *steps = *steps > 0 ? *steps : 1;
    return ok;
}

bool
train_measure(struct task *me, void *argument)
{
    struct train *train = argument;
    int           steps = 1;
    bool          ok    = train_build(me, train) && train_step(me, train, &train->first_loss) &&
              train_steps_per_window(me, train, &steps);
    long before = bench_allocations();
    for (int i = 0; i < BENCH_SAMPLES && ok; i++)
        ok = train_time_steps(me, train, steps, &train->samples[i]);
    train->allocations = before < 0 ? -1 : (double)(bench_allocations() - before) / ((double)BENCH_SAMPLES * steps);
    for (int i = 0; i < TRAIN_PHASES && ok; i++)
        ok = train_step_in_phases(me, train);
    ok = ok && train_step(me, train, &train->last_loss);
    train_free(me, train);
    return ok;
}

/* ---- runs ---- */

void
train_free(struct task *me, struct train *train)
{
    optimizer_free(me, train->optimizer);
    train->optimizer = NULL;
}

bool
train_learnt(const struct train *train)
{
    return isfinite(train->last_loss) && train->last_loss < train->first_loss;
}

bool
train_run(struct train *train, bool traced, bool (*measure)(struct task *me, void *argument), void *argument)
{
    char                 why[300];
    struct cost_model    cost;
    struct error         error;
    struct trace_options trace = { .clock = trace_wall_clock(), .prepare = true };
    cost_preset(&cost, "classroom");
    struct trace_writer *writer  = traced ? trace_create(&trace, why, sizeof why) : NULL;
    struct sched_options choices = { .executor = EXECUTOR_FREE, .writer = writer, .cost = &cost };
    struct sched        *sched   = writer != NULL || !traced ? sched_new(&choices, why, sizeof why) : NULL;
    if (sched != NULL)
        blas_use(sched, train->blas);
    bool ok = sched != NULL && sched_run(sched, measure, argument, &error);
    if (!ok)
        message(0, "bench: %s", sched == NULL ? why : error.message);
    if (sched != NULL) {
        devices_free(sched);
        sched_free(sched);
    }
    if (writer != NULL)
        trace_close(writer);
    return ok;
}

static void
report_train(struct train *train, const char *impl)
{
    char extra[200];
    snprintf(extra, sizeof extra,
             ", \"fwd_us\": %.4g, \"bwd_us\": %.4g, \"opt_us\": %.4g, \"allocs\": %.6g, \"first_loss\": %.9g, "
             "\"last_loss\": %.9g",
             train->phase_us[0], train->phase_us[1], train->phase_us[2], train->allocations, train->first_loss,
             train->last_loss);
    struct bench_line line = { .bench = "train_step", .impl = impl, .name = train->name, .metric = "step",
                               .unit = "us", .threads = 1, .count = BENCH_SAMPLES, .samples = train->samples,
                               .ok = train_learnt(train), .extra = extra };
    bench_report(train->options, &line);
    if (!train->options->json)
        printf("            forward %.4g, backward %.4g, step %.4g us", train->phase_us[0], train->phase_us[1],
               train->phase_us[2]);
    if (!train->options->json && train->allocations >= 0)
        printf("; allocations a step: %.4g", train->allocations);
    if (!train->options->json)
        putchar('\n');
}

static bool
run_train_case(const struct bench_options *options, const char *name, struct blas *blas, bool from_lua)
{
    struct train train = { .options = options, .name = name, .blas = blas, .allocations = -1 };
    if (!train_run(&train, from_lua, from_lua ? train_measure_lesson : train_measure, &train))
        return false;
    report_train(&train, from_lua ? "ringside-lua" : "ringside");
    return true;
}

bool
bench_train_step(const struct bench_options *options)
{
    static const char *const names[] = { "embed6", "embed384", "mlp64", "mlp512", "cnn64", "tfm8x64", "lstm32x32" };
    struct blas blas;
    bool        fast = blas_open(&blas), ok = true;
    if (options->threads > 1)
        return true;
    for (size_t i = 0; i < countof(names) && ok; i++)
        for (int from_lua = 0; from_lua <= 1 && ok; from_lua++)
            if (bench_wants(options, names[i]))
                ok = run_train_case(options, names[i], fast ? &blas : NULL, from_lua != 0);
    return ok;
}

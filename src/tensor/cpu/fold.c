/* Reductions that go element by element: products, extremes, all and any, the place of the extreme, variances,
 * means over dimensions; and running sums along one. Elements come in row-major order of the dimensions that are
 * folded, so the first of equal extremes wins. In PyTorch: ATen/native/cpu/ReduceOpsKernel.cpp,
 * ReduceAllOpsKernel.cpp. */
#include <math.h>
#include <string.h>
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/reduce.h"

/* What is known after the elements so far. */
struct fold { double value, mean, spread; int64_t whole, at, count; bool integers; };
typedef void fold_step(struct fold *fold, double x, int64_t n);

static void
step_prod(struct fold *fold, double x, int64_t n)
{
    fold->value *= x;
    fold->whole = (int64_t)((uint64_t)fold->whole * (uint64_t)n);
}

static void
step_all(struct fold *fold, double x, int64_t n)
{
    fold->whole = fold->whole && (fold->integers ? n != 0 : x != 0);
    fold->value = (double)fold->whole;
}

static void
step_any(struct fold *fold, double x, int64_t n)
{
    fold->whole = fold->whole == 2 || (fold->integers ? n != 0 : x != 0) ? 2 : 1;
    fold->value = (double)fold->whole;
}

/* NaN is beyond everything. */
static void
step_max(struct fold *fold, double x, int64_t n)
{
    bool better = fold->integers ? n > fold->whole : x > fold->value || (x != x && fold->value == fold->value);
    if (fold->count > 0 && !better)
        return;
    fold->value = x;
    fold->whole = n;
    fold->at    = fold->count;
}

static void
step_min(struct fold *fold, double x, int64_t n)
{
    bool better = fold->integers ? n < fold->whole : x < fold->value || (x != x && fold->value == fold->value);
    if (fold->count > 0 && !better)
        return;
    fold->value = x;
    fold->whole = n;
    fold->at    = fold->count;
}

/* Welford. */
static void
step_var(struct fold *fold, double x, int64_t n)
{
    (void)n;
    double distance = x - fold->mean;
    fold->mean += distance / (double)(fold->count + 1);
    fold->spread += distance * (x - fold->mean);
}

static void
fold_all(const struct cpu_call *call, const struct cpu_view *view, fold_step *step, struct fold *fold)
{
    const struct cpu_view *views[1] = { view };
    double      buffer[LOOP_CHUNK];
    struct loop loop;
    enum dtype  as = fold->integers ? DTYPE_I64 : DTYPE_F64;
    (void)call;
    for (loop_begin(&loop, views, 1); loop.more; loop_next(&loop)) {
        for (int64_t done = 0; done < loop.run; done += LOOP_CHUNK) {
            int64_t     count = loop.run - done < LOOP_CHUNK ? loop.run - done : LOOP_CHUNK;
            struct run  run = loop_part(&loop, 0, done, count);
            const void *x = run_load(buffer, as, &run);
            for (int64_t i = 0; i < count; i++, fold->count++)
                step(fold, fold->integers ? 0 : ((const double *)x)[i], fold->integers ? ((const int64_t *)x)[i] : 0);
        }
    }
}

enum answer { ANSWER_VALUE, ANSWER_PLACE, ANSWER_TRUTH, ANSWER_VARIANCE, ANSWER_DEVIATION };

static void
answer_fold(const struct cpu_call *call, char *to, const struct fold *fold, enum answer which)
{
    double  value = fold->value;
    int64_t whole = which == ANSWER_PLACE ? fold->at : fold->whole;
    if (which >= ANSWER_VARIANCE) {
        double freedom = (double)fold->count - call->alpha;
        value = fold->count > 0 && freedom > 0 ? fold->spread / freedom : freedom == 0 && fold->count > 0 ? NAN :
                fold->count > 0 ? INFINITY : NAN;
        value = which == ANSWER_DEVIATION ? sqrt(value) : value;
    }
    if (which == ANSWER_TRUTH)
        whole = call->start ? whole == 2 : whole != 0;
    if (which == ANSWER_PLACE || which == ANSWER_TRUTH || (fold->integers && which == ANSWER_VALUE))
        cpu_convert_one(to, call->out.dtype, &whole, DTYPE_I64);
    else
        cpu_convert_one(to, call->out.dtype, &value, DTYPE_F64);
}

static void
fold_each(const struct cpu_call *call, fold_step *step, double first, enum answer which)
{
    struct parts           parts = take_apart(call);
    const struct cpu_view *views[2] = { &parts.out, &parts.kept };
    struct loop            loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            struct fold fold = { .value = first, .whole = (int64_t)first, .integers = call->compute == DTYPE_I64 };
            parts.summed.data = loop.at[1] + i * loop.step[1];
            fold_all(call, &parts.summed, step, &fold);
            answer_fold(call, loop.at[0] + i * loop.step[0], &fold, which);
        }
    }
}

void
fold_prod(const struct cpu_call *call)
{
    fold_each(call, step_prod, 1, ANSWER_VALUE);
}

void
fold_amax(const struct cpu_call *call)
{
    fold_each(call, step_max, 0, ANSWER_VALUE);
}

void
fold_amin(const struct cpu_call *call)
{
    fold_each(call, step_min, 0, ANSWER_VALUE);
}

void
fold_argmax(const struct cpu_call *call)
{
    fold_each(call, step_max, 0, ANSWER_PLACE);
}

void
fold_argmin(const struct cpu_call *call)
{
    fold_each(call, step_min, 0, ANSWER_PLACE);
}

/* start: any instead of all. */
void
fold_truth(const struct cpu_call *call)
{
    fold_each(call, call->start ? step_any : step_all, 1, ANSWER_TRUTH);
}

/* alpha: how many degrees of freedom are taken. */
void
fold_var(const struct cpu_call *call)
{
    fold_each(call, step_var, 0, ANSWER_VARIANCE);
}

void
fold_std(const struct cpu_call *call)
{
    fold_each(call, step_var, 0, ANSWER_DEVIATION);
}

/* The sum over dimensions, then alpha elements of it each. The result lies in one piece. */
void
fold_mean(const struct cpu_call *call)
{
    int64_t count = 1;
    cpu_sum_dim(call);
    for (int d = 0; d < call->out.dims; d++)
        count *= call->out.size[d];
    divide_all(&call->out, count, call->alpha);
}

/* ---- along one dimension ---- */

static void
run_along(const struct cpu_call *call, bool product)
{
    struct cpu_view        in = view_without(&call->in[0], (int)call->dim),
    out = view_without(&call->out, (int)call->dim);
    const struct cpu_view *views[2] = { &out, &in };
    bool        scalar = call->in[0].dims == 0, integers = call->compute == DTYPE_I64;
    enum dtype  as = integers ? DTYPE_I64 : DTYPE_F64;
    int64_t     length = scalar ? 1 : call->in[0].size[call->dim];
    int64_t     from_step = scalar ? 0 : call->in[0].stride[call->dim] * (int64_t)dtype_size(in.dtype);
    int64_t     to_step = scalar ? 0 : call->out.stride[call->dim] * (int64_t)dtype_size(out.dtype);
    struct loop loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            double   total = product, x = 0;
            uint64_t whole = product;
            int64_t  n = 0;
            for (int64_t j = 0; j < length; j++) {
                char       *to = loop.at[0] + i * loop.step[0] + j * to_step;
                const char *from = loop.at[1] + i * loop.step[1] + j * from_step;
                cpu_convert_one(integers ? (void *)&n : (void *)&x, as, from, in.dtype);
                total = product ? total * x : total + x;
                whole = product ? whole * (uint64_t)n : whole + (uint64_t)n;
                cpu_convert_one(to, out.dtype, integers ? (void *)&whole : (void *)&total, as);
            }
        }
    }
}

void
fold_cumsum(const struct cpu_call *call)
{
    run_along(call, false);
}

void
fold_cumprod(const struct cpu_call *call)
{
    run_along(call, true);
}

/* Cases for the kernels of sums, means, folds, running sums and losses of single elements (rows_reduce.def). */
#include <math.h>
#include "play_kernels.h"
#include "tensor/cpu/pack.h"

static const enum dtype fractions[] = { DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16 };
enum { FRACTIONS = 4 };

/* ---- reductions: bit d of `reduced` is dimension d, whose size in the result is 1 ---- */

static struct cpu_call
reduction_of(struct play *p, struct cpu_view in, unsigned reduced, enum dtype result)
{
    struct cpu_call call = call_of(1, in.dtype);
    struct sizes    sizes = { in.dims, { 0 } };
    for (int d = 0; d < in.dims; d++)
        sizes.size[d] = reduced >> d & 1 ? 1 : in.size[d];
    call.in[0] = in;
    call.out   = view_new(p, result, LAYOUT_PLAIN, sizes);
    call.alpha = 1;
    for (int d = 0; d < in.dims; d++)
        call.alpha *= reduced >> d & 1 ? (double)in.size[d] : 1;
    return call;
}

static enum dtype
sum_type(enum dtype dtype)
{
    return dtype_is_float(dtype) ? dtype : DTYPE_I64;
}

/* With odd values, most of which swallow the rest, and with others, whose last digits show the order. */
static void
compare_sums(struct play *p, struct cpu_call *call)
{
    compare(p, p->kernel, call);
    if (!dtype_is_float(call->in[0].dtype))
        return;
    fill_between(p, call->in[0], -1, 1);
    compare(p, p->kernel, call);
}

static const struct { struct sizes sizes; unsigned reduced; } shapes[] = {
    { { 1, { 300 } }, 1 },             { { 2, { 300, 5 } }, 1 },          { { 2, { 300, 5 } }, 2 },
    { { 2, { 40, 70 } }, 1 },          { { 2, { 1000, 37 } }, 1 },        { { 2, { 3, 5000 } }, 2 },
    { { 2, { 2, 20000 } }, 2 },        { { 3, { 5, 7, 300 } }, 1 },       { { 3, { 5, 7, 300 } }, 2 },
    { { 3, { 5, 7, 300 } }, 3 },       { { 3, { 5, 7, 300 } }, 4 },       { { 3, { 5, 7, 300 } }, 5 },
    { { 3, { 5, 7, 300 } }, 6 },       { { 3, { 5, 7, 300 } }, 7 },       { { 3, { 5, 7, 300 } }, 0 },
    { { 3, { 90, 1, 3 } }, 1 },        { { 4, { 6, 17, 9, 11 } }, 13 },   { { 4, { 1, 1, 1, 1 } }, 5 },
    { { 3, { 0, 3, 4 } }, 1 },         { { 3, { 0, 3, 4 } }, 2 },         { { 2, { 3, 0 } }, 2 },
    { { 0, { 0 } }, 0 },               { { 8, { 2, 3, 1, 2, 3, 2, 1, 4 } }, 0xaa },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void
sums_of_dims(struct play *p)
{
    const enum dtype dtypes[] = { DTYPE_F32, DTYPE_F64, DTYPE_I64 };
    for (int d = 0; d < 3; d++)
        for (int s = 0; s < SHAPES; s++)
            for (int k = 0; k < (d == 0 ? 2 : 1); k++) {
                enum layout     layout = (enum layout)((d + s + k) % LAYOUTS);
                struct cpu_call call;
                if (p->kernel == KERNEL_fold_mean && !dtype_is_float(dtypes[d]))
                    continue;
                call = reduction_of(p, view_new(p, dtypes[d], layout, shapes[s].sizes), shapes[s].reduced, dtypes[d]);
                compare_sums(p, &call);
            }
}

/* Rows of each kind of length: the same for the last dimension and for the first. */
static void
sums_of_any_length(struct play *p)
{
    for (int w = 0; w < 2; w++)
        for (size_t i = 0; i < LENGTHS; i++)
            for (int dim = 0; dim < 2; dim++) {
                struct sizes    sizes = { 2, { dim == 0 ? lengths[i] : 3, dim == 0 ? 3 : lengths[i] } };
                struct cpu_call call  = reduction_of(p, view_new(p, fractions[w], LAYOUT_PLAIN, sizes), 1u << dim,
                                                     fractions[w]);
                compare_sums(p, &call);
            }
}

static void
sums_of_any_type(struct play *p)
{
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (int s = 0; s < 7; s++) {
            enum dtype dtype = (enum dtype)d;
            if (p->kernel == KERNEL_fold_mean && !dtype_is_float(dtype))
                continue;
            struct cpu_call call = reduction_of(p, view_new(p, dtype, (enum layout)(s % LAYOUTS), shapes[s].sizes),
                                                shapes[s].reduced, sum_type(dtype));
            compare_sums(p, &call);
        }
}

/* The result has fewer dimensions: whole tensors'. */
static struct cpu_call
whole_of(struct play *p, struct cpu_view in, enum dtype result)
{
    return reduction_of(p, in, (1u << in.dims) - 1, result);
}

static void
whole_sums(struct play *p)
{
    const struct sizes sizes[] = { { 0, { 0 } }, { 3, { 7, 11, 300 } }, { 2, { 20, 3 } } };
    for (int d = 0; d < DTYPE_COUNT; d++) {
        enum dtype      dtype = (enum dtype)d;
        struct cpu_call call;
        if (p->kernel == KERNEL_cpu_mean && !dtype_is_float(dtype))
            continue;
        for (size_t i = 0; i < LENGTHS; i++) {
            call = whole_of(p, view_row(p, dtype, lengths[i]), sum_type(dtype));
            compare_sums(p, &call);
        }
        for (int s = 0; s < 3; s++)
            for (int k = 0; k < LAYOUTS; k++) {
                if (d > 2 && (k + d) % LAYOUTS != 0)
                    continue;
                call = whole_of(p, view_new(p, dtype, (enum layout)k, sizes[s]), sum_type(dtype));
                compare_sums(p, &call);
            }
    }
}

/* Of so many the sum is spread over all blocks: no whole piece behind the last, some chunks, a chunk that is not full;
 * more than a tree of pieces; runs that are no multiple of a chunk. */
static void
whole_sums_of_many(struct play *p)
{
    const int64_t many[] = { 32768, 70001, 99328, 1100003 };
    for (int w = 0; w < 3; w++) {
        enum dtype      dtype = w == 2 ? p->kernel == KERNEL_cpu_mean ? DTYPE_F16 : DTYPE_I64 : fractions[w];
        struct cpu_call call;
        for (int m = 0; m < (w == 0 ? 4 : 3); m++) {
            call = whole_of(p, view_row(p, dtype, many[m]), dtype);
            fill_between(p, call.in[0], -1, 1);
            compare(p, p->kernel, &call);
        }
        call = whole_of(p, view_new(p, dtype, LAYOUT_STRIDED, (struct sizes){ 2, { 141, 300 } }), dtype);
        fill_between(p, call.in[0], -1, 1);
        compare(p, p->kernel, &call);
    }
}

/* ---- folds ---- */

static enum dtype
fold_type(enum kernel kernel, enum dtype dtype)
{
    switch (kernel) {
    case KERNEL_fold_prod:   return sum_type(dtype);
    case KERNEL_fold_argmax:
    case KERNEL_fold_argmin: return DTYPE_I64;
    case KERNEL_fold_truth:  return dtype == DTYPE_U8 ? DTYPE_U8 : DTYPE_BOOL;
    default:                 return dtype;
    }
}

static bool
fold_wants_some(enum kernel kernel)
{
    return kernel == KERNEL_fold_amax || kernel == KERNEL_fold_amin || kernel == KERNEL_fold_argmax ||
           kernel == KERNEL_fold_argmin;
}

static bool
fold_has(enum kernel kernel, enum dtype dtype)
{
    return dtype_is_float(dtype) || (kernel != KERNEL_fold_var && kernel != KERNEL_fold_std);
}

/* alpha: degrees of freedom that are taken, as many as there are, and one; start: any, all. */
static void
compare_folds(struct play *p, struct cpu_call *call)
{
    const double few[] = { 0, -0.0, 1, -1, 0, 1 }, none[] = { 0, -0.0 }, near[] = { 1.25, 0.75, 1.0625, 0.875, -1.5 };
    const double freedoms[] = { call->alpha, 1, 0 };
    for (int i = 0; i < 3; i++) {
        call->alpha = freedoms[i];
        call->start = i % 2;
        compare(p, p->kernel, call);
    }
    fill_list(call->in[0], few, 6);
    compare(p, p->kernel, call);
    for (int any = 0; any < 2 && p->kernel == KERNEL_fold_truth; any++) {
        call->start = any;
        fill_list(call->in[0], none, 2);
        compare(p, p->kernel, call);
        fill_value(call->in[0], 1);
        compare(p, p->kernel, call);
    }
    if (dtype_is_float(call->in[0].dtype)) {
        fill_list(call->in[0], near, 5);
        compare(p, p->kernel, call);
        fill_value(call->in[0], -INFINITY);
        compare(p, p->kernel, call);
    }
}

static void
folds(struct play *p)
{
    for (int w = 0; w < 2; w++)
        for (int s = 0; s < SHAPES; s += w + 1) {
            enum dtype dtype = w == 1 ? DTYPE_I64 : DTYPE_F32;
            bool       empty = false;
            for (int d = 0; d < shapes[s].sizes.dims; d++)
                empty = empty || (shapes[s].sizes.size[d] == 0 && shapes[s].reduced >> d & 1);
            if (!fold_has(p->kernel, dtype) || (empty && fold_wants_some(p->kernel)))
                continue;
            struct cpu_view in = view_new(p, dtype, (enum layout)((s + w) % LAYOUTS), shapes[s].sizes);
            struct cpu_call call = reduction_of(p, in, shapes[s].reduced, fold_type(p->kernel, dtype));
            compare_folds(p, &call);
        }
}

static void
folds_of_any_type(struct play *p)
{
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (int s = 0; s < 3; s++) {
            enum dtype dtype = (enum dtype)d;
            if (!fold_has(p->kernel, dtype))
                continue;
            struct cpu_view in = view_new(p, dtype, (enum layout)s, shapes[s].sizes);
            struct cpu_call call = reduction_of(p, in, shapes[s].reduced, fold_type(p->kernel, dtype));
            compare_folds(p, &call);
        }
}

static void
extremes_of_all(struct play *p)
{
    const double few[] = { 1, 3, -2, 3, -2, 0, -0.0 };
    for (int d = 0; d < DTYPE_COUNT; d++) {
        enum dtype dtype = (enum dtype)d;
        bool       many  = dtype == DTYPE_F32 || dtype == DTYPE_I64;
        for (size_t i = 1; i < LENGTHS + (many ? 2 : 0); i++) {
            int64_t         length = i < LENGTHS ? lengths[i] : i == LENGTHS ? 32768 : 70001;
            struct cpu_call call = whole_of(p, view_row(p, dtype, length), dtype);
            compare(p, p->kernel, &call);
            fill_list(call.in[0], few, 7);
            compare(p, p->kernel, &call);
        }
        for (int k = 0; k < LAYOUTS && many; k++) {
            struct sizes    sizes = { 3, { 5, 90, 77 } };
            struct cpu_call call = whole_of(p, view_new(p, dtype, (enum layout)k, sizes), dtype);
            fill_between(p, call.in[0], -20, 20);
            compare(p, p->kernel, &call);
        }
    }
}

/* ---- along one dimension ---- */

static void
running(struct play *p)
{
    const struct sizes sizes[] = { { 1, { 300 } }, { 2, { 40, 65 } }, { 3, { 5, 7, 30 } }, { 0, { 0 } },
                                   { 2, { 0, 5 } }, { 2, { 3, 0 } }, { 1, { 10007 } } };
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int dim = 0; dim < (sizes[s].dims > 0 ? sizes[s].dims : 1); dim++) {
                enum dtype      dtype = (enum dtype)d, to = sum_type(dtype);
                struct cpu_call call = call_of(1, to);
                call.in[0] = view_new(p, dtype, (enum layout)((s + (size_t)d) % LAYOUTS), sizes[s]);
                call.out   = view_new(p, to, LAYOUT_PLAIN, sizes[s]);
                call.dim   = dim;
                compare_sums(p, &call);
            }
}

/* ---- losses ---- */

static int
inputs_of_loss(enum kernel kernel)
{
    return kernel == KERNEL_cpu_bce || kernel == KERNEL_loss_weighted_bce ? 3 : 2;
}

/* Odd values, and others between 0 and 1, as probabilities and targets are. */
static void
compare_losses(struct play *p, struct cpu_call *call)
{
    for (int odd = 0; odd < 2; odd++) {
        for (int v = 0; v < call->inputs && !odd; v++)
            if (call->in[v].data != NULL)
                fill_between(p, call->in[v], 0, 1);
        compare(p, p->kernel, call);
        for (int v = 0; v < call->inputs && !odd; v++)
            if (call->in[v].data != NULL)
                fill_odd(p, call->in[v]);
    }
}

static struct cpu_call
loss_call(struct play *p, enum dtype dtype, int64_t reduction, struct sizes sizes)
{
    struct cpu_call call = call_of(inputs_of_loss(p->kernel), dtype);
    call.common = DTYPE_F32;       /* plans of losses leave it as it is */
    call.dim    = reduction;
    call.alpha  = 0.3;
    call.out    = view_new(p, dtype, LAYOUT_PLAIN, reduction == LOSS_NONE ? sizes : (struct sizes){ 0, { 0 } });
    return call;
}

static void
losses(struct play *p)
{
    for (int w = 0; w < 2; w++)
        for (int64_t reduction = LOSS_MEAN; reduction <= LOSS_NONE; reduction++)
            for (size_t i = 0; i < LENGTHS + 2; i++) {
                int64_t         length = i < LENGTHS ? lengths[i] : i == LENGTHS ? 32768 : 70001;
                if (i >= LENGTHS && reduction != w)
                    continue;   /* one of each */
                struct cpu_call call = loss_call(p, fractions[w], reduction, (struct sizes){ 1, { length } });
                for (int v = 0; v < call.inputs; v++)
                    call.in[v] = view_row(p, fractions[w], length);
                compare_losses(p, &call);
            }
}

/* Inputs lie differently, so runs are short; of another type; one for all; a number of the host's. */
static void
losses_lying_anyhow(struct play *p)
{
    const struct sizes sizes[] = { { 3, { 4, 9, 37 } }, { 2, { 3, 600 } }, { 0, { 0 } }, { 3, { 170, 2, 200 } } };
    for (int64_t reduction = LOSS_MEAN; reduction <= LOSS_NONE; reduction++)
        for (int s = 0; s < 4; s++)
            for (int k = s == 3 ? 3 : 0; k < LAYOUTS; k++) {
                struct cpu_call call = loss_call(p, k % 2 ? DTYPE_F64 : DTYPE_F32, reduction, sizes[s]);
                for (int v = 0; v < call.inputs; v++)
                    call.in[v] = view_new(p, v == 1 && k > 2 ? DTYPE_I64 : v == 0 && k == 1 ? DTYPE_F64 : DTYPE_F32,
                                          (enum layout)((k + v) % LAYOUTS), sizes[s]);
                compare_losses(p, &call);
                constant_set(&call, 1, DTYPE_F64, 0.25, sizes[s]);
                compare_losses(p, &call);
            }
}

/* start: what is absent. */
static void
bce_without_weights(struct play *p)
{
    for (int64_t reduction = LOSS_MEAN; reduction <= LOSS_NONE; reduction++) {
        const struct sizes sizes = { 2, { 70, 600 } };
        struct cpu_call    call = loss_call(p, DTYPE_F32, reduction, sizes);
        for (int v = 0; v < 3; v++)
            call.in[v] = view_new(p, DTYPE_F32, v == 2 ? LAYOUT_TRANSPOSED : LAYOUT_PLAIN, sizes);
        call.start = 1;
        compare_losses(p, &call);
    }
}

/* ---- logits ---- */

static void
give_room(struct play *p, struct cpu_call *call)
{
    size_t bytes = pack_round((size_t)view_count(&call->in[0]) * sizeof(double));
    call->workspace = workspace_new(p, CALL_INPUTS * (bytes > 0 ? bytes : PACK_ALIGN));
}

static void
logit_losses(struct play *p)
{
    const struct sizes sizes[] = { { 1, { 0 } }, { 1, { 1 } }, { 1, { 257 } }, { 2, { 33, 70 } }, { 3, { 7, 100, 60 } },
                                   { 0, { 0 } } };
    for (int64_t reduction = LOSS_MEAN; reduction <= LOSS_NONE; reduction++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int start = 0; start < 4; start++)
                for (int w = 0; w < 2; w++) {
                    struct cpu_call call = call_of(4, fractions[w]);
                    call.dim   = reduction;
                    call.start = start;
                    for (int v = 0; v < 4; v++)
                        call.in[v] = view_new(p, v == 1 ? DTYPE_F64 : fractions[w],
                                              (enum layout)((v + start) % LAYOUTS), sizes[s]);
                    call.out = view_new(p, fractions[w], LAYOUT_PLAIN, reduction == LOSS_NONE ? sizes[s] : sizes[5]);
                    give_room(p, &call);
                    compare(p, p->kernel, &call);
                    fill_between(p, call.in[0], -5, 5);
                    for (int v = 1; v < 4; v++)
                        fill_between(p, call.in[v], 0, 1);
                    compare(p, p->kernel, &call);
                }
}

static void
logit_slopes(struct play *p)
{
    const struct sizes sizes[] = { { 1, { 0 } }, { 1, { 257 } }, { 2, { 33, 70 } }, { 0, { 0 } } };
    for (int s = 0; s < 4; s++)
        for (int start = 0; start < 2; start++)
            for (int w = 0; w < 2; w++) {
                struct cpu_call call = call_of(4, fractions[w]);
                call.start = start;
                for (int v = 0; v < 4; v++)
                    call.in[v] = view_new(p, fractions[w], (enum layout)((v + start) % LAYOUTS), sizes[s]);
                call.out = view_new(p, fractions[w], LAYOUT_PLAIN, sizes[s]);
                give_room(p, &call);
                compare(p, p->kernel, &call);
                fill_between(p, call.in[1], -90, 90);
                compare(p, p->kernel, &call);
            }
}

/* ---- all ---- */

#define SUM(name)                                                                                                  \
    { "shapes lying anyhow", sums_of_dims, KERNEL_##name },                                              \
    { "any length", sums_of_any_length, KERNEL_##name },                                                 \
    { "any type", sums_of_any_type, KERNEL_##name },
#define FOLD(name)                                                                                                 \
    { "shapes lying anyhow", folds, KERNEL_##name }, { "any type", folds_of_any_type, KERNEL_##name },

const struct play_case play_reduce[] = {
    SUM(cpu_sum_dim) SUM(cpu_sum_to) SUM(fold_mean)
    { "the sum of a whole tensor", whole_sums, KERNEL_cpu_sum },
    { "the mean of a whole tensor", whole_sums, KERNEL_cpu_mean },
    { "the sum of many elements", whole_sums_of_many, KERNEL_cpu_sum },
    { "the mean of many elements", whole_sums_of_many, KERNEL_cpu_mean },
    { "the largest of a whole tensor", extremes_of_all, KERNEL_cpu_max },
    { "the least of a whole tensor", extremes_of_all, KERNEL_cpu_min },
    FOLD(fold_prod) FOLD(fold_amax) FOLD(fold_amin) FOLD(fold_argmax) FOLD(fold_argmin) FOLD(fold_truth) FOLD(fold_var)
    FOLD(fold_std)
    { "running sums", running, KERNEL_fold_cumsum },
    { "running products", running, KERNEL_fold_cumprod },
#define LOSS(name, ...)                                                                                            \
    { "losses of any length", losses, KERNEL_loss_##name },                                                        \
    { "losses lying anyhow", losses_lying_anyhow, KERNEL_loss_##name },
#define LOSS_BACKWARD(name, ...)
#include "tensor/cpu/loss.def"
#undef LOSS
#undef LOSS_BACKWARD
    { "cross entropy with weights, of any length", losses, KERNEL_cpu_bce },
    { "cross entropy with weights, lying anyhow", losses_lying_anyhow, KERNEL_cpu_bce },
    { "cross entropy without weights", bce_without_weights, KERNEL_cpu_bce },
    { "cross entropy of logits, with and without weights", logit_losses, KERNEL_cpu_bce_with_logits },
    { "the slope of cross entropy of logits", logit_slopes, KERNEL_cpu_bce_with_logits_backward },
    { NULL, NULL, KERNEL_COUNT },
};

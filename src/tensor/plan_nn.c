/* Plans of the ops of layers and losses: what they want of their operands, the shape of the result, and how much room
 * the kernel needs for operands that do not lie in one piece (cpu/pack.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "tensor/cpu/conv.h"
#include "tensor/cpu/pack.h"
#include "tensor/internal.h"

/* The first `count` operands are fractions of one type, which is the result's. Room for them all. */
static bool
want_alike(struct task *me, struct plan *plan, const struct op_args *args, int count)
{
    plan->dtype = plan->compute = args->in[0]->dtype;
    for (int i = 0; i < count; i++) {
        if (args->in[i]->dtype != plan->dtype)
            return failed(me, E_DTYPE, "%s: expected all tensors to have one dtype, got %s and %s",
                          op_info(plan->op)->name, dtype_name(plan->dtype), dtype_name(args->in[i]->dtype));
        plan->workspace += tensor_pack_bytes(args->in[i], plan->compute);
    }
    return dtype_is_float(plan->dtype) || plan_no_kernel(me, plan, args->in[0], "fractions");
}

static bool
want_dims_within(struct task *me, const struct plan *plan, const struct tensor *tensor, int low, int high)
{
    if (tensor->dims >= low && tensor->dims <= high)
        return true;
    if (low == high)
        return failed(me, E_SHAPE, "%s: expected a tensor of %d dimensions, got one of %d: %s",
                      op_info(plan->op)->name, low, tensor->dims, shape_text(tensor).text);
    return failed(me, E_SHAPE, "%s: expected a tensor of %d to %d dimensions, got one of %d: %s",
                  op_info(plan->op)->name, low, high, tensor->dims, shape_text(tensor).text);
}

static void
shape(struct plan *plan, int dims, const int64_t *sizes)
{
    plan->dims = dims;
    memcpy(plan->size, sizes, (size_t)dims * sizeof *sizes);
}

static bool
alike(struct task *me, const struct plan *plan, const struct tensor *a, const struct tensor *b)
{
    return tensor_same_shape(a, b) || shape_mismatch(me, plan->op, a, b, "both must have one shape");
}

bool
plan_gelu(struct task *me, struct plan *plan, const struct op_args *args)
{
    int count = op_info(plan->op)->inputs;
    if (!want_alike(me, plan, args, count) || (count > 1 && !alike(me, plan, args->in[0], args->in[1])))
        return false;
    plan_like(plan, args->in[0]);
    plan->workspace = 0;
    plan->broadcast = true;
    plan->loop_dims = plan->dims;
    memcpy(plan->loop, plan->size, sizeof plan->loop);
    return true;
}

/* ---- convolutions ---- */

/* What the learner wrote as a row (flag) is told without the height of 1 that it has here. */
static struct shape_text
shape_told(const struct tensor *x, bool row)
{
    struct tensor told = { .dims = x->dims - row };
    memcpy(told.size, x->size, sizeof told.size);
    if (row)
        told.size[told.dims - 1] = x->size[x->dims - 1];
    return shape_text(&told);
}

/* "3 x 5", of a row "5". */
static struct shape_text
sides_told(int64_t height, int64_t width, bool row)
{
    struct shape_text out;
    size_t            at = row ? 0 : (size_t)snprintf(out.text, sizeof out.text, "%lld x ", (long long)height);
    snprintf(out.text + at, sizeof out.text - at, "%lld", (long long)width);
    return out;
}

static bool
want_steps(struct task *me, const struct plan *plan, const int64_t *s)
{
    bool ok = s[6] > 0;
    for (int i = 0; i < 6; i++)
        ok = ok && s[i] >= (i == 2 || i == 3 ? 0 : 1) && s[i] < INT32_MAX;
    return ok || failed(me, E_VALUE, "%s: stride, dilation and groups must be positive, padding not negative, all "
                        "below 2147483647",
                        op_info(plan->op)->name);
}

/* Places that a kernel of `size` finds in `length`; below 1: it does not fit. */
static int64_t
places(int64_t length, int64_t size, int64_t stride, int64_t pad, int64_t dilation)
{
    int64_t last = length + 2 * pad - 1; /* size and dilation alone may be huge */
    return last < 0 || (size > 1 && dilation > last / (size - 1)) ? 0 : (last - dilation * (size - 1)) / stride + 1;
}

/* For each place of each output channel a kernel over its group's input channels. */
static double
conv_products(const int64_t *out, const int64_t *weight)
{
    double count = 1;
    for (int d = 0; d < 4; d++)
        count *= (double)out[d] * (d > 0 ? (double)weight[d] : 1);
    return count;
}

static bool
conv_channels(struct task *me, const struct op_args *args)
{
    const struct tensor *x = args->in[0], *w = args->in[1], *bias = args->in[2];
    const int64_t        groups = args->sizes[6];
    const bool           row = args->flag;
    if (x->size[1] % groups != 0 || x->size[1] / groups != w->size[1])
        return failed(me, E_SHAPE, "Given groups=%lld, weight of size %s, expected input%s to have %.0f channels, but "
                      "got %lld channels instead", (long long)groups, shape_told(w, row).text, shape_told(x, row).text,
                      (double)w->size[1] * (double)groups, (long long)x->size[1]);
    if (w->size[0] % groups != 0)
        return failed(me, E_SHAPE, "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got "
                      "weight of size %s instead", (long long)groups, (long long)groups, shape_told(w, row).text);
    return args->start == 1 || (bias->dims == 1 && bias->size[0] == w->size[0]) ||
           failed(me, E_SHAPE, "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but got "
                  "bias of size %s instead", shape_told(w, row).text, (long long)w->size[0], shape_text(bias).text);
}

/* Of a kernel, from its first element to its last. */
static int64_t
reach(int64_t size, int64_t dilation)
{
    return int64_of_double((double)dilation * ((double)size - 1) + 1);
}

static bool
conv_too_large(struct task *me, const struct op_args *args)
{
    const int64_t *s = args->sizes, *x = args->in[0]->size, *w = args->in[1]->size;
    return failed(me, E_RUNTIME, "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size "
                  "can't be greater than actual input size",
                  sides_told(x[2] + 2 * s[2], x[3] + 2 * s[3], args->flag).text,
                  sides_told(reach(w[2], s[4]), reach(w[3], s[5]), args->flag).text);
}

/* flag: of rows, of height 1. */
bool
plan_conv2d(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *x = args->in[0], *w = args->in[1];
    const int64_t       *s = args->sizes;
    if (!want_dims_within(me, plan, x, 4, 4) || !want_steps(me, plan, s))
        return false;
    if (w->dims != 4)
        return failed(me, E_SHAPE, "conv%dd: expected a weight of %d dimensions, got one of %d: %s", args->flag ? 1 : 2,
                      args->flag ? 3 : 4, w->dims - args->flag, shape_told(w, args->flag).text);
    if (!want_alike(me, plan, args, args->start == 1 ? 2 : 3) || !conv_channels(me, args))
        return false;
    int64_t oh = places(x->size[2], w->size[2], s[0], s[2], s[4]), ow = places(x->size[3], w->size[3], s[1], s[3],
            s[5]);
    if (oh < 1 || ow < 1)
        return conv_too_large(me, args);
    shape(plan, 4, (const int64_t[]){ x->size[0], w->size[0], oh, ow });
    struct conv conv = conv_shape(s, x->size, w->size, plan->size);
    plan->workspace += conv_workspace(&conv, plan->dtype, false);
    plan->products = conv_products(plan->size, w->size);
    return true;
}

/* length, step: the result's height and width, which must lead to the input's. */
bool
plan_conv_transpose2d(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *g = args->in[0], *w = args->in[1];
    const int64_t       *s = args->sizes;
    if (!want_dims_within(me, plan, g, 4, 4) || !want_dims_within(me, plan, w, 4, 4) || !want_steps(me, plan, s) ||
        !want_alike(me, plan, args, 2))
        return false;
    if (g->size[1] != w->size[0])
        return failed(me, E_SHAPE, "Given transposed=1, weight of size %s, expected input%s to have %lld channels, "
                      "but got %lld channels instead", shape_text(w).text, shape_text(g).text, (long long)w->size[0],
                      (long long)g->size[1]);
    if (args->length < 1 || args->step < 1)
        return failed(me, E_RUNTIME, "Given input size per channel: (%s). Calculated output size per channel: (%s). "
                      "Output size is too small", sides_told(g->size[2], g->size[3], false).text,
                      sides_told(args->length, args->step, false).text);
    if (w->size[0] % s[6] != 0 || places(args->length, w->size[2], s[0], s[2], s[4]) != g->size[2] ||
        places(args->step, w->size[3], s[1], s[3], s[5]) != g->size[3])
        return shape_mismatch(me, plan->op, g, w, "channels and places must be those of the convolution turned round");
    shape(plan, 4, (const int64_t[]){ g->size[0], w->size[1] * s[6], args->length, args->step });
    struct conv conv = conv_shape(s, plan->size, w->size, g->size);
    plan->workspace += conv_workspace(&conv, plan->dtype, false);
    plan->products = conv_products(g->size, w->size);
    return true;
}

/* length, step: the kernel's height and width. */
bool
plan_conv2d_weight(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *g = args->in[0], *x = args->in[1];
    const int64_t       *s = args->sizes;
    if (!want_dims_within(me, plan, g, 4, 4) || !want_dims_within(me, plan, x, 4, 4) || !want_steps(me, plan, s) ||
        !want_alike(me, plan, args, 2))
        return false;
    if (g->size[0] != x->size[0] || x->size[1] % s[6] != 0 || g->size[1] % s[6] != 0 || args->length < 1 ||
        args->step < 1 || places(x->size[2], args->length, s[0], s[2], s[4]) != g->size[2] ||
        places(x->size[3], args->step, s[1], s[3], s[5]) != g->size[3])
        return shape_mismatch(me, plan->op, g, x, "the first is the gradient of the second's convolution");
    shape(plan, 4, (const int64_t[]){ g->size[1], x->size[1] / s[6], args->length, args->step });
    struct conv conv = conv_shape(s, x->size, plan->size, g->size);
    plan->workspace += conv_workspace(&conv, plan->dtype, true);
    plan->products = conv_products(g->size, plan->size);
    return true;
}

/* ---- pooling ---- */

static const char *
pool_name(const struct plan *plan, const struct op_args *args)
{
    static const char *const names[3][2] = { { "max_pool2d", "max_pool1d" }, { "avg_pool2d", "avg_pool1d" },
                                             { "adaptive_avg_pool2d", "adaptive_avg_pool1d" } };
    return names[plan->op != OP_avg_pool2d ? 0 : args->start == 2 ? 2 : 1][args->flag];
}

static bool
want_planes(struct task *me, const struct plan *plan, const struct op_args *args)
{
    const struct tensor *x = args->in[0];
    const int            row = args->flag;
    return x->dims == 3 || x->dims == 4 ||
           failed(me, E_SHAPE, "%s: expected a tensor of %d to %d dimensions, got one of %d: %s", pool_name(plan, args),
                  3 - row, 4 - row, x->dims - row, shape_told(x, row).text);
}

/* With `ceil` a last window that begins inside counts, too. Below 1: the kernel does not fit. */
static int64_t
windows(const int64_t *s, int side, int64_t length, bool ceil)
{
    int64_t kernel = s[side], stride = s[2 + side], pad = s[4 + side], dilation = s[6 + side];
    int64_t room = length + 2 * pad - dilation * (kernel - 1) - 1;
    int64_t count = room < 0 ? 1 - (stride - 1 - room) / stride : (room + (ceil ? stride - 1 : 0)) / stride + 1;
    return count > 0 && ceil && (count - 1) * stride >= length + pad ? count - 1 : count;
}

static bool
want_windows(struct task *me, const struct plan *plan, const struct op_args *args)
{
    const int64_t *s = args->sizes;
    for (int i = 0; i < 2; i++) {
        bool ok = s[i] > 0 && s[2 + i] > 0 && s[6 + i] > 0 && s[i] < INT32_MAX && s[2 + i] < INT32_MAX &&
                  s[6 + i] < INT32_MAX;
        if (!ok)
            return failed(me, E_RUNTIME, "%s: kernel, stride and dilation must be positive and below 2147483647, got "
                          "%lld, %lld and %lld", pool_name(plan, args), (long long)s[i], (long long)s[2 + i],
                          (long long)s[6 + i]);
        if (s[4 + i] < 0 || s[4 + i] > s[i] / 2)
            return failed(me, E_RUNTIME, "%s: padding should be at least 0 and at most half of kernel size, but got "
                          "padding=%lld and kernel_size=%lld", pool_name(plan, args), (long long)s[4 + i],
                          (long long)s[i]);
    }
    return true;
}

/* The last two sizes of the result; false: failed. */
static bool
pooled_sides(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *x = args->in[0];
    const int            at = x->dims - 2;
    int64_t             *side = &plan->size[at];
    plan_like(plan, x);
    for (int i = 0; i < 2; i++)
        side[i] = windows(args->sizes, i, side[i], args->keepdim);
    return (side[0] > 0 && side[1] > 0) ||
           failed(me, E_RUNTIME, "%s: Given input size: (%lld x %s). Calculated output size: (%lld x %s). Output size "
                  "is too small", pool_name(plan, args), (long long)x->size[at - 1],
                  sides_told(x->size[at], x->size[at + 1], args->flag).text, (long long)x->size[at - 1],
                  sides_told(side[0], side[1], args->flag).text);
}

static double
window_products(const struct plan *plan, const int64_t *s)
{
    double count = (double)s[0] * (double)s[1];
    for (int d = 0; d < plan->dims; d++)
        count *= (double)plan->size[d];
    return count;
}

bool
plan_max_pool2d_indices(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *x = args->in[0];
    if (!want_planes(me, plan, args) || !want_windows(me, plan, args) || !want_alike(me, plan, args, 1) ||
        !pooled_sides(me, plan, args))
        return false;
    plan->workspace += pool_workspace(plan->size[x->dims - 2] * plan->size[x->dims - 1],
                                      args->sizes[0] * args->sizes[1]);
    plan->products = window_products(plan, args->sizes);
    plan->dtype = DTYPE_I64;
    return true;
}

bool
plan_max_pool2d(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *x = args->in[0], *index = args->in[1];
    if (!want_dims_within(me, plan, x, 3, 4) || !want_alike(me, plan, args, 1))
        return false;
    bool fits = index->dtype == DTYPE_I64 && index->dims == x->dims;
    for (int d = 0; fits && d < x->dims - 2; d++)
        fits = index->size[d] == x->size[d];
    if (!fits)
        return shape_mismatch(me, plan->op, x, index, "the second holds places of the first's planes");
    plan_like(plan, index);
    plan->workspace += tensor_pack_bytes(index, DTYPE_I64);
    if (plan->op == OP_max_pool2d)
        return true;
    if (!tensor_same_shape(x, index) || args->length < 0 || args->step < 0)
        return shape_mismatch(me, plan->op, x, index, "a place for each gradient");
    plan->size[plan->dims - 2] = args->length;
    plan->size[plan->dims - 1] = args->step;
    return true;
}

/* start 2: adaptive, sizes are the result's. */
bool
plan_avg_pool2d(struct task *me, struct plan *plan, const struct op_args *args)
{
    const int64_t *s = args->sizes;
    if (!want_planes(me, plan, args) || !want_alike(me, plan, args, 1))
        return false;
    if (args->start != 2) {
        bool fits = want_windows(me, plan, args) && pooled_sides(me, plan, args);
        plan->products = fits ? window_products(plan, s) : 0;
        return fits;
    }
    if (s[0] < 1 || s[1] < 1)
        return failed(me, E_RUNTIME, "%s: expected an output_size of 1 or more, got (%s)", pool_name(plan, args),
                      sides_told(s[0], s[1], args->flag).text);
    plan_like(plan, args->in[0]);
    memcpy(&plan->size[plan->dims - 2], s, 2 * sizeof *s);
    return true;
}

bool
plan_avg_pool2d_backward(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *grad = args->in[0];
    if (!want_dims_within(me, plan, grad, 3, 4) || !want_alike(me, plan, args, 1))
        return false;
    plan_like(plan, grad);
    plan->size[plan->dims - 2] = args->length;
    plan->size[plan->dims - 1] = args->step;
    return true;
}

/* ---- normalisation ---- */

bool
plan_batch_norm_stats(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!want_dims_within(me, plan, args->in[0], 2, TENSOR_DIMS) || !want_alike(me, plan, args, 1))
        return false;
    shape(plan, 2, (const int64_t[]){ 3, args->in[0]->size[1] });
    return true;
}

/* A row for each rank: means, 1 / sqrt(variance + eps), how many values a channel has. */
bool
plan_batch_norm_gather_stats(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!want_dims_within(me, plan, args->in[0], 2, 2) || !want_alike(me, plan, args, 1))
        return false;
    shape(plan, 2, (const int64_t[]){ 3, args->in[0]->size[1] / 2 });
    return true;
}

static bool
want_channels(struct task *me, const struct plan *plan, const struct tensor *x, const struct tensor *tensor)
{
    if (tensor->dims > 0 && tensor->dims < 3 && tensor->size[tensor->dims - 1] == x->size[1])
        return true;
    return shape_mismatch(me, plan->op, x, tensor, "the second has one column for each channel of the first");
}

bool
plan_batch_norm(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *x = args->in[0];
    if (!want_dims_within(me, plan, x, 2, TENSOR_DIMS) || !want_alike(me, plan, args, 4))
        return false;
    for (int i = 1; i < 4; i++) {
        bool absent = (i == 2 && !(args->start & 1)) || (i == 3 && !(args->start & 2));
        if (!absent && !want_channels(me, plan, x, args->in[i]))
            return false;
    }
    plan_like(plan, x);
    return true;
}

/* Sums: of gradient, input, statistics. */
bool
plan_batch_norm_sums(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!want_dims_within(me, plan, args->in[0], 2, TENSOR_DIMS) || !alike(me, plan, args->in[0], args->in[1]) ||
        !want_channels(me, plan, args->in[0], args->in[2]) || !want_alike(me, plan, args, 3))
        return false;
    shape(plan, 2, (const int64_t[]){ 2, args->in[0]->size[1] });
    return true;
}

bool
plan_batch_norm_terms(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!want_dims_within(me, plan, args->in[0], 2, 2) || !want_alike(me, plan, args, 3))
        return false;
    shape(plan, 2, (const int64_t[]){ 3, args->in[0]->size[1] });
    return true;
}

bool
plan_batch_norm_backward(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!alike(me, plan, args->in[0], args->in[1]) || !want_alike(me, plan, args, 4))
        return false;
    plan_like(plan, args->in[0]);
    return true;
}

static bool
want_tail(struct task *me, const struct plan *plan, const struct tensor *x, const struct tensor *tensor, int64_t dims)
{
    bool fits = tensor->dims == dims;
    for (int d = 0; fits && d < dims; d++)
        fits = tensor->size[d] == x->size[x->dims - dims + d];
    return fits || shape_mismatch(me, plan->op, x, tensor, "the second has the shape of the first's last dimensions");
}

/* dim: how many dimensions at the end are normalised. */
bool
plan_layer_norm(struct task *me, struct plan *plan, const struct op_args *args)
{
    bool                 back = plan->op == OP_layer_norm_backward;
    const struct tensor *x = args->in[back ? 1 : 0];
    plan->dim = args->dim;
    if (args->dim < 1 || args->dim > x->dims)
        return failed(me, E_RUNTIME, "layer_norm: expected a normalized_shape of 1 to %d dimensions, got %lld", x->dims,
                      (long long)args->dim);
    if (!want_alike(me, plan, args, 3) || (back && !alike(me, plan, args->in[0], x)))
        return false;
    if ((args->start & 1) && !want_tail(me, plan, x, args->in[back ? 2 : 1], args->dim))
        return false;
    if (!back && (args->start & 2) && !want_tail(me, plan, x, args->in[2], args->dim))
        return false;
    plan_like(plan, x);
    int64_t wide = 1;
    for (int d = x->dims - (int)args->dim; back && d < x->dims; d++)
        wide *= x->size[d];
    plan->workspace += back ? pack_round((size_t)wide * dtype_size(plan->dtype)) : 0;
    return true;
}

bool
plan_layer_norm_sums(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *x = args->in[1];
    int64_t              sizes[TENSOR_DIMS + 1] = { 2 };
    plan->dim = args->dim;
    if (args->dim < 1 || args->dim > x->dims || args->dim >= TENSOR_DIMS)
        return failed(me, E_RUNTIME, "layer_norm: expected a normalized_shape of 1 to %d dimensions, got %lld", x->dims,
                      (long long)args->dim);
    if (!want_alike(me, plan, args, 2) || !alike(me, plan, args->in[0], x))
        return false;
    memcpy(sizes + 1, x->size + x->dims - args->dim, (size_t)args->dim * sizeof *sizes);
    shape(plan, (int)args->dim + 1, sizes);
    return true;
}

/* dim: how many groups. */
bool
plan_group_norm(struct task *me, struct plan *plan, const struct op_args *args)
{
    bool                 back = plan->op == OP_group_norm_backward;
    const struct tensor *x = args->in[back ? 1 : 0];
    plan->dim = args->dim;
    if (!want_alike(me, plan, args, 3) || (back && !alike(me, plan, args->in[0], x)))
        return false;
    if ((args->start & 1) && !want_channels(me, plan, x, args->in[back ? 2 : 1]))
        return false;
    if (!back && (args->start & 2) && !want_channels(me, plan, x, args->in[2]))
        return false;
    plan_like(plan, x);
    int64_t wide = x->size[1] / args->dim;
    for (int d = 2; d < x->dims; d++)
        wide *= x->size[d];
    plan->workspace += back ? pack_round((size_t)wide * dtype_size(plan->dtype)) : 0;
    return true;
}

bool
plan_group_norm_sums(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan->dim = args->dim;
    if (!want_alike(me, plan, args, 2) || !alike(me, plan, args->in[0], args->in[1]))
        return false;
    shape(plan, 2, (const int64_t[]){ 2, args->in[1]->size[1] });
    return true;
}

/* ---- recurrent cells ---- */

static bool
want_matrix(struct task *me, const struct plan *plan, const struct tensor *tensor, int64_t rows, int64_t columns)
{
    if (tensor->dims == 2 && tensor->size[0] == rows && tensor->size[1] == columns)
        return true;
    return failed(me, E_SHAPE, "%s: expected a tensor of shape [%lld, %lld], got %s", op_info(plan->op)->name,
                  (long long)rows, (long long)columns, shape_text(tensor).text);
}

bool
plan_lstm_cell(struct task *me, struct plan *plan, const struct op_args *args)
{
    int                  back = plan->op == OP_lstm_cell_backward;
    const struct tensor *c = args->in[1 + back];
    if (!want_dims_within(me, plan, c, 2, 2) || !want_matrix(me, plan, args->in[back], c->size[0], 4 * c->size[1]) ||
        !want_alike(me, plan, args, 2 + back))
        return false;
    if (!back)
        shape(plan, 3, (const int64_t[]){ 2, c->size[0], c->size[1] });
    else
        shape(plan, 2, (const int64_t[]){ c->size[0], 5 * c->size[1] });
    return !back || (args->in[0]->dims == 3 && tensor_count(args->in[0]) == 2 * tensor_count(c)) ||
           shape_mismatch(me, plan->op, args->in[0], c, "gradients of state and cell");
}

bool
plan_gru_cell(struct task *me, struct plan *plan, const struct op_args *args)
{
    int                  back = plan->op == OP_gru_cell_backward;
    const struct tensor *h = args->in[2 + back];
    if (!want_dims_within(me, plan, h, 2, 2) || !want_matrix(me, plan, args->in[back], h->size[0], 3 * h->size[1]) ||
        !want_matrix(me, plan, args->in[1 + back], h->size[0], 3 * h->size[1]) ||
        (back && !alike(me, plan, args->in[0], h)) || !want_alike(me, plan, args, 3 + back))
        return false;
    shape(plan, 2, (const int64_t[]){ h->size[0], back ? 7 * h->size[1] : h->size[1] });
    return true;
}

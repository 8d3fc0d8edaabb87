/* torch.nn.functional: activations, convolutions, pooling, normalisation, dropout. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/number.h"
#include "base/str.h"
#include "functional/functional.h"
#include "sched/sched.h"

/* ---- activations ---- */

static struct tensor *
along(struct task *me, enum op op, struct tensor *x, int dim)
{
    struct op_args args = { .in = { x } };
    int            dims = x != NULL && x->dims > 0 ? x->dims : 1;
    if (x == NULL)
        return NULL;
    if (dim < -dims || dim >= dims)
        return failed_null(me, E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %d)",
                           -dims, dims - 1, dim);
    args.dim = dim < 0 ? dim + dims : dim;
    return op_call(me, op, &args);
}

struct tensor *
softmax(struct task *me, struct tensor *x, int dim)
{
    return along(me, OP_softmax, x, dim);
}

struct tensor *
log_softmax(struct task *me, struct tensor *x, int dim)
{
    return along(me, OP_log_softmax, x, dim);
}

struct tensor *
gelu(struct task *me, struct tensor *x, bool by_tanh)
{
    struct op_args args = { .in = { x }, .start = by_tanh ? 1 : 0 };
    return x != NULL ? op_call(me, OP_gelu, &args) : NULL;
}

/* Those that lose where they bend what their gradient wants record the result's form of it in place. */
struct tensor *
activated(struct task *me, enum op op, struct tensor *x, const struct activation *how)
{
    static const struct recorded_as in_place[] = { { "LeakyReluBackward1", 1 }, { "EluBackward1", 1 },
                                                   { "CeluBackward1", 1 }, { "HardtanhBackward1", 1 },
                                                   { "ThresholdBackward1", 1 } };
    static const enum op bent[] = { OP_leaky_relu, OP_elu, OP_celu, OP_hardtanh, OP_threshold };
    struct op_args       args = { .in = { x }, .alpha = how->a, .beta = how->b };
    if (x != NULL && !dtype_is_float(x->dtype))
        return failed_null(me, E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", op_info(op)->name,
                           dtype_title(x->dtype));
    if (!how->in_place)
        return op_call_checked(me, op, &args);
    for (size_t i = 0; i < sizeof bent / sizeof *bent; i++)
        args.as = bent[i] == op ? &in_place[i] : args.as;
    if (op == OP_leaky_relu && how->a < 0)
        return failed_null(me, E_RUNTIME, "leaky_relu in place with a negative slope has no gradient: call it without "
                                          "inplace");
    return tensor_in_place(me, op, &args);
}

struct tensor *
silu(struct task *me, struct tensor *x)
{
    return activated(me, OP_silu, x, &(struct activation){ .a = 0 });
}

struct tensor *
leaky_relu(struct task *me, struct tensor *x, double slope)
{
    return activated(me, OP_leaky_relu, x, &(struct activation){ .a = slope });
}

struct tensor *
elu(struct task *me, struct tensor *x, double alpha)
{
    return activated(me, OP_elu, x, &(struct activation){ .a = alpha, .b = 1 });
}

struct tensor *
softplus(struct task *me, struct tensor *x, double beta, double threshold)
{
    return activated(me, OP_softplus, x, &(struct activation){ .a = beta, .b = threshold });
}

static struct tensor *
channel_shape(struct task *me, struct tensor *tensor, const struct tensor *x)
{
    int64_t sizes[TENSOR_DIMS];
    if (tensor == NULL || x == NULL || x->dims < 2)
        return tensor;
    for (int d = 0; d < x->dims; d++)
        sizes[d] = d == 1 ? tensor_count(tensor) : 1;
    return tensor_reshape(me, tensor, x->dims, sizes);
}

/* Where x is above 0 the one, else the other, whose gradient counts at 0. */
static struct tensor *
above_zero(struct task *me, struct tensor *x, struct tensor *yes, struct tensor *no)
{
    if (x == NULL || yes == NULL || no == NULL)
        return NULL;
    struct tensor *least = tensor_number(me, x->dtype, tensor_device(x), 0);
    struct op_args args = { .in = { least != NULL ? op_on(me, OP_gt, x, least, 0) : NULL, yes, no } };
    return args.in[0] != NULL ? op_call(me, OP_where, &args) : NULL;
}

struct tensor *
prelu(struct task *me, struct tensor *x, struct tensor *weight)
{
    if (x == NULL || weight == NULL)
        return NULL;
    int64_t slopes = tensor_count(weight);
    if (slopes != 1 && (x->dims < 2 || slopes != x->size[1]))
        return failed_null(me, E_RUNTIME, "prelu: %lld slopes for an input of %lld channels", (long long)slopes,
                           (long long)(x->dims > 1 ? x->size[1] : 1));
    return above_zero(me, x, x, tensor_mul(me, channel_shape(me, weight, x), x));
}

/* ---- convolutions ---- */

static struct op_args
conv_args(const struct conv_options *o, struct tensor *x, struct tensor *weight, struct tensor *bias)
{
    return (struct op_args){ .in = { x, weight, bias != NULL ? bias : weight }, .start = bias == NULL,
                             .flag = o->row,
                             .sizes = { o->stride[0], o->stride[1], o->padding[0], o->padding[1], o->dilation[0],
                                        o->dilation[1], o->groups } };
}

struct tensor *
conv2d(struct task *me, struct tensor *x, struct tensor *weight, struct tensor *bias,
       const struct conv_options *options)
{
    if (x == NULL || weight == NULL)
        return NULL;
    if (x->dims != 3 && x->dims != 4)
        return failed_null(me, E_SHAPE, "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of "
                           "size: %s", shape_text(x).text);
    bool           single = x->dims == 3;
    struct op_args args = conv_args(options, single ? tensor_unsqueeze(me, x, 0) : x, weight, bias);
    struct tensor *result = args.in[0] != NULL ? op_call(me, OP_conv2d, &args) : NULL;
    return single && result != NULL ? tensor_squeeze(me, result, 0) : result;
}

/* What a convolution has read that made `places`; what is no such number is none. */
static int64_t
places_before(const struct conv_options *o, int side, int64_t places, int64_t kernel)
{
    double count = ((double)places - 1) * (double)o->stride[side] - 2 * (double)o->padding[side] +
                   (double)o->dilation[side] * ((double)kernel - 1) + (double)o->output_padding[side] + 1;
    return int64_of_double(count);
}

/* The transposed one gives as many places as the convolution that it turns round could have read. Where more padding of
 * the output is asked for than a step is wide, that one has read zeros behind x. */
struct tensor *
conv_transpose2d(struct task *me, struct tensor *x, struct tensor *weight, struct tensor *bias,
                 const struct conv_options *options)
{
    const struct conv_options *o = options;
    if (x == NULL || weight == NULL)
        return NULL;
    if (x->dims < 3 || x->dims > 4 || weight->dims != 4)
        return failed_null(me, E_SHAPE, "Expected 3D (unbatched) or 4D (batched) input to conv_transpose2d and a "
                           "weight of 4D, but got input of size: %s and weight of size: %s", shape_text(x).text,
                           shape_text(weight).text);
    bool           single = x->dims == 3;
    struct op_args args = conv_args(o, single ? tensor_unsqueeze(me, x, 0) : x, weight, NULL);
    int64_t        places[2];
    for (int side = 0; side < 2; side++)
        args.in[0] = pad_along(me, args.in[0], 2 + side,
                               &(struct padding){ .behind = o->output_padding[side] / o->stride[side] });
    for (int side = 0; side < 2; side++)
        places[side] = places_before(o, side, tensor_size(x, side - 2), weight->size[2 + side]);
    args.length = places[0];
    args.step   = places[1];
    struct tensor *result = args.in[0] != NULL ? op_call(me, OP_conv_transpose2d, &args) : NULL;
    if (bias != NULL && result != NULL)
        result = tensor_add(me, result, channel_shape(me, bias, result));
    return single && result != NULL ? tensor_squeeze(me, result, 0) : result;
}

/* Rows of height 1. */
struct tensor *
conv1d(struct task *me, struct tensor *x, struct tensor *weight, struct tensor *bias,
       const struct conv_options *options)
{
    struct conv_options flat = *options;
    flat.stride[0] = flat.dilation[0] = 1;
    flat.padding[0] = 0;
    flat.row        = true;
    if (x != NULL && (x->dims < 2 || x->dims > 3))
        return failed_null(me, E_SHAPE, "Expected 2D (unbatched) or 3D (batched) input to conv1d, but got input of "
                           "size: %s", shape_text(x).text);
    struct tensor *rows = tensor_unsqueeze(me, x, -2), *kernel = tensor_unsqueeze(me, weight, -2);
    struct tensor *result = conv2d(me, rows, kernel, bias, &flat);
    return result != NULL ? tensor_squeeze(me, result, -2) : NULL;
}

/* ---- pooling ---- */

static struct op_args
pool_args(const struct pool_options *o, struct tensor *x)
{
    return (struct op_args){ .in = { x }, .keepdim = o->ceil, .start = o->inside, .flag = o->row,
                             .sizes = { o->kernel[0], o->kernel[1], o->stride[0], o->stride[1], o->padding[0],
                                        o->padding[1], o->dilation[0], o->dilation[1] } };
}

struct tensor *
max_pool2d(struct task *me, struct tensor *x, const struct pool_options *options)
{
    struct op_args args = pool_args(options, x);
    if (x == NULL)
        return NULL;
    args.in[1] = op_call(me, OP_max_pool2d_indices, &args);
    return args.in[1] != NULL ? op_call(me, OP_max_pool2d, &args) : NULL;
}

struct tensor *
avg_pool2d(struct task *me, struct tensor *x, const struct pool_options *options)
{
    struct op_args args = pool_args(options, x);
    args.sizes[6] = args.sizes[7] = 1;
    return x != NULL ? op_call(me, OP_avg_pool2d, &args) : NULL;
}

struct tensor *
adaptive_avg_pool2d(struct task *me, struct tensor *x, const int64_t *sizes, bool row)
{
    static const struct recorded_as adaptive = { "AdaptiveAvgPool2DBackward0", 1 };
    struct op_args args = { .in = { x }, .start = 2, .flag = row, .sizes = { sizes[0], sizes[1] }, .as = &adaptive };
    if (x == NULL)
        return NULL;
    if (sizes[0] == 1 && sizes[1] == 1 && x->dims >= 3 && dtype_is_float(x->dtype))
        return tensor_fold(me, OP_mean_dims, x, &(struct fold_options){ .dims = 2, .dim = { x->dims - 2, x->dims - 1 },
                                                                        .keepdim = true });
    return op_call(me, OP_avg_pool2d, &args);
}

/* ---- normalisation ---- */

enum { HAS_WEIGHT = 1, HAS_BIAS = 2, OF_BATCH = 4 };

/* This update is no change that a backward would mind: several forwards may come before one backward. */
bool
batch_norm_update_running(struct task *me, const struct batch_norm_options *o, struct tensor *stats, double count)
{
    if (o->running_mean == NULL || o->running_var == NULL)
        return true;
    struct tensor *mean = tensor_select(me, stats, 0, 0), *variance = tensor_select(me, stats, 0, 2);
    uint32_t       version_of_mean = tensor_version(o->running_mean), version_of_var = tensor_version(o->running_var);
    bool done = tensor_mul_(me, o->running_mean, 1 - o->momentum) != NULL &&
                tensor_add_(me, o->running_mean, mean, o->momentum) != NULL &&
                tensor_mul_(me, o->running_var, 1 - o->momentum) != NULL &&
                tensor_add_(me, o->running_var, variance, o->momentum * (count / (count - 1))) != NULL;
    tensor_preserve_version(o->running_mean, version_of_mean);
    tensor_preserve_version(o->running_var, version_of_var);
    return done;
}

/* Whoever else changes them before the backward is told so there. */
static bool
save_running(struct task *me, struct node *node, const struct batch_norm_options *o)
{
    return node == NULL || o->running_mean == NULL || o->running_var == NULL ||
           (node_save(me, node, o->running_mean, false) && node_save(me, node, o->running_var, false));
}

static struct tensor *
batch_stats(struct task *me, struct tensor *x, const struct batch_norm_options *o)
{
    if (x == NULL)
        return NULL;
    struct op_args args = { .in = { x }, .alpha = o->eps };
    int64_t        channels = x->size[1], count = channels > 0 ? tensor_count(x) / channels : 0;
    struct tensor *stats = op_call(me, OP_batch_norm_stats, &args);
    return stats != NULL && batch_norm_update_running(me, o, stats, (double)count) ? stats : NULL;
}

static bool
enough_values(struct task *me, const struct tensor *x, const struct batch_norm_options *o)
{
    struct str shape = { 0 };
    if (!o->training || tensor_count(x) != x->size[1])
        return true;
    shape_print(x->dims, x->size, &shape);
    failed(me, E_VALUE, "Expected more than 1 value per channel when training, got input size torch.Size(%s)",
           str_text(&shape));
    str_free(&shape);
    return false;
}

/* Rows of mean and 1 / sqrt(variance + eps). */
static struct tensor *
running_stats(struct task *me, const struct batch_norm_options *o)
{
    if (o->running_mean == NULL || o->running_var == NULL)
        return failed_null(me, E_VALUE, "Expected running_mean and running_var to be given when training is off");
    struct tensor *shifted = tensor_add_number(me, o->running_var, o->eps);
    struct tensor *root    = shifted != NULL ? op_on(me, OP_rsqrt, shifted, NULL, 0) : NULL;
    struct tensor *rows[2] = { tensor_unsqueeze(me, o->running_mean, 0) };
    rows[1] = tensor_unsqueeze(me, root, 0);
    return tensor_cat(me, rows, 2, 0);
}

/* NULL: there is none. */
static bool
one_a_channel(struct task *me, const struct tensor *x, const struct tensor *tensor, const char *name)
{
    return tensor == NULL || (tensor->dims == 1 && tensor->size[0] == x->size[1]) ||
           failed(me, E_SHAPE, "%s should contain %lld elements not %lld: expected [%lld], got %s", name,
                  (long long)x->size[1], (long long)tensor_count(tensor), (long long)x->size[1],
                  shape_text(tensor).text);
}

struct tensor *
batch_norm(struct task *me, struct tensor *x, const struct batch_norm_options *o)
{
    if (x == NULL)
        return NULL;
    if (x->dims < 2)
        return failed_null(me, E_SHAPE, "batch_norm: expected an input of 2 dimensions or more, got %d", x->dims);
    if (!one_a_channel(me, x, o->running_mean, "running_mean") ||
        !one_a_channel(me, x, o->running_var, "running_var") || !one_a_channel(me, x, o->weight, "weight") ||
        !one_a_channel(me, x, o->bias, "bias") || !enough_values(me, x, o))
        return NULL;
    bool on = grad_enabled(me);
    grad_set_enabled(me, false);
    struct tensor *stats = o->training ? batch_stats(me, tensor_detach(me, x), o) : running_stats(me, o);
    grad_set_enabled(me, on);
    struct op_args args = { .in = { x, stats, o->weight != NULL ? o->weight : stats,
                                    o->bias != NULL ? o->bias : stats },
                            .start = (o->weight != NULL ? HAS_WEIGHT : 0) | (o->bias != NULL ? HAS_BIAS : 0) |
                                     (o->training ? OF_BATCH : 0),
                            .alpha = o->eps };
    struct tensor *result = stats != NULL ? op_call(me, OP_batch_norm, &args) : NULL;
    return result != NULL && save_running(me, result->grad_fn, o) ? result : NULL;
}

bool
layer_norm_fits(struct task *me, const struct tensor *x, int dims, const int64_t *sizes)
{
    struct tensor wanted = { .dims = dims };
    bool          fits   = dims > 0 && x->dims >= dims;
    for (int d = 0; d < dims; d++) {
        wanted.size[d] = sizes[d];
        fits           = fits && x->size[x->dims - dims + d] == sizes[d];
    }
    const struct shape_text text = shape_text(&wanted);
    return fits || failed(me, E_RUNTIME, "Given normalized_shape=%s, expected input with shape [*, %s, but got input "
                          "of size%s", text.text, text.text + 1, shape_text(x).text);
}

/* NULL: there is none. */
static bool
is_like_normalized(struct task *me, const struct tensor *x, int dims, const struct tensor *tensor, const char *name)
{
    struct tensor wanted = { .dims = dims };
    for (int d = 0; d < dims; d++)
        wanted.size[d] = x->size[x->dims - dims + d];
    return tensor == NULL || tensor_same_shape(tensor, &wanted) ||
           failed(me, E_SHAPE, "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "
                  "normalized_shape = %s", name, name, shape_text(tensor).text, shape_text(&wanted).text);
}

struct tensor *
layer_norm(struct task *me, struct tensor *x, int dims, const struct norm_options *o)
{
    if (x != NULL && dims >= 1 && dims <= x->dims && (!is_like_normalized(me, x, dims, o->weight, "weight") ||
                                                      !is_like_normalized(me, x, dims, o->bias, "bias")))
        return NULL;
    struct op_args args = { .in = { x, o->weight != NULL ? o->weight : x, o->bias != NULL ? o->bias : x },
                            .start = (o->weight != NULL ? HAS_WEIGHT : 0) | (o->bias != NULL ? HAS_BIAS : 0),
                            .dim = dims, .alpha = o->eps };
    return x != NULL ? op_call(me, OP_layer_norm, &args) : NULL;
}

struct tensor *
group_norm(struct task *me, struct tensor *x, int64_t groups, const struct norm_options *o)
{
    if (x == NULL)
        return NULL;
    if (x->dims < 2 || groups < 1 || x->size[1] % groups != 0)
        return failed_null(me, E_RUNTIME, "Expected number of channels in input to be divisible by num_groups, but got "
                           "input of shape %s and num_groups=%lld", shape_text(x).text, (long long)groups);
    if (!one_a_channel(me, x, o->weight, "weight") || !one_a_channel(me, x, o->bias, "bias"))
        return NULL;
    struct op_args args = { .in = { x, o->weight != NULL ? o->weight : x, o->bias != NULL ? o->bias : x },
                            .start = (o->weight != NULL ? HAS_WEIGHT : 0) | (o->bias != NULL ? HAS_BIAS : 0),
                            .dim = groups, .alpha = o->eps };
    return op_call(me, OP_group_norm, &args);
}

/* ---- dropout ---- */

/* 1 where kept, drawn in the order of the input's memory (1.13: of its elements), of channels in theirs. */
static struct tensor *
kept(struct task *me, const struct tensor *x, double p, enum dropout_kind kind)
{
    int64_t sizes[TENSOR_DIMS];
    for (int d = 0; d < x->dims; d++)
        sizes[d] = d > 1 ? 1 : x->size[d];
    struct tensor *noise = kind == DROP_CHANNELS ? tensor_empty(me, x->dtype, tensor_device(x), x->dims, sizes)
                                                 : tensor_empty_like(me, x->dtype, tensor_device(x), x);
    return noise != NULL && tensor_bernoulli(me, noise, 1 - p, default_generator(me)) ? noise : NULL;
}

/* SELU's dropout: what is dropped becomes the saturated value, mean and variance stay. */
static struct tensor *
alpha_dropped(struct task *me, struct tensor *x, double p)
{
    const double   saturated = 1.7580993408473766;
    double         a = 1 / sqrt((saturated * saturated * p + 1) * (1 - p));
    struct tensor *keep = kept(me, x, p, DROP_ELEMENTS);
    struct tensor *shift = tensor_mul_number(me, tensor_add_number(me, keep, -1), saturated * a);
    struct tensor *noise = tensor_mul_number(me, keep, a);
    shift = tensor_add_number(me, shift, saturated * a * p);
    return tensor_add(me, tensor_mul(me, x, noise), shift);
}

struct tensor *
dropout(struct task *me, struct tensor *x, double p, enum dropout_kind kind, bool training)
{
    if (x == NULL)
        return NULL;
    if (!(p >= 0 && p <= 1))
        return failed_null(me, E_VALUE, "dropout probability has to be between 0 and 1, but got %g", p);
    if (p == 0 || !training || tensor_count(x) == 0)
        return x;
    if (kind == DROP_CHANNELS && x->dims < 2)
        return failed_null(me, E_SHAPE, "dropout of channels: expected an input of 2 dimensions or more, got %s",
                           shape_text(x).text);
    if (p == 1)
        return tensor_mul(me, x, zeros_of(me, x, 0, NULL));
    if (kind == DROP_ALPHA)
        return alpha_dropped(me, x, p);
    struct tensor *noise = kept(me, x, p, kind);
    double         share = x->dtype == DTYPE_F64 ? 1 - p : (double)(float)(1 - p);
    return tensor_mul(me, x, noise != NULL ? tensor_mul_(me, noise, 1 / share) : NULL);
}

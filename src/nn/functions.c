/* nn.functional by name: parameters in PyTorch's order, and the functions of functional.h that they reach. */
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "base/vec.h"
#include "nn/layer.h"
#include "sched/task.h"

static struct tensor *
call_softmax(struct task *me, const struct arguments *a)
{
    return softmax(me, a->at[0].tensor, (int)a->at[1].integer[0]);
}

static struct tensor *
call_gelu(struct task *me, const struct arguments *a)
{
    return gelu(me, a->at[0].tensor, strcmp(a->at[1].text, "tanh") == 0);
}

static struct tensor *
call_silu(struct task *me, const struct arguments *a)
{
    return silu(me, a->at[0].tensor);
}

static struct tensor *
call_tanh(struct task *me, const struct arguments *a)
{
    return op_on(me, OP_tanh, a->at[0].tensor, NULL, 0);
}

static struct tensor *
call_sigmoid(struct task *me, const struct arguments *a)
{
    return op_on(me, OP_sigmoid, a->at[0].tensor, NULL, 0);
}

static struct tensor *
call_softplus(struct task *me, const struct arguments *a)
{
    return softplus(me, a->at[0].tensor, a->at[1].number, a->at[2].number);
}

static struct tensor *
call_leaky_relu(struct task *me, const struct arguments *a)
{
    return leaky_relu(me, a->at[0].tensor, a->at[1].number);
}

static struct tensor *
call_elu(struct task *me, const struct arguments *a)
{
    return elu(me, a->at[0].tensor, a->at[1].number);
}

static struct tensor *
call_dropout(struct task *me, const struct arguments *a)
{
    return dropout(me, a->at[0].tensor, a->at[1].number, DROP_ELEMENTS, a->at[2].integer[0]);
}

static struct tensor *
call_dropout2d(struct task *me, const struct arguments *a)
{
    return dropout(me, a->at[0].tensor, a->at[1].number, DROP_CHANNELS, a->at[2].integer[0]);
}

static struct tensor *
call_alpha_dropout(struct task *me, const struct arguments *a)
{
    return dropout(me, a->at[0].tensor, a->at[1].number, DROP_ALPHA, a->at[2].integer[0]);
}

/* stride, padding, dilation, groups from argument 3 on. */
static struct conv_options
conv_of_arguments(const struct arguments *a)
{
    struct conv_options o = { .groups = a->at[6].integer[0] };
    memcpy(o.stride, a->at[3].integer, sizeof o.stride);
    memcpy(o.padding, a->at[4].integer, sizeof o.padding);
    memcpy(o.dilation, a->at[5].integer, sizeof o.dilation);
    return o;
}

static struct tensor *
call_conv2d(struct task *me, const struct arguments *a)
{
    struct conv_options options = conv_of_arguments(a);
    return conv2d(me, a->at[0].tensor, a->at[1].tensor, a->at[2].tensor, &options);
}

static struct tensor *
call_conv1d(struct task *me, const struct arguments *a)
{
    struct conv_options options = conv_of_arguments(a);
    return conv1d(me, a->at[0].tensor, a->at[1].tensor, a->at[2].tensor, &options);
}

static struct pool_options
pool_of_arguments(const struct arguments *a)
{
    struct pool_options o = { .dilation = { 1, 1 } };
    memcpy(o.kernel, a->at[1].integer, sizeof o.kernel);
    memcpy(o.stride, a->at[2].none ? a->at[1].integer : a->at[2].integer, sizeof o.stride);
    memcpy(o.padding, a->at[3].integer, sizeof o.padding);
    return o;
}

static struct tensor *
call_max_pool2d(struct task *me, const struct arguments *a)
{
    struct pool_options options = pool_of_arguments(a);
    memcpy(options.dilation, a->at[4].integer, sizeof options.dilation);
    options.ceil = a->at[5].integer[0];
    return max_pool2d(me, a->at[0].tensor, &options);
}

static struct tensor *
call_avg_pool2d(struct task *me, const struct arguments *a)
{
    struct pool_options options = pool_of_arguments(a);
    options.ceil   = a->at[4].integer[0];
    options.inside = !a->at[5].integer[0];
    return avg_pool2d(me, a->at[0].tensor, &options);
}

static struct tensor *
call_adaptive_avg_pool2d(struct task *me, const struct arguments *a)
{
    return adaptive_avg_pool2d(me, a->at[0].tensor, a->at[1].integer);
}

static struct tensor *
call_batch_norm(struct task *me, const struct arguments *a)
{
    struct batch_norm_options o = { .running_mean = a->at[1].tensor, .running_var = a->at[2].tensor,
                                    .weight = a->at[3].tensor, .bias = a->at[4].tensor,
                                    .training = a->at[5].integer[0], .momentum = a->at[6].number,
                                    .eps = a->at[7].number };
    return batch_norm(me, a->at[0].tensor, &o);
}

static struct tensor *
call_layer_norm(struct task *me, const struct arguments *a)
{
    const struct tensor *x = a->at[0].tensor;
    int                  dims = a->at[1].count;
    bool                 fits = dims > 0 && x->dims >= dims;
    for (int d = 0; fits && d < dims; d++)
        fits = x->size[x->dims - dims + d] == a->at[1].integer[d];
    if (!fits)
        return failed_null(me, E_RUNTIME, "layer_norm: normalized_shape must be the input's last %d dimensions: the "
                                          "last is %lld there and %lld here", dims,
                           (long long)(dims > 0 ? a->at[1].integer[dims - 1] : 0),
                           (long long)(x->dims > 0 ? x->size[x->dims - 1] : 0));
    return layer_norm(me, a->at[0].tensor, dims, a->at[2].tensor, a->at[3].tensor, a->at[4].number);
}

static struct tensor *
call_group_norm(struct task *me, const struct arguments *a)
{
    return group_norm(me, a->at[0].tensor, a->at[1].integer[0], a->at[2].tensor, a->at[3].tensor, a->at[4].number);
}

static struct tensor *
call_embedding(struct task *me, const struct arguments *a)
{
    struct tensor           *weight = a->at[1].tensor;
    struct embedding_options o = { .padding_idx = a->at[2].none ? -1 : a->at[2].integer[0],
                                   .max_norm = a->at[3].none ? 0 : a->at[3].number, .norm_type = a->at[4].number,
                                   .scale_grad_by_freq = a->at[5].integer[0], .sparse = a->at[6].integer[0] };
    if (!a->at[2].none && o.padding_idx < 0)
        o.padding_idx += tensor_size(weight, 0);
    if (!a->at[2].none && (o.padding_idx < 0 || o.padding_idx >= tensor_size(weight, 0)))
        return failed_null(me, E_VALUE, "embedding: padding_idx must be within num_embeddings");
    return embedding_with(me, weight, a->at[0].tensor, &o);
}

static struct tensor *
call_mse_loss(struct task *me, const struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction)
               ? mean_square(me, a->at[0].tensor, a->at[1].tensor, reduction) : NULL;
}

static struct tensor *
call_l1_loss(struct task *me, const struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction) ? l1_loss(me, a->at[0].tensor, a->at[1].tensor, reduction)
                                                          : NULL;
}

static struct tensor *
call_huber_loss(struct task *me, const struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction)
               ? huber_loss(me, a->at[0].tensor, a->at[1].tensor, reduction, a->at[3].number) : NULL;
}

static struct tensor *
call_nll_loss(struct task *me, const struct arguments *a)
{
    struct loss_options o = { .weight = a->at[2].tensor, .ignore_index = a->at[3].integer[0] };
    return reduction_parse(me, a->at[4].text, &o.reduction) ? nll_loss(me, a->at[0].tensor, a->at[1].tensor, &o)
                                                            : NULL;
}

static struct tensor *
call_cross_entropy(struct task *me, const struct arguments *a)
{
    struct loss_options o = { .weight = a->at[2].tensor, .ignore_index = a->at[3].integer[0],
                              .label_smoothing = a->at[5].number };
    return reduction_parse(me, a->at[4].text, &o.reduction)
               ? cross_entropy_loss(me, a->at[0].tensor, a->at[1].tensor, &o) : NULL;
}

static struct tensor *
call_bce_with_logits(struct task *me, const struct arguments *a)
{
    struct loss_options o = { .weight = a->at[2].tensor, .pos_weight = a->at[4].tensor };
    return reduction_parse(me, a->at[3].text, &o.reduction)
               ? bce_with_logits(me, a->at[0].tensor, a->at[1].tensor, &o) : NULL;
}

static const struct function_kind kinds[] = {
    { "softmax", "shares that add up to 1", call_softmax,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "dim", P_INTEGER, 0, -1, 0 } } },
    { "gelu", "input times the normal distribution's share below it", call_gelu,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "approximate", P_TEXT, 0, 0, "none" } } },
    { "silu", "input * sigmoid(input)", call_silu, { { "input", P_TENSOR, P_NEEDED, 0, 0 } } },
    { "tanh", "hyperbolic tangent", call_tanh, { { "input", P_TENSOR, P_NEEDED, 0, 0 } } },
    { "sigmoid", "1 / (1 + exp(-input))", call_sigmoid, { { "input", P_TENSOR, P_NEEDED, 0, 0 } } },
    { "softplus", "log(1 + exp(input))", call_softplus,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "beta", P_NUMBER, 0, 1, 0 }, { "threshold", P_NUMBER, 0, 20, 0 } } },
    { "leaky_relu", "input, below 0 times the slope", call_leaky_relu,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "negative_slope", P_NUMBER, 0, 0.01, 0 } } },
    { "elu", "input, below 0 alpha * (exp(input) - 1)", call_elu,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "alpha", P_NUMBER, 0, 1, 0 } } },
    { "dropout", "elements become 0 with probability p, the others larger", call_dropout,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "p", P_NUMBER, 0, 0.5, 0 }, { "training", P_FLAG, 0, 1, 0 } } },
    { "dropout2d", "the same of whole channels", call_dropout2d,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "p", P_NUMBER, 0, 0.5, 0 }, { "training", P_FLAG, 0, 1, 0 } } },
    { "alpha_dropout", "dropout that keeps mean and variance", call_alpha_dropout,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "p", P_NUMBER, 0, 0.5, 0 }, { "training", P_FLAG, 0, 0, 0 } } },
    { "conv1d", "cross-correlation of rows", call_conv1d,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "weight", P_TENSOR, P_NEEDED, 0, 0 },
      { "bias", P_TENSOR, P_NONE, 0, 0 },
        { "stride", P_PAIR, 0, 1, 0 }, { "padding", P_PAIR, 0, 0, 0 }, { "dilation", P_PAIR, 0, 1, 0 },
        { "groups", P_INTEGER, 0, 1, 0 } } },
    { "conv2d", "cross-correlation of planes", call_conv2d,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "weight", P_TENSOR, P_NEEDED, 0, 0 },
      { "bias", P_TENSOR, P_NONE, 0, 0 },
        { "stride", P_PAIR, 0, 1, 0 }, { "padding", P_PAIR, 0, 0, 0 }, { "dilation", P_PAIR, 0, 1, 0 },
        { "groups", P_INTEGER, 0, 1, 0 } } },
    { "max_pool2d", "the largest of each window", call_max_pool2d,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "kernel_size", P_PAIR, P_NEEDED, 0, 0 },
      { "stride", P_PAIR, P_NONE, 0, 0 },
        { "padding", P_PAIR, 0, 0, 0 }, { "dilation", P_PAIR, 0, 1, 0 }, { "ceil_mode", P_FLAG, 0, 0, 0 } } },
    { "avg_pool2d", "the average of each window", call_avg_pool2d,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "kernel_size", P_PAIR, P_NEEDED, 0, 0 },
      { "stride", P_PAIR, P_NONE, 0, 0 },
        { "padding", P_PAIR, 0, 0, 0 }, { "ceil_mode", P_FLAG, 0, 0, 0 }, { "count_include_pad", P_FLAG, 0, 1, 0 } } },
    { "adaptive_avg_pool2d", "averages that make a plane of the size asked for", call_adaptive_avg_pool2d,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "output_size", P_PAIR, P_NEEDED, 0, 0 } } },
    { "batch_norm", "channels normalised over the batch", call_batch_norm,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "running_mean", P_TENSOR, P_NONE, 0, 0 },
        { "running_var", P_TENSOR, P_NONE, 0, 0 }, { "weight", P_TENSOR, P_NONE, 0, 0 },
        { "bias", P_TENSOR, P_NONE, 0, 0 }, { "training", P_FLAG, 0, 0, 0 }, { "momentum", P_NUMBER, 0, 0.1, 0 },
        { "eps", P_NUMBER, 0, 1e-5, 0 } } },
    { "layer_norm", "the last dimensions normalised", call_layer_norm,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "normalized_shape", P_SHAPE, P_NEEDED, 0, 0 },
        { "weight", P_TENSOR, P_NONE, 0, 0 }, { "bias", P_TENSOR, P_NONE, 0, 0 }, { "eps", P_NUMBER, 0, 1e-5, 0 } } },
    { "group_norm", "groups of channels normalised", call_group_norm,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "num_groups", P_INTEGER, P_NEEDED, 0, 0 },
        { "weight", P_TENSOR, P_NONE, 0, 0 }, { "bias", P_TENSOR, P_NONE, 0, 0 }, { "eps", P_NUMBER, 0, 1e-5, 0 } } },
    { "embedding", "rows of the weight, by index", call_embedding,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "weight", P_TENSOR, P_NEEDED, 0, 0 },
        { "padding_idx", P_INTEGER, P_NONE, 0, 0 }, { "max_norm", P_NUMBER, P_NONE, 0, 0 },
        { "norm_type", P_NUMBER, 0, 2, 0 }, { "scale_grad_by_freq", P_FLAG, 0, 0, 0 },
        { "sparse", P_FLAG, 0, 0, 0 } } },
    { "mse_loss", "squared differences", call_mse_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
      { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "l1_loss", "absolute differences", call_l1_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
      { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "huber_loss", "half the square up to delta, from there on straight", call_huber_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
      { "reduction", P_TEXT, 0, 0, "mean" },
        { "delta", P_NUMBER, 0, 1, 0 } } },
    { "smooth_l1_loss", "squares below beta, from there on straight, of slope 1", call_smooth_l1_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
        { "reduction", P_TEXT, 0, 0, "mean" }, { "beta", P_NUMBER, 0, 1, 0 } } },
    { "binary_cross_entropy", "binary cross entropy of probabilities", call_bce_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
        { "weight", P_TENSOR, P_NONE, 0, 0 }, { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "kl_div", "Kullback-Leibler divergence: the input is a logarithm", call_kl_div_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
        { "reduction", P_TEXT, 0, 0, "mean" }, { "log_target", P_FLAG, 0, 0, 0 } } },
    { "soft_margin_loss", "log(1 + exp(-target * input)), targets 1 and -1", call_soft_margin_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
        { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "hinge_embedding_loss", "the input, or what is left of the margin, by targets 1 and -1",
      call_hinge_embedding_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
        { "margin", P_NUMBER, 0, 1, 0 }, { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "poisson_nll_loss", "likelihood of counts by their rate", call_poisson_nll_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
        { "log_input", P_FLAG, 0, 1, 0 }, { "full", P_FLAG, 0, 0, 0 },
        { "eps", P_NUMBER, 0, 1e-8, 0 }, { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "nll_loss", "negative log likelihood of classes by index", call_nll_loss,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
      { "weight", P_TENSOR, P_NONE, 0, 0 },
        { "ignore_index", P_INTEGER, 0, -100, 0 }, { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "cross_entropy", "log_softmax and the likelihood of classes, by index or by their shares", call_cross_entropy,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
      { "weight", P_TENSOR, P_NONE, 0, 0 },
        { "ignore_index", P_INTEGER, 0, -100, 0 }, { "reduction", P_TEXT, 0, 0, "mean" },
        { "label_smoothing", P_NUMBER, 0, 0, 0 } } },
    { "binary_cross_entropy_with_logits", "binary cross entropy of logits", call_bce_with_logits,
      { { "input", P_TENSOR, P_NEEDED, 0, 0 }, { "target", P_TENSOR, P_NEEDED, 0, 0 },
      { "weight", P_TENSOR, P_NONE, 0, 0 },
        { "reduction", P_TEXT, 0, 0, "mean" }, { "pos_weight", P_TENSOR, P_NONE, 0, 0 } } },
};

const struct function_kind *
function_kinds(int *count)
{
    *count = (int)countof(kinds);
    return kinds;
}

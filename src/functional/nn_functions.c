/* nn.functional by name: what functional.h has, with PyTorch's parameters. PyTorch: torch/nn/functional.py. */
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- activations, dropout ---- */

struct tensor *
fn_softmax(struct task *me, struct arguments *a)
{
    return softmax(me, a->at[0].tensor, (int)a->at[1].integer[0]);
}

struct tensor *
fn_log_softmax(struct task *me, struct arguments *a)
{
    return log_softmax(me, a->at[0].tensor, (int)a->at[1].integer[0]);
}

struct tensor *
fn_gelu(struct task *me, struct arguments *a)
{
    return gelu(me, a->at[0].tensor, strcmp(a->at[1].text, "tanh") == 0);
}

struct tensor *
fn_silu(struct task *me, struct arguments *a)
{
    return activated(me, OP_silu, a->at[0].tensor, &(struct activation){ .in_place = a->at[1].integer[0] });
}

struct tensor *
fn_softplus(struct task *me, struct arguments *a)
{
    return softplus(me, a->at[0].tensor, a->at[1].number, a->at[2].number);
}

struct tensor *
fn_leaky_relu(struct task *me, struct arguments *a)
{
    return activated(me, OP_leaky_relu, a->at[0].tensor,
                     &(struct activation){ .a = a->at[1].number, .in_place = a->at[2].integer[0] });
}

struct tensor *
fn_elu(struct task *me, struct arguments *a)
{
    return activated(me, OP_elu, a->at[0].tensor,
                     &(struct activation){ .a = a->at[1].number, .b = 1, .in_place = a->at[2].integer[0] });
}

struct tensor *
fn_dropout(struct task *me, struct arguments *a)
{
    return dropout(me, a->at[0].tensor, a->at[1].number, DROP_ELEMENTS, a->at[2].integer[0]);
}

struct tensor *
fn_dropout2d(struct task *me, struct arguments *a)
{
    return dropout(me, a->at[0].tensor, a->at[1].number, DROP_CHANNELS, a->at[2].integer[0]);
}

struct tensor *
fn_alpha_dropout(struct task *me, struct arguments *a)
{
    return dropout(me, a->at[0].tensor, a->at[1].number, DROP_ALPHA, a->at[2].integer[0]);
}

/* ---- linear maps, rows ---- */

struct tensor *
fn_linear(struct task *me, struct arguments *a)
{
    return linear(me, a->at[0].tensor, a->at[1].tensor, a->at[2].tensor);
}

struct tensor *
fn_embedding(struct task *me, struct arguments *a)
{
    struct tensor           *weight = a->at[1].tensor;
    struct embedding_options o = { .padding_idx = a->at[2].none ? -1 : a->at[2].integer[0],
                                   .max_norm = a->at[3].none ? 0 : a->at[3].number, .norm_type = a->at[4].number,
                                   .scale_grad_by_freq = a->at[5].integer[0], .sparse = a->at[6].integer[0] };
    if (!a->at[2].none && o.padding_idx < 0)
        o.padding_idx += tensor_size(weight, 0);
    if (!a->at[2].none && (o.padding_idx < 0 || o.padding_idx >= tensor_size(weight, 0)))
        return failed_null(me, E_ASSERTION, "embedding: padding_idx must be within num_embeddings");
    return embedding_with(me, weight, a->at[0].tensor, &o);
}

/* ---- convolutions, pooling ---- */

/* stride, padding, dilation, groups from argument 3 on. */
static struct conv_options
conv_settings(const struct arguments *a)
{
    struct conv_options o = { .groups = a->at[6].integer[0] };
    memcpy(o.stride, a->at[3].integer, sizeof o.stride);
    memcpy(o.padding, a->at[4].integer, sizeof o.padding);
    memcpy(o.dilation, a->at[5].integer, sizeof o.dilation);
    return o;
}

struct tensor *
fn_conv1d(struct task *me, struct arguments *a)
{
    struct conv_options options = conv_settings(a);
    return conv1d(me, a->at[0].tensor, a->at[1].tensor, a->at[2].tensor, &options);
}

struct tensor *
fn_conv2d(struct task *me, struct arguments *a)
{
    struct conv_options options = conv_settings(a);
    return conv2d(me, a->at[0].tensor, a->at[1].tensor, a->at[2].tensor, &options);
}

/* kernel_size, stride, padding; a stride that is not given is the kernel's size. */
static struct pool_options
pool_settings(const struct arguments *a)
{
    struct pool_options o = { .dilation = { 1, 1 } };
    memcpy(o.kernel, a->at[1].integer, sizeof o.kernel);
    memcpy(o.stride, a->at[2].none ? a->at[1].integer : a->at[2].integer, sizeof o.stride);
    memcpy(o.padding, a->at[3].integer, sizeof o.padding);
    return o;
}

struct tensor *
fn_max_pool2d(struct task *me, struct arguments *a)
{
    struct pool_options options = pool_settings(a);
    memcpy(options.dilation, a->at[4].integer, sizeof options.dilation);
    options.ceil = a->at[5].integer[0];
    return max_pool2d(me, a->at[0].tensor, &options);
}

struct tensor *
fn_avg_pool2d(struct task *me, struct arguments *a)
{
    struct pool_options options = pool_settings(a);
    options.ceil   = a->at[4].integer[0];
    options.inside = !a->at[5].integer[0];
    return avg_pool2d(me, a->at[0].tensor, &options);
}

struct tensor *
fn_adaptive_avg_pool2d(struct task *me, struct arguments *a)
{
    return adaptive_avg_pool2d(me, a->at[0].tensor, a->at[1].integer, false);
}

/* ---- normalisation ---- */

struct tensor *
fn_batch_norm(struct task *me, struct arguments *a)
{
    struct batch_norm_options o = { .running_mean = a->at[1].tensor, .running_var = a->at[2].tensor,
                                    .weight = a->at[3].tensor, .bias = a->at[4].tensor,
                                    .training = a->at[5].integer[0], .momentum = a->at[6].number,
                                    .eps = a->at[7].number };
    return batch_norm(me, a->at[0].tensor, &o);
}

struct tensor *
fn_layer_norm(struct task *me, struct arguments *a)
{
    int dims = a->at[1].count;
    if (!layer_norm_fits(me, a->at[0].tensor, dims, a->at[1].integer))
        return NULL;
    struct norm_options o = { a->at[2].tensor, a->at[3].tensor, a->at[4].number };
    return layer_norm(me, a->at[0].tensor, dims, &o);
}

struct tensor *
fn_group_norm(struct task *me, struct arguments *a)
{
    struct norm_options o = { a->at[2].tensor, a->at[3].tensor, a->at[4].number };
    return group_norm(me, a->at[0].tensor, a->at[1].integer[0], &o);
}

/* ---- losses of each element ---- */

struct tensor *
fn_mse_loss(struct task *me, struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction)
               ? mean_square(me, a->at[0].tensor, a->at[1].tensor, reduction) : NULL;
}

struct tensor *
fn_l1_loss(struct task *me, struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction) ? l1_loss(me, a->at[0].tensor, a->at[1].tensor, reduction)
                                                          : NULL;
}

struct tensor *
fn_huber_loss(struct task *me, struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction)
               ? huber_loss(me, a->at[0].tensor, a->at[1].tensor, reduction, a->at[3].number) : NULL;
}

struct tensor *
fn_smooth_l1_loss(struct task *me, struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction)
               ? smooth_l1_loss(me, a->at[0].tensor, a->at[1].tensor, reduction, a->at[3].number) : NULL;
}

struct tensor *
fn_soft_margin_loss(struct task *me, struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[2].text, &reduction)
               ? soft_margin_loss(me, a->at[0].tensor, a->at[1].tensor, reduction) : NULL;
}

struct tensor *
fn_hinge_embedding_loss(struct task *me, struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[3].text, &reduction)
               ? hinge_embedding_loss(me, a->at[0].tensor, a->at[1].tensor, reduction, a->at[2].number) : NULL;
}

struct tensor *
fn_poisson_nll_loss(struct task *me, struct arguments *a)
{
    struct poisson_options o = { .log_input = a->at[2].integer[0], .full = a->at[3].integer[0],
                                 .eps = a->at[4].number };
    return reduction_parse(me, a->at[5].text, &o.reduction)
               ? poisson_nll_loss(me, a->at[0].tensor, a->at[1].tensor, &o) : NULL;
}

/* ---- losses of probabilities ---- */

struct tensor *
fn_kl_div(struct task *me, struct arguments *a)
{
    enum reduction reduction = LOSS_SUM;
    bool           batch = strcmp(a->at[2].text, "batchmean") == 0;
    if (!batch && !reduction_parse(me, a->at[2].text, &reduction))
        return NULL;
    return kl_reduced(me, kl_div(me, a->at[0].tensor, a->at[1].tensor, a->at[3].integer[0]), reduction, batch);
}

struct tensor *
fn_binary_cross_entropy(struct task *me, struct arguments *a)
{
    enum reduction reduction;
    return reduction_parse(me, a->at[3].text, &reduction)
               ? binary_cross_entropy(me, a->at[0].tensor, a->at[1].tensor, a->at[2].tensor, reduction) : NULL;
}

struct tensor *
fn_bce_with_logits(struct task *me, struct arguments *a)
{
    struct loss_options o = { .weight = a->at[2].tensor, .pos_weight = a->at[4].tensor };
    return reduction_parse(me, a->at[3].text, &o.reduction)
               ? bce_with_logits(me, a->at[0].tensor, a->at[1].tensor, &o) : NULL;
}

struct tensor *
fn_nll_loss(struct task *me, struct arguments *a)
{
    struct loss_options o = { .weight = a->at[2].tensor, .ignore_index = a->at[3].integer[0] };
    return reduction_parse(me, a->at[4].text, &o.reduction) ? nll_loss(me, a->at[0].tensor, a->at[1].tensor, &o)
                                                            : NULL;
}

struct tensor *
fn_cross_entropy(struct task *me, struct arguments *a)
{
    struct loss_options o = { .weight = a->at[2].tensor, .ignore_index = a->at[3].integer[0],
                              .label_smoothing = a->at[5].number };
    return reduction_parse(me, a->at[4].text, &o.reduction)
               ? cross_entropy_loss(me, a->at[0].tensor, a->at[1].tensor, &o) : NULL;
}

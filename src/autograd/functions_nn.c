/* Gradient functions of layers: activations, convolutions, pooling, normalisation. Where a gradient has a kernel of its
 * own, that is used as long as nobody records; under create_graph the same is spelled in plain ops, whose gradients
 * are known. In PyTorch: tools/autograd/derivatives.yaml. */
#include "autograd/internal.h"
#include "sched/sched.h"

/* ---- activations ---- */

bool
grad_softmax(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0) }, .dim = node->numbers[0] };
    grad_in[0] = op_call_checked(me, OP_softmax_backward, &args);
    return grad_in[0] != NULL;
}

/* r = y (g - s), s = sum of g y. */
bool
grad_softmax_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *h = grad_out[0], *g = node_saved(me, node, 0), *y = node_saved(me, node, 1);
    int            dim = (int)node->numbers[0];
    struct tensor *hy = tensor_sum_dim(me, tensor_mul(me, h, y), dim, true);
    struct tensor *gy = tensor_sum_dim(me, tensor_mul(me, g, y), dim, true);
    if (node_wants(node, 0))
        grad_in[0] = tensor_mul(me, y, tensor_sub(me, h, hy));
    if (node_wants(node, 1))
        {
        struct tensor *first = tensor_mul(me, h, tensor_sub(me, g, gy));
        grad_in[1] = tensor_sub(me, first, tensor_mul(me, g, hy));
    }
    return !task_failed(me);
}

/* P(x) + x p(x) with the normal distribution's P and p. */
static struct tensor *
gelu_slope(struct task *me, struct tensor *x)
{
    struct tensor *below = op_on(me, OP_erf, tensor_mul_number(me, x, 0.70710678118654752440), NULL, 0);
    struct tensor *half  = tensor_mul_number(me, op_on(me, OP_square, x, NULL, 0), -0.5);
    struct tensor *bell  = tensor_mul_number(me, op_on(me, OP_exp, half, NULL, 0), 0.39894228040143267794);
    struct tensor *share = tensor_mul_number(me, tensor_add_number(me, below, 1), 0.5);
    return tensor_add(me, share, tensor_mul(me, x, bell));
}

static struct tensor *
gelu_tanh_slope(struct task *me, struct tensor *x)
{
    const double   root = 0.79788456080286535588, cube = 0.044715;
    struct tensor *square = op_on(me, OP_square, x, NULL, 0);
    struct tensor *inner  = tensor_mul(me, x, tensor_add_number(me, tensor_mul_number(me, square, cube), 1));
    struct tensor *t      = op_on(me, OP_tanh, tensor_mul_number(me, inner, root), NULL, 0);
    struct tensor *rest   = tensor_add_number(me, tensor_neg(me, op_on(me, OP_square, t, NULL, 0)), 1);
    struct tensor *slope  = tensor_mul_number(me, tensor_add_number(me, tensor_mul_number(me, square, 3 * cube), 1),
                                              0.5 * root);
    struct tensor *share = tensor_mul_number(me, tensor_add_number(me, t, 1), 0.5);
    return tensor_add(me, share, tensor_mul(me, tensor_mul(me, x, rest), slope));
}

bool
grad_gelu(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x    = node_saved(me, node, 0);
    struct op_args args = { .in = { grad_out[0], x }, .start = node->numbers[1] };
    if (!grad_enabled(me))
        grad_in[0] = op_call_checked(me, OP_gelu_backward, &args);
    else
        grad_in[0] = tensor_mul(me, grad_out[0], node->numbers[1] == 1 ? gelu_tanh_slope(me, x) : gelu_slope(me, x));
    return grad_in[0] != NULL;
}

/* ---- convolutions: three ops, each one's gradients are the other two ---- */

static struct op_args
conv_operands(const struct node *node, struct tensor *a, struct tensor *b)
{
    struct op_args args = { .in = { a, b, b }, .start = 1 };
    for (int i = 0; i < 7; i++)
        args.sizes[i] = node->numbers[i];
    return args;
}

static struct tensor *
conv_of_input(struct task *me, const struct node *node, struct tensor *x, struct tensor *weight)
{
    struct op_args args = conv_operands(node, x, weight);
    return op_call_checked(me, OP_conv2d, &args);
}

/* The result is as high and as wide as `like`. */
static struct tensor *
conv_sized(struct task *me, enum op op, struct op_args args, const struct tensor *like)
{
    args.length = tensor_size(like, -2);
    args.step   = tensor_size(like, -1);
    return like != NULL ? op_call_checked(me, op, &args) : NULL;
}

static struct tensor *
conv_to_input(struct task *me, const struct node *node, struct tensor *grad, struct tensor *weight,
              const struct tensor *image)
{
    return conv_sized(me, OP_conv_transpose2d, conv_operands(node, grad, weight), image);
}

static struct tensor *
conv_to_weight(struct task *me, const struct node *node, struct tensor *grad, struct tensor *x,
               const struct tensor *weight)
{
    return conv_sized(me, OP_conv2d_weight, conv_operands(node, grad, x), weight);
}

bool
grad_conv2d(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *weight = node_saved(me, node, 1);
    if (node_wants(node, 0))
        grad_in[0] = conv_to_input(me, node, grad_out[0], weight, x);
    if (node_wants(node, 1))
        grad_in[1] = conv_to_weight(me, node, grad_out[0], x, weight);
    if (node_wants(node, 2))
        grad_in[2] = tensor_fold(me, OP_sum_dims, grad_out[0], &(struct fold_options){ .dims = 3, .dim = { 0, 2, 3 } });
    return !task_failed(me);
}

bool
grad_conv_transpose2d(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *grad = node_saved(me, node, 0), *weight = node_saved(me, node, 1);
    if (node_wants(node, 0))
        grad_in[0] = conv_of_input(me, node, grad_out[0], weight);
    if (node_wants(node, 1))
        grad_in[1] = conv_to_weight(me, node, grad, grad_out[0], weight);
    return !task_failed(me);
}

bool
grad_conv2d_weight(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *grad = node_saved(me, node, 0), *x = node_saved(me, node, 1);
    if (node_wants(node, 0))
        grad_in[0] = conv_of_input(me, node, x, grad_out[0]);
    if (node_wants(node, 1))
        grad_in[1] = conv_to_input(me, node, grad, grad_out[0], x);
    return !task_failed(me);
}

/* ---- pooling ---- */

bool
grad_max_pool2d(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0) },
                            .length = node->in_size[node->in_dims - 2], .step = node->in_size[node->in_dims - 1] };
    grad_in[0] = op_call_checked(me, OP_max_pool2d_backward, &args);
    return grad_in[0] != NULL;
}

bool
grad_max_pool2d_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0) } };
    grad_in[0] = op_call_checked(me, OP_max_pool2d, &args);
    return grad_in[0] != NULL;
}

static struct op_args
average_args(const struct node *node, struct tensor *tensor)
{
    struct op_args args = { .in = { tensor }, .start = node->numbers[7] };
    for (int i = 0; i < 6; i++)
        args.sizes[i] = node->numbers[i];
    args.sizes[6] = args.sizes[7] = 1;
    return args;
}

bool
grad_avg_pool2d(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = average_args(node, grad_out[0]);
    args.length = node->in_size[node->in_dims - 2];
    args.step   = node->in_size[node->in_dims - 1];
    grad_in[0]  = op_call_checked(me, OP_avg_pool2d_backward, &args);
    return grad_in[0] != NULL;
}

/* keepdim (a last, cut window) shows in the number of windows. */
bool
grad_avg_pool2d_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = average_args(node, grad_out[0]);
    int64_t        room = tensor_size(grad_out[0], -2) + 2 * args.sizes[4] - args.sizes[0];
    int64_t        rows = node->in_size[node->in_dims - 2];
    args.keepdim = args.start != 2 && args.sizes[2] > 0 && rows > room / args.sizes[2] + 1;
    grad_in[0]   = op_call_checked(me, OP_avg_pool2d, &args);
    return grad_in[0] != NULL;
}

/* ---- normalisation ---- */

enum { HAS_WEIGHT = 1, HAS_BIAS = 2, OF_BATCH = 4 };

static struct tensor *
mean_over(struct task *me, struct tensor *x, const struct fold_options *over)
{
    return tensor_fold(me, OP_mean_dims, x, over);
}

/* The normalised input and 1 / sqrt(variance + eps), in plain ops. */
static struct tensor *
normalised(struct task *me, struct tensor *x, const struct fold_options *over, double eps, struct tensor **scale)
{
    struct tensor *centred  = tensor_sub(me, x, mean_over(me, x, over));
    struct tensor *variance = mean_over(me, op_on(me, OP_square, centred, NULL, 0), over);
    *scale = op_on(me, OP_rsqrt, tensor_add_number(me, variance, eps), NULL, 0);
    return tensor_mul(me, centred, *scale);
}

/* scale (g - mean(g) - x mean(g x)) for the normalised x. */
static struct tensor *
normalised_back(struct task *me, struct tensor *g, struct tensor *x, struct tensor *scale,
                const struct fold_options *over)
{
    struct tensor *along = tensor_mul(me, x, mean_over(me, tensor_mul(me, g, x), over));
    return tensor_mul(me, scale, tensor_sub(me, tensor_sub(me, g, mean_over(me, g, over)), along));
}

/* A tensor of one dimension along dimension 1 of x. */
static struct tensor *
by_channel(struct task *me, struct tensor *tensor, const struct tensor *x)
{
    int64_t sizes[TENSOR_DIMS];
    if (tensor == NULL || x == NULL)
        return NULL;
    for (int d = 0; d < x->dims; d++)
        sizes[d] = d == 1 ? x->size[1] : 1;
    return tensor_reshape(me, tensor, x->dims, sizes);
}

static struct fold_options
all_but_channels(const struct tensor *x, bool keepdim)
{
    struct fold_options over = { .keepdim = keepdim };
    for (int d = 0; d < tensor_dims(x); d++)
        if (d != 1)
            over.dim[over.dims++] = d;
    return over;
}

static bool
batch_norm_recorded(struct task *me, struct node *node, struct tensor *g, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *stats = node_saved(me, node, 1), *scale = NULL, *unit;
    struct fold_options over = all_but_channels(x, true), flat = all_but_channels(x, false);
    bool                of_batch = node->numbers[1] & OF_BATCH;
    if (of_batch) {
        unit = normalised(me, x, &over, node->scalar, &scale);
    } else {
        scale = by_channel(me, tensor_select(me, stats, 0, 1), x);
        unit  = tensor_mul(me, tensor_sub(me, x, by_channel(me, tensor_select(me, stats, 0, 0), x)), scale);
    }
    struct tensor *inner = g;
    if (node->numbers[1] & HAS_WEIGHT)
        inner = tensor_mul(me, g, by_channel(me, node_saved(me, node, 2), x));
    if (node_wants(node, 0))
        grad_in[0] = of_batch ? normalised_back(me, inner, unit, scale, &over) : tensor_mul(me, inner, scale);
    if (node_wants(node, 1))
        grad_in[1] = tensor_fold(me, OP_sum_dims, tensor_mul(me, g, unit), &flat);
    if (node_wants(node, 2))
        grad_in[2] = tensor_fold(me, OP_sum_dims, g, &flat);
    return !task_failed(me);
}

static struct tensor *
stats_row(struct task *me, struct tensor *rows, int row)
{
    return tensor_copied(me, tensor_select(me, rows, 0, row));
}

/* Nothing is calculated with them, but they must be those of the forward. */
static bool
running_unchanged(struct task *me, struct node *node)
{
    for (int i = 3; i < node->saved_count; i++)
        if (node_saved(me, node, i) == NULL)
            return false;
    return true;
}

bool
grad_batch_norm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (!running_unchanged(me, node))
        return false;
    if (grad_enabled(me))
        return batch_norm_recorded(me, node, grad_out[0], grad_in);
    struct tensor *x = node_saved(me, node, 0), *stats = node_saved(me, node, 1);
    struct tensor *weight = node_saved(me, node, 2);
    struct op_args args = { .in = { grad_out[0], x, stats } };
    struct tensor *sums = op_call_checked(me, OP_batch_norm_sums, &args);
    if (sums == NULL || weight == NULL)
        return false;
    if (node_wants(node, 0)) {
        struct op_args terms = { .in = { sums, stats, node->numbers[1] & HAS_WEIGHT ? weight : stats },
                                 .start = node->numbers[1],
                                 .length = tensor_size(x, 1) > 0 ? tensor_count(x) / tensor_size(x, 1) : 0 };
        args.in[3] = op_call_checked(me, OP_batch_norm_terms, &terms);
        grad_in[0] = op_call_checked(me, OP_batch_norm_backward, &args);
    }
    if (node_wants(node, 1))
        grad_in[1] = stats_row(me, sums, 1);
    if (node_wants(node, 2))
        grad_in[2] = stats_row(me, sums, 0);
    return !task_failed(me);
}

static bool
layer_norm_recorded(struct task *me, struct node *node, struct tensor *g, struct tensor **grad_in)
{
    struct tensor      *x = node_saved(me, node, 0), *weight = node_saved(me, node, 1), *scale = NULL;
    struct fold_options over = { .keepdim = true }, rows = { .keepdim = false };
    int                 first = tensor_dims(x) - (int)node->numbers[0];
    for (int d = 0; d < tensor_dims(x); d++) {
        if (d >= first)
            over.dim[over.dims++] = d;
        else
            rows.dim[rows.dims++] = d;
    }
    struct tensor *unit = normalised(me, x, &over, node->scalar, &scale);
    if (node_wants(node, 0))
        grad_in[0] = normalised_back(me, node->numbers[1] & HAS_WEIGHT ? tensor_mul(me, g, weight) : g, unit, scale,
                                     &over);
    struct tensor *product = node_wants(node, 1) ? tensor_mul(me, g, unit) : NULL;
    if (node_wants(node, 1))
        grad_in[1] = rows.dims > 0 ? tensor_fold(me, OP_sum_dims, product, &rows) : product;
    if (node_wants(node, 2))
        grad_in[2] = rows.dims > 0 ? tensor_fold(me, OP_sum_dims, g, &rows) : g;
    return !task_failed(me);
}

/* By kernels: the input's gradient, and in rows those of weight and bias. */
static bool
norm_by_kernels(struct task *me, struct node *node, struct tensor *grad, struct tensor **grad_in, enum op back,
                enum op sum)
{
    struct tensor *x = node_saved(me, node, 0), *weight = node_saved(me, node, 1);
    struct op_args args = { .in = { grad, x, node->numbers[1] & HAS_WEIGHT ? weight : x },
                            .dim = node->numbers[0], .start = node->numbers[1], .alpha = node->scalar };
    if (node_wants(node, 0))
        grad_in[0] = op_call_checked(me, back, &args);
    if (!node_wants(node, 1) && !node_wants(node, 2))
        return !task_failed(me);
    struct tensor *sums = op_call_checked(me, sum, &args);
    if (node_wants(node, 1))
        grad_in[1] = stats_row(me, sums, 0);
    if (node_wants(node, 2))
        grad_in[2] = stats_row(me, sums, 1);
    return !task_failed(me);
}

bool
grad_layer_norm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (grad_enabled(me))
        return layer_norm_recorded(me, node, grad_out[0], grad_in);
    return norm_by_kernels(me, node, grad_out[0], grad_in, OP_layer_norm_backward, OP_layer_norm_sums);
}

/* numbers: groups, what there is. In plain ops: rows of [samples, groups, rest] are normalised. */
static bool
group_norm_recorded(struct task *me, struct node *node, struct tensor *g, struct tensor **grad_in)
{
    struct tensor      *x = node_saved(me, node, 0), *scale = NULL;
    struct fold_options over = { .keepdim = true, .dims = 1, .dim = { 2 } };
    if (x == NULL)
        return false;
    struct fold_options channels = all_but_channels(x, false);
    int64_t             groups = node->numbers[0], rows = x->size[0] * groups;
    const int64_t       apart[3] = { x->size[0], groups, rows > 0 ? tensor_count(x) / rows : 0 };
    struct tensor      *unit = normalised(me, tensor_reshape(me, x, 3, apart), &over, node->scalar, &scale);
    struct tensor      *inner = g;
    if (node->numbers[1] & HAS_WEIGHT)
        inner = tensor_mul(me, g, by_channel(me, node_saved(me, node, 1), x));
    if (node_wants(node, 0))
        grad_in[0] = tensor_reshape(me, normalised_back(me, tensor_reshape(me, inner, 3, apart), unit, scale, &over),
                                    x->dims, x->size);
    if (node_wants(node, 1))
        grad_in[1] = tensor_fold(me, OP_sum_dims, tensor_mul(me, g, tensor_reshape(me, unit, x->dims, x->size)),
                                 &channels);
    if (node_wants(node, 2))
        grad_in[2] = tensor_fold(me, OP_sum_dims, g, &channels);
    return !task_failed(me);
}

bool
grad_group_norm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (grad_enabled(me))
        return group_norm_recorded(me, node, grad_out[0], grad_in);
    return norm_by_kernels(me, node, grad_out[0], grad_in, OP_group_norm_backward, OP_group_norm_sums);
}

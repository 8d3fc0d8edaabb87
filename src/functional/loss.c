/* torch.nn.functional: losses, embedding with its options. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/str.h"
#include "functional/functional.h"
#include "sched/sched.h"

/* ---- reductions ---- */

bool
reduction_parse(struct task *me, const char *name, enum reduction *out)
{
    static const char *const names[] = { [LOSS_MEAN] = "mean", [LOSS_SUM] = "sum", [LOSS_NONE] = "none" };
    for (int i = 0; i < 3; i++) {
        *out = (enum reduction)i;
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return failed(me, E_VALUE, "%s is not a valid value for reduction: \"mean\", \"sum\" or \"none\"", name);
}

struct tensor *
reduced(struct task *me, struct tensor *losses, enum reduction reduction)
{
    if (reduction == LOSS_NONE)
        return losses;
    return reduction == LOSS_MEAN ? tensor_mean(me, losses) : tensor_sum(me, losses);
}

/* ---- classes ---- */

struct tensor *
nll_loss(struct task *me, struct tensor *input, struct tensor *target, const struct loss_options *options)
{
    if (target != NULL && target->dtype == DTYPE_U8) /* classes may be bytes, not int32 */
        target = tensor_copy_to(me, target, tensor_device(target), DTYPE_I64);
    static const struct recorded_as of_planes = { "NllLoss2DBackward0", 1 };
    struct tensor *weight = options->weight != NULL ? options->weight : target;
    struct op_args args = { .in = { input, target, weight }, .as = tensor_dims(target) > 1 ? &of_planes : NULL,
                            .start = options->ignore_index,
                            .dim = options->reduction, .step = options->weight != NULL,
                            .alpha = options->label_smoothing };
    return input != NULL && target != NULL ? op_call(me, OP_nll_loss, &args) : NULL;
}

static struct tensor *
class_weights(struct task *me, struct tensor *weight, const struct tensor *input, int classes)
{
    int64_t sizes[TENSOR_DIMS];
    for (int d = 0; d < input->dims; d++)
        sizes[d] = d == classes ? tensor_count(weight) : 1;
    return tensor_reshape(me, weight, input->dims, sizes);
}

/* Against a share of each class; the mean is over samples, not over classes. */
static struct tensor *
against_shares(struct task *me, struct tensor *logs, struct tensor *target, const struct loss_options *o)
{
    int     classes = logs->dims > 1 ? 1 : 0;
    int64_t count = logs->dims > 0 ? logs->size[classes] : 1;
    if (o->label_smoothing > 0)
        target = tensor_add_number(me, tensor_mul_number(me, target, 1 - o->label_smoothing),
                                   o->label_smoothing / (double)count);
    struct tensor *product = tensor_mul(me, logs, target);
    if (o->weight != NULL)
        product = tensor_mul(me, product, class_weights(me, o->weight, logs, classes));
    if (o->reduction == LOSS_NONE)
        return tensor_neg(me, tensor_sum_dim(me, product, classes, false));
    struct tensor *sum = tensor_neg(me, tensor_sum(me, product));
    if (o->reduction == LOSS_SUM)
        return sum;
    static const struct recorded_as by_scalar = { "DivBackward1", 1 };
    struct op_args mean = { .in = { sum }, .alpha = count > 0 ? (double)(tensor_count(logs) / count) : 0,
                            .as = &by_scalar };
    return op_call_checked(me, OP_div_scalar, &mean);
}

struct tensor *
cross_entropy_loss(struct task *me, struct tensor *input, struct tensor *target, const struct loss_options *options)
{
    if (input == NULL || target == NULL)
        return NULL;
    if (options->label_smoothing < 0 || options->label_smoothing > 1)
        return failed_null(me, E_RUNTIME, "label_smoothing must be between 0.0 and 1.0. Got: %g",
                           options->label_smoothing);
    if (input->dims < 1)
        return failed_null(me, E_SHAPE, "cross_entropy: expected an input of 1 dimension or more, got one of 0");
    bool           shares = dtype_is_float(target->dtype) && tensor_same_shape(input, target);
    if (dtype_is_float(target->dtype) && !shares)
        return failed_null(me, E_SHAPE, "cross_entropy: expected a target of class numbers (int64), or one of "
                           "probabilities with the input's size %s, got %s of size %s", shape_text(input).text,
                           dtype_name(target->dtype), shape_text(target).text);
    struct tensor *logs = log_softmax(me, input, input->dims > 1 ? 1 : 0);
    if (!shares)
        return nll_loss(me, logs, target, options);
    return logs != NULL ? against_shares(me, logs, target, options) : NULL;
}

/* ---- other losses ---- */

static struct tensor *
other_shape(struct task *me, const char *name, const struct tensor *input, const struct tensor *target)
{
    struct str text = { 0 };
    str_add(&text, "Target size (");
    shape_print(target->dims, target->size, &text);
    str_add(&text, ") must be the same as input size (");
    shape_print(input->dims, input->size, &text);
    failed(me, E_VALUE, "%s: %s)", name, str_text(&text));
    str_free(&text);
    return NULL;
}

/* The shape that both stretch to; false: there is none. */
static bool
common_size(const struct tensor *a, const struct tensor *b, struct tensor *out)
{
    out->dims = a->dims > b->dims ? a->dims : b->dims;
    for (int i = 1; i <= out->dims; i++) {
        int64_t x = i <= a->dims ? a->size[a->dims - i] : 1, y = i <= b->dims ? b->size[b->dims - i] : 1;
        out->size[out->dims - i] = x == 1 ? y : x;
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

/* PyTorch has no gradient for the weights of a loss. NULL: there is none. */
static bool
weight_fits(struct task *me, const char *loss, const char *name, const struct tensor *weight,
            const struct tensor *input)
{
    struct tensor shape;
    if (weight == NULL)
        return true;
    if (!common_size(weight, input, &shape))
        return failed(me, E_SHAPE, "%s: expected a %s that stretches to the input's size %s, got %s", loss, name,
                      shape_text(input).text, shape_text(weight).text);
    return !grad_enabled(me) || (!weight->requires_grad && weight->grad_fn == NULL) ||
           failed(me, E_RUNTIME, "The function '%s' is not differentiable with respect to argument '%s'. This input "
                  "cannot have requires_grad True.", loss, name);
}

enum { NO_POSITIVE = 1, NO_WEIGHT = 2 };

struct tensor *
bce_with_logits(struct task *me, struct tensor *input, struct tensor *target, const struct loss_options *options)
{
    const char    *name = "binary_cross_entropy_with_logits";
    struct tensor *positive = options->pos_weight, *weight = options->weight;
    if (input == NULL || target == NULL || !weight_fits(me, name, "weight", weight, input) ||
        !weight_fits(me, name, "pos_weight", positive, input))
        return NULL;
    if (!tensor_same_shape(input, target))
        return other_shape(me, name, input, target);
    struct op_args args = { .in = { input, target, positive != NULL ? positive : target,
                                    weight != NULL ? weight : target },
                            .start = (positive == NULL ? NO_POSITIVE : 0) | (weight == NULL ? NO_WEIGHT : 0),
                            .dim = options->reduction };
    return op_call(me, OP_bce_with_logits, &args);
}

struct tensor *
binary_cross_entropy(struct task *me, struct tensor *input, struct tensor *target, struct tensor *weight,
                     enum reduction reduction)
{
    if (input == NULL || target == NULL || !weight_fits(me, "binary_cross_entropy", "weight", weight, input))
        return NULL;
    if (!tensor_same_shape(input, target))
        return failed_null(me, E_VALUE, "binary_cross_entropy: expected a target of the input's size %s, got %s",
                           shape_text(input).text, shape_text(target).text);
    struct op_args args = { .in = { input, target, weight != NULL ? weight : target }, .start = weight == NULL,
                            .dim = reduction };
    return op_call(me, OP_bce, &args);
}

/* ---- losses of each element ---- */

bool
loss_fits(struct task *me, const char *name, const struct tensor *input, const struct tensor *target)
{
    struct tensor shape;
    if (input == NULL || target == NULL)
        return false;
    return common_size(input, target, &shape) ||
           failed(me, E_SHAPE, "%s: input %s and target %s do not fit: sizes must be equal or 1, counted from the last "
                  "dimension", name, shape_text(input).text, shape_text(target).text);
}

static struct tensor *
stretched_to(struct task *me, struct tensor *x, const struct tensor *shape)
{
    return tensor_same_shape(x, shape) ? x : tensor_expand(me, x, shape->dims, shape->size);
}

/* A loss of differences: operands of different shapes stretch to one first. */
static struct tensor *
loss_apart(struct task *me, enum op op, struct tensor *const both[2], const struct op_args *how)
{
    struct tensor *input = both[0], *target = both[1];
    struct op_args args = *how;
    struct tensor  shape = { .dims = 0 };
    if (!loss_fits(me, op_info(op)->name, input, target))
        return NULL;
    bool stretch = !tensor_same_shape(input, target) && common_size(input, target, &shape);
    args.in[0] = stretch ? stretched_to(me, input, &shape) : input;
    args.in[1] = stretch ? stretched_to(me, target, &shape) : target;
    return op_call_checked(me, op, &args);
}

struct tensor *
mean_square(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction)
{
    return loss_apart(me, OP_mse_loss, (struct tensor *[]){ input, target }, &(struct op_args){ .dim = reduction });
}

struct tensor *
mse_loss(struct task *me, struct tensor *input, struct tensor *target)
{
    return mean_square(me, input, target, LOSS_MEAN);
}

struct tensor *
l1_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction)
{
    return loss_fits(me, "l1_loss", input, target)
               ? reduced(me, tensor_abs(me, tensor_sub(me, input, target)), reduction) : NULL;
}

struct tensor *
huber_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction, double delta)
{
    if (!(delta > 0))
        return failed_null(me, E_RUNTIME, "huber_loss does not support non-positive values for delta, got %g", delta);
    return loss_apart(me, OP_huber_loss, (struct tensor *[]){ input, target },
                      &(struct op_args){ .dim = reduction, .alpha = delta });
}

struct tensor *
smooth_l1_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction, double beta)
{
    if (beta < 0)
        return failed_null(me, E_RUNTIME, "smooth_l1_loss does not support negative values for beta, got %g", beta);
    if (beta == 0)
        return l1_loss(me, input, target, reduction);
    return loss_apart(me, OP_smooth_l1_loss, (struct tensor *[]){ input, target },
                      &(struct op_args){ .dim = reduction, .alpha = beta });
}

struct tensor *
soft_margin_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction)
{
    return loss_apart(me, OP_soft_margin_loss, (struct tensor *[]){ input, target },
                      &(struct op_args){ .dim = reduction });
}

/* ---- embedding ---- */

/* In place, unrecorded, as embedding_renorm_. */
static bool
renorm(struct task *me, struct tensor *weight, struct tensor *indices, const struct embedding_options *o)
{
    struct op_args args = { .in = { weight, indices }, .out = weight, .alpha = o->max_norm, .beta = o->norm_type };
    if (op_run(me, OP_embedding_renorm, &args) == NULL)
        return false;
    tensor_bump(weight);
    return true;
}

struct tensor *
embedding_with(struct task *me, struct tensor *weight, struct tensor *indices, const struct embedding_options *options)
{
    indices = whole_indices(me, indices);
    struct op_args args = { .in = { weight, indices }, .start = options->padding_idx,
                            .step = options->scale_grad_by_freq, .flag = options->sparse };
    if (weight == NULL || indices == NULL || (options->max_norm > 0 && !renorm(me, weight, indices, options)))
        return NULL;
    return op_call(me, OP_embedding, &args);
}

/* ---- as everybody calls it, without options ---- */

struct tensor *
cross_entropy(struct task *me, struct tensor *input, struct tensor *target)
{
    return cross_entropy_loss(me, input, target, &(struct loss_options){ .ignore_index = IGNORE_INDEX });
}

/* Gradient functions of activations. Each has a kernel; under create_graph the slope is spelled in plain ops, whose
 * gradients are known. In PyTorch: tools/autograd/derivatives.yaml, ATen/native/cpu/Activation.cpp. */
#include "autograd/internal.h"
#include "sched/sched.h"

typedef struct tensor *slope(struct task *me, const struct node *node, struct tensor *x);

static bool
activation_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in,
                    enum op back, slope *recorded)
{
    struct tensor *x    = node_saved(me, node, 0);
    struct op_args args = { .in = { grad_out[0], x }, .alpha = node->scalar, .beta = node->beta };
    if (x == NULL)
        return false;
    grad_in[0] = grad_enabled(me) ? tensor_mul(me, grad_out[0], recorded(me, node, x))
                                  : op_call_checked(me, back, &args);
    return grad_in[0] != NULL;
}

/* ---- pieces ---- */

static struct tensor *
number_like(struct task *me, const struct tensor *x, double number)
{
    return x != NULL ? tensor_number(me, x->dtype, tensor_device(x), number) : NULL;
}

/* True where x compares so with the number: flat. */
static struct tensor *
compared(struct task *me, enum op op, struct tensor *x, double number)
{
    struct tensor *flat = tensor_detach(me, x);
    return op_on(me, op, flat, number_like(me, x, number), 1);
}

static struct tensor *
chosen(struct task *me, struct tensor *condition, struct tensor *yes, struct tensor *no)
{
    return op_call_checked(me, OP_where, &(struct op_args){ .in = { condition, yes, no } });
}

static struct tensor *
numbers_where(struct task *me, struct tensor *condition, const struct tensor *like, double yes, double no)
{
    struct tensor *first = number_like(me, like, yes);
    return chosen(me, condition, first, number_like(me, like, no));
}

static struct tensor *
share_of(struct task *me, struct tensor *x)
{
    return op_on(me, OP_sigmoid, x, NULL, 1);
}

/* factor e^(x / width) where x is not above 0, `above` where it is; exp is asked for no large number. */
static struct tensor *
bent_below_zero(struct task *me, struct tensor *x, double factor, double width, double above)
{
    struct tensor *not_above = compared(me, OP_le, x, 0);
    struct tensor *low = chosen(me, not_above, x, number_like(me, x, 0));
    if (width != 1)
        low = tensor_div_number(me, low, width);
    struct tensor *bent = tensor_mul_number(me, op_on(me, OP_exp, low, NULL, 1), factor);
    return chosen(me, not_above, bent, number_like(me, x, above));
}

/* ---- slopes ---- */

/* s (1 + x (1 - s)) with s = sigmoid(x) */
static struct tensor *
silu_slope(struct task *me, const struct node *node, struct tensor *x)
{
    struct tensor *share = share_of(me, x), *rest = tensor_add_number(me, tensor_neg(me, share), 1);
    (void)node;
    return tensor_mul(me, share, tensor_add_number(me, tensor_mul(me, x, rest), 1));
}

/* t + x s (1 - t^2) with t = tanh(softplus(x)), s = sigmoid(x) */
static struct tensor *
mish_slope(struct task *me, const struct node *node, struct tensor *x)
{
    struct op_args soft = { .in = { x }, .alpha = 1, .beta = 20 };
    struct tensor *t = op_on(me, OP_tanh, op_call_checked(me, OP_softplus, &soft), NULL, 1);
    struct tensor *rest = tensor_add_number(me, tensor_neg(me, op_on(me, OP_square, t, NULL, 1)), 1);
    (void)node;
    struct tensor *along = tensor_mul(me, x, share_of(me, x));
    return tensor_add(me, t, tensor_mul(me, along, rest));
}

static struct tensor *
leaky_relu_slope(struct task *me, const struct node *node, struct tensor *x)
{
    return numbers_where(me, compared(me, OP_gt, x, 0), x, 1, node->scalar);
}

static struct tensor *
elu_slope(struct task *me, const struct node *node, struct tensor *x)
{
    return bent_below_zero(me, x, node->scalar * node->beta, 1, node->beta);
}

static struct tensor *
celu_slope(struct task *me, const struct node *node, struct tensor *x)
{
    return bent_below_zero(me, x, 1, node->scalar, 1);
}

static struct tensor *
softplus_slope(struct task *me, const struct node *node, struct tensor *x)
{
    struct tensor *sharp = node->scalar != 1 ? tensor_mul_number(me, x, node->scalar) : x;
    struct tensor *far = compared(me, OP_gt, sharp, node->beta);
    struct tensor *one = number_like(me, x, 1);
    return chosen(me, far, one, share_of(me, sharp));
}

static struct tensor *
log_sigmoid_slope(struct task *me, const struct node *node, struct tensor *x)
{
    (void)node;
    return share_of(me, tensor_neg(me, x));
}

/* `inside` within the bounds, 0 on them and beyond. */
static struct tensor *
within(struct task *me, struct tensor *x, double low, double high, double inside)
{
    struct tensor *below = compared(me, OP_le, x, low), *above = compared(me, OP_ge, x, high);
    return numbers_where(me, op_on(me, OP_logical_or, below, above, 1), x, 0, inside);
}

static struct tensor *
hardtanh_slope(struct task *me, const struct node *node, struct tensor *x)
{
    return within(me, x, node->scalar, node->beta, 1);
}

static struct tensor *
hardsigmoid_slope(struct task *me, const struct node *node, struct tensor *x)
{
    (void)node;
    return within(me, x, -3, 3, 1.0 / 6);
}

static struct tensor *
hardswish_slope(struct task *me, const struct node *node, struct tensor *x)
{
    struct tensor *line = tensor_add_number(me, tensor_div_number(me, x, 3), 0.5);
    struct tensor *flat = compared(me, OP_le, x, -3), *high = compared(me, OP_ge, x, 3);
    struct tensor *low = chosen(me, flat, number_like(me, x, 0), line);
    (void)node;
    return chosen(me, high, number_like(me, x, 1), low);
}

static struct tensor *
shrink_slope(struct task *me, const struct node *node, struct tensor *x)
{
    struct tensor *not_below = compared(me, OP_ge, x, -node->scalar), *not_above = compared(me, OP_le, x, node->scalar);
    return numbers_where(me, op_on(me, OP_logical_and, not_below, not_above, 1), x, 0, 1);
}

static struct tensor *
threshold_slope(struct task *me, const struct node *node, struct tensor *x)
{
    return numbers_where(me, compared(me, OP_le, x, node->scalar), x, 0, 1);
}

/* ---- one function a row of ops.def ---- */

bool
grad_silu(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_silu_backward, silu_slope);
}

bool
grad_mish(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_mish_backward, mish_slope);
}

bool
grad_leaky_relu(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_leaky_relu_backward, leaky_relu_slope);
}

bool
grad_elu(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_elu_backward, elu_slope);
}

bool
grad_celu(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_celu_backward, celu_slope);
}

bool
grad_softplus(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_softplus_backward, softplus_slope);
}

bool
grad_log_sigmoid(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_log_sigmoid_backward, log_sigmoid_slope);
}

bool
grad_hardtanh(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_hardtanh_backward, hardtanh_slope);
}

bool
grad_hardsigmoid(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_hardsigmoid_backward, hardsigmoid_slope);
}

bool
grad_hardswish(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_hardswish_backward, hardswish_slope);
}

bool
grad_softshrink(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_shrink_backward, shrink_slope);
}

bool
grad_hardshrink(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_shrink_backward, shrink_slope);
}

bool
grad_threshold(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return activation_backward(me, node, grad_out, grad_in, OP_threshold_slope, threshold_slope);
}

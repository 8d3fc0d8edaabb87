/* Gradient functions of elementwise ops: functions of one number, powers, extremes of two, where. Formulas as in
 * PyTorch's tools/autograd/derivatives.yaml; what each finds saved in the node was put there by save.c. */
#include <math.h>
#include "autograd/internal.h"
#include "base/math.h"
#include "sched/task.h"

/* g * f, g / f: what most gradients end with. */
static bool
times(struct task *me, struct tensor *const *grad_out, struct tensor **grad_in, struct tensor *factor)
{
    grad_in[0] = tensor_mul(me, grad_out[0], factor);
    return grad_in[0] != NULL;
}

static bool
over(struct task *me, struct tensor *const *grad_out, struct tensor **grad_in, struct tensor *divisor)
{
    grad_in[0] = tensor_div(me, grad_out[0], divisor);
    return grad_in[0] != NULL;
}

static struct tensor *
squared(struct task *me, struct tensor *x)
{
    return op_on(me, OP_square, x, NULL, 1);
}

/* 1 - x^2, 1 + x^2 */
static struct tensor *
one_and_square(struct task *me, struct tensor *x, double sign)
{
    return tensor_add_number(me, tensor_mul_number(me, squared(me, x), sign), 1);
}

bool
grad_exp(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, node_saved(me, node, 0));
}

bool
grad_exp2(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, tensor_mul_number(me, node_saved(me, node, 0), 0.69314718055994530942));
}

bool
grad_expm1(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, tensor_add_number(me, node_saved(me, node, 0), 1));
}

bool
grad_log(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return over(me, grad_out, grad_in, node_saved(me, node, 0));
}

bool
grad_log2(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return over(me, grad_out, grad_in, tensor_mul_number(me, node_saved(me, node, 0), 0.69314718055994530942));
}

bool
grad_log10(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return over(me, grad_out, grad_in, tensor_mul_number(me, node_saved(me, node, 0), 2.30258509299404568402));
}

bool
grad_log1p(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return over(me, grad_out, grad_in, tensor_add_number(me, node_saved(me, node, 0), 1));
}

bool
grad_sqrt(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return over(me, grad_out, grad_in, tensor_mul_number(me, node_saved(me, node, 0), 2));
}

/* -1/2 g y^3 */
bool
grad_rsqrt(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *cube = op_on(me, OP_pow_scalar, node_saved(me, node, 0), NULL, 3);
    return times(me, grad_out, grad_in, tensor_mul_number(me, cube, -0.5));
}

bool
grad_reciprocal(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, tensor_neg(me, squared(me, node_saved(me, node, 0))));
}

bool
grad_sin(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, op_on(me, OP_cos, node_saved(me, node, 0), NULL, 1));
}

bool
grad_cos(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, tensor_neg(me, op_on(me, OP_sin, node_saved(me, node, 0), NULL, 1)));
}

bool
grad_tan(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, one_and_square(me, node_saved(me, node, 0), 1));
}

bool
grad_asin(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *rest = one_and_square(me, node_saved(me, node, 0), -1);
    return times(me, grad_out, grad_in, op_on(me, OP_rsqrt, rest, NULL, 1));
}

bool
grad_acos(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *rest = one_and_square(me, node_saved(me, node, 0), -1);
    return times(me, grad_out, grad_in, tensor_neg(me, op_on(me, OP_rsqrt, rest, NULL, 1)));
}

bool
grad_atan(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return over(me, grad_out, grad_in, one_and_square(me, node_saved(me, node, 0), 1));
}

bool
grad_sinh(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, op_on(me, OP_cosh, node_saved(me, node, 0), NULL, 1));
}

bool
grad_cosh(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, op_on(me, OP_sinh, node_saved(me, node, 0), NULL, 1));
}

bool
grad_tanh(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = op_on(me, OP_tanh_backward, grad_out[0], node_saved(me, node, 0), 1);
    return grad_in[0] != NULL;
}

bool
grad_sigmoid(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = op_on(me, OP_sigmoid_backward, grad_out[0], node_saved(me, node, 0), 1);
    return grad_in[0] != NULL;
}

/* 2/sqrt(pi) e^(-x^2) */
bool
grad_erf(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *bell = op_on(me, OP_exp, tensor_neg(me, squared(me, node_saved(me, node, 0))), NULL, 1);
    return times(me, grad_out, grad_in, tensor_mul_number(me, bell, 1.12837916709551257390));
}

/* r = g (1 - y^2) */
bool
grad_tanh_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *g = node_saved(me, node, 0), *y = node_saved(me, node, 1);
    if (node_wants(node, 0))
        grad_in[0] = op_on(me, OP_tanh_backward, grad_out[0], y, 1);
    if (node_wants(node, 1))
        grad_in[1] = tensor_mul_number(me, tensor_mul(me, tensor_mul(me, grad_out[0], g), y), -2);
    return !task_failed(me);
}

/* r = g y (1 - y) */
bool
grad_sigmoid_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *g = node_saved(me, node, 0), *y = node_saved(me, node, 1);
    if (node_wants(node, 0))
        grad_in[0] = op_on(me, OP_sigmoid_backward, grad_out[0], y, 1);
    if (node_wants(node, 1)) {
        struct tensor *slope = tensor_add_number(me, tensor_mul_number(me, y, -2), 1);
        grad_in[1] = tensor_mul(me, tensor_mul(me, grad_out[0], g), slope);
    }
    return !task_failed(me);
}

/* Steps are flat. */
bool
grad_flat(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)node;
    grad_in[0] = zeros_of(me, grad_out[0], grad_out[0]->dims, grad_out[0]->size);
    return grad_in[0] != NULL;
}

/* ---- powers ---- */

bool
grad_square(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return times(me, grad_out, grad_in, tensor_mul_number(me, node_saved(me, node, 0), 2));
}

/* g n x^(n - 1) */
bool
grad_pow_scalar(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    double n = node->scalar;
    if (n == 0)
        return grad_flat(me, node, grad_out, grad_in);
    struct tensor *lower = op_on(me, OP_pow_scalar, node_saved(me, node, 0), NULL, n - 1);
    return times(me, grad_out, grad_in, tensor_mul_number(me, lower, n));
}

static struct tensor *
where_of(struct task *me, struct tensor *condition, struct tensor *yes, struct tensor *no)
{
    struct op_args args = { .in = { condition, yes, no } };
    return op_call_checked(me, OP_where, &args);
}

static struct tensor *
where_zero(struct task *me, struct tensor *x, double instead)
{
    struct tensor *zero = x != NULL ? zeros_of(me, x, 0, NULL) : NULL;
    return op_on(me, OP_masked_fill, x, op_on(me, OP_eq, x, zero, 1), instead);
}

/* g y x^(y - 1), and g x^y log x, 0 where x is 0 and y is not negative. */
bool
grad_pow(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *y = node_saved(me, node, 1), *power = node_saved(me, node, 2);
    if (x == NULL || y == NULL || power == NULL)
        return false;
    if (node_wants(node, 0)) {
        struct tensor *slope = tensor_mul(me, y, op_on(me, OP_pow, x, tensor_add_number(me, y, -1), 1));
        struct tensor *none  = op_on(me, OP_eq, y, zeros_of(me, y, 0, NULL), 1);
        grad_in[0] = tensor_mul(me, grad_out[0], op_on(me, OP_masked_fill, slope, none, 0));
    }
    if (node_wants(node, 1))
        grad_in[1] = tensor_mul(me, grad_out[0], tensor_mul(me, power,
                                                            op_on(me, OP_log, where_zero(me, x, 1), NULL, 1)));
    return !task_failed(me);
}

/* a^x: g y log a */
bool
grad_rpow_scalar(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    double log_of_base = node->scalar > 0 ? math_log(node->scalar) : node->scalar == 0 ? 0 : NAN;
    return times(me, grad_out, grad_in, tensor_mul_number(me, node_saved(me, node, 0), log_of_base));
}

/* atan2(y, x): g x / (x^2 + y^2) and -g y / (x^2 + y^2) */
bool
grad_atan2(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *y = node_saved(me, node, 0), *x = node_saved(me, node, 1);
    struct tensor *xx = squared(me, x), *yy = squared(me, y);
    struct tensor *scaled = tensor_div(me, grad_out[0], tensor_add(me, xx, yy));
    if (node_wants(node, 0))
        grad_in[0] = tensor_mul(me, scaled, x);
    if (node_wants(node, 1))
        grad_in[1] = tensor_neg(me, tensor_mul(me, scaled, y));
    return !task_failed(me);
}

/* ---- choices ---- */

/* Of equal ones each gets half; beside NaN both get all. */
static bool
larger_of(struct task *me, struct node *node, struct tensor *grad, struct tensor **grad_in, enum op beyond)
{
    struct tensor *a = node_saved(me, node, 0), *b = node_saved(me, node, 1);
    struct tensor *half = tensor_mul_number(me, grad, 0.5);
    half = where_of(me, op_on(me, OP_eq, a, b, 1), half, grad);
    for (int i = 0; i < 2; i++) {
        enum op lost = i == 1 ? beyond : beyond == OP_gt ? OP_lt : OP_gt;
        if (node_wants(node, i))
            grad_in[i] = op_on(me, OP_masked_fill, half, op_on(me, lost, a, b, 1), 0);
    }
    return !task_failed(me);
}

bool
grad_maximum(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return larger_of(me, node, grad_out[0], grad_in, OP_gt);
}

bool
grad_minimum(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return larger_of(me, node, grad_out[0], grad_in, OP_lt);
}

/* a - b q with a whole q: g and -g q. */
static bool
rest_of(struct task *me, struct node *node, struct tensor *grad, struct tensor **grad_in, struct tensor *quotient)
{
    grad_in[0] = grad;
    if (node_wants(node, 1))
        grad_in[1] = tensor_neg(me, tensor_mul(me, grad, quotient));
    return !task_failed(me);
}

bool
grad_remainder(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    /* The whole part is flat: it has no gradient of its own. */
    struct tensor *a = tensor_detach(me, node_saved(me, node, 0)), *b = tensor_detach(me, node_saved(me, node, 1));
    return rest_of(me, node, grad_out[0], grad_in, node_wants(node, 1) ? op_on(me, OP_floor_divide, a, b, 1) : NULL);
}

bool
grad_fmod(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *a = node_saved(me, node, 0), *b = node_saved(me, node, 1);
    struct tensor *ratio = node_wants(node, 1) ? tensor_div(me, a, b) : NULL;
    return rest_of(me, node, grad_out[0], grad_in, op_on(me, OP_trunc, ratio, NULL, 1));
}

/* g where the condition holds, half of it where the other one does, else 0. */
static struct tensor *
whole_or_half(struct task *me, struct tensor *g, struct tensor *whole, struct tensor *half)
{
    struct tensor *shared = tensor_mul_number(me, g, 0.5);
    struct tensor *some = where_of(me, half, shared, zeros_of(me, g, 0, NULL));
    return where_of(me, whole, g, some);
}

/* Bounds that are tensors: a bound that x meets shares its gradient, one that x is beyond takes it; where they
 * cross the upper one decides. */
static bool
clamp_between(struct task *me, struct node *node, struct tensor *g, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *low = node_saved(me, node, 1), *high = node_saved(me, node, 2);
    struct tensor *apart = op_on(me, OP_lt, low, high, 1);
    struct tensor *at_low = op_on(me, OP_logical_and, apart, op_on(me, OP_eq, x, low, 1), 1);
    struct tensor *at_high = op_on(me, OP_logical_and, apart, op_on(me, OP_eq, x, high, 1), 1);
    if (node_wants(node, 0)) {
        struct tensor *under = op_on(me, OP_lt, x, low, 1), *over = op_on(me, OP_gt, x, high, 1);
        struct tensor *met = op_on(me, OP_logical_or, at_low, at_high, 1);
        struct tensor *out = op_on(me, OP_logical_or, op_on(me, OP_logical_or, under, over, 1), met, 1);
        grad_in[0] = whole_or_half(me, g, op_on(me, OP_logical_not, out, NULL, 1), met);
    }
    if (node_wants(node, 1)) {
        struct tensor *under = op_on(me, OP_lt, x, low, 1), *uncrossed = op_on(me, OP_le, low, high, 1);
        grad_in[1] = whole_or_half(me, g, op_on(me, OP_logical_and, uncrossed, under, 1), at_low);
    }
    if (node_wants(node, 2)) {
        struct tensor *over = op_on(me, OP_gt, x, high, 1), *crossed = op_on(me, OP_lt, high, low, 1);
        grad_in[2] = whole_or_half(me, g, op_on(me, OP_logical_or, over, crossed, 1), at_high);
    }
    return !task_failed(me);
}

/* The bounds themselves count as outside (inside up to 1.13), and so does NaN. */
bool
grad_clamp(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (node->edge_count > 1)
        return clamp_between(me, node, grad_out[0], grad_in);
    struct tensor *x = node_saved(me, node, 0), *low = node_saved(me, node, 1), *high = node_saved(me, node, 2);
    struct tensor *above = op_on(me, OP_gt, x, low, 1), *below = op_on(me, OP_lt, x, high, 1);
    struct tensor *inside = op_on(me, OP_logical_and, above, below, 1);
    grad_in[0] = where_of(me, inside, grad_out[0], zeros_of(me, grad_out[0], 0, NULL));
    return grad_in[0] != NULL;
}

bool
grad_where(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *condition = node_saved(me, node, 0), *zero = zeros_of(me, grad_out[0], 0, NULL);
    if (node_wants(node, 0))
        grad_in[0] = where_of(me, condition, grad_out[0], zero);
    if (node_wants(node, 1))
        grad_in[1] = where_of(me, condition, zero, grad_out[0]);
    return !task_failed(me);
}

bool
grad_masked_fill(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = op_on(me, OP_masked_fill, grad_out[0], node_saved(me, node, 0), 0);
    return grad_in[0] != NULL;
}

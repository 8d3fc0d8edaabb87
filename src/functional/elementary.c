/* Element by element, made of other ops: what PyTorch has as operators of its own and lessons need now and then. The
 * graph shows the parts. */
#include <math.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functions.h"
#include "sched/task.h"

static struct tensor *
op_of(struct task *me, enum op op, struct tensor *x)
{
    return op_on(me, op, x, NULL, 1);
}

static struct tensor *
chosen(struct task *me, struct tensor *condition, struct tensor *yes, struct tensor *no)
{
    struct op_args args = { .in = { condition, yes, no } };
    return condition != NULL && yes != NULL && no != NULL ? op_call(me, OP_where, &args) : NULL;
}

static struct tensor *
against_number(struct task *me, enum op op, struct tensor *x, double number)
{
    return x != NULL ? op_on(me, op, x, number_beside(me, number, x), 1) : NULL;
}

/* Functions of fractions make them of integers first, as PyTorch's do. */
static struct tensor *
as_fractions(struct task *me, struct tensor *x)
{
    return x == NULL || dtype_is_float(x->dtype) ? x : tensor_cast(me, x, DTYPE_F32);
}

/* ---- of one number ---- */

static bool
holds_fractions(struct task *me, const char *what, const struct tensor *x)
{
    return dtype_is_float(x->dtype) ||
           failed(me, E_NOT_IMPLEMENTED, "%s: expected fractions, got a tensor of %s", what, dtype_name(x->dtype));
}

struct tensor *
fn_frac(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    return holds_fractions(me, "frac", x) ? tensor_sub(me, x, op_of(me, OP_trunc, x)) : NULL;
}

/* sin(pi x) / (pi x), 1 at 0; both branches are finite, so that no gradient is 0 * inf. */
struct tensor *
fn_sinc(struct task *me, struct arguments *a)
{
    struct tensor *x    = as_fractions(me, a->at[0].tensor);
    struct tensor *zero = against_number(me, OP_eq, x, 0);
    struct tensor *turn = tensor_mul_number(me, op_on(me, OP_masked_fill, x, zero, 1), M_PI);
    struct tensor *one  = tensor_add_number(me, tensor_mul_number(me, x, 0), 1);
    return chosen(me, zero, one, tensor_div(me, op_of(me, OP_sin, turn), turn));
}

struct tensor *
fn_deg2rad(struct task *me, struct arguments *a)
{
    return tensor_mul_number(me, as_fractions(me, a->at[0].tensor), M_PI / 180);
}

struct tensor *
fn_rad2deg(struct task *me, struct arguments *a)
{
    return tensor_mul_number(me, as_fractions(me, a->at[0].tensor), 180 / M_PI);
}

/* sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))): exact near 0. */
struct tensor *
fn_asinh(struct task *me, struct arguments *a)
{
    struct tensor *x    = as_fractions(me, a->at[0].tensor);
    struct tensor *size = tensor_abs(me, x), *square = op_of(me, OP_square, x);
    struct tensor *root = op_of(me, OP_sqrt, tensor_add_number(me, square, 1));
    struct tensor *rest = tensor_div(me, square, tensor_add_number(me, root, 1));
    struct tensor *sign = op_of(me, OP_sign, x);
    return tensor_mul(me, sign, op_of(me, OP_log1p, tensor_add(me, size, rest)));
}

/* log1p(d + sqrt(d (d + 2))) with d = x - 1: exact near 1. */
struct tensor *
fn_acosh(struct task *me, struct arguments *a)
{
    struct tensor *over = tensor_add_number(me, as_fractions(me, a->at[0].tensor), -1);
    struct tensor *root = op_of(me, OP_sqrt, tensor_mul(me, over, tensor_add_number(me, over, 2)));
    return op_of(me, OP_log1p, tensor_add(me, over, root));
}

/* (log1p(x) - log1p(-x)) / 2 */
struct tensor *
fn_atanh(struct task *me, struct arguments *a)
{
    struct tensor *x     = as_fractions(me, a->at[0].tensor);
    struct tensor *above = op_of(me, OP_log1p, x), *below = op_of(me, OP_log1p, tensor_neg(me, x));
    return tensor_mul_number(me, tensor_sub(me, above, below), 0.5);
}

struct tensor *
fn_isposinf(struct task *me, struct arguments *a)
{
    return against_number(me, OP_eq, a->at[0].tensor, INFINITY);
}

struct tensor *
fn_isneginf(struct task *me, struct arguments *a)
{
    return against_number(me, OP_eq, a->at[0].tensor, -INFINITY);
}

/* -0 is told by its reciprocal. */
static struct tensor *
negative_sign(struct task *me, struct tensor *x)
{
    struct tensor *below = against_number(me, OP_lt, x, 0);
    if (x == NULL || !dtype_is_float(x->dtype))
        return below;
    struct tensor *minus_zero = against_number(me, OP_eq, op_of(me, OP_reciprocal, x), -INFINITY);
    return op_on(me, OP_logical_or, below, minus_zero, 1);
}

struct tensor *
fn_signbit(struct task *me, struct arguments *a)
{
    return negative_sign(me, a->at[0].tensor);
}

/* log(x / (1 - x)), x kept in [eps, 1 - eps] */
struct tensor *
fn_logit(struct task *me, struct arguments *a)
{
    struct tensor *x   = as_fractions(me, a->at[0].tensor);
    double         eps = a->at[1].none ? -1 : a->at[1].number;
    if (eps >= 0 && x != NULL) {
        struct op_args args = { .in = { x, number_beside(me, eps, x) } };
        args.in[2] = number_beside(me, 1 - eps, x);
        x = args.in[1] != NULL && args.in[2] != NULL ? op_call(me, OP_clamp, &args) : NULL;
    }
    struct tensor *rest = tensor_add_number(me, tensor_neg(me, x), 1);
    return op_of(me, OP_log, tensor_div(me, x, rest));
}

/* ---- of two numbers ---- */

/* The first two arguments, numbers as tensors beside the other; integers as fractions if wanted. */
struct two { struct tensor *x, *y; };

static struct two
two_tensors(struct task *me, const struct arguments *a)
{
    if (!arguments_have_tensor(me, a))
        return (struct two){ NULL, NULL };
    struct tensor *x = argument_tensor(me, &a->at[0], a->at[1].tensor);
    return (struct two){ x, argument_tensor(me, &a->at[1], a->at[0].tensor) };
}

static struct two
two_fractions(struct task *me, const struct arguments *a)
{
    struct two     both = two_tensors(me, a);
    struct tensor *x    = as_fractions(me, both.x);
    return (struct two){ x, as_fractions(me, both.y) };
}

struct tensor *
fn_hypot(struct task *me, struct arguments *a)
{
    struct two     of = two_fractions(me, a);
    struct tensor *x = op_of(me, OP_square, of.x), *y = op_of(me, OP_square, of.y);
    return op_of(me, OP_sqrt, tensor_add(me, x, y));
}

/* The larger, and log1p(exp(-distance)) above it; equal infinities have no distance. */
struct tensor *
fn_logaddexp(struct task *me, struct arguments *a)
{
    struct two     of   = two_fractions(me, a);
    struct tensor *top  = op_on(me, OP_maximum, of.x, of.y, 1);
    struct tensor *away = tensor_abs(me, tensor_sub(me, of.x, of.y));
    struct tensor *same = op_on(me, OP_eq, of.x, of.y, 1), *infinite = op_of(me, OP_isinf, of.x);
    same = op_on(me, OP_logical_and, same, infinite, 1);
    struct tensor *more = op_of(me, OP_log1p, op_of(me, OP_exp, tensor_neg(me, away)));
    return chosen(me, same, top, tensor_add(me, top, more));
}

/* x log(y), 0 where x is, NaN where y is */
struct tensor *
fn_xlogy(struct task *me, struct arguments *a)
{
    struct two     of   = two_fractions(me, a);
    struct tensor *zero = against_number(me, OP_eq, of.x, 0);
    struct tensor *number = op_of(me, OP_logical_not, op_of(me, OP_isnan, of.y));
    struct tensor *none = op_on(me, OP_logical_and, zero, number, 1);
    struct tensor *one  = tensor_add_number(me, tensor_mul_number(me, of.y, 0), 1);
    return tensor_mul(me, of.x, op_of(me, OP_log, chosen(me, none, one, of.y)));
}

struct tensor *
fn_copysign(struct task *me, struct arguments *a)
{
    struct two     of    = two_fractions(me, a);
    struct tensor *size  = tensor_abs(me, of.x);
    struct tensor *minus = tensor_neg(me, size);
    return chosen(me, negative_sign(me, of.y), minus, size);
}

/* 0 below 0, 1 above it, y at it */
struct tensor *
fn_heaviside(struct task *me, struct arguments *a)
{
    struct two     of    = two_tensors(me, a);
    struct tensor *above = against_number(me, OP_gt, of.x, 0), *step = NULL;
    if (above != NULL && of.y != NULL)
        step = tensor_cast(me, above, of.y->dtype);
    return chosen(me, against_number(me, OP_eq, of.x, 0), of.y, step);
}

/* The op is OP_maximum or OP_minimum; NaN counts only where both are. */
struct tensor *
fn_extreme_number(struct task *me, struct arguments *a)
{
    struct two     of   = two_tensors(me, a);
    struct tensor *both = op_on(me, a->function->row->op, of.x, of.y, 1);
    both = chosen(me, op_of(me, OP_isnan, of.y), of.x, both);
    return chosen(me, op_of(me, OP_isnan, of.x), of.y, both);
}

struct tensor *
fn_float_power(struct task *me, struct arguments *a)
{
    struct two     of = two_tensors(me, a);
    struct tensor *x  = tensor_cast(me, of.x, DTYPE_F64);
    return op_on(me, OP_pow, x, tensor_cast(me, of.y, DTYPE_F64), 1);
}

/* ---- of three ---- */

/* x + weight (end - x), from the nearer end */
struct tensor *
fn_lerp(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *end = a->at[1].tensor, *weight = a->at[2].tensor;
    if (!holds_fractions(me, "lerp", x))
        return NULL;
    struct tensor *way = tensor_sub(me, end, x);
    if (weight == NULL && fabs(a->at[2].number) < 0.5)
        return tensor_add_scaled(me, x, way, a->at[2].number);
    if (weight == NULL)
        return tensor_add_scaled(me, end, way, -(1 - a->at[2].number));
    struct tensor *rest = tensor_add_number(me, tensor_neg(me, weight), 1);
    struct tensor *near = tensor_add(me, x, tensor_mul(me, weight, way));
    struct tensor *far  = tensor_sub(me, end, tensor_mul(me, way, rest));
    return chosen(me, against_number(me, OP_lt, tensor_abs(me, weight), 0.5), near, far);
}

struct tensor *
fn_addcmul(struct task *me, struct arguments *a)
{
    struct tensor *product = tensor_mul(me, a->at[1].tensor, a->at[2].tensor);
    return tensor_add_scaled(me, a->at[0].tensor, product, a->at[3].number);
}

struct tensor *
fn_addcdiv(struct task *me, struct arguments *a)
{
    struct tensor *b = a->at[1].tensor, *c = a->at[2].tensor;
    if (!dtype_is_float(b->dtype) && !dtype_is_float(c->dtype))
        return failed_null(me, E_RUNTIME, "addcdiv does not divide integers by integers: use t:float() first");
    return tensor_add_scaled(me, a->at[0].tensor, tensor_div(me, b, c), a->at[3].number);
}

/* Infinities become the ends of the dtype unless something else is given. */
struct tensor *
fn_nan_to_num(struct task *me, struct arguments *a)
{
    struct tensor *x   = a->at[0].tensor;
    double         end = x->dtype == DTYPE_F64 ? 1.7976931348623157e308 : 3.4028234663852886e38;
    if (!dtype_is_float(x->dtype))
        return tensor_copied(me, x);
    x = op_on(me, OP_masked_fill, x, op_of(me, OP_isnan, x), a->at[1].number);
    x = op_on(me, OP_masked_fill, x, against_number(me, OP_eq, x, INFINITY), a->at[2].none ? end : a->at[2].number);
    return op_on(me, OP_masked_fill, x, against_number(me, OP_eq, x, -INFINITY),
                 a->at[3].none ? -end : a->at[3].number);
}

/* ---- are they close? ---- */

/* |a - b| <= atol + rtol |b|; infinities are close to themselves only. */
struct tensor *
fn_isclose(struct task *me, struct arguments *a)
{
    struct tensor *left = tensor_detach(me, a->at[0].tensor), *right = tensor_detach(me, a->at[1].tensor);
    if (left == NULL || right == NULL)
        return NULL;
    if (left->dtype != right->dtype)
        return failed_null(me, E_DTYPE, "isclose: %s did not match %s", dtype_name(left->dtype),
                           dtype_name(right->dtype));
    struct tensor *equal = op_on(me, OP_eq, left, right, 1);
    struct tensor *x = as_fractions(me, left), *y = as_fractions(me, right);
    struct tensor *away  = tensor_abs(me, tensor_sub(me, x, y));
    struct tensor *share = tensor_mul_number(me, tensor_abs(me, y), a->at[2].number);
    struct tensor *bound = tensor_add_number(me, share, a->at[3].number);
    struct tensor *near  = op_on(me, OP_le, away, bound, 1), *finite = op_of(me, OP_isfinite, away);
    near = op_on(me, OP_logical_and, near, finite, 1);
    struct tensor *result = op_on(me, OP_logical_or, equal, near, 1);
    if (a->at[4].integer[0] == 0)
        return result;
    x = op_of(me, OP_isnan, left);
    y = op_of(me, OP_isnan, right);
    return op_on(me, OP_logical_or, result, op_on(me, OP_logical_and, x, y, 1), 1);
}

/* One boolean; waits for the device. */
struct tensor *
fn_allclose(struct task *me, struct arguments *a)
{
    struct fold_options options = { .dims = 0 };
    struct tensor      *result  = tensor_fold(me, OP_all, fn_isclose(me, a), &options);
    unsigned char       all     = 0;
    if (result != NULL && tensor_read(me, result, &all))
        a->number = all;
    return NULL;
}

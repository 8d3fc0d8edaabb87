/* Element by element, made of other ops: what PyTorch has as operators of its own and lessons need now and then. The
 * graph shows the parts. Methods and functions of rs alike: a:lerp(b, 0.5), rs.isclose(a, b). */
#include <math.h>
#include <stdio.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "lua/internal.h"
#include "sched/task.h"

static struct tensor *
unary_op(struct task *me, enum op op, struct tensor *a)
{
    return op_on(me, op, a, NULL, 1);
}

/* A number beside a tensor: it widens nothing within its kind. */
static struct tensor *
number_beside(struct task *me, double number, const struct tensor *beside)
{
    return operand_tensor(me, (struct operand){ .number = number }, beside);
}

static struct tensor *
chosen(struct task *me, struct tensor *condition, struct tensor *yes, struct tensor *no)
{
    struct op_args args = { .in = { condition, yes, no } };
    return condition != NULL && yes != NULL && no != NULL ? op_call(me, OP_where, &args) : NULL;
}

static struct tensor *
compared(struct task *me, enum op op, struct tensor *a, double number)
{
    return a != NULL ? op_on(me, op, a, number_beside(me, number, a), 1) : NULL;
}

/* Functions of fractions make them of integers first, as PyTorch's do. */
static struct tensor *
fractions(struct task *me, struct tensor *a)
{
    return a == NULL || dtype_is_float(a->dtype) ? a : tensor_copy_to(me, a, tensor_device(a), DTYPE_F32);
}

/* ---- of one number ---- */

static struct tensor *
frac_of(struct task *me, struct tensor *x)
{
    return tensor_sub(me, x, unary_op(me, OP_trunc, x));
}

/* sin(pi x) / (pi x), 1 at 0; both branches are finite, so that no gradient is 0 * inf. */
static struct tensor *
sinc_of(struct task *me, struct tensor *x)
{
    struct tensor *zero = compared(me, OP_eq, x, 0);
    struct tensor *turn = tensor_mul_number(me, op_on(me, OP_masked_fill, x, zero, 1), M_PI);
    struct tensor *one  = tensor_add_number(me, tensor_mul_number(me, x, 0), 1);
    return chosen(me, zero, one, tensor_div(me, unary_op(me, OP_sin, turn), turn));
}

static struct tensor *
deg2rad_of(struct task *me, struct tensor *x)
{
    return tensor_mul_number(me, x, M_PI / 180);
}

static struct tensor *
rad2deg_of(struct task *me, struct tensor *x)
{
    return tensor_mul_number(me, x, 180 / M_PI);
}

/* sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))): exact near 0. */
static struct tensor *
asinh_of(struct task *me, struct tensor *x)
{
    struct tensor *size = tensor_abs(me, x), *square = unary_op(me, OP_square, x);
    struct tensor *root = unary_op(me, OP_sqrt, tensor_add_number(me, square, 1));
    struct tensor *rest = tensor_div(me, square, tensor_add_number(me, root, 1));
    struct tensor *sign = unary_op(me, OP_sign, x);
    return tensor_mul(me, sign, unary_op(me, OP_log1p, tensor_add(me, size, rest)));
}

/* log1p(d + sqrt(d (d + 2))) with d = x - 1: exact near 1. */
static struct tensor *
acosh_of(struct task *me, struct tensor *x)
{
    struct tensor *over = tensor_add_number(me, x, -1);
    struct tensor *root = unary_op(me, OP_sqrt, tensor_mul(me, over, tensor_add_number(me, over, 2)));
    return unary_op(me, OP_log1p, tensor_add(me, over, root));
}

/* (log1p(x) - log1p(-x)) / 2 */
static struct tensor *
atanh_of(struct task *me, struct tensor *x)
{
    struct tensor *above = unary_op(me, OP_log1p, x), *below = unary_op(me, OP_log1p, tensor_neg(me, x));
    return tensor_mul_number(me, tensor_sub(me, above, below), 0.5);
}

static struct tensor *
isposinf_of(struct task *me, struct tensor *x)
{
    return compared(me, OP_eq, x, INFINITY);
}

static struct tensor *
isneginf_of(struct task *me, struct tensor *x)
{
    return compared(me, OP_eq, x, -INFINITY);
}

/* -0 is told by its reciprocal. */
static struct tensor *
signbit_of(struct task *me, struct tensor *x)
{
    struct tensor *below = compared(me, OP_lt, x, 0);
    if (x == NULL || !dtype_is_float(x->dtype))
        return below;
    struct tensor *minus_zero = compared(me, OP_eq, unary_op(me, OP_reciprocal, x), -INFINITY);
    return op_on(me, OP_logical_or, below, minus_zero, 1);
}

static const struct {
    const char *name, *help;
    struct tensor *(*of)(struct task *me, struct tensor *x);
    bool fractions;
} unary_rows[] = {
    { "frac", "what follows the point, with its sign", frac_of, false },
    { "sinc", "sin(pi t) / (pi t), 1 at 0", sinc_of, true },
    { "deg2rad", "degrees as radians", deg2rad_of, true },
    { "rad2deg", "radians as degrees", rad2deg_of, true },
    { "asinh", "inverse hyperbolic sines", asinh_of, true },
    { "acosh", "inverse hyperbolic cosines", acosh_of, true },
    { "atanh", "inverse hyperbolic tangents", atanh_of, true },
    { "isposinf", "true where inf", isposinf_of, false },
    { "isneginf", "true where -inf", isneginf_of, false },
    { "signbit", "true where negative, -0 included", signbit_of, false },
};

/* Upvalue 1: the row */
static int
unary(lua_State *L)
{
    struct task   *me  = script_task(L);
    struct tensor *a   = check_tensor(L, 1);
    int            row = (int)lua_tointeger(L, lua_upvalueindex(1));
    reserve_result(L, me, a, NULL);
    struct call call = call_open(L, me, CALL_PLAIN);
    if (unary_rows[row].fractions)
        a = fractions(me, a);
    return call_tensor(&call, a != NULL ? unary_rows[row].of(me, a) : NULL);
}

/* log(x / (1 - x)), x kept in [eps, 1 - eps] */
static int
logit(lua_State *L)
{
    struct task   *me  = script_task(L);
    struct tensor *x   = check_tensor(L, 1);
    double         eps = opt_number(L, 2, -1);
    struct call    call = call_open(L, me, CALL_PLAIN);
    x = fractions(me, x);
    if (eps >= 0 && x != NULL) {
        struct op_args args = { .in = { x, number_beside(me, eps, x) } };
        args.in[2] = number_beside(me, 1 - eps, x);
        x = args.in[1] != NULL && args.in[2] != NULL ? op_call(me, OP_clamp, &args) : NULL;
    }
    struct tensor *rest = tensor_add_number(me, tensor_neg(me, x), 1);
    return call_tensor(&call, unary_op(me, OP_log, tensor_div(me, x, rest)));
}

/* ---- of two numbers ---- */

static struct tensor *
hypot_of(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *x = unary_op(me, OP_square, a), *y = unary_op(me, OP_square, b);
    return unary_op(me, OP_sqrt, tensor_add(me, x, y));
}

/* The larger, and log1p(exp(-distance)) above it; equal infinities have no distance. */
static struct tensor *
logaddexp_of(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *top  = op_on(me, OP_maximum, a, b, 1);
    struct tensor *away = tensor_abs(me, tensor_sub(me, a, b));
    struct tensor *same = op_on(me, OP_eq, a, b, 1), *infinite = unary_op(me, OP_isinf, a);
    same = op_on(me, OP_logical_and, same, infinite, 1);
    struct tensor *more = unary_op(me, OP_log1p, unary_op(me, OP_exp, tensor_neg(me, away)));
    return chosen(me, same, top, tensor_add(me, top, more));
}

/* a log(b), 0 where a is, NaN where b is */
static struct tensor *
xlogy_of(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *zero = compared(me, OP_eq, a, 0), *number = unary_op(me, OP_logical_not, unary_op(me, OP_isnan, b));
    struct tensor *none = op_on(me, OP_logical_and, zero, number, 1);
    struct tensor *one  = tensor_add_number(me, tensor_mul_number(me, b, 0), 1);
    return tensor_mul(me, a, unary_op(me, OP_log, chosen(me, none, one, b)));
}

static struct tensor *
copysign_of(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *size = tensor_abs(me, fractions(me, a));
    struct tensor *minus = tensor_neg(me, size);
    return chosen(me, signbit_of(me, b), minus, size);
}

/* 0 below 0, 1 above it, b at it */
static struct tensor *
heaviside_of(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *above = compared(me, OP_gt, a, 0);
    struct tensor *step  = NULL;
    if (above != NULL && b != NULL)
        step = tensor_copy_to(me, above, tensor_device(above), b->dtype);
    return chosen(me, compared(me, OP_eq, a, 0), b, step);
}

static struct tensor *
fmax_of(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *larger = op_on(me, OP_maximum, a, b, 1);
    larger = chosen(me, unary_op(me, OP_isnan, b), a, larger);
    return chosen(me, unary_op(me, OP_isnan, a), b, larger);
}

static struct tensor *
fmin_of(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *smaller = op_on(me, OP_minimum, a, b, 1);
    smaller = chosen(me, unary_op(me, OP_isnan, b), a, smaller);
    return chosen(me, unary_op(me, OP_isnan, a), b, smaller);
}

static struct tensor *
float_power_of(struct task *me, struct tensor *a, struct tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    a = tensor_copy_to(me, a, tensor_device(a), DTYPE_F64);
    b = tensor_copy_to(me, b, tensor_device(b), DTYPE_F64);
    return a != NULL && b != NULL ? op_on(me, OP_pow, a, b, 1) : NULL;
}

static const struct {
    const char *name, *help;
    struct tensor *(*of)(struct task *me, struct tensor *a, struct tensor *b);
    bool fractions;
} binary_rows[] = {
    { "hypot", "sqrt(t^2 + other^2)", hypot_of, true },
    { "logaddexp", "log(exp(t) + exp(other)), without overflow", logaddexp_of, true },
    { "xlogy", "t * log(other), 0 where t is 0", xlogy_of, true },
    { "copysign", "the size of t with the sign of other", copysign_of, true },
    { "heaviside", "0 below 0, 1 above, other at 0", heaviside_of, false },
    { "fmax", "the larger of two; NaN only where both are", fmax_of, false },
    { "fmin", "the smaller of two; NaN only where both are", fmin_of, false },
    { "float_power", "t ^ other in float64", float_power_of, false },
};

/* Upvalue 1: the row */
static int
binary(lua_State *L)
{
    struct task   *me = script_task(L);
    struct operand a = check_operand(L, 1), b = check_operand(L, 2);
    int            row = (int)lua_tointeger(L, lua_upvalueindex(1));
    if (a.tensor == NULL && b.tensor == NULL)
        arg_error(L, 1, "Tensor");
    reserve_result(L, me, a.tensor, b.tensor);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *left = operand_tensor(me, a, b.tensor), *right = operand_tensor(me, b, a.tensor);
    if (binary_rows[row].fractions) {
        left  = fractions(me, left);
        right = fractions(me, right);
    }
    return call_tensor(&call, left != NULL && right != NULL ? binary_rows[row].of(me, left, right) : NULL);
}

/* Upvalue 1: OP_maximum (clamp_min) or OP_minimum (clamp_max) */
static int
clamp_one(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a  = check_tensor(L, 1);
    struct operand b  = check_operand(L, 2);
    bool           low  = lua_tointeger(L, lua_upvalueindex(1)) == OP_maximum;
    struct call    call = call_open(L, me, CALL_PLAIN);
    if (b.tensor != NULL)
        return call_tensor(&call, op_on(me, low ? OP_maximum : OP_minimum, a, b.tensor, 1));
    struct tensor *bound = operand_tensor(me, b, a), *far = number_beside(me, low ? INFINITY : -INFINITY, a);
    int64_t        end = low ? INT64_MAX : INT64_MIN;
    if (!dtype_is_float(a->dtype))
        far = tensor_from(me, DTYPE_I64, 0, NULL, &end);
    struct op_args args = { .in = { a, low ? bound : far, low ? far : bound } };
    return call_tensor(&call, bound != NULL && far != NULL ? op_call(me, OP_clamp, &args) : NULL);
}

/* ---- of three ---- */

/* a:lerp(b, weight): a + weight (b - a), from the nearer end */
static int
lerp(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    struct operand weight = check_operand(L, 3);
    reserve_result(L, me, a, b);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *way  = tensor_sub(me, b, a);
    if (weight.tensor == NULL && fabs(weight.number) < 0.5)
        return call_tensor(&call, tensor_add_scaled(me, a, way, weight.number));
    if (weight.tensor == NULL)
        return call_tensor(&call, tensor_add_scaled(me, b, way, -(1 - weight.number)));
    struct tensor *rest = tensor_add_number(me, tensor_neg(me, weight.tensor), 1);
    struct tensor *near = tensor_add(me, a, tensor_mul(me, weight.tensor, way));
    struct tensor *far  = tensor_sub(me, b, tensor_mul(me, way, rest));
    return call_tensor(&call, chosen(me, compared(me, OP_lt, tensor_abs(me, weight.tensor), 0.5), near, far));
}

/* a:addcmul(b, c, {value = 1}): a + value * b * c. Upvalue 1: OP_div for addcdiv */
static int
addc(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2), *c = check_tensor(L, 3);
    int            table = option_table(L, lua_istable(L, 4) ? 4 : 0);
    bool           divide = lua_tointeger(L, lua_upvalueindex(1)) == OP_div;
    option_known(L, table, "value");
    double value = option_number(L, table, "value", 1);
    if (divide && !dtype_is_float(b->dtype) && !dtype_is_float(c->dtype))
        raise_error(L, "RuntimeError", "addcdiv does not divide integers by integers: use t:float() first");
    reserve_result(L, me, a, b);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_add_scaled(me, a, (divide ? tensor_div : tensor_mul)(me, b, c), value));
}

/* t:nan_to_num(nan, posinf, neginf): the ends of its dtype unless given */
static int
nan_to_num(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a  = check_tensor(L, 1);
    double         end = a->dtype == DTYPE_F64 ? 1.7976931348623157e308 : 3.4028234663852886e38;
    double         nan = opt_number(L, 2, 0), above = opt_number(L, 3, end), below = opt_number(L, 4, -end);
    reserve_result(L, me, a, NULL);
    struct call call = call_open(L, me, CALL_PLAIN);
    if (!dtype_is_float(a->dtype))
        return call_tensor(&call, tensor_copied(me, a));
    a = op_on(me, OP_masked_fill, a, unary_op(me, OP_isnan, a), nan);
    a = op_on(me, OP_masked_fill, a, isposinf_of(me, a), above);
    return call_tensor(&call, op_on(me, OP_masked_fill, a, isneginf_of(me, a), below));
}

/* ---- are they close? ---- */

struct closeness { double rtol, atol; bool equal_nan; };

static struct closeness
check_closeness(lua_State *L)
{
    int table = option_table(L, lua_istable(L, 3) ? 3 : 0);
    option_known(L, table, "rtol atol equal_nan");
    struct closeness close = { table != 0 ? 1e-5 : opt_number(L, 3, 1e-5), table != 0 ? 1e-8 : opt_number(L, 4, 1e-8),
                               false };
    close.rtol      = option_number(L, table, "rtol", close.rtol);
    close.atol      = option_number(L, table, "atol", close.atol);
    close.equal_nan = option_bool(L, table, "equal_nan", table == 0 && lua_toboolean(L, 5));
    return close;
}

/* |a - b| <= atol + rtol |b|; infinities are close to themselves only. */
static struct tensor *
isclose_of(struct task *me, struct tensor *a, struct tensor *b, struct closeness close)
{
    if (a->dtype != b->dtype)
        return failed_null(me, E_DTYPE, "isclose: %s did not match %s", dtype_name(a->dtype), dtype_name(b->dtype));
    a = tensor_detach(me, a);
    b = tensor_detach(me, b);
    struct tensor *equal = op_on(me, OP_eq, a, b, 1);
    struct tensor *x = fractions(me, a), *y = fractions(me, b);
    struct tensor *away  = tensor_abs(me, tensor_sub(me, x, y));
    struct tensor *bound = tensor_add_number(me, tensor_mul_number(me, tensor_abs(me, y), close.rtol), close.atol);
    struct tensor *near  = op_on(me, OP_le, away, bound, 1), *finite = unary_op(me, OP_isfinite, away);
    near = op_on(me, OP_logical_and, near, finite, 1);
    struct tensor *result = op_on(me, OP_logical_or, equal, near, 1);
    if (!close.equal_nan)
        return result;
    struct tensor *left = unary_op(me, OP_isnan, a), *right = unary_op(me, OP_isnan, b);
    return op_on(me, OP_logical_or, result, op_on(me, OP_logical_and, left, right, 1), 1);
}

static int
isclose(lua_State *L)
{
    struct task     *me = script_task(L);
    struct tensor   *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    struct closeness close = check_closeness(L);
    reserve_result(L, me, a, b);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, isclose_of(me, a, b, close));
}

/* One boolean; waits for the device. */
static int
allclose(lua_State *L)
{
    struct task     *me = script_task(L);
    struct tensor   *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    struct closeness close = check_closeness(L);
    unsigned char    all   = 0;
    reserve_result(L, me, a, b);
    struct call         call    = call_open(L, me, CALL_PLAIN);
    struct fold_options options = { .dims = 0 };
    struct tensor      *result  = tensor_fold(me, OP_all, isclose_of(me, a, b, close), &options);
    call_end(&call, result != NULL && tensor_read(me, result, &all));
    lua_pushboolean(L, all != 0);
    return call_leave(&call, 1);
}

/* ---- registration ---- */

static const struct op_row rows[] = {
    { "logit", logit, 0, "logit(t, eps)", "log(t / (1 - t)), t kept in [eps, 1 - eps]" },
    { "clamp_min", clamp_one, OP_maximum, "clamp_min(t, min)", "not below a number or a tensor" },
    { "clamp_max", clamp_one, OP_minimum, "clamp_max(t, max)", "not above a number or a tensor" },
    { "lerp", lerp, 0, "lerp(t, end, weight)", "t + weight * (end - t)" },
    { "addcmul", addc, OP_mul, "addcmul(t, a, b, {value = 1})", "t + value * a * b" },
    { "addcdiv", addc, OP_div, "addcdiv(t, a, b, {value = 1})", "t + value * a / b" },
    { "nan_to_num", nan_to_num, 0, "nan_to_num(t, nan, posinf, neginf)", "numbers in place of NaN and infinities" },
    { "isclose", isclose, 0, "isclose(a, b, {rtol = 1e-5, atol = 1e-8, equal_nan = false})",
      "true where |a - b| <= atol + rtol * |b|" },
    { "allclose", allclose, 0, "allclose(a, b, {rtol = 1e-5, atol = 1e-8, equal_nan = false})",
      "is every element close? One boolean" },
};

static void
add_row(lua_State *L, const char *name, const char *signature, const char *help, lua_CFunction function, int which)
{
    char usage[64];
    snprintf(usage, sizeof usage, signature, name);
    const struct op_row row = { name, function, which, usage, help };
    add_ops(L, &row, 1);
}

static void
add_all(lua_State *L)
{
    for (size_t i = 0; i < countof(unary_rows); i++)
        add_row(L, unary_rows[i].name, "%s(t)", unary_rows[i].help, unary, (int)i);
    for (size_t i = 0; i < countof(binary_rows); i++)
        add_row(L, binary_rows[i].name, "%s(t, other)", binary_rows[i].help, binary, (int)i);
    add_ops(L, rows, countof(rows));
}

void
lua_open_elementary(lua_State *L)
{
    push_ringside(L);
    add_all(L);
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_all(L);
    lua_pop(L, 2);
}

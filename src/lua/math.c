/* Functions of one and two numbers, element by element, as methods and functions of rs: t:exp(), rs.exp(t), and in
 * place t:exp_(). One function per family; the op is upvalue 1. PyTorch: torch.exp and its like, torch.where,
 * torch.clamp. */
#include "lua/internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

static enum op
op_of(lua_State *L)
{
    return (enum op)lua_tointeger(L, lua_upvalueindex(1));
}

static int
unary(lua_State *L)
{
    struct task   *me = script_task(L);
    arg_most(L, 1);
    struct tensor *a  = check_tensor(L, 1);
    reserve_result(L, me, a, NULL);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_on(me, op_of(L), a, NULL, 1));
}

static int
unary_(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) }, .alpha = 1 };
    enum op        op   = op_of(L);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_self(&call, tensor_in_place(me, op, &args) != NULL);
}

static int
binary(lua_State *L)
{
    struct task   *me = script_task(L);
    arg_most(L, 2);
    struct operand a = check_operand(L, 1), b = check_operand(L, 2);
    enum op        op = op_of(L);
    if (a.tensor == NULL && b.tensor == NULL)
        arg_error(L, 1, "Tensor");
    reserve_result(L, me, a.tensor, b.tensor);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *left = operand_tensor(me, a, b.tensor), *right = operand_tensor(me, b, a.tensor);
    return call_tensor(&call, op_on(me, op, left, right, 1));
}

static int
binary_(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a  = check_tensor(L, 1);
    struct operand b  = check_operand(L, 2);
    enum op        op = op_of(L);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct op_args args = { .in = { a, operand_tensor(me, b, a) }, .alpha = 1 };
    return call_self(&call, tensor_in_place(me, op, &args) != NULL);
}

/* ~mask; of integers all bits. */
static int
inverted(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    bool           truth = tensor->dtype == DTYPE_BOOL;
    if (dtype_is_float(tensor->dtype))
        raise_error(L, "TypeError", "~ (bitwise_not) turns bits round: expected integers or bool, got %s",
                    dtype_name(tensor->dtype));
    reserve_result(L, me, tensor, NULL);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *ones = truth ? NULL : operand_tensor(me, (struct operand){ .number = -1, .integer = true }, tensor);
    if (!truth && ones == NULL)
        return call_tensor(&call, NULL);
    return call_tensor(&call, op_on(me, truth ? OP_logical_not : OP_bitwise_xor, tensor, ones, 1));
}

/* t:pow(2), t:pow(u), rs.pow(2, t), t ^ 2 */
static int
power(lua_State *L)
{
    struct task   *me = script_task(L);
    struct operand a = check_operand(L, 1), b = check_operand(L, 2);
    if (a.tensor == NULL && b.tensor == NULL)
        arg_error(L, 1, "Tensor");
    reserve_result(L, me, a.tensor, b.tensor);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct op_args args = { .in = { a.tensor != NULL ? a.tensor : b.tensor } };
    if (a.tensor != NULL && b.tensor != NULL)
        return call_tensor(&call, op_on(me, OP_pow, a.tensor, b.tensor, 1));
    args.alpha = a.tensor != NULL ? b.number : a.number;
    args.flag  = a.tensor != NULL ? !b.integer : !a.integer;
    return call_tensor(&call, op_call(me, a.tensor != NULL ? OP_pow_scalar : OP_rpow_scalar, &args));
}

static int
power_(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) } };
    struct operand b    = check_operand(L, 2);
    struct call    call = call_open(L, me, CALL_PLAIN);
    args.in[1] = b.tensor;
    args.alpha = b.number;
    args.flag  = !b.integer;
    return call_self(&call, tensor_in_place(me, b.tensor != NULL ? OP_pow : OP_pow_scalar, &args) != NULL);
}

/* ---- clamp ---- */

struct bounds { struct operand low, high; bool has_low, has_high; };

static struct bounds
check_bounds(lua_State *L)
{
    struct bounds bounds = { .has_low = false };
    lua_settop(L, 3);
    if (lua_istable(L, 2)) {
        option_known(L, 2, "min max");
        option_push(L, 2, "min") ? (void)0 : lua_pushnil(L);
        option_push(L, 2, "max") ? (void)0 : lua_pushnil(L);
        lua_replace(L, 3);
        lua_replace(L, 2);
    }
    bounds.has_low  = !lua_isnil(L, 2);
    bounds.has_high = !lua_isnil(L, 3);
    if (!bounds.has_low && !bounds.has_high)
        raise_error(L, "RuntimeError", "clamp: at least one of min and max must be given");
    bounds.low  = bounds.has_low ? check_operand(L, 2) : (struct operand){ NULL, -INFINITY, false };
    bounds.high = bounds.has_high ? check_operand(L, 3) : (struct operand){ NULL, INFINITY, false };
    return bounds;
}

/* A number that may become an element: it must fit, where operands of arithmetic wrap around. */
static struct tensor *
stored_tensor(struct task *me, struct operand operand, const struct tensor *beside)
{
    if (operand.tensor != NULL || beside == NULL)
        return operand_tensor(me, operand, beside);
    enum dtype dtype = dtype_over(beside->dtype, operand.integer ? DTYPE_I64 : default_dtype(me));
    return tensor_full(me, dtype, DEVICE_CPU, 0, NULL, operand.number);
}

/* A bound that is not given is the farthest number of the tensor's kind. */
static struct tensor *
bound_tensor(struct task *me, struct operand bound, bool given, const struct tensor *beside)
{
    if (given || dtype_is_float(beside->dtype))
        return stored_tensor(me, bound, beside);
    bool    low = bound.number < 0;
    int64_t end = low ? INT64_MIN : INT64_MAX;
    if (beside->dtype == DTYPE_I32 || beside->dtype == DTYPE_U8)
        end = beside->dtype == DTYPE_U8 ? (low ? 0 : 255) : low ? INT32_MIN : INT32_MAX;
    return tensor_from(me, DTYPE_I64, 0, NULL, &end);
}

static struct op_args
clamp_args(struct task *me, struct tensor *a, const struct bounds *bounds)
{
    struct tensor *low = bound_tensor(me, bounds->low, bounds->has_low, a);
    return (struct op_args){ .in = { a, low, bound_tensor(me, bounds->high, bounds->has_high, a) } };
}

static int
clamp(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *a      = check_tensor(L, 1);
    struct bounds  bounds = check_bounds(L);
    reserve_result(L, me, a, NULL);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct op_args args = clamp_args(me, a, &bounds);
    return call_tensor(&call, args.in[1] != NULL && args.in[2] != NULL ? op_call(me, OP_clamp, &args) : NULL);
}

static int
clamp_(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *a      = check_tensor(L, 1);
    struct bounds  bounds = check_bounds(L);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct op_args args = clamp_args(me, a, &bounds);
    return call_self(&call, tensor_in_place(me, OP_clamp, &args) != NULL);
}

/* ---- where, masked_fill ---- */

/* rs.where(condition, a, b), condition:where(a, b) */
static int
where(lua_State *L)
{
    struct task   *me        = script_task(L);
    struct tensor *condition = check_tensor(L, 1);
    struct operand a = check_operand(L, 2), b = check_operand(L, 3);
    reserve_result(L, me, condition, a.tensor != NULL ? a.tensor : b.tensor);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *yes = stored_tensor(me, a, b.tensor), *no = stored_tensor(me, b, a.tensor);
    struct op_args args = { .in = { condition, yes, no } };
    return call_tensor(&call, args.in[1] != NULL && args.in[2] != NULL ? op_call(me, OP_where, &args) : NULL);
}

/* A value that is a tensor gets gradients: that is where's business. */
static struct tensor *
filled(struct task *me, struct tensor *a, struct tensor *mask, struct operand value)
{
    struct op_args args = { .in = { mask, value.tensor, a } };
    if (value.tensor == NULL)
        return op_on(me, OP_masked_fill, a, mask, value.number);
    if (value.tensor->dims > 0)
        return failed_null(me, E_RUNTIME, "masked_fill only supports a 0-dimensional value tensor, got one of %d",
                           value.tensor->dims);
    args.in[1] = tensor_copy_to(me, value.tensor, tensor_device(value.tensor), a->dtype);
    return args.in[1] != NULL ? op_call(me, OP_where, &args) : NULL;
}

static int
masked_fill(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *mask = check_tensor(L, 2);
    struct operand value = check_operand(L, 3);
    reserve_result(L, me, a, mask);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, filled(me, a, mask, value));
}

static int
masked_fill_(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1), check_tensor(L, 2) } };
    struct operand value = check_operand(L, 3);
    struct call    call  = call_open(L, me, CALL_PLAIN);
    args.alpha = value.number;
    if (value.tensor == NULL)
        return call_self(&call, tensor_in_place(me, OP_masked_fill, &args) != NULL);
    return call_self(&call, tensor_copy_(me, args.in[0], filled(me, args.in[0], args.in[1], value)) != NULL);
}

/* ---- registration ---- */

static const struct { const char *name; enum op op; bool in_place; const char *help; } unary_rows[] = {
    { "exp", OP_exp, true, "e to the power of each element" },
    { "exp2", OP_exp2, true, "2 to the power of each element" },
    { "expm1", OP_expm1, true, "exp(t) - 1, exact near 0" },
    { "log", OP_log, true, "natural logarithms" },
    { "log2", OP_log2, true, "logarithms to the base 2" },
    { "log10", OP_log10, true, "logarithms to the base 10" },
    { "log1p", OP_log1p, true, "log(1 + t), exact near 0" },
    { "sqrt", OP_sqrt, true, "square roots" },
    { "rsqrt", OP_rsqrt, true, "1 / sqrt(t)" },
    { "reciprocal", OP_reciprocal, true, "1 / t" },
    { "sin", OP_sin, true, "sines" },
    { "cos", OP_cos, true, "cosines" },
    { "tan", OP_tan, true, "tangents" },
    { "asin", OP_asin, true, "inverse sines" },
    { "acos", OP_acos, true, "inverse cosines" },
    { "atan", OP_atan, true, "inverse tangents" },
    { "sinh", OP_sinh, true, "hyperbolic sines" },
    { "cosh", OP_cosh, true, "hyperbolic cosines" },
    { "tanh", OP_tanh, true, "hyperbolic tangents" },
    { "sigmoid", OP_sigmoid, true, "1 / (1 + exp(-t))" },
    { "erf", OP_erf, true, "the error function" },
    { "sign", OP_sign, true, "-1, 0 or 1" },
    { "floor", OP_floor, true, "rounded down" },
    { "ceil", OP_ceil, true, "rounded up" },
    { "trunc", OP_trunc, true, "rounded towards 0" },
    { "round", OP_round, true, "rounded, halves to even" },
    { "square", OP_square, true, "t * t" },
    { "neg", OP_neg, true, "-t" },
    { "abs", OP_abs, true, "absolute values" },
    { "relu", OP_relu, true, "max(t, 0)" },
    { "isnan", OP_isnan, false, "true where not a number" },
    { "isinf", OP_isinf, false, "true where infinite" },
    { "isfinite", OP_isfinite, false, "true where neither infinite nor NaN" },
    { "logical_not", OP_logical_not, false, "true where 0" },
};

static const struct { const char *name; enum op op; const char *help; } binary_rows[] = {
    { "maximum", OP_maximum, "the larger of two, element by element" },
    { "minimum", OP_minimum, "the smaller of two, element by element" },
    { "atan2", OP_atan2, "angles of the points (other, t)" },
    { "remainder", OP_remainder, "t - other * floor(t / other)" },
    { "fmod", OP_fmod, "what is left of the division rounded towards 0" },
    { "floor_divide", OP_floor_divide, "t / other rounded down" },
    { "logical_and", OP_logical_and, "true where neither is 0" },
    { "logical_or", OP_logical_or, "true where one is not 0" },
    { "logical_xor", OP_logical_xor, "true where only one is not 0" },
    { "bitwise_and", OP_bitwise_and, "the bits of both" },
    { "bitwise_or", OP_bitwise_or, "the bits of either" },
    { "bitwise_xor", OP_bitwise_xor, "the bits of only one" },
};

static const struct op_row rows[] = {
    { "pow", power, 0, "pow(t, exponent)", "t ^ exponent; either may be a number" },
    { "clamp", clamp, 0, "clamp(t, {min, max})", "kept between two bounds" },
    { "where", where, 0, "where(condition, a, b)", "a where the condition holds, else b" },
    { "bitwise_not", inverted, 0, "bitwise_not(t)", "all bits turned round; bools too" },
    { "masked_fill", masked_fill, 0, "masked_fill(t, mask, value)", "value where the mask holds" },
};
static const struct op_row rows_in_place[] = {
    { "pow_", power_, 0, "t:pow_(exponent)", "in place: t ^ exponent" },
    { "clamp_", clamp_, 0, "t:clamp_({min, max})", "in place: kept between two bounds" },
    { "masked_fill_", masked_fill_, 0, "t:masked_fill_(mask, value)", "in place: value where the mask holds" },
};

/* The function and, among methods, its twin that works in place. */
static void
add_family(lua_State *L, const char *name, lua_CFunction plain, lua_CFunction in_place, enum op op,
           const char *signature,
           const char *help)
{
    char twin[40], usage[64], in_place_help[160];
    snprintf(usage, sizeof usage, signature, name);
    const struct op_row one = { name, plain, (int)op, usage, help };
    add_ops(L, &one, 1);
    if (in_place == NULL)
        return;
    snprintf(twin, sizeof twin, "%s_", name);
    snprintf(usage, sizeof usage, signature, twin);
    snprintf(in_place_help, sizeof in_place_help, "in place: %s", help);
    const struct op_row other = { twin, in_place, (int)op, usage, in_place_help };
    add_ops(L, &other, 1);
}

static void
add_all(lua_State *L, bool methods)
{
    for (size_t i = 0; i < countof(unary_rows); i++)
        add_family(L, unary_rows[i].name, unary, methods && unary_rows[i].in_place ? unary_ : NULL, unary_rows[i].op,
                   "%s(t)", unary_rows[i].help);
    for (size_t i = 0; i < countof(binary_rows); i++)
        add_family(L, binary_rows[i].name, binary, methods ? binary_ : NULL, binary_rows[i].op, "%s(t, other)",
                   binary_rows[i].help);
    add_ops(L, rows, countof(rows));
    if (methods)
        add_ops(L, rows_in_place, countof(rows_in_place));
}

void
lua_open_math(lua_State *L)
{
    push_ringside(L);
    add_all(L, false);
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_all(L, true);
    lua_pop(L, 1);
    static const struct { const char *event; lua_CFunction function; enum op op; } operators[] = {
        { "__pow", power, OP_pow },
        { "__mod", binary, OP_remainder },
        { "__idiv", binary, OP_floor_divide },
        { "__band", binary, OP_bitwise_and },
        { "__bor", binary, OP_bitwise_or },
        { "__bxor", binary, OP_bitwise_xor },
        { "__bnot", inverted, OP_logical_not },
    };
    for (size_t i = 0; i < countof(operators); i++) {
        lua_pushinteger(L, (int)operators[i].op);
        lua_pushcclosure(L, operators[i].function, 1);
        lua_setfield(L, -2, operators[i].event);
    }
    lua_pop(L, 1);
}

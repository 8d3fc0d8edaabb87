/* Arithmetic, comparisons, choices: element by element, each one node of the graph. A number beside a tensor widens
 * nothing within its kind; in place the result must fit into the tensor's type. PyTorch: torch.add and its like. */
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functions.h"
#include "sched/task.h"

struct tensor *
fn_unary(struct task *me, struct arguments *a)
{
    struct op_args args = { .in = { a->at[0].tensor }, .alpha = 1 };
    return function_apply(me, a, a->function->row->op, &args);
}

struct tensor *
fn_binary(struct task *me, struct arguments *a)
{
    if (!arguments_have_tensor(me, a))
        return NULL;
    struct op_args args = { .alpha = 1 };
    args.in[0] = argument_tensor(me, &a->at[0], a->at[1].tensor);
    args.in[1] = argument_tensor(me, &a->at[1], a->at[0].tensor);
    return function_apply(me, a, a->function->row->op, &args);
}

/* A number as the divisor is no operand of the graph. */
struct tensor *
fn_rest(struct task *me, struct arguments *a)
{
    static const struct recorded_as by_number[] = { { "RemainderBackward0", 1 }, { "FmodBackward0", 1 } };
    enum op op = a->function->row->op;
    if (!arguments_have_tensor(me, a))
        return NULL;
    struct op_args args = { .alpha = 1, .as = a->at[1].tensor == NULL ? &by_number[op == OP_fmod] : NULL };
    args.in[0] = argument_tensor(me, &a->at[0], a->at[1].tensor);
    args.in[1] = argument_tensor(me, &a->at[1], a->at[0].tensor);
    return function_apply(me, a, op, &args);
}

/* ---- arithmetic ---- */

/* A number beside a tensor keeps the tensor's dtype, unless it is of a higher kind: bool < integer < fraction. */
static struct tensor *
promoted(struct task *me, struct tensor *tensor, bool to_fraction)
{
    if (tensor == NULL || dtype_is_float(tensor->dtype))
        return tensor;
    if (to_fraction)
        return tensor_cast(me, tensor, default_dtype(me));
    return tensor->dtype == DTYPE_BOOL ? tensor_cast(me, tensor, DTYPE_I64) : tensor;
}

static bool
holds_fractions(const struct argument *operand)
{
    return operand->tensor != NULL ? dtype_is_float(operand->tensor->dtype) : !operand->whole;
}

/* In place the tensor takes the type of the result: no fractions into integers, nothing but bool into bool. */
static bool
result_fits(struct task *me, const struct arguments *a, bool fraction)
{
    const struct tensor   *tensor  = a->at[0].tensor;
    const struct argument *operand = &a->at[1];
    if (!a->in_place)
        return true;
    enum dtype other  = operand->tensor != NULL ? operand->tensor->dtype
                        : operand->whole        ? DTYPE_I64 : default_dtype(me);
    enum dtype result = operand->tensor != NULL && operand->tensor->dims > 0 ? dtype_promote(tensor->dtype, other)
                                                                             : dtype_over(tensor->dtype, other);
    if (fraction && !dtype_is_float(result))
        result = default_dtype(me);
    return dtype_can_cast(result, tensor->dtype) ||
           failed(me, E_RUNTIME, "result type %s can't be cast to the desired output type %s", dtype_title(result),
                  dtype_title(tensor->dtype));
}

/* A fraction times integers has no place in integers. */
static bool
alpha_fits(struct task *me, const struct arguments *a)
{
    return a->at[2].whole || holds_fractions(&a->at[0]) || holds_fractions(&a->at[1]) ||
           failed(me, E_RUNTIME, "For integral input tensors, argument alpha must not be a floating point number.");
}

static bool
may_subtract(struct task *me, const struct arguments *a)
{
    for (int i = 0; i < 2; i++)
        if (a->at[i].tensor != NULL && a->at[i].tensor->dtype == DTYPE_BOOL)
            return failed(me, E_NOT_IMPLEMENTED, "Subtraction, the `-` operator, with a bool tensor is not supported; "
                          "turn a mask round with `~` or logical_not");
    return true;
}

struct tensor *
fn_add(struct task *me, struct arguments *a)
{
    struct tensor         *left = a->at[0].tensor, *right = a->at[1].tensor;
    const struct argument *b = &a->at[1];
    double                 alpha = a->at[2].number;
    if (!arguments_have_tensor(me, a) || !alpha_fits(me, a) || !result_fits(me, a, false))
        return NULL;
    if (a->in_place)
        return tensor_add_(me, left, argument_tensor(me, b, left), alpha);
    if (left == NULL)
        return tensor_add_number(me, promoted(me, right, !a->at[0].whole), a->at[0].number);
    if (right == NULL)
        return tensor_add_number(me, promoted(me, left, !b->whole), alpha * b->number);
    return op_call(me, OP_add, &(struct op_args){ .in = { left, right }, .alpha = alpha });
}

struct tensor *
fn_sub(struct task *me, struct arguments *a)
{
    struct tensor         *left = a->at[0].tensor, *right = a->at[1].tensor;
    const struct argument *b = &a->at[1];
    struct op_args         args = { .in = { left, right }, .alpha = a->at[2].number };
    if (!arguments_have_tensor(me, a) || !alpha_fits(me, a) || !result_fits(me, a, false) || !may_subtract(me, a))
        return NULL;
    if (a->in_place)
        return tensor_add_(me, left, argument_tensor(me, b, left), -args.alpha);
    if (left != NULL && right != NULL)
        return op_call(me, OP_sub, &args);
    args.alpha = left != NULL ? args.alpha * b->number : a->at[0].number;
    args.in[0] = left != NULL ? promoted(me, left, !b->whole) : promoted(me, right, !a->at[0].whole);
    args.in[1] = NULL;
    return args.in[0] != NULL ? op_call(me, left != NULL ? OP_sub_scalar : OP_rsub_scalar, &args) : NULL;
}

/* By a tensor in place: the product is made first and copied in, which records the same gradients. */
struct tensor *
fn_mul(struct task *me, struct arguments *a)
{
    struct tensor *left = a->at[0].tensor, *right = a->at[1].tensor;
    if (!arguments_have_tensor(me, a) || !result_fits(me, a, false))
        return NULL;
    if (a->in_place && right == NULL)
        return tensor_mul_(me, left, a->at[1].number);
    if (a->in_place)
        return tensor_in_place(me, OP_mul, &(struct op_args){ .in = { left, right }, .alpha = 1 });
    if (left == NULL)
        return tensor_mul_number(me, promoted(me, right, !a->at[0].whole), a->at[0].number);
    if (right == NULL)
        return tensor_mul_number(me, promoted(me, left, !a->at[1].whole), a->at[1].number);
    return tensor_mul(me, left, right);
}

struct tensor *
fn_div(struct task *me, struct arguments *a)
{
    struct tensor *left = a->at[0].tensor, *right = a->at[1].tensor;
    if (!arguments_have_tensor(me, a) || !result_fits(me, a, true))
        return NULL;
    if (a->in_place && right == NULL)
        return tensor_div_(me, left, a->at[1].number);
    if (a->in_place)
        return tensor_in_place(me, OP_div, &(struct op_args){ .in = { left, right }, .alpha = 1 });
    if (left == NULL)
        return tensor_mul_number(me, op_on(me, OP_reciprocal, promoted(me, right, true), NULL, 1), a->at[0].number);
    if (right == NULL)
        return tensor_div_number(me, promoted(me, left, true), a->at[1].number);
    return tensor_div(me, left, right);
}

struct tensor *
fn_pow(struct task *me, struct arguments *a)
{
    const struct argument *base = &a->at[0], *exponent = &a->at[1];
    struct op_args         args = { .in = { base->tensor, exponent->tensor }, .alpha = exponent->number,
                                    .flag = !exponent->whole };
    if (!arguments_have_tensor(me, a))
        return NULL;
    if (base->tensor != NULL)
        return function_apply(me, a, exponent->tensor != NULL ? OP_pow : OP_pow_scalar, &args);
    return op_call(me, OP_rpow_scalar, &(struct op_args){ .in = { exponent->tensor }, .alpha = base->number,
                                                          .flag = !base->whole });
}

/* Its elements as numbers of a type, in the host's memory and me's scope; NULL: failed. */
static const char *
elements_as(struct task *me, struct tensor *x, enum dtype dtype)
{
    char *elements = scratch_new(me, (size_t)tensor_count(x) + 1, dtype_size(dtype));
    if (elements == NULL)
        return NULL;
    return tensor_read(me, tensor_to(me, tensor_detach(me, x), tensor_device(x), dtype), elements) ? elements : NULL;
}

/* Same shape and elements, as numbers of the type that both make. */
struct tensor *
fn_equal(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *y = a->at[1].tensor;
    if (tensor_is_sparse(x) || tensor_is_sparse(y))
        return sparse_refused(me, "equal", tensor_is_sparse(x) ? x : y), NULL;
    enum dtype     common = dtype_promote(x->dtype, y->dtype);
    size_t         element = dtype_size(common), bytes = (size_t)tensor_count(x) * element;
    bool           same = tensor_same_shape(x, y);
    const char    *left = same ? elements_as(me, x, common) : NULL;
    const char    *right = left != NULL ? elements_as(me, y, common) : NULL;
    for (size_t i = 0; i < bytes && same && right != NULL; i += element)
        same = dtype_is_float(common) ? dtype_fraction(common, left + i) == dtype_fraction(common, right + i)
                                      : dtype_whole(common, left + i) == dtype_whole(common, right + i);
    a->number = same;
    return NULL;
}

/* ~mask; of integers all bits. */
struct tensor *
fn_bitwise_not(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    if (dtype_is_float(x->dtype))
        return failed_null(me, E_TYPE, "~ (bitwise_not) turns bits round: expected integers or bool, got %s",
                           dtype_name(x->dtype));
    if (x->dtype == DTYPE_BOOL)
        return op_on(me, OP_logical_not, x, NULL, 1);
    return op_on(me, OP_bitwise_xor, x, argument_tensor(me, &(struct argument){ .number = -1, .whole = true }, x), 1);
}

/* ---- choices ---- */

/* A number that may become an element: it must fit, where operands of arithmetic wrap around. */
static struct tensor *
stored_tensor(struct task *me, const struct argument *operand, const struct tensor *beside)
{
    if (operand->tensor != NULL || beside == NULL)
        return argument_tensor(me, operand, beside);
    enum dtype dtype = dtype_over(beside->dtype, operand->whole ? DTYPE_I64 : default_dtype(me));
    return tensor_number(me, dtype, DEVICE_CPU, operand->number);
}

/* rs.where(condition, a, b), condition:where(a, b) */
struct tensor *
fn_where(struct task *me, struct arguments *a)
{
    struct op_args args = { .in = { a->at[0].tensor, stored_tensor(me, &a->at[1], a->at[2].tensor) } };
    args.in[2] = stored_tensor(me, &a->at[2], a->at[1].tensor);
    return function_apply(me, a, OP_where, &args);
}

/* A value that is a tensor gets gradients: that is where's business. */
static struct tensor *
filled_from(struct task *me, struct tensor *x, struct tensor *mask, struct tensor *value)
{
    if (value->dims > 0)
        return failed_null(me, E_RUNTIME, "masked_fill only supports a 0-dimensional value tensor, got one of %d",
                           value->dims);
    struct op_args args = { .in = { mask, tensor_cast(me, value, x->dtype), x } };
    return args.in[1] != NULL ? op_call(me, OP_where, &args) : NULL;
}

struct tensor *
fn_masked_fill(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *mask = a->at[1].tensor, *value = a->at[2].tensor;
    if (value == NULL)
        return function_apply(me, a, OP_masked_fill, &(struct op_args){ .in = { x, mask }, .alpha = a->at[2].number });
    struct tensor *filled = filled_from(me, x, mask, value);
    return a->in_place && filled != NULL ? tensor_copy_(me, x, filled) : filled;
}

/* Plans: what each op wants of its operands, and the shape and type of its result. The rows of rules.def name them.
 * In PyTorch: the meta functions of ATen/native. */
#include <math.h>
#include <string.h>
#include "tensor/internal.h"

static bool
want_dims(struct task *me, const struct plan *plan, const struct tensor *tensor, int dims)
{
    if (tensor->dims == dims)
        return true;
    return failed(me, E_SHAPE, "%s: expected a tensor of %d dimensions, got one of %d: %s", op_info(plan->op)->name,
                  dims, tensor->dims, shape_text(tensor).text);
}

/* ---- elementwise ---- */

bool
plan_add(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!plan_common(me, plan, args, 0))
        return false;
    if (plan->op == OP_sub && (args->in[0]->dtype == DTYPE_BOOL || args->in[1]->dtype == DTYPE_BOOL))
        return failed(me, E_NOT_IMPLEMENTED, "sub: Subtraction, the `-` operator, with a bool tensor is not supported; "
                      "turn a mask round with `~` or logical_not");
    return plan_stretch(me, plan, args, 0);
}

bool
plan_divide(struct task *me, struct plan *plan, const struct op_args *args)
{
    enum dtype dtype = dtype_promoted(args->in, 2);
    plan_promote(plan, dtype_is_float(dtype) ? dtype : default_dtype(me));
    return plan_stretch(me, plan, args, 0);
}

bool
plan_scalar(struct task *me, struct plan *plan, const struct op_args *args)
{
    enum dtype dtype    = args->in[0]->dtype;
    bool       fraction = args->flag || floor(args->alpha) != args->alpha;
    if (!dtype_is_float(dtype) && (fraction || dtype == DTYPE_BOOL))
        dtype = fraction ? default_dtype(me) : DTYPE_I64;
    plan_promote(plan, dtype);
    return plan_stretch(me, plan, args, 0);
}

bool
plan_divide_scalar(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan_promote(plan, dtype_is_float(args->in[0]->dtype) ? args->in[0]->dtype : default_dtype(me));
    return plan_stretch(me, plan, args, 0);
}

bool
plan_unary(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (args->in[0]->dtype == DTYPE_BOOL)
        return plan_no_kernel(me, plan, args->in[0], "numbers");
    plan_promote(plan, args->in[0]->dtype);
    return plan_stretch(me, plan, args, 0);
}

bool
plan_threshold(struct task *me, struct plan *plan, const struct op_args *args)
{
    return plan_add(me, plan, args);
}

bool
plan_compare(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan_promote(plan, dtype_promoted(args->in, 2));
    plan->dtype = DTYPE_BOOL;
    return plan_stretch(me, plan, args, 0);
}

/* alpha as an element; only what is stored must fit, arithmetic wraps around. */
bool
number_fits(struct task *me, const struct plan *plan, enum dtype dtype)
{
    return dtype_holds(dtype, plan->alpha, floor(plan->alpha) == plan->alpha) ||
           failed(me, E_RUNTIME, "%s: value cannot be converted to type %s without overflow: %.17g",
                  op_info(plan->op)->name, dtype_c_type(dtype), plan->alpha);
}

bool
plan_fill(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (args->out == NULL)
        return failed(me, E_VALUE, "fill: there is nothing to fill");
    if (!number_fits(me, plan, args->out->dtype))
        return false;
    plan_like(plan, args->out);
    plan->device    = tensor_device(args->out);
    plan_promote(plan, args->out->dtype);
    plan->broadcast = true;
    plan->loop_dims = plan->dims;
    memcpy(plan->loop, plan->size, sizeof plan->loop);
    if (plan->dtype == DTYPE_BOOL)
        plan->alpha = plan->alpha != 0;
    return true;
}

/* ---- products ---- */

static bool
plan_product(struct task *me, struct plan *plan, const struct tensor *a, const struct tensor *b)
{
    const char *name = op_info(plan->op)->name;
    if (a->dims != 2 || b->dims != 2)
        return failed(me, E_SHAPE, "%s: %s must be a matrix, got %d-D tensor %s", name, a->dims != 2 ? "mat1" : "mat2",
                      a->dims != 2 ? a->dims : b->dims, shape_text(a->dims != 2 ? a : b).text);
    if (a->size[1] != b->size[0])
        return failed(me, E_SHAPE, "%s: mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld): expected "
                      "as many rows in mat2 as columns in mat1, %lld, got %lld", name, (long long)a->size[0],
                      (long long)a->size[1], (long long)b->size[0], (long long)b->size[1], (long long)a->size[1],
                      (long long)b->size[0]);
    if (a->dtype != b->dtype)
        return failed(me, E_DTYPE, "%s: expected both matrices to have one dtype, got %s and %s",
                      op_info(plan->op)->name, dtype_name(a->dtype), dtype_name(b->dtype));
    if (a->dtype == DTYPE_BOOL)
        return plan_no_kernel(me, plan, a, "numbers");
    plan->dtype     = plan->compute = a->dtype;
    plan->dims      = 2;
    plan->size[0]   = a->size[0];
    plan->size[1]   = b->size[1];
    plan->workspace = cpu_mm_workspace(plan->dtype, a->size[1]);
    plan->products  = (double)a->size[0] * (double)a->size[1] * (double)b->size[1];
    return true;
}

bool
plan_mm(struct task *me, struct plan *plan, const struct op_args *args)
{
    return plan_product(me, plan, args->in[0], args->in[1]);
}

bool
plan_addmm(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!plan_product(me, plan, args->in[1], args->in[2]))
        return false;
    const struct tensor *bias = args->in[0];
    int64_t              sizes[TENSOR_DIMS] = { plan->size[0], plan->size[1] };
    int                  dims = 2;
    struct tensor        product = { .dims = 2 };
    memcpy(product.size, plan->size, sizeof product.size);
    if (bias->dtype != plan->dtype)
        return failed(me, E_DTYPE, "addmm: expected bias and matrices to have one dtype, got %s and %s",
                      dtype_name(bias->dtype), dtype_name(plan->dtype));
    if (!shape_broadcast(&dims, sizes, bias) || dims != 2 || sizes[0] != plan->size[0] || sizes[1] != plan->size[1])
        return failed(me, E_SHAPE, "addmm: expected an input that stretches to the product's shape %s, got %s",
                      shape_text(&product).text, shape_text(bias).text);
    return true;
}

/* ---- embedding ---- */

bool
plan_embedding(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *weight = args->in[0], *indices = args->in[1];
    if (indices->dtype != DTYPE_I64)
        return plan_wrong_dtype(me, plan, indices, "indices of int64");
    if (!want_dims(me, plan, weight, 2))
        return false;
    if (indices->dims >= TENSOR_DIMS)
        return failed(me, E_VALUE, "embedding: the result would have more than %d dimensions", TENSOR_DIMS);
    plan_like(plan, indices);
    plan->size[plan->dims++] = weight->size[1];
    plan_promote(plan, weight->dtype);
    return true;
}

bool
plan_embedding_backward(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *grad = args->in[0], *indices = args->in[1];
    if (indices->dtype != DTYPE_I64)
        return plan_wrong_dtype(me, plan, indices, "indices of int64");
    if (!dtype_is_float(grad->dtype))
        return plan_wrong_dtype(me, plan, grad, "a gradient of fractions");
    if (grad->dims != indices->dims + 1 ||
        memcmp(grad->size, indices->size, (size_t)indices->dims * sizeof *grad->size) != 0)
        return shape_mismatch(me, plan->op, grad, indices, "one row of gradient for each index");
    if (args->length < 0)
        return failed(me, E_VALUE, "embedding_backward: a table of %lld rows", (long long)args->length);
    plan->dims    = 2;
    plan->size[0] = args->length;
    plan->size[1] = grad->size[grad->dims - 1];
    plan->dtype = plan->compute = grad->dtype;
    plan->workspace = args->step == 1 ? (size_t)args->length * sizeof(int64_t) : 0;
    return true;
}

/* The table's shape but for its first dimension is the rows'. */
bool
plan_add_rows(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *table = args->in[0], *indices = args->in[1], *rows = args->in[2];
    if (indices->dtype != DTYPE_I64)
        return plan_wrong_dtype(me, plan, indices, "indices of int64");
    if (!dtype_is_float(table->dtype) && table->dtype != DTYPE_I64)
        return plan_no_kernel(me, plan, table, "a table of fractions or of int64");
    if (rows->dtype != table->dtype)
        return plan_wrong_dtype(me, plan, rows, "rows of the table's type");
    struct tensor wanted = { .dims = rows->dims };
    memcpy(wanted.size, rows->size, sizeof wanted.size);
    wanted.size[0] = tensor_size(table, 0);
    if (indices->dims != 1 || rows->dims < 1 || rows->size[0] != indices->size[0] ||
        !tensor_same_shape(table, &wanted) || !tensor_is_contiguous(rows))
        return shape_mismatch(me, plan->op, table, rows, "the second holds rows of the first");
    plan_like(plan, table);
    plan->dtype = plan->common = plan->compute = table->dtype;
    plan->onto = true;
    return true;
}

/* ---- sums ---- */

static void
sum_types(struct plan *plan, const struct tensor *tensor)
{
    plan_promote(plan, dtype_is_float(tensor->dtype) ? tensor->dtype : DTYPE_I64);
}

bool
plan_sum(struct task *me, struct plan *plan, const struct op_args *args)
{
    (void)me;
    sum_types(plan, args->in[0]);
    plan->dims    = 0;
    plan->reduced = (1u << args->in[0]->dims) - 1;
    return true;
}

bool
plan_sum_dim(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *tensor = args->in[0];
    int                  dim = 0;
    if (!shape_wrap(me, "sum", tensor->dims, args->dim, &dim))
        return false;
    sum_types(plan, tensor);
    for (int i = 0; i < tensor->dims; i++) {
        if (i != dim)
            plan->size[plan->dims++] = tensor->size[i];
        else if (args->keepdim)
            plan->size[plan->dims++] = 1;
    }
    plan->reduced = tensor->dims > 0 ? 1u << dim : 0;
    return true;
}

bool
plan_mean(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!dtype_is_float(args->in[0]->dtype))
        return plan_no_kernel(me, plan, args->in[0], "fractions");
    return plan_sum(me, plan, args);
}

bool
plan_sum_to(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *tensor = args->in[0];
    struct tensor        wanted = { .dims = args->dims };
    int                  added = tensor->dims - args->dims;
    bool                 fits = added >= 0 && args->dims >= 0;
    if (args->dims > 0 && args->dims <= TENSOR_DIMS)
        memcpy(wanted.size, args->sizes, sizeof wanted.size);
    for (int i = 0; fits && i < tensor->dims; i++) {
        bool summed = i < added || (args->sizes[i - added] == 1 && tensor->size[i] != 1);
        fits = summed || args->sizes[i - added] == tensor->size[i];
        plan->reduced |= summed ? 1u << i : 0;
    }
    if (!fits)
        return shape_mismatch(me, plan->op, tensor, &wanted, "the second must stretch to the first");
    sum_types(plan, tensor);
    plan_like(plan, &wanted);
    return true;
}

bool
plan_extreme(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (tensor_count(args->in[0]) == 0)
        return failed(me, E_RUNTIME, "%s: a tensor without elements has none", op_info(plan->op)->name);
    plan_promote(plan, args->in[0]->dtype);
    return true;
}

/* ---- losses ---- */

bool
plan_softmax(struct task *me, struct plan *plan, const struct op_args *args)
{
    int dim = 0;
    if (!dtype_is_float(args->in[0]->dtype))
        return plan_no_kernel(me, plan, args->in[0], "fractions");
    if (!shape_wrap(me, op_info(plan->op)->name, args->in[0]->dims, args->dim, &dim))
        return false;
    plan_like(plan, args->in[0]);
    plan->dim   = dim;
    plan->dtype = plan->compute = args->in[0]->dtype;
    return true;
}

bool
plan_softmax_backward(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!tensor_same_shape(args->in[0], args->in[1]))
        return shape_mismatch(me, plan->op, args->in[0], args->in[1], "gradient and result are alike");
    if (args->in[0]->dtype != args->in[1]->dtype)
        return plan_wrong_dtype(me, plan, args->in[0], dtype_name(args->in[1]->dtype));
    return plan_softmax(me, plan, args);
}

/* dim: the reduction; bce: start 1: the third is no operand. */
bool
plan_loss(struct task *me, struct plan *plan, const struct op_args *args)
{
    int count = op_info(plan->op)->inputs - (plan->op == OP_bce && args->start == 1);
    plan->dim   = args->dim;
    plan->dtype = plan->compute = dtype_promoted(args->in, count);
    if (!dtype_is_float(plan->dtype))
        return plan_no_kernel(me, plan, args->in[0], "fractions");
    if (!plan_stretch(me, plan, args, 0))
        return false;
    plan->dims = args->dim == LOSS_NONE ? plan->dims : 0;
    return true;
}

/* in: gradient, input, target. The gradient stretches to the elements. */
bool
plan_loss_backward(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan->dtype = plan->compute = dtype_promoted(&args->in[1], 2);
    if (!dtype_is_float(plan->dtype))
        return plan_no_kernel(me, plan, args->in[1], "fractions");
    if (!plan_stretch(me, plan, args, 1))
        return false;
    int64_t sizes[TENSOR_DIMS];
    int     dims = plan->dims;
    memcpy(sizes, plan->size, sizeof sizes);
    if (!shape_broadcast(&dims, sizes, args->in[0]) || dims != plan->dims || !sizes_equal(dims, sizes, plan->size))
        return shape_mismatch(me, plan->op, args->in[0], args->in[1], "one gradient for each number of the loss");
    return true;
}

/* alpha: 2, over the elements if the loss is their mean. */
bool
plan_mse_backward(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!plan_loss_backward(me, plan, args))
        return false;
    double count = 1;
    for (int i = 0; i < plan->loop_dims; i++)
        count *= (double)plan->loop[i];
    plan->alpha = args->dim == LOSS_MEAN ? 2.0 / count : 2;
    return true;
}

/* Of fractions; the gradient's operands are alike. */
bool
plan_activation(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan_promote(plan, dtype_promoted(args->in, op_info(plan->op)->inputs));
    if (!dtype_is_float(plan->dtype))
        return plan_wrong_dtype(me, plan, args->in[0], "fractions");
    return plan_stretch(me, plan, args, 0);
}

/* Plans, continued: what functions of one number, comparisons, reductions over dimensions, sorting and picking by index
 * want of their operands, and the shape and type of the result. Arithmetic, layers and losses are in plan.c. */
#include <string.h>
#include "tensor/internal.h"

/* ---- elementwise ---- */

/* Integers become float32. */
bool
plan_function(struct task *me, struct plan *plan, const struct op_args *args)
{
    enum dtype dtype = dtype_promoted(args->in, op_info(plan->op)->inputs);
    plan_promote(plan, dtype_is_float(dtype) ? dtype : default_dtype(me));
    return plan_stretch(me, plan, args, 0);
}

bool
plan_arithmetic(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!plan_common(me, plan, args, 0))
        return false;
    if (plan->dtype == DTYPE_BOOL && plan->op == OP_square)
        plan->dtype = DTYPE_I64;
    if (plan->dtype == DTYPE_BOOL && plan->op != OP_maximum && plan->op != OP_minimum && plan->op != OP_sign)
        return plan_no_kernel(me, plan, args->in[0], "numbers");
    return plan_stretch(me, plan, args, 0);
}

/* A number beside the tensor: of a higher kind it decides. flag: it is a fraction. */
bool
plan_power(struct task *me, struct plan *plan, const struct op_args *args)
{
    enum dtype dtype = args->in[0]->dtype;
    if (!dtype_is_float(dtype) && (args->flag || dtype == DTYPE_BOOL))
        dtype = args->flag ? default_dtype(me) : DTYPE_I64;
    plan_promote(plan, dtype);
    if (plan->op == OP_pow_scalar && !dtype_is_float(dtype) && args->alpha < 0)
        return failed(me, E_RUNTIME, "pow: integers to negative integer powers are not allowed");
    return plan_stretch(me, plan, args, 0);
}

bool
plan_truth(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan_promote(plan, dtype_promoted(args->in, op_info(plan->op)->inputs));
    plan->dtype = DTYPE_BOOL;
    return plan_stretch(me, plan, args, 0);
}

bool
plan_bits(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!plan_common(me, plan, args, 0))
        return false;
    if (dtype_is_float(plan->dtype))
        return plan_no_kernel(me, plan, args->in[0], "integers or bools");
    return plan_stretch(me, plan, args, 0);
}

bool
plan_where(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (args->in[0]->dtype != DTYPE_BOOL && args->in[0]->dtype != DTYPE_U8)
        return plan_wrong_dtype(me, plan, args->in[0], "a condition of bool");
    return plan_common(me, plan, args, 1) && plan_stretch(me, plan, args, 0);
}

bool
plan_masked_fill(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (args->in[1]->dtype != DTYPE_BOOL) /* before PyTorch 2.0 a mask of bytes would do */
        return plan_wrong_dtype(me, plan, args->in[1], "a mask of bool");
    if (!number_fits(me, plan, args->in[0]->dtype))
        return false;
    plan_promote(plan, args->in[0]->dtype);
    return plan_stretch(me, plan, args, 0);
}

/* ---- reductions: over `dims` of `sizes`, over all if there are none ---- */

static bool
reduce_shape(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *tensor = args->in[0];
    plan->reduced = args->dims == 0 ? (1u << tensor->dims) - 1 : 0;
    for (int i = 0; i < args->dims; i++) {
        int dim = 0;
        if (!shape_wrap(me, op_info(plan->op)->name, tensor->dims, args->sizes[i], &dim))
            return false;
        if (tensor->dims > 0 && plan->reduced >> dim & 1)
            return failed(me, E_RUNTIME, "dim %d appears multiple times in the list of dims", dim);
        plan->reduced |= tensor->dims > 0 ? 1u << dim : 0;
    }
    for (int i = 0; i < tensor->dims; i++) {
        if (!(plan->reduced >> i & 1))
            plan->size[plan->dims++] = tensor->size[i];
        else if (args->keepdim)
            plan->size[plan->dims++] = 1;
    }
    return true;
}

bool
plan_sum_dims(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan_promote(plan, dtype_is_float(args->in[0]->dtype) ? args->in[0]->dtype : DTYPE_I64);
    return reduce_shape(me, plan, args);
}

bool
plan_mean_dims(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!dtype_is_float(args->in[0]->dtype))
        return plan_no_kernel(me, plan, args->in[0], "fractions");
    plan_promote(plan, args->in[0]->dtype);
    if (!reduce_shape(me, plan, args))
        return false;
    plan->alpha = 1;
    for (int i = 0; i < args->in[0]->dims; i++)
        plan->alpha *= plan->reduced >> i & 1 ? (double)args->in[0]->size[i] : 1;
    return true;
}

/* alpha: the correction. */
bool
plan_var(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (!dtype_is_float(args->in[0]->dtype))
        return plan_no_kernel(me, plan, args->in[0], "fractions");
    plan_promote(plan, args->in[0]->dtype);
    return reduce_shape(me, plan, args);
}

static bool
some_element(struct task *me, const struct plan *plan, const struct tensor *tensor)
{
    for (int i = 0; i < tensor->dims; i++) {
        if (plan->reduced >> i & 1 && tensor->size[i] == 0)
            return failed(me, E_INDEX, "%s: expected reduction dim %d to have non-zero size", op_info(plan->op)->name,
                          i);
    }
    return true;
}

bool
plan_fold(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan_promote(plan, args->in[0]->dtype);
    return reduce_shape(me, plan, args) && some_element(me, plan, args->in[0]);
}

bool
plan_arg_fold(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan->compute = dtype_wide(args->in[0]->dtype);
    plan->dtype   = DTYPE_I64;
    return reduce_shape(me, plan, args) && some_element(me, plan, args->in[0]);
}

bool
plan_truth_fold(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan->compute = dtype_wide(args->in[0]->dtype);
    plan->dtype   = args->in[0]->dtype == DTYPE_U8 ? DTYPE_U8 : DTYPE_BOOL; /* bytes were the bools of old */
    return reduce_shape(me, plan, args);
}

/* ---- along one dimension ---- */

static bool
plan_along(struct task *me, struct plan *plan, const struct op_args *args)
{
    int dim = 0;
    if (!shape_wrap(me, op_info(plan->op)->name, args->in[0]->dims, args->dim, &dim))
        return false;
    plan_like(plan, args->in[0]);
    plan->dim = dim;
    return true;
}

bool
plan_running(struct task *me, struct plan *plan, const struct op_args *args)
{
    plan_promote(plan, dtype_is_float(args->in[0]->dtype) ? args->in[0]->dtype : DTYPE_I64);
    return plan_along(me, plan, args);
}

enum { SORT_PRODUCTS = 2048 };   /* some 80 ns for each element of a million */

bool
plan_argsort(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *tensor = args->in[0];
    plan->compute = dtype_wide(tensor->dtype);
    plan->dtype   = DTYPE_I64;
    if (!plan_along(me, plan, args))
        return false;
    plan->workspace = cpu_sort_workspace(tensor->dims > 0 ? tensor->size[plan->dim] : 1);
    plan->products  = (double)tensor_count(tensor) * SORT_PRODUCTS;
    return true;
}

static bool
want_indices(struct task *me, const struct plan *plan, const struct tensor *indices)
{
    return indices->dtype == DTYPE_I64 ||
           failed(me, E_DTYPE, "%s(): Expected dtype int64 for index, got %s", op_info(plan->op)->name,
                  dtype_name(indices->dtype));
}

/* The indices have as many dimensions, and in all but `dim` no larger sizes; those of a maximum may lack `dim`. */
bool
plan_gather(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *from = args->in[0], *index = args->in[1];
    if (!want_indices(me, plan, index) || !plan_along(me, plan, args))
        return false;
    bool lacks = index->dims == from->dims - 1, fits = lacks || index->dims == from->dims;
    for (int i = 0; fits && i < from->dims; i++)
        fits = i == plan->dim || index->size[lacks && i > plan->dim ? i - 1 : i] <= from->size[i];
    if (!fits)
        return failed(me, E_SHAPE, "%s: expected index %s to be no larger than self %s apart from dimension %d",
                      op_info(plan->op)->name, shape_text(index).text, shape_text(from).text, (int)plan->dim);
    plan_like(plan, index);
    plan_promote(plan, from->dtype);
    return true;
}

bool
plan_scatter(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *into = args->in[0], *index = args->in[1], *from = args->in[2];
    if (!want_indices(me, plan, index) || !plan_along(me, plan, args))
        return false;
    if (from->dtype != into->dtype)
        return failed(me, E_DTYPE, "%s: expected self and src to have one dtype, got %s and %s",
                      op_info(plan->op)->name,
                      dtype_name(into->dtype), dtype_name(from->dtype));
    bool fits = index->dims == into->dims && index->dims == from->dims;
    for (int i = 0; fits && i < into->dims; i++)
        fits = index->size[i] <= from->size[i] && (i == plan->dim || index->size[i] <= into->size[i]);
    if (!fits)
        return failed(me, E_SHAPE, "%s: expected index %s to be no larger than self %s apart from dimension %d and to "
                      "be no larger than src %s", op_info(plan->op)->name, shape_text(index).text,
                      shape_text(into).text, (int)plan->dim, shape_text(from).text);
    plan_promote(plan, into->dtype);
    return true;
}

/* The index' shape stands in the place of one dimension. */
static bool
indexed_shape(struct task *me, const struct plan *plan, const struct op_args *args, struct tensor *out)
{
    const struct tensor *from = args->in[0], *index = args->in[1];
    int                  dim = (int)plan->dim;
    out->dims = 0;
    if (from->dims + index->dims - 1 > TENSOR_DIMS)
        return failed(me, E_VALUE, "%s: the result would have more than %d dimensions", op_info(plan->op)->name,
                      TENSOR_DIMS);
    for (int i = 0; i < dim; i++)
        out->size[out->dims++] = from->size[i];
    for (int i = 0; i < index->dims; i++)
        out->size[out->dims++] = index->size[i];
    for (int i = dim + 1; i < from->dims; i++)
        out->size[out->dims++] = from->size[i];
    return true;
}

bool
plan_index(struct task *me, struct plan *plan, const struct op_args *args)
{
    struct tensor shape = { .dims = 0 };
    if (!want_indices(me, plan, args->in[1]) || !plan_along(me, plan, args) ||
        !indexed_shape(me, plan, args, &shape))
        return false;
    if (args->in[0]->dims == 0)
        return failed(me, E_INDEX, "a 0-dim tensor has no rows to index");
    plan_like(plan, &shape);
    plan_promote(plan, args->in[0]->dtype);
    return true;
}

bool
plan_index_put(struct task *me, struct plan *plan, const struct op_args *args)
{
    struct tensor        shape = { .dims = 0 };
    const struct tensor *into = args->in[0], *from = args->in[2];
    if (!want_indices(me, plan, args->in[1]) || !plan_along(me, plan, args) ||
        !indexed_shape(me, plan, args, &shape))
        return false;
    if (into->dims == 0)
        return failed(me, E_INDEX, "a 0-dim tensor has no rows to index");
    if (plan->op == OP_index_add && from->dtype != into->dtype)
        return failed(me, E_DTYPE, "index_add: expected self and source to have one dtype, got %s and %s",
                      dtype_name(into->dtype), dtype_name(from->dtype));
    if (!tensor_same_shape(&shape, from))
        return failed(me, E_SHAPE, "expected a source of shape %s, as the index asks for, got %s",
                      shape_text(&shape).text, shape_text(from).text);
    plan_promote(plan, into->dtype);
    return true;
}

/* ---- others ---- */

bool
plan_flip(struct task *me, struct plan *plan, const struct op_args *args)
{
    (void)me;
    plan_like(plan, args->in[0]);
    plan_promote(plan, args->in[0]->dtype);
    return true;
}

bool
plan_triangle(struct task *me, struct plan *plan, const struct op_args *args)
{
    if (args->in[0]->dims < 2)
        return failed(me, E_SHAPE, "%s: expected a tensor of 2 or more dimensions, got one of %d",
                      op_info(plan->op)->name, args->in[0]->dims);
    return plan_flip(me, plan, args);
}

static bool
product_types(struct task *me, struct plan *plan, const struct tensor *a, const struct tensor *b, int64_t inner)
{
    if (a->dtype != b->dtype)
        return failed(me, E_DTYPE, "%s: expected both operands to have one dtype, got %s and %s",
                      op_info(plan->op)->name, dtype_name(a->dtype), dtype_name(b->dtype));
    if (a->dtype == DTYPE_BOOL)
        return plan_no_kernel(me, plan, a, "numbers");
    plan->dtype = plan->compute = a->dtype;
    plan->workspace = cpu_mm_workspace(plan->dtype, inner);
    return true;
}

bool
plan_bmm(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *a = args->in[0], *b = args->in[1];
    if (a->dims != 3 || b->dims != 3)
        return failed(me, E_SHAPE, "bmm: %s must be a 3D tensor, got %s", a->dims != 3 ? "batch1" : "batch2",
                      shape_text(a->dims != 3 ? a : b).text);
    if (a->size[0] != b->size[0] || a->size[2] != b->size[1])
        return failed(me, E_SHAPE, "bmm: Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] "
                      "but got: [%lld, %lld] (batch1 %s, batch2 %s)", (long long)a->size[0], (long long)a->size[2],
                      (long long)b->size[0], (long long)b->size[1], shape_text(a).text, shape_text(b).text);
    plan->dims    = 3;
    plan->size[0] = a->size[0];
    plan->size[1] = a->size[1];
    plan->size[2] = b->size[2];
    plan->products = (double)tensor_count(a) * (double)b->size[2];
    return product_types(me, plan, a, b, a->size[2]);
}

/* dot: two vectors. mv: a matrix and a vector. */
bool
plan_vector(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *a = args->in[0], *b = args->in[1];
    int                  dims = plan->op == OP_dot ? 1 : 2;
    if (a->dims != dims || b->dims != 1)
        return failed(me, E_SHAPE, "%s: expected a %s and a vector, got %s and %s", op_info(plan->op)->name,
                      dims == 1 ? "vector" : "matrix", shape_text(a).text, shape_text(b).text);
    if (a->size[dims - 1] != b->size[0])
        return failed(me, E_SHAPE, "%s: size mismatch: expected a vector of %lld elements, as the %s, got %lld",
                      op_info(plan->op)->name, (long long)a->size[dims - 1],
                      dims == 1 ? "first has" : "matrix has columns", (long long)b->size[0]);
    plan->dims    = dims - 1;
    plan->size[0] = dims == 2 ? a->size[0] : 0;
    return product_types(me, plan, a, b, b->size[0]);
}

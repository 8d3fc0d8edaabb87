/* Ops on sparse operands, by sparse_rules.def: what each makes of the values. The kinds of errors are PyTorch's, too.
 * In PyTorch: ATen/native/sparse/SparseTensorMath.cpp, SparseUnaryOps.cpp. */
#include <string.h>
#include "autograd/internal.h"
#include "sched/sched.h"

/* The same rows with other values. */
static struct tensor *
with_values(struct task *me, const struct tensor *sparse, struct tensor *values)
{
    struct tensor *result = tensor_sparse(me, sparse->size[0], sparse->indices, values);
    if (result != NULL)
        result->coalesced = sparse->coalesced;
    return result;
}

/* In place the target takes over what was made. */
static struct tensor *
delivered(struct task *me, struct tensor *out, struct tensor *result)
{
    if (out == NULL || result == NULL)
        return result;
    tensor_sparse_assign(me, out, result);
    return out;
}

static struct tensor *
refused(struct task *me, const char *what, const struct tensor *sparse)
{
    sparse_refused(me, what, sparse);
    return NULL;
}

static struct tensor *
of_values(struct task *me, enum op op, const struct op_args *args, struct tensor *values)
{
    struct op_args inner = *args;
    inner.in[0] = values;
    inner.out   = NULL;
    return op_call(me, op, &inner);
}

/* In place the values change where they lie, so that who shares them sees it. */
struct tensor *
sparse_each(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *sparse = args->in[0];
    if (args->out == NULL)
        return with_values(me, sparse, of_values(me, op, args, sparse->values));
    struct op_args inner = *args;
    inner.in[0] = sparse->values;
    if (tensor_in_place(me, op, &inner) == NULL)
        return NULL;
    if (op == OP_mul_scalar) /* PyTorch's mul_ forgets it, its div_ and neg_ do not */
        sparse->coalesced = tensor_size(sparse->indices, 0) < 2;
    tensor_bump(sparse);
    return sparse;
}

struct tensor *
sparse_each_once(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *once = sparse_coalesced(me, args->in[0]);
    struct tensor *values = once != NULL ? of_values(me, op, args, once->values) : NULL;
    return values != NULL ? delivered(me, args->out, with_values(me, once, values)) : NULL;
}

/* 0 to the power of 0 is no 0. */
struct tensor *
sparse_power(struct task *me, enum op op, const struct op_args *args)
{
    if (!(args->alpha > 0))
        return failed_null(me, E_RUNTIME, "pow: the exponent %g would make sparse zeros something else", args->alpha);
    return sparse_each_once(me, op, args);
}

struct tensor *
sparse_clone(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *sparse = args->in[0], *indices = tensor_copied(me, sparse->indices);
    struct tensor *values = indices != NULL ? of_values(me, op, args, sparse->values) : NULL;
    struct tensor *result = tensor_sparse(me, sparse->size[0], indices, values);
    if (result != NULL)
        result->coalesced = sparse->coalesced;
    return result;
}

/* t:to (start: device, length: dtype), and t:copy_ with `out`. */
struct tensor *
sparse_copy(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *from = args->in[0], *to = args->out;
    (void)op;
    if (to != NULL && (!tensor_is_sparse(to) || !tensor_is_sparse(from)))
        return failed_null(me, E_RUNTIME, "copy_() between dense and sparse Tensors is not implemented");
    if (to != NULL && !tensor_same_shape(to, from))
        return failed_null(me, E_RUNTIME, "copy_: sparse tensors of different shapes: expected %s, got %s",
                           shape_text(to).text, shape_text(from).text);
    int            device = to != NULL ? tensor_device(to) : (int)args->start;
    enum dtype     dtype = to != NULL ? to->dtype : (enum dtype)args->length;
    struct tensor *indices = tensor_copy_to(me, from->indices, device, DTYPE_I64);
    struct tensor *values = tensor_copy_to(me, from->values, device, dtype);
    if (to != NULL && indices == from->indices)
        indices = tensor_copied(me, indices);
    if (to != NULL && values == from->values)
        values = tensor_copied(me, values);
    struct tensor *result = tensor_sparse(me, from->size[0], indices, values);
    if (result != NULL)
        result->coalesced = from->coalesced;
    return delivered(me, to, result);
}

/* ---- with another tensor ---- */

static struct tensor *
no_sparse_plus_dense(struct task *me)
{
    return failed_null(me, E_RUNTIME, "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
}

static struct tensor *
dense_plus_sparse(struct task *me, struct tensor *dense, struct tensor *sparse, const struct op_args *args)
{
    if (!tensor_same_shape(dense, sparse))
        return failed_null(me, E_RUNTIME, "add: expected 'self' and 'other' to have same size (dense-sparse addition "
                           "does not currently support broadcasting), but got %s and %s", shape_text(dense).text,
                           shape_text(sparse).text);
    enum dtype dtype = dtype_promote(dense->dtype, sparse->dtype);
    bool       in_place = args->out != NULL;
    if (in_place && !dtype_can_cast(dtype, dense->dtype))
        return failed_null(me, E_DTYPE, "add: result type %s can't be cast to the desired output type %s",
                           dtype_title(dtype), dtype_title(dense->dtype));
    if (!dtype_is_float(dtype) && dtype != DTYPE_I64)
        return op_call(me, OP_add, &(struct op_args){ .in = { dense, tensor_to_dense(me, sparse) }, .out = args->out,
                                                      .alpha = args->alpha });
    sparse = tensor_copy_to(me, sparse, tensor_device(sparse), in_place ? dense->dtype : dtype);
    dense  = tensor_copy_to(me, dense, tensor_device(dense), in_place ? dense->dtype : dtype);
    if (sparse == NULL || dense == NULL)
        return NULL;
    return sparse_added_to(me, dense, sparse, &(struct rows_added){ args->alpha, in_place, NULL });
}

struct tensor *
sparse_add(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *a = args->in[0], *b = args->in[1];
    (void)op;
    if (!tensor_is_sparse(a))
        return dense_plus_sparse(me, a, b, args);
    if (!tensor_is_sparse(b))
        return no_sparse_plus_dense(me);
    struct tensor *sum = sparse_sum(me, a, b, args->alpha);
    if (sum != NULL && args->out != NULL && sum->dtype != args->out->dtype)
        sum = tensor_copy_to(me, sum, tensor_device(sum), args->out->dtype);
    return delivered(me, args->out, sum);
}

struct tensor *
sparse_sub(struct task *me, enum op op, const struct op_args *args)
{
    struct op_args added = *args;
    added.alpha = -args->alpha;
    return sparse_add(me, op, &added);
}

struct tensor *
sparse_add_number(struct task *me, enum op op, const struct op_args *args)
{
    (void)op, (void)args;
    return no_sparse_plus_dense(me);
}

/* By a 0-dim tensor as by a number; by a dense one of the same shape row by row. */
struct tensor *
sparse_mul(struct task *me, enum op op, const struct op_args *args)
{
    bool           first = tensor_is_sparse(args->in[0]);
    struct tensor *sparse = args->in[first ? 0 : 1], *dense = args->in[first ? 1 : 0];
    if (tensor_is_sparse(dense))
        return refused(me, "mul of two", dense);
    if (args->out != NULL && !first)
        return tensor_in_place(me, op, &(struct op_args){ .in = { dense, tensor_to_dense(me, sparse) }, .alpha = 1 });
    if (dense->dims > 0 && !tensor_same_shape(dense, sparse))
        return failed_null(me, E_RUNTIME, "mul: a sparse tensor is multiplied by a number or by a tensor of its shape: "
                           "expected %s, got %s", shape_text(sparse).text, shape_text(dense).text);
    struct tensor *rows = dense->dims == 0 ? dense
                        : tensor_index_select(me, OP_index_select, dense, 0, sparse->indices);
    return delivered(me, args->out, with_values(me, sparse, tensor_mul(me, sparse->values, rows)));
}

struct tensor *
sparse_div(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *sparse = args->in[0], *by = args->in[1];
    (void)op;
    if (!tensor_is_sparse(sparse) || tensor_is_sparse(by) || by->dims > 0)
        return failed_null(me, E_RUNTIME, "Sparse division requires a scalar or zero-dim dense tensor divisor");
    return delivered(me, args->out, with_values(me, sparse, tensor_div(me, sparse->values, by)));
}

/* ---- of all elements ---- */

/* Over all dimensions, or over the first alone: what is left is dense. */
struct tensor *
sparse_reduce(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *sparse = args->in[0];
    bool           rows = op == OP_sum_dims && args->dims == 1 && args->sizes[0] == 0;
    if (op != OP_sum && args->dims != 0 && args->dims != sparse->dims && !rows)
        return refused(me, op_info(op)->name, sparse);
    return of_values(me, op, args, sparse->values);
}

struct tensor *
sparse_reduce_once(struct task *me, enum op op, const struct op_args *args)
{
    struct op_args once = *args;
    once.in[0] = sparse_coalesced(me, args->in[0]);
    return once.in[0] != NULL ? sparse_reduce(me, op, &once) : NULL;
}

/* t:any(); t:all() is not there. */
struct tensor *
sparse_any(struct task *me, enum op op, const struct op_args *args)
{
    if (args->start != 1)
        return refused(me, "all", args->in[0]);
    return sparse_reduce_once(me, op, args);
}

/* ---- views ---- */

struct tensor *
sparse_no_view(struct task *me, enum op op, const struct op_args *args)
{
    (void)args;
    return failed_null(me, E_RUNTIME, "%s is not implemented for sparse tensors", op_info(op)->name);
}

/* t[i]: a copy of the row. */
struct tensor *
sparse_row(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *sparse = args->in[0];
    if (args->dim != 0)
        return sparse_no_view(me, op, args);
    return of_values(me, op, args, tensor_to_dense(me, sparse));
}

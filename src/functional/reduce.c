/* Reductions over one dimension, a list of them or all; orders along a dimension; running sums. What answers values and
 * places answers two results. PyTorch: torch.sum, torch.sort and their like. */
#include <string.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- over dimensions ---- */

static bool
may_fold(struct task *me, enum op op, enum dtype dtype)
{
    if (op == OP_mean_dims && !dtype_is_float(dtype))
        return failed(me, E_NOT_IMPLEMENTED, "mean(): could not infer output dtype. Input dtype must be a floating "
                      "point dtype. Got: %s", dtype_title(dtype));
    if ((op == OP_var || op == OP_std) && !dtype_is_float(dtype))
        return failed(me, E_NOT_IMPLEMENTED, "std and var only support floating point dtypes. Got: %s",
                      dtype_title(dtype));
    if ((op == OP_argmax || op == OP_argmin) && dtype == DTYPE_BOOL)
        return failed(me, E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for 'Bool'", op_info(op)->name);
    return true;
}

/* (input, dim, keepdim) */
struct tensor *
fn_fold(struct task *me, struct arguments *a)
{
    enum op             op      = a->function->row->op;
    struct fold_options options = { .keepdim = a->at[2].integer[0] };
    if (!may_fold(me, op, a->at[0].tensor->dtype) || !argument_dims(me, &a->at[1], &options))
        return NULL;
    return tensor_fold(me, op, a->at[0].tensor, &options);
}

struct tensor *
fn_any(struct task *me, struct arguments *a)
{
    struct fold_options options = { .keepdim = a->at[2].integer[0], .any = true };
    return argument_dims(me, &a->at[1], &options) ? tensor_fold(me, OP_all, a->at[0].tensor, &options) : NULL;
}

/* The elements become the dtype that is asked for first ... */
static struct tensor *
taken_as(struct task *me, struct tensor *x, const struct argument *dtype)
{
    return dtype->none || dtype->dtype == x->dtype ? x : tensor_cast(me, x, dtype->dtype);
}

/* ... and so does the result. */
static struct tensor *
answered_as(struct task *me, struct tensor *result, const struct argument *dtype)
{
    return result == NULL || dtype->none || dtype->dtype == result->dtype ? result
                                                                          : tensor_cast(me, result, dtype->dtype);
}

/* (input, dim, keepdim, dtype); sums and means of everything have ops of their own. */
struct tensor *
fn_fold_as(struct task *me, struct arguments *a)
{
    enum op                op      = a->function->row->op;
    const struct argument *dtype   = &a->at[3];
    struct fold_options    options = { .keepdim = a->at[2].integer[0] };
    if (!may_fold(me, op, dtype->none ? a->at[0].tensor->dtype : dtype->dtype) ||
        !argument_dims(me, &a->at[1], &options))
        return NULL;
    struct tensor *x      = taken_as(me, a->at[0].tensor, dtype);
    struct tensor *result = options.dims > 0 || op == OP_prod ? tensor_fold(me, op, x, &options)
                            : op == OP_sum_dims               ? tensor_sum(me, x)
                                                              : tensor_mean(me, x);
    return answered_as(me, result, dtype);
}

/* (input, dim or unbiased, unbiased, keepdim, correction): x:var(false) is over everything. false: failed. */
static bool
spread_options(struct task *me, const struct arguments *a, struct fold_options *out)
{
    const struct argument *dim = &a->at[1], *unbiased = &a->at[2], *correction = &a->at[4];
    if (!dim->none && dim->dtype == DTYPE_BOOL)
        unbiased = dim;
    *out = (struct fold_options){ .keepdim    = a->at[3].integer[0],
                                  .correction = correction->none ? (double)unbiased->integer[0] : correction->number };
    return argument_dims(me, dim, out);
}

struct tensor *
fn_var(struct task *me, struct arguments *a)
{
    enum op             op = a->function->row->op;
    struct fold_options options;
    if (!may_fold(me, op, a->at[0].tensor->dtype) || !spread_options(me, a, &options))
        return NULL;
    return tensor_fold(me, op, a->at[0].tensor, &options);
}

struct tensor *
fn_var_mean(struct task *me, struct arguments *a)
{
    struct tensor      *x = a->at[0].tensor;
    struct fold_options options;
    if (!dtype_is_float(x->dtype))
        return failed_null(me, E_NOT_IMPLEMENTED, "var_mean: expected a tensor of fractions, got %s",
                           dtype_name(x->dtype));
    if (!spread_options(me, a, &options))
        return NULL;
    struct tensor *spread = tensor_fold(me, a->function->row->op, x, &options);
    return answer_two(a, spread, options.dims == 0 ? tensor_mean(me, x) : tensor_fold(me, OP_mean_dims, x, &options));
}

/* x:max(), x:max(dim, keepdim): values and places, x:max(other): the larger of each two. */
struct tensor *
fn_extreme(struct task *me, struct arguments *a)
{
    struct tensor         *x       = a->at[0].tensor;
    const struct argument *dim     = &a->at[1];
    bool                   largest = a->function->row->op == OP_max;
    if (dim->tensor != NULL)
        return op_on(me, largest ? OP_maximum : OP_minimum, x, dim->tensor, 1);
    if (dim->none)
        return op_on(me, a->function->row->op, x, NULL, 1);
    struct fold_options options = { .dims = 1, .dim = { dim->integer[0] }, .keepdim = a->at[2].integer[0] };
    struct tensor      *places  = tensor_fold(me, largest ? OP_argmax : OP_argmin, x, &options);
    return answer_two(a, tensor_index_select(me, largest ? OP_max_dim : OP_min_dim, x, options.dim[0], places), places);
}

struct tensor *
fn_aminmax(struct task *me, struct arguments *a)
{
    struct fold_options options = { .keepdim = a->at[2].integer[0] };
    if (!argument_dims(me, &a->at[1], &options))
        return NULL;
    struct tensor *least = tensor_fold(me, OP_amin, a->at[0].tensor, &options);
    return answer_two(a, least, tensor_fold(me, OP_amax, a->at[0].tensor, &options));
}

/* ---- one node for several kernels ---- */

static struct tensor *
fold_by(struct task *me, enum op op, struct tensor *x, const struct fold_options *options, double alpha)
{
    struct op_args args = { .in = { x }, .alpha = alpha, .dims = options->dims, .keepdim = options->keepdim };
    memcpy(args.sizes, options->dim, sizeof args.sizes);
    return x != NULL ? op_call(me, op, &args) : NULL;
}

struct tensor *
tensor_norm(struct task *me, struct tensor *a, double p, const struct fold_options *options)
{
    return fold_by(me, OP_norm, a, options, p);
}

struct tensor *
fn_norm(struct task *me, struct arguments *a)
{
    struct fold_options options = { .keepdim = a->at[3].integer[0] };
    return argument_dims(me, &a->at[2], &options) ? tensor_norm(me, a->at[0].tensor, a->at[1].number, &options) : NULL;
}

struct tensor *
fn_logsumexp(struct task *me, struct arguments *a)
{
    struct fold_options options = { .keepdim = a->at[2].integer[0] };
    return argument_dims(me, &a->at[1], &options) ? fold_by(me, OP_logsumexp, a->at[0].tensor, &options, 0) : NULL;
}

/* ---- in order ---- */

struct tensor *
tensor_argsort(struct task *me, struct tensor *a, int64_t dim, bool descending)
{
    struct op_args args = { .in = { a }, .dim = dim, .start = descending };
    return a != NULL ? op_call(me, OP_argsort, &args) : NULL;
}

struct tensor *
fn_sort(struct task *me, struct arguments *a)
{
    int64_t        dim    = a->at[1].integer[0];
    struct tensor *places = tensor_argsort(me, a->at[0].tensor, dim, a->at[2].integer[0]);
    return answer_two(a, tensor_index_select(me, OP_sort, a->at[0].tensor, dim, places), places);
}

struct tensor *
fn_msort(struct task *me, struct arguments *a)
{
    struct tensor *places = tensor_argsort(me, a->at[0].tensor, 0, false);
    return tensor_index_select(me, OP_sort, a->at[0].tensor, 0, places);
}

struct tensor *
fn_argsort(struct task *me, struct arguments *a)
{
    return tensor_argsort(me, a->at[0].tensor, a->at[1].integer[0], a->at[2].integer[0]);
}

struct tensor *
fn_topk(struct task *me, struct arguments *a)
{
    struct tensor *x    = a->at[0].tensor;
    int64_t        k    = a->at[1].integer[0], dim = a->at[2].integer[0];
    int64_t        size = x->dims > 0 ? x->size[dim] : 1;
    if (x->dtype == DTYPE_BOOL)
        return failed_null(me, E_NOT_IMPLEMENTED, "\"topk_cpu\" not implemented for 'Bool'");
    if (k < 0 || k > size)
        return failed_null(me, E_RUNTIME, "selected index k out of range: %lld of %lld", (long long)k, (long long)size);
    struct tensor *places = tensor_argsort(me, x, dim, a->at[3].integer[0]);
    if (places != NULL && x->dims > 0)
        places = tensor_contiguous(me, tensor_narrow(me, places, dim, 0, k));
    return answer_two(a, tensor_index_select(me, OP_topk, x, dim, places), places);
}

/* ---- running ---- */

struct tensor *
fn_running(struct task *me, struct arguments *a)
{
    const struct argument *dtype = &a->at[2];
    struct op_args args = { .in = { taken_as(me, a->at[0].tensor, dtype) }, .dim = a->at[1].integer[0] };
    return answered_as(me, args.in[0] != NULL ? op_call(me, a->function->row->op, &args) : NULL, dtype);
}

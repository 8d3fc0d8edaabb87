/* Ops that are one node for autograd and several kernels here: norms, logsumexp, stack, repeat, roll, trace. The last
 * kernel has the op's price, those before it are free. In PyTorch each is a function of ATen/native. */
#include <math.h>
#include <string.h>
#include "device/cells.h"
#include "tensor/internal.h"

/* One free step of an op. */
static struct tensor *
applied(struct task *me, enum op op, struct tensor *a, struct tensor *b, double alpha)
{
    struct op_args args = { .in = { a, b }, .alpha = alpha, .module = "" };
    return op_run(me, op, &args);
}

/* The dimensions that `args` names, with size 1 in their place or without them. */
static struct tensor *
fold_dims(struct task *me, enum op op, struct tensor *a, const struct op_args *args, const char *module)
{
    struct op_args folding = *args;
    folding.in[0]   = a;
    folding.alpha   = 0;
    folding.module  = module;
    return op_run(me, op, &folding);
}

static struct tensor *
viewed(struct task *me, struct tensor *a, int dims, const int64_t *sizes)
{
    struct op_args args = { .in = { a }, .dims = dims };
    memcpy(args.sizes, sizes, (size_t)dims * sizeof *sizes);
    return op_run(me, OP_view, &args);
}

/* ---- over dimensions ---- */

/* alpha: p. The p-th root of the sum of p-th powers; 0: how many are not 0. */
struct tensor *
run_norm(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *x = args->in[0];
    double         p = args->alpha;
    (void)op;
    if (!dtype_is_float(x->dtype))
        return failed_null(me, E_NOT_IMPLEMENTED, "norm: expected fractions, got a tensor of %s", dtype_name(x->dtype));
    if (p == 2) {
        x = fold_dims(me, OP_sum_dims, applied(me, OP_square, x, NULL, 1), args, "");
        return op_run(me, OP_sqrt, &(struct op_args){ .in = { x }, .module = args->module });
    }
    struct tensor *size = applied(me, OP_abs, x, NULL, 1);
    if (p == 0)
        size = applied(me, OP_sign, size, NULL, 1);
    if (p == 1 || p == 0)
        return fold_dims(me, OP_sum_dims, size, args, args->module);
    if (isinf(p))
        return fold_dims(me, p > 0 ? OP_amax : OP_amin, size, args, args->module);
    struct tensor *sum = fold_dims(me, OP_sum_dims, applied(me, OP_pow_scalar, size, NULL, p), args, "");
    return op_run(me, OP_pow_scalar, &(struct op_args){ .in = { sum }, .alpha = 1 / p, .module = args->module });
}

/* What is taken out before exp, so that nothing overflows: the largest, 0 where that is infinite. */
static struct tensor *
largest_finite(struct task *me, const struct op_args *args)
{
    struct op_args kept = *args;
    kept.keepdim = true;
    struct tensor *top = fold_dims(me, OP_amax, args->in[0], &kept, "");
    struct tensor *far = applied(me, OP_logical_not, applied(me, OP_isfinite, top, NULL, 1), NULL, 1);
    return applied(me, OP_masked_fill, top, far, 0);
}

struct tensor *
run_logsumexp(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *x = args->in[0];
    (void)op;
    if (!dtype_is_float(x->dtype))
        return failed_null(me, E_NOT_IMPLEMENTED, "logsumexp: expected fractions, got a tensor of %s",
                           dtype_name(x->dtype));
    struct tensor *top = tensor_count(x) > 0 ? largest_finite(me, args) : NULL;
    struct tensor *low = top != NULL ? applied(me, OP_sub, x, top, 1) : x;
    struct tensor *sum = fold_dims(me, OP_sum_dims, applied(me, OP_exp, low, NULL, 1), args,
                              top == NULL ? "" : args->module);
    struct tensor *log = applied(me, OP_log, sum, NULL, 1);
    if (top == NULL || log == NULL)
        return log;
    top = log->dims == top->dims ? top : viewed(me, top, log->dims, log->size);
    return applied(me, OP_add, log, top, 1);
}

struct tensor *
run_trace(struct task *me, enum op op, const struct op_args *args)
{
    (void)op;
    if (args->in[0]->dims != 2)
        return failed_null(me, E_SHAPE, "trace: expected a matrix, but got tensor with dim %d", args->in[0]->dims);
    struct op_args diagonal = { .in = { args->in[0] }, .dim = 0, .start = 1 };
    return op_run(me, OP_sum, &(struct op_args){ .in = { op_run(me, OP_diagonal, &diagonal) },
                                                 .module = args->module });
}

/* ---- arranging ---- */

/* Seen with a dimension of size 1 more, then joined along it. */
struct tensor *
run_stack(struct task *me, enum op op, const struct op_args *args)
{
    (void)op;
    if (args->list_count < 1)
        return failed_null(me, E_VALUE, "stack: there is nothing to join");
    size_t          bytes = (size_t)args->list_count * sizeof(struct tensor *);
    struct tensor **parts = host_take(me, bytes);
    bool            ok = parts != NULL;
    for (int i = 0; ok && i < args->list_count; i++) {
        if (args->list[i] != NULL && !tensor_same_shape(args->list[i], args->list[0]))
            ok = failed(me, E_SHAPE, "stack expects each tensor to be equal size, but got %s at entry 0 and %s at "
                        "entry %d", shape_text(args->list[0]).text, shape_text(args->list[i]).text, i);
        parts[i] = ok ? op_run(me, OP_unsqueeze, &(struct op_args){ .in = { args->list[i] }, .dim = args->dim }) : NULL;
        ok = parts[i] != NULL;
    }
    struct op_args joining = { .list = parts, .list_count = args->list_count, .dim = args->dim, .out = args->out,
                               .module = args->module };
    struct tensor *made = ok ? op_run(me, OP_cat, &joining) : NULL;
    host_return(me, parts, bytes);
    return made;
}

/* sizes: how often each of `dims` dimensions is repeated: seen as [before, 1, the rest], stretched and copied, one
 * dimension after the other. */
struct tensor *
run_repeat(struct task *me, enum op op, const struct op_args *args)
{
    int64_t sizes[TENSOR_DIMS], before = 1, after = tensor_count(args->in[0]);
    int     added = args->dims - args->in[0]->dims;
    (void)op;
    for (int i = 0; i < args->dims; i++)
        sizes[i] = i < added ? 1 : args->in[0]->size[i - added];
    struct tensor *made = op_run(me, OP_clone, &(struct op_args){ .in = { args->in[0] }, .module = args->module });
    for (int i = 0; i < args->dims && made != NULL; i++) {
        const int64_t  folded[3] = { before, 1, after };
        struct op_args wide = { .in = { viewed(me, made, 3, folded) }, .dims = 3,
                                .sizes = { before, args->sizes[i], after } };
        made   = args->sizes[i] == 1 ? made : applied(me, OP_clone, op_run(me, OP_expand, &wide), NULL, 0);
        after  = sizes[i] > 0 ? after / sizes[i] : 0;
        sizes[i] *= args->sizes[i];
        before *= sizes[i];
    }
    return made != NULL ? viewed(me, made, args->dims, sizes) : NULL;
}

/* What leaves at the end of a dimension comes in at its beginning. */
static struct tensor *
rolled(struct task *me, struct tensor *a, int dim, int64_t shift, const char *module)
{
    int64_t        size = a->size[dim], cut = size > 0 ? (size - shift % size) % size : 0;
    struct op_args tail = { .in = { a }, .dim = dim, .start = cut, .length = size - cut };
    struct op_args head = { .in = { a }, .dim = dim, .start = 0, .length = cut };
    struct tensor *parts[2] = { op_run(me, OP_narrow, &tail), NULL };
    parts[1] = op_run(me, OP_narrow, &head);
    struct op_args joining = { .list = parts, .list_count = 2, .dim = dim, .module = module };
    return parts[0] != NULL && parts[1] != NULL ? op_run(me, OP_cat, &joining) : NULL;
}

/* sizes: how far each dimension moves; alpha 1: all elements in one line, by sizes[0]. */
struct tensor *
run_roll(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *x = args->in[0], *made = x;
    int64_t        count = tensor_count(x);
    (void)op;
    if (args->alpha != 0) {
        made = viewed(me, applied(me, OP_clone, x, NULL, 0), 1, &count);
        made = made != NULL ? rolled(me, made, 0, args->sizes[0], args->module) : NULL;
        return made != NULL ? viewed(me, made, x->dims, x->size) : NULL;
    }
    for (int d = 0; d < x->dims && made != NULL; d++) {
        if (args->sizes[d] != 0)
            made = rolled(me, made, d, args->sizes[d], made == x ? args->module : "");
    }
    return made == x ? op_run(me, OP_clone, &(struct op_args){ .in = { x }, .module = args->module }) : made;
}

/* Gradient functions of reductions over dimensions, of running sums, of picking by index and of products of batches.
 * numbers[0] of a reduction's node: bit d says that dimension d is gone; numbers[1]: kept with size 1. */
#include <math.h>
#include <string.h>
#include "autograd/internal.h"
#include "sched/task.h"

/* The folded dimensions come back with size 1. */
static struct tensor *
kept_dims(struct task *me, const struct node *node, struct tensor *folded)
{
    int64_t sizes[TENSOR_DIMS];
    for (int i = 0; i < node->in_dims; i++)
        sizes[i] = node->numbers[0] >> i & 1 ? 1 : node->in_size[i];
    return folded != NULL && folded->dims != node->in_dims ? tensor_reshape(me, folded, node->in_dims, sizes) : folded;
}

static double
folded_count(const struct node *node)
{
    double count = 1;
    for (int i = 0; i < node->in_dims; i++)
        count *= node->numbers[0] >> i & 1 ? (double)node->in_size[i] : 1;
    return count;
}

static struct tensor *
fold_again(struct task *me, const struct node *node, struct tensor *a)
{
    struct op_args args = { .in = { a }, .keepdim = true };
    for (int i = 0; i < node->in_dims; i++)
        if (node->numbers[0] >> i & 1)
            args.sizes[args.dims++] = i;
    return a != NULL && args.dims > 0 ? op_call(me, OP_sum_dims, &args) : a;
}

bool
grad_sum_dims(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_expand(me, kept_dims(me, node, grad_out[0]), node->in_dims, node->in_size);
    return grad_in[0] != NULL;
}

bool
grad_mean_dims(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *wide = tensor_expand(me, kept_dims(me, node, grad_out[0]), node->in_dims, node->in_size);
    grad_in[0] = tensor_div_number(me, wide, folded_count(node));
    return grad_in[0] != NULL;
}

/* Is one element 0? The host reads that: waits for the device. false with an error: not known. */
static bool
has_zero(struct task *me, struct tensor *x)
{
    double         none = 1;
    struct tensor *all  = x != NULL ? tensor_fold(me, OP_all, x, &(struct fold_options){ 0 }) : NULL;
    return all != NULL && tensor_item(me, all, &none) && none == 0;
}

static struct tensor *
cumulated(struct task *me, enum op op, struct tensor *a, int64_t dim)
{
    struct op_args args = { .in = { a }, .dim = dim, .start = (int64_t)1 << dim };
    return a != NULL ? op_call(me, op, &args) : NULL;
}

/* Along the last dimension: the product of all before each element (and, from behind, of all after it). */
static struct tensor *
product_before(struct task *me, struct tensor *a)
{
    int dim = a->dims - 1;
    int64_t sizes[TENSOR_DIMS];
    memcpy(sizes, a->size, sizeof sizes);
    sizes[dim] = 1;
    struct tensor *parts[2];
    parts[0] = tensor_filled(me, tensor_empty(me, a->dtype, tensor_device(a), a->dims, sizes), 1);
    parts[1] = tensor_narrow(me, a, dim, 0, a->size[dim] - 1);
    return parts[0] != NULL && parts[1] != NULL ? cumulated(me, OP_cumprod, tensor_cat(me, parts, 2, dim), dim) : NULL;
}

/* The product of the others without a division, so that it holds, and has gradients, beside zeros. */
static struct tensor *
product_of_others(struct task *me, const struct node *node, struct tensor *x)
{
    int64_t order[TENSOR_DIMS], back[TENSOR_DIMS], sizes[TENSOR_DIMS], flat[TENSOR_DIMS];
    int     kept = 0, dims = node->in_dims;
    for (int i = 0; i < dims; i++)
        if (!(node->numbers[0] >> i & 1)) {
            flat[kept]    = node->in_size[i];
            order[kept++] = i;
        }
    flat[kept] = -1;
    for (int i = 0, next = kept; i < dims; i++)
        if (node->numbers[0] >> i & 1)
            order[next++] = i;
    for (int i = 0; i < dims; i++) {
        sizes[i]       = node->in_size[order[i]];
        back[order[i]] = i;
    }
    struct tensor *rows = tensor_reshape(me, tensor_permute(me, x, dims, order), kept + 1, flat);
    if (rows == NULL)
        return NULL;
    struct tensor *before = product_before(me, rows), *turned = cumulated(me, OP_flip, rows, kept);
    struct tensor *after  = turned != NULL ? cumulated(me, OP_flip, product_before(me, turned), kept) : NULL;
    struct tensor *others = before != NULL && after != NULL ? tensor_mul(me, before, after) : NULL;
    return tensor_permute(me, tensor_reshape(me, others, dims, sizes), dims, back);
}

/* g times the product of the others: result / x where nothing is 0; where one element is 0 only it gets something. */
bool
grad_prod(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *grad = kept_dims(me, node, grad_out[0]);
    if (node_saved(me, node, 1) == NULL) /* only asked whether it is what it was, as in PyTorch */
        return false;
    if (grad_enabled(me) && has_zero(me, x)) {
        grad_in[0] = tensor_mul(me, grad, product_of_others(me, node, x));
        return grad_in[0] != NULL;
    }
    struct tensor *zero = x != NULL ? zeros_of(me, x, 0, NULL) : NULL;
    struct tensor *is_zero = op_on(me, OP_eq, x, zero, 1);
    struct tensor *filled = op_on(me, OP_masked_fill, x, is_zero, 1); /* zeros left out of the product */
    struct op_args args = { .in = { filled }, .keepdim = true };
    for (int i = 0; i < node->in_dims; i++)
        if (node->numbers[0] >> i & 1)
            args.sizes[args.dims++] = i;
    if (filled == NULL)
        return false;
    struct tensor *others = tensor_div(me, args.dims > 0 ? op_call(me, OP_prod, &args) : filled, filled);
    struct tensor *zeros  = fold_again(me, node, tensor_copy_to(me, is_zero, tensor_device(x), DTYPE_I64));
    /* how many zeros there are among the others */
    struct tensor *rest = tensor_sub(me, zeros, tensor_copy_to(me, is_zero, tensor_device(x), DTYPE_I64));
    struct tensor *none = rest != NULL ? zeros_of(me, rest, 0, NULL) : NULL;
    others     = op_on(me, OP_masked_fill, others, op_on(me, OP_ne, rest, none, 1), 0);
    grad_in[0] = tensor_mul(me, grad, others);
    return grad_in[0] != NULL;
}

/* Equal extremes share. */
bool
grad_extreme(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *best = kept_dims(me, node, node_saved(me, node, 1));
    struct tensor *hit = op_on(me, OP_eq, x, best, 1);
    if (hit == NULL)
        return false;
    hit = tensor_copy_to(me, hit, tensor_device(x), x->dtype);
    struct tensor *grad = kept_dims(me, node, grad_out[0]), *share = tensor_div(me, grad, fold_again(me, node, hit));
    grad_in[0] = tensor_mul(me, share, hit);
    return grad_in[0] != NULL;
}

static struct tensor *
from_mean(struct task *me, const struct node *node, struct tensor *x)
{
    struct tensor *mean = tensor_div_number(me, fold_again(me, node, x), folded_count(node));
    return tensor_sub(me, x, mean);
}

/* 2 g (x - mean) / (n - correction) */
bool
grad_var(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    double         freedom = folded_count(node) - node->scalar;
    struct tensor *scaled = tensor_mul_number(me, kept_dims(me, node, grad_out[0]), 2 / freedom);
    grad_in[0] = tensor_mul(me, scaled, from_mean(me, node, node_saved(me, node, 0)));
    return grad_in[0] != NULL;
}

/* That of the variance by 2 std; 0 where std is 0. */
bool
grad_std(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *std  = kept_dims(me, node, node_saved(me, node, 1));
    struct tensor *zero = std != NULL ? op_on(me, OP_eq, std, zeros_of(me, std, 0, NULL), 1) : NULL;
    struct tensor *grad = tensor_div(me, kept_dims(me, node, grad_out[0]), std);
    grad       = tensor_mul_number(me, op_on(me, OP_masked_fill, grad, zero, 0),
                                   1 / (folded_count(node) - node->scalar));
    grad_in[0] = tensor_mul(me, grad, from_mean(me, node, node_saved(me, node, 0)));
    return grad_in[0] != NULL;
}

/* ---- running sums: from behind ---- */

static struct tensor *
sum_from_behind(struct task *me, struct tensor *a, int64_t dim)
{
    if (a == NULL || a->dims == 0)
        return a;
    return cumulated(me, OP_flip, cumulated(me, OP_cumsum, cumulated(me, OP_flip, a, dim), dim), dim);
}

bool
grad_cumsum(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = sum_from_behind(me, grad_out[0], node->numbers[0]);
    return grad_in[0] != NULL;
}

static struct tensor *
choose(struct task *me, struct tensor *condition, struct tensor *yes, struct tensor *no)
{
    struct op_args args = { .in = { condition, yes, no } };
    return condition != NULL && yes != NULL && no != NULL ? op_call(me, OP_where, &args) : NULL;
}

/* Element k gets what each product from k on is without it: the product before k times the running products after k.
 * Each step has a gradient of its own. */
static struct tensor *
cumprod_without(struct task *me, struct tensor *x, struct tensor *grad, int dim, int64_t k)
{
    int64_t        after = x->size[dim] - k - 1;
    struct op_args fold  = { .in = { tensor_narrow(me, x, dim, 0, k) }, .dims = 1, .sizes = { dim }, .keepdim = true };
    struct tensor *parts[2] = { fold.in[0] != NULL ? op_call(me, OP_prod, &fold) : NULL, NULL };
    struct tensor *rest  = cumulated(me, OP_cumprod, tensor_narrow(me, x, dim, k + 1, after), dim);
    parts[1]  = tensor_mul(me, rest, parts[0]);
    struct tensor *joined = parts[1] != NULL ? tensor_cat(me, parts, 2, dim) : NULL;
    fold.in[0] = tensor_mul(me, tensor_narrow(me, grad, dim, k, after + 1), joined);
    return fold.in[0] != NULL ? op_call(me, OP_sum_dims, &fold) : NULL;
}

static struct tensor *
cumprod_slowly(struct task *me, struct tensor *x, struct tensor *grad, int dim)
{
    int64_t         count = x->size[dim];
    size_t          bytes = (size_t)count * sizeof(struct tensor *);
    struct tensor **parts = host_take(me, bytes), *joined = NULL;
    bool            ok    = parts != NULL;
    for (int64_t k = 0; ok && k < count; k++)
        ok = (parts[k] = cumprod_without(me, x, grad, dim, k)) != NULL;
    if (ok)
        joined = tensor_cat(me, parts, (int)count, dim);
    host_return(me, parts, bytes);
    return joined;
}

/* Element k gets sum over i >= k of g_i times the product up to i without it. Before the first 0 of a row that is the
 * products' weighted sum from k on divided by element k; at it the 0 is left out of the products; behind it nothing. */
bool
grad_cumprod(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *products = node_saved(me, node, 1), *g = grad_out[0];
    int64_t        dim  = node->numbers[0];
    if (grad_enabled(me) && x != NULL && x->dims > 0 && has_zero(me, x)) {
        grad_in[0] = cumprod_slowly(me, x, g, (int)dim);
        return grad_in[0] != NULL;
    }
    struct tensor *zero = x != NULL ? zeros_of(me, x, 0, NULL) : NULL, *is_zero = op_on(me, OP_eq, x, zero, 1);
    struct tensor *seen = cumulated(me, OP_cumsum, is_zero, dim);   /* zeros up to here */
    struct tensor *one  = tensor_number(me, DTYPE_I64, DEVICE_CPU, 1);
    struct tensor *first  = op_on(me, OP_logical_and, is_zero, op_on(me, OP_eq, seen, one, 1), 1);
    struct tensor *before = op_on(me, OP_lt, seen, one, 1);
    struct tensor *others = cumulated(me, OP_cumprod, op_on(me, OP_masked_fill, x, first, 1), dim);
    struct tensor *at_first = sum_from_behind(me, tensor_mul(me, g, others), dim);
    struct tensor *weighted = sum_from_behind(me, tensor_mul(me, g, products), dim);
    struct tensor *quotient = tensor_div(me, weighted, op_on(me, OP_masked_fill, x, is_zero, 1));
    grad_in[0] = choose(me, before, quotient, choose(me, first, at_first, zero));
    return grad_in[0] != NULL;
}

/* ---- norms ---- */

/* Of the p-norm n: g sign(x) (|x| / n)^(p - 1), and nothing where n or x is 0; of the largest an equal share each. */
bool
grad_norm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *norm = kept_dims(me, node, node_saved(me, node, 1));
    struct tensor *g = kept_dims(me, node, grad_out[0]), *size = tensor_abs(me, x);
    struct tensor *sign = op_on(me, OP_sign, x, NULL, 1), *zero = x != NULL ? zeros_of(me, x, 0, NULL) : NULL;
    double         p = node->scalar;
    if (p == 0) {
        grad_in[0] = zeros_of(me, x, node->in_dims, node->in_size);
    } else if (p == 1) {
        grad_in[0] = tensor_mul(me, sign, g);
    } else if (isinf(p)) {
        struct tensor *is_it = op_on(me, OP_eq, size, norm, 1), *count = fold_again(me, node, is_it);
        grad_in[0] = tensor_mul(me, sign, tensor_mul(me, is_it, tensor_div(me, g, count)));
    } else if (p == 2) {
        struct tensor *none = op_on(me, OP_eq, norm, zero, 1), *slope = tensor_div(me, x, norm);
        slope      = op_on(me, OP_masked_fill, slope, none, 0);
        grad_in[0] = tensor_mul(me, g, slope);
    } else {
        struct tensor *power = op_on(me, OP_pow_scalar, tensor_div(me, size, norm), NULL, p - 1);
        struct tensor *none = op_on(me, OP_eq, x, zero, 1), *slope = op_on(me, OP_masked_fill, power, none, 0);
        grad_in[0] = tensor_mul(me, tensor_mul(me, g, sign), slope);
    }
    return grad_in[0] != NULL;
}

/* g times the share of each in the sum. */
bool
grad_logsumexp(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *result = kept_dims(me, node, node_saved(me, node, 1));
    struct tensor *x = node_saved(me, node, 0), *share = op_on(me, OP_exp, tensor_sub(me, x, result), NULL, 1);
    struct tensor *g = kept_dims(me, node, grad_out[0]);
    grad_in[0] = tensor_mul(me, g, share);
    return grad_in[0] != NULL;
}

/* ---- picking ---- */

/* Along the node's dimension. */
static struct tensor *
pick_along(struct task *me, const struct node *node, enum op op, struct tensor *const operands[3])
{
    struct op_args args = { .in = { operands[0], operands[1], operands[2] }, .dim = node->numbers[0], .alpha = 1 };
    return op_call_checked(me, op, &args);
}

/* A maximum's places may lack the dimension. */
bool
grad_gather(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *index = node_saved(me, node, 0), *grad = grad_out[0];
    int            dim   = (int)node->numbers[0];
    if (index != NULL && index->dims < node->in_dims) {
        index = tensor_unsqueeze(me, index, dim);
        grad  = tensor_unsqueeze(me, grad, dim);
    }
    struct tensor *whole = zeros_of(me, grad, node->in_dims, node->in_size);
    grad_in[0] = pick_along(me, node, OP_scatter_add, (struct tensor *[3]){ whole, index, grad });
    return grad_in[0] != NULL;
}

bool
grad_scatter(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *index = node_saved(me, node, 0);
    if (index == NULL)
        return false;
    if (node_wants(node, 0)) {
        struct tensor *none = zeros_of(me, grad_out[0], index->dims, index->size);
        grad_in[0] = pick_along(me, node, OP_scatter, (struct tensor *[3]){ grad_out[0], index, none });
    }
    if (node_wants(node, 1))
        grad_in[1] = pick_along(me, node, OP_gather, (struct tensor *[3]){ grad_out[0], index });
    return !task_failed(me);
}

bool
grad_scatter_add(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = grad_out[0];
    if (node_wants(node, 1))
        grad_in[1] = pick_along(me, node, OP_gather, (struct tensor *[3]){ grad_out[0], node_saved(me, node, 0) });
    return !task_failed(me);
}

bool
grad_index(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *whole = zeros_of(me, grad_out[0], node->in_dims, node->in_size);
    struct tensor *index = node_saved(me, node, 0);
    grad_in[0] = pick_along(me, node, OP_index_add, (struct tensor *[3]){ whole, index, grad_out[0] });
    return grad_in[0] != NULL;
}

bool
grad_index_put(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *index = node_saved(me, node, 0);
    struct tensor *rows  = pick_along(me, node, OP_index, (struct tensor *[3]){ grad_out[0], index });
    if (node_wants(node, 0) && rows != NULL) {
        struct tensor *none = zeros_of(me, rows, rows->dims, rows->size);
        grad_in[0] = pick_along(me, node, OP_index_put, (struct tensor *[3]){ grad_out[0], index, none });
    }
    if (node_wants(node, 1))
        grad_in[1] = rows;
    return !task_failed(me);
}

bool
grad_index_add(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = grad_out[0];
    if (node_wants(node, 1)) {
        struct tensor *const from[3] = { grad_out[0], node_saved(me, node, 0) };
        struct tensor *rows = pick_along(me, node, OP_index, from);
        grad_in[1] = node->scalar == 1 ? rows : tensor_mul_number(me, rows, node->scalar);
    }
    return !task_failed(me);
}

/* ---- other orders ---- */

static bool
same_again(struct task *me, enum op op, struct node *node, struct tensor *grad, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad }, .start = node->numbers[1] };
    grad_in[0] = op_call(me, op, &args);
    return grad_in[0] != NULL;
}

bool
grad_flip(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return same_again(me, OP_flip, node, grad_out[0], grad_in);
}

bool
grad_tril(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return same_again(me, OP_tril, node, grad_out[0], grad_in);
}

bool
grad_triu(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return same_again(me, OP_triu, node, grad_out[0], grad_in);
}

bool
grad_permute(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0] }, .dims = node->in_dims };
    for (int i = 0; i < node->in_dims; i++)
        args.sizes[node->numbers[i]] = i;
    grad_in[0] = op_call(me, OP_permute, &args);
    return grad_in[0] != NULL;
}

bool
grad_diagonal(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *whole = zeros_of(me, grad_out[0], node->in_dims, node->in_size);
    struct op_args args  = { .in = { whole }, .dim = node->numbers[0], .start = node->numbers[1],
                             .length = node->numbers[2] };
    struct tensor *line  = whole != NULL ? op_call(me, OP_diagonal, &args) : NULL;
    grad_in[0] = whole;
    return tensor_copy_(me, line, grad_out[0]) != NULL;
}

/* ---- products ---- */

bool
grad_bmm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (node_wants(node, 0))
        grad_in[0] = op_on(me, OP_bmm, grad_out[0], tensor_transpose(me, node_saved(me, node, 0), 1, 2), 1);
    if (node_wants(node, 1))
        grad_in[1] = op_on(me, OP_bmm, tensor_transpose(me, node_saved(me, node, 1), 1, 2), grad_out[0], 1);
    return !task_failed(me);
}

bool
grad_dot(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    for (int i = 0; i < 2; i++)
        if (node_wants(node, i))
            grad_in[i] = tensor_mul(me, grad_out[0], node_saved(me, node, i));
    return !task_failed(me);
}

/* Outer product, and the transposed matrix by g. */
bool
grad_mv(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (node_wants(node, 0)) {
        struct tensor *column = tensor_unsqueeze(me, grad_out[0], 1);
        grad_in[0] = tensor_mul(me, column, tensor_unsqueeze(me, node_saved(me, node, 0), 0));
    }
    if (node_wants(node, 1))
        grad_in[1] = op_on(me, OP_mv, tensor_t(me, node_saved(me, node, 1)), grad_out[0], 1);
    return !task_failed(me);
}

/* ---- arranging ---- */

bool
grad_trace(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args lower = { .in = { tensor_expand(me, grad_out[0], 2, node->in_size) } };
    struct op_args upper = { .in = { lower.in[0] != NULL ? op_call(me, OP_tril, &lower) : NULL } };
    grad_in[0] = upper.in[0] != NULL ? op_call(me, OP_triu, &upper) : NULL;
    return grad_in[0] != NULL;
}

bool
grad_stack(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    for (int i = 0; i < node->edge_count; i++)
        if (node_wants(node, i))
            grad_in[i] = tensor_select(me, grad_out[0], (int)node->numbers[0], i);
    return !task_failed(me);
}

/* Seen as [before, times, the rest], the repetitions are added up, one dimension after the other. */
bool
grad_repeat(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *grad = grad_out[0];
    int            dims = grad->dims, added = dims - node->in_dims;
    int64_t        before = 1, after = tensor_count(grad);
    for (int i = 0; i < dims && grad != NULL; i++) {
        int64_t times = node->numbers[i], size = i < added ? 1 : node->in_size[i - added];
        if (times == 0 || size == 0) {
            grad_in[0] = zeros_of(me, grad, node->in_dims, node->in_size);
            return grad_in[0] != NULL;
        }
        after /= times * size;
        if (times != 1)
            grad = tensor_sum_dim(me, tensor_reshape(me, grad, 3, (const int64_t[]){ before, times, size * after }), 1,
                                  false);
        before *= size;
    }
    grad_in[0] = tensor_reshape(me, grad, node->in_dims, node->in_size);
    return grad_in[0] != NULL;
}

bool
grad_roll(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0] }, .alpha = node->scalar };
    for (int i = 0; i < TENSOR_DIMS; i++)
        args.sizes[i] = -node->numbers[i];
    grad_in[0] = op_call(me, OP_roll, &args);
    return grad_in[0] != NULL;
}

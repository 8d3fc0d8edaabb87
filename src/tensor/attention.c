/* Attention of queries to keys: shares for each pair, then values mixed by them. One node for autograd, several
 * kernels; the last one has the op's price. q, k, v are [N, heads, length, width]; fewer heads of keys and values serve
 * groups of queries' heads. In PyTorch: ATen/native/cpu/FlashAttentionKernel.cpp. */
#include <math.h>
#include <string.h>
#include "tensor/internal.h"

static struct tensor *
step(struct task *me, enum op op, struct tensor *a, struct tensor *b, double alpha)
{
    return op_run(me, op, &(struct op_args){ .in = { a, b }, .alpha = alpha, .module = "" });
}

static struct tensor *
seen_as(struct task *me, struct tensor *a, int dims, const int64_t *sizes)
{
    struct op_args args = { .in = { a }, .dims = dims };
    memcpy(args.sizes, sizes, (size_t)dims * sizeof *sizes);
    return a != NULL ? op_run(me, OP_view, &args) : NULL;
}

/* [N * heads, length, width] in one piece; heads that several share stand there once for each. */
static struct tensor *
matrices(struct task *me, struct tensor *x, int64_t heads)
{
    if (x == NULL)
        return NULL;
    const int64_t *s = x->size, stack[3] = { s[0] * heads, s[2], s[3] };
    if (x->dtype > DTYPE_BOOL)
        x = tensor_to(me, x, tensor_device(x), DTYPE_F32);
    if (x != NULL && x->size[1] != heads) {
        struct op_args wide = { .in = { op_run(me, OP_unsqueeze, &(struct op_args){ .in = { x }, .dim = 2 }) },
                                .dims = 5, .sizes = { s[0], s[1], heads / s[1], s[2], s[3] } };
        x = wide.in[0] != NULL ? op_run(me, OP_expand, &wide) : NULL;
    }
    return seen_as(me, x == NULL || tensor_is_contiguous(x) ? x : step(me, OP_clone, x, NULL, 0), 3, stack);
}

/* 0 where allowed, -inf where not; numbers as they are. */
static struct tensor *
mask_numbers(struct task *me, struct tensor *mask, const struct tensor *like)
{
    if (mask->dtype != DTYPE_BOOL)
        return tensor_to(me, mask, tensor_device(mask), like->dtype);
    struct tensor *open = tensor_zeros(me, like->dtype, tensor_device(like), mask->dims, mask->size);
    return step(me, OP_masked_fill, open, step(me, OP_logical_not, mask, NULL, 1), -INFINITY);
}

/* Nobody sees what comes after. */
static struct tensor *
later_ones(struct task *me, const struct tensor *like, int64_t queries, int64_t keys)
{
    struct tensor *far = tensor_empty(me, like->dtype, tensor_device(like), 2, (const int64_t[]){ queries, keys });
    if (far == NULL || !tensor_fill(me, far, -INFINITY))
        return NULL;
    return op_run(me, OP_triu, &(struct op_args){ .in = { far }, .start = 1, .module = "" });
}

/* Rows of -inf alone have no shares at all, where a softmax would make NaN. */
struct tensor *
run_safe_softmax(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *x = args->in[0];
    (void)op;
    if (x == NULL)
        return NULL;
    struct op_args rows = { .in = { x }, .dims = 1, .sizes = { args->dim }, .keepdim = true, .module = "" };
    struct tensor *most = x->size[x->dims > 0 ? args->dim : 0] > 0 ? op_run(me, OP_amax, &rows) : NULL;
    struct tensor *shares = op_run(me, OP_softmax, &(struct op_args){ .in = { x }, .dim = args->dim,
                                                                      .module = args->module });
    if (most == NULL)
        return shares;
    struct tensor *far = tensor_number(me, most->dtype, tensor_device(most), -INFINITY);
    return step(me, OP_masked_fill, shares, step(me, OP_eq, most, far, 1), 0);
}

/* in: q, k, mask (start 0: there is none); alpha: scale; flag: causal. [N * heads, queries, keys] */
struct tensor *
run_attention_weights(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *q = args->in[0], *k = args->in[1], *mask = args->start ? args->in[2] : NULL;
    const int64_t  heads = q->size[1], apart[4] = { q->size[0], heads, q->size[2], k->size[2] };
    (void)op;
    struct tensor *queries = matrices(me, q, heads), *keys = matrices(me, k, heads);
    keys = keys != NULL ? op_run(me, OP_transpose, &(struct op_args){ .in = { keys }, .dim = 1, .start = 2 }) : NULL;
    struct tensor *scores = step(me, OP_mul_scalar, step(me, OP_bmm, queries, keys, 1), NULL, args->alpha);
    if (scores != NULL && args->flag)
        scores = step(me, OP_add, scores, later_ones(me, scores, apart[2], apart[3]), 1);
    if (scores == NULL || mask == NULL)
        return op_run(me, OP_softmax, &(struct op_args){ .in = { scores }, .dim = 2, .module = args->module });
    const int64_t stack[3] = { apart[0] * heads, apart[2], apart[3] };
    struct tensor *numbers = mask_numbers(me, mask, scores);
    scores = step(me, OP_add, seen_as(me, scores, 4, apart), numbers, 1);
    return run_safe_softmax(me, OP_safe_softmax, &(struct op_args){ .in = { seen_as(me, scores, 3, stack) },
                                                                    .dim = 2, .module = args->module });
}

/* An empty tensor of these sizes that lies in memory as `like` does. */
static struct tensor *
laid_out_like(struct task *me, const struct tensor *like, int64_t width)
{
    int64_t sizes[TENSOR_DIMS], order[TENSOR_DIMS] = { 0, 1, 2 };
    for (int i = 1; i < 3; i++) {
        for (int j = i; j > 0 && like->stride[order[j - 1]] < like->stride[order[j]]; j--) {
            int64_t before = order[j - 1];
            order[j - 1] = order[j];
            order[j]     = before;
        }
    }
    struct op_args back = { .dims = 4, .sizes = { [3] = 3 } };
    for (int i = 0; i < 3; i++) {
        sizes[i] = like->size[order[i]];
        back.sizes[order[i]] = i;
    }
    sizes[3]   = width;
    back.in[0] = tensor_empty(me, like->dtype, tensor_device(like), 4, sizes);
    return back.in[0] != NULL ? op_run(me, OP_permute, &back) : NULL;
}

/* in: q (for its place in memory), k, v, the shares. */
struct tensor *
run_attention(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *q = args->in[0], *values = matrices(me, args->in[2], q->size[1]);
    const int64_t  apart[4] = { q->size[0], q->size[1], q->size[2], args->in[2]->size[3] };
    (void)op;
    struct op_args mixing = { .in = { args->in[3], values }, .alpha = 1, .module = args->module };
    struct tensor *mixed = values != NULL ? seen_as(me, op_run(me, OP_bmm, &mixing), 4, apart) : NULL;
    if (mixed == NULL || (mixed->dtype == q->dtype && tensor_is_contiguous(q)))
        return mixed;
    struct tensor *result = laid_out_like(me, q, apart[3]);
    return result != NULL && tensor_copy(me, result, mixed) ? result : NULL;
}

/* in: added, a, b: beta * added + alpha * a @ b, matrix by matrix. */
struct tensor *
run_baddbmm(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *product = step(me, OP_bmm, args->in[1], args->in[2], 1), *added = args->in[0];
    (void)op;
    if (args->alpha != 1)
        product = step(me, OP_mul_scalar, product, NULL, args->alpha);
    if (args->beta != 1)
        added = step(me, OP_mul_scalar, added, NULL, args->beta);
    return op_run(me, OP_add, &(struct op_args){ .in = { added, product }, .alpha = 1, .module = args->module });
}

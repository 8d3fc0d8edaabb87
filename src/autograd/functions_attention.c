/* Gradient functions of attention and of products beside it, in plain ops: each has a gradient of its own. The shares
 * are those of the forward unless a gradient of this gradient is wanted: then they are made again from what they were
 * made of. */
#include <math.h>
#include "autograd/internal.h"
#include "sched/sched.h"

bool
grad_safe_softmax(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return grad_softmax(me, node, grad_out, grad_in);
}

static struct tensor *
turned(struct task *me, struct tensor *a)
{
    return a != NULL ? tensor_transpose(me, a, 1, 2) : NULL;
}

static struct tensor *
product(struct task *me, struct tensor *a, struct tensor *b)
{
    return op_on(me, OP_bmm, a, b, 1);
}

/* Edges: what was added, a, b. scalar: alpha. */
bool
grad_baddbmm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *a = node_saved(me, node, 0), *b = node_saved(me, node, 1), *g = grad_out[0];
    if (node_wants(node, 0))
        grad_in[0] = node->beta != 1 ? tensor_mul_number(me, g, node->beta) : g;
    if (node->scalar != 1)
        g = tensor_mul_number(me, g, node->scalar);
    if (node_wants(node, 1))
        grad_in[1] = product(me, g, turned(me, b));
    if (node_wants(node, 2))
        grad_in[2] = product(me, turned(me, a), g);
    return !task_failed(me);
}

/* ---- attention: numbers: causal; scalar: scale; saved: q, k, v, shares, the mask ---- */

/* [N, heads, length, width] as [N * `heads`, length, width]; heads that several share stand there once for each. */
static struct tensor *
matrices(struct task *me, struct tensor *x, int64_t heads)
{
    if (x == NULL)
        return NULL;
    const int64_t *s = x->size, stack[3] = { s[0] * heads, s[2], s[3] };
    const int64_t  groups[5] = { s[0], s[1], s[1] > 0 ? heads / s[1] : 1, s[2], s[3] };
    if (x->dtype > DTYPE_BOOL)
        x = tensor_copy_to(me, x, tensor_device(x), DTYPE_F32);
    if (x != NULL && x->size[1] != heads)
        x = tensor_expand(me, tensor_unsqueeze(me, x, 2), 5, groups);
    return tensor_reshape(me, x, 3, stack);
}

/* The other way: heads that several share take all their gradients. */
static struct tensor *
heads_again(struct task *me, struct tensor *grad, const struct tensor *like, int64_t heads)
{
    const int64_t *s = like->size, groups[5] = { s[0], s[1], s[1] > 0 ? heads / s[1] : 1, s[2], s[3] };
    if (s[1] == heads)
        return tensor_reshape(me, grad, 4, s);
    return tensor_sum_dim(me, tensor_reshape(me, grad, 5, groups), 2, false);
}

/* True where a query may not look. */
static struct tensor *
hidden_later(struct task *me, const struct tensor *scores)
{
    const int64_t  sizes[2] = { scores->size[1], scores->size[2] };
    struct tensor *all = tensor_zeros(me, DTYPE_F32, tensor_device(scores), 2, sizes);
    struct tensor *ones = op_on(me, OP_add_scalar, all, NULL, 1);
    struct op_args upper = { .in = { ones }, .start = 1 };
    return tensor_copy_to(me, op_call_checked(me, OP_triu, &upper), tensor_device(scores), DTYPE_BOOL);
}

static struct tensor *
masked_scores(struct task *me, struct tensor *scores, struct tensor *mask, const struct tensor *q)
{
    const int64_t apart[4] = { q->size[0], q->size[1], tensor_size(scores, 1), tensor_size(scores, 2) };
    struct tensor *four = tensor_reshape(me, scores, 4, apart);
    if (mask->dtype == DTYPE_BOOL)
        four = op_on(me, OP_masked_fill, four, op_on(me, OP_logical_not, mask, NULL, 1), -INFINITY);
    else
        four = tensor_add(me, four, mask);
    return tensor_reshape(me, four, 3, (const int64_t[]){ apart[0] * apart[1], apart[2], apart[3] });
}

static struct tensor *
shares_again(struct task *me, struct node *node, struct tensor *queries, struct tensor *keys, const struct tensor *q)
{
    struct tensor *scores = tensor_mul_number(me, product(me, queries, turned(me, keys)), node->scalar);
    struct tensor *mask = node->saved_count > 4 ? node_saved(me, node, 4) : NULL;
    if (scores != NULL && node->numbers[0])
        scores = op_on(me, OP_masked_fill, scores, hidden_later(me, scores), -INFINITY);
    if (scores != NULL && mask != NULL)
        scores = masked_scores(me, scores, mask, q);
    return op_call_checked(me, OP_safe_softmax, &(struct op_args){ .in = { scores }, .dim = 2 });
}

static struct tensor *
through_shares(struct task *me, struct tensor *grad, struct tensor *shares)
{
    struct op_args args = { .in = { grad, shares }, .dim = 2 };
    return op_call_checked(me, OP_softmax_backward, &args);
}

bool
grad_attention(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *q = node_saved(me, node, 0), *k = node_saved(me, node, 1), *v = node_saved(me, node, 2);
    struct tensor *shares = node_saved(me, node, 3);
    if (q == NULL || k == NULL || v == NULL || shares == NULL)
        return false;
    int64_t        heads = q->size[1];
    struct tensor *queries = matrices(me, q, heads), *keys = matrices(me, k, heads), *values = matrices(me, v, heads);
    struct tensor *g = matrices(me, grad_out[0], heads);
    if (grad_enabled(me))
        shares = shares_again(me, node, queries, keys, q);
    if (node_wants(node, 2))
        grad_in[2] = heads_again(me, product(me, turned(me, shares), g), v, heads);
    if (!node_wants(node, 0) && !node_wants(node, 1))
        return !task_failed(me);
    struct tensor *slope = through_shares(me, product(me, g, turned(me, values)), shares);
    slope = tensor_mul_number(me, slope, node->scalar);
    if (node_wants(node, 0))
        grad_in[0] = heads_again(me, product(me, slope, keys), q, heads);
    if (node_wants(node, 1))
        grad_in[1] = heads_again(me, product(me, turned(me, slope), queries), k, heads);
    return !task_failed(me);
}

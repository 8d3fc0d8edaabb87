/* Gradient functions, one a row of ops.def, written with the functions of call.h, so that a backward under
 * create_graph is itself recorded. A gradient that has another shape than its input is summed to it by the engine
 * (validate_outputs), so nothing here cares for broadcasting. In PyTorch: tools/autograd/derivatives.yaml.
 *
 * What each needs was put into the node by op_record (record.c): saved tensors by position, numbers, the scalar. */
#include "autograd/internal.h"
#include "sched/sched.h"

bool
grad_none(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)grad_out, (void)grad_in;
    return failed(me, E_RUNTIME, "derivative for %s is not implemented",
                  node->op != NULL ? node->op : node->name);
}

bool
grad_add(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *grad = grad_out[0];
    grad_in[0] = grad;
    if (node_wants(node, 1))
        grad_in[1] = node->scalar == 1 ? grad : tensor_mul_number(me, grad, node->scalar);
    return !task_failed(me);
}

bool
grad_sub(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *grad = grad_out[0];
    grad_in[0] = grad;
    if (node_wants(node, 1))
        grad_in[1] = node->scalar == 1 ? tensor_neg(me, grad) : tensor_mul_number(me, grad, -node->scalar);
    return !task_failed(me);
}

bool
grad_mul(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (node_wants(node, 0))
        grad_in[0] = tensor_mul(me, grad_out[0], node_saved(me, node, 0));
    if (node_wants(node, 1))
        grad_in[1] = tensor_mul(me, grad_out[0], node_saved(me, node, 1));
    return !task_failed(me);
}

/* a / b: g / b and -g * (a / b) / b. */
bool
grad_div(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *b = node_saved(me, node, 0);
    if (node_wants(node, 0))
        grad_in[0] = tensor_div(me, grad_out[0], b);
    if (node_wants(node, 1)) {
        struct tensor *a = node_saved(me, node, 1);
        struct tensor *less = tensor_neg(me, grad_out[0]);
        grad_in[1] = tensor_mul(me, less, tensor_div(me, tensor_div(me, a, b), b));
    }
    return !task_failed(me);
}

bool
grad_add_scalar(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)me, (void)node;
    grad_in[0] = grad_out[0];
    return true;
}

bool
grad_mul_scalar(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_mul_number(me, grad_out[0], node->scalar);
    return grad_in[0] != NULL;
}

bool
grad_div_scalar(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_div_number(me, grad_out[0], node->scalar);
    return grad_in[0] != NULL;
}

bool
grad_neg(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)node;
    grad_in[0] = tensor_neg(me, grad_out[0]);
    return grad_in[0] != NULL;
}

/* g . B^T, computed so that it comes out in A's memory order: a transposed weight then gets a gradient which its
 * TBackward0 turns into a row-major one, and AccumulateGrad may keep that without a copy. */
static struct tensor *
grad_of_left(struct task *me, struct tensor *grad, struct tensor *b, bool column_major)
{
    if (column_major)
        return tensor_t(me, tensor_mm(me, b, tensor_t(me, grad)));
    return tensor_mm(me, grad, tensor_t(me, b));
}

static struct tensor *
grad_of_right(struct task *me, struct tensor *grad, struct tensor *a, bool column_major)
{
    if (column_major)
        return tensor_t(me, tensor_mm(me, tensor_t(me, grad), a));
    return tensor_mm(me, tensor_t(me, a), grad);
}

bool
grad_mm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (node_wants(node, 0))
        grad_in[0] = grad_of_left(me, grad_out[0], node_saved(me, node, 0), node->numbers[0]);
    if (node_wants(node, 1))
        grad_in[1] = grad_of_right(me, grad_out[0], node_saved(me, node, 1), node->numbers[1]);
    return !task_failed(me);
}

/* Edges: bias, input, weight. The bias' gradient is summed over the rows here, so that the node's price covers it. */
bool
grad_addmm(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (node_wants(node, 0))
        grad_in[0] = tensor_sum_to(me, grad_out[0], node->in_dims, node->in_size);
    if (node_wants(node, 1))
        grad_in[1] = grad_of_left(me, grad_out[0], node_saved(me, node, 0), node->numbers[0]);
    if (node_wants(node, 2))
        grad_in[2] = grad_of_right(me, grad_out[0], node_saved(me, node, 1), node->numbers[1]);
    return !task_failed(me);
}

bool
grad_embedding(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0) },
                            .length = node->numbers[0], .start = node->numbers[1], .step = node->numbers[2] };
    if (node->numbers[3] != 0 && args.step != 0)
        return failed(me, E_RUNTIME, "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    if (node->numbers[3] != 0) {
        grad_in[0] = sparse_embedding_grad(me, grad_out[0], args.in[1], args.length, args.start);
        return grad_in[0] != NULL;
    }
    if (args.in[1] != NULL)
        grad_in[0] = op_call(me, OP_embedding_backward, &args);
    return grad_in[0] != NULL;
}

/* The gradient of a gradient: each position takes what came for its row. The padding row gives and takes nothing. */
bool
grad_embedding_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *indices = node_saved(me, node, 0);
    struct tensor *table   = grad_out[0];
    if (indices == NULL)
        return false;
    if (node->numbers[1] >= 0) {
        table = tensor_copied(me, table);
        if (tensor_fill_(me, tensor_select(me, table, 0, node->numbers[1]), 0) == NULL)
            return false;
    }
    if (table == NULL)
        return false;
    struct op_args args = { .in = { table, indices }, .start = -1 };
    grad_in[0] = op_call(me, OP_embedding, &args);
    return grad_in[0] != NULL;
}

bool
grad_relu(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0) } };
    if (args.in[1] != NULL)
        grad_in[0] = op_call(me, OP_threshold_backward, &args);
    return grad_in[0] != NULL;
}

bool
grad_threshold_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return grad_relu(me, node, grad_out, grad_in);
}

/* g * sign(a), 0 at 0. */
bool
grad_abs(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *a    = node_saved(me, node, 0);
    struct tensor *zero = a != NULL ? zeros_of(me, a, 0, NULL) : NULL;
    if (zero == NULL)
        return false;
    struct tensor *up   = op_call(me, OP_gt, &(struct op_args){ .in = { a, zero } });
    struct tensor *down = op_call(me, OP_lt, &(struct op_args){ .in = { a, zero } });
    struct tensor *above = tensor_mul(me, grad_out[0], up);
    grad_in[0] = tensor_sub(me, above, tensor_mul(me, grad_out[0], down));
    return grad_in[0] != NULL;
}

bool
grad_sum(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_expand(me, grad_out[0], node->in_dims, node->in_size);
    return grad_in[0] != NULL;
}

bool
grad_sum_dim(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    bool           kept = node->numbers[1] || node->in_dims == 0;
    struct tensor *grad = kept ? grad_out[0] : tensor_unsqueeze(me, grad_out[0], (int)node->numbers[0]);
    grad_in[0] = tensor_expand(me, grad, node->in_dims, node->in_size);
    return grad_in[0] != NULL;
}

/* Expanding to the stretched shape is the inverse of summing down to this one. */
bool
grad_sum_to(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return grad_sum(me, node, grad_out, grad_in);
}

bool
grad_mean(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    double count = 1;
    for (int i = 0; i < node->in_dims; i++)
        count *= (double)node->in_size[i];
    grad_in[0] = tensor_div_number(me, tensor_expand(me, grad_out[0], node->in_dims, node->in_size), count);
    return grad_in[0] != NULL;
}

bool
grad_log_softmax(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0) }, .dim = node->numbers[0] };
    if (args.in[1] != NULL)
        grad_in[0] = op_call(me, OP_log_softmax_backward, &args);
    return grad_in[0] != NULL;
}

/* r = g - p * sum(g) with p = exp(y). There is no op for p, but r itself gives it: a g whose every element is 1/C sums
 * to 1, so p = 1/C - r(1/C). Then dg = h - sum(h * p) and dy = -h * p * sum(g) for the gradient h of r. */
bool
grad_log_softmax_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *h = grad_out[0], *y = node_saved(me, node, 1), *g = node_saved(me, node, 0);
    if (y == NULL || g == NULL)
        return false;
    int            dim  = (int)node->numbers[0];
    double         part = y->dims > 0 ? 1.0 / (double)tensor_size(y, dim) : 1;
    struct tensor *even = tensor_fill_(me, zeros_of(me, y, y->dims, y->size), part);
    struct op_args args = { .in = { even, y }, .dim = dim };
    struct tensor *rest = even != NULL ? op_call(me, OP_log_softmax_backward, &args) : NULL;
    struct tensor *hp   = tensor_mul(me, h, tensor_sub(me, even, rest));
    if (node_wants(node, 0))
        grad_in[0] = tensor_sub(me, h, tensor_sum_dim(me, hp, dim, true));
    if (node_wants(node, 1))
        grad_in[1] = tensor_neg(me, tensor_mul(me, hp, tensor_sum_dim(me, g, dim, true)));
    return !task_failed(me);
}

/* Each part takes its slice; how long the parts are stands in the context. */
bool
grad_cat(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const int64_t *lengths = (const int64_t *)node->context + 1;
    int64_t        start   = 0;
    for (int i = 0; i < node->edge_count; i++) {
        if (node_wants(node, i) && lengths[i] < 0)
            grad_in[i] = zeros_of(me, grad_out[0], 1, (const int64_t[]){ 0 });
        else if (node_wants(node, i))
            grad_in[i] = tensor_narrow(me, grad_out[0], (int)node->numbers[0], start, lengths[i]);
        start += lengths[i] > 0 ? lengths[i] : 0;
    }
    return !task_failed(me);
}

/* A copy into another device or dtype; in place the old elements of the target get nothing. */
bool
grad_copy(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    int from = node->edge_count - 1;
    if (node_wants(node, from))
        grad_in[from] = tensor_copy_to(me, grad_out[0], (int)node->numbers[1], (enum dtype)node->numbers[0]);
    if (from == 1 && node_wants(node, 0))
        grad_in[0] = zeros_of(me, grad_out[0], grad_out[0]->dims, grad_out[0]->size);
    return !task_failed(me);
}

bool
grad_fill(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (node_wants(node, 0))
        grad_in[0] = zeros_of(me, grad_out[0], grad_out[0]->dims, grad_out[0]->size);
    return !task_failed(me);
}

bool
grad_clone(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)me, (void)node;
    grad_in[0] = grad_out[0];
    return true;
}

bool
grad_view(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_reshape(me, grad_out[0], node->in_dims, node->in_size);
    return grad_in[0] != NULL;
}

bool
grad_expand(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_sum_to(me, grad_out[0], node->in_dims, node->in_size);
    return grad_in[0] != NULL;
}

bool
grad_t(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)node;
    grad_in[0] = tensor_t(me, grad_out[0]);
    return grad_in[0] != NULL;
}

bool
grad_transpose(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_transpose(me, grad_out[0], (int)node->numbers[0], (int)node->numbers[1]);
    return grad_in[0] != NULL;
}

/* Zeros of the input's shape with the gradient in the slice. */
bool
grad_narrow(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *whole = zeros_of(me, grad_out[0], node->in_dims, node->in_size);
    struct op_args args  = { .in = { whole }, .dim = node->numbers[0], .start = node->numbers[1],
                             .length = node->numbers[2], .step = node->numbers[3] };
    struct tensor *slice = whole != NULL ? op_call(me, OP_narrow, &args) : NULL;
    grad_in[0] = whole;
    return tensor_copy_(me, slice, grad_out[0]) != NULL;
}

bool
grad_select(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *whole = zeros_of(me, grad_out[0], node->in_dims, node->in_size);
    struct tensor *slice = tensor_select(me, whole, (int)node->numbers[0], node->numbers[1]);
    grad_in[0] = whole;
    return tensor_copy_(me, slice, grad_out[0]) != NULL;
}

bool
grad_unsqueeze(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    grad_in[0] = tensor_squeeze(me, grad_out[0], (int)node->numbers[0]);
    return grad_in[0] != NULL;
}

bool
grad_squeeze(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    bool taken = node->numbers[1], all = node->numbers[2];
    if (all)
        grad_in[0] = tensor_reshape(me, grad_out[0], node->in_dims, node->in_size);
    else
        grad_in[0] = taken ? tensor_unsqueeze(me, grad_out[0], (int)node->numbers[0]) : grad_out[0];
    return grad_in[0] != NULL;
}

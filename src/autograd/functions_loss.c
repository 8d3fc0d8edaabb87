/* Gradient functions of losses; see functions_nn.c. */
#include "autograd/internal.h"
#include "sched/sched.h"

/* numbers: reduction, ignored target, -, weights given; scalar: smoothing. */
bool
grad_nll_loss(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *target = node_saved(me, node, 1), *weight = node_saved(me, node, 2);
    struct op_args args = { .in = { grad_out[0], x, target, weight },
                            .dim = node->numbers[0], .start = node->numbers[1], .step = node->numbers[3],
                            .alpha = node->scalar };
    grad_in[0] = op_call_checked(me, OP_nll_loss_backward, &args);
    return grad_in[0] != NULL;
}

/* Linear in g: what came for each input, weighted as the loss weighs it, is the loss of what came. */
bool
grad_nll_loss_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *target = node_saved(me, node, 0), *weight = node_saved(me, node, 1);
    struct op_args args = { .in = { grad_out[0], target, weight },
                            .dim = node->numbers[0], .start = node->numbers[1], .step = node->numbers[3],
                            .alpha = node->scalar };
    grad_in[0] = op_call_checked(me, OP_nll_loss, &args);
    return grad_in[0] != NULL;
}

/* Under a mean each element's gradient is a share of what came. */
static double
share_of_each(const struct node *node)
{
    double elements = 1;
    for (int d = 0; d < node->in_dims; d++)
        elements *= (double)node->in_size[d];
    return node->numbers[0] == LOSS_MEAN ? 1 / elements : 1;
}

/* g times the slope and that share. */
static struct tensor *
shared_out(struct task *me, const struct node *node, struct tensor *g, struct tensor *slope)
{
    double share = share_of_each(node);
    struct tensor *grad = tensor_mul(me, g, slope);
    return share != 1 ? tensor_mul_number(me, grad, share) : grad;
}

/* Of losses of input - target: the target's gradient is the input's, turned round. */
static bool
both_ways(struct task *me, const struct node *node, struct tensor *grad, struct tensor **grad_in)
{
    grad_in[0] = grad;
    if (node_wants(node, 1))
        grad_in[1] = tensor_neg(me, grad);
    return grad != NULL && !task_failed(me);
}

bool
grad_mse_loss(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0) }, .dim = node->numbers[0] };
    args.in[2] = node_saved(me, node, 1);
    return both_ways(me, node, op_call_checked(me, OP_mse_loss_backward, &args), grad_in);
}

/* r = g * 2 (x - t), over n if the loss is a mean. */
bool
grad_mse_loss_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *g = node_saved(me, node, 0), *x = node_saved(me, node, 1), *t = node_saved(me, node, 2);
    if (g == NULL || x == NULL || t == NULL)
        return false;
    double         factor = node->numbers[0] == LOSS_MEAN ? 2.0 / (double)tensor_count(x) : 2;
    struct tensor *scaled = tensor_mul_number(me, grad_out[0], factor);
    if (node_wants(node, 0)) {
        struct tensor *each = tensor_mul(me, scaled, tensor_sub(me, x, t));
        grad_in[0] = node->numbers[0] == LOSS_NONE ? each : tensor_sum(me, each);
    }
    if (node_wants(node, 1))
        grad_in[1] = tensor_mul(me, scaled, g);
    if (node_wants(node, 2))
        grad_in[2] = tensor_neg(me, tensor_mul(me, scaled, g));
    return !task_failed(me);
}

/* x kept between -limit and limit: what is beyond has no slope. */
static struct tensor *
kept_within(struct task *me, struct tensor *x, double limit)
{
    if (x == NULL)
        return NULL;
    struct op_args args = { .in = { x, tensor_number(me, x->dtype, tensor_device(x), -limit) } };
    args.in[2] = tensor_number(me, x->dtype, tensor_device(x), limit);
    return op_call_checked(me, OP_clamp, &args);
}

static struct tensor *
by_kernel(struct task *me, const struct node *node, enum op back, struct tensor *const in[3])
{
    struct op_args args = { .in = { in[0], in[1], in[2] }, .alpha = node->scalar, .beta = share_of_each(node) };
    return op_call_checked(me, back, &args);
}

bool
grad_huber_loss(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *in[3] = { grad_out[0], node_saved(me, node, 0) };
    in[2] = node_saved(me, node, 1);
    if (!grad_enabled(me))
        return both_ways(me, node, by_kernel(me, node, OP_huber_loss_backward, in), grad_in);
    struct tensor *slope = kept_within(me, tensor_sub(me, in[1], in[2]), node->scalar);
    return both_ways(me, node, shared_out(me, node, in[0], slope), grad_in);
}

bool
grad_smooth_l1_loss(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *in[3] = { grad_out[0], node_saved(me, node, 0) };
    in[2] = node_saved(me, node, 1);
    if (!grad_enabled(me))
        return both_ways(me, node, by_kernel(me, node, OP_smooth_l1_loss_backward, in), grad_in);
    struct tensor *steep = tensor_div_number(me, tensor_sub(me, in[1], in[2]), node->scalar);
    return both_ways(me, node, shared_out(me, node, in[0], kept_within(me, steep, 1)), grad_in);
}

/* -t sigmoid(-t x) */
bool
grad_soft_margin_loss(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *in[3] = { grad_out[0], node_saved(me, node, 0) };
    in[2] = node_saved(me, node, 1);
    if (grad_enabled(me)) {
        struct tensor *turned = tensor_neg(me, in[2]);
        struct tensor *slope = tensor_mul(me, turned, op_on(me, OP_sigmoid, tensor_mul(me, turned, in[1]), NULL, 1));
        grad_in[0] = shared_out(me, node, in[0], slope);
    } else
        grad_in[0] = by_kernel(me, node, OP_soft_margin_loss_backward, in);
    return grad_in[0] != NULL;
}

/* ---- probabilities ---- */

/* What comes, times the loss's weight if it has one. */
static struct tensor *
weighted(struct task *me, struct node *node, struct tensor *g, bool has_weight, int saved)
{
    return has_weight ? tensor_mul(me, g, node_saved(me, node, saved)) : g;
}

/* (x - t) / (x (1 - x)), the divisor no smaller than 1e-12 */
static struct tensor *
probability_slope(struct task *me, struct tensor *x, struct tensor *t)
{
    struct tensor *width = tensor_sub(me, x, op_on(me, OP_square, x, NULL, 1));
    struct tensor *least = x != NULL ? tensor_number(me, x->dtype, tensor_device(x), 1e-12) : NULL;
    width = op_on(me, OP_maximum, width, least, 1);
    return tensor_div(me, tensor_sub(me, x, t), width);
}

/* log no smaller than -100 */
static struct tensor *
bounded_log(struct task *me, enum op log, struct tensor *x)
{
    struct tensor *made = op_on(me, log, x, NULL, 1);
    struct tensor *least = made != NULL ? tensor_number(me, made->dtype, tensor_device(made), -100) : NULL;
    return op_on(me, OP_maximum, made, least, 1);
}

/* numbers: reduction, 1: without weights. The target's gradient: g (log(1 - x) - log x). */
bool
grad_bce(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct tensor *x = node_saved(me, node, 0), *t = node_saved(me, node, 1);
    struct tensor *in[3] = { weighted(me, node, grad_out[0], node->numbers[1] != 1, 2), x, t };
    if (node_wants(node, 0))
        grad_in[0] = grad_enabled(me) ? shared_out(me, node, in[0], probability_slope(me, x, t))
                                      : by_kernel(me, node, OP_bce_backward, in);
    if (node_wants(node, 1)) {
        struct tensor *no = bounded_log(me, OP_log1p, tensor_neg(me, x)), *yes = bounded_log(me, OP_log, x);
        grad_in[1] = shared_out(me, node, in[0], tensor_sub(me, no, yes));
    }
    return !task_failed(me);
}

/* ---- logits ---- */

enum { NO_POSITIVE = 1, NO_WEIGHT = 2 };

/* The loss of logits x for targets t, whose ones weigh `pos`; g is its gradient. */
struct bce { struct tensor *g, *x, *t, *pos; bool positive; };

/* 1 - t - w sigmoid(-x) with w = 1 + (pos - 1) t. */
static struct tensor *
logit_slope(struct task *me, const struct bce *loss)
{
    struct tensor *x = loss->x, *t = loss->t, *pos = loss->pos;
    struct tensor *tail = op_on(me, OP_sigmoid, tensor_neg(me, x), NULL, 0);
    if (loss->positive)
        tail = tensor_mul(me, tail, tensor_add_number(me, tensor_mul(me, tensor_add_number(me, pos, -1), t), 1));
    return tensor_sub(me, tensor_add_number(me, tensor_neg(me, t), 1), tail);
}

/* To the target: (pos - 1) softplus(-x) - x. */
static struct tensor *
label_slope(struct task *me, const struct bce *loss)
{
    struct tensor *slope = tensor_neg(me, loss->x);
    if (loss->positive) {
        struct tensor *more = tensor_add_number(me, loss->pos, -1);
        struct op_args soft = { .in = { slope }, .alpha = 1, .beta = 20 };
        slope = tensor_add(me, slope, tensor_mul(me, more, op_call_checked(me, OP_softplus, &soft)));
    }
    return slope;
}

/* numbers: reduction, what is absent. */
bool
grad_bce_with_logits(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    int64_t    absent = node->numbers[1];
    double     share = share_of_each(node);
    struct bce loss = { .g = weighted(me, node, grad_out[0], !(absent & NO_WEIGHT), 3),
                        .positive = !(absent & NO_POSITIVE) };
    loss.x   = node_saved(me, node, 0);
    loss.t   = node_saved(me, node, 1);
    loss.pos = node_saved(me, node, 2);
    if (share != 1)
        loss.g = tensor_mul_number(me, loss.g, share);
    struct op_args args = { .in = { loss.g, loss.x, loss.t, loss.pos }, .start = absent };
    if (node_wants(node, 0))
        grad_in[0] = grad_enabled(me) ? tensor_mul(me, loss.g, logit_slope(me, &loss))
                                      : op_call_checked(me, OP_bce_with_logits_backward, &args);
    if (node_wants(node, 1))
        grad_in[1] = tensor_mul(me, loss.g, label_slope(me, &loss));
    return !task_failed(me);
}

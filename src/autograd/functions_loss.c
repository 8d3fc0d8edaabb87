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

/* The loss of logits x for targets t, whose ones weigh `pos`; g is its gradient. */
struct bce { struct tensor *g, *x, *t, *pos; bool weighted; };

/* g (1 - t - w sigmoid(-x)) with w = 1 + (pos - 1) t. */
static struct tensor *
bce_recorded(struct task *me, const struct bce *loss)
{
    struct tensor *g = loss->g, *x = loss->x, *t = loss->t, *pos = loss->pos;
    struct tensor *tail = op_on(me, OP_sigmoid, tensor_neg(me, x), NULL, 0);
    if (loss->weighted)
        tail = tensor_mul(me, tail, tensor_add_number(me, tensor_mul(me, tensor_add_number(me, pos, -1), t), 1));
    return tensor_mul(me, g, tensor_sub(me, tensor_add_number(me, tensor_neg(me, t), 1), tail));
}

/* log(1 + exp(-x)): the loss of the logit x whose label is 1. */
static struct tensor *
loss_of_one(struct task *me, struct tensor *x)
{
    struct tensor *label = x != NULL ? tensor_number(me, x->dtype, tensor_device(x), 1) : NULL;
    struct op_args args  = { .in = { x, label, label }, .start = 1 };
    return label != NULL ? op_call(me, OP_bce_with_logits, &args) : NULL;
}

/* To the target: g ((pos - 1) softplus(-x) - x). */
static struct tensor *
bce_to_target(struct task *me, const struct bce *loss)
{
    struct tensor *slope = tensor_neg(me, loss->x);
    if (loss->weighted) {
        struct tensor *more = tensor_add_number(me, loss->pos, -1);
        slope = tensor_add(me, slope, tensor_mul(me, more, loss_of_one(me, loss->x)));
    }
    return tensor_mul(me, loss->g, slope);
}

bool
grad_bce_with_logits(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct bce loss = { .g = grad_out[0], .weighted = node->numbers[1] != 1 };
    loss.x   = node_saved(me, node, 0);
    loss.t   = node_saved(me, node, 1);
    loss.pos = node_saved(me, node, 2);
    struct op_args args = { .in = { loss.g, loss.x, loss.t, loss.pos }, .start = node->numbers[1] };
    if (node_wants(node, 0))
        grad_in[0] = grad_enabled(me) ? bce_recorded(me, &loss)
                                      : op_call_checked(me, OP_bce_with_logits_backward, &args);
    if (node_wants(node, 1))
        grad_in[1] = bce_to_target(me, &loss);
    return !task_failed(me);
}

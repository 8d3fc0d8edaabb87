/* Gradient functions of recurrent cells and losses; see functions_nn.c. */
#include "autograd/internal.h"
#include "sched/sched.h"

static struct tensor *
one_minus(struct task *me, struct tensor *x)
{
    return tensor_add_number(me, tensor_neg(me, x), 1);
}

/* g s (1 - s): back through a sigmoid whose result is s. */
static struct tensor *
through_sigmoid(struct task *me, struct tensor *g, struct tensor *s)
{
    struct tensor *gs = tensor_mul(me, g, s);
    return tensor_mul(me, gs, one_minus(me, s));
}

static struct tensor *
through_tanh(struct task *me, struct tensor *g, struct tensor *t)
{
    return tensor_mul(me, g, one_minus(me, op_on(me, OP_square, t, NULL, 0)));
}

static struct tensor *
gate_of(struct task *me, struct tensor *gates, int part, int64_t wide, enum op function)
{
    return op_on(me, function, tensor_narrow(me, gates, 1, part * wide, wide), NULL, 0);
}

static bool
lstm_cell_recorded(struct task *me, struct node *node, struct tensor *grad, struct tensor **grad_in)
{
    struct tensor *gates = node_saved(me, node, 0), *c = node_saved(me, node, 1);
    int64_t        wide = tensor_size(c, 1);
    struct tensor *i = gate_of(me, gates, 0, wide, OP_sigmoid), *f = gate_of(me, gates, 1, wide, OP_sigmoid);
    struct tensor *g = gate_of(me, gates, 2, wide, OP_tanh), *o = gate_of(me, gates, 3, wide, OP_sigmoid);
    struct tensor *kept = tensor_mul(me, f, c), *added = tensor_mul(me, i, g);
    struct tensor *t = op_on(me, OP_tanh, tensor_add(me, kept, added), NULL, 0);
    struct tensor *gh = tensor_select(me, grad, 0, 0), *gc = tensor_select(me, grad, 0, 1);
    struct tensor *dc = tensor_add(me, gc, through_tanh(me, tensor_mul(me, gh, o), t));
    struct tensor *parts[4];
    parts[0] = through_sigmoid(me, tensor_mul(me, dc, g), i);
    parts[1] = through_sigmoid(me, tensor_mul(me, dc, c), f);
    parts[2] = through_tanh(me, tensor_mul(me, dc, i), g);
    parts[3] = through_sigmoid(me, tensor_mul(me, gh, t), o);
    grad_in[0] = tensor_cat(me, parts, 4, 1);
    grad_in[1] = tensor_mul(me, dc, f);
    return !task_failed(me);
}

bool
grad_lstm_cell(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (grad_enabled(me))
        return lstm_cell_recorded(me, node, grad_out[0], grad_in);
    struct tensor *c = node_saved(me, node, 1);
    struct op_args args = { .in = { grad_out[0], node_saved(me, node, 0), c } };
    struct tensor *all = op_call_checked(me, OP_lstm_cell_backward, &args);
    int64_t        wide = tensor_size(c, 1);
    if (node_wants(node, 0))
        grad_in[0] = tensor_narrow(me, all, 1, 0, 4 * wide);
    if (node_wants(node, 1))
        grad_in[1] = tensor_narrow(me, all, 1, 4 * wide, wide);
    return !task_failed(me);
}

static bool
gru_cell_recorded(struct task *me, struct node *node, struct tensor *grad, struct tensor **grad_in)
{
    struct tensor *xs = node_saved(me, node, 0), *hs = node_saved(me, node, 1), *h = node_saved(me, node, 2);
    int64_t        wide = tensor_size(h, 1);
    struct tensor *both = tensor_add(me, xs, hs), *inner = tensor_narrow(me, hs, 1, 2 * wide, wide);
    struct tensor *r = gate_of(me, both, 0, wide, OP_sigmoid), *z = gate_of(me, both, 1, wide, OP_sigmoid);
    struct tensor *new = tensor_narrow(me, xs, 1, 2 * wide, wide);
    struct tensor *n = op_on(me, OP_tanh, tensor_add(me, new, tensor_mul(me, r, inner)), NULL, 0);
    struct tensor *dn = through_tanh(me, tensor_mul(me, grad, one_minus(me, z)), n);
    struct tensor *dr = through_sigmoid(me, tensor_mul(me, dn, inner), r);
    struct tensor *dz = through_sigmoid(me, tensor_mul(me, grad, tensor_sub(me, h, n)), z);
    grad_in[0] = tensor_cat(me, (struct tensor *[]){ dr, dz, dn }, 3, 1);
    grad_in[1] = tensor_cat(me, (struct tensor *[]){ dr, dz, tensor_mul(me, dn, r) }, 3, 1);
    grad_in[2] = tensor_mul(me, grad, z);
    return !task_failed(me);
}

bool
grad_gru_cell(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    if (grad_enabled(me))
        return gru_cell_recorded(me, node, grad_out[0], grad_in);
    struct tensor *xs = node_saved(me, node, 0), *hs = node_saved(me, node, 1), *h = node_saved(me, node, 2);
    struct op_args args = { .in = { grad_out[0], xs, hs, h } };
    struct tensor *all = op_call_checked(me, OP_gru_cell_backward, &args);
    int64_t        wide = tensor_size(h, 1);
    if (node_wants(node, 0))
        grad_in[0] = tensor_narrow(me, all, 1, 0, 3 * wide);
    if (node_wants(node, 1))
        grad_in[1] = tensor_narrow(me, all, 1, 3 * wide, 3 * wide);
    if (node_wants(node, 2))
        grad_in[2] = tensor_narrow(me, all, 1, 6 * wide, wide);
    return !task_failed(me);
}

/* ---- losses ---- */

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
    return tensor_mul(me, g, tensor_sub(me, one_minus(me, t), tail));
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

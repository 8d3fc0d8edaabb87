/* Gradient functions of recurrent cells and layers; see functions_nn.c. */
#include "autograd/internal.h"
#include "device/cells.h"
#include "sched/task.h"

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

/* One step: its gates before their functions and the old cell; what comes for the new state and cell. */
struct step { struct tensor *gates, *c, *grad_h, *grad_c; };

/* In plain ops, which can be gone back through: the gates' gradient, and the old cell's. */
static struct tensor *
step_recorded(struct task *me, const struct step *step, struct tensor **grad_c)
{
    struct tensor *gates = step->gates, *c = step->c;
    int64_t        wide = tensor_size(c, 1);
    struct tensor *i = gate_of(me, gates, 0, wide, OP_sigmoid), *f = gate_of(me, gates, 1, wide, OP_sigmoid);
    struct tensor *g = gate_of(me, gates, 2, wide, OP_tanh), *o = gate_of(me, gates, 3, wide, OP_sigmoid);
    struct tensor *kept = tensor_mul(me, f, c), *added = tensor_mul(me, i, g);
    struct tensor *t = op_on(me, OP_tanh, tensor_add(me, kept, added), NULL, 0);
    struct tensor *dc = tensor_add(me, step->grad_c, through_tanh(me, tensor_mul(me, step->grad_h, o), t));
    struct tensor *parts[4];
    parts[0] = through_sigmoid(me, tensor_mul(me, dc, g), i);
    parts[1] = through_sigmoid(me, tensor_mul(me, dc, c), f);
    parts[2] = through_tanh(me, tensor_mul(me, dc, i), g);
    parts[3] = through_sigmoid(me, tensor_mul(me, step->grad_h, t), o);
    *grad_c  = tensor_mul(me, dc, f);
    return tensor_cat(me, parts, 4, 1);
}

static bool
lstm_cell_recorded(struct task *me, struct node *node, struct tensor *grad, struct tensor **grad_in)
{
    struct step step = { .gates = node_saved(me, node, 0) };
    step.c      = node_saved(me, node, 1);
    step.grad_h = tensor_select(me, grad, 0, 0);
    step.grad_c = tensor_select(me, grad, 0, 1);
    grad_in[0]  = step_recorded(me, &step, &grad_in[1]);
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

/* ---- all steps of an LSTM's layer ---- */

/* The layer's saved operands, and what the products want of it. numbers[1]: it began at the last step. */
struct lstm {
    struct tensor *in[LSTM_INPUTS];
    struct tensor *flat;                 /* the input, step below step */
    int64_t        steps, rows, wide;
    bool           turned;
};

static bool
lstm_of(struct task *me, struct node *node, struct lstm *lstm)
{
    for (int i = 0; i < LSTM_INPUTS; i++)
        lstm->in[i] = node_saved(me, node, i);
    if (task_failed(me))
        return false;
    lstm->steps  = tensor_size(lstm->in[LSTM_INPUT], 0);
    lstm->rows   = tensor_size(lstm->in[LSTM_INPUT], 1);
    lstm->wide   = tensor_size(lstm->in[LSTM_HH], 1);
    lstm->turned = node->numbers[1] == 1;
    int64_t sizes[2] = { lstm->steps * lstm->rows, tensor_size(lstm->in[LSTM_INPUT], 2) };
    lstm->flat = tensor_reshape(me, lstm->in[LSTM_INPUT], 2, sizes);
    return lstm->flat != NULL;
}

/* To what all steps share but the state's weight, from the gates' gradients, step below step. */
static void
lstm_to_shared(struct task *me, struct node *node, const struct lstm *lstm, struct tensor *gates,
               struct tensor **grad_in)
{
    const struct tensor *x = lstm->in[LSTM_INPUT];
    if (node_wants(node, LSTM_INPUT))
        grad_in[LSTM_INPUT] = tensor_view_as(me, tensor_mm(me, gates, lstm->in[LSTM_IH]), 3, x->size, VIEW_PLAIN);
    if (node_wants(node, LSTM_IH))
        grad_in[LSTM_IH] = tensor_mm(me, tensor_t(me, gates), lstm->flat);
    if (node_wants(node, LSTM_IH_BIAS))
        grad_in[LSTM_IH_BIAS] = tensor_sum_dim(me, gates, 0, false);
    if (!node_wants(node, LSTM_HH_BIAS))
        return;
    struct tensor *same = grad_in[LSTM_IH_BIAS];
    grad_in[LSTM_HH_BIAS] = same != NULL ? tensor_copied(me, same) : tensor_sum_dim(me, gates, 0, false);
}

/* Rows `first` to `first + count` of both, in one product, added to `sum` if there is one. */
struct rows_at { int64_t left, right, count; };

static struct tensor *
product_of_rows(struct task *me, struct tensor *left, struct tensor *right, struct rows_at at, struct tensor *sum)
{
    struct tensor *a = tensor_t(me, tensor_narrow(me, left, 0, at.left, at.count));
    struct tensor *b = tensor_narrow(me, right, 0, at.right, at.count);
    if (sum == NULL)
        return tensor_mm(me, a, b);
    return op_call_checked(me, OP_addmm, &(struct op_args){ .in = { sum, a, b }, .alpha = 1, .beta = 1 });
}

/* To the state's weight: each step's gates met the state before it, the first one's that which was given. */
static struct tensor *
lstm_to_hh(struct task *me, const struct lstm *lstm, struct tensor *gates, struct tensor *out)
{
    int64_t        rows = lstm->rows, later = (lstm->steps - 1) * rows;
    struct rows_at first = { lstm->turned ? later : 0, 0, rows };
    struct tensor *sum = product_of_rows(me, gates, lstm->in[LSTM_H], first, NULL);
    struct rows_at others = { lstm->turned ? 0 : rows, lstm->turned ? rows : 0, later };
    struct tensor *states = tensor_reshape(me, out, 2, (const int64_t[]){ lstm->steps * rows, lstm->wide });
    return later == 0 || sum == NULL ? sum : product_of_rows(me, gates, states, others, sum);
}

static bool
lstm_plain(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct lstm    lstm;
    struct tensor *out = node_saved(me, node, LSTM_OUT), *more[OP_MORE] = { NULL };
    struct tensor *cells = node_saved(me, node, LSTM_SAVED_CELLS), *gates = node_saved(me, node, LSTM_SAVED_GATES);
    if (!lstm_of(me, node, &lstm))
        return false;
    struct tensor *list[LSTM_BACK_INPUTS] = { grad_out[0], grad_out[1], grad_out[2], lstm.in[LSTM_HH], cells, gates };
    struct op_args args = { .list = list, .list_count = LSTM_BACK_INPUTS, .start = lstm.turned, .more = more };
    args.flag = node_wants(node, LSTM_H) || node_wants(node, LSTM_C);
    struct tensor *all = op_call(me, OP_lstm_layer_backward, &args);
    all = tensor_reshape(me, all, 2, (const int64_t[]){ lstm.steps * lstm.rows, 4 * lstm.wide });
    lstm_to_shared(me, node, &lstm, all, grad_in);
    if (node_wants(node, LSTM_HH))
        grad_in[LSTM_HH] = lstm_to_hh(me, &lstm, all, out);
    if (node_wants(node, LSTM_H))
        grad_in[LSTM_H] = tensor_select(me, more[0], 0, 0);
    if (node_wants(node, LSTM_C))
        grad_in[LSTM_C] = tensor_select(me, more[0], 0, 1);
    return !task_failed(me);
}

/* What a walk in plain ops keeps of each step of time. */
struct kept_step { struct tensor *gates, *h, *c; };

static bool
walk_recorded(struct task *me, const struct lstm *lstm, struct kept_step *kept)
{
    struct tensor *const *in = lstm->in;
    struct tensor *all = tensor_mm(me, lstm->flat, tensor_t(me, in[LSTM_IH])), *turned = tensor_t(me, in[LSTM_HH]);
    struct tensor *h = in[LSTM_H], *c = in[LSTM_C];
    for (int i = LSTM_IH_BIAS; i <= LSTM_HH_BIAS; i++)
        all = in[i] != NULL ? tensor_add(me, all, in[i]) : all;
    for (int64_t at = 0; at < lstm->steps && !task_failed(me); at++) {
        int64_t t = lstm->turned ? lstm->steps - 1 - at : at;
        struct tensor *input = tensor_narrow(me, all, 0, t * lstm->rows, lstm->rows);
        struct tensor *gates = tensor_add(me, input, tensor_mm(me, h, turned));
        struct tensor *both = op_on(me, OP_lstm_cell, gates, c, 0);
        kept[t] = (struct kept_step){ gates, h, c };
        h = tensor_select(me, both, 0, 0);
        c = tensor_select(me, both, 0, 1);
    }
    return !task_failed(me);
}

static struct tensor *
added(struct task *me, struct tensor *sum, struct tensor *more)
{
    return sum == NULL ? more : more == NULL ? sum : tensor_add(me, sum, more);
}

/* Under create_graph: forwards once more and back, in plain ops. */
static bool
lstm_recorded(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct lstm lstm;
    if (!lstm_of(me, node, &lstm))
        return false;
    struct kept_step *kept = scratch_new(me, (size_t)lstm.steps, sizeof *kept);
    struct tensor   **gates = scratch_new(me, (size_t)lstm.steps, sizeof *gates);
    struct tensor   **states = scratch_new(me, (size_t)lstm.steps, sizeof *states);
    if (kept == NULL || gates == NULL || states == NULL || !walk_recorded(me, &lstm, kept))
        return false;
    struct tensor *zeros = zeros_of(me, lstm.in[LSTM_C], 2, (const int64_t[]){ lstm.rows, lstm.wide });
    struct tensor *grad_h = grad_out[1], *grad_c = grad_out[2] != NULL ? grad_out[2] : zeros;
    for (int64_t at = lstm.steps; at-- > 0 && !task_failed(me);) {
        int64_t     t = lstm.turned ? lstm.steps - 1 - at : at;
        struct step step = { kept[t].gates, kept[t].c, NULL, grad_c };
        step.grad_h = added(me, grad_h, grad_out[0] != NULL ? tensor_select(me, grad_out[0], 0, t) : NULL);
        if (step.grad_h == NULL)
            step.grad_h = zeros;
        gates[t]  = step_recorded(me, &step, &grad_c);
        states[t] = kept[t].h;
        grad_h    = tensor_mm(me, gates[t], lstm.in[LSTM_HH]);
    }
    struct tensor *all = task_failed(me) ? NULL : tensor_cat(me, gates, (int)lstm.steps, 0);
    lstm_to_shared(me, node, &lstm, all, grad_in);
    if (node_wants(node, LSTM_HH)) {
        struct tensor *turned = tensor_t(me, all);
        grad_in[LSTM_HH] = tensor_mm(me, turned, task_failed(me) ? NULL : tensor_cat(me, states, (int)lstm.steps, 0));
    }
    grad_in[LSTM_H] = node_wants(node, LSTM_H) ? grad_h : NULL;
    grad_in[LSTM_C] = node_wants(node, LSTM_C) ? grad_c : NULL;
    return !task_failed(me);
}

bool
grad_lstm_layer(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return (grad_enabled(me) ? lstm_recorded : lstm_plain)(me, node, grad_out, grad_in);
}

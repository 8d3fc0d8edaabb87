/* Steps by sparse gradients: only rows that were looked up move, and only their part of the state. Written with the
 * operations of PyTorch's own steps, in their order, so that each rounds where that one does:
 *
 *     SGD          buf = d at first, else momentum buf + (1 - dampening) d, sparse too: rows of old steps go on in it
 *     Adagrad      of each row once: sum += g g;  p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + eps)
 *     SparseAdam   of each row once: m += (1 - beta1) (g - m);  v += (1 - beta2) (g g - v)
 *                  p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps);  t counts all steps, also those
 *                  in which a row was not looked up: its m and v wait as they are
 *
 * In PyTorch: torch/optim/sgd.py, adagrad.py, _functional.py (sparse_adam). */
#include <math.h>
#include "autograd/call.h"
#include "base/math.h"
#include "optim/internal.h"
#include "sched/task.h"

static struct tensor *
direction(struct task *me, const struct optim_options *options, const struct optim_state *state)
{
    struct tensor *grad = state->param->grad;
    return options->maximize ? tensor_neg(me, grad) : grad;
}

/* alpha times these rows on those of `table` that `like` names. */
static bool
add_to_rows(struct task *me, struct tensor *table, const struct tensor *like, struct tensor *values, double alpha)
{
    return tensor_add_(me, table, tensor_sparse(me, like->size[0], like->indices, values), alpha) != NULL;
}

static struct tensor *
rows_of(struct task *me, struct tensor *table, const struct tensor *like)
{
    return tensor_index_select(me, OP_index_select, table, 0, like->indices);
}

/* sqrt(squares) + eps */
static struct tensor *
root_of(struct task *me, struct tensor *squares, double eps)
{
    return tensor_add_number(me, op_on(me, OP_sqrt, squares, NULL, 0), eps);
}

bool
sparse_sgd(struct task *me, const struct optim_options *options, struct optim_state *state)
{
    struct tensor *d = direction(me, options, state), **buffer = &state->slot[0];
    if (options->weight_decay != 0)
        return failed(me, E_RUNTIME, "weight_decay option is not compatible with sparse gradients");
    if (options->momentum != 0 && *buffer == NULL) {
        tensor_keep(me, buffer, d != NULL ? tensor_copied(me, d) : NULL);
    } else if (options->momentum != 0) {
        if (tensor_mul_(me, *buffer, options->momentum) == NULL ||
            tensor_add_(me, *buffer, d, 1 - options->dampening) == NULL)
            return false;
    }
    if (options->momentum != 0)
        d = options->nesterov && *buffer != NULL ? tensor_add_scaled(me, d, *buffer, options->momentum) : *buffer;
    return tensor_add_(me, state->param, d, -options->lr) != NULL;
}

double
adagrad_rate(const struct optim_options *options, const struct optim_state *state)
{
    return options->lr / (1 + (double)state->steps * options->lr_decay);
}

bool
sparse_adagrad(struct task *me, const struct optim_options *options, struct optim_state *state)
{
    struct tensor *sum = state->slot[0];
    if (options->weight_decay != 0)
        return failed(me, E_RUNTIME, "weight_decay option is not compatible with sparse gradients");
    struct tensor *grad = sparse_coalesced(me, direction(me, options, state));
    if (grad == NULL || !add_to_rows(me, sum, grad, op_on(me, OP_square, grad->values, NULL, 1), 1))
        return false;
    struct tensor *size = root_of(me, rows_of(me, sum, grad), options->eps);
    return add_to_rows(me, state->param, grad, tensor_div(me, grad->values, size), -adagrad_rate(options, state));
}

/* One running mean goes a share of the way towards `target`. Answers its rows as they are then. */
static struct tensor *
moved_mean(struct task *me, struct tensor *mean, const struct tensor *grad, struct tensor *target, double share)
{
    struct tensor *old = rows_of(me, mean, grad);
    struct tensor *step = tensor_mul_number(me, tensor_sub(me, target, old), share);
    return step != NULL && add_to_rows(me, mean, grad, step, 1) ? tensor_add(me, step, old) : NULL;
}

bool
sparse_adam(struct task *me, const struct optim_options *options, struct optim_state *state)
{
    struct tensor *grad = sparse_coalesced(me, direction(me, options, state));
    if (grad == NULL)
        return false;
    if (tensor_count(grad->values) == 0)
        return true;
    struct tensor *g = grad->values, *square = op_on(me, OP_square, g, NULL, 1);
    struct tensor *mean = moved_mean(me, state->slot[0], grad, g, 1 - options->beta1);
    struct tensor *size = root_of(me, moved_mean(me, state->slot[1], grad, square, 1 - options->beta2), options->eps);
    double         far1 = 1 - math_pow(options->beta1, (double)state->steps + 1);
    double         far2 = 1 - math_pow(options->beta2, (double)state->steps + 1);
    struct tensor *way = tensor_mul_number(me, tensor_div(me, mean, size), -(options->lr * sqrt(far2) / far1));
    return way != NULL && add_to_rows(me, state->param, grad, way, 1);
}

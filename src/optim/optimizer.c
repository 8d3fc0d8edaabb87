/* torch.optim.SGD, Adam, AdamW and Adagrad, one parameter after the other, under no_grad:
 *
 *     SGD      d = maximize ? -g : g;  d += weight_decay * p
 *              momentum: buf = d in the parameter's first step (no dampening), else
 *              momentum * buf + (1 - dampening) * d
 *                        d = nesterov ? d + momentum * buf : buf
 *              p -= lr * d
 *     Adam     g += weight_decay * p;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g g
 *              p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps);  amsgrad: v's running maximum
 *     AdamW    p *= 1 - lr * weight_decay first, and no decay in g: Adam with decoupled_weight_decay
 *     Adagrad  g += weight_decay * p;  sum += g g;  p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + eps)
 *
 * Each is one op, a single pass (tensor/update.c); SparseAdam and steps by sparse gradients are in sparse.c. A
 * parameter without a gradient is left alone: no decay, no step.
 *
 * Interface: optimizer_new, optimizer_add_group, then per iteration optimizer_zero_grad and optimizer_step;
 * optimizer_free. What is remembered goes out and in by state.c. In PyTorch: torch/optim/sgd.py, adam.py, adamw.py,
 * adagrad.py. */
#include "optim/internal.h"
#include <math.h>
#include <stdlib.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/math.h"
#include "base/vec.h"
#include "sched/stage.h"

struct optim_options
optim_defaults(enum optim_kind kind)
{
    struct optim_options options = { .lr = 1e-3 }; /* SGD, too; up to PyTorch 2.2 it had none */
    if (kind == OPTIM_ADAGRAD)
        options.lr = 1e-2;
    options.beta1        = 0.9;
    options.beta2        = 0.999;
    options.eps          = kind == OPTIM_ADAGRAD ? 1e-10 : 1e-8;
    options.weight_decay = kind == OPTIM_ADAMW ? 1e-2 : 0;
    options.decoupled_weight_decay = kind == OPTIM_ADAMW;
    return options;
}

static bool
betas_allowed(struct task *me, const struct optim_options *options)
{
    if (!(options->beta1 >= 0 && options->beta1 < 1))
        return failed(me, E_VALUE, "Invalid beta parameter at index 0: %g", options->beta1);
    if (!(options->beta2 >= 0 && options->beta2 < 1))
        return failed(me, E_VALUE, "Invalid beta parameter at index 1: %g", options->beta2);
    return true;
}

static bool
adagrad_allowed(struct task *me, const struct optim_options *options)
{
    if (!(options->lr_decay >= 0))
        return failed(me, E_VALUE, "Invalid lr_decay value: %g", options->lr_decay);
    if (!(options->weight_decay >= 0))
        return failed(me, E_VALUE, "Invalid weight_decay value: %g", options->weight_decay);
    if (!(options->initial_accumulator_value >= 0))
        return failed(me, E_VALUE, "Invalid initial_accumulator_value value: %g", options->initial_accumulator_value);
    return options->eps >= 0 || failed(me, E_VALUE, "Invalid epsilon value: %g", options->eps);
}

/* SparseAdam wants more than 0 where others do with 0. */
static bool
options_allowed(struct task *me, enum optim_kind kind, const struct optim_options *options)
{
    const bool positive = kind == OPTIM_SPARSE_ADAM;
    if (!(options->lr >= 0) || (positive && options->lr == 0))
        return failed(me, E_VALUE, "Invalid learning rate: %g", options->lr);
    if (kind == OPTIM_ADAGRAD)
        return adagrad_allowed(me, options);
    if (kind == OPTIM_SGD && !(options->momentum >= 0))
        return failed(me, E_VALUE, "Invalid momentum value: %g", options->momentum);
    if (!(options->weight_decay >= 0))
        return failed(me, E_VALUE, "Invalid weight_decay value: %g", options->weight_decay);
    if (kind == OPTIM_SGD && options->nesterov && (options->momentum <= 0 || options->dampening != 0))
        return failed(me, E_VALUE, "Nesterov momentum requires a momentum and zero dampening");
    if (kind == OPTIM_SGD)
        return true;
    if (!(options->eps >= 0) || (positive && options->eps == 0))
        return failed(me, E_VALUE, "Invalid epsilon value: %g", options->eps);
    return betas_allowed(me, options);
}

/* ---- making ---- */

struct optimizer *
optimizer_new(struct task *me, enum optim_kind kind)
{
    struct optimizer *optimizer = calloc(1, sizeof *optimizer);
    if (optimizer == NULL)
        return failed_null(me, E_MEMORY, "out of memory while making an optimizer");
    optimizer->kind = kind;
    return optimizer;
}

void
optimizer_free(struct task *me, struct optimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    for (size_t i = 0; i < optimizer->count; i++) {
        tensor_unref(me, optimizer->states[i].param);
        for (int slot = 0; slot < OPTIM_SLOTS; slot++)
            tensor_unref(me, optimizer->states[i].slot[slot]);
    }
    free(optimizer->states);
    free(optimizer->groups);
    free(optimizer);
}

static bool
has_param(const struct optimizer *optimizer, size_t count, const struct tensor *param)
{
    for (size_t i = 0; i < count; i++)
        if (optimizer->states[i].param == param)
            return true;
    return false;
}

static bool
param_allowed(struct task *me, const struct optimizer *optimizer, size_t count, const struct tensor *param)
{
    if (param == NULL)
        return failed(me, E_TYPE, "optimizer can only optimize Tensors, but one of the params is none");
    if (param->grad_fn != NULL)
        return failed(me, E_VALUE, "can't optimize a non-leaf Tensor");
    if (tensor_is_sparse(param))
        return failed(me, E_VALUE, "%s requires dense parameter tensors", optim_name(optimizer->kind));
    if (has_param(optimizer, count, param))
        return failed(me, E_VALUE, "some parameters appear in more than one parameter group");
    return true;
}

/* Elements of a new one are `value`. */
static bool
buffer_ready(struct task *me, struct optim_state *state, int slot, double value)
{
    struct tensor *param = state->param;
    if (state->slot[slot] != NULL)
        return true;
    struct tensor *fresh = tensor_empty(me, param->dtype, tensor_device(param), param->dims, param->size);
    fresh = tensor_filled(me, fresh, value);
    tensor_keep(me, &state->slot[slot], fresh);
    return fresh != NULL;
}

/* Adagrad's state is there from the beginning: of all parameters, or of none. */
static bool
sums_ready(struct task *me, struct optim_state *states, int count, double value)
{
    for (int i = 0; i < count; i++) {
        if (buffer_ready(me, &states[i], 0, value))
            continue;
        while (i-- > 0)
            tensor_drop(me, &states[i].slot[0]);
        return false;
    }
    return true;
}

bool
optimizer_add_group(struct task *me, struct optimizer *optimizer, struct tensor *const *params, int count,
                    const struct optim_options *options)
{
    if (count < 1)
        return failed(me, E_VALUE, "optimizer got an empty parameter list");
    if (!options_allowed(me, optimizer->kind, options))
        return false;
    size_t all = optimizer->count + (size_t)count;
    if (!vec_room(&optimizer->states, &optimizer->room, all, sizeof *optimizer->states) ||
        !vec_room(&optimizer->groups, &optimizer->group_room, optimizer->group_count + 1, sizeof *optimizer->groups))
        return failed(me, E_MEMORY, "out of memory while making an optimizer");
    for (size_t i = optimizer->count; i < all; i++) {
        struct tensor *param = params[i - optimizer->count];
        if (!param_allowed(me, optimizer, i, param))
            return false;
        optimizer->states[i] = (struct optim_state){ .param = param, .group = (int)optimizer->group_count };
    }
    if (optimizer->kind == OPTIM_ADAGRAD &&
        !sums_ready(me, optimizer->states + optimizer->count, count, options->initial_accumulator_value))
        return false;
    for (size_t i = optimizer->count; i < all; i++)
        tensor_ref(optimizer->states[i].param);
    optimizer->count                            = all;
    optimizer->groups[optimizer->group_count++] = *options;
    return true;
}

struct optimizer *
optim_sgd(struct task *me, struct tensor *const *params, int count, const struct sgd_options *options)
{
    struct optim_options all       = optim_defaults(OPTIM_SGD);
    struct optimizer    *optimizer = optimizer_new(me, OPTIM_SGD);
    all.lr           = options->lr;
    all.momentum     = options->momentum;
    all.dampening    = options->dampening;
    all.weight_decay = options->weight_decay;
    all.nesterov     = options->nesterov;
    all.maximize     = options->maximize;
    if (optimizer != NULL && optimizer_add_group(me, optimizer, params, count, &all))
        return optimizer;
    optimizer_free(me, optimizer);
    return NULL;
}

void
optimizer_set_options(struct optimizer *optimizer, int group, const struct optim_options *options)
{
    optimizer->groups[group] = *options;
}

static double
optimizer_lr(const struct optimizer *optimizer)
{
    return optimizer->group_count > 0 ? optimizer->groups[0].lr : 0;
}

/* ---- a step ---- */

static struct update_rule
rule_of(const struct optim_options *options)
{
    return (struct update_rule){ .lr = options->lr, .weight_decay = options->weight_decay,
                                 .momentum = options->momentum, .dampening = options->dampening,
                                 .beta1 = options->beta1, .beta2 = options->beta2, .eps = options->eps,
                                 .nesterov = options->nesterov, .maximize = options->maximize };
}

static bool
update(struct task *me, enum op op, struct optim_state *state, struct op_args *args)
{
    args->in[0] = args->out = state->param;
    args->in[1] = state->param->grad;
    if (op_call(me, op, args) == NULL)
        return false;
    for (int slot = 0; slot < OPTIM_SLOTS; slot++)
        if (state->slot[slot] != NULL)
            tensor_bump(state->slot[slot]);
    state->steps++;
    return true;
}

static bool
step_sgd(struct task *me, const struct optim_options *options, struct optim_state *state)
{
    struct update_rule rule = rule_of(options);
    struct op_args     args = { .alpha = options->lr, .update = &rule };
    if (options->momentum != 0) {
        rule.first = state->slot[0] == NULL;
        if (rule.first)
            tensor_keep(me, &state->slot[0], tensor_empty(me, state->param->dtype, tensor_device(state->param),
                                                          state->param->dims, state->param->size));
        if (state->slot[0] == NULL)
            return false;
        args.in[2] = state->slot[0];
    }
    bool ok = update(me, OP_sgd, state, &args);
    if (!ok && rule.first)
        tensor_drop(me, &state->slot[0]); /* nothing was written into it */
    return ok;
}

static bool
step_adam(struct task *me, const struct optim_options *options, struct optim_state *state)
{
    struct update_rule rule = rule_of(options);
    struct op_args     args = { .alpha = options->lr, .update = &rule };
    for (int slot = 0; slot < (options->amsgrad ? 3 : 2); slot++)
        if (!buffer_ready(me, state, slot, 0))
            return false;
    rule.decoupled  = options->decoupled_weight_decay;
    rule.step_size  = options->lr / (1 - math_pow(options->beta1, (double)state->steps + 1));
    rule.correction = sqrt(1 - math_pow(options->beta2, (double)state->steps + 1));
    args.in[2]      = state->slot[0];
    args.in[3]      = state->slot[1];
    if (options->amsgrad) {
        args.list       = &state->slot[2];
        args.list_count = 1;
    }
    return update(me, OP_adam, state, &args);
}

static bool
step_adagrad(struct task *me, const struct optim_options *options, struct optim_state *state)
{
    struct update_rule rule = rule_of(options);
    struct op_args     args = { .alpha = options->lr, .update = &rule };
    rule.lr    = adagrad_rate(options, state);
    args.in[2] = state->slot[0];
    return update(me, OP_adagrad, state, &args);
}

/* Gradients that the optimizer cannot take are told before a parameter of their group has moved: at the group's first
 * parameter. */
static bool
gradients_allowed(struct task *me, const struct optimizer *optimizer, size_t first)
{
    if (first > 0 && optimizer->states[first].group == optimizer->states[first - 1].group)
        return true;
    const bool sparse_only = optimizer->kind == OPTIM_SPARSE_ADAM;
    const bool dense_only = optimizer->kind == OPTIM_ADAM || optimizer->kind == OPTIM_ADAMW;
    for (size_t i = first; i < optimizer->count && optimizer->states[i].group == optimizer->states[first].group; i++) {
        const struct tensor *grad = optimizer->states[i].param->grad;
        if (dense_only && tensor_is_sparse(grad))
            return failed(me, E_RUNTIME, "Adam does not support sparse gradients, please consider SparseAdam instead");
        if (sparse_only && grad != NULL && !tensor_is_sparse(grad))
            return failed(me, E_RUNTIME, "SparseAdam does not support dense gradients, please consider Adam instead");
    }
    return true;
}

/* With what PyTorch's own step is made of, not in one pass. */
static bool
step_sparse(struct task *me, const struct optimizer *optimizer, struct optim_state *state)
{
    const struct optim_options *options = &optimizer->groups[state->group];
    bool done = optimizer->kind == OPTIM_SGD ? sparse_sgd(me, options, state)
              : optimizer->kind == OPTIM_ADAGRAD ? sparse_adagrad(me, options, state)
              : buffer_ready(me, state, 0, 0) && buffer_ready(me, state, 1, 0) && sparse_adam(me, options, state);
    state->steps += done;
    return done;
}

static bool
step_one(struct task *me, struct optimizer *optimizer, struct optim_state *state)
{
    const struct optim_options *options = &optimizer->groups[state->group];
    if (state->param->grad == NULL)
        return true;
    if (optimizer->kind == OPTIM_ADAGRAD && !buffer_ready(me, state, 0, options->initial_accumulator_value))
        return false;
    if (tensor_is_sparse(state->param->grad) || (optimizer->kind == OPTIM_SGD && tensor_is_sparse(state->slot[0])))
        return step_sparse(me, optimizer, state);
    if (optimizer->kind == OPTIM_SGD)
        return step_sgd(me, options, state);
    return optimizer->kind == OPTIM_ADAGRAD ? step_adagrad(me, options, state) : step_adam(me, options, state);
}

/* Each parameter that has a gradient is moved against it; one without stays where it is. */
bool
optimizer_step(struct task *me, struct optimizer *optimizer)
{
    int64_t lr = (int64_t)llround(optimizer_lr(optimizer) * 1e9);
    for (size_t i = 0; i < optimizer->count && i < 8; i++)
        tensor_announce(me, optimizer->states[i].param, "parameter");
    STAGE(me, optim_step, (int64_t)optimizer->count, lr);
    if (task_failed(me))
        return false;
    bool enabled = grad_enabled(me), ok = true;
    grad_set_enabled(me, false);
    for (size_t i = 0; ok && i < optimizer->count; i++) {
        size_t mark = scope_mark(me);
        ok = gradients_allowed(me, optimizer, i) &&
             step_one(me, optimizer, &optimizer->states[i]);
        scope_release(me, mark);
    }
    grad_set_enabled(me, enabled);
    optimizer->steps += ok;
    return ok;
}

bool
optimizer_step_param(struct task *me, struct optimizer *optimizer, struct tensor *param, struct tensor *grad,
                     const struct optim_options *options)
{
    size_t at = 0;
    while (at < optimizer->count && optimizer->states[at].param != param)
        at++;
    if (task_failed(me) || (at == optimizer->count && !optimizer_add_group(me, optimizer, &param, 1, options)))
        return false;
    struct tensor *own     = param->grad;
    bool           enabled = grad_enabled(me);
    size_t         mark    = scope_mark(me);
    grad_set_enabled(me, false);
    param->grad = grad;
    bool ok = gradients_allowed(me, optimizer, at) && step_one(me, optimizer, &optimizer->states[at]);
    param->grad = own;
    scope_release(me, mark);
    grad_set_enabled(me, enabled);
    return ok;
}

/* Gradients add up until they are cleared: dropped, or filled with zeros in place. */
bool
optimizer_zero_grad(struct task *me, struct optimizer *optimizer, bool set_to_none)
{
    for (size_t i = 0; i < optimizer->count && i < 8; i++)
        tensor_announce_named(me, optimizer->states[i].param->grad, "gradient",
                              optimizer->states[i].param->name);
    STAGE(me, optim_zero_grad, (int64_t)optimizer->count);
    bool enabled = grad_enabled(me), ok = true;
    grad_set_enabled(me, false);
    for (size_t i = 0; ok && i < optimizer->count; i++) {
        struct tensor *param = optimizer->states[i].param;
        if (set_to_none)
            tensor_drop(me, &param->grad);
        else if (param->grad != NULL)
            ok = tensor_fill_(me, param->grad, 0) != NULL;
    }
    grad_set_enabled(me, enabled);
    return ok;
}

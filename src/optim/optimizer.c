/* torch.optim.SGD, one parameter after the other, under no_grad:
 *
 *     d = maximize ? -g : g;  d += weight_decay * p
 *     momentum: buf = d in the parameter's first step (no dampening), else momentum * buf + (1 - dampening) * d
 *               d = nesterov ? d + momentum * buf : buf
 *     p -= lr * d
 *
 * Interface: optim_sgd, then per iteration optimizer_zero_grad and optimizer_step; optimizer_free. In PyTorch:
 * torch/optim/sgd.py (_single_tensor_sgd). */
#include "optim/optimizer.h"
#include <math.h>
#include <stdlib.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "sched/stage.h"

struct optimizer {
    struct sgd_options options;
    int                count;
    struct tensor    **params;   /* references */
    struct tensor    **buffers;  /* momentum; NULL before a parameter's first step */
};

static bool
options_allowed(struct task *me, const struct sgd_options *options, int count)
{
    if (count < 1)
        return failed(me, E_VALUE, "optimizer got an empty parameter list");
    if (!(options->lr >= 0))
        return failed(me, E_VALUE, "Invalid learning rate: %g", options->lr);
    if (!(options->momentum >= 0))
        return failed(me, E_VALUE, "Invalid momentum value: %g", options->momentum);
    if (!(options->weight_decay >= 0))
        return failed(me, E_VALUE, "Invalid weight_decay value: %g", options->weight_decay);
    if (options->nesterov && (options->momentum <= 0 || options->dampening != 0))
        return failed(me, E_VALUE, "Nesterov momentum requires a momentum and zero dampening");
    return true;
}

static bool
keep_params(struct task *me, struct optimizer *optimizer, struct tensor *const *params, int count)
{
    for (int i = 0; i < count; i++) {
        if (params[i] == NULL)
            return failed(me, E_TYPE, "optimizer can only optimize Tensors, but one of the params is none");
        if (params[i]->grad_fn != NULL)
            return failed(me, E_VALUE, "can't optimize a non-leaf Tensor");
        for (int j = 0; j < i; j++)
            if (params[j] == params[i])
                return failed(me, E_VALUE, "some parameters appear in more than one parameter group");
        optimizer->params[i] = tensor_ref(params[i]);
        optimizer->count     = i + 1;
    }
    return true;
}

struct optimizer *
optim_sgd(struct task *me, struct tensor *const *params, int count, const struct sgd_options *options)
{
    if (!options_allowed(me, options, count))
        return NULL;
    struct optimizer *optimizer = calloc(1, sizeof *optimizer);
    if (optimizer != NULL) {
        optimizer->params  = calloc((size_t)count, sizeof(struct tensor *));
        optimizer->buffers = calloc((size_t)count, sizeof(struct tensor *));
        optimizer->options = *options;
    }
    bool room = optimizer != NULL && optimizer->params != NULL && optimizer->buffers != NULL;
    if (!room)
        failed(me, E_MEMORY, "out of memory while making an optimizer");
    if (room && keep_params(me, optimizer, params, count))
        return optimizer;
    optimizer_free(me, optimizer);
    return NULL;
}

void
optimizer_free(struct task *me, struct optimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    for (int i = 0; i < optimizer->count; i++) {
        tensor_unref(me, optimizer->params[i]);
        tensor_unref(me, optimizer->buffers[i]);
    }
    free(optimizer->params);
    free(optimizer->buffers);
    free(optimizer);
}

double
optimizer_lr(const struct optimizer *optimizer)
{
    return optimizer->options.lr;
}

void
optimizer_set_lr(struct optimizer *optimizer, double lr)
{
    optimizer->options.lr = lr;
}

/* The first step takes d itself as it is; `d` may be the gradient, so the buffer is a copy. */
static struct tensor *
with_momentum(struct task *me, struct optimizer *optimizer, int index, struct tensor *d)
{
    const struct sgd_options *options = &optimizer->options;
    struct tensor           **buffer  = &optimizer->buffers[index];
    if (*buffer == NULL) {
        struct tensor *first = tensor_copied(me, d);
        if (first == NULL)
            return NULL;
        tensor_keep(me, buffer, first);
    } else if (tensor_mul_(me, *buffer, options->momentum) == NULL ||
               tensor_add_(me, *buffer, d, 1 - options->dampening) == NULL) {
        return NULL;
    }
    return options->nesterov ? tensor_add_scaled(me, d, *buffer, options->momentum) : *buffer;
}

static bool
update(struct task *me, struct optimizer *optimizer, int index)
{
    const struct sgd_options *options = &optimizer->options;
    struct tensor            *param   = optimizer->params[index];
    struct tensor            *d       = param->grad;
    if (d == NULL)
        return true; /* no decay either */
    if (options->maximize)
        d = tensor_neg(me, d);
    if (options->weight_decay != 0)
        d = tensor_add_scaled(me, d, param, options->weight_decay);
    if (options->momentum != 0 && d != NULL)
        d = with_momentum(me, optimizer, index, d);
    struct op_args args = { .in = { param, d }, .out = param, .alpha = options->lr };
    return d != NULL && op_call(me, OP_sgd, &args) != NULL;
}

/* Each parameter that has a gradient is moved against it; one without stays where it is. */
bool
optimizer_step(struct task *me, struct optimizer *optimizer)
{
    int64_t lr = (int64_t)llround(optimizer->options.lr * 1e9);
    STAGE(me, optim_step, optimizer->count, lr);
    if (task_failed(me))
        return false;
    bool enabled = grad_enabled(me), ok = true;
    grad_set_enabled(me, false);
    for (int i = 0; ok && i < optimizer->count; i++) {
        size_t mark = scope_mark(me);
        ok = update(me, optimizer, i);
        scope_release(me, mark);
    }
    grad_set_enabled(me, enabled);
    return ok;
}

/* Gradients add up until they are cleared: dropped, or filled with zeros in place. */
bool
optimizer_zero_grad(struct task *me, struct optimizer *optimizer, bool set_to_none)
{
    STAGE(me, optim_zero_grad, optimizer->count);
    bool enabled = grad_enabled(me), ok = true;
    grad_set_enabled(me, false);
    for (int i = 0; ok && i < optimizer->count; i++) {
        struct tensor *param = optimizer->params[i];
        if (set_to_none)
            tensor_drop(me, &param->grad);
        else if (param->grad != NULL)
            ok = tensor_fill_(me, param->grad, 0) != NULL;
    }
    grad_set_enabled(me, enabled);
    return ok;
}

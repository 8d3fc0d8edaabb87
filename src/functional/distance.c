/* torch.nn.functional: losses of each element by itself, beside those of loss.c. */
#include <math.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "sched/task.h"

/* max(x, 0), with the gradient of clamp_min: 0 at 0. */
static struct tensor *
at_least_zero(struct task *me, struct tensor *x)
{
    if (x == NULL)
        return NULL;
    struct tensor *low  = tensor_number(me, x->dtype, tensor_device(x), 0);
    struct tensor *high = tensor_number(me, x->dtype, tensor_device(x), INFINITY);
    struct op_args args = { .in = { x, low, high } };
    return low != NULL && high != NULL ? op_call(me, OP_clamp, &args) : NULL;
}

static struct tensor *
zero_where(struct task *me, struct tensor *x, enum op op, struct tensor *a, double number)
{
    struct tensor *bound = a != NULL ? tensor_number(me, a->dtype, tensor_device(a), number) : NULL;
    return op_on(me, OP_masked_fill, x, op_on(me, op, a, bound, 1), 0);
}

/* t log t, 0 at 0. */
static struct tensor *
entropy_of(struct task *me, struct tensor *t)
{
    struct tensor *zero = t != NULL ? zeros_of(me, t, 0, NULL) : NULL;
    struct tensor *inside = op_on(me, OP_masked_fill, t, op_on(me, OP_eq, t, zero, 1), 1);
    return tensor_mul(me, t, op_on(me, OP_log, inside, NULL, 1));
}

struct tensor *
kl_div(struct task *me, struct tensor *input, struct tensor *target, bool log_target)
{
    if (!loss_fits(me, "kl_div", input, target))
        return NULL;
    if (log_target) {
        struct tensor *share = op_on(me, OP_exp, target, NULL, 1);
        return tensor_mul(me, share, tensor_sub(me, target, input));
    }
    struct tensor *entropy = entropy_of(me, target);
    return tensor_sub(me, entropy, tensor_mul(me, target, input));
}

/* The input where the target is 1, what is left of the margin where it is -1. */
struct tensor *
hinge_embedding_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction,
                     double margin)
{
    if (!loss_fits(me, "hinge_embedding_loss", input, target))
        return NULL;
    struct tensor *rest = at_least_zero(me, tensor_add_number(me, tensor_neg(me, input), margin));
    rest = zero_where(me, rest, OP_eq, target, 1);
    struct tensor *kept = zero_where(me, input, OP_eq, target, -1);
    return reduced(me, tensor_add(me, rest, kept), reduction);
}

/* Stirling's formula for log t!, 0 up to 1. */
static struct tensor *
stirling(struct task *me, struct tensor *t)
{
    struct tensor *half = op_on(me, OP_log, tensor_mul_number(me, t, 2 * 3.14159265358979323846), NULL, 1);
    struct tensor *sum = tensor_sub(me, entropy_of(me, t), t);
    sum = tensor_add(me, sum, tensor_mul_number(me, half, 0.5));
    return zero_where(me, sum, OP_le, t, 1);
}

struct tensor *
poisson_nll_loss(struct task *me, struct tensor *input, struct tensor *target, const struct poisson_options *options)
{
    if (!loss_fits(me, "poisson_nll_loss", input, target))
        return NULL;
    struct tensor *rate = options->log_input ? op_on(me, OP_exp, input, NULL, 1) : input;
    struct tensor *log_rate = input;
    if (!options->log_input)
        log_rate = op_on(me, OP_log, tensor_add_number(me, input, options->eps), NULL, 1);
    struct tensor *losses = tensor_sub(me, rate, tensor_mul(me, target, log_rate));
    if (options->full)
        losses = tensor_add(me, losses, stirling(me, target));
    return reduced(me, losses, options->reduction);
}

/* "batchmean" divides the sum by the rows. */
struct tensor *
kl_reduced(struct task *me, struct tensor *losses, enum reduction reduction, bool batch_mean)
{
    int64_t rows = losses != NULL && losses->dims > 0 ? losses->size[0] : 1;
    return batch_mean ? tensor_div_number(me, tensor_sum(me, losses), (double)rows) : reduced(me, losses, reduction);
}

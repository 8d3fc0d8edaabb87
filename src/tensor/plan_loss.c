/* Plans of losses: class indices, logits, and what embedding does beside looking up. */
#include <string.h>
#include "tensor/cpu/pack.h"
#include "tensor/internal.h"

static bool
take_fractions(struct task *me, struct plan *plan, const struct tensor *tensor)
{
    plan->dtype = plan->compute = tensor->dtype;
    return dtype_is_float(tensor->dtype) ||
           failed(me, E_NOT_IMPLEMENTED, "%s: expected fractions, got a tensor of %s", op_info(plan->op)->name,
                  dtype_name(tensor->dtype));
}

/* Classes lie in dimension 1 (0 of a single sample); a target for each of the other places. */
static bool
want_targets(struct task *me, const struct plan *plan, const struct tensor *input, const struct tensor *target)
{
    struct tensor wanted = { .dims = input->dims - 1 };
    if (input->dims < 1)
        return failed(me, E_SHAPE, "%s: expected an input of 1 dimension or more, got one of 0",
                      op_info(plan->op)->name);
    for (int i = 0; i < wanted.dims; i++)
        wanted.size[i] = input->size[i == 0 ? 0 : i + 1];
    if (wanted.dims > 0 && target->dims > 0 && target->size[0] != input->size[0])
        return failed(me, E_VALUE, "Expected input batch_size (%lld) to match target batch_size (%lld).",
                      (long long)input->size[0], (long long)target->size[0]);
    if (!tensor_same_shape(target, &wanted))
        return failed(me, E_SHAPE, "Expected target size %s, got %s", shape_text(&wanted).text,
                      shape_text(target).text);
    return target->dtype == DTYPE_I64 ||
           failed(me, E_DTYPE, "expected target dtype to be Long or Byte, but got %s", dtype_title(target->dtype));
}

static bool
want_class_weights(struct task *me, struct plan *plan, const struct op_args *args, const struct tensor *input, int at)
{
    const struct tensor *weight = args->in[at];
    int64_t              classes = input->size[input->dims > 1 ? 1 : 0];
    if (args->step != 1)
        return true;
    plan->workspace += tensor_pack_bytes(weight, plan->compute);
    return (weight->dims == 1 && weight->size[0] == classes) ||
           failed(me, E_SHAPE, "weight tensor should be defined either for all %lld classes or no classes but got "
                  "weight tensor of shape: %s", (long long)classes, shape_text(weight).text);
}

bool
plan_nll(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *input = args->in[0], *target = args->in[1];
    plan->dim = args->dim;
    if (!take_fractions(me, plan, input) || !want_targets(me, plan, input, target) ||
        !want_class_weights(me, plan, args, input, 2))
        return false;
    plan->workspace += tensor_pack_bytes(input, plan->compute) + tensor_pack_bytes(target, DTYPE_I64);
    if (args->dim == LOSS_NONE) {
        plan->dims = target->dims;
        memcpy(plan->size, target->size, sizeof plan->size);
    }
    return true;
}

bool
plan_nll_backward(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *grad = args->in[0], *input = args->in[1], *target = args->in[2];
    plan->dim = args->dim;
    if (!take_fractions(me, plan, input) || !want_targets(me, plan, input, target) ||
        !want_class_weights(me, plan, args, input, 3))
        return false;
    if (args->dim == LOSS_NONE ? !tensor_same_shape(grad, target) : tensor_count(grad) != 1)
        return shape_mismatch(me, plan->op, grad, input, "one gradient for each number of the loss");
    plan->workspace += tensor_pack_bytes(grad, plan->compute) + tensor_pack_bytes(target, DTYPE_I64);
    plan->dims = input->dims;
    memcpy(plan->size, input->size, sizeof plan->size);
    return true;
}

/* The shape that all stretch to; room for all of them in it. start: bit 0: no weight of the positive, bit 1: no weight
 * (the gradient never has one). */
bool
plan_bce(struct task *me, struct plan *plan, const struct op_args *args)
{
    const bool forward = plan->op == OP_bce_with_logits;
    int        dims = 0, count = 0;
    if (!take_fractions(me, plan, args->in[0]))
        return false;
    plan->dim = args->dim;
    for (int i = 0; i < op_info(plan->op)->inputs; i++) {
        bool absent = i == (forward ? 2 : 3) ? args->start & 1 : forward && i == 3 && args->start & 2;
        count += !absent;
        if (!absent && !shape_broadcast(&dims, plan->loop, args->in[i]))
            return shape_mismatch(me, plan->op, args->in[0], args->in[i], "sizes must be equal or 1");
    }
    plan->broadcast = true;
    plan->loop_dims = dims;
    plan->dims      = forward && args->dim != LOSS_NONE ? 0 : dims;
    memcpy(plan->size, plan->loop, sizeof plan->size);
    size_t elements = 1;
    for (int d = 0; d < dims; d++)
        elements *= (size_t)plan->loop[d];
    plan->workspace = (size_t)count * pack_round(elements * dtype_size(plan->compute));
    return true;
}

/* Rows that are looked up and too long become as long as alpha. */
bool
plan_embedding_renorm(struct task *me, struct plan *plan, const struct op_args *args)
{
    const struct tensor *weight = args->in[0], *indices = args->in[1];
    if (!take_fractions(me, plan, weight))
        return false;
    if (weight->dims != 2 || indices->dtype != DTYPE_I64)
        return shape_mismatch(me, plan->op, weight, indices, "a table and its rows by number");
    plan->workspace = tensor_pack_bytes(weight, plan->compute) + tensor_pack_bytes(indices, DTYPE_I64);
    plan->dims = 2;
    memcpy(plan->size, weight->size, sizeof plan->size);
    return true;
}

/* Running an operator: its plan, the result, then the kernel (compute.c). No gradients here.
 *
 * Interface: op_run. In PyTorch: c10/core/Dispatcher.h, ATen/native/TensorIterator.cpp. */
#include "tensor/op.h"
#include <string.h>
#include "tensor/internal.h"

struct rule { op_special *special; op_plan *plan; enum kernel kernel; };

static const struct rule rules[] = {
#define RULE(name, plan, kernel) { NULL, plan, KERNEL_##kernel },
#define NO_KERNEL(name, special) { special, NULL, KERNEL_COUNT },
#include "tensor/rules.def"
#undef RULE
#undef NO_KERNEL
};

/* The two tables have the same rows. */
enum {
#define RULE(name, plan, kernel) RULE_##name,
#define NO_KERNEL(name, special) RULE_##name,
#include "tensor/rules.def"
#undef RULE
#undef NO_KERNEL
    RULE_COUNT
};
#define OP(name, inputs, node, module, gradient, help) _Static_assert((int)RULE_##name == (int)OP_##name, #name);
#include "tensor/ops.def"
#undef OP
_Static_assert((int)RULE_COUNT == (int)OP_COUNT, "a rule for each op");

bool
common_device(struct task *me, enum op op, struct tensor *const *tensors, int count, int *device)
{
    *device = DEVICE_CPU;
    bool known = false;
    for (int i = 0; i < count; i++) {
        int  at = tensor_device(tensors[i]);
        bool free = at == DEVICE_CPU && tensors[i]->dims == 0;
        if (known && !free && at != *device) {
            int a = *device < at ? *device : at, b = *device < at ? at : *device;
            if (a == DEVICE_CPU)
                return failed(me, E_DEVICE, "%s: expected all tensors on one device, found cpu and device:%d",
                              op_infos[op].name, b);
            return failed(me, E_DEVICE, "%s: expected all tensors on one device, found device:%d and device:%d",
                          op_infos[op].name, a, b);
        }
        if (!free) {
            *device = at;
            known = true;
        }
    }
    return true;
}

static bool
overlaps(const struct tensor *input, const struct tensor *out)
{
    if (input->storage != out->storage || tensor_count(out) == 0)
        return false;
    struct access a = tensor_access(input, false, NULL), b = tensor_access(out, true, NULL);
    if (a.begin >= b.end || b.begin >= a.end)
        return false;
    return (int64_t)(a.end - a.begin) == tensor_bytes(input) && (int64_t)(b.end - b.begin) == tensor_bytes(out);
}

bool
overlaps_badly(const struct tensor *input, const struct tensor *out)
{
    bool one_view = input->offset == out->offset && tensor_same_shape(input, out) &&
                    memcmp(input->stride, out->stride, (size_t)out->dims * sizeof *out->stride) == 0;
    return !one_view && overlaps(input, out);
}

/* Ops that read an operand at other indices than they write: not even the target itself will do. */
static bool
reads_elsewhere(enum op op, int operand)
{
    return operand > 0 && (op == OP_scatter || op == OP_scatter_add || op == OP_index_put || op == OP_index_add ||
                           op == OP_add_rows);
}

static bool
out_fits(struct task *me, const struct plan *plan, const struct op_args *args)
{
    struct tensor *out = args->out;
    struct tensor  wanted = { .dims = plan->dims };
    memcpy(wanted.size, plan->size, sizeof wanted.size);
    if (!tensor_same_shape(out, &wanted))
        return failed(me, E_SHAPE, "%s%s: output with shape %s doesn't match the %s shape %s", op_info(plan->op)->name,
                      out == args->in[0] ? "_" : "", shape_text(out).text, plan->broadcast ? "broadcast" : "result's",
                      shape_text(&wanted).text);
    if (!dtype_can_cast(plan->dtype, out->dtype))
        return failed(me, E_DTYPE, "%s: result type %s can't be cast to the desired output type %s",
                      op_infos[plan->op].name, dtype_title(plan->dtype), dtype_title(out->dtype));
    if (tensor_device(out) != plan->device)
        return failed(me, E_DEVICE, "%s: the operands and the tensor for the result are on different devices",
                      op_infos[plan->op].name);
    for (int i = 0; i < op_infos[plan->op].inputs; i++) {
        bool strict = reads_elsewhere(plan->op, i);
        if (strict ? overlaps(args->in[i], out) : overlaps_badly(args->in[i], out))
            return failed(me, E_RUNTIME, "%s: an operand and the tensor that is written to share some of their "
                                         "memory; clone the operand first", op_infos[plan->op].name);
    }
    return tensor_is_writable(me, out);
}

/* A kernel that is not elementwise writes a tensor of its own, which is then copied to where it was wanted. */
static struct tensor *
run_into(struct task *me, const struct plan *plan, const struct op_args *args)
{
    if (!out_fits(me, plan, args))
        return NULL;
    if (plan->onto && args->out == args->in[0] && tensor_is_contiguous(args->out))
        return op_compute(me, plan, args, args->out) ? args->out : NULL;
    if (plan->broadcast && memcmp(plan->loop, plan->size, (size_t)plan->dims * sizeof *plan->loop) == 0 &&
        plan->dims == plan->loop_dims)
        return op_compute(me, plan, args, args->out) ? args->out : NULL;
    struct tensor *made = tensor_empty(me, plan->dtype, plan->device, plan->dims, plan->size);
    if (made == NULL || !op_compute(me, plan, args, made) || !tensor_copy(me, args->out, made))
        return NULL;
    return args->out;
}

/* None is missing (false without a word) and none is sparse. */
static bool
operands_allowed(struct task *me, enum op op, const struct op_args *args)
{
    const struct tensor *sparse = tensor_is_sparse(args->out) ? args->out : NULL;
    for (int i = 0; i < op_infos[op].inputs; i++) {
        if (args->in[i] == NULL)
            return false;
        if (tensor_is_sparse(args->in[i]))
            sparse = args->in[i];
    }
    for (int i = 0; i < args->list_count; i++)
        if (tensor_is_sparse(args->list[i]))
            sparse = args->list[i];
    return sparse == NULL || sparse_refused(me, op_infos[op].name, sparse);
}

struct tensor *
op_run(struct task *me, enum op op, const struct op_args *args)
{
    if (task_failed(me) || !operands_allowed(me, op, args))
        return NULL;
    if (rules[op].special != NULL)
        return rules[op].special(me, op, args);

    struct plan plan;
    memset(&plan, 0, offsetof(struct plan, size)); /* the sizes are written with the dimensions */
    plan.op     = op;
    plan.alpha  = args->alpha;
    plan.kernel = rules[op].kernel;
    if (!common_device(me, op, args->in, op_infos[op].inputs, &plan.device) || !rules[op].plan(me, &plan, args))
        return NULL;
    if (plan.compute > DTYPE_BOOL) {
        struct op_args wide = widened(me, &plan, args);
        return narrowed(me, &plan, args->out, op_run(me, op, &wide));
    }
    if (args->out != NULL)
        return run_into(me, &plan, args);
    struct tensor *result = tensor_empty(me, plan.dtype, plan.device, plan.dims, plan.size);
    return result != NULL && op_compute(me, &plan, args, result) ? result : NULL;
}

/* Changes in place. Each asks whether PyTorch would allow it, runs, bumps the version (op_call does) and rewrites the
 * tensor's history; a view's history is that of its base (history.c). Each answers the tensor itself, NULL: failed. */
#include "autograd/internal.h"
#include "sched/task.h"

static struct tensor *
change_in_place(struct task *me, enum op op, struct tensor *a, struct tensor *b, double number)
{
    if (!inplace_allowed(me, a))
        return NULL;
    struct op_args args = { .in = { a, b }, .out = a, .alpha = number };
    return op_call(me, op, &args);
}

struct tensor *
tensor_add_(struct task *me, struct tensor *a, struct tensor *b, double alpha)
{
    return b != NULL ? change_in_place(me, OP_add, a, b, alpha) : NULL;
}

struct tensor *
tensor_mul_(struct task *me, struct tensor *a, double number)
{
    return change_in_place(me, OP_mul_scalar, a, NULL, number);
}

struct tensor *
tensor_div_(struct task *me, struct tensor *a, double number)
{
    return change_in_place(me, OP_div_scalar, a, NULL, number);
}

struct tensor *
tensor_relu_(struct task *me, struct tensor *a)
{
    return change_in_place(me, OP_relu, a, NULL, 0);
}

struct tensor *
tensor_fill_(struct task *me, struct tensor *a, double number)
{
    struct op_args args = { .out = a, .alpha = number };
    if (tensor_is_sparse(a) && number == 0) {
        struct tensor *none = sparse_empty_like(me, a, a->dtype, tensor_device(a));
        if (none != NULL)
            tensor_sparse_assign(me, a, none);
        return none != NULL ? a : NULL;
    }
    return inplace_allowed(me, a) ? op_call(me, OP_fill, &args) : NULL;
}

/* A view's history is its base's: it cannot leave that alone. */
struct tensor *
tensor_detach_(struct task *me, struct tensor *a)
{
    if (a == NULL)
        return NULL;
    if (a->base != NULL)
        return failed_null(me, E_RUNTIME, "detach_: a view cannot be detached in place, use detach(). Gradients are "
                                          "views where DistributedDataParallel has gradient_as_bucket_view");
    tensor_leave_history(me, a);
    a->output_nr     = 0;
    a->requires_grad = false;
    return a;
}

bool
tensor_stretches_to(const struct tensor *from, const struct tensor *to)
{
    int  added = to->dims - from->dims;
    bool fits = added >= 0;
    for (int d = 0; fits && d < from->dims; d++)
        fits = from->size[d] == 1 || from->size[d] == to->size[d + added];
    return fits;
}

struct tensor *
tensor_copy_(struct task *me, struct tensor *a, struct tensor *from)
{
    struct op_args args = { .in = { from }, .out = a, .flag = true };
    if (from == NULL || !inplace_allowed(me, a))
        return NULL;
    if (overlaps_badly(from, a))
        return failed_null(me, E_RUNTIME, "copy_: the tensor that is read and the one that is written to share some of "
                                          "their memory; clone the first");
    if (!tensor_same_shape(a, from) && tensor_stretches_to(from, a))
        args.in[0] = tensor_expand(me, from, a->dims, a->size);
    return args.in[0] != NULL ? op_call(me, OP_copy, &args) : NULL;
}

/* With the op's own node: the result takes the first operand's place. */
struct tensor *
tensor_in_place(struct task *me, enum op op, const struct op_args *args)
{
    struct op_args into = *args;
    for (int i = 0; i < op_info(op)->inputs; i++)
        if (args->in[i] == NULL)
            return NULL;
    into.out = args->in[0];
    return inplace_allowed(me, into.out) ? op_call(me, op, &into) : NULL;
}

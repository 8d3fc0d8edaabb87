/* int32, int8, uint8, float16 and bfloat16 in operators. Kernels calculate in float32, float64 and int64. Elementwise
 * ones and reductions load any type and round what they store; for the others (products, layers, losses) the
 * operands are made wide first and the result is rounded. (Up to 1.13 most CPU kernels refused float16.) In PyTorch:
 * ATen/Dispatch.h, ATen/OpMathType.h. */
#include "tensor/internal.h"

/* An operand that cannot be copied becomes NULL: the op says nothing more then. */
struct op_args
widened(struct task *me, const struct plan *plan, const struct op_args *args)
{
    struct op_args wide = *args;
    wide.out = NULL;
    for (int i = 0; i < op_info(plan->op)->inputs; i++) {
        struct tensor *tensor = args->in[i];
        if (tensor->dtype > DTYPE_BOOL)
            wide.in[i] = tensor_to(me, tensor, tensor_device(tensor), dtype_wide(tensor->dtype));
    }
    return wide;
}

struct tensor *
narrowed(struct task *me, const struct plan *plan, struct tensor *out, struct tensor *made)
{
    if (made == NULL)
        return NULL;
    if (out != NULL)
        return tensor_copy(me, out, made) ? out : NULL;
    return made->dtype == plan->dtype ? made : tensor_to(me, made, plan->device, plan->dtype);
}

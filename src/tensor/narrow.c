/* int32, uint8, float16 and bfloat16 in operators. Kernels calculate in float32, float64 and int64. Elementwise
 * ones and reductions load any type and round what they store; for the others (products, layers, losses) the
 * operands are made wide first and the result is rounded. What PyTorch's CPU kernels refuse is refused on the CPU;
 * devices take it.
 *
 * In PyTorch: ATen/Dispatch.h (AT_DISPATCH_..., "not implemented for"). */
#include "tensor/internal.h"

static const struct { enum op op; const char *kernel; } refused_half[] = {
    { OP_mm, "addmm_impl_cpu_" }, { OP_addmm, "addmm_impl_cpu_" }, { OP_bmm, "bmm" }, { OP_dot, "dot" },
    { OP_mv, "addmv_impl_cpu" }, { OP_relu, "clamp_min_cpu" }, { OP_log_softmax, "softmax_kernel_impl" },
    { OP_softmax, "softmax_kernel_impl" }, { OP_nll_loss, "nll_loss_out_frame" }, { OP_prod, "prod_cpu" },
    { OP_cumsum, "cumsum_out_cpu" }, { OP_cumprod, "cumprod_out_cpu" }, { OP_topk, "topk_cpu" },
    { OP_clamp, "clamp_scalar_cpu" }, { OP_atan2, "atan2_cpu" }, { OP_gelu, "GeluKernelImpl" },
    { OP_conv2d, "slow_conv2d_cpu" }, { OP_max_pool2d_indices, "max_pool2d" }, { OP_avg_pool2d, "avg_pool2d" },
    { OP_layer_norm, "LayerNormKernelImpl" }, { OP_batch_norm_stats, "batch_norm" }, { OP_batch_norm, "batch_norm" },
    { OP_bce_with_logits, "clamp_min_cpu" }, { OP_exp, "exp_vml_cpu" }, { OP_expm1, "expm1_vml_cpu" },
    { OP_log, "log_vml_cpu" }, { OP_log2, "log2_vml_cpu" }, { OP_log10, "log10_vml_cpu" },
    { OP_log1p, "log1p_vml_cpu" }, { OP_sqrt, "sqrt_vml_cpu" }, { OP_rsqrt, "rsqrt_cpu" }, { OP_sin, "sin_vml_cpu" },
    { OP_cos, "cos_vml_cpu" }, { OP_tan, "tan_vml_cpu" }, { OP_asin, "asin_vml_cpu" }, { OP_acos, "acos_vml_cpu" },
    { OP_atan, "atan_vml_cpu" }, { OP_sinh, "sinh_cpu" }, { OP_cosh, "cosh_cpu" }, { OP_tanh, "tanh_vml_cpu" },
    { OP_sigmoid, "sigmoid_cpu" }, { OP_erf, "erf_vml_cpu" }, { OP_floor, "floor_vml_cpu" },
    { OP_ceil, "ceil_vml_cpu" }, { OP_trunc, "trunc_vml_cpu" }, { OP_round, "round_vml_cpu" },
};

static const struct { enum op op; const char *kernel; } refused_bfloat[] = {
    { OP_mse_loss, "mse_cpu" }, { OP_prod, "prod_cpu" },
};

static const char *
refused_kernel(enum op op, enum dtype dtype)
{
    for (size_t i = 0; dtype == DTYPE_F16 && i < sizeof refused_half / sizeof *refused_half; i++) {
        if (refused_half[i].op == op)
            return refused_half[i].kernel;
    }
    for (size_t i = 0; dtype == DTYPE_BF16 && i < sizeof refused_bfloat / sizeof *refused_bfloat; i++) {
        if (refused_bfloat[i].op == op)
            return refused_bfloat[i].kernel;
    }
    return NULL;
}

bool
narrow_is_refused(struct task *me, const struct plan *plan)
{
    enum dtype  dtype  = plan->compute > DTYPE_BOOL ? plan->compute : plan->common;
    const char *kernel = plan->device == DEVICE_CPU ? refused_kernel(plan->op, dtype) : NULL;
    return kernel != NULL && !failed(me, E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel,
                                      dtype_title(dtype));
}

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

/* Elementwise kernels of functions.def: functions of one number, and what is other code for float, double and integers.
 * In PyTorch: ATen/native/cuda/UnaryOpsKernel.cu, UnaryGeometricKernels.cu, BinaryRemainderKernel.cu. */
#include "plugins/cuda/kernels/elementwise.h"
#include "plugins/cuda/kernels/math.h"
#include "tensor/cpu/functions_bodies.h"
#include "tensor/cpu/wrap.h"

#define FUN(name, inputs, floats, doubles, integers)                                                               \
    EACH(name##_f32, float, floats)                                                                                \
    EACH(name##_f64, double, doubles)                                                                              \
    EACH(name##_i64, int64_t, integers)
#include "tensor/cpu/functions.def"

/* Nobody is told of integers divided by 0: on devices the result means nothing. */
#define FUN(name, inputs, floats, doubles, integers)                                                               \
    KERNEL_OF(map_##name, struct cpu_call)                                                                         \
    {                                                                                                              \
        elementwise<name##_f32, name##_f64, name##_i64, inputs, false>(call);                                      \
    }
#include "tensor/cpu/functions.def"

/* As in elementwise.def, where there is no factor. */
EACH(plain_add_f32, float, x + a * y)
EACH(plain_add_f64, double, x + a * y)
EACH(plain_add_i64, int64_t, wrap(x) + wrap(a) * wrap(y))
EACH(plain_sub_f32, float, x - a * y)
EACH(plain_sub_f64, double, x - a * y)
EACH(plain_sub_i64, int64_t, wrap(x) - wrap(a) * wrap(y))

KERNEL_OF(map_add, struct cpu_call)
{
    if (call.alpha == 1 || call.compute == DTYPE_I64)
        elementwise<plain_add_f32, plain_add_f64, plain_add_i64, 2, false>(call);
    else
        elementwise_fractions<add_scaled_f32, add_scaled_f64, 2>(call);
}

KERNEL_OF(map_sub, struct cpu_call)
{
    if (call.alpha == 1 || call.compute == DTYPE_I64)
        elementwise<plain_sub_f32, plain_sub_f64, plain_sub_i64, 2, false>(call);
    else
        elementwise_fractions<sub_scaled_f32, sub_scaled_f64, 2>(call);
}

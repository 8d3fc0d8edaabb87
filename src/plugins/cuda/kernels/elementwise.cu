/* Elementwise kernels of elementwise.def, and their gradients; see elementwise.h. In PyTorch: ATen/native/cuda/
 * BinaryOpsKernel.cu, ActivationThresholdKernel.cu, CompareKernels.cu. */
#include "plugins/cuda/kernels/elementwise.h"
#include "tensor/cpu/wrap.h"

#define MAP(name, inputs, fractions, integers)                                                                     \
    EACH(name##_f32, float, fractions)                                                                             \
    EACH(name##_f64, double, fractions)                                                                            \
    EACH(name##_i64, int64_t, integers)
#define COMPARE(name, expression) MAP(name, 2, expression, expression)
#define SCALE MAP
#include "tensor/cpu/elementwise.def"
#undef MAP
#undef SCALE
#undef COMPARE

#define ELEMENTWISE(name, inputs, scales)                                                                          \
    KERNEL_OF(cpu_##name, struct cpu_call)                                                                         \
    {                                                                                                              \
        elementwise<name##_f32, name##_f64, name##_i64, inputs, scales>(call);                                     \
    }
#define MAP(name, inputs, fractions, integers) ELEMENTWISE(name, inputs, false)
#define SCALE(name, inputs, fractions, integers) ELEMENTWISE(name, inputs, true)
#define COMPARE(name, expression) ELEMENTWISE(name, 2, false)
#include "tensor/cpu/elementwise.def"
#undef MAP
#undef SCALE
#undef COMPARE

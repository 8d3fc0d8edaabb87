/* Activations and their gradients, from activation.def. In PyTorch: ATen/native/cuda/Activation*.cu. */
#include "plugins/cuda/kernels/elementwise.h"
#include "plugins/cuda/kernels/math.h"
#include "tensor/cpu/activation_bodies.h"

#define ACTIVATION(name, inputs, floats, doubles)                                                                  \
    EACH(each_##name##_f32, float, floats)                                                                         \
    EACH(each_##name##_f64, double, doubles)
#include "tensor/cpu/activation.def"
#undef ACTIVATION

#define ACTIVATION(name, inputs, floats, doubles)                                                                  \
    KERNEL_OF(activate_##name, struct cpu_call)                                                                    \
    {                                                                                                              \
        elementwise_fractions<each_##name##_f32, each_##name##_f64, inputs>(call);                                 \
    }
#include "tensor/cpu/activation.def"
#undef ACTIVATION

/* start: 1 by tanh. */
KERNEL_OF(cpu_gelu, struct cpu_call)
{
    if (call.start == 1)
        elementwise_fractions<each_gelu_tanh_f32, each_gelu_tanh_f64, 1>(call);
    else
        elementwise_fractions<each_gelu_erf_f32, each_gelu_erf_f64, 1>(call);
}

/* in: gradient, input. */
KERNEL_OF(cpu_gelu_backward, struct cpu_call)
{
    if (call.start == 1)
        elementwise_fractions<each_gelu_tanh_backward_f32, each_gelu_tanh_backward_f64, 2>(call);
    else
        elementwise_fractions<each_gelu_erf_backward_f32, each_gelu_erf_backward_f64, 2>(call);
}

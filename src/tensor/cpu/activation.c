/* Activations that are one node each, with their gradients, from activation.def; a block is worked out aside, as in
 * elementwise.c. In PyTorch: ATen/native/cpu/Activation.cpp. */
#include <math.h>
#include "base/dtype.h"
#include "base/math.h"
#include "tensor/cpu/blocks.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/activation_bodies.h"

#define ACTIVATION(name, inputs, floats, doubles)                                                                  \
    BLOCKED_RUN(run_##name##_f32, float, floats)                                                                   \
    BLOCKED_RUN(run_##name##_f64, double, doubles)
#include "tensor/cpu/activation.def"
#undef ACTIVATION

#define ACTIVATION(name, inputs, floats, doubles)                                                                  \
    void activate_##name(const struct cpu_call *call)                                                              \
    {                                                                                                              \
        elementwise(call, inputs, &(const struct runs){ run_##name##_f32, run_##name##_f64, NULL, false });        \
    }
#include "tensor/cpu/activation.def"
#undef ACTIVATION

/* start: 1 by tanh. */
void
cpu_gelu(const struct cpu_call *call)
{
    (call->start == 1 ? activate_gelu_tanh : activate_gelu_erf)(call);
}

/* in: gradient, input. */
void
cpu_gelu_backward(const struct cpu_call *call)
{
    (call->start == 1 ? activate_gelu_tanh_backward : activate_gelu_erf_backward)(call);
}

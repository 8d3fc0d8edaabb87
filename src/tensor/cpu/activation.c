/* Activations that are one node each, with their gradients, from activation.def; a block is worked out aside, as in
 * elementwise.c. In PyTorch: ATen/native/cpu/Activation.cpp. */
#include <math.h>
#include "base/dtype.h"
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/blocks.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/math.h"

static const double half_root = 0.70710678118654752440, root_2_pi = 0.79788456080286535588, cube = 0.044715,
                    density = 0.39894228040143267794;

static inline float
gelu_f32(float x)
{
    float z = x * (float)half_root;
    return x * 0.5f * (1.0f + near_erf(z, near_exp(-z * z)));
}

static inline double
gelu_f64(double x)
{
    return x * 0.5 * (1 + cpu_erf(x * half_root));
}

static inline float
gelu_slope_f32(float x)
{
    float z = x * (float)half_root, decay = near_exp(-z * z);
    return 0.5f * (1.0f + near_erf(z, decay)) + x * decay * (float)density;
}

static inline double
gelu_slope_f64(double x)
{
    return 0.5 * (1 + cpu_erf(x * half_root)) + x * cpu_exp(-0.5 * x * x) * density;
}

static inline float
gelu_tanh_f32(float x)
{
    return 0.5f * x * (1.0f + near_tanh((float)root_2_pi * (x + (float)cube * x * x * x)));
}

static inline double
gelu_tanh_f64(double x)
{
    return 0.5 * x * (1 + cpu_tanh(root_2_pi * (x + cube * x * x * x)));
}

static inline float
gelu_tanh_slope_f32(float x)
{
    float t = near_tanh((float)root_2_pi * (x + (float)cube * x * x * x));
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * (float)root_2_pi * (1.0f + 3.0f * (float)cube * x * x);
}

static inline double
gelu_tanh_slope_f64(double x)
{
    double t = cpu_tanh(root_2_pi * (x + cube * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_2_pi * (1 + 3 * cube * x * x);
}

static inline float
silu_slope_f32(float x)
{
    float share = near_sigmoid(x);
    return share * (1.0f + x * (1.0f - share));
}

static inline double
silu_slope_f64(double x)
{
    double share = 1 / (1 + cpu_exp(-x));
    return share * (1 + x * (1 - share));
}

/* tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2), which from 20 on is 1. */
static inline float
mish_share_f32(float x)
{
    float power = near_exp(x < 20.0f ? x : 20.0f), n = power * (power + 2.0f);
    return x != x ? x : n / (n + 2.0f);
}

static inline double
mish_share_f64(double x)
{
    double power = cpu_exp(x < 20 ? x : 20), n = power * (power + 2);
    return x != x ? x : n / (n + 2);
}

static inline float
mish_slope_f32(float x)
{
    float share = mish_share_f32(x);
    return share + x * near_sigmoid(x) * (1.0f - share * share);
}

static inline double
mish_slope_f64(double x)
{
    double share = mish_share_f64(x);
    return share + x / (1 + cpu_exp(-x)) * (1 - share * share);
}

static inline float
near_expm1(float x)
{
    return (float)cpu_expm1((double)x);
}

static inline float
near_log1p_exp(float x)
{
    return (float)cpu_log1p(cpu_exp((double)x));
}

static inline float
six_within(float x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

static inline double
six_within_f64(double x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

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

/* What rows of activation.def say beside the functions of base/math.h: for the kernels of the CPU and of GPUs. Who includes
 * this has the functions of base/math.h. */
#ifndef TENSOR_CPU_ACTIVATION_BODIES_H
#define TENSOR_CPU_ACTIVATION_BODIES_H
#include <math.h>
#include "base/both.h"
#include "tensor/cpu/approximate.h"

static const double half_root = 0.70710678118654752440, root_2_pi = 0.79788456080286535588, cube = 0.044715,
                    density = 0.39894228040143267794;

BOTH float
gelu_f32(float x)
{
    float z = x * (float)half_root;
    return x * 0.5f * (1.0f + near_erf(z, near_exp(-z * z)));
}

BOTH double
gelu_f64(double x)
{
    return x * 0.5 * (1 + math_erf(x * half_root));
}

BOTH float
gelu_slope_f32(float x)
{
    float z = x * (float)half_root, decay = near_exp(-z * z);
    return 0.5f * (1.0f + near_erf(z, decay)) + x * decay * (float)density;
}

BOTH double
gelu_slope_f64(double x)
{
    return 0.5 * (1 + math_erf(x * half_root)) + x * math_exp(-0.5 * x * x) * density;
}

BOTH float
gelu_tanh_f32(float x)
{
    return 0.5f * x * (1.0f + near_tanh((float)root_2_pi * (x + (float)cube * x * x * x)));
}

BOTH double
gelu_tanh_f64(double x)
{
    return 0.5 * x * (1 + math_tanh(root_2_pi * (x + cube * x * x * x)));
}

BOTH float
gelu_tanh_slope_f32(float x)
{
    float t = near_tanh((float)root_2_pi * (x + (float)cube * x * x * x));
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * (float)root_2_pi * (1.0f + 3.0f * (float)cube * x * x);
}

BOTH double
gelu_tanh_slope_f64(double x)
{
    double t = math_tanh(root_2_pi * (x + cube * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_2_pi * (1 + 3 * cube * x * x);
}

BOTH float
silu_slope_f32(float x)
{
    float share = near_sigmoid(x);
    return share * (1.0f + x * (1.0f - share));
}

BOTH double
silu_slope_f64(double x)
{
    double share = 1 / (1 + math_exp(-x));
    return share * (1 + x * (1 - share));
}

/* tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2), which from 20 on is 1. */
BOTH float
mish_share_f32(float x)
{
    float power = near_exp(x < 20.0f ? x : 20.0f), n = power * (power + 2.0f);
    return x != x ? x : n / (n + 2.0f);
}

BOTH double
mish_share_f64(double x)
{
    double power = math_exp(x < 20 ? x : 20), n = power * (power + 2);
    return x != x ? x : n / (n + 2);
}

BOTH float
mish_slope_f32(float x)
{
    float share = mish_share_f32(x);
    return share + x * near_sigmoid(x) * (1.0f - share * share);
}

BOTH double
mish_slope_f64(double x)
{
    double share = mish_share_f64(x);
    return share + x / (1 + math_exp(-x)) * (1 - share * share);
}

BOTH float
near_expm1(float x)
{
    return (float)math_expm1((double)x);
}

BOTH float
near_log1p_exp(float x)
{
    return (float)math_log1p(math_exp((double)x));
}

BOTH float
six_within(float x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

BOTH double
six_within_f64(double x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}
#endif

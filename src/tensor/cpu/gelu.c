/* gelu, exact (erf) and by tanh (start 1), and its gradient. In PyTorch: ATen/native/cpu/Activation.cpp. */
#include <math.h>
#include "base/dtype.h"
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/math.h"
#include "tensor/cpu/wide.h"

/* x, px: the input; y, py: unused or the gradient's input. A block is worked out aside, as in elementwise.c. */
#define GELU(name, type, expression)                                                                               \
    WIDE static void name(void *result, const void *const *in, int64_t count, type a)                              \
    {                                                                                                              \
        const type *px = in[0], *py = in[1];                                                                       \
        type       *out = result;                                                                                  \
        int64_t     i = 0;                                                                                         \
        (void)a;                                                                                                   \
        for (; i + BLOCK <= count; i += BLOCK) {                                                                   \
            type block[BLOCK];                                                                                     \
            for (int j = 0; j < BLOCK; j++) {                                                                      \
                type x = px[i + j], y = py[i + j];                                                                 \
                (void)y;                                                                                           \
                block[j] = expression;                                                                             \
            }                                                                                                      \
            for (int j = 0; j < BLOCK; j++)                                                                        \
                out[i + j] = block[j];                                                                             \
        }                                                                                                          \
        for (; i < count; i++) {                                                                                   \
            type x = px[i], y = py[i];                                                                             \
            (void)y;                                                                                               \
            out[i] = expression;                                                                                   \
        }                                                                                                          \
    }

static const double half_root = 0.70710678118654752440, root_2_pi = 0.79788456080286535588, cube = 0.044715,
                    density = 0.39894228040143267794;

static inline float
exact_f32(float x)
{
    float z = x * (float)half_root;
    return x * 0.5f * (1.0f + near_erf(z, near_exp(-z * z)));
}

static inline double
exact_f64(double x)
{
    return x * 0.5 * (1 + cpu_erf(x * half_root));
}

static inline float
slope_f32(float x)
{
    float z = x * (float)half_root, decay = near_exp(-z * z);
    return 0.5f * (1.0f + near_erf(z, decay)) + x * decay * (float)density;
}

static inline double
slope_f64(double x)
{
    return 0.5 * (1 + cpu_erf(x * half_root)) + x * cpu_exp(-0.5 * x * x) * density;
}

static inline float
tanh_f32(float x)
{
    return 0.5f * x * (1.0f + near_tanh((float)root_2_pi * (x + (float)cube * x * x * x)));
}

static inline double
tanh_f64(double x)
{
    return 0.5 * x * (1 + cpu_tanh(root_2_pi * (x + cube * x * x * x)));
}

static inline float
tanh_slope_f32(float x)
{
    float t = near_tanh((float)root_2_pi * (x + (float)cube * x * x * x));
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * (float)root_2_pi * (1.0f + 3.0f * (float)cube * x * x);
}

static inline double
tanh_slope_f64(double x)
{
    double t = cpu_tanh(root_2_pi * (x + cube * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_2_pi * (1 + 3 * cube * x * x);
}

GELU(gelu_f32, float, exact_f32(x))
GELU(gelu_f64, double, exact_f64(x))
GELU(gelu_tanh_f32, float, tanh_f32(x))
GELU(gelu_tanh_f64, double, tanh_f64(x))
GELU(gelu_back_f32, float, x * slope_f32(y))
GELU(gelu_back_f64, double, x * slope_f64(y))
GELU(gelu_tanh_back_f32, float, x * tanh_slope_f32(y))
GELU(gelu_tanh_back_f64, double, x * tanh_slope_f64(y))

void
cpu_gelu(const struct cpu_call *call)
{
    const struct runs exact = { gelu_f32, gelu_f64, NULL }, by_tanh = { gelu_tanh_f32, gelu_tanh_f64, NULL };
    elementwise(call, 1, call->start == 1 ? &by_tanh : &exact);
}

/* in: gradient, input. */
void
cpu_gelu_backward(const struct cpu_call *call)
{
    const struct runs exact = { gelu_back_f32, gelu_back_f64, NULL };
    const struct runs by_tanh = { gelu_tanh_back_f32, gelu_tanh_back_f64, NULL };
    elementwise(call, 2, call->start == 1 ? &by_tanh : &exact);
}

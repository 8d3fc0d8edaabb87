/* What rows of loss.def say beside the functions of base/math.h: for the kernels of the CPU and of GPUs. Who includes this
 * has the functions of base/math.h. */
#ifndef TENSOR_CPU_LOSS_BODIES_H
#define TENSOR_CPU_LOSS_BODIES_H
#include <math.h>
#include "base/both.h"

/* Logarithms end at -100. */
BOTH double
probability_loss(double x, double target)
{
    double yes = math_log(x), no = math_log1p(-x);
    return -(target * (yes < -100 ? -100 : yes) + (1 - target) * (no < -100 ? -100 : no));
}

/* Of logits x for targets t; share: 1, or what the weight of the positive makes of it. The weight of each comes
 * behind. */
BOTH float
logit_loss_f32(float x, float t, float share)
{
    float tail = (float)math_log1p(math_exp(-fabs((double)x))) + (x < 0 ? -x : 0);
    return (1 - t) * x + share * tail;
}

BOTH double
logit_loss_f64(double x, double t, double share)
{
    double tail = math_log1p(math_exp(-fabs(x))) + (x < 0 ? -x : 0);
    return (1 - t) * x + share * tail;
}

/* Gradients, by e^x. */
BOTH float
logit_slope_f32(float g, float t, float share, float power)
{
    return g * (1 - t - share / (1 + power));
}

BOTH double
logit_slope_f64(double g, double t, double share, double power)
{
    return g * (1 - t - share / (1 + power));
}
#endif

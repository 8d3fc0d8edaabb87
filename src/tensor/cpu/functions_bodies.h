/* What rows of functions.def say beside the functions of math.h: for the kernels of the CPU and of GPUs. Who includes
 * this has the functions of base/math.h. */
#ifndef TENSOR_CPU_FUNCTIONS_BODIES_H
#define TENSOR_CPU_FUNCTIONS_BODIES_H
#include <math.h>
#include <stdint.h>
#include "base/both.h"
#include "tensor/cpu/rounded.h"

/* x to a number: the powers that PyTorch makes by products and roots, in the tensor's own type. */
BOTH double
power_f64(double x, double y)
{
    if (y == 2 || y == 3)
        return y == 2 ? x * x : x * x * x;
    if (y == -1 || y == -2)
        return y == -1 ? 1 / x : 1 / (x * x);
    if (y == 0.5 || y == -0.5)
        return y == 0.5 ? sqrt(x) : 1 / sqrt(x);
    return math_pow(x, y);
}

BOTH float
power_f32(float x, float y)
{
    if (y == 2 || y == 3)
        return y == 2 ? x * x : x * x * x;
    if (y == -1 || y == -2)
        return y == -1 ? 1 / x : 1 / (x * x);
    if (y == 0.5f || y == -0.5f)
        return y == 0.5f ? sqrtf(x) : 1 / sqrtf(x);
    return (float)math_pow((double)x, (double)y);
}

/* The rest takes the divisor's sign. */
BOTH double
float_rest(double rest, double y)
{
    return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}

/* x / y rounded down, by what fmod left: exact where x / y itself would round up to a whole number. */
BOTH double
float_quotient(double x, double y, double rest)
{
    if (y == 0)
        return x / y;
    double quotient = (x - rest) / y - (rest != 0 && (y < 0) != (rest < 0) ? 1 : 0);
    double whole = floor(quotient);
    if (quotient == 0)
        return copysign(0.0, x / y);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

/* ---- integers ---- */

BOTH int64_t
whole_power(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t power = 1, base = (uint64_t)x;
    for (; y > 0; y >>= 1) {
        power *= y & 1 ? base : 1;
        base *= base;
    }
    return (int64_t)power;
}

/* x / y rounded down; 0 where y is. */
BOTH int64_t
floor_quotient(int64_t x, int64_t y)
{
    if (y == 0 || y == -1)
        return y == 0 ? 0 : (int64_t)(0 - (uint64_t)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
#endif

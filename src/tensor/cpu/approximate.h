/* exp, sigmoid, tanh and erf of float32 in plain arithmetic, without calls, so that compilers make vectors of
 * loops over blocks of them, with the same bits on every CPU: for activations, softmax and recurrent layers. After
 * Cephes (expf.c, tanhf.c); erf after Abramowitz and Stegun 7.1.26. Errors: of exp 1 unit in the last place, of tanh
 * 1.3, of sigmoid 2.5; of erf 6e-7 (tests/unit/test_math.c). */
#ifndef TENSOR_CPU_APPROXIMATE_H
#define TENSOR_CPU_APPROXIMATE_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/both.h"
#include "tensor/cpu/blocks.h"

/* Below -87.3 it is 0. */
BOTH float
near_exp(float x)
{
    const float magic = 12582912.0f; /* adding it rounds to a whole number */
    float       clipped = x < 88.72f ? (x > -87.33f ? x : -87.33f) : 88.72f; /* NaN too */
    float       k = (clipped * 1.44269504088896341f + magic) - magic;
    float       r = (clipped - k * 0.693359375f) - k * -2.12194440e-4f;
    float       p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* 2^k in two steps: k may be 128 */
    int32_t half = (int32_t)k >> 1, rest = (int32_t)k - half;
    int32_t a_bits = (half + 127) * 8388608, b_bits = (rest + 127) * 8388608;
    float   a, b;
    memcpy(&a, &a_bits, sizeof a);
    memcpy(&b, &b_bits, sizeof b);
    p = p * a * b;
    p = x > 88.72f ? INFINITY : p;
    p = x < -87.33f ? 0 : p;
    return x != x ? x : p;
}

BOTH float
near_sigmoid(float x)
{
    return 1.0f / (1.0f + near_exp(-x));
}

BOTH float
near_tanh(float x)
{
    float size = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    float far = 1.0f - 2.0f / (near_exp(size + size) + 1.0f);
    far = copysignf(far, x);
    return size < 0.625f ? p : x != x ? x : far;
}

/* `decay` is exp(-x^2). */
BOTH float
near_erf(float x, float decay)
{
    float size = fabsf(x), t = 1.0f / (1.0f + 0.3275911f * size);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return copysignf(1.0f - p * t * decay, x);
}
#endif

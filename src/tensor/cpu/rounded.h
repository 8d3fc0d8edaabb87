/* exp, log, sin, cos, tanh and the like of float32, worked out in double and rounded once: nearly all are the nearest
 * float (0.5001 units in the last place; tests/unit/test_math.c goes through all floats under RINGSIDE_LONG). Plain
 * arithmetic without calls or branches, so that compilers make vectors of loops over blocks of them, with the same bits
 * on every CPU and GPU. The polynomials are minimax, by Sollya's fpminimax. Who includes this has math_sin and math_cos. */
#ifndef TENSOR_CPU_ROUNDED_H
#define TENSOR_CPU_ROUNDED_H
#include <math.h>
#include "base/number.h"

/* e^x within 2^-51, |x| at most 700. */
BOTH double
plain_exp(double x)
{
    const double magic = 0x1.8p52; /* adding it rounds to a whole number, which stands in the last digits */
    double       shifted = x * 0x1.71547652b82fep0 + magic, n = shifted - magic;
    double       r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double       p = 0x1.ade15cf3540f2p-26;
    p = p * r + 0x1.28af410c0200cp-22;
    p = p * r + 0x1.71dee621ba3bap-19;
    p = p * r + 0x1.a01997c7711a6p-16;
    p = p * r + 0x1.a01a0147625b1p-13;
    p = p * r + 0x1.6c16c1852bd39p-10;
    p = p * r + 0x1.1111111122322p-7;
    p = p * r + 0x1.55555555502ap-5;
    p = p * r + 0x1.5555555555511p-3;
    p = p * r + 0x1.000000000000bp-1;
    p = p * (r * r) + r + 1;
    return double_of_bits(bits_of_double(p) + (bits_of_double(shifted) << 52));
}

BOTH float
rounded_exp(float x)
{
    double within = x < 90 ? x > -105 ? (double)x : -105 : 90; /* NaN too */
    float  power  = (float)plain_exp(within);
    return x != x ? x : power;
}

/* x = 2^k m; log m = 2 s + s^3 p(s^2) with s = (m - 1) / (m + 1). */
BOTH float
rounded_log(float x)
{
    const uint64_t root = 0x3fe6a09e667f3bcd; /* of 1/2 */
    double   wide = x, bias = 0x1p52 + 2048;
    uint64_t beyond = bits_of_double(wide) - root + ((uint64_t)2048 << 52), twos = beyond >> 52;
    double   k = double_of_bits((uint64_t)0x433 << 52 | twos) - bias;
    double   m = double_of_bits((beyond & 0xfffffffffffff) + root);
    double   s = (m - 1) / (m + 1), z = s * s, p = 0x1.101e903bcb855p-3;
    p = p * z + 0x1.0f4a9be5a32e4p-3;
    p = p * z + 0x1.3b2153d48de73p-3;
    p = p * z + 0x1.745cdb9028219p-3;
    p = p * z + 0x1.c71c725c1a07p-3;
    p = p * z + 0x1.249249242f0a3p-2;
    p = p * z + 0x1.9999999999d58p-2;
    p = p * z + 0x1.5555555555555p-1;
    float log = (float)(k * 0x1.62e42fefa39efp-1 + (2 * s + s * z * p));
    log = x < INFINITY ? log : x;
    log = x > 0 ? log : x == 0 ? -INFINITY : NAN;
    return x != x ? x : log;
}

/* (e^2x - 1) / (e^2x + 1); near 0, where that loses digits, the beginning of its series. */
BOTH float
rounded_tanh(float x)
{
    double size = fabs((double)x), within = size < 10 ? size : 10, power = plain_exp(2 * within), z = size * size;
    double far  = (power - 1) / (power + 1);
    double near = size - size * z * (1 / 3. - z * (2 / 15. - z * (17 / 315. - z * (62 / 2835.))));
    float  share = copysignf((float)(size < 0x1p-5 ? near : far), x);
    return x != x ? x : share;
}

/* The sine of x + quadrant pi/2 for |x| up to 2^20: a float that near to a multiple of pi/2 has digits left in `turn`. */
BOTH double
plain_turned(double x, uint64_t quadrant)
{
    const double magic = 0x1.8p52;
    double       shifted = x * 0x1.45f306dc9c883p-1 + magic, n = shifted - magic;
    double       turn = (x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34, z = turn * turn;
    double       p = 0x1.5e11b11f5958cp-33, q = -0x1.9073e56374aa9p-37;
    p = p * z - 0x1.ae602161d7c7fp-26;
    p = p * z + 0x1.71de37b224f1ap-19;
    p = p * z - 0x1.a01a019ea1749p-13;
    p = p * z + 0x1.1111111110c84p-7;
    p = p * z - 0x1.5555555555555p-3;
    q = q * z + 0x1.1eeb586537317p-29;
    q = q * z - 0x1.27e4fa037cc15p-22;
    q = q * z + 0x1.a01a019f38b6dp-16;
    q = q * z - 0x1.6c16c16c168ccp-10;
    q = q * z + 0x1.5555555555555p-5;
    uint64_t turns  = bits_of_double(shifted) + quadrant, across = 0 - (turns & 1);
    uint64_t sine   = bits_of_double(turn + turn * z * p), cosine = bits_of_double(1 - 0.5 * z + z * z * q);
    return double_of_bits(((sine & ~across) | (cosine & across)) ^ (turns & 2) << 62);
}

/* Beyond this the sine of a float32 wants more digits of pi. */
static const float NEAR_TURNS = 0x1p20f;

BOTH float
near_sin(float x)
{
    float sine = (float)plain_turned((double)x, 0);
    return x != 0 ? sine : x;
}

BOTH float
near_cos(float x)
{
    return (float)plain_turned((double)x, 1);
}

BOTH float
rounded_sin(float x)
{
    return fabsf(x) < NEAR_TURNS ? near_sin(x) : (float)math_sin((double)x);
}

BOTH float
rounded_cos(float x)
{
    return fabsf(x) < NEAR_TURNS ? near_cos(x) : (float)math_cos((double)x);
}
#endif

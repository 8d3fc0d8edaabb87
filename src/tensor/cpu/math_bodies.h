/* Functions of double, the same bits on every processor and from every compiler (no fused multiply-add, nothing of the
 * C library but what IEEE 754 fixes: sqrt, floor, ldexp). After fdlibm (Sun Microsystems) where coefficients appear;
 * the errors are a few units in the last place. exp and log are in transcendental_bodies.h.
 *
 * Who includes this has cpu_exp and cpu_log, and says in MATH how its functions are linked: math.c exports them to the
 * CPU's kernels (math.h declares them), a GPU's kernels have copies of their own. */
#ifndef TENSOR_CPU_MATH_BODIES_H
#define TENSOR_CPU_MATH_BODIES_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/both.h"

/* ---- around exp and log, without losing what is near 0 (Kahan) ---- */

MATH double
cpu_expm1(double x)
{
    double u = cpu_exp(x);
    if (u == 1 || x != x)
        return x;
    if (u - 1 == -1 || u > 0x1p1000)
        return u - 1;
    return (u - 1) * x / cpu_log(u);
}

MATH double
cpu_log1p(double x)
{
    double u = 1 + x;
    if (u == 1 || x != x || u > 0x1p1000)
        return u == 1 ? x : cpu_log(u);
    return u > 0 ? cpu_log(u) * x / (u - 1) : cpu_log(u);
}

MATH double
cpu_tanh(double x)
{
    if (fabs(x) > 22 || x != x)
        return x != x ? x : x > 0 ? 1 : -1;
    double t = cpu_expm1(2 * fabs(x)), y = t / (t + 2);
    return x < 0 ? -y : y;
}

MATH double
cpu_sinh(double x)
{
    double h = x < 0 ? -0.5 : 0.5, t = cpu_expm1(fabs(x));
    if (fabs(x) > 700)
        return h * 2 * cpu_exp(fabs(x) / 2) * (cpu_exp(fabs(x) / 2) / 2);
    return h * (t + t / (t + 1));
}

MATH double
cpu_cosh(double x)
{
    double half = cpu_exp(fabs(x) / 2);
    return fabs(x) > 700 ? half * (half / 2) : (cpu_exp(fabs(x)) + cpu_exp(-fabs(x))) / 2;
}

/* Whole exponents by squaring, others through the logarithm. */
MATH double
cpu_pow(double x, double y)
{
    if (y == 0 || x == 1)
        return 1;
    if (y == 0.5 && x >= 0)
        return sqrt(x);
    bool whole = floor(y) == y;
    if (whole && fabs(y) <= 1024) {
        double power = 1, base = x;
        for (uint64_t n = (uint64_t)fabs(y); n > 0; n >>= 1) {
            power *= n & 1 ? base : 1;
            base *= n > 1 ? base : 1;
        }
        return y < 0 ? 1 / power : power;
    }
    if (x < 0 && !whole)
        return x < -0x1.fffffffffffffp1023 && y == y ? (y > 0 ? INFINITY : 0) : NAN;
    double size = cpu_exp(y * cpu_log(fabs(x)));
    return x < 0 && fabs(y) < 0x1p53 && fmod(y, 2.0) != 0 ? -size : size;
}

/* ---- circles ---- */

/* 64 digits of 2/pi from digit `at` on (the first after the point is 0). */
BOTH uint64_t
digits_at(int at)
{
    static const uint64_t two_over_pi[20] = { /* in binary, 64 digits a word */
        0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
        0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
        0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
        0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D,
    };
    int word = at < 0 ? -1 : at / 64, shift = at < 0 ? at + 64 : at % 64;
    uint64_t high = word >= 0 ? two_over_pi[word] : 0, low = two_over_pi[word + 1];
    return shift == 0 ? high : high << shift | low >> (64 - shift);
}

/* Large x: x = m 2^e with a whole m of 53 digits; of m times 2/pi only the digits around the point matter. */
BOTH int
quadrant_of_large(double x, double *rest, double *tail)
{
    int      e = 0;
    uint64_t m = (uint64_t)ldexp(frexp(x, &e), 53);
    int      first = e - 53 - 2; /* digits before this one make multiples of 4 quadrants */
    uint64_t a = digits_at(first), b = digits_at(first + 64), c = digits_at(first + 128);
    unsigned __int128 low = (unsigned __int128)m * c, middle = (unsigned __int128)m * b + (uint64_t)(low >> 64);
    uint64_t          high = m * a + (uint64_t)(middle >> 64), next = (uint64_t)middle;
    int               quadrant = (int)(high >> 62);
    uint64_t          part = high << 2 | next >> 62, small = next << 2 | (uint64_t)low >> 62;
    bool              up = part >> 63;
    if (up) {
        part  = ~part;
        small = ~small;
    }
    double fraction = ldexp((double)(part >> 11), -53);
    double more     = ldexp((double)((part & 0x7ff) << 42 | small >> 22), -106);
    double sign     = up ? -1 : 1;
    *rest = sign * (fraction * 1.57079632679489655800e+00 + more * 1.57079632679489655800e+00);
    *tail = sign * fraction * 6.12323399573676603587e-17;
    return (quadrant + up) & 3;
}

/* |x| = quadrant pi/2 + rest + tail, |rest| <= pi/4. */
BOTH int
quadrant_of(double x, double *rest, double *tail)
{
    if (x <= 0.78539816339744830962) {
        *rest = x;
        *tail = 0;
        return 0;
    }
    if (x > 0x1p19)
        return quadrant_of_large(x, rest, tail);
    double n = floor(x * 6.36619772367581382433e-01 + 0.5);
    double r = x - n * 1.57079632673412561417e+00, t = n * 6.07710050630396597660e-11;
    double s = r - t, w = n * 2.02226624879595063154e-21 - ((r - s) - t);
    *rest = s - w;
    *tail = (s - *rest) - w;
    return (int)((int64_t)n & 3);
}

BOTH double
sin_near(double x, double tail)
{
    double z = x * x, v = z * x;
    double r = 8.33333333332248946124e-03 +
               z * (-1.98412698298579493134e-04 +
                    z * (2.75573137070700676789e-06 +
                         z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
    return x - ((z * (0.5 * tail - v * r) - tail) - v * -1.66666666666666324348e-01);
}

BOTH double
cos_near(double x, double tail)
{
    double z = x * x;
    double r = z * (4.16666666666666019037e-02 +
                    z * (-1.38888888888741095749e-03 +
                         z * (2.48015872894767294178e-05 +
                              z * (-2.75573143513906633035e-07 +
                                   z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
    double half = 0.5 * z, w = 1 - half;
    return w + (((1 - w) - half) + (z * r - x * tail));
}

BOTH double
circle(double x, int turn)
{
    double rest, tail;
    if (!(fabs(x) <= 0x1.fffffffffffffp1023))
        return NAN;
    int    quadrant = (quadrant_of(fabs(x), &rest, &tail) + turn) & 3;
    double value    = quadrant & 1 ? cos_near(rest, tail) : sin_near(rest, tail);
    return quadrant & 2 ? -value : value;
}

MATH double
cpu_sin(double x)
{
    return x < 0 ? -circle(-x, 0) : x == 0 ? x : circle(x, 0);
}

MATH double
cpu_cos(double x)
{
    return circle(x, 1);
}

MATH double
cpu_tan(double x)
{
    return cpu_sin(x) / cpu_cos(x);
}

MATH double
cpu_atan(double x)
{
    static const double high[] = { 0, 4.63647609000806093515e-01, 7.85398163397448278999e-01,
                                   9.82793723247329054082e-01,
                                   1.57079632679489655800e+00 };
    static const double low[] = { 0, 2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17,
                                  6.12323399573676603587e-17 };
    static const double even[] = { 1.62858201153657823623e-02, 4.97687799461593236017e-02, 6.66107313738753120669e-02,
                                   9.09088713343650656196e-02, 1.42857142725034663711e-01, 3.33333333333329318027e-01 };
    static const double odd[] = { -3.65315727442169155270e-02, -5.83357013379057348645e-02, -7.69187620504482999495e-02,
                                  -1.11111104054623557880e-01, -1.99999999998764832476e-01 };
    double y = fabs(x), s = 0, t = 0;
    if (x != x)
        return x;
    int part = y < 0.4375 ? 0 : y < 0.6875 ? 1 : y < 1.1875 ? 2 : y < 2.4375 ? 3 : 4;
    double f = part == 0 ? y : part == 1 ? (2 * y - 1) / (2 + y) : part == 2 ? (y - 1) / (y + 1)
               : part == 3 ? (y - 1.5) / (1 + 1.5 * y) : -1 / y;
    double z = f * f, w = z * z;
    for (int i = 0; i < 6; i++)
        s = s * w + even[i];
    for (int i = 0; i < 5; i++)
        t = t * w + odd[i];
    double angle = part == 0 ? f - f * (z * s + w * t) : high[part] - ((f * (z * s + w * t) - low[part]) - f);
    return x < 0 ? -angle : angle;
}

MATH double
cpu_atan2(double y, double x)
{
    static const double pi = 3.14159265358979311600e+00, pi_low = 1.22464679914735317722e-16;
    if (x != x || y != y)
        return NAN;
    double angle;
    if (y == 0)
        angle = x < 0 || (x == 0 && signbit(x)) ? pi : 0;
    else if (isinf(x) && isinf(y))
        angle = x > 0 ? pi / 4 : 3 * pi / 4;
    else if (x == 0)
        angle = pi / 2;
    else
        angle = x > 0 ? cpu_atan(fabs(y / x)) : pi - (cpu_atan(fabs(y / x)) - pi_low);
    return signbit(y) ? -angle : angle;
}

MATH double
cpu_asin(double x)
{
    return fabs(x) <= 1 ? cpu_atan2(x, sqrt((1 - x) * (1 + x))) : NAN;
}

MATH double
cpu_acos(double x)
{
    return fabs(x) <= 1 ? cpu_atan2(sqrt((1 - x) * (1 + x)), x) : NAN;
}

/* ---- the error function: its series (all terms positive), beyond 2.5 the continued fraction of 1 - erf ---- */

MATH double
cpu_erf(double x)
{
    double y = fabs(x), sum = 0, term = 1;
    if (x != x || y > 6)
        return x != x ? x : x > 0 ? 1 : -1;
    if (y < 2.5) {
        for (int n = 0; term > 1e-18 * sum || n == 0; n++) {
            sum += term;
            term *= 2 * y * y / (2 * n + 3);
        }
        sum *= 1.12837916709551257390 * y * cpu_exp(-y * y);
    } else {
        double fraction = y;
        for (int n = 60; n > 0; n--)
            fraction = y + 0.5 * n / fraction;
        sum = 1 - cpu_exp(-y * y) / (fraction * 1.77245385090551602730);
    }
    return x < 0 ? -sum : sum;
}

/* ---- integers ---- */

MATH int64_t
cpu_whole_power(int64_t x, int64_t y)
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

/* x / y rounded down; 0 where there is none. */
MATH int64_t
cpu_floor_quotient(int64_t x, int64_t y)
{
    if (y == 0 || y == -1)
        return y == 0 ? 0 : (int64_t)(0 - (uint64_t)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
#endif

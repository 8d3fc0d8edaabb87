/* The functions of double that the C library leaves to each machine, with the same bits everywhere: fixed sequences of
 * additions, multiplications, divisions and roots, none of them fused, and tables. Numbers of twice as many digits are
 * rounded once, so most results are the nearest double; each bound was measured (tests/unit/test_math.c): 0.51 means
 * that one in a hundred may be the other neighbour. Results below the normal numbers are rounded twice: 0.76.
 *
 * Who includes this says in MATH how its functions are linked: math.c exports them, a GPU's kernels have copies of
 * their own. What is wrong, large or small answers as in C's Annex F; no exception flag or errno is kept.
 *
 * Lessons from: CORE-MATH (Sibidanov, Zimmermann, Glondu) and ARM's optimized-routines, small tables beside exact
 * products; polynomials in math_* are Taylor's, but erf's (minimax, by Sollya's fpminimax) and atan's (fdlibm's). */
#ifndef BASE_MATH_BODIES_H
#define BASE_MATH_BODIES_H
#include <math.h>
#include <stdbool.h>
#include "base/double_double.h"
#include "base/math_tables.h"
#include "base/number.h"

/* ---- powers of 2 ---- */

/* 2^k, k from -1022 to 1023. */
BOTH double
power_of_2(int k)
{
    return double_of_bits((uint64_t)(k + 1023) << 52);
}

/* x 2^k for k from -2000 to 2000; rounded once if x 2^1000 and x 2^-76 are normal. */
BOTH double
scaled(double x, int k)
{
    int first = k > 1000 ? k - 1000 : k < -1000 ? k + 1000 : 0;
    return x * power_of_2(first) * power_of_2(k - first);
}

/* ---- exp ---- */

/* e^(x + tail) / 2^k, between 1 and 2, in twice the digits (65 of them hold). |x| at most 1500. */
BOTH struct double_double
exp_parts(double x, double tail, int *k)
{
    const double magic = 0x1.8p52; /* adding it rounds to a whole number */
    double       n = (x * 0x1.71547652b82fep5 + magic) - magic;
    /* x = n ln 2 / 32 + r, |r| <= ln 2 / 64 */
    struct double_double r = dd_ordered_sum(x - n * 0x1.62e42feep-6, tail - n * 0x1.a39ef35793c76p-38);
    double               z = r.high;
    double p = z * z * (1 / 2. + z * (1 / 6. + z * (1 / 24. + z * (1 / 120. + z * (1 / 720. + z * (1 / 5040.))))));
    /* 2^(j/32) (1 + r + p) */
    const double        *row = power_row((int)n & 31);
    double               upper = upper_half(z), lower = (z - upper) + r.low;
    struct double_double sum = dd_ordered_sum(row[0], row[0] * upper);
    *k = ((int)n - ((int)n & 31)) / 32;
    return dd_ordered_sum(sum.high, sum.low + (row[0] * (lower + p) + row[1] * (1 + z + p)));
}

/* 0.51 */
MATH double
math_exp(double x)
{
    int k;
    if (!(x > -746 && x < 710))
        return x != x ? x : x > 0 ? INFINITY : 0;
    struct double_double power = exp_parts(x, 0, &k);
    return scaled(power.high + power.low, k);
}

/* e^x - 1 for x from -40 to 700, in twice the digits. */
BOTH struct double_double
expm1_parts(double x)
{
    int                  k;
    struct double_double power = exp_parts(x, 0, &k), sum;
    double               unit  = scaled(1, -k);
    sum = unit > power.high ? dd_ordered_sum(-unit, power.high) : dd_ordered_sum(power.high, -unit);
    sum = dd_ordered_sum(sum.high, sum.low + power.low);
    return dd(scaled(sum.high, k), scaled(sum.low, k));
}

/* 0.6 */
MATH double
math_expm1(double x)
{
    if (x != x || fabs(x) < 0x1p-27)
        return x != 0 ? x + 0.5 * x * x : x;
    if (fabs(x) > 40)
        return x > 0 ? math_exp(x) : -1;
    struct double_double power = expm1_parts(x);
    return power.high + power.low;
}

/* 2^x. Whole powers are exact. 0.51 */
MATH double
math_exp2(double x)
{
    int k;
    if (!(x > -1076 && x < 1024))
        return x != x ? x : x > 0 ? INFINITY : 0;
    struct double_double at = dd_times(dd(x, 0), dd(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56));
    struct double_double power = exp_parts(at.high, at.low, &k);
    return scaled(power.high + power.low, k);
}

/* ---- logarithms ---- */

/* log(x + tail), x above 0 and finite, |tail| at most half a unit of x, in twice the digits (65 of them hold). */
BOTH struct double_double
log_parts(double x, double tail)
{
    int k = x < 0x1p-1022 ? -54 : 0;
    if (k != 0)
        x *= 0x1p54;
    /* x = 2^twos m, and m c = 1 + r, |r| < 1/128; around 1, c is 1 */
    const uint64_t begin = 0x3fe6000000000000, digits = 0xfffffffffffff; /* 0.6875 */
    uint64_t       beyond = bits_of_double(x) - begin + ((uint64_t)2048 << 52);
    int            twos = (int)(beyond >> 52) - 2048;
    double         m = double_of_bits((beyond & digits) + begin);
    const double  *row = log_row((int)(beyond >> 45 & 127));
    bool           near = fabs(m - 1) < 0x1p-8;
    struct double_double product = dd_product(m, row[0]), r = near ? dd(m - 1, 0) : dd_sum(product.high - 1, product.low);
    if (tail != 0)
        r = dd_plus(r, dd((near ? 1 : row[0]) * scaled(tail, -twos), 0));
    struct double_double square = dd_product(r.high, r.high);
    double z = r.high, n = twos + k;
    double p = z * square.high *
               (1 / 3. - z * (1 / 4. - z * (1 / 5. - z * (1 / 6. - z * (1 / 7. - z * (1 / 8. - z * (1 / 9.)))))));
    /* n ln 2 - log c + r - r^2 / 2 + p; the first two have no digits beyond 2^-43, so their sum is exact. */
    struct double_double sum  = dd_sum(n * 0x1.62e42fefa38p-1 + (near ? 0 : row[1]), z);
    struct double_double less = dd_ordered_sum(sum.high, -0.5 * square.high);
    double rest = n * 0x1.ef35793c7673p-45 + (near ? 0 : row[2]) + (r.low - z * r.low - 0.5 * square.low) + p;
    return dd_ordered_sum(less.high, less.low + (sum.low + rest));
}

/* What a logarithm has no digits for. */
BOTH bool
log_is_special(double x)
{
    return !(x > 0 && x <= 0x1.fffffffffffffp1023);
}

BOTH double
special_log(double x)
{
    return x == 0 ? -INFINITY : x > 0 || x != x ? x : NAN;
}

/* 0.51 */
MATH double
math_log(double x)
{
    if (log_is_special(x))
        return special_log(x);
    struct double_double log = log_parts(x, 0);
    return log.high + log.low;
}

/* log(x) / log(base), 1 / log(base) in twice the digits: exact where the result is whole. */
BOTH double
log_by(double x, struct double_double factor)
{
    if (log_is_special(x))
        return special_log(x);
    struct double_double log = dd_times(log_parts(x, 0), factor);
    return log.high + log.low;
}

/* 0.51 */
MATH double
math_log2(double x)
{
    return log_by(x, dd(0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56));
}

/* 0.51 */
MATH double
math_log10(double x)
{
    return log_by(x, dd(0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57));
}

/* 0.51 */
MATH double
math_log1p(double x)
{
    if (fabs(x) < 0x1p-54 || !(x > -1 && x <= 0x1.fffffffffffffp1023))
        return x < -1 ? NAN : x == -1 ? -INFINITY : x;
    struct double_double sum = dd_sum(1, x), log = log_parts(sum.high, sum.low);
    return log.high + log.low;
}

/* ---- pow ---- */

BOTH bool
is_whole(double y)
{
    return fabs(y) >= 0x1p52 || (fabs(y) + 0x1p52) - 0x1p52 == fabs(y);
}

BOTH bool
is_odd(double y)
{
    return fabs(y) < 0x1p53 && is_whole(y) && ((uint64_t)fabs(y) & 1) != 0;
}

/* |x|^y where x is 0 or one of them is not finite. */
BOTH double
special_pow(double size, double y)
{
    if (size != size || y != y)
        return size + y;
    if (size == 1)
        return 1;
    return (size > 1) == (y > 0) ? INFINITY : 0;
}

/* 0.52 */
MATH double
math_pow(double x, double y)
{
    double size = fabs(x), sign = x < 0 || 1 / x < 0 ? is_odd(y) ? -1 : 1 : 1;
    int    k;
    if (y == 0 || x == 1)
        return 1;
    if (size == 0 || !(size <= 0x1.fffffffffffffp1023) || !(fabs(y) <= 0x1.fffffffffffffp1023))
        return sign * special_pow(size, y);
    if (x < 0 && !is_whole(y))
        return NAN;
    struct double_double log = log_parts(size, 0);
    double               rough = log.high * y;
    if (!(fabs(rough) < 750))
        return rough == 0 ? sign : rough > 0 ? sign * INFINITY : sign * 0.0;
    struct double_double at = dd_times(log, dd(y, 0)), power = exp_parts(at.high, at.low, &k);
    return sign * scaled(power.high + power.low, k);
}

/* ---- hyperbolic ---- */

/* 0.51 */
MATH double
math_tanh(double x)
{
    if (x != x || fabs(x) < 0x1p-28)
        return x;
    if (fabs(x) > 22)
        return x > 0 ? 1 : -1;
    struct double_double more = expm1_parts(2 * fabs(x)), share = dd_over(more, dd_plus(more, dd(2, 0)));
    return x > 0 ? share.high + share.low : -(share.high + share.low);
}

/* e^x / 2, also where e^x is too large. */
BOTH double
half_exp(double x)
{
    int                  k;
    struct double_double power = exp_parts(x < 720 ? x : 720, 0, &k);
    return x != x ? x : scaled(power.high + power.low, k - 1);
}

/* 0.51 */
MATH double
math_sinh(double x)
{
    if (x != x || fabs(x) < 0x1p-28)
        return x;
    if (fabs(x) > 40)
        return x > 0 ? half_exp(x) : -half_exp(-x);
    struct double_double more = expm1_parts(fabs(x)), sum = dd_plus(more, dd_over(more, dd_plus(more, dd(1, 0))));
    return (x > 0 ? 0.5 : -0.5) * (sum.high + sum.low);
}

/* 0.51 */
MATH double
math_cosh(double x)
{
    if (!(fabs(x) <= 40))
        return half_exp(fabs(x));
    struct double_double power = dd_plus(expm1_parts(fabs(x)), dd(1, 0)), sum = dd_plus(power, dd_over(dd(1, 0), power));
    return 0.5 * (sum.high + sum.low);
}

/* ---- circles ---- */

/* a * b, 128 digits. */
BOTH uint64_t
wide_product(uint64_t a, uint64_t b, uint64_t *low)
{
    uint64_t a_low = a & 0xffffffff, b_low = b & 0xffffffff, least = a_low * b_low;
    uint64_t first = (a >> 32) * b_low + (least >> 32), second = a_low * (b >> 32) + (first & 0xffffffff);
    *low = second << 32 | (least & 0xffffffff);
    return (a >> 32) * (b >> 32) + (first >> 32) + (second >> 32);
}

/* Large x: x = m 2^e with a whole m of 53 digits; of m times 2/pi only the digits around the point matter. */
BOTH int
quadrant_of_large(double x, struct double_double *rest)
{
    int      e = (int)(bits_of_double(x) >> 52) - 1075;
    uint64_t m = (bits_of_double(x) & 0xfffffffffffff) | (uint64_t)1 << 52;
    int      first = e - 2; /* digits before this one make multiples of 4 quadrants */
    uint64_t low, next;
    uint64_t middle = wide_product(m, digits_of_2_over_pi(first + 128), &low);
    uint64_t high   = wide_product(m, digits_of_2_over_pi(first + 64), &next);
    next += middle;
    high += (next < middle) + m * digits_of_2_over_pi(first);
    int      quadrant = (int)(high >> 62);
    uint64_t part = high << 2 | next >> 62, small = next << 2 | low >> 62;
    bool     up = part >> 63;
    if (up) {
        part  = ~part;
        small = ~small;
    }
    struct double_double fraction = dd_ordered_sum((double)(part >> 11) * 0x1p-53,
                                                   (double)((part & 0x7ff) << 42 | small >> 22) * 0x1p-106);
    fraction = dd_ordered_sum(fraction.high, fraction.low + (double)(small & 0x3fffff) * 0x1p-128);
    *rest = dd_times(fraction, dd(0x1.921fb54442d18p0, 0x1.1a62633145c07p-54));
    if (up)
        *rest = dd(-rest->high, -rest->low);
    return (quadrant + up) & 3;
}

/* x = quadrant pi/2 + rest, |rest| <= pi/4; x not below 0. The first two parts of pi/2 have 33 digits each; of all three
 * enough are left for the doubles below 2^9 that are nearest to a multiple. */
BOTH int
quadrant_of(double x, struct double_double *rest)
{
    const double magic = 0x1.8p52;
    if (x > 0x1p9)
        return quadrant_of_large(x, rest);
    double               n = (x * 0x1.45f306dc9c883p-1 + magic) - magic;
    struct double_double near = dd_sum(x - n * 0x1.921fb544p0, -n * 0x1.0b4611a6p-34);
    *rest = dd_ordered_sum(near.high, near.low - n * 0x1.3198a2e037073p-69);
    return (int)n & 3;
}

/* The sine of turn + quadrant pi/2, |turn| <= pi/4, in twice the digits (64 of them hold):
 * sin(a + d) = sin a cos d + cos a sin d, cos(a + d) = cos a cos d - sin a sin d, with a from the table. */
BOTH struct double_double
turned(struct double_double turn, int quadrant)
{
    const double  magic = 0x1.8p52;
    double        j = (fabs(turn.high) * 128 + magic) - magic, turn_low = turn.high < 0 ? -turn.low : turn.low;
    const double *row = turn_row((int)j);
    double        d = fabs(turn.high) - j / 128, upper = upper_half(d), lower = (d - upper) + turn_low, z = d * d;
    double        less = z * (1 / 2. - z * (1 / 24. - z * (1 / 720.))) + d * turn_low; /* 1 - cos d */
    double        more = d * z * (1 / 6. - z * (1 / 120. - z * (1 / 5040.)));          /* d - sin d */
    bool          across = quadrant & 1;
    double        along = row[across ? 2 : 0], along_low = row[across ? 3 : 1];
    double        other = across ? -row[0] : row[2], other_low = across ? -row[1] : row[3];
    struct double_double sum = dd_sum(along, other * upper);
    double rest = other * lower + other_low * d - ((along + along_low) * less + (other + other_low) * more);
    sum = dd_ordered_sum(sum.high, sum.low + (along_low + rest));
    bool minus = (quadrant & 2) != 0;
    if (!across && turn.high < 0)
        minus = !minus;
    return minus ? dd(-sum.high, -sum.low) : sum;
}

/* 0.51 */
MATH double
math_sin(double x)
{
    struct double_double turn, sine;
    if (!(fabs(x) <= 0x1.fffffffffffffp1023) || fabs(x) < 0x1p-27)
        return fabs(x) < 1 ? x : NAN;
    int quadrant = quadrant_of(fabs(x), &turn);
    sine = turned(turn, quadrant);
    return x < 0 ? -(sine.high + sine.low) : sine.high + sine.low;
}

/* 0.51 */
MATH double
math_cos(double x)
{
    struct double_double turn, cosine;
    if (!(fabs(x) <= 0x1.fffffffffffffp1023))
        return NAN;
    int quadrant = quadrant_of(fabs(x), &turn);
    cosine = turned(turn, quadrant + 1);
    return cosine.high + cosine.low;
}

/* 0.51 */
MATH double
math_tan(double x)
{
    struct double_double turn, sine, cosine;
    if (!(fabs(x) <= 0x1.fffffffffffffp1023) || fabs(x) < 0x1p-27)
        return fabs(x) < 1 ? x : NAN;
    int quadrant = quadrant_of(fabs(x), &turn);
    sine   = turned(turn, quadrant);
    cosine = turned(turn, quadrant + 1);
    struct double_double tangent = dd_over(sine, cosine);
    return x < 0 ? -(tangent.high + tangent.low) : tangent.high + tangent.low;
}

/* The angle of y / x, both from 0 on and not both 0, in somewhat more than its digits. The polynomial is fdlibm's. */
BOTH struct double_double
angle_of(struct double_double y, struct double_double x)
{
    static const double at[]   = { 0, 0.5, 1, 1.5 };
    static const double high[] = { 0, 4.63647609000806093515e-01, 7.85398163397448278999e-01,
                                   9.82793723247329054082e-01, 1.57079632679489655800e+00 };
    static const double low[]  = { 0, 2.26987774529616870924e-17, 3.06161699786838301793e-17,
                                   1.39033110312309984516e-17, 6.12323399573676603587e-17 };
    static const double even[] = { 1.62858201153657823623e-02, 4.97687799461593236017e-02, 6.66107313738753120669e-02,
                                   9.09088713343650656196e-02, 1.42857142725034663711e-01, 3.33333333333329318027e-01 };
    static const double odd[]  = { -3.65315727442169155270e-02, -5.83357013379057348645e-02, -7.69187620504482999495e-02,
                                   -1.11111104054623557880e-01, -1.99999999998764832476e-01 };
    double s = 0, t = 0, rough = y.high / x.high;
    int    part = rough < 0.4375 ? 0 : rough < 0.6875 ? 1 : rough < 1.1875 ? 2 : rough < 2.4375 ? 3 : 4;
    struct double_double f;
    if (part == 0)
        f = dd_over(y, x);
    else if (part == 4)
        f = dd_over(dd(-x.high, -x.low), y);
    else {
        struct double_double c = dd(at[part], 0), back = dd_times(c, x);
        f = dd_over(dd_plus(y, dd(-back.high, -back.low)), dd_plus(x, dd_times(c, y)));
    }
    double z = f.high * f.high, w = z * z;
    for (int i = 0; i < 6; i++)
        s = s * w + even[i];
    for (int i = 0; i < 5; i++)
        t = t * w + odd[i];
    struct double_double sum = dd_sum(high[part], f.high);
    return dd_ordered_sum(sum.high, sum.low + (f.low - f.high * (z * s + w * t) + low[part]));
}

/* The angle on the other side. */
BOTH struct double_double
angle_across(struct double_double angle)
{
    return dd_plus(dd(3.14159265358979311600e+00, 1.22464679914735317722e-16), dd(-angle.high, -angle.low));
}

BOTH double
with_sign(struct double_double angle, bool minus)
{
    return minus ? -(angle.high + angle.low) : angle.high + angle.low;
}

/* 0.7 */
MATH double
math_atan(double x)
{
    if (x != x || fabs(x) < 0x1p-28)
        return x;
    return with_sign(fabs(x) > 0x1p60 ? dd(1.57079632679489655800e+00, 0) : angle_of(dd(fabs(x), 0), dd(1, 0)), x < 0);
}

/* y and x are 0 or more, x above 0 or y is; sizes that products would not hold are out of the way. */
BOTH struct double_double
angle_between(double y, double x)
{
    const struct double_double right = dd(1.57079632679489655800e+00, 6.12323399573676603587e-17);
    if (y == x) /* infinite, too */
        return dd(right.high / 2, right.low / 2);
    if (y == 0 || x == 0 || y / x > 0x1p70)
        return y == 0 ? dd(0, 0) : right;
    if (y / x < 0x1p-70)
        return dd(y / x, 0);
    if (x > 0x1p900 || y > 0x1p900)
        return angle_of(dd(y * 0x1p-200, 0), dd(x * 0x1p-200, 0));
    if (x < 0x1p-900 || y < 0x1p-900)
        return angle_of(dd(y * 0x1p200, 0), dd(x * 0x1p200, 0));
    return angle_of(dd(y, 0), dd(x, 0));
}

/* 0.7 */
MATH double
math_atan2(double y, double x)
{
    if (x != x || y != y)
        return NAN;
    struct double_double angle = x == 0 && y == 0 ? dd(0, 0) : angle_between(fabs(y), fabs(x));
    if (x < 0 || (x == 0 && 1 / x < 0))
        angle = angle_across(angle);
    return with_sign(angle, y < 0 || (y == 0 && 1 / y < 0));
}

/* The root of 1 - x^2. */
BOTH struct double_double
leg_beside(double x)
{
    struct double_double square = dd_times(dd_sum(1, -x), dd_sum(1, x));
    double               root = sqrt(square.high);
    struct double_double back = dd_product(root, root);
    return root == 0 ? dd(0, 0) : dd_ordered_sum(root, (((square.high - back.high) - back.low) + square.low) / (2 * root));
}

/* 0.7 */
MATH double
math_asin(double x)
{
    if (!(fabs(x) <= 1) || fabs(x) < 0x1p-28)
        return fabs(x) <= 1 ? x : NAN;
    return with_sign(angle_of(dd(fabs(x), 0), leg_beside(x)), x < 0);
}

/* 0.7 */
MATH double
math_acos(double x)
{
    if (!(fabs(x) <= 1))
        return NAN;
    struct double_double angle = fabs(x) < 0x1p-60 ? dd(1.57079632679489655800e+00, 6.12323399573676603587e-17)
                                                   : angle_of(leg_beside(x), dd(fabs(x), 0));
    return with_sign(x < 0 ? angle_across(angle) : angle, false);
}

/* ---- the error function ---- */

/* erf(y) / y - 1 of z = y^2, y up to 1, within 2^-62. What weighs most comes in twice the digits. */
BOTH struct double_double
inner_erf(struct double_double z)
{
    static const double factors[] = {
        0x1.0608e032f82fap-34, -0x1.38a12e0ac3078p-30, 0x1.f7b62cff0ee4ap-27, -0x1.5f1ef1bec7a65p-23,
        0x1.b9df2756d7a19p-20, -0x1.f4d1e38772672p-17, 0x1.f9a321dc128d8p-14, -0x1.c02db3db00fa4p-11,
        0x1.565bcd0dbc126p-8,  -0x1.b82ce31284ea3p-6,  0x1.ce2f21a042b32p-4,
    };
    double sum = 0;
    for (int i = 0; i < 11; i++)
        sum = sum * z.high + factors[i];
    struct double_double slope = dd_plus(dd(-0x1.812746b0379e6p-2, 0x1.6c8a2199dc43p-60), dd(z.high * sum, 0));
    return dd_plus(dd(0x1.06eba8214db69p-3, -0x1.ceeec0155830dp-57), dd_times(slope, z));
}

/* (1 - erf(y)) e^(y^2) of t = (y - 3) / (y + 3), y from 1 to 6, within 2^-58 of what is left of 1. */
BOTH struct double_double
outer_erf(struct double_double t)
{
    static const double factors[] = {
        0x1.4f3e27c75b58p-36,   0x1.55f04ea8b1586p-20, 0x1.0ea0f9a44c501p-19, -0x1.0cb4a1e6ed073p-17,
        -0x1.af0e3bd0204dfp-17, 0x1.0cb25bd3633d9p-14, 0x1.7b9f1d09620e1p-15, -0x1.39085cdb86c6dp-11,
        0x1.73101f537c6d3p-11,  0x1.17c83903f953bp-8,  -0x1.8fa58eb5e815bp-6, 0x1.258b13b011941p-4,
        -0x1.336ffbef08b79p-3,  0x1.f6ff2041059adp-3,
    };
    double sum = 0;
    for (int i = 0; i < 14; i++)
        sum = sum * t.high + factors[i];
    struct double_double slope = dd_sum(-0x1.4e102b9cf8513p-2, sum * t.high);
    return dd_plus(dd(0x1.6e9827d229d2dp-3, 0), dd_times(slope, t));
}

/* 0.7 */
MATH double
math_erf(double x)
{
    double y = fabs(x);
    int    k;
    if (!(y > 0 && y <= 6))
        return y > 6 ? copysign(1.0, x) : x;
    struct double_double square = dd_product(y, y), sum;
    if (y < 1) {
        double               room = y < 0x1p-800 ? 0x1p300 : 1; /* below the product, for its digits */
        struct double_double more = dd_times(inner_erf(square), dd(x * room, 0));
        sum = dd_ordered_sum(x * room, more.high);
        return (sum.high + (sum.low + more.low)) / room;
    }
    struct double_double power = exp_parts(-square.high, -square.low, &k);
    struct double_double share = outer_erf(dd_over(dd_sum(y, -3), dd_sum(y, 3))), left = dd_times(share, power);
    sum = dd_ordered_sum(1, -scaled(left.high, k));
    y   = sum.high + (sum.low - scaled(left.low, k));
    return x > 0 ? y : -y;
}
#endif

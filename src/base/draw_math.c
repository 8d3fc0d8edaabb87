/* Interface: draw_log, draw_log1p, draw_sincos. The tables are those of base/math_tables.h.
 * In glibc: sysdeps/ieee754/dbl-64/e_log.c (ARM's optimized-routines), s_log1p.c (Sun's fdlibm), s_sin.c (IBM's). */
#include "base/draw_math.h"

#include <math.h>
#include <stdbool.h>
#include "base/math_tables.h"
#include "base/number.h"

/* ---- logarithms ---- */

/* log(1 + r) for r from -1/16 on. */
static double
log_near_1(double r)
{
    double z = r * r, y = z * r;
    double p = fma(z, 0x1.999999995dd0cp-3, fma(r, -0x1.ffffffffffdcbp-3, 0x1.5555555555577p-2));
    double q = fma(z, -0x1.fffffa4423d65p-4, fma(r, 0x1.24924a344de3p-3, -0x1.55555556745a7p-3));
    double s = fma(z, 0x1.78182f7afd085p-4, fma(r, -0x1.999eb43b068ffp-4, 0x1.c7184282ad6cap-4));
    s = fma(fma(fma(y, -0x1.5521375d145cdp-4, s), y, q), y, p);
    /* r - r^2 / 2, with the square of r's upper half by itself */
    double upper = fma(-0x1p27, r, fma(r, 0x1p27, r)), lower = r - upper, square = upper * upper;
    double high = fma(square, -0.5, r), low = fma(square, -0.5, r - high);
    return high + fma(s, y, fma(-0.5 * lower, r + upper, low));
}

double
draw_log(double x)
{
    if (x >= 1 - 0x1p-4)
        return log_near_1(x - 1);
    uint64_t      beyond = bits_of_double(x) - 0x3fe6000000000000 + ((uint64_t)2048 << 52);
    const double *row = log_row((int)(beyond >> 45 & 127));
    double        k = (double)(int)(beyond >> 52) - 2048;
    double        m = double_of_bits((beyond & 0xfffffffffffff) + 0x3fe6000000000000);
    double        r = fma(m, row[0], -1.0), z = r * r;
    double        whole = fma(k, 0x1.62e42fefa38p-1, row[1]), high = r + whole;
    double        low = fma(z, -0x1.0000000000001p-1, fma(k, 0x1.ef35793c7673p-45, (whole - high) + r));
    double        p = fma(fma(r, -0x1.55575e506c89fp-3, 0x1.999b324f10111p-3), z,
                          fma(r, -0x1.fffffffeb459p-3, 0x1.555555551305bp-2));
    return fma(r * z, p, low) + high;
}

/* log((1 + s) / (1 - s)) is 2 s + s log1p_series(s^2). */
static double
log1p_series(double z)
{
    double y    = z * z;
    double near = fma(z, 6.666666666666735130e-01, y * fma(z, 2.857142874366239149e-01, 3.999999999940941908e-01));
    double far  = fma(y * y, fma(z, 1.818357216161805012e-01, 2.222219843214978396e-01), near);
    return fma(y * y * y, fma(z, 1.479819860511658591e-01, 1.531383769920937332e-01), far);
}

double
draw_log1p(double x)
{
    const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    if (fabs(x) < 0x1p-29)
        return fabs(x) < 0x1p-54 ? x : x - x * x * 0.5;
    double f = x, k = 0, lost = 0;
    if (!(x > -0.29289 && x < 0.41422)) { /* 1 + x = 2^k (1 + f) */
        double u    = x < 0x1p53 ? 1 + x : x;
        int    twos = (int)(bits_of_double(u) >> 52) - 1023;
        lost = x < 0x1p53 ? (twos > 0 ? 1 - (u - x) : x - (u - 1)) / u : 0;
        u    = double_of_bits((bits_of_double(u) & 0xfffffffffffff) | (uint64_t)1023 << 52);
        twos += u >= 0x1.6a09ep0;
        f = (u >= 0x1.6a09ep0 ? u / 2 : u) - 1;
        k = twos;
    }
    double half = 0.5 * f * f, s = f / (2 + f), log = s * (half + log1p_series(s * s));
    if (k != 0 && f >= -0x1.8p-20 && f < 0x1p-20) {
        half *= fma(-0.66666666666666666, f, 1);
        log = 0;
    }
    return k == 0 ? f - (half - log) : k * ln2_high - ((half - (log + fma(k, ln2_low, lost))) - f);
}

/* ---- the circle ---- */

/* sin(x + tail) and cos(x + tail) from the row next to |x|, |x| up to 0.855. d: from there; s, c: sin d, 1 - cos d. */
static double
sine_of_rest(double x, double tail)
{
    double d = fabs(x), z = x * x;
    if (d < 0.126) {
        double p = fma(z, fma(z, fma(z, fma(z, -0x1.addffc2fcdf59p-26, 0x1.71de27b9a7ed9p-19), -0x1.a01a019db08b8p-13),
                              0x1.1111111110ecep-7), -0x1.5555555555555p-3);
        return x + fma(z, fma(p, x, -(tail * 0.5)), tail);
    }
    double        j = (d + 0x1.8p45) - 0x1.8p45;
    const double *row = turn_row((int)(j * 128));
    double        sine = row[0] + row[1], sine_low = (row[0] - sine) + row[1];
    double        cosine = row[2] + row[3], cosine_low = (row[2] - cosine) + row[3];
    tail = x <= 0 ? -tail : tail;
    d -= j;
    z = d * d;
    double s = d + fma(d * z, fma(z, 0x1.11110e829872fp-7, -0x1.5555555555515p-3), tail);
    double c = fma(tail, d, z * fma(z, fma(z, 0x1.6c16bedd9e239p-10, -0x1.5555555555535p-5), 0.5));
    double rest = fma(s, cosine, fma(-c, sine, fma(s, cosine_low, sine_low)));
    return copysign(sine + rest, x);
}

static double
cosine_of_rest(double x, double tail)
{
    double        size = fabs(x), j = (size + 0x1.8p45) - 0x1.8p45;
    const double *row = turn_row((int)(j * 128));
    double        sine = row[0] + row[1], sine_low = (row[0] - sine) + row[1];
    double        cosine = row[2] + row[3], cosine_low = (row[2] - cosine) + row[3];
    double        d = (size - j) + (x < 0 ? -tail : tail), z = d * d;
    double        s = fma(d * z, fma(z, 0x1.11110e829872fp-7, -0x1.5555555555515p-3), d);
    double        c = z * fma(z, fma(z, 0x1.6c16bedd9e239p-10, -0x1.5555555555535p-5), 0.5);
    return cosine + fma(-s, sine, fma(-c, cosine, fma(-s, sine_low, cosine_low)));
}

/* x = n pi/2 + rest + tail; answers n. */
static int
turns_of(double x, double *rest, double *tail)
{
    const double magic = 0x1.8p52;
    double       n = fma(x, 0x1.45f306dc9c883p-1, magic) - magic;
    double       y = fma(-n, -0x1.dde973cp-27, fma(-n, 0x1.921fb58p0, x));
    double       near = fma(-n, -0x1.cb3b398p-55, y), left = fma(-n, -0x1.cb3b398p-55, y - near);
    *rest = fma(-n, -0x1.d747f23e32ed7p-83, near);
    *tail = left + fma(-n, -0x1.d747f23e32ed7p-83, near - *rest);
    return (int)((int64_t)n & 3);
}

void
draw_sincos(double x, double *sine, double *cosine)
{
    double rest = x, tail = 0;
    if (x < 0.85546875) {
        *sine   = sine_of_rest(x, 0);
        *cosine = cosine_of_rest(x, 0);
    } else if (x < 0x1.368fdp1) { /* 2.426 */
        double y = 0x1.921fb54442d18p0 - x;
        rest    = y + 0x1.1a62633145c07p-54;
        tail    = (y - rest) + 0x1.1a62633145c07p-54;
        *sine   = cosine_of_rest(rest, tail);
        *cosine = sine_of_rest(rest, tail);
    } else {
        int  n = turns_of(x, &rest, &tail);
        bool turned_round = n == 1 || n == 2;
        double a = turned_round ? -rest : rest, b = turned_round ? -tail : tail;
        double along = sine_of_rest(a, b), across = cosine_of_rest(a, b);
        across  = n & 2 ? -across : across;
        *sine   = n & 1 ? across : along;
        *cosine = n & 1 ? along : across;
    }
}

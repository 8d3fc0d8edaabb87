/* exp and log in double, the same bits on every processor: the C library's differ between those with and without fused
 * multiply-add. After fdlibm (e_exp.c, e_log.c by Sun Microsystems): both err by less than one unit in the last place.
 *
 * Who includes this says in MATH how its functions are linked: transcendental.c exports them to the CPU's kernels
 * (math.h declares them), a GPU's kernels have copies of their own. */
#ifndef TENSOR_CPU_TRANSCENDENTAL_BODIES_H
#define TENSOR_CPU_TRANSCENDENTAL_BODIES_H
#include <math.h>

MATH double
cpu_exp(double x)
{
    const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    if (x != x || x > 709.782712893383973096)
        return x != x ? x : INFINITY;
    if (x < -745.13321910194110842)
        return 0;
    /* x = k ln 2 + r with |r| <= ln 2 / 2 */
    double k = floor(x * 1.44269504088896338700 + 0.5);
    double high = x - k * ln2_high, low = k * ln2_low, r = high - low;
    double t = r * r;
    double p = 1.66666666666666019037e-01 +
               t * (-2.77777777770155933842e-03 +
                    t * (6.61375632143793436117e-05 +
                         t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08)));
    double c = r - t * p;
    double y = 1.0 - ((low - r * c / (2.0 - c)) - high);
    return ldexp(y, (int)k);
}

MATH double
cpu_log(double x)
{
    const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    if (x != x || x < 0)
        return x != x ? x : NAN;
    if (x == 0 || x > 0x1.fffffffffffffp1023)
        return x == 0 ? -INFINITY : x;
    /* x = 2^k (1 + f) with sqrt(2)/2 < 1 + f < sqrt(2) */
    int    k = 0;
    double m = frexp(x, &k);
    if (m < 0.70710678118654752440) {
        m *= 2;
        k--;
    }
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
    double odd = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    double even = z * (6.666666666666735130e-01 +
                       w * (2.857142874366239149e-01 +
                            w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    double half = 0.5 * f * f, n = k;
    return n * ln2_high - ((half - (s * (half + odd + even) + n * ln2_low)) - f);
}
#endif

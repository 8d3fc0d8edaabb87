/* Numbers of twice as many digits: an unevaluated sum high + low of two doubles, |low| at most half a unit in the last
 * place of high. For what must be rounded once at its end. No fused multiply-add: products are taken apart (Dekker), so
 * each step has the same bits on a CPU that has one and on a CPU that has not.
 * Sizes: products of what is beyond 2^996 overflow on the way. */
#ifndef BASE_DOUBLE_DOUBLE_H
#define BASE_DOUBLE_DOUBLE_H
#include "base/number.h"

struct double_double { double high, low; };

BOTH struct double_double
dd(double high, double low)
{
    struct double_double number;
    number.high = high;
    number.low  = low;
    return number;
}

/* a + b, exactly; a is the larger one, or 0. */
BOTH struct double_double
dd_ordered_sum(double a, double b)
{
    double sum = a + b;
    return dd(sum, b - (sum - a));
}

/* a + b, exactly. */
BOTH struct double_double
dd_sum(double a, double b)
{
    double sum = a + b, of_b = sum - a;
    return dd(sum, (a - (sum - of_b)) + (b - of_b));
}

/* The upper 26 digits of x: products of two such are exact. */
BOTH double
upper_half(double x)
{
    return double_of_bits(bits_of_double(x) & ~(((uint64_t)1 << 27) - 1));
}

/* a * b, exactly. */
BOTH struct double_double
dd_product(double a, double b)
{
    double product = a * b, a_high = upper_half(a), b_high = upper_half(b), a_low = a - a_high, b_low = b - b_high;
    return dd(product, ((a_high * b_high - product) + (a_high * b_low + a_low * b_high)) + a_low * b_low);
}

BOTH struct double_double
dd_plus(struct double_double a, struct double_double b)
{
    struct double_double sum = dd_sum(a.high, b.high);
    return dd_ordered_sum(sum.high, sum.low + (a.low + b.low));
}

BOTH struct double_double
dd_times(struct double_double a, struct double_double b)
{
    struct double_double product = dd_product(a.high, b.high);
    return dd_ordered_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

BOTH struct double_double
dd_over(struct double_double a, struct double_double b)
{
    double               quotient = a.high / b.high;
    struct double_double back     = dd_product(quotient, b.high);
    double               rest     = ((a.high - back.high) - back.low) + (a.low - quotient * b.low);
    return dd_ordered_sum(quotient, rest / b.high);
}
#endif

/* What rows of functions.def say beside the functions of math.h: for the kernels of the CPU and of GPUs. Who includes
 * this has the functions of math.h. */
#ifndef TENSOR_CPU_FUNCTIONS_BODIES_H
#define TENSOR_CPU_FUNCTIONS_BODIES_H
#include <math.h>
#include "base/both.h"

static const double LN2 = 0.69314718055994530942, LN10 = 2.30258509299404568402;

/* Whole powers are exact. */
BOTH double
cpu_exp2(double x)
{
    return floor(x) == x && fabs(x) < 2000 ? ldexp(1.0, (int)x) : cpu_exp(x * LN2);
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
#endif

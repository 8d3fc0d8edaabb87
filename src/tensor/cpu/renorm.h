/* The norm of a row, element by element, for the CPU's kernel and for GPUs; who includes this has math_pow. */
#ifndef TENSOR_CPU_RENORM_H
#define TENSOR_CPU_RENORM_H
#include <math.h>
#include "base/both.h"

/* What the row has come to with one more element. */
BOTH double
norm_with(double sum, double element, double p)
{
    double x = fabs(element);
    if (p == INFINITY)
        return x > sum ? x : sum;
    return sum + (p == 2 ? x * x : p == 1 ? x : math_pow(x, p));
}

BOTH double
norm_end(double sum, double p)
{
    return p == 2 ? sqrt(sum) : p == 1 || p == INFINITY ? sum : math_pow(sum, 1 / p);
}
#endif

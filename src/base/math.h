/* Functions of double, the same bits on every machine, unlike the C library's: what any number that a trace or a tensor
 * shows is made with (tests/shape/libm.t refuses the others). Arguments and special answers are those of C's functions of
 * the same names; the bounds of their errors stand in math_bodies.h. Beside them sqrt, floor, ldexp, frexp, fmod and fma
 * may be used, which IEEE 754 or their definition fixes. */
#ifndef BASE_MATH_H
#define BASE_MATH_H

double math_exp(double x);
double math_exp2(double x);
double math_expm1(double x);
double math_log(double x);
double math_log2(double x);
double math_log10(double x);
double math_log1p(double x);
double math_pow(double x, double y);
double math_sin(double x);
double math_cos(double x);
double math_tan(double x);
double math_asin(double x);
double math_acos(double x);
double math_atan(double x);
double math_atan2(double y, double x);
double math_sinh(double x);
double math_cosh(double x);
double math_tanh(double x);
double math_erf(double x);
#endif

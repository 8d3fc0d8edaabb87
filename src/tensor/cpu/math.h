/* Functions of double, the same bits on every CPU, unlike the C library's. */
#ifndef TENSOR_CPU_MATH_H
#define TENSOR_CPU_MATH_H
#include <stdint.h>

double cpu_exp(double x);
double cpu_log(double x);
double cpu_expm1(double x);
double cpu_log1p(double x);
double cpu_pow(double x, double y);
double cpu_sin(double x);
double cpu_cos(double x);
double cpu_tan(double x);
double cpu_asin(double x);
double cpu_acos(double x);
double cpu_atan(double x);
double cpu_atan2(double y, double x);
double cpu_sinh(double x);
double cpu_cosh(double x);
double cpu_tanh(double x);
double cpu_erf(double x);
int64_t cpu_whole_power(int64_t x, int64_t y);
int64_t cpu_floor_quotient(int64_t x, int64_t y);   /* rounded down; 0 where y is */
#endif

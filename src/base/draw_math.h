/* log, log1p, sin and cos as PyTorch's draws of float64 normals have them, to the bit: the steps are the C library's on a
 * CPU that fuses (glibc from 2.28 on), written out with fma(), whose result is the same where a CPU has none. For draws
 * alone: base/math.h is faster without fused steps and nearer to the truth. Errors: 0.52, 0.8, 0.55 units in the last
 * place. */
#ifndef BASE_DRAW_MATH_H
#define BASE_DRAW_MATH_H

double draw_log(double x);                                  /* x from 2^-53 to 1 */
double draw_log1p(double x);                                /* x above -1, finite */
void   draw_sincos(double x, double *sine, double *cosine);   /* x from 0 to 2^26 */
#endif

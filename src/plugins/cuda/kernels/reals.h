/* Functions of float32 and float64 by one name, as the CPU's kernels of layers take them: float32's are near_*
 * (tensor/cpu/approximate.h), float64's the exact ones (base/math_bodies.h). Both have the CPU's bits. */
#ifndef CUDA_KERNELS_REALS_H
#define CUDA_KERNELS_REALS_H
#include "plugins/cuda/kernels/math.h"
#include "tensor/cpu/approximate.h"

BOTH float  real_exp(float x) { return near_exp(x); }
BOTH double real_exp(double x) { return math_exp(x); }
BOTH float  real_sigmoid(float x) { return near_sigmoid(x); }
BOTH double real_sigmoid(double x) { return 1 / (1 + math_exp(-x)); }
BOTH float  real_tanh(float x) { return near_tanh(x); }
BOTH double real_tanh(double x) { return math_tanh(x); }
#endif

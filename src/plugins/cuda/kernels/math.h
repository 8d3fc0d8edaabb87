/* The CPU's functions of double, compiled for kernels. The C library's functions of float, of which every library has
 * its own, are here the rounded ones of double: they differ from the CPU's by 2 units in the last place at most. */
#ifndef CUDA_KERNELS_MATH_H
#define CUDA_KERNELS_MATH_H
#include "plugins/cuda/kernels/device.h"
#include "plugins/cuda/kernels/rolled.h"

#define MATH CALLED_BOTH   /* they are long */
#include "tensor/cpu/transcendental_bodies.h"
#include "tensor/cpu/math_bodies.h"

ON_DEVICE float exp_of_float(float x) { return (float)cpu_exp((double)x); }
ON_DEVICE float log_of_float(float x) { return (float)cpu_log((double)x); }
ON_DEVICE float sin_of_float(float x) { return (float)cpu_sin((double)x); }
ON_DEVICE float cos_of_float(float x) { return (float)cpu_cos((double)x); }
ON_DEVICE float tanh_of_float(float x) { return (float)cpu_tanh((double)x); }
#endif

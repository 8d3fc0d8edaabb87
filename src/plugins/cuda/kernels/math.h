/* The CPU's functions of double, compiled for kernels. */
#ifndef CUDA_KERNELS_MATH_H
#define CUDA_KERNELS_MATH_H
#include "plugins/cuda/kernels/device.h"
#include "plugins/cuda/kernels/rolled.h"

#define MATH CALLED_BOTH   /* they are long */
#include "base/math_bodies.h"
#endif

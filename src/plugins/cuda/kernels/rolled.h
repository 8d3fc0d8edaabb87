/* For code that many kernels hold: ROLLED loops stay loops, CALLED functions are called. Of no meaning to C's
 * compilers. */
#ifndef CUDA_KERNELS_ROLLED_H
#define CUDA_KERNELS_ROLLED_H
#include "base/both.h"

#ifdef __CUDACC__
#define ROLLED           _Pragma("unroll 1")
#define CALLED_BOTH      static __host__ __device__ __noinline__
#define CALLED_ON_DEVICE static __device__ __noinline__
#define ON_DEVICE_MEMBER __device__ inline
#else
#define ROLLED
#define CALLED_BOTH      BOTH
#define CALLED_ON_DEVICE static inline
#define ON_DEVICE_MEMBER inline
#endif
#endif

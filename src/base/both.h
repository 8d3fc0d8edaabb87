/* BOTH: a function of a header that is the same for the CPU and for GPUs; of C's compilers it is a static inline one. */
#ifndef BASE_BOTH_H
#define BASE_BOTH_H

#ifdef __CUDACC__
#define BOTH static __host__ __device__ inline
#else
#define BOTH static inline
#endif
#endif

/* What the files of elementwise kernels share: a kernel is three functions over runs, one a type it calculates in. */
#ifndef TENSOR_CPU_ELEMENTWISE_H
#define TENSOR_CPU_ELEMENTWISE_H
#include "tensor/cpu/loop.h"

/* One run of at most LOOP_CHUNK elements, or longer if everything lies in one piece; `out` may be one of the inputs. */
typedef void run_f32(float *out, const float *px, const float *py, const float *pz, int64_t count, float a);
typedef void run_f64(double *out, const double *px, const double *py, const double *pz, int64_t count, double a);
typedef void run_i64(int64_t *out, const int64_t *px, const int64_t *py, const int64_t *pz, int64_t count, int64_t a);

/* Which runs belong to an op. */
struct runs { run_f32 *f32; run_f64 *f64; run_i64 *i64; };

void elementwise(const struct cpu_call *call, int inputs, const struct runs *runs);
#endif

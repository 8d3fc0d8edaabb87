/* What the files of elementwise kernels share: a kernel is three functions over runs, one a type it calculates in. */
#ifndef TENSOR_CPU_ELEMENTWISE_H
#define TENSOR_CPU_ELEMENTWISE_H
#include "tensor/cpu/loop.h"
#include "tensor/cpu/wrap.h"

/* One run of at most LOOP_CHUNK elements, or longer if everything lies in one piece; `out` may be one of the inputs.
 * `in`: x, y and z; what an op has not is `out`. a, b: alpha and beta, which no kernel of integers asks for. */
typedef void run_f32(void *out, const void *const *in, int64_t count, float a, float b);
typedef void run_f64(void *out, const void *const *in, int64_t count, double a, double b);
typedef void run_i64(void *out, const void *const *in, int64_t count, int64_t a, int64_t b);

/* Which runs belong to an op; scales: its number, or y of 0 dimensions, is not rounded to float16 or bfloat16 first. */
struct runs { run_f32 *f32; run_f64 *f64; run_i64 *i64; bool scales; };

void elementwise(const struct cpu_call *call, int inputs, const struct runs *runs);
#endif

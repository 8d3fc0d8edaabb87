/* What a kernel is and what it gets: counts, raw pointers, shapes and strides, no tensor and no task. It allocates
 * nothing and fails in no way but through `fault`, so it can run at any time and in any thread. Plain enough for
 * compilers of C++ and CUDA. */
#ifndef TENSOR_CPU_KERNEL_H
#define TENSOR_CPU_KERNEL_H
#include "base/dtype.h"
#include "base/fault.h"
#include "base/shape.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { CALL_INPUTS = 4 };
enum reduction { LOSS_MEAN, LOSS_SUM, LOSS_NONE };    /* of a loss over its samples */

/* Elements in memory: strides count elements, data points to the first one. */
struct cpu_view {
    void      *data;
    enum dtype dtype;
    int        dims;
    int64_t    size[TENSOR_DIMS], stride[TENSOR_DIMS];
};

struct cpu_call {
    struct cpu_view      in[CALL_INPUTS], out;
    double               constant[CALL_INPUTS]; /* a 0-dim host operand of a device's kernel; its view has no data */
    double               alpha;
    int64_t              dim, start;
    int                  inputs;
    enum dtype           compute;               /* F32, F64 or I64: what it calculates in */
    enum dtype           common;                /* a narrower type that an elementwise kernel's operands become first */
    void                *workspace;             /* memory of its own, as much as it asked for before */
    struct kernel_fault *fault;                 /* where a bad index is reported */
    struct blas         *blas;                  /* NULL: products are exact */
    int64_t              sizes[TENSOR_DIMS], length, step; /* as in op_args */
    double               beta;
};
typedef void cpu_kernel(const struct cpu_call *call);

#ifdef __cplusplus
}
#endif
#endif

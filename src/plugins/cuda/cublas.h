/* What products.c wants of cuBLAS, as a table of functions. cublas.c fills it from the library; the tests put a file in its
 * place that multiplies on the host's memory (tests/cuda/fake/products.c). Declared here so that the plug-in is built
 * without cuBLAS's header; cublas.c compares where that is installed. */
#ifndef CUDA_CUBLAS_H
#define CUDA_CUBLAS_H
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

enum { CUBLAS_WELL = 0 };                             /* cublasStatus_t: CUBLAS_STATUS_SUCCESS */
enum { CUBLAS_PLAIN = 0, CUBLAS_TURNED = 1 };         /* cublasOperation_t: N, T */
enum { CUBLAS_FULL = 0, CUBLAS_TF32 = 3 };            /* cublasMath_t: DEFAULT_MATH, TF32_TENSOR_OP_MATH */
enum { CUBLAS_NO_ATOMICS = 0 };                       /* cublasAtomicsMode_t */

/* Matrices by columns, as cuBLAS has them; alpha and beta on the host. Answers are cublasStatus_t. */
struct cublas {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cudaStream_t stream);                 /* takes the workspace away */
    int (*set_workspace)(void *handle, void *memory, size_t bytes);
    int (*set_math)(void *handle, int mode);
    int (*set_atomics)(void *handle, int mode);
    int (*sgemm)(void *handle, int turn_a, int turn_b, int m, int n, int k, const float *alpha, const float *a, int lda,
                 const float *b, int ldb, const float *beta, float *c, int ldc);
    int (*dgemm)(void *handle, int turn_a, int turn_b, int m, int n, int k, const double *alpha, const double *a,
                 int lda, const double *b, int ldb, const double *beta, double *c, int ldc);
    int (*sgemm_batch)(void *handle, int turn_a, int turn_b, int m, int n, int k, const float *alpha, const float *a,
                       int lda, long long next_a, const float *b, int ldb, long long next_b, const float *beta,
                       float *c, int ldc, long long next_c, int count);
    int (*dgemm_batch)(void *handle, int turn_a, int turn_b, int m, int n, int k, const double *alpha, const double *a,
                       int lda, long long next_a, const double *b, int ldb, long long next_b, const double *beta,
                       double *c, int ldc, long long next_c, int count);
};

/* Opens it when it is first asked for (0.4 s); one for the process, to its end. NULL: there is none, and `why` is "", or
 * there is one that does not open, and `why` says so. */
const struct cublas *cublas_open(char *why, size_t room);
/* Whether there is one to open, without opening it: its name, or where it lies. false: `file` is the name of the one that
 * fits best. */
bool cublas_find(char *file, size_t room);
#endif

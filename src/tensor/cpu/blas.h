/* Fast products from libraries that are opened when a run wants them, never linked: OpenBLAS (its constructor would
 * start threads before main) and oneDNN. Each call runs in its caller's thread, so a rank has one. Which library
 * takes a product is chosen by its shape. The bits depend on the CPU: `stepped` and --exact use cpu/mm.c alone. */
#ifndef TENSOR_CPU_BLAS_H
#define TENSOR_CPU_BLAS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cpu_view;

enum { BLAS_ROW_MAJOR = 101, BLAS_PLAIN = 111, BLAS_TRANSPOSED = 112 };

typedef void blas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                        const float *b, int ldb, float beta, float *c, int ldc);
typedef void blas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                        const double *b, int ldb, double beta, double *c, int ldc);
typedef int  dnnl_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* OpenBLAS's buffers, taken when it was opened: where it finds none it asks the system for ever. */
struct blas_buffers {
    atomic_int      free;        /* below 0: so many callers wait */
    pthread_mutex_t mutex;
    pthread_cond_t  freed;
    int             handed;      /* to those who wait, and not taken yet */
};

struct blas {
    blas_sgemm *sgemm;           /* OpenBLAS; NULL: not there */
    blas_dgemm *dgemm;
    void       *library;         /* OpenBLAS's handle */
    dnnl_sgemm *dnnl;            /* oneDNN; NULL: not there */
    char        openblas[48];    /* "OpenBLAS 0.3.21 (SkylakeX)", "" not there */
    char        onednn[48];      /* "oneDNN 2.6 (AVX-512)" */
    char        warning[240];    /* a kernel set that is slower than the CPU allows; "" none */
    const char *refused;         /* why libraries that may be there were not opened; NULL */
    bool        guarded;         /* allocations may fail at any time: see memory_is_guarded */
    struct blas_buffers buffers;
};

/* Opens what is there; false: nothing is, or memory is short (`refused`), and the exact product stays in use. Called
 * by the program's first thread before others start. What was opened stays open to the process's end: neither library
 * likes to be closed. */
bool blas_open(struct blas *blas);
/* "OpenBLAS 0.3.21 (SkylakeX), oneDNN 2.6 (AVX-512)"; "none" */
void blas_describe(const struct blas *blas, char *out, size_t size);

/* out = a @ b, or out += a @ b. false: it is not for a library (type, strides, no elements, no memory); nothing was
 * done. */
bool blas_mm(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out,
             bool add);
bool blas_takes(const struct blas *blas, const struct cpu_view *a, const struct cpu_view *b,
                const struct cpu_view *out);
#endif

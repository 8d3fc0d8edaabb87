/* cuBLAS on the host's memory, in place of src/plugins/cuda/cublas.c: the same functions, a table of products that are
 * queued on the fake runtime's streams. Sums go from the last k to the first, so that their bits are not those of our own
 * kernels: a test sees who multiplied. In TF32 factors have ten bits behind the first. The workspace is written to, as by
 * the real one. A handle without a stream, a workspace or a word about precision and atomics multiplies nothing: the status
 * of invalid operands.
 *
 * RINGSIDE_FAKE_CUBLAS: missing (there is none), broken (it does not open), create:N, gemm:N (that call answers status N).
 *
 * Interface: cublas_open, cublas_find. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake.h"
#include "plugins/cuda/cublas.h"

enum { STATUS_ALLOC_FAILED = 3, STATUS_INVALID = 7, WORKSPACE_TOUCHED = 256, TF32_LOST = 13 };

struct handle { cudaStream_t stream; void *workspace; bool has_math, has_atomics, is_tf32; };

static bool
is_asked(const char *word)
{
    const char *asked = getenv("RINGSIDE_FAKE_CUBLAS");
    return asked != NULL && strcmp(asked, word) == 0;
}

/* The status that a call is to answer: CUBLAS_WELL unless the tests ask for another. */
static int
status_of(const char *call)
{
    const char *asked = getenv("RINGSIDE_FAKE_CUBLAS");
    size_t      length = strlen(call);
    if (asked == NULL || strncmp(asked, call, length) != 0 || asked[length] != ':')
        return CUBLAS_WELL;
    return atoi(asked + length + 1);
}

/* ---- handles ---- */

/* On a GPU, in a piece that was given out. */
static bool
is_given(const void *memory, size_t bytes)
{
    pthread_mutex_lock(fake_lock());
    bool given = fake_place(memory, bytes) >= 0;
    pthread_mutex_unlock(fake_lock());
    return given;
}

static int
create(void **handle)
{
    int status = status_of("create");
    if (status != CUBLAS_WELL)
        return status;
    *handle = calloc(1, sizeof(struct handle));
    if (*handle == NULL)
        return STATUS_ALLOC_FAILED;
    return CUBLAS_WELL;
}

static int
destroy(void *handle)
{
    free(handle);
    return CUBLAS_WELL;
}

static int
set_stream(void *handle, cudaStream_t stream)
{
    struct handle *h = handle;
    h->stream    = stream;
    h->workspace = NULL;
    return CUBLAS_WELL;
}

static int
set_workspace(void *handle, void *memory, size_t bytes)
{
    ((struct handle *)handle)->workspace = memory;
    return bytes < WORKSPACE_TOUCHED || !is_given(memory, bytes) ? STATUS_INVALID : CUBLAS_WELL;
}

static int
set_math(void *handle, int mode)
{
    ((struct handle *)handle)->has_math = true;
    ((struct handle *)handle)->is_tf32  = mode == CUBLAS_TF32;
    return mode == CUBLAS_TF32 || mode == CUBLAS_FULL ? CUBLAS_WELL : STATUS_INVALID;
}

static int
set_atomics(void *handle, int mode)
{
    ((struct handle *)handle)->has_atomics = true;
    return mode == CUBLAS_NO_ATOMICS ? CUBLAS_WELL : STATUS_INVALID;
}

/* ---- products ---- */

/* By columns: element (i, j) of a plain matrix lies at i + j * lead. */
struct side { const void *at; int turn, lead; long long next; };
struct product {
    bool        wide, is_tf32;              /* wide: float64 */
    int         m, n, k, count, ldc;
    struct side a, b;
    void       *c, *workspace;
    long long   next_c;
    double      alpha, beta;
};

static float
as_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + (1u << (TF32_LOST - 1))) >> TF32_LOST << TF32_LOST;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static double
element(const struct product *p, const struct side *side, long long matrix, int i, int j)
{
    long long at = matrix * side->next + (side->turn == CUBLAS_TURNED ? j + (long long)i * side->lead
                                                                      : i + (long long)j * side->lead);
    if (p->wide)
        return ((const double *)side->at)[at];
    float value = ((const float *)side->at)[at];
    return p->is_tf32 ? as_tf32(value) : value;
}

/* In the type's own precision at each step. */
static double
sum_of(const struct product *p, long long matrix, int i, int j)
{
    double sum = 0;
    for (int k = p->k; k-- > 0;) {
        double term = element(p, &p->a, matrix, i, k) * element(p, &p->b, matrix, k, j);
        sum = p->wide ? sum + term : (double)((float)sum + (float)term);
    }
    return sum;
}

static void
store(const struct product *p, long long at, double sum)
{
    double before = 0;
    if (p->beta != 0)
        before = p->beta * (p->wide ? ((double *)p->c)[at] : (double)((float *)p->c)[at]);
    if (p->wide)
        ((double *)p->c)[at] = p->alpha * sum + before;
    else
        ((float *)p->c)[at] = (float)(p->alpha * sum) + (float)before;
}

static void
multiply(void *context)
{
    struct product *p = context;
    memset(p->workspace, 0xff, WORKSPACE_TOUCHED);
    for (int matrix = 0; matrix < p->count; matrix++)
        for (int j = 0; j < p->n; j++)
            for (int i = 0; i < p->m; i++)
                store(p, matrix * p->next_c + i + (long long)j * p->ldc, sum_of(p, matrix, i, j));
    free(p);
}

static bool
side_fits(const struct side *side, int rows, int columns)
{
    return side->lead >= (side->turn == CUBLAS_TURNED ? columns : rows) && is_given(side->at, 1);
}

static int
queue(const struct handle *h, const struct product *product)
{
    struct product *kept;
    int             status = status_of("gemm");
    if (status != CUBLAS_WELL)
        return status;
    if (h->stream == NULL || h->workspace == NULL || !h->has_math || !h->has_atomics || product->m < 1 ||
        product->n < 1 || product->k < 1 || product->ldc < product->m ||
        !side_fits(&product->a, product->m, product->k) || !side_fits(&product->b, product->k, product->n))
        return STATUS_INVALID;
    kept = malloc(sizeof *kept);
    if (kept == NULL)
        return STATUS_ALLOC_FAILED;
    *kept = *product;
    kept->workspace = h->workspace;
    kept->is_tf32   = h->is_tf32;
    if (fake_queue_work(h->stream, multiply, kept) != cudaSuccess) {
        free(kept);
        return STATUS_INVALID;
    }
    return CUBLAS_WELL;
}

static int
sgemm_batch(void *handle, int turn_a, int turn_b, int m, int n, int k, const float *alpha, const float *a, int lda,
            long long next_a, const float *b, int ldb, long long next_b, const float *beta, float *c, int ldc,
            long long next_c, int matrices)
{
    const struct product product = { .m = m, .n = n, .k = k, .count = matrices, .ldc = ldc,
                                     .a = { a, turn_a, lda, next_a }, .b = { b, turn_b, ldb, next_b }, .c = c,
                                     .next_c = next_c, .alpha = *alpha, .beta = *beta };
    return queue(handle, &product);
}

static int
dgemm_batch(void *handle, int turn_a, int turn_b, int m, int n, int k, const double *alpha, const double *a, int lda,
            long long next_a, const double *b, int ldb, long long next_b, const double *beta, double *c, int ldc,
            long long next_c, int matrices)
{
    const struct product product = { .wide = true, .m = m, .n = n, .k = k, .count = matrices, .ldc = ldc,
                                     .a = { a, turn_a, lda, next_a }, .b = { b, turn_b, ldb, next_b }, .c = c,
                                     .next_c = next_c, .alpha = *alpha, .beta = *beta };
    return queue(handle, &product);
}

static int
sgemm(void *handle, int turn_a, int turn_b, int m, int n, int k, const float *alpha, const float *a, int lda,
      const float *b, int ldb, const float *beta, float *c, int ldc)
{
    return sgemm_batch(handle, turn_a, turn_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}

static int
dgemm(void *handle, int turn_a, int turn_b, int m, int n, int k, const double *alpha, const double *a, int lda,
      const double *b, int ldb, const double *beta, double *c, int ldc)
{
    return dgemm_batch(handle, turn_a, turn_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}

/* ---- in place of cublas.c ---- */

static const struct cublas table = { create, destroy, set_stream, set_workspace, set_math, set_atomics, sgemm, dgemm,
                                     sgemm_batch, dgemm_batch };

const struct cublas *
cublas_open(char *why, size_t room)
{
    snprintf(why, room, "%s", is_asked("broken") ? "cuBLAS is here and does not open: so the test wants it" : "");
    return is_asked("broken") || is_asked("missing") ? NULL : &table;
}

bool
cublas_find(char *file, size_t room)
{
    snprintf(file, room, "libcublas.so.13");
    return !is_asked("missing");
}

/* QR by Householder's reflections: column after column, the part below the diagonal is reflected onto it; then the
 * reflections are applied to the unit matrix, last one first. A reflection's vector v (its first element is 1) lies
 * where its column was, and the reflection is 1 - scale * v v'. Sums go down the rows, for all columns at once.
 *
 * In PyTorch: linalg.qr, by LAPACK's geqrf and orgqr. */
#include "tensor/cpu/qr.h"

#include <math.h>
#include <string.h>

#include "tensor/cpu/wide.h"

/* Reflects the columns from `first` to the last by the vector in column k. */
WIDE static void
reflect(const struct qr *qr, int64_t k, int64_t first)
{
    int64_t          cols = qr->cols, wide = cols - first;
    double *restrict row = qr->row, scale = qr->scale[k];
    memcpy(row, qr->at + k * cols + first, (size_t)wide * sizeof *row);
    for (int64_t i = k + 1; i < qr->rows; i++) {
        const double *from = qr->at + i * cols + first;
        double        v = qr->at[i * cols + k];
        for (int64_t j = 0; j < wide; j++)
            row[j] += v * from[j];
    }
    for (int64_t j = 0; j < wide; j++)
        row[j] *= scale;
    for (int64_t i = k; i < qr->rows; i++) {
        double *to = qr->at + i * cols + first, v = i == k ? 1 : qr->at[i * cols + k];
        for (int64_t j = 0; j < wide; j++)
            to[j] -= v * row[j];
    }
}

/* Column k becomes its vector, and R's element on the diagonal is answered. A column that is 0 below it stays. */
static double
reflection(const struct qr *qr, int64_t k)
{
    int64_t cols = qr->cols;
    double  head = qr->at[k * cols + k], below = 0;
    for (int64_t i = k + 1; i < qr->rows; i++)
        below += qr->at[i * cols + k] * qr->at[i * cols + k];
    qr->scale[k] = 0;
    if (below == 0)
        return head;
    double diagonal = -copysign(sqrt(head * head + below), head);
    qr->scale[k] = (diagonal - head) / diagonal;
    for (int64_t i = k + 1; i < qr->rows; i++)
        qr->at[i * cols + k] /= head - diagonal;
    return diagonal;
}

/* Column k of Q, and what its reflection makes of those behind it. */
static void
unfold(const struct qr *qr, int64_t k)
{
    int64_t cols = qr->cols;
    double *top = qr->at + k * cols, sign = top[k];
    memset(top + k + 1, 0, (size_t)(cols - k - 1) * sizeof *top);
    reflect(qr, k, k + 1);
    top[k] = sign * (1 - qr->scale[k]);
    for (int64_t i = k + 1; i < qr->rows; i++)
        qr->at[i * cols + k] *= -sign * qr->scale[k];
}

void
cpu_orthogonal(const struct qr *qr)
{
    for (int64_t k = 0; k < qr->cols; k++) {
        double diagonal = reflection(qr, k);
        reflect(qr, k, k + 1);
        qr->at[k * qr->cols + k] = qr->as_reflected ? 1 : (double)((diagonal > 0) - (diagonal < 0));
    }
    for (int64_t k = qr->cols - 1; k >= 0; k--)
        unfold(qr, k);
}

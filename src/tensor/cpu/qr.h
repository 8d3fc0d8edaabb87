/* The orthogonal factor of a matrix. */
#ifndef TENSOR_CPU_QR_H
#define TENSOR_CPU_QR_H
#include <stdint.h>

/* `at`: rows * cols elements, row by row, rows >= cols. Workspace: `row` and `scale`, of cols elements each. */
struct qr { int64_t rows, cols; double *at, *row, *scale; };

/* at = Q R becomes Q, its columns times the signs of R's diagonal: the one Q whose R has nothing negative there. */
void cpu_orthogonal(const struct qr *qr);
#endif

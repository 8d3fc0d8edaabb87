/* The orthogonal factor of a matrix. */
#ifndef TENSOR_CPU_QR_H
#define TENSOR_CPU_QR_H
#include <stdbool.h>
#include <stdint.h>

/* `at`: rows * cols elements, row by row, rows >= cols. Workspace: `row` and `scale`, of cols elements each. */
struct qr { int64_t rows, cols; double *at, *row, *scale; bool as_reflected; };

/* at = Q R becomes Q, its columns times the signs of R's diagonal: the one Q whose R has nothing negative there.
 * as_reflected: Q as the reflections leave it, whose signs are LAPACK's (R's diagonal is what reflects away from the
 * column's own first element). */
void cpu_orthogonal(const struct qr *qr);
#endif

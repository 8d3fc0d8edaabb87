/* The orthogonal factor of a matrix, calculated on the host in float64. In PyTorch: torch/nn/init.py (orthogonal_). */
#include "device/cells.h"
#include "sched/account.h"
#include "tensor/cpu/qr.h"
#include "tensor/internal.h"

enum { REFLECTIONS_A_STEP = 32 }; /* a multiplication takes some 0.3 ns */

static uint64_t
factoring_cost(const struct qr *qr)
{
    double products = 4.0 * (double)qr->rows * (double)qr->cols * (double)qr->cols / REFLECTIONS_A_STEP;
    return products < 0x1p62 ? (uint64_t)products : (uint64_t)1 << 62;
}

/* Where the matrix's element i, counted row by row, lies in the factored one: a wide matrix is factored on its side. */
static int64_t
place_of(const struct tensor *matrix, const struct qr *qr, int64_t i)
{
    int64_t cols = matrix->size[1];
    return cols == qr->cols ? i : i % cols * qr->cols + i / cols;
}

static bool
make_orthogonal(struct task *me, struct tensor *matrix, bool as_reflected)
{
    if (matrix == NULL || task_failed(me))
        return false;
    int64_t count = tensor_count(matrix), rows = matrix->size[0], cols = matrix->size[1];
    bool    wide = rows < cols;
    size_t  size = dtype_size(matrix->dtype);
    if (matrix->dtype != DTYPE_F32 && matrix->dtype != DTYPE_F64)
        return failed(me, E_NOT_IMPLEMENTED, "\"geqrf_cpu\" not implemented for '%s'", dtype_title(matrix->dtype));
    struct qr qr = { .rows = wide ? cols : rows, .cols = wide ? rows : cols, .as_reflected = as_reflected };
    char     *elements = task_work(me, factoring_cost(&qr)) ? scratch_new(me, (size_t)count + 1, size) : NULL;
    qr.at    = scratch_new(me, (size_t)count + 1, sizeof *qr.at);
    qr.row   = scratch_new(me, (size_t)qr.cols + 1, sizeof *qr.row);
    qr.scale = scratch_new(me, (size_t)qr.cols + 1, sizeof *qr.scale);
    if (elements == NULL || qr.at == NULL || qr.row == NULL || qr.scale == NULL || !tensor_read(me, matrix, elements))
        return false;
    for (int64_t i = 0; i < count; i++)
        qr.at[place_of(matrix, &qr, i)] = dtype_fraction(matrix->dtype, elements + (size_t)i * size);
    cpu_orthogonal(&qr);
    for (int64_t i = 0; i < count; i++)
        dtype_put_fraction(matrix->dtype, elements + (size_t)i * size, qr.at[place_of(matrix, &qr, i)]);
    return tensor_write(me, matrix, elements);
}

bool
tensor_make_orthogonal(struct task *me, struct tensor *matrix)
{
    return make_orthogonal(me, matrix, false);
}

bool
tensor_factor_orthogonal(struct task *me, struct tensor *matrix)
{
    return make_orthogonal(me, matrix, true);
}

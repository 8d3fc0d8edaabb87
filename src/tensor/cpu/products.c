/* Products of batches of matrices and of vectors, each by the one product of mm.c. In PyTorch: ATen/native/
 * LinearAlgebra.cpp (bmm, dot, mv). */
#include <string.h>
#include "tensor/cpu/kernels.h"

/* Matrix `at` of a batch. */
static struct cpu_view
matrix(const struct cpu_view *batch, int64_t at)
{
    struct cpu_view view = { .data = (char *)batch->data + at * batch->stride[0] * (int64_t)dtype_size(batch->dtype),
                             .dtype = batch->dtype, .dims = 2 };
    memcpy(view.size, batch->size + 1, 2 * sizeof *view.size);
    memcpy(view.stride, batch->stride + 1, 2 * sizeof *view.stride);
    return view;
}

void
product_bmm(const struct cpu_call *call)
{
    struct cpu_call one = *call;
    for (int64_t i = 0; i < call->out.size[0]; i++) {
        one.in[0] = matrix(&call->in[0], i);
        one.in[1] = matrix(&call->in[1], i);
        one.out   = matrix(&call->out, i);
        cpu_mm(&one);
    }
}

/* A vector as a matrix of one row or one column. */
static struct cpu_view
vector_as_matrix(const struct cpu_view *view, bool row)
{
    struct cpu_view wide = *view;
    if (view->dims == 2)
        return wide;
    int64_t size = view->dims > 0 ? view->size[0] : 1, stride = view->dims > 0 ? view->stride[0] : 1;
    wide.dims      = 2;
    wide.size[row] = size;
    wide.size[!row] = 1;
    wide.stride[row]  = stride;
    wide.stride[!row] = 1;
    return wide;
}

/* dot: row by column. mv: matrix by column. */
void
product_vector(const struct cpu_call *call)
{
    struct cpu_call one = *call;
    one.in[0] = vector_as_matrix(&call->in[0], true);
    one.in[1] = vector_as_matrix(&call->in[1], false);
    one.out   = vector_as_matrix(&call->out, false);
    cpu_mm(&one);
}

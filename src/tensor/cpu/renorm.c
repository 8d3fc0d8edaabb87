/* embedding's max_norm: rows that are looked up and longer than alpha are scaled to that length; beta says in
 * which norm. In PyTorch: ATen/native/Embedding.cpp, embedding_renorm_. */
#include <math.h>
#include <string.h>
#include "base/dtype.h"
#include "base/math.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/pack.h"
#include "tensor/cpu/renorm.h"

static double
row_element(const void *row, enum dtype dtype, int64_t i)
{
    return dtype == DTYPE_F32 ? (double)((const float *)row)[i] : ((const double *)row)[i];
}

static double
row_norm(const void *row, enum dtype dtype, int64_t wide, double p)
{
    double sum = 0;
    for (int64_t i = 0; i < wide; i++)
        sum = norm_with(sum, row_element(row, dtype, i), p);
    return norm_end(sum, p);
}

/* in: weight, indices. */
void
cpu_embedding_renorm(const struct cpu_call *call)
{
    char          *room = call->workspace;
    const char    *weight = pack_input(call, 0, &room);
    const int64_t *indices = pack_as(call, 1, DTYPE_I64, &room);
    int64_t        rows = call->out.size[0], wide = call->out.size[1], count = view_count(&call->in[1]);
    size_t         bytes = (size_t)wide * dtype_size(call->compute);
    if (rows * wide > 0)
        memcpy(call->out.data, weight, (size_t)rows * bytes);
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] < 0 || indices[i] >= rows) {
            fault_raise(call->fault, indices[i], rows);
            continue;
        }
        const char *row = weight + (size_t)indices[i] * bytes;
        char       *to = (char *)call->out.data + (size_t)indices[i] * bytes;
        double      norm = row_norm(row, call->compute, wide, call->beta), scale = call->alpha / (norm + 1e-7);
        for (int64_t j = 0; norm > call->alpha && j < wide; j++) {
            if (call->compute == DTYPE_F32)
                ((float *)(void *)to)[j] = (float)(row_element(row, DTYPE_F32, j) * scale);
            else
                ((double *)(void *)to)[j] = row_element(row, DTYPE_F64, j) * scale;
        }
    }
}

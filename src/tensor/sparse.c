/* Sparse tensors: rows of a table by number, as embeddings with sparse gradients make them. To who does not know
 * of them they are one zero, stretched to their shape; what computes refuses them (op_run). In PyTorch: c10's
 * SparseTensorImpl, layout sparse_coo with one sparse dimension. */
#include <string.h>
#include "tensor/internal.h"

struct tensor *
tensor_sparse(struct task *me, int64_t rows, struct tensor *indices, struct tensor *values)
{
    if (indices == NULL || values == NULL)
        return NULL;
    if (indices->dims != 1 || indices->dtype != DTYPE_I64 || values->dims < 1 || values->size[0] != indices->size[0])
        return failed_null(me, E_SHAPE, "a sparse tensor has one row of values for each index");
    struct tensor *tensor = tensor_zeros(me, values->dtype, tensor_device(values), 0, NULL);
    if (tensor == NULL)
        return NULL;
    tensor->dims = values->dims;
    memcpy(tensor->size, values->size, sizeof tensor->size);
    memset(tensor->stride, 0, sizeof tensor->stride);
    tensor->size[0] = rows;
    tensor->coalesced = indices->size[0] < 2;
    tensor_keep(me, &tensor->indices, indices);
    tensor_keep(me, &tensor->values, values);
    return tensor;
}

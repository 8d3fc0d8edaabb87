/* Sparse tensors: rows of a table by number, as embeddings with sparse gradients make them: indices [pairs] and values
 * [pairs, ...], side by side. The struct itself lies over the storage of its values and says only the table's shape: it
 * has no elements, so what reads or writes those refuses it (op_run, copy.c, tensor_is_writable). In PyTorch: c10's
 * SparseTensorImpl, layout sparse_coo with one sparse dimension. */
#include <string.h>
#include "tensor/internal.h"

struct tensor *
tensor_sparse(struct task *me, int64_t rows, struct tensor *indices, struct tensor *values)
{
    if (indices == NULL || values == NULL)
        return NULL;
    if (indices->dims != 1 || indices->dtype != DTYPE_I64 || values->dims < 1 || values->size[0] != indices->size[0] ||
        tensor_device(indices) != tensor_device(values))
        return failed_null(me, E_SHAPE, "a sparse tensor has one row of values for each index, on one device: got "
                           "indices %s and values %s", shape_text(indices).text, shape_text(values).text);
    if (tensor_is_sparse(indices) || tensor_is_sparse(values))
        return failed_null(me, E_RUNTIME, "the parts of a sparse tensor are dense");
    int64_t sizes[TENSOR_DIMS], count = 0;
    memcpy(sizes, values->size, sizeof sizes);
    sizes[0] = rows;
    struct tensor *tensor = shape_count(me, values->dims, sizes, &count) ? tensor_own_version(me, values) : NULL;
    if (tensor == NULL)
        return NULL;
    memset(tensor->stride, 0, sizeof tensor->stride);
    tensor->size[0]   = rows;
    tensor->offset    = 0;
    tensor->coalesced = indices->size[0] < 2;
    tensor_keep(me, &tensor->indices, indices);
    tensor_keep(me, &tensor->values, values);
    return tensor;
}

/* The object stays, and with it who holds it. */
void
tensor_sparse_assign(struct task *me, struct tensor *tensor, const struct tensor *from)
{
    struct storage *old = tensor->storage;
    tensor->storage = storage_ref(from->storage);
    storage_unref(me, old);
    tensor_keep(me, &tensor->indices, from->indices);
    tensor_keep(me, &tensor->values, from->values);
    tensor->coalesced = from->coalesced;
    tensor_bump(tensor);
}

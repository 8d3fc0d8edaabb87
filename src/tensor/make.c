/* Tensors made by an op: filled ones, copies in one piece; and those that get their shape later. */
#include <string.h>
#include "tensor/op.h"

bool
tensor_fill(struct task *me, struct tensor *tensor, double value)
{
    return tensor != NULL && op_run(me, OP_fill, &(struct op_args){ .out = tensor, .alpha = value }) != NULL;
}

struct tensor *
tensor_filled(struct task *me, struct tensor *tensor, double value)
{
    return tensor_fill(me, tensor, value) ? tensor : NULL;
}

struct tensor *
tensor_number(struct task *me, enum dtype dtype, int device, double value)
{
    return tensor_filled(me, tensor_empty(me, dtype, device, 0, NULL), value);
}

struct tensor *
tensor_zeros(struct task *me, enum dtype dtype, int device, int dims, const int64_t *sizes)
{
    return tensor_filled(me, tensor_empty(me, dtype, device, dims, sizes), 0);
}

struct tensor *
tensor_clone(struct task *me, struct tensor *tensor)
{
    return op_run(me, OP_clone, &(struct op_args){ .in = { tensor } });
}

struct tensor *
tensor_contiguous(struct task *me, struct tensor *tensor)
{
    return tensor == NULL || tensor_is_contiguous(tensor) ? tensor : tensor_clone(me, tensor);
}

bool
uninitialized_refused(struct task *me, const char *what)
{
    return failed(me, E_VALUE, "%s: attempted to use an uninitialized parameter: it gets its shape in the module's "
                  "first forward; run a forward first", what);
}

bool
tensor_materialize(struct task *me, struct tensor *tensor, int dims, const int64_t *sizes)
{
    struct tensor *made = tensor_empty(me, tensor->dtype, tensor_device(tensor), dims, sizes);
    if (made == NULL)
        return false;
    struct storage *old = tensor->storage;
    tensor->storage = storage_ref(made->storage);
    tensor->dims    = made->dims;
    tensor->offset  = made->offset;
    memcpy(tensor->size, made->size, sizeof tensor->size);
    memcpy(tensor->stride, made->stride, sizeof tensor->stride);
    tensor->uninitialized = false;
    storage_unref(me, old);
    return true;
}

/* What the copies between devices are made of: names, shapes, views, and a copy that takes sparse tensors too. */
#include "parallel/comm.h"

#include "autograd/node.h"
#include "device/stream.h"
#include "parallel/data_parallel.h"
#include "tensor/op.h"

#include <stdio.h>

void
comm_device_name(int device, char name[24])
{
    if (device == DEVICE_CPU)
        snprintf(name, 24, "cpu");
    else
        snprintf(name, 24, "device:%d", device);
}

/* ---- shapes, views ---- */

struct comm_shape
comm_shape_of(const struct tensor *tensor)
{
    struct comm_shape shape = { .dtype = tensor->dtype, .dims = tensor->dims };
    for (int i = 0; i < tensor->dims; i++)
        shape.size[i] = tensor->size[i];
    return shape;
}

struct tensor *
comm_zeros(struct task *me, const struct comm_shape *shape, int device)
{
    struct tensor *zeros = tensor_empty(me, shape->dtype, device, shape->dims, shape->size);
    return zeros != NULL && tensor_fill(me, zeros, 0) ? zeros : NULL;
}

struct node *
comm_node(struct task *me, const struct comm_function *function, void *context,
          void (*drop_context)(struct task *me, void *context))
{
    if (context == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    struct node *node = node_new(me, function->name, function->backward, function->edges, function->outputs);
    if (node == NULL) {
        drop_context(me, context);
        return NULL;
    }
    node->context = context;
    node->drop_context = drop_context;
    return node;
}

bool
comm_place_node(struct task *me, struct node *node, int device)
{
    node->device = device;
    node->stream = device != DEVICE_CPU ? stream_current(me, device) : NULL;
    return device == DEVICE_CPU || node->stream != NULL;
}

struct tensor *
comm_alias(struct task *me, struct tensor *tensor)
{
    return tensor_view(me, tensor, &(struct view_place){ tensor->dims, tensor->size, tensor->stride, tensor->offset });
}

int
comm_dim(struct task *me, const struct tensor *tensor, int dim)
{
    int dims = tensor_dims(tensor);
    if (dims > 0 && dim >= -dims && dim < dims)
        return dim < 0 ? dim + dims : dim;
    if (dims == 0)
        failed(me, E_INDEX, "Dimension specified as %d but tensor has no dimensions", dim);
    else
        failed(me, E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -dims,
               dims - 1, dim);
    return -1;
}

struct tensor *
comm_narrowed(struct task *me, struct tensor *tensor, struct comm_rows rows)
{
    const struct op_args args = {
        .in = { tensor }, .dim = rows.dim, .start = rows.start, .length = rows.length, .step = 1
    };
    return op_run(me, OP_narrow, &args);
}

int64_t
comm_bytes_elsewhere(struct tensor *const *tensors, int count, int device)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (tensor_device(tensors[i]) != device)
            bytes += comm_bytes(tensors[i]);
    return bytes;
}

/* ---- copies ---- */

/* Rows and their numbers are two tensors, and travel as two. */
static struct tensor *
sparse_copy(struct task *me, struct tensor *tensor, int device)
{
    struct tensor *indices = tensor_to_async(me, tensor->indices, device, tensor->indices->dtype);
    struct tensor *values  = tensor_to_async(me, tensor->values, device, tensor->dtype);
    struct tensor *copy    = tensor_sparse(me, tensor->size[0], indices, values);
    if (copy != NULL)
        copy->coalesced = tensor->coalesced;
    return copy;
}

struct tensor *
comm_copy_to(struct task *me, struct tensor *tensor, int device)
{
    if (tensor_device(tensor) == device)
        return tensor;
    return tensor_is_sparse(tensor) ? sparse_copy(me, tensor, device)
                                    : tensor_to_async(me, tensor, device, tensor->dtype);
}

int64_t
comm_bytes(const struct tensor *tensor)
{
    return tensor_is_sparse(tensor) ? tensor_bytes(tensor->indices) + tensor_bytes(tensor->values)
                                    : tensor_bytes(tensor);
}

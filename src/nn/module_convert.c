/* What is done to all parameters and buffers of a module: another device, another type, no gradients.
 *
 * Interface: module_to, module_cast, module_train, module_zero_grad. */
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "device/storage.h"
#include "nn/module.h"
#include "tensor/tensor.h"

/* A gradient of an embedding: its parts move. */
static bool
sparse_move(struct task *me, struct tensor *tensor, int device, enum dtype dtype)
{
    bool           coalesced = tensor->coalesced;
    struct tensor *indices   = tensor_to(me, tensor->indices, device, DTYPE_I64);
    struct tensor *values    = tensor_to(me, tensor->values, device, dtype);
    struct tensor *moved     = tensor_sparse(me, tensor->size[0], indices, values);
    if (moved == NULL)
        return false;
    tensor_sparse_assign(me, tensor, moved);
    tensor->dtype     = dtype;
    tensor->coalesced = coalesced;
    return true;
}

/* The tensor object stays what it is; its elements move: whoever holds it (an optimizer, a graph) sees the new ones. */
static bool
tensor_move(struct task *me, struct tensor *tensor, int device, enum dtype dtype, const char *role)
{
    if (tensor == NULL || (tensor_device(tensor) == device && tensor->dtype == dtype))
        return true;
    if (tensor_is_sparse(tensor))
        return sparse_move(me, tensor, device, dtype);
    struct tensor *moved = tensor_to(me, tensor, device, dtype);
    if (moved == NULL)
        return false;
    struct storage *old = tensor->storage;
    tensor->storage = storage_ref(moved->storage);
    tensor->dtype   = dtype;
    tensor->offset  = moved->offset;
    memcpy(tensor->stride, moved->stride, sizeof tensor->stride);
    storage_unref(me, old);
    node_accumulator_reset(tensor);
    tensor_announce_role(me, tensor, role);
    return tensor_move(me, tensor->grad, device, dtype, "gradient");
}

/* `device` DEVICE_MAX + 1: where each is; `dtype` DTYPE_COUNT: as each is. */
static bool
module_convert(struct task *me, struct module *module, int device, enum dtype dtype)
{
    for (int buffers = 0; buffers < 2; buffers++) {
        struct named_tensors list;
        size_t mark = scope_mark(me);
        bool ok = buffers ? module_named_buffers(me, module, &list) : module_named_parameters(me, module, &list);
        for (int i = 0; ok && i < list.count; i++) {
            struct tensor *tensor = list.tensors[i];
            bool           cast = dtype != DTYPE_COUNT && dtype_is_float(tensor->dtype);
            ok = tensor_move(me, tensor, device > DEVICE_MAX ? tensor_device(tensor) : device,
                             cast ? dtype : tensor->dtype, buffers ? "buffer" : "parameter");
            scope_release(me, mark);
        }
        named_tensors_free(me, &list);
        if (!ok)
            return false;
    }
    return true;
}

bool
module_to(struct task *me, struct module *module, int device)
{
    return module_convert(me, module, device, DTYPE_COUNT);
}

bool
module_cast(struct task *me, struct module *module, enum dtype dtype)
{
    if (!dtype_is_float(dtype))
        return failed(me, E_TYPE, "nn.Module.to only accepts floating point dtypes, but got desired dtype=%s",
                      dtype_name(dtype));
    return module_convert(me, module, DEVICE_MAX + 1, dtype);
}

bool
module_train(struct task *me, struct module *module, bool training)
{
    struct named_modules list;
    if (!module_named_modules(me, module, &list))
        return false;
    for (int i = 0; i < list.count; i++)
        list.modules[i]->training = training;
    named_modules_free(me, &list);
    return true;
}

bool
module_zero_grad(struct task *me, struct module *module, bool set_to_none)
{
    struct named_tensors list;
    bool                 enabled = grad_enabled(me), ok = module_named_parameters(me, module, &list);
    grad_set_enabled(me, false);
    for (int i = 0; ok && i < list.count; i++) {
        struct tensor *tensor = list.tensors[i];
        if (set_to_none)
            tensor_drop(me, &tensor->grad);
        else if (tensor->grad != NULL)
            ok = tensor_fill_(me, tensor->grad, 0) != NULL;
    }
    grad_set_enabled(me, enabled);
    named_tensors_free(me, &list);
    return ok;
}

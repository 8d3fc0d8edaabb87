/* Operands in one piece; see pack.h. */
#include "tensor/cpu/pack.h"
#include "base/dtype.h"

size_t
pack_round(size_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

static bool
in_one_piece(int dims, const int64_t *size, const int64_t *stride)
{
    int64_t step = 1;
    for (int d = dims; d-- > 0;) {
        if (size[d] == 0)
            return true;
        if (size[d] != 1 && stride[d] != step)
            return false;
        step *= size[d];
    }
    return true;
}

size_t
pack_bytes(const struct tensor *tensor, enum dtype compute)
{
    if (tensor->dtype == compute && in_one_piece(tensor->dims, tensor->size, tensor->stride))
        return 0;
    return pack_round((size_t)tensor_count(tensor) * dtype_size(compute));
}

int64_t
view_count(const struct cpu_view *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->dims; d++)
        count *= view->size[d];
    return count;
}

const void *
pack_as(const struct cpu_call *call, int index, enum dtype dtype, char **room)
{
    const struct cpu_view *view = &call->in[index];
    if (view->dtype == dtype && in_one_piece(view->dims, view->size, view->stride))
        return view->data;
    struct cpu_call copy = { .inputs = 1, .in = { *view }, .out = *view, .compute = dtype };
    int64_t         step = 1;
    copy.out.data  = *room;
    copy.out.dtype = dtype;
    for (int d = view->dims; d-- > 0;) {
        copy.out.stride[d] = step;
        step *= view->size[d];
    }
    cpu_copy(&copy);
    *room += pack_round((size_t)view_count(view) * dtype_size(dtype));
    return copy.out.data;
}

const void *
pack_input(const struct cpu_call *call, int index, char **room)
{
    return pack_as(call, index, call->compute, room);
}

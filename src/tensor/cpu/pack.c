/* Operands in one piece; see pack.h. */
#include "tensor/cpu/pack.h"
#include "tensor/cpu/kernels.h"

size_t
pack_round(size_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

size_t
pack_bytes(const struct cpu_view *view, enum dtype compute)
{
    if (view->dtype == compute && is_row_major(view->dims, view->size, view->stride))
        return 0;
    return pack_round((size_t)view_count(view) * dtype_size(compute));
}

const void *
pack_as(const struct cpu_call *call, int index, enum dtype dtype, char **room)
{
    const struct cpu_view *view = &call->in[index];
    if (view->dtype == dtype && is_row_major(view->dims, view->size, view->stride))
        return view->data;
    struct cpu_call copy = { .inputs = 1, .in = { *view }, .out = *view, .compute = dtype };
    copy.out.data  = *room;
    copy.out.dtype = dtype;
    row_major_strides(view->dims, view->size, copy.out.stride);
    cpu_copy(&copy);
    *room += pack_round((size_t)view_count(view) * dtype_size(dtype));
    return copy.out.data;
}

const void *
pack_input(const struct cpu_call *call, int index, char **room)
{
    return pack_as(call, index, call->compute, room);
}

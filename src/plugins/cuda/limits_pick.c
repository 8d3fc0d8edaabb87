/* What the kernels of rows_pick.def have code for, and the workspace that they want: to put indices and elements in
 * order (kernels/order_room.h says how many).
 *
 * Interface: limits_pick. */
#include "limits.h"
#include "kernels/order_room.h"
#include "tensor/cpu/view.h"

static bool
orders(const struct cpu_view *keys, int64_t length, size_t *room)
{
    *room = (size_t)view_count(keys) * ORDER_EACH;
    return length <= ORDER_LIMIT;
}

bool
limits_pick(enum kernel kernel, const void *params, size_t *room)
{
    const struct cpu_call *call = params;
    switch (kernel) {
    case KERNEL_cpu_embedding_backward:
    case KERNEL_cpu_add_rows:
    case KERNEL_pick_index_put:
    case KERNEL_pick_index_add:
        return orders(&call->in[1], view_count(&call->in[1]), room);
    case KERNEL_sort_argsort: {
        int64_t length = call->in[0].dims > 0 ? call->in[0].size[call->dim] : 1;
        return length <= ORDER_CHUNK || orders(&call->in[0], length, room);
    }
    default:
        return true;
    }
}

/* The indices of embedding's gradient, of sparse updates and of index_put and index_add in order; named.h says what
 * for. */
#include "plugins/cuda/kernels/named.h"

ON_DEVICE void
sort_names(const struct cpu_call &call, int64_t limit, bool wraps)
{
    struct order order = order_of_indices(call);
    order_chunks(
        order, [&](int64_t, int64_t i) { return named_row(call, limit, wraps, i); },
        [&](int64_t, int64_t i, uint64_t key, uint32_t place) { order_keep(order, 0, i, key, place); });
}

/* Rows of a table, counted from 0. */
KERNEL_OF(names_of_table, struct cpu_call)
{
    sort_names(call, call.out.size[0], false);
}

/* Rows of dimension `dim`, negative ones from its end. */
KERNEL_OF(names_along, struct cpu_call)
{
    sort_names(call, call.out.size[call.dim], true);
}

KERNEL_OF(names_merge, struct cpu_call)
{
    struct order order = order_of_indices(call);
    order_merge(order, 1,
                [&](int64_t, int64_t i, uint64_t key, uint32_t place) { order_keep(order, 1, i, key, place); });
}

KERNEL_OF(names_merge_again, struct cpu_call)
{
    struct order order = order_of_indices(call);
    order_merge(order, 2,
                [&](int64_t, int64_t i, uint64_t key, uint32_t place) { order_keep(order, 0, i, key, place); });
}

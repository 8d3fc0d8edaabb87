/* Rows that indices name, in order: what is done at one row is done in the order of the indices that name it. The
 * indices are sorted stably (order.h); then those of a row follow each other, and threads take a row's columns each.
 *
 * Interface: named_row, order_of_indices for sorting; named_of, named_head, named_end behind it. */
#ifndef CUDA_KERNELS_NAMED_H
#define CUDA_KERNELS_NAMED_H
#include "plugins/cuda/kernels/order.h"
#include "plugins/cuda/kernels/places.h"

#define NAMES_NOTHING UINT64_MAX     /* the key of an index that there is no row for; the last in the order */

/* The sorted indices of the call's second operand. */
struct named { const uint64_t *rows; const uint32_t *positions; int64_t count; };

ON_DEVICE struct order
order_of_indices(const struct cpu_call &call)
{
    return order_of_rows(1, elements_of(call.in[1]), call.workspace);
}

ON_DEVICE struct named
named_of(const struct cpu_call &call)
{
    struct order order = order_of_indices(call);
    int          half = order_merges(order.length) & 1;
    struct named named = { order.keys[half], order.places[half], order.length };
    return named;
}

/* Is entry `at` the first of a row's? */
ON_DEVICE bool
named_head(const struct named &named, int64_t at)
{
    return named.rows[at] != NAMES_NOTHING && (at == 0 || named.rows[at - 1] != named.rows[at]);
}

/* Behind the last entry of that row. */
ON_DEVICE int64_t
named_end(const struct named &named, int64_t at)
{
    int64_t end = at + 1;
    if (end < named.count && named.rows[end] == named.rows[at]) /* most rows are named once */
        end += how_many_before(named.rows + end, named.count - end, named.rows[at], true);
    return end;
}

/* The row of dimension `dim` of the result that index number i names; negative indices count from the end where
 * `wraps`. One that does not exist is reported. */
ON_DEVICE uint64_t
named_row(const struct cpu_call &call, int64_t limit, bool wraps, int64_t i)
{
    int64_t asked = static_cast<const int64_t *>(operand(call, 1))[place_of(call.in[1], i)];
    int64_t row = wraps && asked < 0 ? asked + limit : asked;
    if (row >= 0 && row < limit)
        return (uint64_t)row;
    raise_fault(call.fault, asked, limit);
    return NAMES_NOTHING;
}
#endif

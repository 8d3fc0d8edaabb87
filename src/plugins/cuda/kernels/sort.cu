/* The order of the elements along a dimension, as indices: stable, NaN larger than everything, as tensor/cpu/sort.c
 * says. The elements become keys whose order as whole numbers is theirs; order.h does the rest.
 *
 * In PyTorch: ATen/native/cuda/Sorting.cu. */
#include "plugins/cuda/kernels/order.h"
#include "plugins/cuda/kernels/places.h"

enum { SIGN_BIT = 63 };

/* Zeros are one number, and all NaN are. */
ON_DEVICE uint64_t
key_of_fraction(double x)
{
    uint64_t bits = 0;
    if (x != x)
        return UINT64_MAX;
    x += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &x, sizeof bits);
    return bits >> SIGN_BIT ? ~bits : bits | (uint64_t)1 << SIGN_BIT;
}

ON_DEVICE uint64_t
key_of_whole(int64_t x)
{
    return (uint64_t)x ^ (uint64_t)1 << SIGN_BIT;
}

ON_DEVICE struct order
order_along(const struct cpu_call &call)
{
    const struct cpu_view &view = call.in[0];
    int64_t                length = view.dims > 0 ? view.size[call.dim] : 1;
    return order_of_rows(length > 0 ? elements_of(view) / length : 0, length, call.workspace);
}

ON_DEVICE uint64_t
key_at(const struct cpu_call &call, int64_t row, int64_t i)
{
    const struct cpu_view &view = call.in[0];
    int64_t  at = place_beside(view, (int)call.dim, row) + (view.dims > 0 ? i * view.stride[call.dim] : 0);
    uint64_t key = call.compute == DTYPE_I64 ? key_of_whole(load<int64_t>(operand(call, 0), view.dtype, at))
                                             : key_of_fraction(load<double>(operand(call, 0), view.dtype, at));
    return call.start != 0 ? ~key : key;
}

ON_DEVICE void
put_index(const struct cpu_call &call, int64_t row, int64_t i, uint32_t place)
{
    int64_t at = place_beside(call.out, (int)call.dim, row) + (call.out.dims > 0 ? i * call.out.stride[call.dim] : 0);
    static_cast<int64_t *>(call.out.data)[at] = place;
}

/* start: descending. */
KERNEL_OF(argsort_chunks, struct cpu_call)
{
    struct order order = order_along(call);
    bool         done = order_merges(order.length) == 0;
    order_chunks(
        order, [&](int64_t row, int64_t i) { return key_at(call, row, i); },
        [&](int64_t row, int64_t i, uint64_t key, uint32_t place) {
            if (done)
                put_index(call, row, i, place);
            else
                order_keep(order, 0, row * order.length + i, key, place);
        });
}

KERNEL_OF(argsort_merge, struct cpu_call)
{
    struct order order = order_along(call);
    order_merge(order, 1, [&](int64_t row, int64_t i, uint64_t, uint32_t place) { put_index(call, row, i, place); });
}

KERNEL_OF(argsort_merge_again, struct cpu_call)
{
    struct order order = order_along(call);
    order_merge(order, 2, [&](int64_t row, int64_t i, uint64_t, uint32_t place) { put_index(call, row, i, place); });
}

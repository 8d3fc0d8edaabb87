/* Where the elements of a call's views lie, for kernels that take them by number: operands need not lie in one piece
 * and are read where they are.
 *
 * Interface: operand, place_of, place_beside, place_like; elements and what it answers; element_at, move_element,
 * clear_element, convert_element. In PyTorch: ATen/cuda/detail/OffsetCalculator.cuh. */
#ifndef CUDA_KERNELS_PLACES_H
#define CUDA_KERNELS_PLACES_H
#include "plugins/cuda/kernels/walk.h"

/* The first element of input i; a number of the host's lies in the call itself. */
ON_DEVICE const void *
operand(const struct cpu_call &call, int i)
{
    return call.in[i].data != NULL ? call.in[i].data : &call.constant[i];
}

/* a / b of what is not negative: GPUs divide 32 bits several times as fast as 64. */
ON_DEVICE int64_t
quotient(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32 == 0)
        return (uint32_t)a / (uint32_t)b;
    return a / b;
}

/* Element number `i` of the sizes of one view, counted row by row, in elements from the first of another that has those
 * sizes or larger ones; at index 0 of dimension `without` (-1: of none), over which then nothing is counted. */
CALLED_ON_DEVICE int64_t
place_like(const struct cpu_view &sizes, const struct cpu_view &view, int without, int64_t i)
{
    int64_t place = 0;
    ROLLED for (int d = sizes.dims - 1; d >= 0; d--) {
        if (d == without)
            continue;
        int64_t outer = quotient(i, sizes.size[d]);
        place += (i - outer * sizes.size[d]) * view.stride[d];
        i = outer;
    }
    return place;
}

ON_DEVICE int64_t
place_beside(const struct cpu_view &view, int without, int64_t i)
{
    return place_like(view, view, without, i);
}

ON_DEVICE int64_t
place_of(const struct cpu_view &view, int64_t i)
{
    return place_beside(view, -1, i);
}

/* An operand's elements of type T by number. */
template <typename T> struct Elements {
    const T               *first;
    const struct cpu_view *view;
    bool                   packed;
#ifdef __CUDACC__
    __device__
#endif
    T operator[](int64_t i) const
    {
        return first[packed ? i : place_of(*view, i)];
    }
};

template <typename T> ON_DEVICE Elements<T>
elements(const struct cpu_call &call, int i)
{
    Elements<T> all = { static_cast<const T *>(operand(call, i)), &call.in[i], step_of(call.in[i]) == 1 };
    return all;
}

/* ---- elements of any type ---- */

/* Element number `place` (in elements from `first`) of `bytes` bytes. */
ON_DEVICE void *
element_at(const void *first, int64_t place, size_t bytes)
{
    return static_cast<char *>(const_cast<void *>(first)) + place * static_cast<int64_t>(bytes);
}

ON_DEVICE void
move_element(void *to, const void *from, size_t bytes)
{
    switch (bytes) {
    case 1:  *static_cast<uint8_t *>(to) = *static_cast<const uint8_t *>(from); break;
    case 2:  *static_cast<uint16_t *>(to) = *static_cast<const uint16_t *>(from); break;
    case 4:  *static_cast<uint32_t *>(to) = *static_cast<const uint32_t *>(from); break;
    default: *static_cast<uint64_t *>(to) = *static_cast<const uint64_t *>(from); break;
    }
}

ON_DEVICE void
clear_element(void *to, size_t bytes)
{
    const uint64_t nothing = 0;
    move_element(to, &nothing, bytes);
}

/* As tensor/cpu/convert.def says for each pair of types: integers by way of int64, the short fractions by float32. */
ON_DEVICE void
convert_element(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype)
{
    if (to_dtype == from_dtype)
        move_element(to, from, dtype_size(to_dtype));
    else if (!dtype_is_float(from_dtype))
        store<int64_t>(to, to_dtype, 0, load<int64_t>(from, from_dtype, 0));
    else if (from_dtype == DTYPE_F64)
        store<double>(to, to_dtype, 0, load<double>(from, from_dtype, 0));
    else
        store<float>(to, to_dtype, 0, load<float>(from, from_dtype, 0));
}
#endif

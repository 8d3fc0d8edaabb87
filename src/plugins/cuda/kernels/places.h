/* Where the elements of a call's views lie, for kernels that take them by number: operands need not lie in one piece and
 * are read where they are.
 *
 * Interface: operand, view_size, place_of, place_beside, Elements; element_at, real_at, move_element,
 * clear_element.
 * In PyTorch: ATen/cuda/detail/OffsetCalculator.cuh. */
#ifndef CUDA_KERNELS_PLACES_H
#define CUDA_KERNELS_PLACES_H
#include "base/number.h"
#include "plugins/cuda/kernels/device.h"

/* What is not the quick way stands once in a kernel, not in each of its loops. */
#ifdef __CUDACC__
#define APART static __device__ __noinline__
#else
#define APART static inline __attribute__((noinline))
#endif

/* The first element of input i; a number of the host's lies in the call itself. */
ON_DEVICE const void *
operand(const struct cpu_call &call, int i)
{
    return call.in[i].data != NULL ? call.in[i].data : &call.constant[i];
}

ON_DEVICE int64_t
view_size(const struct cpu_view &view)
{
    int64_t count = 1;
    for (int d = 0; d < view.dims; d++)
        count *= view.size[d];
    return count;
}

/* a / b of what is not negative: GPUs divide 32 bits several times as fast as 64. */
ON_DEVICE int64_t
quotient(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32 == 0)
        return (uint32_t)a / (uint32_t)b;
    return a / b;
}

/* In elements from the first: element number `i`, counted row by row; at index 0 of dimension `without` (-1: of none),
 * over which then nothing is counted. */
APART int64_t
place_beside(const struct cpu_view &view, int without, int64_t i)
{
    int64_t place = 0;
    for (int d = view.dims; d-- > 0;) {
        if (d == without)
            continue;
        int64_t outer = quotient(i, view.size[d]);
        place += (i - outer * view.size[d]) * view.stride[d];
        i = outer;
    }
    return place;
}

ON_DEVICE int64_t
place_of(const struct cpu_view &view, int64_t i)
{
    return place_beside(view, -1, i);
}

/* No elements lie in one piece, as in base/shape.h. */
ON_DEVICE bool
lies_packed(const struct cpu_view &view)
{
    int64_t step = 1;
    bool    lies = true;
    for (int d = view.dims; d-- > 0;) {
        if (view.size[d] == 0)
            return true;
        lies = lies && (view.size[d] == 1 || view.stride[d] == step);
        step *= view.size[d];
    }
    return lies;
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
    Elements<T> all = { static_cast<const T *>(operand(call, i)), &call.in[i], lies_packed(call.in[i]) };
    return all;
}

/* ---- elements of any type ---- */

/* Element number `place` (in elements from `first`) of `bytes` bytes. */
ON_DEVICE void *
element_at(const void *first, int64_t place, size_t bytes)
{
    return static_cast<char *>(const_cast<void *>(first)) + place * static_cast<int64_t>(bytes);
}

/* An element of any type as float or double, converted as tensor/cpu/convert.def says. */
template <typename T> ON_DEVICE T
real_at(const void *first, enum dtype dtype, int64_t place)
{
    switch (dtype) {
    case DTYPE_F32:  return (T)static_cast<const float *>(first)[place];
    case DTYPE_F64:  return (T)static_cast<const double *>(first)[place];
    case DTYPE_I64:  return (T)static_cast<const int64_t *>(first)[place];
    case DTYPE_BOOL: return (T)(static_cast<const uint8_t *>(first)[place] != 0);
    case DTYPE_I32:  return (T)static_cast<const int32_t *>(first)[place];
    case DTYPE_U8:   return (T)static_cast<const uint8_t *>(first)[place];
    case DTYPE_F16:  return (T)float_of_half(static_cast<const uint16_t *>(first)[place]);
    case DTYPE_BF16: return (T)float_of_bfloat(static_cast<const uint16_t *>(first)[place]);
    default:         return (T)static_cast<const int8_t *>(first)[place];
    }
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
#endif

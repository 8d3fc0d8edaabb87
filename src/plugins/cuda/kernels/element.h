/* One element of a view as what is calculated in (float, double, int64_t), and back: tensor/cpu/convert.h's loops for
 * one element, from the same rows.
 *
 * Interface: load, store, rounded_to. */
#ifndef CUDA_KERNELS_ELEMENT_H
#define CUDA_KERNELS_ELEMENT_H
#include "base/number.h"
#include "plugins/cuda/kernels/device.h"
#include "plugins/cuda/kernels/rolled.h"

template <int from, int to> struct conversion;
#define CONVERT(from_type, from_c, to_type, to_c, expression)                                                      \
    template <> struct conversion<DTYPE_##from_type, DTYPE_##to_type> {                                            \
        typedef from_c source;                                                                                     \
        typedef to_c   target;                                                                                     \
        ON_DEVICE target of(source x) { return (target)(expression); }                                             \
    };
#include "tensor/cpu/convert.def"
#undef CONVERT

template <typename T> struct dtype_of;
template <> struct dtype_of<float> { enum { IS = DTYPE_F32 }; };
template <> struct dtype_of<double> { enum { IS = DTYPE_F64 }; };
template <> struct dtype_of<int64_t> { enum { IS = DTYPE_I64 }; };

/* Any element as one of the two widest types, of which fractions become double and the others int64_t: neither loses
 * anything, so that a type more is not a copy of all conversions more. */
union widest { double fraction; int64_t whole; };

template <int from, typename T> ON_DEVICE T
load_from(const void *data, int64_t index)
{
    typedef conversion<from, dtype_of<T>::IS> way;
    return way::of(static_cast<const typename way::source *>(data)[index]);
}

template <int to, typename T> ON_DEVICE void
store_to(void *data, int64_t index, T value)
{
    typedef conversion<dtype_of<T>::IS, to> way;
    static_cast<typename way::target *>(data)[index] = way::of(value);
}

CALLED_ON_DEVICE union widest
load_widest(const void *data, enum dtype dtype, int64_t index)
{
    union widest x;
    switch (dtype) {
    case DTYPE_F32:  x.fraction = load_from<DTYPE_F32, double>(data, index); break;
    case DTYPE_F64:  x.fraction = load_from<DTYPE_F64, double>(data, index); break;
    case DTYPE_F16:  x.fraction = load_from<DTYPE_F16, double>(data, index); break;
    case DTYPE_BF16: x.fraction = load_from<DTYPE_BF16, double>(data, index); break;
    case DTYPE_I64:  x.whole = load_from<DTYPE_I64, int64_t>(data, index); break;
    case DTYPE_BOOL: x.whole = load_from<DTYPE_BOOL, int64_t>(data, index); break;
    case DTYPE_I32:  x.whole = load_from<DTYPE_I32, int64_t>(data, index); break;
    case DTYPE_U8:   x.whole = load_from<DTYPE_U8, int64_t>(data, index); break;
    default:         x.whole = load_from<DTYPE_I8, int64_t>(data, index); break;
    }
    return x;
}

/* T: double or int64_t. */
template <typename T> CALLED_ON_DEVICE void
store_widest(void *data, enum dtype dtype, int64_t index, T value)
{
    switch (dtype) {
    case DTYPE_F32:  store_to<DTYPE_F32, T>(data, index, value); break;
    case DTYPE_F64:  store_to<DTYPE_F64, T>(data, index, value); break;
    case DTYPE_I64:  store_to<DTYPE_I64, T>(data, index, value); break;
    case DTYPE_BOOL: store_to<DTYPE_BOOL, T>(data, index, value); break;
    case DTYPE_I32:  store_to<DTYPE_I32, T>(data, index, value); break;
    case DTYPE_U8:   store_to<DTYPE_U8, T>(data, index, value); break;
    case DTYPE_F16:  store_to<DTYPE_F16, T>(data, index, value); break;
    case DTYPE_BF16: store_to<DTYPE_BF16, T>(data, index, value); break;
    default:         store_to<DTYPE_I8, T>(data, index, value); break;
    }
}
ON_DEVICE void
store_wide(void *data, enum dtype dtype, int64_t index, float value)
{
    store_widest<double>(data, dtype, index, value);
}
ON_DEVICE void
store_wide(void *data, enum dtype dtype, int64_t index, double value)
{
    store_widest<double>(data, dtype, index, value);
}
ON_DEVICE void
store_wide(void *data, enum dtype dtype, int64_t index, int64_t value)
{
    store_widest<int64_t>(data, dtype, index, value);
}

/* Number `index` of the elements at `data`. */
template <typename T> ON_DEVICE T
load(const void *data, enum dtype dtype, int64_t index)
{
    if ((int)dtype == (int)dtype_of<T>::IS)
        return static_cast<const T *>(data)[index];
    union widest x = load_widest(data, dtype, index);
    return dtype_is_float(dtype) ? conversion<DTYPE_F64, dtype_of<T>::IS>::of(x.fraction)
                                 : conversion<DTYPE_I64, dtype_of<T>::IS>::of(x.whole);
}

template <typename T> ON_DEVICE void
store(void *data, enum dtype dtype, int64_t index, T value)
{
    if ((int)dtype == (int)dtype_of<T>::IS)
        static_cast<T *>(data)[index] = value;
    else
        store_wide(data, dtype, index, value);
}

/* The value that is left when an element of a narrower type has held it. */
template <typename T> ON_DEVICE T
rounded_to(enum dtype dtype, T value)
{
    uint64_t element = 0;
    store_wide(&element, dtype, 0, value);
    return load<T>(&element, dtype, 0);
}
#endif

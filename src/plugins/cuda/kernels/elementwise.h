/* What elementwise kernels share: tensor/cpu/elementwise.c for a thread an element. A row of a .def file becomes a
 * struct with a function `of` (EACH); a kernel takes one for each type that is calculated in.
 *
 * Interface: EACH, elementwise. In PyTorch: ATen/native/cuda/Loops.cuh. */
#ifndef CUDA_KERNELS_ELEMENTWISE_H
#define CUDA_KERNELS_ELEMENTWISE_H
#include "plugins/cuda/kernels/element.h"
#include "plugins/cuda/kernels/walk.h"

/* x, y, z: an element of each input; a, b: alpha and beta. */
#define EACH(name, type, expression)                                                                               \
    struct name {                                                                                                  \
        ON_DEVICE type                                                                                             \
        of([[maybe_unused]] type x, [[maybe_unused]] type y, [[maybe_unused]] type z, [[maybe_unused]] type a,     \
           [[maybe_unused]] type b)                                                                                \
        {                                                                                                          \
            return (type)(expression);                                                                             \
        }                                                                                                          \
    };

/* What one thread loads and stores at once. */
template <typename T> struct alignas(16) pack { T element[16 / sizeof(T)]; };

ON_DEVICE bool
is_aligned(const void *data)
{
    return (reinterpret_cast<uintptr_t>(data) & 15) == 0;
}

template <typename T> struct numbers { T a, b; };

/* All views in one piece and of the type calculated in. out may be an input. */
template <typename T, typename each, int inputs> ON_DEVICE void
plain_elements(const struct cpu_call &call, int64_t count, struct numbers<T> n)
{
    enum { WIDTH = 16 / sizeof(T) };
    T       *out = static_cast<T *>(call.out.data);
    const T *in[3] = { out, out, out };
    bool     packed = is_aligned(out);
    for (int v = 0; v < inputs; v++) {
        in[v]  = static_cast<const T *>(call.in[v].data);
        packed = packed && is_aligned(in[v]);
    }
    int64_t packs = packed ? count / WIDTH : 0;
    ROLLED for (int64_t i = first_item(); i < packs; i += item_step()) {
        struct pack<T> x[3] = {}, result;
        for (int v = 0; v < inputs; v++)
            x[v] = reinterpret_cast<const struct pack<T> *>(in[v])[i];
        for (int j = 0; j < (int)WIDTH; j++)
            result.element[j] = each::of(x[0].element[j], x[1].element[j], x[2].element[j], n.a, n.b);
        reinterpret_cast<struct pack<T> *>(out)[i] = result;
    }
    ROLLED for (int64_t i = packs * WIDTH + first_item(); i < count; i += item_step()) {
        T x[3] = {};
        for (int v = 0; v < inputs; v++)
            x[v] = in[v][i];
        out[i] = each::of(x[0], x[1], x[2], n.a, n.b);
    }
}

/* An operand's elements; a 0-dim one of the host lies in the call. */
ON_DEVICE const void *
operand(const struct cpu_call &call, int i)
{
    return call.in[i].data != NULL ? call.in[i].data : static_cast<const void *>(&call.constant[i]);
}

/* Operands become a narrower common type before they are calculated with; fractions never become integers so. */
ON_DEVICE bool
is_narrow(const struct cpu_call &call)
{
    return call.common != call.compute && dtype_wide(call.common) == call.compute;
}

/* A number of the op as PyTorch has it: one of the common type, unless it scales. */
template <typename T> ON_DEVICE T
common_number(const struct cpu_call &call, double number, bool scales)
{
    T value = conversion<DTYPE_F64, dtype_of<T>::IS>::of(number);
    return call.compute == DTYPE_F32 && is_narrow(call) && !scales ? rounded_to<T>(call.common, value) : value;
}

/* y, which scales, has no dimensions: it stays as wide as it is. */
ON_DEVICE bool
is_one_scale(const struct cpu_call &call)
{
    bool still = true;
    ROLLED for (int d = 0; d < call.out.dims; d++)
        still = still && call.in[1].stride[d] == 0;
    return still;
}

template <typename T, typename each, int inputs, bool scales> ON_DEVICE void
any_elements(const struct cpu_call &call, const struct walk<inputs + 1> *walk)
{
    const bool narrow = is_narrow(call), wide_y = scales && inputs == 2 && is_one_scale(call);
    T          a = common_number<T>(call, call.alpha, scales), b = common_number<T>(call, call.beta, false);
    ROLLED for (int64_t i = first_item(); i < walk->count; i += item_step()) {
        struct places<inputs + 1> places = walk_at<inputs + 1>(walk, i);
        T                         x[3] = {};
        for (int v = 0; v < inputs; v++) {
            x[v] = load<T>(operand(call, v), call.in[v].dtype, places.at[v + 1]);
            if (narrow && call.in[v].dtype != call.common && !(v == 1 && wide_y))
                x[v] = rounded_to<T>(call.common, x[v]);
        }
        store<T>(call.out.data, call.out.dtype, places.at[0], each::of(x[0], x[1], x[2], a, b));
    }
}

template <typename T, typename each, int inputs, bool scales> ON_DEVICE void
elementwise_as(const struct cpu_call &call)
{
    struct walk<inputs + 1> walk;
    bool                    same = (int)call.out.dtype == (int)dtype_of<T>::IS;
    walk.view[0] = &call.out;
    for (int v = 0; v < inputs; v++) {
        walk.view[v + 1] = &call.in[v];
        same = same && (int)call.in[v].dtype == (int)dtype_of<T>::IS && call.in[v].data != NULL;
    }
    walk_begin<inputs + 1>(&walk);
    struct numbers<T> n = { conversion<DTYPE_F64, dtype_of<T>::IS>::of(call.alpha),
                            conversion<DTYPE_F64, dtype_of<T>::IS>::of(call.beta) };
    if (same && walk.is_plain)
        plain_elements<T, each, inputs>(call, walk.count, n);
    else
        any_elements<T, each, inputs, scales>(call, &walk);
}

template <typename floats, typename doubles, int inputs> ON_DEVICE void
elementwise_fractions(const struct cpu_call &call)
{
    if (call.compute == DTYPE_F32)
        elementwise_as<float, floats, inputs, false>(call);
    else
        elementwise_as<double, doubles, inputs, false>(call);
}

template <typename floats, typename doubles, typename integers, int inputs, bool scales> ON_DEVICE void
elementwise(const struct cpu_call &call)
{
    if (call.compute == DTYPE_F32)
        elementwise_as<float, floats, inputs, scales>(call);
    else if (call.compute == DTYPE_F64)
        elementwise_as<double, doubles, inputs, scales>(call);
    else
        elementwise_as<int64_t, integers, inputs, scales>(call);
}
#endif

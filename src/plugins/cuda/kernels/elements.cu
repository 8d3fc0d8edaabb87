/* What collectives do to elements in one piece, a thread an element: c10d/reduce.c. In PyTorch: NCCL's reduction
 * kernels. */
#include "c10d/reduce_bodies.h"
#include "plugins/cuda/kernels/elementwise.h"
#include "tensor/cpu/elements.h"

/* Of floats as of doubles: sums and products of two are the same when they are rounded twice, from double. */
template <typename T> ON_DEVICE T
reduced(int op, T x, T y)
{
    switch (op) {
    case TRANSPORT_PRODUCT: return x * y;
    case TRANSPORT_MIN:     return y < x ? y : x;
    case TRANSPORT_MAX:     return y > x ? y : x;
    default:                return x + y;
    }
}

template <typename T> ON_DEVICE void
reduce_plain(const struct elements_job &job)
{
    enum { WIDTH = 16 / sizeof(T) };
    T      *into = static_cast<T *>(job.into);
    const T *from = static_cast<const T *>(job.from);
    int64_t count = (int64_t)(job.bytes / sizeof(T)), packs = is_aligned(into) && is_aligned(from) ? count / WIDTH : 0;
    for (int64_t i = first_item(); i < packs; i += item_step()) {
        struct pack<T> x = reinterpret_cast<struct pack<T> *>(into)[i];
        struct pack<T> y = reinterpret_cast<const struct pack<T> *>(from)[i];
        for (int j = 0; j < (int)WIDTH; j++)
            x.element[j] = reduced<T>(job.op, x.element[j], y.element[j]);
        reinterpret_cast<struct pack<T> *>(into)[i] = x;
    }
    for (int64_t i = packs * WIDTH + first_item(); i < count; i += item_step())
        into[i] = reduced<T>(job.op, into[i], from[i]);
}

/* Shorter types are cut to size each time; half precision is calculated in double. */
ON_DEVICE void
reduce_any(const struct elements_job &job)
{
    const bool    fractions = dtype_is_float(job.dtype);
    const int     op = job.dtype == DTYPE_BOOL ? op_of_truth(job.op) : job.op;
    const int64_t count = (int64_t)(job.bytes / dtype_size(job.dtype));
    ROLLED for (int64_t i = first_item(); i < count; i += item_step()) {
        if (fractions)
            store<double>(job.into, job.dtype, i, reduced_fraction(op, load<double>(job.into, job.dtype, i),
                                                                   load<double>(job.from, job.dtype, i)));
        else
            store<int64_t>(job.into, job.dtype, i, reduced_whole(op, load<int64_t>(job.into, job.dtype, i),
                                                                 load<int64_t>(job.from, job.dtype, i)));
    }
}

/* Rounded to the type: equal bits stay equal. */
ON_DEVICE void
average(const struct elements_job &job)
{
    const int64_t count = (int64_t)(job.bytes / dtype_size(job.dtype));
    ROLLED for (int64_t i = first_item(); i < count; i += item_step()) {
        if (job.dtype == DTYPE_F32)
            static_cast<float *>(job.into)[i] /= (float)job.ranks;
        else
            store<double>(job.into, job.dtype, i, load<double>(job.into, job.dtype, i) / job.ranks);
    }
}

ON_DEVICE void
multiply(const struct elements_job &job)
{
    const bool    fractions = dtype_is_float(job.dtype);
    const int64_t count = (int64_t)(job.bytes / dtype_size(job.dtype));
    ROLLED for (int64_t i = first_item(); i < count; i += item_step()) {
        if (fractions)
            store<double>(job.into, job.dtype, i, load<double>(job.into, job.dtype, i) * job.factor);
        else
            store<int64_t>(job.into, job.dtype, i,
                           (int64_t)((uint64_t)load<int64_t>(job.into, job.dtype, i) * (uint64_t)(int64_t)job.factor));
    }
}

KERNEL_OF(reduce, struct elements_job)
{
    const struct elements_job &job = call;
    if (job.work == ELEMENTS_AVERAGE)
        average(job);
    else if (job.work == ELEMENTS_MULTIPLY)
        multiply(job);
    else if (job.dtype == DTYPE_F32)
        reduce_plain<float>(job);
    else if (job.dtype == DTYPE_F64)
        reduce_plain<double>(job);
    else
        reduce_any(job);
}

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

/* ---- everybody's at once ---- */

/* What one rank adds. */
template <typename T> ON_DEVICE T
added(const struct all_reduce_job &job, T x)
{
    return job.work == ELEMENTS_MULTIPLY ? (T)((double)x * job.factor) : x;
}

template <typename T> ON_DEVICE T
outcome(const struct all_reduce_job &job, T sum)
{
    return job.work == ELEMENTS_AVERAGE ? sum / (T)job.ranks : sum;
}

template <typename T> ON_DEVICE bool
lie_for_packs(const struct all_reduce_job &job)
{
    bool aligned = true;
    ROLLED for (int r = 0; r < job.ranks; r++)
        aligned = aligned && is_aligned(job.data[r]);
    return aligned;
}

/* As many elements as one thread loads and stores at once. */
template <typename T> ON_DEVICE void
all_reduce_pack(const struct all_reduce_job &job, int64_t i)
{
    enum { WIDTH = 16 / sizeof(T) };
    struct pack<T> sum = static_cast<const struct pack<T> *>(job.data[0])[i];
    for (int j = 0; j < (int)WIDTH; j++)
        sum.element[j] = added<T>(job, sum.element[j]);
    ROLLED for (int r = 1; r < job.ranks; r++) {
        struct pack<T> x = static_cast<const struct pack<T> *>(job.data[r])[i];
        for (int j = 0; j < (int)WIDTH; j++)
            sum.element[j] = reduced<T>(job.op, added<T>(job, x.element[j]), sum.element[j]);
    }
    for (int j = 0; j < (int)WIDTH; j++)
        sum.element[j] = outcome<T>(job, sum.element[j]);
    ROLLED for (int r = 0; r < job.ranks; r++)
        static_cast<struct pack<T> *>(job.data[r])[i] = sum;
}

template <typename T> ON_DEVICE void
all_reduce_plain(const struct all_reduce_job &job)
{
    enum { WIDTH = 16 / sizeof(T) };
    const int64_t count = (int64_t)(job.bytes / sizeof(T)), packs = lie_for_packs<T>(job) ? count / WIDTH : 0;
    ROLLED for (int64_t i = first_item(); i < packs; i += item_step())
        all_reduce_pack<T>(job, i);
    ROLLED for (int64_t i = packs * WIDTH + first_item(); i < count; i += item_step()) {
        T sum = added<T>(job, static_cast<const T *>(job.data[0])[i]);
        for (int r = 1; r < job.ranks; r++)
            sum = reduced<T>(job.op, added<T>(job, static_cast<const T *>(job.data[r])[i]), sum);
        for (int r = 0; r < job.ranks; r++)
            static_cast<T *>(job.data[r])[i] = outcome<T>(job, sum);
    }
}

/* Half precision, calculated in double and rounded each time. */
ON_DEVICE double
added_fraction(const struct all_reduce_job &job, int r, int64_t i)
{
    double x = load<double>(job.data[r], job.dtype, i);
    return job.work == ELEMENTS_MULTIPLY ? rounded_to<double>(job.dtype, x * job.factor) : x;
}

ON_DEVICE void
all_reduce_fraction(const struct all_reduce_job &job, int64_t i)
{
    double sum = added_fraction(job, 0, i);
    ROLLED for (int r = 1; r < job.ranks; r++)
        sum = rounded_to<double>(job.dtype, reduced_fraction(job.op, added_fraction(job, r, i), sum));
    ROLLED for (int r = 0; r < job.ranks; r++)
        store<double>(job.data[r], job.dtype, i, outcome<double>(job, sum));
}

ON_DEVICE int64_t
added_whole(const struct all_reduce_job &job, int r, int64_t i)
{
    int64_t x = load<int64_t>(job.data[r], job.dtype, i);
    return job.work == ELEMENTS_MULTIPLY
               ? rounded_to<int64_t>(job.dtype, (int64_t)((uint64_t)x * (uint64_t)(int64_t)job.factor)) : x;
}

ON_DEVICE void
all_reduce_whole(const struct all_reduce_job &job, int64_t i)
{
    const int op  = job.dtype == DTYPE_BOOL ? op_of_truth(job.op) : job.op;
    int64_t   sum = added_whole(job, 0, i);
    ROLLED for (int r = 1; r < job.ranks; r++)
        sum = rounded_to<int64_t>(job.dtype, reduced_whole(op, added_whole(job, r, i), sum));
    ROLLED for (int r = 0; r < job.ranks; r++)
        store<int64_t>(job.data[r], job.dtype, i, sum);
}

KERNEL_OF(all_reduce, struct all_reduce_job)
{
    const struct all_reduce_job &job = call;
    const int64_t                count = (int64_t)(job.bytes / dtype_size(job.dtype));
    if (job.dtype == DTYPE_F32)
        all_reduce_plain<float>(job);
    else if (job.dtype == DTYPE_F64)
        all_reduce_plain<double>(job);
    else if (dtype_is_float(job.dtype))
        ROLLED for (int64_t i = first_item(); i < count; i += item_step())
            all_reduce_fraction(job, i);
    else
        ROLLED for (int64_t i = first_item(); i < count; i += item_step())
            all_reduce_whole(job, i);
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

/* softmax and log_softmax along a dimension, and their gradients: a team for each row (team.h). float32 is summed in
 * sixteen lanes, float64 from the first element to the last, as in tensor/cpu/softmax.c.
 *
 * In PyTorch: ATen/native/cuda/SoftMax.cu. */
#include "plugins/cuda/kernels/places.h"
#include "plugins/cuda/kernels/reals.h"
#include "plugins/cuda/kernels/team.h"

template <typename T> struct Summed { enum { LANES = 16 }; };
template <> struct Summed<double> { enum { LANES = 1 }; };

/* The elements of one row, `step` of them apart. */
template <typename T> struct Row {
    T      *at;
    int64_t step;
#ifdef __CUDACC__
    __device__
#endif
    T &operator[](int64_t i) const
    {
        return at[i * step];
    }
};

template <typename T> ON_DEVICE Row<T>
row_of(const struct cpu_view &view, void *data, int dim, int64_t number)
{
    Row<T> row = { static_cast<T *>(data) + place_beside(view, dim, number), view.dims > 0 ? view.stride[dim] : 0 };
    return row;
}

template <typename T> ON_DEVICE Row<const T>
row_in(const struct cpu_call &call, int i, int64_t number)
{
    const struct cpu_view &view = call.in[i];
    int                    dim = (int)call.dim;
    Row<const T> row = { static_cast<const T *>(operand(call, i)) + place_beside(view, dim, number),
                         view.dims > 0 ? view.stride[dim] : 0 };
    return row;
}

struct extent { int64_t rows, count; };

ON_DEVICE struct extent
extent_of(const struct cpu_call &call)
{
    int64_t       all = elements_of(call.out), count = call.out.dims > 0 ? call.out.size[call.dim] : 1;
    struct extent extent = { count > 0 ? all / count : 0, count };
    return extent;
}

ON_DEVICE float  share(float part, float whole) { return part * (1 / whole); }
ON_DEVICE double share(double part, double whole) { return part / whole; }

template <typename T> ON_DEVICE void
softmax_rows(const struct cpu_call &call)
{
    struct extent all = extent_of(call);
    for (struct teams at = teams_first(all.rows, all.count); teams_more(at); teams_next(at)) {
        int64_t      number = at.works ? at.row : 0;
        Row<const T> x = row_in<T>(call, 0, number);
        Row<T>       out = row_of<T>(call.out, call.out.data, (int)call.dim, number);
        T most = team_largest<T>(at, all.count, [&](int64_t i) { return x[i]; });
        T sum = team_sum<T, Summed<T>::LANES>(at, all.count, [&](int64_t i) { return out[i] = real_exp(x[i] - most); });
        for (int64_t i = at.member; at.works && i < all.count; i += at.size)
            out[i] = share(out[i], sum);
    }
}

template <typename T> ON_DEVICE void
log_softmax_rows(const struct cpu_call &call)
{
    struct extent all = extent_of(call);
    for (struct teams at = teams_first(all.rows, all.count); teams_more(at); teams_next(at)) {
        int64_t      number = at.works ? at.row : 0;
        Row<const T> x = row_in<T>(call, 0, number);
        Row<T>       out = row_of<T>(call.out, call.out.data, (int)call.dim, number);
        T most = team_largest<T>(at, all.count, [&](int64_t i) { return x[i]; });
        T sum = team_sum<T, Summed<T>::LANES>(at, all.count, [&](int64_t i) { return real_exp(x[i] - most); });
        T norm = (T)math_log((double)sum);
        for (int64_t i = at.member; at.works && i < all.count; i += at.size)
            out[i] = x[i] - most - norm;
    }
}

/* y * (grad - sum of grad * y) */
template <typename T> ON_DEVICE void
softmax_gradients(const struct cpu_call &call)
{
    struct extent all = extent_of(call);
    for (struct teams at = teams_first(all.rows, all.count); teams_more(at); teams_next(at)) {
        int64_t      number = at.works ? at.row : 0;
        Row<const T> g = row_in<T>(call, 0, number), y = row_in<T>(call, 1, number);
        Row<T>       out = row_of<T>(call.out, call.out.data, (int)call.dim, number);
        T sum = team_sum<T, Summed<T>::LANES>(at, all.count, [&](int64_t i) { return g[i] * y[i]; });
        for (int64_t i = at.member; at.works && i < all.count; i += at.size)
            out[i] = y[i] * (g[i] - sum);
    }
}

/* grad - softmax * (sum of grad) */
template <typename T> ON_DEVICE void
log_softmax_gradients(const struct cpu_call &call)
{
    struct extent all = extent_of(call);
    for (struct teams at = teams_first(all.rows, all.count); teams_more(at); teams_next(at)) {
        int64_t      number = at.works ? at.row : 0;
        Row<const T> g = row_in<T>(call, 0, number), y = row_in<T>(call, 1, number);
        Row<T>       out = row_of<T>(call.out, call.out.data, (int)call.dim, number);
        T sum = team_sum<T, Summed<T>::LANES>(at, all.count, [&](int64_t i) { return g[i]; });
        for (int64_t i = at.member; at.works && i < all.count; i += at.size)
            out[i] = g[i] - real_exp(y[i]) * sum;
    }
}

KERNEL_OF(softmax, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        softmax_rows<float>(call);
    else
        softmax_rows<double>(call);
}

KERNEL_OF(log_softmax, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        log_softmax_rows<float>(call);
    else
        log_softmax_rows<double>(call);
}

KERNEL_OF(softmax_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        softmax_gradients<float>(call);
    else
        softmax_gradients<double>(call);
}

KERNEL_OF(log_softmax_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        log_softmax_gradients<float>(call);
    else
        log_softmax_gradients<double>(call);
}

/* Pooling over windows of planes: a thread for each window, of the gradients for each element of a plane, or a block
 * for each plane where several windows may have chosen one place: their gradients are added in the order of the
 * windows, as in tensor/cpu/pool.c.
 *
 * In PyTorch: ATen/native/cuda/DilatedMaxPool2d.cu, AveragePool2d.cu, AdaptiveAveragePooling.cu. */
#include "plugins/cuda/kernels/ordered.h"
#include "plugins/cuda/kernels/places.h"
#include "tensor/cpu/pool.h"

struct grid { int64_t planes, area; };

ON_DEVICE struct grid
grid_of(const struct cpu_view &view)
{
    struct grid grid = { 1, view.size[view.dims - 1] * view.size[view.dims - 2] };
    for (int d = 0; d < view.dims - 2; d++)
        grid.planes *= view.size[d];
    return grid;
}

/* The place of the largest in the window whose first element would lie at (y0, x0); 0 if it lies outside. Of equals the
 * first is taken, NaN before all. */
template <typename T> ON_DEVICE int64_t
largest(const Elements<T> &x, int64_t plane, const struct window &s, int64_t y0, int64_t x0)
{
    int64_t best = -1;
    T       most = 0;
    for (int64_t i = 0; i < s.kh; i++) {
        int64_t y = y0 + i * s.dh;
        if (y < 0 || y >= s.h)
            continue;
        for (int64_t j = 0; j < s.kw; j++) {
            int64_t at = x0 + j * s.dw;
            if (at < 0 || at >= s.w)
                continue;
            T here = x[plane + y * s.w + at];
            if (best < 0 || here > most || here != here) {
                best = y * s.w + at;
                most = here;
            }
        }
    }
    return best < 0 ? 0 : best;
}

template <typename T> ON_DEVICE void
indices(const struct cpu_call &call)
{
    struct window s = window_of(&call, &call.in[0], &call.out);
    struct grid   grid = grid_of(call.out);
    Elements<T>   x = elements<T>(call, 0);
    for (int64_t i = first_item(); i < grid.planes * grid.area; i += item_step()) {
        int64_t plane = quotient(i, grid.area), o = i - plane * grid.area, row = quotient(o, s.ow);
        static_cast<int64_t *>(call.out.data)[i] =
            largest(x, plane * s.h * s.w, s, row * s.sh - s.ph, (o - row * s.ow) * s.sw - s.pw);
    }
}

/* in: planes, places. A place outside the plane is reported, and its element 0. */
template <typename T> ON_DEVICE void
pick(const struct cpu_call &call)
{
    struct grid       from = grid_of(call.in[0]), to = grid_of(call.out);
    Elements<T>       x = elements<T>(call, 0);
    Elements<int64_t> places = elements<int64_t>(call, 1);
    for (int64_t i = first_item(); i < to.planes * to.area; i += item_step()) {
        int64_t place = places[i];
        bool    inside = place >= 0 && place < from.area;
        if (!inside)
            raise_fault(call.fault, place, from.area);
        static_cast<T *>(call.out.data)[i] = inside ? x[quotient(i, to.area) * from.area + place] : (T)0;
    }
}

/* in: gradient, places. */
template <typename T> ON_DEVICE void
put(const struct cpu_call &call)
{
    struct grid       from = grid_of(call.in[0]), to = grid_of(call.out);
    Elements<T>       grad = elements<T>(call, 0);
    Elements<int64_t> places = elements<int64_t>(call, 1);
    for (int64_t p = block_index(); p < to.planes; p += block_count()) {
        T *plane = static_cast<T *>(call.out.data) + p * to.area;
        for (int64_t i = thread_index(); i < to.area; i += BLOCK_THREADS)
            plane[i] = 0;
        block_barrier();
        in_order(
            from.area, [&](int64_t i) { return inside_or_none(call, places[p * from.area + i], to.area); },
            [&](int64_t place, int64_t i) { plane[place] += grad[p * from.area + i]; });
    }
}

template <typename T> ON_DEVICE void
average(const struct cpu_call &call)
{
    struct window s = window_of(&call, &call.in[0], &call.out);
    struct grid   grid = grid_of(call.out);
    Elements<T>   x = elements<T>(call, 0);
    for (int64_t i = first_item(); i < grid.planes * grid.area; i += item_step()) {
        int64_t     plane = quotient(i, grid.area), o = i - plane * grid.area, row = quotient(o, s.ow);
        struct span y = pool_span(&s, row, true), at = pool_span(&s, o - row * s.ow, false);
        T           sum = 0;
        for (int64_t j = y.from; j < y.to; j++) {
            for (int64_t k = at.from; k < at.to; k++)
                sum += x[plane * s.h * s.w + j * s.w + k];
        }
        static_cast<T *>(call.out.data)[i] = sum / (T)(y.divisor * at.divisor);
    }
}

/* Outputs of one dimension that may reach element `i` of it: from `from` to before `to`, a few too many. */
ON_DEVICE struct span
reaching(const struct window &s, int64_t i, bool rows)
{
    int64_t     size = rows ? s.h : s.w, outs = rows ? s.oh : s.ow, stride = rows ? s.sh : s.sw;
    int64_t     pad = rows ? s.ph : s.pw, kernel = rows ? s.kh : s.kw;
    struct span reach = { 0, outs, 0 };
    if (s.mode == AVERAGE_ADAPTIVE) {
        reach.from = i * outs / size - 1;
        reach.to   = (i + 1) * outs / size + 2;
    } else {
        reach.from = (i + pad - kernel) / stride;
        reach.to   = (i + pad) / stride + 1;
    }
    reach.from = reach.from > 0 ? reach.from : 0;
    reach.to   = reach.to < outs ? reach.to : outs;
    return reach;
}

/* Each element adds the parts of the windows that reach it, in their order. */
template <typename T> ON_DEVICE T
spread_to(const Elements<T> &grad, int64_t first, const struct window &s, int64_t y, int64_t x)
{
    struct span rows = reaching(s, y, true), columns = reaching(s, x, false);
    T           sum = 0;
    for (int64_t i = rows.from; i < rows.to; i++) {
        struct span high = pool_span(&s, i, true);
        if (y < high.from || y >= high.to)
            continue;
        for (int64_t j = columns.from; j < columns.to; j++) {
            struct span wide = pool_span(&s, j, false);
            if (x >= wide.from && x < wide.to)
                sum += grad[first + i * s.ow + j] / (T)(high.divisor * wide.divisor);
        }
    }
    return sum;
}

template <typename T> ON_DEVICE void
spread(const struct cpu_call &call)
{
    struct window s = window_of(&call, &call.out, &call.in[0]);
    struct grid   grid = grid_of(call.out);
    Elements<T>   grad = elements<T>(call, 0);
    for (int64_t i = first_item(); i < grid.planes * grid.area; i += item_step()) {
        int64_t plane = quotient(i, grid.area), place = i - plane * grid.area, y = quotient(place, s.w);
        static_cast<T *>(call.out.data)[i] = spread_to(grad, plane * s.oh * s.ow, s, y, place - y * s.w);
    }
}

KERNEL_OF(max_pool2d_indices, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        indices<float>(call);
    else
        indices<double>(call);
}

KERNEL_OF(max_pool2d, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        pick<float>(call);
    else
        pick<double>(call);
}

KERNEL_OF(max_pool2d_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        put<float>(call);
    else
        put<double>(call);
}

KERNEL_OF(avg_pool2d, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        average<float>(call);
    else
        average<double>(call);
}

KERNEL_OF(avg_pool2d_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        spread<float>(call);
    else
        spread<double>(call);
}

/* layer_norm and group_norm with their gradients: rows that are normalised by themselves, a team for each (team.h),
 * sums in eight lanes in double as in tensor/cpu/norm.c. The gradients of weight and bias take two passes: each
 * row's mean and scale, to the workspace, then the sums over the rows in their order.
 *
 * In PyTorch: ATen/native/cuda/layer_norm_kernel.cu, group_norm_kernel.cu. */
#include "plugins/cuda/kernels/channel.h"
#include "plugins/cuda/kernels/places.h"
#include "plugins/cuda/kernels/team.h"
#include "tensor/cpu/norm.h"

/* Rows of `wide` elements: of a layer, or of a group's `channels`, each of which has `length` elements. */
struct lines { int64_t rows, wide, groups, channels, length; };

/* The first operand's last call.dim dimensions are a row. */
ON_DEVICE struct lines
layer_lines(const struct cpu_call &call)
{
    const struct cpu_view &view = call.in[0];
    struct lines           lines = {};
    lines.wide = 1;
    for (int d = view.dims - (int)call.dim; d < view.dims; d++)
        lines.wide *= view.size[d];
    lines.rows = lines.wide > 0 ? elements_of(view) / lines.wide : 0;
    return lines;
}

ON_DEVICE struct lines
group_lines(const struct cpu_call &call)
{
    const struct cpu_view &view = call.in[0];
    struct lines           lines = { view.size[0] * call.dim, 0, call.dim, view.size[1] / call.dim, 1 };
    for (int d = 2; d < view.dims; d++)
        lines.length *= view.size[d];
    lines.wide = lines.channels * lines.length;
    return lines;
}

/* Of the row that begins with element `first` of x. */
template <typename T> ON_DEVICE struct moments
moments_of(const struct teams &at, const Elements<T> &x, int64_t first, int64_t wide, double eps)
{
    double mean = team_sum<double, LANES>(at, wide, [&](int64_t i) { return (double)x[first + i]; }) / (double)wide;
    double squares = team_sum<double, LANES>(at, wide, [&](int64_t i) {
        return ((double)x[first + i] - mean) * ((double)x[first + i] - mean);
    });
    struct moments m = { mean, 1 / sqrt(squares / (double)wide + eps) };
    return m;
}

/* in: input, weight, bias. */
template <typename T> ON_DEVICE void
layer(const struct cpu_call &call)
{
    struct lines lines = layer_lines(call);
    Elements<T>  x = elements<T>(call, 0), weight = elements<T>(call, call.start & HAS_WEIGHT ? 1 : 0);
    Elements<T>  bias = elements<T>(call, call.start & HAS_BIAS ? 2 : 0);
    for (struct teams at = teams_first(lines.rows, lines.wide); teams_more(at); teams_next(at)) {
        int64_t        first = at.works ? at.row * lines.wide : 0;
        struct moments m = moments_of(at, x, first, lines.wide, call.alpha);
        T              scale = (T)m.scale, shift = (T)(-m.mean * m.scale);
        for (int64_t i = at.member; at.works && i < lines.wide; i += at.size) {
            T y = x[first + i] * scale + shift;
            if (call.start & HAS_WEIGHT)
                y *= weight[i];
            if (call.start & HAS_BIAS)
                y += bias[i];
            static_cast<T *>(call.out.data)[first + i] = y;
        }
    }
}

template <typename T> ON_DEVICE void
group(const struct cpu_call &call)
{
    struct lines lines = group_lines(call);
    Elements<T>  x = elements<T>(call, 0), weight = elements<T>(call, call.start & HAS_WEIGHT ? 1 : 0);
    Elements<T>  bias = elements<T>(call, call.start & HAS_BIAS ? 2 : 0);
    for (struct teams at = teams_first(lines.rows, lines.wide); teams_more(at); teams_next(at)) {
        int64_t        first = at.works ? at.row * lines.wide : 0, channel = at.row % lines.groups * lines.channels;
        struct moments m = moments_of(at, x, first, lines.wide, call.alpha);
        for (int64_t i = at.member; at.works && i < lines.wide; i += at.size) {
            int64_t c = channel + quotient(i, lines.length);
            double  scale = m.scale * (call.start & HAS_WEIGHT ? (double)weight[c] : 1);
            T a = (T)scale, d = (T)((call.start & HAS_BIAS ? (double)bias[c] : 0) - m.mean * scale);
            static_cast<T *>(call.out.data)[first + i] = x[first + i] * a + d;
        }
    }
}

/* in: gradient, input, weight: of each element of a layer, of each channel of a group (groups > 0). */
template <typename T> ON_DEVICE void
input_gradient(const struct cpu_call &call, const struct lines &lines)
{
    Elements<T> g = elements<T>(call, 0), x = elements<T>(call, 1);
    Elements<T> weight = elements<T>(call, call.start & HAS_WEIGHT ? 2 : 0);
    for (struct teams at = teams_first(lines.rows, lines.wide); teams_more(at); teams_next(at)) {
        int64_t        first = at.works ? at.row * lines.wide : 0;
        int64_t        channel = lines.groups > 0 ? at.row % lines.groups * lines.channels : 0;
        struct moments m = moments_of(at, x, first, lines.wide, call.alpha);
        auto weighted = [&](int64_t i) {
            if (!(call.start & HAS_WEIGHT))
                return g[first + i];
            return g[first + i] * weight[lines.groups > 0 ? channel + quotient(i, lines.length) : i];
        };
        double products = team_sum<double, LANES>(at, lines.wide, [&](int64_t i) {
            return (double)weighted(i) * ((double)x[first + i] - m.mean);
        });
        double sum = team_sum<double, LANES>(at, lines.wide, [&](int64_t i) { return (double)weighted(i); });
        struct channel_terms terms = terms_of_row(&m, sum, products, (double)lines.wide);
        T a = (T)terms.a, b = (T)terms.slope, mean = (T)m.mean, d = (T)terms.shift;
        for (int64_t i = at.member; at.works && i < lines.wide; i += at.size)
            static_cast<T *>(call.out.data)[first + i] = a * weighted(i) + b * (x[first + i] - mean) + d;
    }
}

/* ---- the gradients of weight and bias; in: gradient, input ---- */

template <typename T> ON_DEVICE void
keep_moments(const struct cpu_call &call, const struct lines &lines)
{
    Elements<T>     x = elements<T>(call, 1);
    struct moments *kept = static_cast<struct moments *>(call.workspace);
    for (struct teams at = teams_first(lines.rows, lines.wide); teams_more(at); teams_next(at)) {
        struct moments m = moments_of(at, x, at.works ? at.row * lines.wide : 0, lines.wide, call.alpha);
        if (at.works && at.member == 0)
            kept[at.row] = m;
    }
}

enum { COLUMNS = 32, TALL = 32 };

/* COLUMNS columns of the rows from `from` on, TALL of them: what the weight's and the bias's gradients are summed
 * from. */
template <typename T> struct Tile { T products[TALL][COLUMNS], plain[TALL][COLUMNS]; };

template <typename T> ON_DEVICE void
load_tile(Tile<T> *tile, const struct cpu_call &call, const struct lines &lines, int64_t from, int64_t column)
{
    Elements<T>           g = elements<T>(call, 0), x = elements<T>(call, 1);
    const struct moments *kept = static_cast<const struct moments *>(call.workspace);
    unsigned              at = thread_index() % COLUMNS;
    for (unsigned y = thread_index() / COLUMNS; y < TALL; y += BLOCK_THREADS / COLUMNS) {
        int64_t r = from + y, i = r * lines.wide + column + at;
        if (r >= lines.rows || column + at >= lines.wide)
            continue;
        T mean = (T)kept[r].mean, scale = (T)kept[r].scale, grad = g[i];
        tile->products[y][at] = grad * ((x[i] - mean) * scale);
        tile->plain[y][at]    = grad;
    }
}

/* One warp adds up the columns of the weight's gradient, another those of the bias'. */
template <typename T> ON_DEVICE void
layer_sums(const struct cpu_call &call)
{
    SHARED Tile<T> tile;
    struct lines   lines = layer_lines(call);
    unsigned       t = thread_index(), at = t % COLUMNS;
    T             *out = static_cast<T *>(call.out.data);
    for (int64_t column = (int64_t)block_index() * COLUMNS; column < lines.wide;
         column += (int64_t)block_count() * COLUMNS) {
        T    sum = 0;
        bool adds = t < 2 * COLUMNS && column + at < lines.wide;
        for (int64_t from = 0; from < lines.rows; from += TALL) {
            load_tile(&tile, call, lines, from, column);
            block_barrier();
            for (unsigned y = 0; adds && y < TALL && from + y < lines.rows; y++)
                sum += t < COLUMNS ? tile.products[y][at] : tile.plain[y][at];
            block_barrier();
        }
        if (adds)
            out[(t < COLUMNS ? 0 : lines.wide) + column + at] = sum;
    }
}

template <typename T> ON_DEVICE void
group_sums(const struct cpu_call &call)
{
    struct lines          lines = group_lines(call);
    struct extents        b = { call.in[1].size[0], lines.groups * lines.channels, lines.length };
    const struct moments *kept = static_cast<const struct moments *>(call.workspace);
    Elements<T>           g = elements<T>(call, 0), x = elements<T>(call, 1);
    T                    *out = static_cast<T *>(call.out.data);
    for (int64_t c = block_index(); c < b.channels; c += block_count()) {
        const struct moments *m = kept + c / lines.channels;
        int64_t               sample = b.channels * b.length;
        T products = channel_fold<T>(
            b, c,
            [&](int64_t i) {
                return (double)g[i] * ((double)x[i] - m[quotient(i, sample) * lines.groups].mean);
            },
            [&](int64_t n, double sum) { return (T)(sum * m[n * lines.groups].scale); });
        T sum = channel_fold<T>(b, c, [&](int64_t i) { return (double)g[i]; },
                                [](int64_t, double all) { return (T)all; });
        if (thread_index() == 0) {
            out[c]              = products;
            out[b.channels + c] = sum;
        }
    }
}

KERNEL_OF(layer_norm, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        layer<float>(call);
    else
        layer<double>(call);
}

KERNEL_OF(layer_norm_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        input_gradient<float>(call, layer_lines(call));
    else
        input_gradient<double>(call, layer_lines(call));
}

KERNEL_OF(layer_norm_moments, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        keep_moments<float>(call, layer_lines(call));
    else
        keep_moments<double>(call, layer_lines(call));
}

KERNEL_OF(layer_norm_sums, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        layer_sums<float>(call);
    else
        layer_sums<double>(call);
}

KERNEL_OF(group_norm, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        group<float>(call);
    else
        group<double>(call);
}

KERNEL_OF(group_norm_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        input_gradient<float>(call, group_lines(call));
    else
        input_gradient<double>(call, group_lines(call));
}

KERNEL_OF(group_norm_moments, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        keep_moments<float>(call, group_lines(call));
    else
        keep_moments<double>(call, group_lines(call));
}

KERNEL_OF(group_norm_sums, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        group_sums<float>(call);
    else
        group_sums<double>(call);
}

/* Convolutions with the bits of the CPU's (tensor/cpu/conv.c), whose columns nobody writes down here: they are what a
 * tile reads as its right factor. Sums over (channel, ky, kx) in order, with the zeros outside of the image; the bias
 * last. Back to the input, each (ky, kx) is a sum over output channels of its own, added to the place in their order. Of
 * the weight, each sample is a sum over places; samples are added in order. Operands of any strides, results in one piece.
 *
 * Kernels: cpu_conv2d, cpu_conv_transpose2d, cpu_conv2d_weight and conv2d_weight_parts before it. In PyTorch:
 * ATen/native/cuda/ConvolutionMM2d.cu, NaiveConvolutionTranspose2d.cu. */
#include "plugins/cuda/kernels/conv.h"
#include "plugins/cuda/kernels/tile.h"

/* struct conv in numbers that a GPU divides quickly; limits_products.c says no to larger ones. */
struct conv_plane {
    int n, groups, ins, outs, h, w, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, depth;

    MEMBER explicit conv_plane(const struct conv &c)
        : n((int)c.n), groups((int)c.groups), ins((int)c.ins), outs((int)c.outs), h((int)c.h), w((int)c.w),
          kh((int)c.kh), kw((int)c.kw), oh((int)c.oh), ow((int)c.ow), sh((int)c.sh), sw((int)c.sw), ph((int)c.ph),
          pw((int)c.pw), dh((int)c.dh), dw((int)c.dw), depth((int)c.depth)
    {
    }
};

/* An operand of four dimensions. */
template <typename T> struct conv_operand {
    const T *at;
    int64_t  step[4];

    MEMBER explicit conv_operand(const struct cpu_view &view)
        : at(static_cast<const T *>(view.data)), step{ view.stride[0], view.stride[1], view.stride[2], view.stride[3] }
    {
    }
    MEMBER void enter(int64_t sample, int64_t channel) { at += sample * step[0] + channel * step[1]; }
    MEMBER T of(int channel, int y, int x) const { return at[channel * step[1] + y * step[2] + x * step[3]]; }
};

/* What output place p sees through row r of its column. */
template <typename T> ON_DEVICE T
conv_seen(const conv_plane &c, const conv_operand<T> &x, int r, int p)
{
    const int kx = r % c.kw, ky = r / c.kw % c.kh, oy = p / c.ow, ox = p - oy * c.ow;
    const int y = oy * c.sh - c.ph + ky * c.dh, at = ox * c.sw - c.pw + kx * c.dw;
    return y >= 0 && y < c.h && at >= 0 && at < c.w ? x.of(r / (c.kw * c.kh), y, at) : 0;
}

/* Output channel o's filter, element r of it. */
template <typename T> ON_DEVICE T
conv_filter(const conv_plane &c, const conv_operand<T> &weight, int o, int r)
{
    return weight.at[o * weight.step[0] + r / (c.kw * c.kh) * weight.step[1] + r / c.kw % c.kh * weight.step[2] +
                     r % c.kw * weight.step[3]];
}

/* ---- forwards ---- */

template <typename T> struct conv_forward {
    typedef T element;
    enum { SEGMENTED = false, segments = 1, left_by_k = true, right_by_k = false };
    int64_t         batch, rows, columns, depth;
    conv_plane      c;
    conv_operand<T> x, weight;
    const T        *bias;           /* NULL: none */
    int64_t         bias_step;
    T              *out;

    MEMBER explicit conv_forward(const struct cpu_call *call)
        : c(conv_shape(call->sizes, call->in[0].size, call->in[1].size, call->out.size)), x(call->in[0]),
          weight(call->in[1]), bias(call->start == 1 ? NULL : static_cast<const T *>(call->in[2].data)),
          bias_step(call->in[2].stride[0]), out(static_cast<T *>(call->out.data))
    {
        batch = (int64_t)c.n * c.groups, rows = c.outs, columns = (int64_t)c.oh * c.ow, depth = c.depth;
    }
    MEMBER void enter(int64_t at)
    {
        const int64_t n = at / c.groups, g = at % c.groups;
        x.enter(n, g * c.ins);
        weight.enter(g * c.outs, 0);
        if (bias != NULL)
            bias += g * c.outs * bias_step;
        out += at * rows * columns;
    }
    MEMBER T left(int64_t, int64_t i, int64_t k) const { return conv_filter(c, weight, (int)i, (int)k); }
    MEMBER T right(int64_t, int64_t k, int64_t j) const { return conv_seen(c, x, (int)k, (int)j); }
    MEMBER T first(int64_t, int64_t) const { return 0; }
    MEMBER bool counts(int64_t, int64_t, int64_t) const { return true; }
    MEMBER void store(int64_t i, int64_t j, T sum) const
    {
        out[i * columns + j] = bias != NULL ? sum + bias[i * bias_step] : sum;
    }
};

APART void
convolve(const struct cpu_call *call)
{
    if (call->compute == DTYPE_F32)
        work_out(conv_forward<float>(call));
    else
        work_out_narrow(conv_forward<double>(call));
}

TILES_OF(cpu_conv2d, struct cpu_call)
{
    convolve(&call);
}

/* ---- back to the input ---- */

/* Segment s is (ky, kx); a row is an input channel, a column a place of the input. */
template <typename T> struct conv_back {
    typedef T element;
    enum { SEGMENTED = true, left_by_k = false, right_by_k = false };
    int64_t         batch, rows, columns, depth, segments;
    conv_plane      c;
    conv_operand<T> grad, weight;
    T              *out;

    MEMBER explicit conv_back(const struct cpu_call *call)
        : c(conv_shape(call->sizes, call->out.size, call->in[1].size, call->in[0].size)), grad(call->in[0]),
          weight(call->in[1]), out(static_cast<T *>(call->out.data))
    {
        batch = (int64_t)c.n * c.groups, rows = c.ins, columns = (int64_t)c.h * c.w, depth = c.outs;
        segments = (int64_t)c.kh * c.kw;
    }
    MEMBER void enter(int64_t at)
    {
        const int64_t n = at / c.groups, g = at % c.groups;
        grad.enter(n, g * c.outs);
        weight.enter(g * c.outs, 0);
        out += at * rows * columns;
    }
    /* Which output place sees j through (ky, kx); false: none. */
    MEMBER bool seen_from(int s, int j, int *oy, int *ox) const
    {
        const int y = j / c.w + c.ph - s / c.kw * c.dh, x = j % c.w + c.pw - s % c.kw * c.dw;
        *oy = y / c.sh, *ox = x / c.sw;
        return y >= 0 && x >= 0 && *oy * c.sh == y && *ox * c.sw == x && *oy < c.oh && *ox < c.ow;
    }
    MEMBER T left(int64_t s, int64_t i, int64_t k) const
    {
        const int ky = (int)s / c.kw, kx = (int)s - ky * c.kw;
        return weight.at[k * weight.step[0] + i * weight.step[1] + ky * weight.step[2] + kx * weight.step[3]];
    }
    MEMBER T right(int64_t s, int64_t k, int64_t j) const
    {
        int oy, ox;
        return seen_from((int)s, (int)j, &oy, &ox) ? grad.of((int)k, oy, ox) : 0;
    }
    MEMBER T first(int64_t, int64_t) const { return 0; }
    MEMBER bool counts(int64_t s, int64_t, int64_t j) const
    {
        int oy, ox;
        return seen_from((int)s, (int)j, &oy, &ox);
    }
    MEMBER void store(int64_t i, int64_t j, T sum) const { out[i * columns + j] = sum; }
};

APART void
convolve_back(const struct cpu_call *call)
{
    if (call->compute == DTYPE_F32)
        work_out(conv_back<float>(call));
    else
        work_out_narrow(conv_back<double>(call));
}

TILES_OF(cpu_conv_transpose2d, struct cpu_call)
{
    convolve_back(&call);
}

/* ---- the weight's gradient ---- */

/* APART_EACH: a sample is a result of its own, in workspace; else it is a segment. */
template <typename T, bool APART_EACH> struct conv_weights {
    typedef T element;
    enum { SEGMENTED = !APART_EACH, left_by_k = true, right_by_k = true };
    int64_t         batch, rows, columns, depth, segments;
    conv_plane      c;
    conv_operand<T> grad, x;
    T              *out;

    MEMBER explicit conv_weights(const struct cpu_call *call)
        : c(conv_shape(call->sizes, call->in[1].size, call->out.size, call->in[0].size)), grad(call->in[0]),
          x(call->in[1]), out(static_cast<T *>(APART_EACH ? call->workspace : call->out.data))
    {
        batch = APART_EACH ? (int64_t)c.n * c.groups : c.groups, segments = APART_EACH ? 1 : c.n;
        rows = c.outs, columns = c.depth, depth = (int64_t)c.oh * c.ow;
    }
    MEMBER void enter(int64_t at)
    {
        const int64_t n = at / c.groups, g = at % c.groups;
        grad.enter(n, g * c.outs);
        x.enter(n, g * c.ins);
        out += at * rows * columns;
    }
    MEMBER T left(int64_t s, int64_t i, int64_t k) const
    {
        const int oy = (int)k / c.ow, ox = (int)k - oy * c.ow;
        return grad.at[s * grad.step[0] + i * grad.step[1] + oy * grad.step[2] + ox * grad.step[3]];
    }
    MEMBER T right(int64_t s, int64_t k, int64_t j) const
    {
        conv_operand<T> sample = x;
        sample.at += s * x.step[0];
        return conv_seen(c, sample, (int)j, (int)k);
    }
    MEMBER T first(int64_t, int64_t) const { return 0; }
    MEMBER bool counts(int64_t, int64_t, int64_t) const { return true; }
    MEMBER void store(int64_t i, int64_t j, T sum) const { out[i * columns + j] = sum; }
};

APART void
weigh_apart(const struct cpu_call *call)
{
    if (call->compute == DTYPE_F32)
        work_out(conv_weights<float, true>(call));
    else
        work_out_narrow(conv_weights<double, true>(call));
}

TILES_OF(conv2d_weight_parts, struct cpu_call)
{
    if (conv_parts_bytes(&call) > 0)
        weigh_apart(&call);
}

template <typename T> ON_DEVICE void
add_samples(const struct cpu_call *call)
{
    const T      *part = static_cast<const T *>(call->workspace);
    T            *out = static_cast<T *>(call->out.data);
    const int64_t samples = call->in[0].size[0];
    int64_t       count = 1;
    for (int d = 0; d < 4; d++)
        count *= call->out.size[d];
    for (int64_t i = first_item(); i < count; i += item_step()) {
        T sum = 0;
        for (int64_t n = 0; n < samples; n++)
            sum += part[n * count + i];
        out[i] = sum;
    }
}

APART void
weigh_in_order(const struct cpu_call *call)
{
    if (call->compute == DTYPE_F32)
        work_out(conv_weights<float, false>(call));
    else
        work_out_plainly(conv_weights<double, false>(call));
}

TILES_OF(cpu_conv2d_weight, struct cpu_call)
{
    if (conv_parts_bytes(&call) == 0)
        weigh_in_order(&call);
    else if (call.compute == DTYPE_F32)
        add_samples<float>(&call);
    else
        add_samples<double>(&call);
}

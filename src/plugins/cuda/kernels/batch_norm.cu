/* batch_norm with what it needs of the whole batch, and its gradients; the call's numbers are those of
 * tensor/cpu/norm.c.
 *
 * A block for each channel. A sample's row of it is summed in eight lanes in double, by eight threads (one, if the
 * row is short); the samples' sums are added in their order, as the CPU does.
 *
 * In PyTorch: ATen/native/cuda/Normalization.cuh. */
#include <math.h>
#include "plugins/cuda/kernels/channel.h"
#include "plugins/cuda/kernels/places.h"
#include "tensor/cpu/norm.h"

ON_DEVICE struct extents
extents_of(const struct cpu_view &view)
{
    struct extents b = { view.size[0], view.size[1], 1 };
    for (int d = 2; d < view.dims; d++)
        b.length *= view.size[d];
    return b;
}

/* Rows of the result: mean, 1 / sqrt(variance + eps), biased variance. */
template <typename T> ON_DEVICE void
stats(const struct cpu_call &call)
{
    struct extents b = extents_of(call.in[0]);
    Elements<T>    x = elements<T>(call, 0);
    double         count = (double)(b.samples * b.length);
    T             *out = static_cast<T *>(call.out.data);
    for (int64_t c = block_index(); c < b.channels; c += block_count()) {
        double mean = channel_sum(b, c, [&](int64_t i) { return (double)x[i]; }) / count;
        double squares = channel_sum(b, c, [&](int64_t i) {
            return ((double)x[i] - mean) * ((double)x[i] - mean);
        });
        if (thread_index() == 0) {
            out[c]                  = (T)mean;
            out[b.channels + c]     = (T)(1 / sqrt(squares / count + call.alpha));
            out[2 * b.channels + c] = (T)(squares / count);
        }
    }
}

/* The same of all ranks' rows, by each rank's own; see tensor/cpu/norm_type.def. */
template <typename T> ON_DEVICE void
gather(const struct cpu_call &call)
{
    Elements<T> rows = elements<T>(call, 0);
    int64_t     ranks = call.in[0].size[0], channels = call.out.size[1], wide = 2 * channels + 1;
    T          *out = static_cast<T *>(call.out.data);
    for (int64_t c = first_item(); c < channels; c += item_step()) {
        double total = 0, sum = 0, squares = 0;
        for (int64_t r = 0; r < ranks; r++) {
            double count = (double)rows[(r + 1) * wide - 1];
            total += count;
            sum += count * (double)rows[r * wide + c];
        }
        double mean = total > 0 ? sum / total : 0;
        for (int64_t r = 0; r < ranks; r++) {
            double count = (double)rows[(r + 1) * wide - 1], apart = (double)rows[r * wide + c] - mean;
            if (count > 0)
                squares += rank_squares(count, (double)rows[r * wide + channels + c], call.alpha, apart);
        }
        double variance = total > 0 ? squares / total : 0;
        out[c]                = (T)mean;
        out[channels + c]     = (T)(1 / sqrt(variance + call.alpha));
        out[2 * channels + c] = (T)variance;
    }
}

/* in: input, statistics, weight, bias. */
template <typename T> ON_DEVICE void
normalise(const struct cpu_call &call)
{
    struct extents b = extents_of(call.in[0]);
    Elements<T>    x = elements<T>(call, 0), stats = elements<T>(call, 1);
    Elements<T>    weight = elements<T>(call, call.start & HAS_WEIGHT ? 2 : 1);
    Elements<T>    bias = elements<T>(call, call.start & HAS_BIAS ? 3 : 1);
    int64_t        all = b.samples * b.channels * b.length;
    for (int64_t i = first_item(); i < all; i += item_step()) {
        int64_t c = quotient(i, b.length) % b.channels;
        T       mean = stats[c], scale = stats[b.channels + c] * (call.start & HAS_WEIGHT ? weight[c] : (T)1);
        T       shift = call.start & HAS_BIAS ? bias[c] : (T)0;
        static_cast<T *>(call.out.data)[i] = (x[i] - mean) * scale + shift;
    }
}

/* in: gradient, input, statistics. */
template <typename T> ON_DEVICE void
sums(const struct cpu_call &call)
{
    struct extents b = extents_of(call.in[0]);
    Elements<T>    g = elements<T>(call, 0), x = elements<T>(call, 1), stats = elements<T>(call, 2);
    T             *out = static_cast<T *>(call.out.data);
    for (int64_t c = block_index(); c < b.channels; c += block_count()) {
        double mean = (double)stats[c];
        double sum = channel_sum(b, c, [&](int64_t i) { return (double)g[i]; });
        double products = channel_sum(b, c, [&](int64_t i) {
            return (double)g[i] * ((double)x[i] - mean);
        });
        if (thread_index() == 0) {
            out[c]              = (T)sum;
            out[b.channels + c] = (T)(call.start & CENTERED_SUMS ? products : products * (double)stats[b.channels + c]);
        }
    }
}

/* in: sums, statistics, weight. length: elements of a channel. */
template <typename T> ON_DEVICE void
make_terms(const struct cpu_call &call)
{
    Elements<T> sums = elements<T>(call, 0), stats = elements<T>(call, 1);
    Elements<T> weight = elements<T>(call, call.start & HAS_WEIGHT ? 2 : 1);
    int64_t     channels = call.out.size[1];
    double      count = call.start & OF_BATCH ? (double)call.length : 0;
    T          *out = static_cast<T *>(call.out.data);
    for (int64_t c = first_item(); c < channels; c += item_step()) {
        struct channel_terms terms = terms_of_channel((double)stats[channels + c],
                                                   call.start & HAS_WEIGHT ? (double)weight[c] : 1,
                                                   (call.start & CENTERED_SUMS) != 0, (double)sums[c],
                                                   (double)sums[channels + c], count);
        out[c]                = (T)terms.a;
        out[channels + c]     = (T)terms.slope;
        out[2 * channels + c] = (T)terms.shift;
    }
}

/* in: gradient, input, statistics, terms. */
template <typename T> ON_DEVICE void
gradient(const struct cpu_call &call)
{
    struct extents b = extents_of(call.in[0]);
    Elements<T>    g = elements<T>(call, 0), x = elements<T>(call, 1), stats = elements<T>(call, 2);
    Elements<T>    terms = elements<T>(call, 3);
    int64_t        all = b.samples * b.channels * b.length;
    for (int64_t i = first_item(); i < all; i += item_step()) {
        int64_t c = quotient(i, b.length) % b.channels;
        T       mean = stats[c], a = terms[c], slope = terms[b.channels + c], shift = terms[2 * b.channels + c];
        static_cast<T *>(call.out.data)[i] = a * g[i] + slope * (x[i] - mean) + shift;
    }
}

KERNEL_OF(batch_norm_stats, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        stats<float>(call);
    else
        stats<double>(call);
}

KERNEL_OF(batch_norm_gather_stats, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        gather<float>(call);
    else
        gather<double>(call);
}

KERNEL_OF(batch_norm, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        normalise<float>(call);
    else
        normalise<double>(call);
}

KERNEL_OF(batch_norm_sums, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        sums<float>(call);
    else
        sums<double>(call);
}

KERNEL_OF(batch_norm_terms, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        make_terms<float>(call);
    else
        make_terms<double>(call);
}

KERNEL_OF(batch_norm_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        gradient<float>(call);
    else
        gradient<double>(call);
}

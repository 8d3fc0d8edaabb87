/* A block's sum over all samples' rows of a channel, in the CPU's order (tensor/cpu/norm_type.def): a row in eight
 * lanes in double, then the rows in the order of the samples. Eight threads share a row; one has it alone if it is
 * short.
 *
 * Interface: channel_fold, channel_sum; all threads of the block come to them. */
#ifndef CUDA_KERNELS_CHANNEL_H
#define CUDA_KERNELS_CHANNEL_H
#include "plugins/cuda/kernels/device.h"
#include "tensor/cpu/norm.h"

struct extents { int64_t samples, channels, length; };

template <typename Value> ON_DEVICE double
short_row(int64_t first, int64_t length, Value value)
{
    double lane[LANES] = {};
    for (int j = 0; j < LANES; j++) {
        if (j < length)
            lane[j] += value(first + j);
    }
    return sum_of_lanes(lane);
}

/* Adds up finish(sample, the sum of value(i) over its row) in type A; i: an element's number in [samples, channels,
 * length]. Every thread gets the answer. */
template <typename A, typename Value, typename Finish> ON_DEVICE A
channel_fold(const struct extents &b, int64_t channel, Value value, Finish finish)
{
    SHARED double lanes[BLOCK_THREADS];
    SHARED A      rows[BLOCK_THREADS];
    unsigned t = thread_index(), shared = b.length >= LANES ? LANES : 1, member = t % shared, own = t / shared;
    unsigned at_once = BLOCK_THREADS / shared;
    A        sum = 0;
    for (int64_t n = 0; n < b.samples; n += at_once) {
        int64_t  first = ((n + own) * b.channels + channel) * b.length;
        unsigned here = b.samples - n < at_once ? (unsigned)(b.samples - n) : at_once;
        if (own < here && shared == 1)
            rows[own] = finish(n + own, short_row(first, b.length, value));
        if (own < here && shared == LANES) {
            double lane = 0;
            for (int64_t j = member; j < b.length; j += LANES)
                lane += value(first + j);
            lanes[t] = lane;
        }
        block_barrier();
        if (own < here && shared == LANES && member == 0)
            rows[own] = finish(n + own, sum_of_lanes(&lanes[t]));
        block_barrier();
        for (unsigned r = 0; t == 0 && r < here; r++)
            sum += rows[r];
        block_barrier();
    }
    if (t == 0)
        rows[0] = sum;
    block_barrier();
    sum = rows[0];
    block_barrier();
    return sum;
}

template <typename Value> ON_DEVICE double
channel_sum(const struct extents &b, int64_t channel, Value value)
{
    return channel_fold<double>(b, channel, value, [](int64_t, double sum) { return sum; });
}
#endif

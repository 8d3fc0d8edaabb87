/* Philox 4x32-10, the generator of GPUs, for the CPU and for kernels: no state, each block of four words is worked out from
 * where it stands. In PyTorch: ATen/core/PhiloxRNGEngine.h; in CUDA: curand_philox4x32_x.h. */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H
#include <stdint.h>
#include "base/both.h"

/* The key, and the two halves of the counter. */
struct philox { uint64_t seed, subsequence, block; };

/* Ten rounds of two products whose halves cross over; the key moves on between rounds. */
BOTH void
philox_words(const struct philox *at, uint32_t out[4])
{
    uint32_t key[2] = { (uint32_t)at->seed, (uint32_t)(at->seed >> 32) };
    out[0] = (uint32_t)at->block;
    out[1] = (uint32_t)(at->block >> 32);
    out[2] = (uint32_t)at->subsequence;
    out[3] = (uint32_t)(at->subsequence >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t even = (uint64_t)out[0] * 0xd2511f53u, odd = (uint64_t)out[2] * 0xcd9e8d57u;
        uint32_t first = (uint32_t)(odd >> 32) ^ out[1] ^ key[0], third = (uint32_t)(even >> 32) ^ out[3] ^ key[1];
        out[0] = first;
        out[1] = (uint32_t)odd;
        out[2] = third;
        out[3] = (uint32_t)even;
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
}
#endif

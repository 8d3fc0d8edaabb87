/* The loop of an elementwise kernel over one run. A block is worked out aside, so that out may be one of the inputs, and
 * any compiler makes vectors of it. */
#ifndef TENSOR_CPU_BLOCKS_H
#define TENSOR_CPU_BLOCKS_H
#include <stdint.h>
#include "tensor/cpu/wide.h"

enum { BLOCK = 16 };

/* x, y, z: an element of each input (those that an op has not are out itself); a, b: its numbers. */
#define BLOCKED_RUN(name, type, expression)                                                                        \
    WIDE static void                                                                                               \
    name(void *result, const void *const *in, int64_t count, type a, type b)                                       \
    {                                                                                                              \
        const type *px = in[0], *py = in[1], *pz = in[2];                                                          \
        type       *out = result;                                                                                  \
        int64_t     i = 0;                                                                                         \
        (void)a, (void)b;                                                                                          \
        for (; i + BLOCK <= count; i += BLOCK) {                                                                   \
            type block[BLOCK];                                                                                     \
            for (int j = 0; j < BLOCK; j++) {                                                                      \
                type x = px[i + j], y = py[i + j], z = pz[i + j];                                                  \
                (void)x, (void)y, (void)z;                                                                         \
                block[j] = (type)(expression);                                                                     \
            }                                                                                                      \
            for (int j = 0; j < BLOCK; j++)                                                                        \
                out[i + j] = block[j];                                                                             \
        }                                                                                                          \
        for (; i < count; i++) {                                                                                   \
            type x = px[i], y = py[i], z = pz[i];                                                                  \
            (void)x, (void)y, (void)z;                                                                             \
            out[i] = (type)(expression);                                                                           \
        }                                                                                                          \
    }
#endif

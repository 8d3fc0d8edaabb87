/* Runs kernels on the CPU: the functions that device.h makes of them where no compiler for GPUs reads them. The
 * threads of a block take turns on the calling thread, in an order that the seed draws; where they wait for each
 * other, each has a stack of its own and changes at barriers and where lanes hand down. A missing barrier then
 * gives wrong values in some orders, and a barrier that some threads never reach is told by name. Any number of
 * threads may run kernels at once.
 *
 * What is SHARED is one block's after the other: it is not cleared between them, as on a GPU. */
#ifndef TESTS_CUDA_FAKE_EMULATE_H
#define TESTS_CUDA_FAKE_EMULATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "plugins/cuda/kernels/table.h"
#ifdef __cplusplus
extern "C" {
#endif

/* One launch. The same seed is the same order of blocks and threads. false: `why` says which kernel is stuck
 * where; what it writes is then undefined. */
bool emulate(const struct gpu_kernel *row, const void *params, unsigned blocks, uint64_t seed, char *why,
             size_t why_size);
#ifdef __cplusplus
}
#endif
#endif

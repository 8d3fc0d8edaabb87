/* What kernels have to give. Most have the CPU's function; of KERNEL_reduce and KERNEL_all_reduce it is here, what
 * collectives do to elements (c10d/reduce.c) once more, element by element. */
#ifndef TESTS_CUDA_FAKE_REFERENCE_H
#define TESTS_CUDA_FAKE_REFERENCE_H
#include "tensor/cpu/draw.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/update.h"

void reference_elements(const struct elements_job *job);
void reference_all_reduce(const struct all_reduce_job *job);
/* Their bits are equal, or both are NaN. */
bool same_element(enum dtype dtype, const void *a, const void *b);
#endif

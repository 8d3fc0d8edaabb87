/* What collectives do to elements (c10d/reduce.c) once more, element by element: what KERNEL_reduce and KERNEL_all_reduce
 * have to give. */
#ifndef TESTS_CUDA_FAKE_REFERENCE_H
#define TESTS_CUDA_FAKE_REFERENCE_H
#include "tensor/cpu/draw.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/update.h"

void reference_elements(const struct elements_job *job);
void reference_all_reduce(const struct all_reduce_job *job);
#endif

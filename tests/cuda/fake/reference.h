/* What collectives do to elements (c10d/reduce.c) once more, element by element: what KERNEL_reduce has to give. */
#ifndef TESTS_CUDA_FAKE_REFERENCE_H
#define TESTS_CUDA_FAKE_REFERENCE_H
#include "tensor/cpu/elements.h"
#include "tensor/cpu/update.h"

void reference_elements(const struct elements_job *job);
#endif

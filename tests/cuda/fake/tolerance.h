/* How far a kernel's fractions may be from the CPU's: mostly not at all. */
#ifndef TESTS_CUDA_FAKE_TOLERANCE_H
#define TESTS_CUDA_FAKE_TOLERANCE_H
#include "tensor/cpu/kernels.h"

int64_t kernel_tolerance(enum kernel kernel);      /* in steps from one number of the type to the next */
/* Equal as numbers go: also two that are none, whatever their bits. */
bool    elements_near(enum dtype dtype, const void *a, const void *b, int64_t steps);
#endif

/* What the kernels of losses share. */
#ifndef TENSOR_CPU_LOSS_H
#define TENSOR_CPU_LOSS_H
#include "tensor/cpu/loop.h"

/* The sum of so many losses, or their mean, as call->dim says, becomes the result. */
void loss_store(const struct cpu_call *call, const struct running_sum *sum, double elements);
#endif

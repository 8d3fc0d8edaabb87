/* The table of all kernels.
 *
 * Interface: cpu_kernel_of, kernel_name. */
#include "tensor/cpu/kernels.h"

static cpu_kernel *const functions[KERNEL_OPS] = {
#define KERNEL(name) name,
#include "tensor/cpu/kernels.def"
#undef KERNEL
};

static const char *const names[KERNEL_COUNT] = {
#define KERNEL(name) #name,
#include "tensor/cpu/kernels.def"
#undef KERNEL
    "update", "reduce", "lstm_forward", "lstm_backward", "draw", "all_reduce",
};

cpu_kernel *
cpu_kernel_of(enum kernel kernel)
{
    return functions[kernel];
}

const char *
kernel_name(enum kernel kernel)
{
    return names[kernel];
}

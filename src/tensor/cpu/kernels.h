/* The kernels by number, the CPU's functions of them, and how much workspace those want that have one (of convolutions:
 * conv.h, of lstm.c: lstm.h). */
#ifndef TENSOR_CPU_KERNELS_H
#define TENSOR_CPU_KERNELS_H
#include <stddef.h>
#include "tensor/cpu/kernel.h"

#define KERNEL(name) cpu_kernel name;
#include "tensor/cpu/kernels.def"
#undef KERNEL

/* What a device may be asked to launch: the kernels of ops, whose parameters are a struct cpu_call, and those behind them. */
enum kernel {
#define KERNEL(name) KERNEL_##name,
#include "tensor/cpu/kernels.def"
#undef KERNEL
    KERNEL_OPS,                          /* how many the CPU has a function of that kind for */
    KERNEL_update = KERNEL_OPS,          /* struct update_job (update.h) */
    KERNEL_reduce,                       /* struct elements_job (elements.h): what collectives do to elements */
    KERNEL_lstm_forward,                 /* struct lstm_forward, struct lstm_backward (lstm.h) */
    KERNEL_lstm_backward,
    KERNEL_draw,                         /* struct draw_job (draw.h) */
    KERNEL_all_reduce,                   /* struct all_reduce_job (elements.h) */
    KERNEL_COUNT
};
cpu_kernel *cpu_kernel_of(enum kernel kernel);   /* one below KERNEL_OPS */
const char *kernel_name(enum kernel kernel);     /* "cpu_mul"; static */

size_t      cpu_sort_workspace(int64_t length);
size_t      cpu_mm_workspace(enum dtype dtype, int64_t k);
size_t      pool_workspace(int64_t windows, int64_t taps);
#endif

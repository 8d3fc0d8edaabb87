/* What the files of reducing kernels share. */
#ifndef TENSOR_CPU_REDUCE_H
#define TENSOR_CPU_REDUCE_H
#include "tensor/cpu/loop.h"
#include "tensor/cpu/view.h"

/* The input taken apart: dimensions that stay (with the result's) and dimensions that are summed away. */
struct parts { struct cpu_view kept, out, summed; bool by_column; };
struct parts take_apart(const struct cpu_call *call);

/* Each of `count` elements in one piece divided; a sum has been rounded to their type before, as in PyTorch. */
void divide_all(const struct cpu_view *view, int64_t count, double by);
#endif

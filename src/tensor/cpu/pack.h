/* Kernels of layers read their operands in one piece: an operand that lies so is taken as it is, another one is copied
 * into the workspace, whose size the plan has worked out by pack_bytes in the same order. */
#ifndef TENSOR_CPU_PACK_H
#define TENSOR_CPU_PACK_H
#include <stddef.h>
#include "tensor/cpu/kernel.h"
#include "tensor/cpu/view.h"

enum { PACK_ALIGN = 64 };

size_t      pack_round(size_t bytes);                                   /* up to PACK_ALIGN */
size_t      pack_bytes(const struct cpu_view *view, enum dtype compute);
const void *pack_as(const struct cpu_call *call, int index, enum dtype dtype, char **room); /* moves *room on */
const void *pack_input(const struct cpu_call *call, int index, char **room);                /* as call->compute */
#endif

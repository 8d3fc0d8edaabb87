/* Of the kernels of rows_products.def: whether there is code for these parameters, and the bytes wanted at `workspace`. */
#ifndef CUDA_KERNELS_LIMITS_PRODUCTS_H
#define CUDA_KERNELS_LIMITS_PRODUCTS_H
#include "tensor/cpu/kernels.h"

bool   limits_products_has(enum kernel kernel, const void *params);
size_t limits_products_room(enum kernel kernel, const void *params);
#endif

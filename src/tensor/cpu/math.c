/* Functions of double of math_bodies.h for all kernels of the CPU. exp and log are in transcendental.c.
 *
 * In PyTorch: the vectorised sleef of ATen/cpu/vec. */
#include "tensor/cpu/math.h"

#define MATH
#include "tensor/cpu/math_bodies.h"

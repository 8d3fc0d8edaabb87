/* exp and log of transcendental_bodies.h for all kernels of the CPU. */
#include "tensor/cpu/math.h"

#define MATH
#include "tensor/cpu/transcendental_bodies.h"

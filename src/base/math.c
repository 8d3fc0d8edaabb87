/* The functions of math_bodies.h for whatever runs on the CPU. */
#include "base/math.h"

#define MATH
#include "base/math_bodies.h"

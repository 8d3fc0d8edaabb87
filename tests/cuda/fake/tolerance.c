/* Bits that may differ, and by how much.
 *
 * Interface: kernel_tolerance, elements_near. */
#include "tolerance.h"
#include <math.h>
#include <string.h>

int64_t
kernel_tolerance(enum kernel kernel)
{
    switch (kernel) {
    /* Of float the CPU calls the C library's function, whose last bits are its own; a GPU rounds the one of double. */
    case KERNEL_map_exp:
    case KERNEL_map_log:
    case KERNEL_map_sin:
    case KERNEL_map_cos:
    case KERNEL_map_tanh:
    case KERNEL_map_sigmoid:
    case KERNEL_cpu_bce_with_logits_backward:
        return 2;
    default:
        return 0;
    }
}

/* The element's bits as a number that rises with the fraction: neighbours differ by one. */
static int64_t
place_of(enum dtype dtype, const void *element)
{
    size_t   bytes = dtype_size(dtype);
    uint64_t bits = 0, sign = (uint64_t)1 << (8 * bytes - 1);
    memcpy(&bits, element, bytes);
    return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

bool
elements_near(enum dtype dtype, const void *a, const void *b, int64_t steps)
{
    if (!dtype_is_float(dtype))
        return memcmp(a, b, dtype_size(dtype)) == 0;
    bool a_is_none = isnan(dtype_fraction(dtype, a)), b_is_none = isnan(dtype_fraction(dtype, b));
    if (a_is_none || b_is_none)
        return a_is_none && b_is_none;
    int64_t x = place_of(dtype, a), y = place_of(dtype, b);
    if (steps == 0)
        return memcmp(a, b, dtype_size(dtype)) == 0;
    return (x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x) <= (uint64_t)steps;
}

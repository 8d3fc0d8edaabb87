/* What the kernels of rows_reduce.def have code for, and the workspace that they want beyond the CPU's.
 *
 * Interface: limits_reduce. */
#include "limits.h"

bool
limits_reduce(enum kernel kernel, const void *params, size_t *room)
{
    (void)kernel, (void)params, (void)room;
    return true;
}

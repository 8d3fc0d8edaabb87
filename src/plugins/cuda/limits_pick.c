/* What the kernels of rows_pick.def have code for, and the workspace that they want beyond the CPU's.
 *
 * Interface: limits_pick. */
#include "limits.h"

bool
limits_pick(enum kernel kernel, const void *params, size_t *room)
{
    (void)kernel, (void)params, (void)room;
    return true;
}

/* Cases for the kernels of gathering, scattering, indexing, flipping (rows_pick.def). */
#include "play_kernels.h"

const struct play_case play_pick[] = {
    { NULL, NULL, KERNEL_COUNT },
};

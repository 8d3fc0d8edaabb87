/* Cases for the kernels of sums, means, folds, running sums, sorting (rows_reduce.def). */
#include "play_kernels.h"

const struct play_case play_reduce[] = {
    { NULL, NULL, KERNEL_COUNT },
};

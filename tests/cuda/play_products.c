/* Cases for the kernels of products, convolutions, pools, recurrent cells (rows_products.def). */
#include "play_kernels.h"

const struct play_case play_products[] = {
    { NULL, NULL, KERNEL_COUNT },
};

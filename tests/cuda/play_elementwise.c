/* Cases for the kernels of maps, functions, activations, losses of single elements, copies, updates, collectives' elements (rows_elementwise.def). */
#include "play_kernels.h"

const struct play_case play_elementwise[] = {
    { NULL, NULL, KERNEL_COUNT },
};

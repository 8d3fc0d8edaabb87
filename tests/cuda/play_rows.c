/* Cases for the kernels of softmax, norms, losses of rows, embeddings (rows_rows.def). */
#include "play_kernels.h"

const struct play_case play_rows[] = {
    { NULL, NULL, KERNEL_COUNT },
};

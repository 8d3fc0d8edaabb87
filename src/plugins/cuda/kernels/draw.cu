/* Random fills, a thread for each block of Philox: tensor/cpu/draw.c. In PyTorch: ATen/native/cuda/DistributionTemplates.h,
 * Dropout.cu. */
#include "base/philox.h"
#include "plugins/cuda/kernels/element.h"
#include "plugins/cuda/kernels/math.h"
#include "tensor/cpu/draw_bodies.h"

template <typename T> ON_DEVICE void
put(const struct draw_job &job, int64_t i, T drawn)
{
    T element = rounded_to<T>(job.dtype, drawn);
    store<T>(job.out, job.dtype, i, (T)within_range(&job, (double)element));
}

KERNEL_OF(draw, struct draw_job)
{
    const struct draw_job &job = call;
    const int64_t          width = draw_width(job.kind), blocks = job.count / width + (job.count % width != 0);
    ROLLED for (int64_t i = first_item(); i < blocks; i += item_step()) {
        const struct philox at = { job.seed, (uint64_t)i, job.block };
        uint32_t            words[4];
        philox_words(&at, words);
        for (int64_t j = 0; j < width && i * width + j < job.count; j++) {
            if (job.dtype == DTYPE_F64)
                put<double>(job, i * width + j, drawn_wide_number(&job, words, j));
            else
                put<float>(job, i * width + j, drawn_number(&job, words, j));
        }
    }
}

/* Random fills by Philox on the CPU: what KERNEL_draw has to give.
 *
 * Interface: cpu_draw. In PyTorch: ATen/native/cuda/DistributionTemplates.h, for the CPU. */
#include "base/math.h"
#include "tensor/cpu/draw.h"
#include "base/philox.h"
#include "tensor/cpu/draw_bodies.h"

static void
put(const struct draw_job *job, int64_t i, const uint32_t words[4], int64_t j)
{
    char  *at   = (char *)job->out + (size_t)i * dtype_size(job->dtype);
    bool   wide = job->dtype == DTYPE_F64;
    dtype_put_fraction(job->dtype, at, wide ? drawn_wide_number(job, words, j) : (double)drawn_number(job, words, j));
    dtype_put_fraction(job->dtype, at, within_range(job, dtype_fraction(job->dtype, at)));
}

void
cpu_draw(void *context)
{
    const struct draw_job *job   = context;
    const int64_t          width = draw_width(job->kind);
    for (int64_t first = 0; first < job->count; first += width) {
        const struct philox at = { job->seed, (uint64_t)(first / width), job->block };
        uint32_t            words[4];
        philox_words(&at, words);
        for (int64_t j = 0; j < width && first + j < job->count; j++)
            put(job, first + j, words, j);
    }
}

/* One element of a random fill, for the CPU and for kernels. Who includes this has math_log and math_sin, which have the same
 * bits everywhere; sums and products are fused where nvcc fuses PyTorch's and cuRAND's.
 *
 * In cuRAND: curand_uniform.h, curand_normal.h; in PyTorch: ATen/native/cuda/DistributionTemplates.h, Dropout.cu. */
#ifndef TENSOR_CPU_DRAW_BODIES_H
#define TENSOR_CPU_DRAW_BODIES_H
#include <math.h>
#include "tensor/cpu/draw.h"

BOTH float
fraction_of(uint32_t word)
{
    return fmaf((float)word, 0x1p-32f, 0x1p-33f);
}

BOTH uint64_t
wide_word(const uint32_t words[2])
{
    return (uint64_t)words[0] ^ (uint64_t)words[1] << 21;
}

BOTH double
wide_fraction_of(const uint32_t words[2])
{
    return fma((double)wide_word(words), 0x1p-53, 0x1p-54);
}

/* The first of a pair of standard normals. */
BOTH float
normal_of(const uint32_t words[2])
{
    const float turn = 2.3283064e-10f * 6.2831855f;
    float       radius = sqrtf(-2.0f * (float)math_log((double)fraction_of(words[0])));
    float       angle  = fmaf((float)words[1], turn, turn / 2);
    return (float)math_sin((double)angle) * radius;
}

BOTH double
wide_normal_of(const uint32_t words[4])
{
    double radius = sqrt(-2.0 * math_log(wide_fraction_of(words)));
    double turns  = fma((double)wide_word(words + 2), 0x1p-52, 0x1p-53);
    return math_sin(turns * 3.1415926535897932) * radius;
}

/* Number `j` of the elements that share the block; before it is rounded to the job's type. */
BOTH float
drawn_number(const struct draw_job *job, const uint32_t words[4], int64_t j)
{
    const float a = (float)job->a, b = (float)job->b;
    if (job->kind == DRAW_COINS)
        return fraction_of(words[j]) < a || a >= 1 ? 1 : 0;
    return job->kind == DRAW_NORMAL ? fmaf(normal_of(words), b, a) : fmaf(fraction_of(words[0]), b, a);
}

BOTH double
drawn_wide_number(const struct draw_job *job, const uint32_t words[4], int64_t j)
{
    if (job->kind == DRAW_COINS)
        return (double)fraction_of(words[j]) < job->a || job->a >= 1 ? 1 : 0;
    return job->kind == DRAW_NORMAL ? fma(wide_normal_of(words), job->b, job->a)
                                    : fma(wide_fraction_of(words), job->b, job->a);
}

/* Of what was drawn and rounded to the type: the upper end is not part of the range. */
BOTH double
within_range(const struct draw_job *job, double element)
{
    return job->kind == DRAW_UNIFORM && element == job->limit ? job->a : element;
}
#endif

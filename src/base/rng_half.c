/* Fills of 16-bit floats. Uniforms take as many low bits of one word as the type has digits. Normals of 16 and more
 * in one piece are Box-Muller pairs: bfloat16 rounds after each operation, float16 calculates in float and rounds
 * radius and angle only, as the C++ operators of the two make it.
 *
 * In PyTorch: ATen/core/TransformationHelper.h, ATen/native/cpu/DistributionTemplates.h (normal_fill). */
#include <math.h>
#include "base/number.h"
#include "base/rng.h"

static uint16_t
narrow_to_16_bits(float value, bool brain)
{
    return brain ? bfloat_of_float(value) : half_of_float(value);
}

static float
widen(uint16_t bits, bool brain)
{
    return brain ? float_of_bfloat(bits) : float_of_half(bits);
}

static float
rounded(float value, bool brain)
{
    return widen(narrow_to_16_bits(value, brain), brain);
}

void
fill_uniform_half(struct generator *g, uint16_t *out, size_t count, struct uniform uniform, bool brain)
{
    float    from  = rounded((float)uniform.low, brain);
    float    width = rounded(rounded((float)uniform.high, brain) - from, brain);
    uint32_t mask = brain ? 0xff : 0x7ff;
    for (size_t i = 0; i < count; i++) {
        float share = (float)(generator_u32(g) & mask) * (brain ? 0x1p-8f : 0x1p-11f);
        out[i] = narrow_to_16_bits(share * width + from, brain);
    }
}

static void
normal_16_half(uint16_t *x, float mean, float std)
{
    for (int j = 0; j < 8; j++) {
        float u1 = rounded(1 - float_of_half(x[j]), false);
        float angle = rounded((float)(6.283185307179586 * (double)float_of_half(x[j + 8])), false);
        float radius = rounded(sqrtf(-2 * logf(u1)), false);
        x[j]     = half_of_float(fmaf(radius * cosf(angle), std, mean));
        x[j + 8] = half_of_float(fmaf(radius * sinf(angle), std, mean));
    }
}

static void
normal_16_brain(uint16_t *x, float mean, float std)
{
    for (int j = 0; j < 8; j++) {
        float u1 = rounded(1 - float_of_bfloat(x[j]), true);
        float angle = rounded((float)(6.283185307179586 * (double)float_of_bfloat(x[j + 8])), true);
        float radius = rounded(sqrtf(rounded(-2 * rounded(logf(u1), true), true)), true);
        float cosine = rounded(radius * rounded(cosf(angle), true), true);
        float sine = rounded(radius * rounded(sinf(angle), true), true);
        x[j]     = bfloat_of_float(rounded(cosine * std, true) + mean);
        x[j + 8] = bfloat_of_float(rounded(sine * std, true) + mean);
    }
}

void
fill_normal_half(struct generator *g, uint16_t *out, size_t count, struct normal normal, bool brain)
{
    if (count < 16 || !normal.contiguous) {
        normal.contiguous = false;
        for (size_t i = 0; i < count; i++) {
            double one;
            fill_normal_f64(g, &one, 1, normal);
            out[i] = narrow_to_16_bits((float)one, brain);
        }
        return;
    }
    const struct uniform unit = { 0, 1 };
    void (*normal_16)(uint16_t *x, float mean, float std) = brain ? normal_16_brain : normal_16_half;
    float middle = rounded((float)normal.mean, brain), spread = rounded((float)normal.std, brain);
    fill_uniform_half(g, out, count, unit, brain);
    for (size_t i = 0; i + 16 <= count; i += 16)
        normal_16(out + i, middle, spread);
    if (count % 16 != 0) {
        fill_uniform_half(g, out + count - 16, 16, unit, brain);
        normal_16(out + count - 16, middle, spread);
    }
}

/* Fills of 16-bit floats: drawn as floats, rounded once. (PyTorch 1.13 drew 11 or 8 bits and rounded in between.)
 *
 * In PyTorch: ATen/native/cpu/DistributionTemplates.h (uniform_kernel, normal_fill). */
#include <math.h>
#include "base/number.h"
#include "base/rng.h"

static uint16_t
narrow_to_16_bits(float value, bool brain)
{
    return brain ? bfloat_of_float(value) : half_of_float(value);
}

static float
rounded(float value, bool brain)
{
    uint16_t bits = narrow_to_16_bits(value, brain);
    return brain ? float_of_bfloat(bits) : float_of_half(bits);
}

/* What rounds to the upper bound becomes the lower one. */
void
fill_uniform_half(struct generator *g, uint16_t *out, size_t count, struct uniform uniform, bool brain)
{
    float from = (float)uniform.low, to = (float)uniform.high;
    float least = rounded(from, brain), most = rounded(to, brain);
    for (size_t i = 0; i < count; i++) {
        float drawn = rounded(fmaf(generator_f32(g), to - from, from), brain);
        out[i] = narrow_to_16_bits(drawn == most ? least : drawn, brain);
    }
}

/* Blocks of 16 as floats; a rest draws the last 16 anew. */
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
    for (size_t i = 0; i < count; i += 16) {
        float block[16];
        size_t at = i + 16 <= count ? i : count - 16;
        fill_normal_f32(g, block, 16, normal);
        for (size_t j = 0; j < 16; j++)
            out[at + j] = narrow_to_16_bits(block[j], brain);
    }
}

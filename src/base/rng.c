/* PyTorch's CPU generator. Every number is made from the words of one Mersenne twister, one element after the
 * other, in memory order. Three things make the bits equal to PyTorch's: fused multiply-add exactly where it is
 * written here (so the file must be compiled with -ffp-contract=off), the 16-wide Box-Muller with its own
 * polynomials, and the order of draws.
 *
 * Interface in order of use: generator_seed; generator_u32 to generator_f64; the fills and draws, which are built on
 * those alone; generator_state and generator_set_state. generator_draws, and splitmix, stand alone.
 *
 * In PyTorch: aten/src/ATen/CPUGeneratorImpl.cpp, core/MT19937RNGEngine.h, core/DistributionsHelper.h,
 * native/cpu/DistributionTemplates.h, native/cpu/avx_mathfun.h, core/PhiloxRNGEngine.h. */
#include "base/rng.h"

#include "base/draw_math.h"
#include "base/reader.h"

#include <math.h>
#include <string.h>

enum { MT_WORDS = 624, MT_MIDDLE = 397, STATE_BYTES = 5056 };

static const double two_pi = 6.283185307179586476925286766559;

void
generator_seed(struct generator *generator, uint64_t seed)
{
    *generator = (struct generator){ .seed = seed };
    generator->state[0] = (uint32_t)seed;
    for (uint32_t j = 1; j < MT_WORDS; j++) {
        uint32_t word = generator->state[j - 1];
        generator->state[j] = 1812433253u * (word ^ word >> 30) + j;
    }
}

/* Makes the next 624 words. In place: the words behind j are still those of the old block. */
static void
renew(struct generator *generator)
{
    uint32_t *state = generator->state;
    for (int j = 0; j < MT_WORDS; j++) {
        uint32_t mixed = (state[j] & 0x80000000u) | (state[(j + 1) % MT_WORDS] & 0x7fffffffu);
        uint32_t middle = state[(j + MT_MIDDLE) % MT_WORDS];
        state[j] = middle ^ mixed >> 1 ^ (mixed & 1 ? 0x9908b0dfu : 0);
    }
    generator->position = 0;
}

/* Position 0 is a fresh seed: as in PyTorch, its first block is made at the first word and not before. */
uint32_t
generator_u32(struct generator *generator)
{
    if (generator->position == 0 || generator->position == MT_WORDS)
        renew(generator);
    uint32_t word = generator->state[generator->position++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

uint64_t
generator_u64(struct generator *generator)
{
    uint64_t high = generator_u32(generator);
    return high << 32 | generator_u32(generator);
}

float
generator_f32(struct generator *generator)
{
    return (float)(generator_u32(generator) & 0xffffffu) * 0x1p-24f;
}

double
generator_f64(struct generator *generator)
{
    return (double)(generator_u64(generator) & 0x1fffffffffffffu) * 0x1p-53;
}

/* The upper bound itself, which rounding may reach, becomes the lower one. */
void
fill_uniform_f32(struct generator *g, float *out, size_t count, double low, double high)
{
    float a = (float)low, b = (float)high;
    for (size_t i = 0; i < count; i++) {
        float drawn = fmaf(generator_f32(g), b - a, a);
        out[i] = drawn == b ? a : drawn;
    }
}

void
fill_uniform_f64(struct generator *g, double *out, size_t count, double low, double high)
{
    for (size_t i = 0; i < count; i++) {
        double drawn = fma(generator_f64(g), high - low, low);
        out[i] = drawn == high ? low : drawn;
    }
}

/* Path S: one standard normal in double. The second of each pair waits in the generator, whoever takes it. */
static double
next_normal(struct generator *g)
{
    if (g->has_normal) {
        g->has_normal = false;
        return g->next_normal;
    }
    double u1 = generator_f64(g);
    double u2 = generator_f64(g);
    double radius = sqrt(-2.0 * draw_log1p(-u2)); /* log(1 - u2) in 1.13 */
    double theta = two_pi * u1;
    double sine, cosine;
    draw_sincos(theta, &sine, &cosine);
    g->next_normal = radius * sine;
    g->has_normal = true;
    return radius * cosine;
}

/* Cephes logf for x in (0, 1], fused where GCC fuses PyTorch's intrinsics. */
static float
vlog(float x)
{
    static const float terms[] = { -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                                   -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f };
    int exponent;
    float m = frexpf(x, &exponent);
    if (m < 0.70710678f) {
        exponent--;
        m = (m - 1.0f) + m;
    } else {
        m = m - 1.0f;
    }
    float e = (float)exponent;
    float z = m * m;
    float y = 7.0376836292e-2f;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
        y = fmaf(y, m, terms[i]);
    y = y * m;
    y = fmaf(y, z, e * -2.12194440e-4f);
    y = y - 0.5f * z;
    return fmaf(e, 0.693359375f, m + y);
}

/* Cephes sinf and cosf for t >= 0, reduced by eighths of the circle. */
static void
vsincos(float t, float *sine, float *cosine)
{
    int j = ((int)(t * 1.27323954473516f) + 1) & ~1;
    float f = (float)j;
    t = fmaf(f, -0.78515625f, t);
    t = fmaf(f, -2.4187564849853515625e-4f, t);
    t = fmaf(f, -3.77489497744594108e-8f, t);
    float z = t * t;

    float p = 2.443315711809948e-5f;
    p = fmaf(p, z, -1.388731625493765e-3f);
    p = fmaf(p, z, 4.166664568298827e-2f);
    p = p * z;
    p = fmaf(p, z, -(0.5f * z));
    p = p + 1.0f;

    float q = -1.9515295891e-4f;
    q = fmaf(q, z, 8.3321608736e-3f);
    q = fmaf(q, z, -1.6666654611e-1f);
    q = q * z;
    q = fmaf(q, t, t);

    float s = (j & 2) == 0 ? q : p;
    float c = (j & 2) == 0 ? p : q;
    *sine = (j & 4) != 0 ? -s : s;
    *cosine = ((j - 2) & 4) == 0 ? -c : c;
}

/* Sixteen uniforms become sixteen normals: element j pairs with j + 8. */
static void
normal_16_f32(float *x, float mean, float std)
{
    for (int j = 0; j < 8; j++) {
        float sine, cosine;
        float radius = sqrtf(-2.0f * vlog(1.0f - x[j]));
        vsincos(6.2831855f * x[j + 8], &sine, &cosine);
        x[j] = fmaf(radius * cosine, std, mean);
        x[j + 8] = fmaf(radius * sine, std, mean);
    }
}

static void
normal_16_f64(double *x, double mean, double std)
{
    for (int j = 0; j < 8; j++) {
        double sine, cosine;
        double radius = sqrt(-2.0 * draw_log(1.0 - x[j]));
        draw_sincos(two_pi * x[j + 8], &sine, &cosine);
        x[j] = fma(radius * cosine, std, mean);
        x[j + 8] = fma(radius * sine, std, mean);
    }
}

/* A rest of fewer than 16 draws the last 16 elements anew, over finished ones, as PyTorch does. */
void
fill_normal_f32(struct generator *g, float *out, size_t count, struct normal normal)
{
    if (count < 16 || !normal.contiguous) {
        for (size_t i = 0; i < count; i++)
            out[i] = (float)fma(next_normal(g), normal.std, normal.mean);
        return;
    }
    fill_uniform_f32(g, out, count, 0, 1);
    for (size_t i = 0; i + 16 <= count; i += 16)
        normal_16_f32(out + i, (float)normal.mean, (float)normal.std);
    if (count % 16 != 0) {
        fill_uniform_f32(g, out + count - 16, 16, 0, 1);
        normal_16_f32(out + count - 16, (float)normal.mean, (float)normal.std);
    }
}

void
fill_normal_f64(struct generator *g, double *out, size_t count, struct normal normal)
{
    if (count < 16 || !normal.contiguous) {
        for (size_t i = 0; i < count; i++)
            out[i] = fma(next_normal(g), normal.std, normal.mean);
        return;
    }
    fill_uniform_f64(g, out, count, 0, 1);
    for (size_t i = 0; i + 16 <= count; i += 16)
        normal_16_f64(out + i, normal.mean, normal.std);
    if (count % 16 != 0) {
        fill_uniform_f64(g, out + count - 16, 16, 0, 1);
        normal_16_f64(out + count - 16, normal.mean, normal.std);
    }
}

/* A plain modulo, of two words where one would favour the small numbers by more than a twentieth. (PyTorch 1.13: from
 * 2^32 on, and never for narrow types.) */
int64_t
draw_randint(struct generator *g, int64_t low, int64_t high)
{
    const uint64_t two_words_from = (uint64_t)1 << 28;
    uint64_t range = (uint64_t)high - (uint64_t)low;
    if (range == 0)
        return low; /* callers refuse it; here it must only not divide */
    uint64_t word = range >= two_words_from ? generator_u64(g) : generator_u32(g);
    return (int64_t)((uint64_t)low + word % range);
}

int64_t
draw_random_i64(struct generator *g)
{
    return (int64_t)(generator_u64(g) & INT64_MAX);
}

int64_t
draw_random_f32(struct generator *g)
{
    return generator_u32(g) % ((1u << 24) + 1);
}

bool
draw_random_bool(struct generator *g)
{
    return (generator_u32(g) & 1) != 0;
}

bool
draw_bernoulli(struct generator *g, double p)
{
    return generator_f64(g) < p;
}

double
draw_exponential(struct generator *g, double rate)
{
    return -1 / rate * draw_log1p(-generator_f64(g));
}

void
fill_randperm(struct generator *g, int64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (int64_t)i;
    for (size_t i = 0; i + 1 < count; i++) {
        size_t other = i + generator_u32(g) % (count - i);
        int64_t value = out[i];
        out[i] = out[other];
        out[other] = value;
    }
}

static unsigned char *
put_little_endian(unsigned char *to, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *to++ = (unsigned char)(number >> 8 * i);
    return to;
}

/* Of the device that has drawn most. */
static uint64_t
blocks_drawn(const struct generator *generator)
{
    uint64_t most = 0;
    for (int i = 0; i < GENERATOR_DEVICES; i++)
        most = generator->devices[i].blocks > most ? generator->devices[i].blocks : most;
    return generator->blocks + most;
}

/* The layout is that of PyTorch's CPUGeneratorImplStateLegacy and the three slots behind it. The first of these PyTorch
 * keeps at 0 and never reads: here it has what devices have drawn. */
void
generator_state(const struct generator *generator, unsigned char out[5056])
{
    uint64_t normal;
    memcpy(&normal, &generator->next_normal, sizeof normal);
    int used = generator->position;

    memset(out, 0, STATE_BYTES);
    unsigned char *to = put_little_endian(out, generator->seed, 8);
    to = put_little_endian(to, used == 0 ? 1 : 625 - (uint64_t)used, 4); /* left */
    to = put_little_endian(to, 1, 4);                                    /* seeded */
    to = put_little_endian(to, (uint64_t)used, 8);                       /* next */
    for (int i = 0; i < MT_WORDS; i++)
        to = put_little_endian(to, generator->state[i], 8);
    to = put_little_endian(to, blocks_drawn(generator), 8);
    to = put_little_endian(to, generator->has_normal ? normal : 0, 8);
    to = put_little_endian(to, 0, 8);
    put_little_endian(to, generator->has_normal, 4);
}

bool
generator_set_state(struct generator *generator, const unsigned char in[5056])
{
    struct reader reader = reader_of(in, STATE_BYTES);
    struct generator read = { .seed = read_u64(&reader) };
    uint32_t left = read_u32(&reader);
    uint32_t seeded = read_u32(&reader);
    uint64_t next = read_u64(&reader);
    if (seeded != 1 || next > MT_WORDS || left != (next == 0 ? 1 : 625 - next))
        return false;

    read.position = (int)next;
    for (int i = 0; i < MT_WORDS; i++) {
        uint64_t word = read_u64(&reader);
        if (word > UINT32_MAX)
            return false;
        read.state[i] = (uint32_t)word;
    }
    read.blocks = read_u64(&reader);
    uint64_t normal = read_u64(&reader);
    memcpy(&read.next_normal, &normal, sizeof normal);
    read_u64(&reader);
    read.has_normal = read_u32(&reader) != 0;
    *generator = read;
    return true;
}

/* Tasks of one rank may come at a time, each for its device: a place is taken once and for all. */
bool
generator_draws(struct generator *generator, int device, struct philox *at)
{
    for (int i = 0; i < GENERATOR_DEVICES; i++) {
        struct device_draws *draws = &generator->devices[(device + i) % GENERATOR_DEVICES];
        int                  owner = 0;
        if (__atomic_compare_exchange_n(&draws->owner, &owner, device + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
            owner == device + 1) {
            uint64_t drawn = __atomic_fetch_add(&draws->blocks, 1, __ATOMIC_RELAXED);
            *at = (struct philox){ .seed = generator->seed, .block = generator->blocks + drawn };
            return true;
        }
    }
    return false;
}

uint64_t
splitmix(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

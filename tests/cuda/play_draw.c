/* Cases for random fills (KERNEL_draw). That the CPU's function and the kernel agree is not all: what is drawn is also
 * compared with Philox's published blocks, and with the rules of tensor/cpu/draw.h by hand. */
#include <math.h>
#include "base/philox.h"
#include "play_kernels.h"
#include "tensor/cpu/draw.h"

static const enum dtype dtypes[] = { DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16 };
enum { DTYPES = 4 };

static struct draw_job
job_of(struct play *p, enum draw_kind kind, enum dtype dtype, int64_t count)
{
    return (struct draw_job){ .seed = 0x123456789abcdef0u, .block = 5, .kind = kind, .dtype = dtype, .a = 0.25, .b = 0.5,
                              .limit = 0.75, .out = memory_new(p, dtype, (size_t)count + 1), .count = count };
}

static void
draws_of_any_length(struct play *p)
{
    const int64_t counts[] = { 0, 1, 3, 255, 257, 70001 };
    for (int kind = DRAW_UNIFORM; kind <= DRAW_COINS; kind++) {
        for (int d = 0; d < DTYPES; d++) {
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                struct draw_job job = job_of(p, (enum draw_kind)kind, dtypes[d], counts[i]);
                if (i % 2 == 1)
                    job.out = (char *)job.out + dtype_size(dtypes[d]);
                compare(p, KERNEL_draw, &job);
            }
        }
    }
}

/* Half precision often rounds to the upper end; a probability of 1 and of 0; a range of nothing. */
static void
draws_at_the_ends(struct play *p)
{
    for (int d = 0; d < DTYPES; d++) {
        struct draw_job job = job_of(p, DRAW_UNIFORM, dtypes[d], 3000);
        job.a = 0, job.b = job.limit = 1;
        compare(p, KERNEL_draw, &job);
        cpu_draw(&job);
        for (int64_t i = 0; i < job.count; i++)
            if (!(dtype_fraction(job.dtype, (char *)job.out + (size_t)i * dtype_size(job.dtype)) < 1))
                play_wrong(p, "a uniform %s of [0, 1) is 1", dtype_name(job.dtype));
        job.a = job.limit = 3, job.b = 0;
        compare(p, KERNEL_draw, &job);
        for (int one = 0; one < 2; one++) {
            job      = job_of(p, DRAW_COINS, dtypes[d], 3001);
            job.a    = one;
            compare(p, KERNEL_draw, &job);
            cpu_draw(&job);
            for (int64_t i = 0; i < job.count; i++)
                if (dtype_fraction(job.dtype, (char *)job.out + (size_t)i * dtype_size(job.dtype)) != one)
                    play_wrong(p, "a coin of probability %d is not %d", one, one);
        }
    }
}

/* ---- the published blocks ---- */

static void
blocks_are_the_published_ones(struct play *p)
{
    static const struct { struct philox at; uint32_t words[4]; } known[] = {
        { { 0, 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { UINT64_MAX, UINT64_MAX, UINT64_MAX }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88 }, { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
        { { 42, 0, 0 }, { 2632642643, 2012563771, 314527917, 1463989207 } },
        { { 42, 7, 3 }, { 2489043674, 2118309240, 2269631881, 4242002894 } },
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        uint32_t words[4];
        philox_words(&known[k].at, words);
        for (int w = 0; w < 4; w++)
            if (words[w] != known[k].words[w])
                play_wrong(p, "word %d of block %zu is %u, not %u", w, k, words[w], known[k].words[w]);
    }
    struct draw_job job = job_of(p, DRAW_UNIFORM, DTYPE_F32, 8);   /* for whoever counts what was compared */
    compare(p, KERNEL_draw, &job);
}

/* ---- by hand ---- */

static double
u_of(uint32_t word)
{
    return (double)(float)(((double)(float)word + 0.5) * 0x1p-32);
}

/* PyTorch 2's torch.rand(8, device="cuda") of seed 0, as published to four decimals, among others. */
static void
numbers_are_by_the_rules(struct play *p)
{
    static const double published[] = { 0.3990, 0.5167, 0.0249, 0.9401 };
    struct draw_job uniform = job_of(p, DRAW_UNIFORM, DTYPE_F32, 8), coins = job_of(p, DRAW_COINS, DTYPE_F32, 1002);
    uniform.seed = uniform.block = 0;
    uniform.a = 0, uniform.b = uniform.limit = 1;
    compare(p, KERNEL_draw, &uniform);
    cpu_draw(&uniform);
    for (int i = 0; i < 4; i++)
        if (fabs((double)((const float *)uniform.out)[i] - published[i]) > 6e-5)
            play_wrong(p, "rand(8)[%d] of seed 0 is %g, not %g", i, (double)((const float *)uniform.out)[i], published[i]);
    compare(p, KERNEL_draw, &coins);
    cpu_draw(&coins);
    for (int64_t i = 0; i < coins.count; i++) {
        uint32_t words[4];
        philox_words(&(struct philox){ coins.seed, (uint64_t)i / 4, coins.block }, words);
        if ((((const float *)coins.out)[i] == 1) != (u_of(words[i % 4]) < coins.a))
            play_wrong(p, "coin %lld lies the wrong way", (long long)i);
    }
}

/* randn(8) of seed 0 begins with -0.9247 -0.4253; and as many numbers have the mean and deviation that they should. */
static void
normals_are_by_the_rules(struct play *p)
{
    static const double published[] = { -0.9247, -0.4253 };
    for (int d = 0; d < DTYPES; d++) {
        struct draw_job job = job_of(p, DRAW_NORMAL, dtypes[d], 20000);
        double          sum = 0, squares = 0;
        job.seed = job.block = 0;
        job.a = 0, job.b = 1;
        cpu_draw(&job);
        for (int64_t i = 0; i < job.count; i++) {
            double x = dtype_fraction(job.dtype, (char *)job.out + (size_t)i * dtype_size(job.dtype));
            if (i < 2 && d == 0 && fabs(x - published[i]) > 6e-5)
                play_wrong(p, "randn(8)[%d] of seed 0 is %g, not %g", (int)i, x, published[i]);
            sum += x;
            squares += x * x;
        }
        double mean = sum / (double)job.count, variance = squares / (double)job.count - mean * mean;
        if (!(fabs(mean) < 0.03 && fabs(variance - 1) < 0.04))
            play_wrong(p, "normal numbers of %s: mean %g, variance %g", dtype_name(job.dtype), mean, variance);
        job.count = 300;
        compare(p, KERNEL_draw, &job);
    }
}

const struct play_case play_draws[] = {
    { "random fills of any length", draws_of_any_length, KERNEL_draw },
    { "random fills at the ends of their range", draws_at_the_ends, KERNEL_draw },
    { "Philox's blocks are the published ones", blocks_are_the_published_ones, KERNEL_draw },
    { "uniform numbers and coins are by the rules", numbers_are_by_the_rules, KERNEL_draw },
    { "normal numbers are by the rules", normals_are_by_the_rules, KERNEL_draw },
    { NULL, NULL, KERNEL_COUNT },
};

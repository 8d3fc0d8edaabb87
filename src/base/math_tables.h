/* What base/math_bodies.h looks up. Each number is rounded once from its definition, which tests/unit/test_math.c works
 * out again. "Cut" numbers keep their upper 26 digits, so that products with the upper half of another are exact.
 * Tables stand in functions, since kernels of GPUs reach no others. */
#ifndef BASE_MATH_TABLES_H
#define BASE_MATH_TABLES_H
#include <stdint.h>
#include "base/both.h"

/* 2^(j/32): cut, and the rest. j: 0 to 31. */
BOTH const double *
power_row(int j)
{
    static const double rows[32][2] = {
        { 0x1p0, 0 }, { 0x1.059b0dp0, 0x1.8ac2ba1d73e2ap-27 },
        { 0x1.0b55868p0, 0x1.3e6243d8a62e5p-26 }, { 0x1.11301dp0, 0x1.25b50a4ebbf1bp-32 },
        { 0x1.172b838p0, 0x1.1f545eb737df2p-26 }, { 0x1.1d4873p0, 0x1.68b9aa7805b8p-28 },
        { 0x1.2387a68p0, 0x1.9d588e19b07ebp-26 }, { 0x1.29e9dfp0, 0x1.47f7b84b09745p-26 },
        { 0x1.306fe08p0, 0x1.18db8a96f46adp-27 }, { 0x1.371a73p0, 0x1.ceaa72a9c5154p-26 },
        { 0x1.3dea648p0, 0x1.048d088d6d049p-26 }, { 0x1.44e086p0, 0x1.8624b40c4dbdp-30 },
        { 0x1.4bfdadp0, 0x1.4d8a89c750e5fp-26 }, { 0x1.5342b5p0, 0x1.a753e077c2a0fp-26 },
        { 0x1.5ab07d8p0, 0x1.52150a56324cp-26 }, { 0x1.6247ebp0, 0x1.d2ac258f87d03p-31 },
        { 0x1.6a09e6p0, 0x1.9fcef32422cbfp-26 }, { 0x1.71f75e8p0, 0x1.d8bee7ba46e1ep-29 },
        { 0x1.7a1147p0, 0x1.f580c36bea881p-27 }, { 0x1.8258998p0, 0x1.4cce128acf88bp-28 },
        { 0x1.8ace54p0, 0x1.15506dadd3e2bp-27 }, { 0x1.93737bp0, 0x1.9b8bc9e8a0388p-29 },
        { 0x1.9c4918p0, 0x1.51f8480e3e236p-27 }, { 0x1.a5503bp0, 0x1.1f12ae45a1225p-27 },
        { 0x1.ae89f98p0, 0x1.5ad3ad5e8734dp-28 }, { 0x1.b7f76fp0, 0x1.7daf237553d84p-27 },
        { 0x1.c199bd8p0, 0x1.6154a7088832cp-26 }, { 0x1.cb720d8p0, 0x1.3be41a4540f2fp-26 },
        { 0x1.d5818d8p0, 0x1.3ee921c976817p-26 }, { 0x1.dfc973p0, 0x1.bdcdaf5cb4656p-27 },
        { 0x1.ea4afap0, 0x1.52486cc2c7b9dp-27 }, { 0x1.f507658p0, 0x1.b722a033a7c26p-27 },
    };
    return rows[j];
}

/* For numbers from 0.6875 on, in 128 steps to its double: c, near to their reciprocal (ARM's optimized-routines chose it:
 * log_data.c); -log c in multiples of 2^-43, and the rest. */
BOTH const double *
log_row(int j)
{
    static const double rows[128][3] = {
#include "base/log_rows.def"
    };
    return rows[j];
}

/* sin and cos of j/128: cut, and the rest, of each. j: 0 to 109. */
BOTH const double *
turn_row(int j)
{
    static const double rows[110][4] = {
#include "base/turn_rows.def"
    };
    return rows[j];
}

/* 64 binary digits of 2/pi from digit `at` on (the first after the point is 0). at: -64 to 1215. */
BOTH uint64_t
digits_of_2_over_pi(int at)
{
    static const uint64_t words[20] = {
        0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
        0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
        0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
        0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D,
    };
    int      word = at < 0 ? -1 : at / 64, shift = at < 0 ? at + 64 : at % 64;
    uint64_t high = word >= 0 ? words[word] : 0, low = words[word + 1];
    return shift == 0 ? high : high << shift | low >> (64 - shift);
}
#endif

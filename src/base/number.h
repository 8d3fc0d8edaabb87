/* Numbers from one C type to another as PyTorch converts them on x86-64, defined for every value: float16 and bfloat16
 * (kept as their 16 bits) round to the nearest, halves to even; fractions become integers by cutting off, and what
 * does not fit, NaN too, the least integer. In PyTorch: c10/util/Half.h, BFloat16.h, TypeCast.h. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include "base/both.h"

BOTH uint32_t
bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

BOTH float
float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

BOTH uint64_t
bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

BOTH double
double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

BOTH float
float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, digits = half & 0x3ff;
    if (exponent == 0)
        return float_of_bits(sign | bits_of_float((float)digits * 0x1p-24f));
    return float_of_bits(sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | digits << 13);
}

BOTH uint16_t
half_of_float(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) /* 65520 is nearer to 65536, which there is not */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000)  /* below 2^-14 the last digit is 2^-24, as that of a float32 at 0.5: the sum rounds */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13));
}

BOTH float
float_of_bfloat(uint16_t bfloat)
{
    return float_of_bits((uint32_t)bfloat << 16);
}

BOTH uint16_t
bfloat_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    return value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

BOTH int64_t
int64_of_double(double value)
{
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

BOTH int32_t
int32_of_double(double value)
{
    return value > -0x1p31 - 1 && value < 0x1p31 ? (int32_t)value : INT32_MIN;
}

/* The nearest int: of a dimension that does not fit one that no tensor has. */
BOTH int
int_of_int64(int64_t value)
{
    return value < INT_MIN ? INT_MIN : value > INT_MAX ? INT_MAX : (int)value;
}
#endif

/* Element types, one row each. The names are PyTorch's, torch/_C DType: what `t.dtype` prints without "torch.".
 *
 * Interface: dtype_parse for what a lesson wrote; dtype_name, dtype_promote for everybody. In PyTorch:
 * c10/core/ScalarType.h (promoteTypes, canCast). */
#include "base/dtype.h"

#include <math.h>
#include <string.h>
#include "base/number.h"

static const struct dtype_row {
    const char *name, *title, *alias, *c_type;
    int         rank;      /* of two types the higher one is that of the result */
    double      most;      /* the largest number */
} dtype_table[DTYPE_COUNT] = {
    [DTYPE_F32]  = { "float32", "Float", "float", "float", 7, 0x1.fffffep127 },
    [DTYPE_F64]  = { "float64", "Double", "double", "double", 8, 0x1.fffffffffffffp1023 },
    [DTYPE_I64]  = { "int64", "Long", "long", "int64_t", 4, 0x1p63 },
    [DTYPE_BOOL] = { "bool", "Bool", "bool", "bool", 0, 1 },
    [DTYPE_I32]  = { "int32", "Int", "int", "int", 3, 0x1.fffffffcp30 },
    [DTYPE_U8]   = { "uint8", "Byte", "byte", "uint8_t", 1, 255 },
    [DTYPE_F16]  = { "float16", "Half", "half", "c10::Half", 5, 65504 },
    [DTYPE_BF16] = { "bfloat16", "BFloat16", "bfloat16", "c10::BFloat16", 6, 0x1.fep127 },
    [DTYPE_I8]   = { "int8", "Char", "char", "int8_t", 2, 127 },
};

const char *
dtype_name(enum dtype dtype)
{
    return dtype_table[dtype].name;
}

const char *
dtype_title(enum dtype dtype)
{
    return dtype_table[dtype].title;
}

const char *
dtype_c_type(enum dtype dtype)
{
    return dtype_table[dtype].c_type;
}

bool
dtype_parse(const char *name, enum dtype *out)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_table[i].name) == 0 || strcmp(name, dtype_table[i].alias) == 0) {
            *out = (enum dtype)i;
            return true;
        }
    }
    return false;
}

/* Neither of the two halves holds the other, nor does either of the two types of a byte. */
enum dtype
dtype_promote(enum dtype a, enum dtype b)
{
    if ((a == DTYPE_F16 && b == DTYPE_BF16) || (a == DTYPE_BF16 && b == DTYPE_F16))
        return DTYPE_F32;
    if ((a == DTYPE_U8 && b == DTYPE_I8) || (a == DTYPE_I8 && b == DTYPE_U8))
        return DTYPE_I32;
    return dtype_table[a].rank >= dtype_table[b].rank ? a : b;
}

enum dtype
dtype_over(enum dtype higher, enum dtype lower)
{
    if (higher == DTYPE_COUNT || lower == DTYPE_COUNT)
        return higher == DTYPE_COUNT ? lower : higher;
    bool decides = !dtype_is_float(higher) && (higher == DTYPE_BOOL || dtype_is_float(lower));
    return decides ? dtype_promote(higher, lower) : higher;
}

bool
dtype_can_cast(enum dtype from, enum dtype to)
{
    return !(dtype_is_float(from) && !dtype_is_float(to)) && !(to == DTYPE_BOOL && from != DTYPE_BOOL);
}

/* Elements of a trace lie anywhere: they are copied out. */
double
dtype_fraction(enum dtype dtype, const void *element)
{
    union { float f; double d; uint16_t h; } x = { 0 };
    if (!dtype_is_float(dtype))
        return (double)dtype_whole(dtype, element);
    memcpy(&x, element, dtype_size(dtype));
    switch (dtype) {
    case DTYPE_F32:  return (double)x.f;
    case DTYPE_F16:  return (double)float_of_half(x.h);
    case DTYPE_BF16: return (double)float_of_bfloat(x.h);
    default:         return x.d;
    }
}

int64_t
dtype_whole(enum dtype dtype, const void *element)
{
    union { int64_t i64; int32_t i32; int8_t i8; uint8_t u8; } x = { 0 };
    if (dtype_is_float(dtype))
        return int64_of_double(dtype_fraction(dtype, element));
    memcpy(&x, element, dtype_size(dtype));
    switch (dtype) {
    case DTYPE_I64: return x.i64;
    case DTYPE_I32: return x.i32;
    case DTYPE_U8:  return x.u8;
    case DTYPE_I8:  return x.i8;
    default:        return x.u8 != 0;
    }
}

void
dtype_put_fraction(enum dtype dtype, void *element, double value)
{
    switch (dtype) {
    case DTYPE_F32:  *(float *)element = (float)value; break;
    case DTYPE_F64:  *(double *)element = value; break;
    case DTYPE_F16:  *(uint16_t *)element = half_of_float((float)value); break;
    case DTYPE_BF16: *(uint16_t *)element = bfloat_of_float((float)value); break;
    case DTYPE_BOOL: *(uint8_t *)element = value != 0; break;
    case DTYPE_I32:  *(int32_t *)element = int32_of_double(value); break;
    case DTYPE_I8:   *(int8_t *)element = (int8_t)int32_of_double(value); break;
    default:         dtype_put_whole(dtype, element, int64_of_double(value)); break;
    }
}

void
dtype_put_whole(enum dtype dtype, void *element, int64_t value)
{
    switch (dtype) {
    case DTYPE_I64:  *(int64_t *)element = value; break;
    case DTYPE_BOOL: *(uint8_t *)element = value != 0; break;
    case DTYPE_I32:  *(int32_t *)element = (int32_t)(uint32_t)value; break;
    case DTYPE_U8:   *(uint8_t *)element = (uint8_t)value; break;
    case DTYPE_I8:   *(int8_t *)element = (int8_t)(uint8_t)value; break;
    case DTYPE_F32:  *(float *)element = (float)value; break;
    case DTYPE_F64:  *(double *)element = (double)value; break;
    default:         dtype_put_fraction(dtype, element, (double)(float)value); break;
    }
}

void
dtype_ends(enum dtype dtype, int64_t *least, int64_t *most)
{
    int bits = (int)dtype_size(dtype) * 8;
    *most    = dtype == DTYPE_BOOL ? 1 : dtype == DTYPE_U8 ? UINT8_MAX : INT64_MAX >> (64 - bits);
    *least   = dtype == DTYPE_BOOL || dtype == DTYPE_U8 ? 0 : -*most - 1;
}

bool
dtype_holds(enum dtype dtype, double value, bool whole)
{
    double most = dtype_table[dtype].most;
    if (dtype_is_float(dtype))
        return !(fabs(value) > most) || value - value != 0;
    int64_t least, largest;
    dtype_ends(dtype, &least, &largest);
    least = dtype == DTYPE_U8 && whole ? -UINT8_MAX : least;
    return dtype == DTYPE_BOOL || (value >= (double)least && value - most < 1); /* 127.9 is cut off */
}

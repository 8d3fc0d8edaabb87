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
    enum dtype  wide;
    double      most;      /* the largest number */
} dtype_table[DTYPE_COUNT] = {
    [DTYPE_F32]  = { "float32", "Float", "float", "float", 6, DTYPE_F32, 0x1.fffffep127 },
    [DTYPE_F64]  = { "float64", "Double", "double", "double", 7, DTYPE_F64, 0x1.fffffffffffffp1023 },
    [DTYPE_I64]  = { "int64", "Long", "long", "int64_t", 3, DTYPE_I64, 0x1p63 },
    [DTYPE_BOOL] = { "bool", "Bool", "bool", "bool", 0, DTYPE_I64, 1 },
    [DTYPE_I32]  = { "int32", "Int", "int", "int", 2, DTYPE_I64, 0x1.fffffffcp30 },
    [DTYPE_U8]   = { "uint8", "Byte", "byte", "uint8_t", 1, DTYPE_I64, 255 },
    [DTYPE_F16]  = { "float16", "Half", "half", "c10::Half", 4, DTYPE_F32, 65504 },
    [DTYPE_BF16] = { "bfloat16", "BFloat16", "bfloat16", "c10::BFloat16", 5, DTYPE_F32, 0x1.fep127 },
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

enum dtype
dtype_wide(enum dtype dtype)
{
    return dtype_table[dtype].wide;
}

/* Neither of the two halves holds the other. */
enum dtype
dtype_promote(enum dtype a, enum dtype b)
{
    if ((a == DTYPE_F16 && b == DTYPE_BF16) || (a == DTYPE_BF16 && b == DTYPE_F16))
        return DTYPE_F32;
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
    union { int64_t i64; int32_t i32; uint8_t u8; } x = { 0 };
    if (dtype_is_float(dtype))
        return int64_of_double(dtype_fraction(dtype, element));
    memcpy(&x, element, dtype_size(dtype));
    switch (dtype) {
    case DTYPE_I64: return x.i64;
    case DTYPE_I32: return x.i32;
    case DTYPE_U8:  return x.u8;
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
    case DTYPE_F32:  *(float *)element = (float)value; break;
    case DTYPE_F64:  *(double *)element = (double)value; break;
    default:         dtype_put_fraction(dtype, element, (double)(float)value); break;
    }
}

bool
dtype_holds(enum dtype dtype, double value, bool whole)
{
    double most = dtype_table[dtype].most;
    if (dtype_is_float(dtype))
        return !(fabs(value) > most) || value - value != 0;
    double least = dtype == DTYPE_U8 ? (whole ? -255 : 0) : dtype == DTYPE_I32 ? -0x1p31 : -0x1p63;
    return dtype == DTYPE_BOOL || (value >= least && value <= most);
}

/* Element types: their size, their names in Lua ("float32") and in messages ("Float"), which of them hold fractions,
 * what two of them make together, and single elements as numbers of C. The numbers of the types are in trace files. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/both.h"

enum dtype { DTYPE_F32, DTYPE_F64, DTYPE_I64, DTYPE_BOOL, DTYPE_I32, DTYPE_U8, DTYPE_F16, DTYPE_BF16, DTYPE_I8,
             DTYPE_COUNT };

/* Bytes of one element. */
BOTH size_t
dtype_size(enum dtype dtype)
{
    static const uint8_t sizes[DTYPE_COUNT] = { 4, 8, 8, 1, 4, 1, 2, 2, 1 }; /* in the order of enum dtype */
    return sizes[dtype];
}

BOTH bool
dtype_is_float(enum dtype dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

/* What its kernels calculate in: float32, float64 or int64. */
BOTH enum dtype
dtype_wide(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : dtype_is_float(dtype) ? DTYPE_F32 : DTYPE_I64;
}

const char *dtype_name(enum dtype dtype);              /* "float32", "float64", "int64", "bool", ... */
const char *dtype_title(enum dtype dtype);             /* in PyTorch's messages: "Float", "Double", "Long", "Bool", ... */
const char *dtype_c_type(enum dtype dtype);            /* in those about numbers: "float", "int64_t", "at::Half" */
bool        dtype_parse(const char *name, enum dtype *out); /* false: no such type; "half", "long" and so on are known */
enum dtype  dtype_promote(enum dtype a, enum dtype b); /* what both are calculated in; uint8 and int8: in int32,
                                  where PyTorch has int16 */
enum dtype  dtype_over(enum dtype higher, enum dtype lower); /* operands of lower rank (0-dim, numbers) decide only by
                                  a higher kind (bool < integers < floats); DTYPE_COUNT: there is none */
bool        dtype_can_cast(enum dtype from, enum dtype to); /* in place: floats not into integers, only bools into bool */

/* One element in memory. Of fractions a whole number is cut off, see base/number.h. */
double      dtype_fraction(enum dtype dtype, const void *element);
int64_t     dtype_whole(enum dtype dtype, const void *element);
void        dtype_ends(enum dtype dtype, int64_t *least, int64_t *most); /* of a type of integers */
/* Does a number fit? Whole ones down to -255 wrap around in uint8, as PyTorch lets them. */
bool        dtype_holds(enum dtype dtype, double value, bool whole);
void        dtype_put_fraction(enum dtype dtype, void *element, double value);
void        dtype_put_whole(enum dtype dtype, void *element, int64_t value); /* integers wrap around */
#endif

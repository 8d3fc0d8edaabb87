/* Element types: their size, their names in Lua ("float32") and in messages, and which of them hold fractions. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H
#include <stdbool.h>
#include <stddef.h>

enum dtype { DTYPE_F32, DTYPE_F64, DTYPE_I64, DTYPE_BOOL, DTYPE_COUNT };

size_t      dtype_size(enum dtype dtype);              /* bytes of one element */
const char *dtype_name(enum dtype dtype);              /* "float32", "float64", "int64", "bool" */
bool        dtype_is_float(enum dtype dtype);
bool        dtype_parse(const char *name, enum dtype *out); /* false: no such type */
#endif

/* The names of element types in safetensors files. */
#ifndef DATA_SAFETENSORS_DTYPE_H
#define DATA_SAFETENSORS_DTYPE_H
#include <stdbool.h>
#include "base/dtype.h"

bool        safetensors_dtype(const char *name, enum dtype *out);   /* false: there is no such type here */
const char *safetensors_dtype_name(enum dtype dtype);               /* NULL: files have no such type */
#endif

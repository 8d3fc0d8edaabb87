/* Element types, one row each. The names are PyTorch's, torch/_C DType: what `t.dtype` prints without "torch.".
 *
 * Interface: dtype_parse for what a lesson wrote; dtype_size, dtype_name, dtype_is_float for everybody. */
#include "base/dtype.h"

#include <string.h>

static const struct dtype_row {
    const char *name;
    size_t      size;
    bool        is_float;
} dtype_table[DTYPE_COUNT] = {
    [DTYPE_F32]  = { "float32", 4, true },
    [DTYPE_F64]  = { "float64", 8, true },
    [DTYPE_I64]  = { "int64", 8, false },
    [DTYPE_BOOL] = { "bool", 1, false },
};

size_t
dtype_size(enum dtype dtype)
{
    return dtype_table[dtype].size;
}

const char *
dtype_name(enum dtype dtype)
{
    return dtype_table[dtype].name;
}

bool
dtype_is_float(enum dtype dtype)
{
    return dtype_table[dtype].is_float;
}

/* PyTorch's second names are understood: float, double, long. */
bool
dtype_parse(const char *name, enum dtype *out)
{
    static const struct {
        const char *name;
        enum dtype  dtype;
    } aliases[] = { { "float", DTYPE_F32 }, { "double", DTYPE_F64 }, { "long", DTYPE_I64 } };

    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_table[i].name) == 0) {
            *out = (enum dtype)i;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (strcmp(name, aliases[i].name) == 0) {
            *out = aliases[i].dtype;
            return true;
        }
    }
    return false;
}

/* Interface: fake_sum, fake_sum_size, fake_sum_read. */
#include "nccl_sum.h"

#include <stdint.h>
#include <string.h>
#include "base/dtype.h"
#include "plugins/cuda/nccl_api.h"

static enum dtype
dtype_of(int type)
{
    switch (type) {
    case TYPE_INT8: return DTYPE_I8;
    case TYPE_UINT8: return DTYPE_U8;
    case TYPE_INT32: return DTYPE_I32;
    case TYPE_INT64: return DTYPE_I64;
    case TYPE_FLOAT16: return DTYPE_F16;
    case TYPE_BFLOAT16: return DTYPE_BF16;
    case TYPE_FLOAT64: return DTYPE_F64;
    default: return DTYPE_F32;
    }
}

size_t
fake_sum_size(int type)
{
    return dtype_size(dtype_of(type));
}

double
fake_sum_read(int type, const void *element)
{
    return dtype_fraction(dtype_of(type), element);
}

static int64_t
whole_step(int op, int64_t a, int64_t b)
{
    switch (op) {
    case OP_PRODUCT: return (int64_t)((uint64_t)a * (uint64_t)b);
    case OP_MAX: return a > b ? a : b;
    case OP_MIN: return a < b ? a : b;
    default: return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static double
fraction_step(int op, double a, double b)
{
    switch (op) {
    case OP_PRODUCT: return a * b;
    case OP_MAX: return a > b ? a : b;
    case OP_MIN: return a < b ? a : b;
    default: return a + b;
    }
}

static void
sum_whole(const struct fake_sum *sum, enum dtype dtype, size_t at)
{
    int64_t total = dtype_whole(dtype, sum->given[0] + at);
    for (int i = 1; i < sum->ranks; i++)
        total = whole_step(sum->op, total, dtype_whole(dtype, sum->given[i] + at));
    dtype_put_whole(dtype, (unsigned char *)sum->out + at, sum->op == OP_AVG ? total / sum->ranks : total);
}

/* Fractions are scaled before they are added: an average, too. */
static void
sum_fraction(const struct fake_sum *sum, enum dtype dtype, size_t at)
{
    _Alignas(8) unsigned char element[8];
    double        scale = sum->op == OP_AVG ? 1.0 / sum->ranks : sum->op == FAKE_OP_PREMUL ? sum->factor : 1, total = 0;
    for (int i = 0; i < sum->ranks; i++) {
        dtype_put_fraction(dtype, element, dtype_fraction(dtype, sum->given[i] + at) * scale);
        double one = dtype_fraction(dtype, element);
        dtype_put_fraction(dtype, element, i == 0 ? one : fraction_step(sum->op, total, one));
        total = dtype_fraction(dtype, element);
    }
    memcpy((unsigned char *)sum->out + at, element, dtype_size(dtype));
}

void
fake_sum(const struct fake_sum *sum)
{
    enum dtype dtype = dtype_of(sum->type);
    size_t     size  = dtype_size(dtype);
    for (size_t i = 0; i < sum->count; i++)
        if (dtype_is_float(dtype))
            sum_fraction(sum, dtype, i * size);
        else
            sum_whole(sum, dtype, i * size);
}

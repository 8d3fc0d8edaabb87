/* What a reduction does to elements, and how collectives touch a tensor's memory: directly, by the host.
 * Order of use: tensor_touch before the first element, reduce_elements once a message, tensor_tell behind each change.
 * PyTorch does the same in gloo's and NCCL's kernels. */
#include <string.h>
#include "c10d/local.h"
#include "device/storage.h"
#include "tensor/cpu/wide.h"

WIDE static void
reduce_f32(enum reduce_op op, float *restrict into, const float *restrict from, size_t count)
{
    if (op == REDUCE_PRODUCT)
        for (size_t i = 0; i < count; i++)
            into[i] *= from[i];
    else if (op == REDUCE_MIN)
        for (size_t i = 0; i < count; i++)
            into[i] = from[i] < into[i] ? from[i] : into[i];
    else if (op == REDUCE_MAX)
        for (size_t i = 0; i < count; i++)
            into[i] = from[i] > into[i] ? from[i] : into[i];
    else
        for (size_t i = 0; i < count; i++)
            into[i] += from[i];
}

WIDE static void
reduce_f64(enum reduce_op op, double *restrict into, const double *restrict from, size_t count)
{
    if (op == REDUCE_PRODUCT)
        for (size_t i = 0; i < count; i++)
            into[i] *= from[i];
    else if (op == REDUCE_MIN)
        for (size_t i = 0; i < count; i++)
            into[i] = from[i] < into[i] ? from[i] : into[i];
    else if (op == REDUCE_MAX)
        for (size_t i = 0; i < count; i++)
            into[i] = from[i] > into[i] ? from[i] : into[i];
    else
        for (size_t i = 0; i < count; i++)
            into[i] += from[i];
}

/* Integers wrap, as everywhere: computed unsigned. */
static void
reduce_i64(enum reduce_op op, int64_t *restrict into, const int64_t *restrict from, size_t count)
{
    if (op == REDUCE_PRODUCT)
        for (size_t i = 0; i < count; i++)
            into[i] = (int64_t)((uint64_t)into[i] * (uint64_t)from[i]);
    else if (op == REDUCE_MIN)
        for (size_t i = 0; i < count; i++)
            into[i] = from[i] < into[i] ? from[i] : into[i];
    else if (op == REDUCE_MAX)
        for (size_t i = 0; i < count; i++)
            into[i] = from[i] > into[i] ? from[i] : into[i];
    else
        for (size_t i = 0; i < count; i++)
            into[i] = (int64_t)((uint64_t)into[i] + (uint64_t)from[i]);
}

static double
reduced_fraction(enum reduce_op op, double x, double y)
{
    switch (op) {
    case REDUCE_PRODUCT: return x * y;
    case REDUCE_MIN:     return y < x ? y : x;
    case REDUCE_MAX:     return y > x ? y : x;
    default:             return x + y;
    }
}

/* Types that are calculated in a wider one, element by element: rounded or cut to size each time. */
static void
reduce_narrow(enum dtype dtype, enum reduce_op op, char *into, const char *from, size_t count)
{
    size_t element = dtype_size(dtype);
    for (size_t i = 0; i < count; i++, into += element, from += element) {
        if (dtype_is_float(dtype)) {
            double result = reduced_fraction(op, dtype_fraction(dtype, into), dtype_fraction(dtype, from));
            dtype_put_fraction(dtype, into, result);
            continue;
        }
        int64_t x = dtype_whole(dtype, into), y = dtype_whole(dtype, from);
        reduce_i64(op, &x, &y, 1);
        dtype_put_whole(dtype, into, x);
    }
}

void
reduce_elements(const struct reduction *reduction, void *into, const void *from, size_t bytes)
{
    size_t count = bytes / dtype_size((enum dtype)reduction->dtype);
    if (reduction->dtype == DTYPE_F32)
        reduce_f32(reduction->op, into, from, count);
    else if (reduction->dtype == DTYPE_F64)
        reduce_f64(reduction->op, into, from, count);
    else if (reduction->dtype == DTYPE_I64)
        reduce_i64(reduction->op, into, from, count);
    else
        reduce_narrow((enum dtype)reduction->dtype, reduction->op, into, from, count);
}

static void
average_narrow(enum dtype dtype, void *element, int ranks)
{
    if (dtype_is_float(dtype))
        dtype_put_fraction(dtype, element, dtype_fraction(dtype, element) / ranks);
    else
        dtype_put_whole(dtype, element, dtype_whole(dtype, element) / ranks);
}

/* AVG is a sum that each rank divides at the end, rounding to the dtype: equal bits stay equal. */
void
reduce_average(int dtype, void *data, size_t bytes, int ranks)
{
    size_t count = bytes / dtype_size((enum dtype)dtype);
    for (size_t i = 0; i < count; i++) {
        if (dtype == DTYPE_F32)
            ((float *)data)[i] /= (float)ranks;
        else if (dtype == DTYPE_F64)
            ((double *)data)[i] /= ranks;
        else if (dtype == DTYPE_I64)
            ((int64_t *)data)[i] /= ranks;
        else
            average_narrow((enum dtype)dtype, (char *)data + i * dtype_size((enum dtype)dtype), ranks);
    }
}

/* PREMUL_SUM: what is added is multiplied first, in double and rounded to the dtype. */
void
reduce_multiply(int dtype, void *data, size_t bytes, double factor)
{
    size_t element = dtype_size((enum dtype)dtype);
    char  *end     = (char *)data + bytes;
    for (char *at = data; at < end; at += element) {
        if (dtype_is_float((enum dtype)dtype))
            dtype_put_fraction((enum dtype)dtype, at, dtype_fraction((enum dtype)dtype, at) * factor);
        else
            dtype_put_whole((enum dtype)dtype, at, dtype_whole((enum dtype)dtype, at) * (int64_t)factor);
    }
}

void *
tensor_elements(const struct tensor *tensor)
{
    char *data = tensor->storage->data;
    return data == NULL ? NULL : data + (size_t)tensor->offset * dtype_size(tensor->dtype);
}

bool
tensor_touch(struct task *me, struct tensor *tensor, bool write, const char *what)
{
    uint64_t      begin  = (uint64_t)tensor->offset * dtype_size(tensor->dtype);
    struct access access = { .storage = tensor->storage, .begin = begin,
                             .end = begin + (uint64_t)tensor_bytes(tensor), .write = write, .what = what };
    return access.begin == access.end || storage_access_by_host(me, &access);
}

void
tensor_tell(struct task *me, struct tensor *tensor)
{
    struct storage_content content = { (int)tensor->dtype, tensor->dims, tensor->size, tensor_elements(tensor) };
    storage_snapshot(me, tensor->storage, &content);
}

/* Between two contiguous tensors of one shape; the accesses are the caller's to announce. */
void
tensor_paste(struct task *me, struct tensor *to, const struct tensor *from)
{
    memmove(tensor_elements(to), tensor_elements(from), (size_t)tensor_bytes(from));
    tensor_tell(me, to);
}

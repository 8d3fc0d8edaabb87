/* What a reduction does to elements, and how collectives touch a tensor's memory: directly, by the host.
 * Order of use: tensor_touch before the first element, reduce_elements once a message, tensor_tell behind each change.
 * PyTorch does the same in gloo's and NCCL's kernels. */
#include <string.h>
#include "c10d/local.h"
#include "c10d/reduce_bodies.h"
#include "device/real.h"
#include "tensor/cpu/wide.h"

_Static_assert((int)REDUCE_SUM == (int)TRANSPORT_SUM && (int)REDUCE_PRODUCT == (int)TRANSPORT_PRODUCT &&
               (int)REDUCE_MIN == (int)TRANSPORT_MIN && (int)REDUCE_MAX == (int)TRANSPORT_MAX &&
               (int)REDUCE_BAND == (int)TRANSPORT_BAND && (int)REDUCE_BXOR == (int)TRANSPORT_BXOR, "one numbering");

/* ---- fractions: where neither is less, as of what is no number, minimum and maximum keep ours, as Gloo's ---- */

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

/* Half precision: calculated in double, where sum and product of two are exact or nearly so, and rounded each time. */
static void
reduce_half(enum dtype dtype, enum reduce_op op, char *into, const char *from, size_t count)
{
    size_t element = dtype_size(dtype);
    for (size_t i = 0; i < count; i++, into += element, from += element)
        dtype_put_fraction(dtype, into, reduced_fraction(op, dtype_fraction(dtype, into), dtype_fraction(dtype, from)));
}

/* ---- integers: they wrap, as everywhere, and so are calculated unsigned ---- */

static void
reduce_i64(enum reduce_op op, int64_t *restrict into, const int64_t *restrict from, size_t count)
{
    if (op == REDUCE_SUM)
        for (size_t i = 0; i < count; i++)
            into[i] = (int64_t)((uint64_t)into[i] + (uint64_t)from[i]);
    else
        for (size_t i = 0; i < count; i++)
            into[i] = reduced_whole(op, into[i], from[i]);
}

/* Shorter ones are cut to size each time. */
static void
reduce_whole(enum dtype dtype, enum reduce_op op, char *into, const char *from, size_t count)
{
    size_t element = dtype_size(dtype);
    if (dtype == DTYPE_BOOL)
        op = (enum reduce_op)op_of_truth(op);
    for (size_t i = 0; i < count; i++, into += element, from += element)
        dtype_put_whole(dtype, into, reduced_whole(op, dtype_whole(dtype, into), dtype_whole(dtype, from)));
}

/* ---- all ---- */

void
reduce_elements(const struct reduction *reduction, void *into, const void *from, size_t bytes)
{
    enum dtype dtype = (enum dtype)reduction->dtype;
    size_t     count = bytes / dtype_size(dtype);
    if (dtype == DTYPE_F32)
        reduce_f32(reduction->op, into, from, count);
    else if (dtype == DTYPE_F64)
        reduce_f64(reduction->op, into, from, count);
    else if (dtype == DTYPE_I64)
        reduce_i64(reduction->op, into, from, count);
    else if (dtype_is_float(dtype))
        reduce_half(dtype, reduction->op, into, from, count);
    else
        reduce_whole(dtype, reduction->op, into, from, count);
}

/* AVG is a sum that each rank divides at the end, rounding to the dtype: equal bits stay equal. Integers have none. */
void
reduce_average(int dtype, void *data, size_t bytes, int ranks)
{
    size_t element = dtype_size((enum dtype)dtype), count = bytes / element;
    for (size_t i = 0; i < count; i++) {
        char *at = (char *)data + i * element;
        if (dtype == DTYPE_F32)
            ((float *)data)[i] /= (float)ranks;
        else
            dtype_put_fraction((enum dtype)dtype, at, dtype_fraction((enum dtype)dtype, at) / ranks);
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
    char *data = mirror_data(tensor->storage);
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
    struct storage_content content = { (int)tensor->dtype, tensor->dims, tensor->size, tensor_elements(tensor), NULL };
    storage_snapshot(me, tensor->storage, &content);
}

/* Between two contiguous tensors of one shape; the accesses are the caller's to announce. */
void
tensor_paste(struct task *me, struct tensor *to, const struct tensor *from)
{
    memmove(tensor_elements(to), tensor_elements(from), (size_t)tensor_bytes(from));
    tensor_tell(me, to);
}

/* What collectives do to elements, one by one. Float32 is calculated in float32, other fractions in double and
 * rounded to their type; integers wrap; of truth values a sum is "or", a product "and". Minimum and maximum keep
 * `into` where neither is less.
 *
 * Interface: reference_elements, reference_all_reduce, same_element. */
#include "reference.h"
#include <math.h>
#include <string.h>
#include "c10d/group.h"

static double
fraction_of(enum reduce_op op, double x, double y)
{
    if (op == REDUCE_PRODUCT)
        return x * y;
    if (op == REDUCE_MIN)
        return y < x ? y : x;
    if (op == REDUCE_MAX)
        return y > x ? y : x;
    return x + y;
}

static float
single_of(enum reduce_op op, float x, float y)
{
    if (op == REDUCE_PRODUCT)
        return x * y;
    return op == REDUCE_MIN || op == REDUCE_MAX ? (float)fraction_of(op, x, y) : x + y;
}

static int64_t
whole_of(enum reduce_op op, int64_t x, int64_t y)
{
    switch (op) {
    case REDUCE_PRODUCT: return (int64_t)((uint64_t)x * (uint64_t)y);
    case REDUCE_MIN:     return y < x ? y : x;
    case REDUCE_MAX:     return y > x ? y : x;
    case REDUCE_BAND:    return x & y;
    case REDUCE_BOR:     return x | y;
    case REDUCE_BXOR:    return x ^ y;
    default:             return (int64_t)((uint64_t)x + (uint64_t)y);
    }
}

static enum reduce_op
of_truth(enum reduce_op op)
{
    if (op == REDUCE_SUM || op == REDUCE_MAX)
        return REDUCE_BOR;
    return op == REDUCE_PRODUCT || op == REDUCE_MIN ? REDUCE_BAND : op;
}

static void
reduce_one(const struct elements_job *job, char *into, const char *from)
{
    enum reduce_op op = (enum reduce_op)job->op;
    if (job->dtype == DTYPE_F32)
        *(float *)(void *)into = single_of(op, *(const float *)(void *)into, *(const float *)(const void *)from);
    else if (dtype_is_float(job->dtype))
        dtype_put_fraction(job->dtype, into, fraction_of(op, dtype_fraction(job->dtype, into),
                                                         dtype_fraction(job->dtype, from)));
    else
        dtype_put_whole(job->dtype, into, whole_of(job->dtype == DTYPE_BOOL ? of_truth(op) : op,
                                                   dtype_whole(job->dtype, into), dtype_whole(job->dtype, from)));
}

static void
average_one(const struct elements_job *job, char *into)
{
    if (job->dtype == DTYPE_F32)
        *(float *)(void *)into /= (float)job->ranks;
    else
        dtype_put_fraction(job->dtype, into, dtype_fraction(job->dtype, into) / job->ranks);
}

static void
multiply_one(const struct elements_job *job, char *into)
{
    if (dtype_is_float(job->dtype))
        dtype_put_fraction(job->dtype, into, dtype_fraction(job->dtype, into) * job->factor);
    else
        dtype_put_whole(job->dtype, into,
                        (int64_t)((uint64_t)dtype_whole(job->dtype, into) * (uint64_t)(int64_t)job->factor));
}

void
reference_elements(const struct elements_job *job)
{
    size_t element = dtype_size(job->dtype);
    for (size_t at = 0; at + element <= job->bytes; at += element) {
        char *into = (char *)job->into + at;
        switch (job->work) {
        case ELEMENTS_REDUCE:   reduce_one(job, into, (const char *)job->from + at); break;
        case ELEMENTS_AVERAGE:  average_one(job, into); break;
        case ELEMENTS_MULTIPLY: multiply_one(job, into); break;
        }
    }
}

/* The sum passes through a place of its own, from the first to the last. */
static void
all_reduce_one(const struct all_reduce_job *job, size_t at)
{
    _Alignas(8) char    sum[8], part[8];
    const size_t        element = dtype_size(job->dtype);
    struct elements_job step    = { .op = job->op, .dtype = job->dtype, .from = sum, .bytes = element, .ranks = job->ranks,
                                    .factor = job->factor };
    for (int r = 0; r < job->ranks; r++) {
        memcpy(part, (const char *)job->data[r] + at, element);
        step.into = part;
        step.work = ELEMENTS_MULTIPLY;
        if (job->work == ELEMENTS_MULTIPLY)
            reference_elements(&step);
        step.work = ELEMENTS_REDUCE;
        if (r > 0)
            reference_elements(&step);
        memcpy(sum, part, element);
    }
    step.into = sum;
    step.work = ELEMENTS_AVERAGE;
    if (job->work == ELEMENTS_AVERAGE)
        reference_elements(&step);
    for (int r = 0; r < job->ranks; r++)
        memcpy((char *)job->data[r] + at, sum, element);
}

void
reference_all_reduce(const struct all_reduce_job *job)
{
    for (size_t at = 0; at + dtype_size(job->dtype) <= job->bytes; at += dtype_size(job->dtype))
        all_reduce_one(job, at);
}

bool
same_element(enum dtype dtype, const void *a, const void *b)
{
    if (memcmp(a, b, dtype_size(dtype)) == 0)
        return true;
    return dtype_is_float(dtype) && isnan(dtype_fraction(dtype, a)) && isnan(dtype_fraction(dtype, b));
}

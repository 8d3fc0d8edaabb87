/* What collectives do to elements, one by one. Float32 is calculated in float32, other fractions in double and
 * rounded to their type; integers wrap; of truth values a sum is "or", a product "and". Minimum and maximum keep
 * `into` where neither is less.
 *
 * Interface: reference_elements. */
#include "reference.h"
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

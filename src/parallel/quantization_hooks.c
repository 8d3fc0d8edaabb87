/* The bucket in eight bits, as quantization_hooks.py. Each rank finds a scale s and a zero point z for its own
 * gradients; all gather those, then q = clamp(round(x / s) + z, 0, 255), and add up s (q - z) of every rank:
 *
 *   per tensor     one s and z for the whole bucket
 *   per channel    a pair for each 512 elements, the last padded with zeros (by a whole row where there is nothing
 *                  to pad: PyTorch's 512 - n % 512)
 *
 * Two all-gathers: the second needs the result of the first and is issued by `finish`. A bucket is a table of rows
 * here, of one row for the first hook. */
#include "parallel/comm_hooks.h"

#include <float.h>
#include <math.h>
#include "autograd/call.h"
#include "autograd/operators.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "sched/stage.h"
#include "tensor/op.h"

enum { CHANNEL = 512, LEVELS = 255 };

/* What is under way for one bucket. */
struct quantized {
    int64_t        rows, width, count;   /* count: elements of the bucket */
    struct tensor *table;                /* [rows, width] */
    struct tensor *own, *all;            /* [2, rows]: scales, then zero points; [ranks, 2, rows] */
    struct work   *work;
};

static void
forget_quantized(struct task *me, void *context, void *object)
{
    struct quantized *q = object;
    (void)context;
    work_free(me, q->work);
    tensor_drop(me, &q->table);
    tensor_drop(me, &q->own);
    tensor_drop(me, &q->all);
    host_return(me, q, sizeof *q);
}

/* ---- scales and zero points ---- */

/* Smallest and largest of each row, as float32 on the host. */
static bool
read_extremes(struct task *me, const struct quantized *q, float *low, float *high)
{
    struct op_args args = { .in = { q->table }, .dims = 1, .sizes = { 1 } };
    struct tensor *least = op_call(me, OP_amin, &args), *most = op_call(me, OP_amax, &args);
    least = least != NULL ? tensor_to(me, least, DEVICE_CPU, DTYPE_F32) : NULL;
    most  = most != NULL ? tensor_to(me, most, DEVICE_CPU, DTYPE_F32) : NULL;
    return least != NULL && most != NULL && tensor_read(me, least, low) && tensor_read(me, most, high);
}

/* Zero is always one of the 256 values. As MinMaxObserver.calculate_qparams with quint8, in float32. */
static void
find_scale(float low, float high, float *scale, float *zero)
{
    low    = low < 0 ? low : isnan(low) ? low : 0;
    high   = high > 0 ? high : isnan(high) ? high : 0;
    *scale = (high - low) / (float)LEVELS;
    *scale = *scale < FLT_EPSILON ? FLT_EPSILON : *scale;
    *zero  = fminf(fmaxf(-rintf(low / *scale), 0), LEVELS);
}

static struct tensor *
scales_of(struct task *me, const struct quantized *q)
{
    const int64_t sizes[] = { 2, q->rows };
    float *low  = scratch_new(me, (size_t)q->rows, sizeof *low);
    float *high = scratch_new(me, (size_t)q->rows, sizeof *high);
    float *pair = scratch_new(me, 2 * (size_t)q->rows, sizeof *pair);
    if (low == NULL || high == NULL || pair == NULL || (q->count > 0 && !read_extremes(me, q, low, high)))
        return NULL;
    for (int64_t row = 0; row < q->rows; row++)
        find_scale(low[row], high[row], &pair[row], &pair[q->rows + row]);
    struct tensor *host = tensor_from(me, DTYPE_F32, 2, sizes, pair);
    return host != NULL ? tensor_to(me, host, tensor_device(q->table), DTYPE_F32) : NULL;
}

/* ---- gathering ---- */

/* What each rank has, one after the other: [ranks, ...] in *all. */
static struct work *
gather(struct task *me, struct process_group *group, struct tensor *own, struct tensor **all)
{
    int     ranks = process_group_size(group);
    int64_t sizes[TENSOR_DIMS] = { ranks };
    for (int i = 0; i < own->dims; i++)
        sizes[i + 1] = own->size[i];
    struct tensor  *whole = tensor_zeros(me, own->dtype, tensor_device(own), own->dims + 1, sizes);
    struct tensor **parts = scratch_new(me, (size_t)ranks, sizeof *parts);
    bool            made  = whole != NULL && parts != NULL;
    for (int i = 0; i < ranks && made; i++) {
        parts[i] = tensor_select(me, whole, 0, i);
        made     = parts[i] != NULL;
    }
    tensor_keep(me, all, made ? whole : NULL);
    return made ? group_all_gather(me, group, parts, own) : NULL;
}

/* A rank's scales (0) or zero points (1), a column beside the table. */
static struct tensor *
column_of(struct task *me, const struct quantized *q, int rank, int which)
{
    struct tensor *pair = tensor_select(me, q->all, 0, rank);
    struct tensor *row  = pair != NULL ? tensor_select(me, pair, 0, which) : NULL;
    return row != NULL ? tensor_unsqueeze(me, row, 1) : NULL;
}

/* ---- to eight bits and back ---- */

/* In the bucket's own type, as PyTorch computes it: a half's quotient is a half. */
static struct tensor *
quantize(struct task *me, const struct quantized *q, int rank)
{
    struct tensor *scale = column_of(me, q, rank, 0), *zero = column_of(me, q, rank, 1);
    struct tensor *least = tensor_number(me, DTYPE_F32, DEVICE_CPU, 0);
    struct tensor *most  = tensor_number(me, DTYPE_F32, DEVICE_CPU, LEVELS);
    int            place = tensor_device(q->table);
    enum dtype     dtype = q->table->dtype;
    struct tensor *step  = tensor_div(me, q->table, scale);
    step = step != NULL ? tensor_to(me, step, place, dtype) : NULL;
    const struct op_args round = { .in = { step } };
    step = tensor_add(me, op_call(me, OP_round, &round), zero);
    step = step != NULL ? tensor_to(me, step, place, dtype) : NULL;
    const struct op_args clamp = { .in = { step, least, most } };
    step = op_call(me, OP_clamp, &clamp);
    return step != NULL ? tensor_to(me, step, place, DTYPE_U8) : NULL;
}

static struct tensor *
dequantize(struct task *me, const struct quantized *q, struct tensor *bytes, int rank)
{
    struct tensor *scale = column_of(me, q, rank, 0), *zero = column_of(me, q, rank, 1);
    struct tensor *steps = tensor_to(me, bytes, tensor_device(bytes), DTYPE_F32);
    return tensor_mul(me, scale, tensor_sub(me, steps, zero));
}

/* The mean of what the ranks have, each by its own scale, in the order of the ranks. */
static struct tensor *
mean_of(struct task *me, struct process_group *group, const struct quantized *q, struct tensor *all)
{
    const int64_t  sizes[] = { q->rows, q->width };
    struct tensor *sum     = tensor_zeros(me, DTYPE_F32, tensor_device(q->table), 2, sizes);
    for (int rank = 0; rank < process_group_size(group) && sum != NULL; rank++) {
        struct tensor *bytes = tensor_select(me, all, 0, rank);
        sum = bytes != NULL ? tensor_add(me, sum, dequantize(me, q, bytes, rank)) : NULL;
    }
    struct tensor *flat = sum != NULL ? tensor_piece(me, sum, 1, &q->count, 0) : NULL;
    return tensor_div_number(me, flat, process_group_size(group));
}

/* ---- the hooks ---- */

/* The bucket as a table; without `channels` of one row. */
static struct tensor *
table_of(struct task *me, struct quantized *q, struct tensor *buffer, bool channels)
{
    q->count = tensor_count(buffer);
    q->rows  = channels ? q->count / CHANNEL + 1 : 1;
    q->width = channels ? CHANNEL : q->count;
    const int64_t sizes[] = { q->rows, q->width };
    if (!channels)
        return tensor_reshape(me, buffer, 2, sizes);
    struct tensor *table = tensor_zeros(me, buffer->dtype, tensor_device(buffer), 2, sizes);
    struct tensor *part  = table != NULL ? tensor_piece(me, table, 1, &q->count, 0) : NULL;
    return part != NULL && tensor_copy(me, part, buffer) ? table : NULL;
}

static void *
start_quantized(struct task *me, struct process_group *group, const struct grad_bucket *bucket,
                bool channels)
{
    if (tensor_is_sparse(bucket->buffer)) {
        failed(me, E_NOT_IMPLEMENTED, "a sparse gradient is not quantized: use allreduce_hook");
        return NULL;
    }
    struct quantized *q = host_take(me, sizeof *q);
    if (q == NULL)
        return NULL;
    tensor_keep(me, &q->table, table_of(me, q, bucket->buffer, channels));
    if (q->table != NULL)
        tensor_keep(me, &q->own, scales_of(me, q));
    if (q->own != NULL)
        q->work = gather(me, group, q->own, &q->all);
    if (q->work != NULL)
        return q;
    forget_quantized(me, NULL, q);
    return NULL;
}

static void *
start_pertensor(struct task *me, void *group, const struct grad_bucket *bucket)
{
    return start_quantized(me, group, bucket, false);
}

static void *
start_perchannel(struct task *me, void *group, const struct grad_bucket *bucket)
{
    return start_quantized(me, group, bucket, true);
}

static struct tensor *
finish_quantized(struct task *me, void *group, void *object)
{
    struct quantized *q      = object;
    struct tensor    *result = NULL, *all = NULL;
    struct tensor    *bytes  = work_wait(me, q->work) ? quantize(me, q, process_group_rank(group)) : NULL;
    struct work      *work   = bytes != NULL ? gather(me, group, bytes, &all) : NULL;
    if (work != NULL && work_wait(me, work))
        result = mean_of(me, group, q, all);
    work_free(me, work);
    tensor_drop(me, &all);
    forget_quantized(me, group, q);
    return result;
}

struct comm_hook
quantization_pertensor_hook(struct process_group *group)
{
    return (struct comm_hook){ .start = start_pertensor, .finish = finish_quantized, .forget = forget_quantized,
                               .drop = hook_keeps_nothing, .context = group, .name = "quantization_pertensor_hook" };
}

struct comm_hook
quantization_perchannel_hook(struct process_group *group)
{
    return (struct comm_hook){ .start = start_perchannel, .finish = finish_quantized, .forget = forget_quantized,
                               .drop = hook_keeps_nothing, .context = group, .name = "quantization_perchannel_hook" };
}

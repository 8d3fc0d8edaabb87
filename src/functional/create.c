/* New tensors: zeros and its like, ranges. They are on the CPU unless it is said otherwise. PyTorch: torch.zeros ... */
#include "functional/create.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- what is behind `*` ---- */

struct making
making_of(const struct arguments *a, enum dtype dtype, int device)
{
    const struct signature *signature = &a->function->signature;
    const struct argument  *at = &a->at[signature->positional];
    return (struct making){ .dtype = at[0].none ? dtype : at[0].dtype,
                            .device = at[1].none ? device : (int)at[1].integer[0],
                            .requires_grad = at[2].integer[0],
                            .generator = signature->count > signature->positional + 3 ? at[3].generator : NULL };
}

struct making
making_like(const struct arguments *a)
{
    const struct tensor *like = a->at[0].tensor;
    struct making        making = making_of(a, like->dtype, tensor_device(like));
    making.like = like;
    making.dims = like->dims;
    memcpy(making.sizes, like->size, (size_t)like->dims * sizeof *making.sizes);
    return making;
}

double
making_bytes(const struct argument *size, enum dtype dtype)
{
    double bytes = (double)dtype_size(dtype);
    for (int i = 0; i < size->count; i++)
        bytes *= size->integer[i] < 0 ? 0 : (double)size->integer[i];
    return bytes > 1e15 ? 0 : bytes;
}

bool
making_sized(struct task *me, const struct argument *size, struct making *making)
{
    double bytes = (double)dtype_size(making->dtype);
    making->dims = size->count;
    for (int i = 0; i < size->count; i++) {
        making->sizes[i] = size->integer[i];
        bytes *= (double)size->integer[i];
        if (size->integer[i] < 0)
            return failed(me, E_RUNTIME, "Dimension size must be non-negative, got %lld for dimension %d",
                          (long long)size->integer[i], i);
    }
    return bytes <= 1e15 || failed(me, E_RUNTIME, "a tensor of %.3g bytes is too large", bytes);
}

struct tensor *
making_done(struct task *me, struct tensor *made, const struct making *making)
{
    if (made == NULL)
        return NULL;
    if (making->requires_grad && !dtype_is_float(made->dtype))
        return failed_null(me, E_RUNTIME, "only Tensors of floating point dtype can require gradients, this one is %s",
                           dtype_name(made->dtype));
    made->requires_grad = making->requires_grad;
    return made;
}

struct tensor *
making_moved(struct task *me, struct tensor *made, const struct making *making)
{
    return made != NULL ? making_done(me, tensor_to(me, made, making->device, making->dtype), making) : NULL;
}

struct tensor *
making_empty(struct task *me, const struct making *making)
{
    if (making->like != NULL)
        return tensor_empty_like(me, making->dtype, making->device, making->like);
    return tensor_empty(me, making->dtype, making->device, making->dims, making->sizes);
}

/* ---- filled ---- */

static struct tensor *
filled_with(struct task *me, struct making *making, double value)
{
    struct tensor *made = making_empty(me, making);
    return making_done(me, tensor_filled(me, made, value), making);
}

struct tensor *
fn_zeros(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, a->dtype, DEVICE_CPU);
    return making_sized(me, &a->at[0], &making) ? filled_with(me, &making, 0) : NULL;
}

struct tensor *
fn_ones(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, a->dtype, DEVICE_CPU);
    return making_sized(me, &a->at[0], &making) ? filled_with(me, &making, 1) : NULL;
}

static enum dtype
dtype_of_value(const struct arguments *a)
{
    const struct argument *value = &a->at[1];
    return value->whole ? value->dtype : a->dtype;
}

struct tensor *
fn_full(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, dtype_of_value(a), DEVICE_CPU);
    if (a->at[0].whole) /* full(2, 3) may mean a shape of two */
        return failed_null(me, E_TYPE, "argument 1 of full: expected a shape such as {2, 3}, got %lld",
                           (long long)a->at[0].integer[0]);
    return making_sized(me, &a->at[0], &making) ? filled_with(me, &making, a->at[1].number) : NULL;
}

static struct tensor *
filled_like(struct task *me, const struct arguments *a, double value)
{
    struct making making = making_like(a);
    if (tensor_is_sparse(making.like) && value == 0)
        return sparse_empty_like(me, a->at[0].tensor, making.dtype, making.device);
    if (tensor_is_sparse(making.like))
        return sparse_refused(me, "filling", making.like), NULL;
    return filled_with(me, &making, value);
}

struct tensor *
fn_zeros_like(struct task *me, struct arguments *a)
{
    return filled_like(me, a, 0);
}

struct tensor *
fn_ones_like(struct task *me, struct arguments *a)
{
    return filled_like(me, a, 1);
}

struct tensor *
fn_full_like(struct task *me, struct arguments *a)
{
    return filled_like(me, a, a->at[1].number);
}

/* ---- parameters ---- */

/* nn.Parameter shares the tensor's elements. */
struct tensor *
fn_parameter(struct task *me, struct arguments *a)
{
    struct making  making = { .requires_grad = a->at[1].integer[0] };
    if (tensor_is_sparse(a->at[0].tensor))
        return sparse_refused(me, "Parameter", a->at[0].tensor), NULL;
    struct tensor *parameter = making_done(me, tensor_detach(me, a->at[0].tensor), &making);
    if (parameter != NULL)
        parameter->is_parameter = true;
    return parameter;
}

struct tensor *
fn_uninitialized_parameter(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, a->dtype, DEVICE_CPU);
    making.dims          = 1;
    struct tensor *parameter = making_done(me, making_empty(me, &making), &making);
    if (parameter != NULL)
        parameter->is_parameter = parameter->uninitialized = true;
    return parameter;
}

/* ---- ranges ---- */

struct range { double start, end, step, count; bool whole; };

/* arange(end), arange(start, end, step) */
static struct range
range_of(const struct arguments *a)
{
    const struct argument *start = &a->at[0], *end = &a->at[1], *step = &a->at[2];
    struct range           range = { start->number, end->number, step->number, 0,
                                     start->whole && step->whole && (end->none || end->whole) };
    if (end->none) {
        range.end   = range.start;
        range.start = 0;
    }
    range.count = (range.end - range.start) / range.step;
    return range;
}

struct tensor *
fn_arange(struct task *me, struct arguments *a)
{
    struct range  range = range_of(a);
    struct making making = making_of(a, range.whole ? DTYPE_I64 : a->dtype, DEVICE_CPU);
    if (range.step == 0 || range.count < 0 || !isfinite(range.count))
        return failed_null(me, E_RUNTIME, "arange cannot go from %g to %g in steps of %g", range.start, range.end,
                           range.step);
    if (range.count > 1e13)
        return failed_null(me, E_RUNTIME, "a tensor of %.3g elements is too large", range.count);
    return making_moved(me, tensor_arange(me, making.dtype, range.start, range.end, range.step), &making);
}

/* Rows and columns of eye(n, m); false where they will be refused. */
static bool
plane_of(const struct arguments *a, int64_t sizes[2])
{
    sizes[0] = a->at[0].integer[0];
    sizes[1] = a->at[1].none ? sizes[0] : a->at[1].integer[0];
    return sizes[0] >= 0 && sizes[1] >= 0 && (double)sizes[0] * (double)sizes[1] <= 1e9;
}

struct tensor *
fn_eye(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, a->dtype, DEVICE_CPU);
    int64_t       sizes[2];
    if (!plane_of(a, sizes))
        return failed_null(me, E_RUNTIME, "eye expects n and m of 0 or more, and not too large ones, got %lld and %lld",
                           (long long)sizes[0], (long long)sizes[1]);
    float *elements = scratch_new(me, (size_t)(sizes[0] * sizes[1]) + 1, sizeof *elements);
    if (elements == NULL)
        return NULL;
    for (int64_t i = 0; i < sizes[0] && i < sizes[1]; i++)
        elements[i * sizes[1] + i] = 1;
    return making_moved(me, tensor_from(me, DTYPE_F32, 2, sizes, elements), &making);
}

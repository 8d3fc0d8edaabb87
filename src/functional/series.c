/* More tensors to begin with: even steps, index pairs of triangles, tensors like another, one-hot rows. PyTorch:
 * torch.linspace, torch.tril_indices, Tensor.new_zeros. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "base/math.h"
#include "device/device.h"
#include "functional/create.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/account.h"
#include "sched/task.h"

/* ---- even steps ---- */

struct steps { double start, end; int64_t count; bool single; };

/* From whichever end is nearer, so that both are met exactly; in the precision of the result. */
static double
step_at(const struct steps *steps, int64_t i)
{
    if (steps->count == 1)
        return steps->start;
    bool near = i < steps->count / 2;
    if (steps->single) {
        float step = ((float)steps->end - (float)steps->start) / (float)(steps->count - 1);
        return near ? (float)steps->start + step * (float)i : (float)steps->end - step * (float)(steps->count - 1 - i);
    }
    double step = (steps->end - steps->start) / (double)(steps->count - 1);
    return near ? steps->start + step * (double)i : steps->end - step * (double)(steps->count - 1 - i);
}

/* Powers of `base`; 0: the steps themselves. */
static struct tensor *
even_steps(struct task *me, const struct arguments *a, double base)
{
    struct making making = making_of(a, DTYPE_F32, DEVICE_CPU);
    struct steps  steps  = { a->at[0].number, a->at[1].number, a->at[2].integer[0], making.dtype == DTYPE_F32 };
    if (steps.count < 0 || steps.count > (int64_t)1 << 40)
        return failed_null(me, E_RUNTIME, "number of steps must be non-negative, and not too large, got %lld",
                           (long long)steps.count);
    double *elements = scratch_new(me, (size_t)steps.count, sizeof *elements);
    if (elements == NULL)
        return NULL;
    for (int64_t i = 0; i < steps.count; i++)
        elements[i] = base != 0 ? math_pow(base, step_at(&steps, i)) : step_at(&steps, i);
    return making_moved(me, tensor_from(me, DTYPE_F64, 1, &steps.count, elements), &making);
}

struct tensor *
fn_linspace(struct task *me, struct arguments *a)
{
    return even_steps(me, a, 0);
}

struct tensor *
fn_logspace(struct task *me, struct arguments *a)
{
    return even_steps(me, a, a->at[3].number);
}

/* ---- pairs of indices ---- */

static bool
in_triangle(const struct arguments *a, int64_t place)
{
    int64_t row = place / a->at[1].integer[0], column = place % a->at[1].integer[0];
    return a->function->row->op == OP_triu ? column - row >= a->at[2].integer[0] : column - row <= a->at[2].integer[0];
}

/* (row, col, offset, dtype, device, requires_grad): two rows, the places of the lower (upper) triangle. */
struct tensor *
fn_triangle_indices(struct task *me, struct arguments *a)
{
    int64_t rows = a->at[0].integer[0], columns = a->at[1].integer[0], count = 0, at = 0;
    if (rows < 0 || columns < 0 || (double)rows * (double)columns > 1e9)
        return failed_null(me, E_RUNTIME, "%s: expected row and col of 0 or more, and not too large ones, got %lld and "
                           "%lld", a->function->signature.name, (long long)rows, (long long)columns);
    if (!task_work(me, (uint64_t)(rows * columns) * 2)) /* twice a division for each place */
        return NULL;
    for (int64_t i = 0; i < rows * columns; i++)
        count += in_triangle(a, i);
    int64_t *places = scratch_new(me, 2 * (size_t)count, sizeof *places);
    if (places == NULL)
        return NULL;
    for (int64_t i = 0; i < rows * columns; i++) {
        if (!in_triangle(a, i))
            continue;
        places[at]           = i / columns;
        places[count + at++] = i % columns;
    }
    struct making making = making_of(a, DTYPE_I64, DEVICE_CPU);
    return making_moved(me, tensor_from(me, DTYPE_I64, 2, (const int64_t[]){ 2, count }, places), &making);
}

/* ---- like another ---- */

/* Of the first argument's dtype and device unless it is said otherwise. */
static struct tensor *
new_filled(struct task *me, const struct arguments *a, double value)
{
    struct making making = making_of(a, a->at[0].tensor->dtype, tensor_device(a->at[0].tensor));
    if (!making_sized(me, &a->at[1], &making))
        return NULL;
    struct tensor *made = tensor_empty(me, making.dtype, making.device, making.dims, making.sizes);
    return making_done(me, tensor_filled(me, made, value), &making);
}

struct tensor *
fn_new_zeros(struct task *me, struct arguments *a)
{
    return new_filled(me, a, 0);
}

struct tensor *
fn_new_ones(struct task *me, struct arguments *a)
{
    return new_filled(me, a, 1);
}

struct tensor *
fn_new_full(struct task *me, struct arguments *a)
{
    return new_filled(me, a, a->at[2].number);
}

/* (tensor, num_classes): a 1 in the place that each index names; -1 classes: as many as it takes. */
struct tensor *
fn_one_hot(struct task *me, struct arguments *a)
{
    struct tensor *indices = a->at[0].tensor;
    int64_t        classes = a->at[1].integer[0], least = 0, largest = -1, sizes[TENSOR_DIMS];
    int            dims    = indices->dims;
    if (indices->dtype != DTYPE_I64 || dims == TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "one_hot is only applicable to index tensors: int64, got %s",
                           dtype_name(indices->dtype));
    if (!tensor_ends(me, indices, &least, &largest))
        return NULL;
    if (least < 0 || (classes >= 0 && largest >= classes))
        return failed_null(me, E_RUNTIME, "one_hot: class values must be from 0 to num_classes - 1, found %lld",
                           (long long)(least < 0 ? least : largest));
    memcpy(sizes, indices->size, sizeof sizes);
    sizes[dims] = classes >= 0 ? classes : largest + 1;
    if (sizes[dims] <= 0)
        return failed_null(me, E_RUNTIME, "one_hot: %lld classes are not possible for %lld indices",
                           (long long)sizes[dims], (long long)tensor_count(indices));
    struct op_args args = { .in = { tensor_zeros(me, DTYPE_I64, tensor_device(indices), dims + 1, sizes) },
                            .dim = dims };
    args.in[1]         = tensor_unsqueeze(me, indices, dims);
    struct tensor *one = tensor_number(me, DTYPE_I64, tensor_device(indices), 1);
    if (args.in[1] != NULL && one != NULL)
        args.in[2] = tensor_expand(me, one, args.in[1]->dims, args.in[1]->size);
    return args.in[0] != NULL && args.in[2] != NULL ? op_call(me, OP_scatter, &args) : NULL;
}

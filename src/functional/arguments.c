/* What bodies do with their arguments: dimensions, numbers beside tensors, rooms, answers. */
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/number.h"
#include "base/vec.h"
#include "device/device.h"
#include "functional/catalogue.h"
#include "sched/sched.h"

void
argument_default(const struct parameter *p, struct argument *out)
{
    *out            = (struct argument){ .none = p->none, .number = p->number, .text = p->text, .count = !p->none };
    out->integer[0] = out->integer[1] = (int64_t)p->number;
    out->whole      = (double)out->integer[0] == p->number;
    out->dtype      = p->type == ARG_DTYPE ? DTYPE_COUNT : out->whole ? DTYPE_I64 : DTYPE_F32;
}

/* ---- dimensions ---- */

static const struct tensor *
first_tensor(const struct arguments *a)
{
    for (int i = 0; i < a->function->signature.count; i++) {
        if (a->at[i].tensor != NULL)
            return a->at[i].tensor;
        if (a->at[i].tensors != NULL && a->at[i].count > 0)
            return a->at[i].tensors[0];
    }
    return NULL;
}

static bool
settle_dim(struct task *me, int64_t *dim, int dims)
{
    int span = dims > 0 ? dims : 1;
    if (*dim < -span || *dim >= span)
        return failed(me, E_INDEX, "dimension %lld is out of range: expected %d to %d", (long long)*dim, -span,
                      span - 1);
    if (*dim < 0)
        *dim += span;
    return true;
}

bool
arguments_settle(struct task *me, struct arguments *a)
{
    const struct signature *signature = &a->function->signature;
    const struct tensor    *first     = NULL;
    for (int i = 0; i < signature->count; i++) {
        struct argument *argument = &a->at[i];
        if (!signature->parameters[i].dimension || argument->none)
            continue;
        first    = first != NULL ? first : first_tensor(a);
        int dims = (first != NULL ? first->dims : 0) + ((a->function->row->forms & FORM_AFTER) != 0);
        for (int d = 0; d < argument->count; d++)
            if (!settle_dim(me, &argument->integer[d], dims))
                return false;
    }
    return true;
}

bool
argument_dims(struct task *me, const struct argument *argument, struct fold_options *out)
{
    out->dims = 0;
    for (int i = 0; !argument->none && i < argument->count; i++) {
        for (int j = 0; j < i; j++)
            if (argument->integer[j] == argument->integer[i])
                return failed(me, E_RUNTIME, "dim %lld appears multiple times in the list of dims",
                              (long long)argument->integer[i]);
        out->dim[out->dims++] = argument->integer[i];
    }
    return true;
}

bool
arguments_have_tensor(struct task *me, const struct arguments *a)
{
    if (a->at[0].tensor != NULL || a->at[1].tensor != NULL)
        return true;
    return failed(me, E_TYPE, "argument 1 of %s: expected Tensor, got a number", a->function->signature.name);
}

/* ---- numbers beside tensors ---- */

static struct tensor *
scalar_tensor(struct task *me, double number, bool whole, const struct tensor *beside)
{
    enum dtype dtype = whole ? DTYPE_I64 : default_dtype(me);
    if (beside != NULL)
        dtype = dtype_over(beside->dtype, dtype);
    if (dtype_holds(dtype, number, true))
        return tensor_number(me, dtype, DEVICE_CPU, number);
    double element = 0; /* wraps around, or becomes infinite */
    if (whole)
        dtype_put_whole(dtype, &element, int64_of_double(number));
    else
        dtype_put_fraction(dtype, &element, number);
    return tensor_from(me, dtype, 0, NULL, &element);
}

struct tensor *
argument_tensor(struct task *me, const struct argument *argument, const struct tensor *beside)
{
    if (argument->tensor != NULL)
        return argument->tensor;
    return scalar_tensor(me, argument->number, argument->whole, beside);
}

struct tensor *
number_beside(struct task *me, double number, const struct tensor *beside)
{
    return scalar_tensor(me, number, false, beside);
}

struct tensor *
tensor_cast(struct task *me, struct tensor *a, enum dtype dtype)
{
    return a != NULL ? tensor_copy_to(me, a, tensor_device(a), dtype) : NULL;
}

/* ---- answers ---- */

struct tensor *
function_apply(struct task *me, const struct arguments *a, enum op op, const struct op_args *args)
{
    for (int i = 0; i < op_info(op)->inputs; i++)
        if (args->in[i] == NULL && task_failed(me))
            return NULL;
    return a->in_place ? tensor_in_place(me, op, args) : op_call(me, op, args);
}

struct tensor *
answer_two(struct arguments *a, struct tensor *first, struct tensor *second)
{
    a->results = 2;
    a->more[0] = second;
    return second != NULL ? first : NULL;
}

struct tensor **
answer_list(struct task *me, struct arguments *a, int64_t count)
{
    a->results = (int)count;
    return a->list = scratch_new(me, (size_t)count, sizeof *a->list);
}


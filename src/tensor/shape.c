/* Shapes: wrapping of negative dimensions, broadcasting, promotion of types, and how they are told.
 * In PyTorch: ATen/ExpandUtils.cpp, ATen/native/TypeProperties.cpp. */
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "tensor/internal.h"

void
shape_print(int dims, const int64_t *sizes, struct str *out)
{
    str_add(out, "[");
    for (int i = 0; i < dims; i++)
        str_addf(out, "%s%lld", i > 0 ? ", " : "", (long long)sizes[i]);
    str_add(out, "]");
}

struct shape_text
shape_text(const struct tensor *tensor)
{
    struct shape_text out = { "[" };
    size_t            at  = 1;
    for (int i = 0; i < tensor->dims; i++)
        at += (size_t)snprintf(out.text + at, sizeof out.text - at, "%s%lld", i > 0 ? ", " : "",
                               (long long)tensor->size[i]);
    snprintf(out.text + at, sizeof out.text - at, "]");
    return out;
}

bool
shape_wrap(struct task *me, const char *op, int dims, int64_t dim, int *out)
{
    int room = dims > 0 ? dims : 1;
    if (dim < -room || dim >= room)
        return failed(me, E_INDEX, "%s: dimension %lld is out of range (expected %d to %d)", op, (long long)dim, -room,
                      room - 1);
    *out = (int)(dim < 0 ? dim + room : dim);
    return true;
}

bool
shape_broadcast(int *dims, int64_t *sizes, const struct tensor *tensor)
{
    int grown = tensor->dims > *dims ? tensor->dims : *dims;
    memmove(sizes + (grown - *dims), sizes, (size_t)*dims * sizeof *sizes);
    for (int i = 0; i < grown - *dims; i++)
        sizes[i] = 1;
    *dims = grown;
    for (int i = 0; i < tensor->dims; i++) {
        int64_t *size = &sizes[grown - tensor->dims + i];
        if (*size == 1)
            *size = tensor->size[i];
        else if (tensor->size[i] != 1 && tensor->size[i] != *size)
            return false;
    }
    return true;
}

static bool
fits_beside(const struct tensor *a, const struct tensor *b)
{
    int     dims = a->dims;
    int64_t sizes[TENSOR_DIMS];
    memcpy(sizes, a->size, sizeof sizes);
    return shape_broadcast(&dims, sizes, b);
}

bool
plan_stretch(struct task *me, struct plan *plan, const struct op_args *args, int from)
{
    plan->broadcast = true;
    plan->loop_dims = 0;
    for (int i = from, with = from; i < op_info(plan->op)->inputs; i++) {
        if (shape_broadcast(&plan->loop_dims, plan->loop, args->in[i]))
            continue;
        while (with < i - 1 && fits_beside(args->in[with], args->in[i]))
            with++;
        return shape_mismatch(me, plan->op, args->in[with], args->in[i],
                              "sizes must be equal or 1, counted from the last dimension");
    }
    plan->dims = plan->loop_dims;
    memcpy(plan->size, plan->loop, sizeof plan->size);
    return true;
}

bool
shape_mismatch(struct task *me, enum op op, const struct tensor *a, const struct tensor *b, const char *why)
{
    struct str text = { 0 };
    str_addf(&text, "%s: shapes ", op_info(op)->name);
    shape_print(a->dims, a->size, &text);
    str_add(&text, " and ");
    shape_print(b->dims, b->size, &text);
    str_addf(&text, " do not fit: %s", why);
    failed(me, str_ok(&text) ? E_SHAPE : E_MEMORY, "%s", str_text(&text));
    str_free(&text);
    return false;
}

/* A 0-dim tensor counts only if it is of a higher kind (bool < integers < floats) than those with dimensions. */
enum dtype
dtype_promoted(struct tensor *const *tensors, int count)
{
    enum dtype full = DTYPE_COUNT, zero = DTYPE_COUNT;
    for (int i = 0; i < count; i++) {
        enum dtype *into = tensors[i]->dims > 0 ? &full : &zero;
        *into = *into == DTYPE_COUNT ? tensors[i]->dtype : dtype_promote(*into, tensors[i]->dtype);
    }
    return dtype_over(full, zero);
}

bool
int16_missing(struct task *me, const char *what)
{
    return failed(me, E_NOT_IMPLEMENTED, "%s: uint8 and int8 make int16 in PyTorch, a dtype that is not here; "
                  "make one of the two int32 first, t:to(\"int32\")", what);
}

/* What is compared, divided or put into a tensor that is there needs no type for the numbers between. */
bool
dtype_exists(struct task *me, enum op op, struct tensor *const *tensors, int count)
{
    bool wanted = dtype_promoted(tensors, count) == DTYPE_I32;
    for (int i = 0; i < count; i++)
        wanted = wanted && tensors[i]->dtype != DTYPE_I32;
    return !wanted || int16_missing(me, op_info(op)->name);
}

void
plan_like(struct plan *plan, const struct tensor *tensor)
{
    plan->dims = tensor->dims;
    memcpy(plan->size, tensor->size, sizeof plan->size);
}

bool
plan_wrong_dtype(struct task *me, const struct plan *plan, const struct tensor *tensor, const char *wanted)
{
    return failed(me, E_DTYPE, "%s: expected %s, got a tensor of %s", op_info(plan->op)->name, wanted,
                  dtype_name(tensor->dtype));
}

bool
plan_no_kernel(struct task *me, const struct plan *plan, const struct tensor *tensor, const char *wanted)
{
    return failed(me, E_NOT_IMPLEMENTED, "%s: expected %s, got a tensor of %s", op_info(plan->op)->name, wanted,
                  dtype_name(tensor->dtype));
}

void
plan_promote(struct plan *plan, enum dtype dtype)
{
    plan->dtype   = plan->common = dtype;
    plan->compute = dtype_wide(dtype);
}

bool
plan_common(struct task *me, struct plan *plan, const struct op_args *args, int first)
{
    struct tensor *const *operands = &args->in[first];
    int                   count    = op_info(plan->op)->inputs - first;
    plan_promote(plan, dtype_promoted(operands, count));
    return args->out != NULL || dtype_exists(me, plan->op, operands, count);
}

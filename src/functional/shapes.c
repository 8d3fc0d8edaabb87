/* The same elements in another shape, in another order, joined and cut: views where PyTorch makes views, compositions
 * of them where PyTorch's functions are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- one tensor in another shape ---- */

struct tensor *
fn_reshape(struct task *me, struct arguments *a)
{
    return tensor_reshape(me, a->at[0].tensor, a->at[1].count, a->at[1].integer);
}

struct tensor *
fn_view(struct task *me, struct arguments *a)
{
    return tensor_view_as(me, a->at[0].tensor, a->at[1].count, a->at[1].integer, VIEW_PLAIN);
}

struct tensor *
fn_reshape_as(struct task *me, struct arguments *a)
{
    return tensor_reshape(me, a->at[0].tensor, a->at[1].tensor->dims, a->at[1].tensor->size);
}

struct tensor *
fn_ravel(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *whole = tensor_is_contiguous(x) ? x : tensor_copied(me, x);
    return tensor_view_as(me, whole, 1, (const int64_t[]){ tensor_count(x) }, VIEW_PLAIN);
}

struct tensor *
fn_flatten(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    int            first = (int)a->at[1].integer[0], last = (int)a->at[2].integer[0], dims = 0;
    int64_t        sizes[TENSOR_DIMS + 1] = { 1 };
    if (first > last && x->dims > 0)
        return failed_null(me, E_RUNTIME, "flatten: start_dim %d cannot come after end_dim %d", first, last);
    for (int i = 0; i < x->dims; i++) {
        if (i > first && i <= last)
            sizes[dims - 1] *= x->size[i];
        else
            sizes[dims++] = x->size[i];
    }
    return tensor_reshape(me, x, dims + (x->dims == 0), sizes);
}

static struct tensor *
parts_differ(struct task *me, const struct argument *parts, int inferred, int dim, int64_t all)
{
    struct tensor given = { .dims = parts->count };
    memcpy(given.size, parts->integer, (size_t)parts->count * sizeof *parts->integer);
    if (inferred >= 0 && inferred < parts->count)
        given.size[inferred] = -1;
    return failed_null(me, E_RUNTIME, "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in "
                       "the input tensor", shape_text(&given).text, dim, (long long)all);
}

/* One dimension becomes several; one -1 is inferred. */
struct tensor *
fn_unflatten(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    struct op_args args = { .in = { x } };
    int            dim = (int)a->at[1].integer[0], count = a->at[2].count, unknown = -1;
    int64_t       *parts = a->at[2].integer, known = 1, all = x->dims > 0 ? x->size[dim] : 0;
    for (int i = 0; i < count; i++) {
        if (parts[i] < 0)
            unknown = unknown < 0 && parts[i] == -1 ? i : TENSOR_DIMS;
        else if (__builtin_mul_overflow(known, parts[i], &known))
            known = 0;
    }
    if (unknown >= 0 && unknown < count && known > 0)
        known *= parts[unknown] = all / known;
    if (known != all || unknown >= TENSOR_DIMS || x->dims == 0 || x->dims + count - 1 > TENSOR_DIMS)
        return parts_differ(me, &a->at[2], unknown, dim, all);
    for (int i = 0; i < x->dims; i++) {
        if (i != dim)
            args.sizes[args.dims++] = x->size[i];
        for (int j = 0; i == dim && j < count; j++)
            args.sizes[args.dims++] = parts[j];
    }
    return op_call(me, OP_view, &args);
}

/* -1 keeps a dimension's size. */
struct tensor *
fn_expand(struct task *me, struct arguments *a)
{
    return tensor_expand(me, a->at[0].tensor, a->at[1].count, a->at[1].integer);
}

struct tensor *
fn_expand_as(struct task *me, struct arguments *a)
{
    return tensor_expand(me, a->at[0].tensor, a->at[1].tensor->dims, a->at[1].tensor->size);
}

struct tensor *
fn_unsqueeze(struct task *me, struct arguments *a)
{
    return tensor_unsqueeze(me, a->at[0].tensor, (int)a->at[1].integer[0]);
}

/* Without a dimension: all of size 1. */
struct tensor *
fn_squeeze(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    if (a->at[1].none)
        return op_call(me, OP_squeeze, &(struct op_args){ .in = { x }, .flag = true });
    return tensor_squeeze(me, x, (int)a->at[1].integer[0]);
}

/* ---- a part of it ---- */

struct tensor *
fn_narrow(struct task *me, struct arguments *a)
{
    struct tensor *x   = a->at[0].tensor;
    int            dim = (int)a->at[1].integer[0];
    if (x->dims == 0)
        return failed_null(me, E_RUNTIME, "narrow cannot be applied to a 0-dim tensor");
    int64_t start = a->at[2].integer[0], length = a->at[3].integer[0], all = x->size[dim];
    if (start < 0 && start >= -all)
        start += all;
    if (start < 0 || start > all || length < 0 || length > all - start)
        return failed_null(me, E_RUNTIME, "start %lld and length %lld exceed the size %lld of dimension %d",
                           (long long)start, (long long)length, (long long)all, dim);
    return tensor_narrow(me, x, dim, start, length);
}

struct tensor *
fn_select(struct task *me, struct arguments *a)
{
    return tensor_select(me, a->at[0].tensor, (int)a->at[1].integer[0], a->at[2].integer[0]);
}

struct tensor *
fn_as_strided(struct task *me, struct arguments *a)
{
    const struct argument *size = &a->at[1], *stride = &a->at[2];
    int64_t                offset = a->at[3].none ? a->at[0].tensor->offset : a->at[3].integer[0];
    if (size->count != stride->count)
        return failed_null(me, E_RUNTIME, "as_strided: %d sizes but %d strides", size->count, stride->count);
    for (int i = 0; i < size->count; i++)
        if (size->integer[i] < 0 || stride->integer[i] < 0)
            return failed_null(me, E_RUNTIME, "as_strided: negative sizes and strides are not possible");
    struct strided at = { .dims = size->count, .offset = offset };
    memcpy(at.size, size->integer, sizeof at.size);
    memcpy(at.stride, stride->integer, sizeof at.stride);
    return tensor_as_strided(me, a->at[0].tensor, &at);
}

/* Windows of a dimension, as a view with one more dimension at the end. */
struct tensor *
fn_unfold(struct task *me, struct arguments *a)
{
    struct tensor *x   = a->at[0].tensor;
    int            dim = (int)a->at[1].integer[0], dims = x->dims;
    int64_t        size = a->at[2].integer[0], step = a->at[3].integer[0], all = dims > 0 ? x->size[dim] : 1;
    struct strided at = strides_of(x);
    if (step <= 0 || size < 0 || size > all)
        return failed_null(me, E_RUNTIME, "unfold: windows of %lld, %lld apart, do not fit dimension %d of size %lld",
                           (long long)size, (long long)step, dim, (long long)all);
    if (dims == TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "unfold: the result would have more than %d dimensions", TENSOR_DIMS);
    at.dims         = dims + 1;
    at.size[dims]   = size;
    at.stride[dims] = dims > 0 ? at.stride[dim] : 1;
    if (dims > 0) {
        at.size[dim] = (all - size) / step + 1;
        if (at.size[dim] > 1) /* with one window it is not used, and may not fit */
            at.stride[dim] *= step;
    }
    return tensor_as_strided(me, x, &at);
}

/* ---- other orders ---- */

struct tensor *
fn_t(struct task *me, struct arguments *a)
{
    return tensor_t(me, a->at[0].tensor);
}

struct tensor *
fn_transpose(struct task *me, struct arguments *a)
{
    return tensor_transpose(me, a->at[0].tensor, (int)a->at[1].integer[0], (int)a->at[2].integer[0]);
}

struct tensor *
fn_permute(struct task *me, struct arguments *a)
{
    return tensor_permute(me, a->at[0].tensor, a->at[1].count, a->at[1].integer);
}

static bool
moves_once(struct task *me, const struct argument *dims, const struct tensor *x)
{
    if (dims->count > (x->dims > 0 ? x->dims : 1))
        return failed(me, E_RUNTIME, "movedim: %d dimensions of a tensor that has %d", dims->count, x->dims);
    for (int i = 0; i < dims->count; i++)
        for (int j = 0; j < i; j++)
            if (dims->integer[j] == dims->integer[i])
                return failed(me, E_RUNTIME, "movedim: repeated dim %lld", (long long)dims->integer[i]);
    return true;
}

/* Dimensions go to other places, the rest keep their order. */
struct tensor *
fn_movedim(struct task *me, struct arguments *a)
{
    struct tensor         *x    = a->at[0].tensor;
    const struct argument *from = &a->at[1], *to = &a->at[2];
    int64_t                order[TENSOR_DIMS];
    bool                   moved[TENSOR_DIMS] = { false };
    if (!moves_once(me, from, x) || !moves_once(me, to, x))
        return NULL;
    if (from->count != to->count)
        return failed_null(me, E_RUNTIME, "movedim: expected as many places in destination as in source, got %d and %d",
                           to->count, from->count);
    memset(order, -1, sizeof order);
    for (int i = 0; i < from->count && x->dims > 0; i++) {
        order[to->integer[i]]   = from->integer[i];
        moved[from->integer[i]] = true;
    }
    for (int i = 0, rest = 0; i < x->dims; i++) {
        while (order[i] < 0 && moved[rest])
            rest++;
        if (order[i] < 0)
            order[i] = rest++;
    }
    return tensor_permute(me, x, x->dims, order);
}

static struct tensor *
flipped(struct task *me, struct tensor *x, int dim)
{
    struct op_args args = { .in = { x }, .start = (int64_t)1 << dim };
    return x != NULL ? op_call(me, OP_flip, &args) : NULL;
}

struct tensor *
fn_flip(struct task *me, struct arguments *a)
{
    struct op_args      args = { .in = { a->at[0].tensor } };
    struct fold_options turned;
    if (!argument_dims(me, &a->at[1], &turned))
        return NULL;
    for (int i = 0; i < turned.dims && args.in[0]->dims > 0; i++)
        args.start |= (int64_t)1 << turned.dim[i];
    return op_call(me, OP_flip, &args);
}

static struct tensor *
flipped_one(struct task *me, const struct arguments *a, int dim)
{
    struct tensor *x = a->at[0].tensor;
    if (x->dims <= dim)
        return failed_null(me, E_RUNTIME, "%s: input must be >= %d-d, this one has %d dimensions",
                           a->function->signature.name, dim + 1, x->dims);
    return flipped(me, x, dim);
}

struct tensor *
fn_flipud(struct task *me, struct arguments *a)
{
    return flipped_one(me, a, 0);
}

struct tensor *
fn_fliplr(struct task *me, struct arguments *a)
{
    return flipped_one(me, a, 1);
}

/* k quarter turns from the first dimension of the two towards the second. */
struct tensor *
fn_rot90(struct task *me, struct arguments *a)
{
    struct tensor         *x    = a->at[0].tensor;
    const struct argument *dims = &a->at[2];
    int from = dims->none ? 0 : (int)dims->integer[0], to = dims->none ? 1 : (int)dims->integer[1];
    if ((!dims->none && dims->count != 2) || from == to)
        return failed_null(me, E_RUNTIME, "rot90 turns in the plane of two different dimensions");
    if (x->dims < 2)
        return failed_null(me, E_RUNTIME, "rot90: the tensor has %d dimensions", x->dims);
    switch (((a->at[1].integer[0] % 4) + 4) % 4) {
    case 0:  return tensor_copied(me, x);
    case 1:  return tensor_transpose(me, flipped(me, x, to), from, to);
    case 2:  return flipped(me, flipped(me, x, from), to);
    default: return flipped(me, tensor_transpose(me, x, from, to), to);
    }
}

/* Without a dimension over all elements. */
struct tensor *
fn_roll(struct task *me, struct arguments *a)
{
    struct op_args         args   = { .in = { a->at[0].tensor } };
    const struct argument *shifts = &a->at[1], *dims = &a->at[2];
    bool                   flat   = dims->none || args.in[0]->dims == 0;
    int                    places = flat ? 1 : dims->count;
    if (places != shifts->count)
        return failed_null(me, E_RUNTIME, "shifts and dimensions must align. shifts: %d, dims: %d", shifts->count,
                           places);
    for (int i = 0; i < places; i++) {
        int     dim  = flat ? 0 : (int)dims->integer[i];
        int64_t size = flat ? tensor_count(args.in[0]) : args.in[0]->size[dim];
        args.sizes[dim] += size > 0 ? shifts->integer[i] % size : 0; /* so that sums and -sizes fit */
    }
    args.alpha = flat;
    return op_call(me, OP_roll, &args);
}

/* OP_tril, OP_triu */
struct tensor *
fn_triangle(struct task *me, struct arguments *a)
{
    struct op_args args = { .in = { a->at[0].tensor }, .start = a->at[1].integer[0] };
    return op_call(me, a->function->row->op, &args);
}

/* ---- more of the same ---- */

static struct tensor *
repeated(struct task *me, struct tensor *x, const struct argument *times)
{
    struct op_args args = { .in = { x }, .dims = times->count > x->dims ? times->count : x->dims };
    for (int i = 0; i < args.dims; i++) {
        args.sizes[i] = i < args.dims - times->count ? 1 : times->integer[i - (args.dims - times->count)];
        if (args.sizes[i] < 0 || args.sizes[i] > 1 << 24)
            return failed_null(me, E_RUNTIME, "repeat: %lld times is not possible", (long long)args.sizes[i]);
    }
    return op_call(me, OP_repeat, &args);
}

struct tensor *
fn_repeat(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    if (a->at[1].count < x->dims)
        return failed_null(me, E_RUNTIME, "Number of dimensions of repeat dims can not be smaller than number of "
                                          "dimensions of tensor: got %d for %d", a->at[1].count, x->dims);
    return repeated(me, x, &a->at[1]);
}

/* Times of the first dimensions may be left out. */
struct tensor *
fn_tile(struct task *me, struct arguments *a)
{
    return repeated(me, a->at[0].tensor, &a->at[1]);
}

/* ---- diagonals ---- */

struct tensor *
fn_diagonal(struct task *me, struct arguments *a)
{
    struct op_args args = { .in = { a->at[0].tensor }, .length = a->at[1].integer[0] };
    args.dim            = a->at[2].integer[0];
    args.start          = a->at[3].integer[0];
    return op_call(me, OP_diagonal, &args);
}

/* Of the last two dimensions. */
static struct tensor *
last_diagonal(struct task *me, struct tensor *x, int64_t offset)
{
    struct op_args args = { .in = { x }, .dim = x != NULL ? x->dims - 2 : 0, .length = offset };
    args.start          = args.dim + 1;
    return x != NULL ? op_call(me, OP_diagonal, &args) : NULL;
}

static bool
offset_possible(struct task *me, int64_t offset)
{
    return (offset <= 1 << 24 && offset >= -(1 << 24)) ||
           failed(me, E_RUNTIME, "diag: offset %lld is not possible", (long long)offset);
}

/* The last dimension on a diagonal of new matrices. */
static struct tensor *
on_diagonal(struct task *me, struct tensor *x, int64_t offset)
{
    int64_t sizes[TENSOR_DIMS + 1], side = tensor_size(x, -1) + llabs(offset);
    if (x->dims + 1 > TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "diag_embed: the result would have more than %d dimensions", TENSOR_DIMS);
    memcpy(sizes, x->size, sizeof x->size);
    sizes[x->dims - 1] = sizes[x->dims] = side;
    struct tensor *result = tensor_zeros(me, x->dtype, tensor_device(x), x->dims + 1, sizes);
    return tensor_copy_(me, last_diagonal(me, result, offset), x) != NULL ? result : NULL;
}

/* A vector on the diagonal of a matrix; a matrix's diagonal as a vector. */
struct tensor *
fn_diag(struct task *me, struct arguments *a)
{
    struct tensor *x      = a->at[0].tensor;
    int64_t        offset = a->at[1].integer[0];
    if (x->dims != 1 && x->dims != 2)
        return failed_null(me, E_RUNTIME, "diag: expected a vector or a matrix, got a tensor of %d dimensions",
                           x->dims);
    if (!offset_possible(me, offset))
        return NULL;
    return x->dims == 1 ? on_diagonal(me, x, offset) : tensor_copied(me, last_diagonal(me, x, offset));
}

struct tensor *
fn_diag_embed(struct task *me, struct arguments *a)
{
    if (a->at[0].tensor->dims < 1)
        return failed_null(me, E_RUNTIME, "diag_embed: expected a vector or more, got a tensor of 0 dimensions");
    if (!offset_possible(me, a->at[1].integer[0]))
        return NULL;
    return on_diagonal(me, a->at[0].tensor, a->at[1].integer[0]);
}


/* Elements by index and by mask: taken, put, added. What is composed is made of index_select, scatter and where. */
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/task.h"

static struct tensor *
in_a_row(struct task *me, struct tensor *x)
{
    return x != NULL ? tensor_reshape(me, x, 1, (const int64_t[]){ tensor_count(x) }) : NULL;
}

/* ---- taken ---- */

struct tensor *
fn_gather(struct task *me, struct arguments *a)
{
    return tensor_index_select(me, OP_gather, a->at[0].tensor, a->at[1].integer[0], a->at[2].tensor);
}

struct tensor *
fn_index_select(struct task *me, struct arguments *a)
{
    struct tensor *index = a->at[2].tensor;
    if (index->dims > 1)
        return failed_null(me, E_INDEX, "index_select: expected an index of one dimension, got %s",
                           shape_text(index).text);
    index = whole_indices(me, index);
    return tensor_index_select(me, OP_index_select, a->at[0].tensor, a->at[1].integer[0], index);
}

struct tensor *
fn_take_along_dim(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *index = a->at[1].tensor;
    if (!a->at[2].none)
        return tensor_index_select(me, OP_gather, x, a->at[2].integer[0], index);
    x = in_a_row(me, x);
    return tensor_index_select(me, OP_gather, x, 0, in_a_row(me, index));
}

/* Of the tensor seen as a vector, in the shape of the index */
struct tensor *
fn_take(struct task *me, struct arguments *a)
{
    struct tensor *index = a->at[1].tensor, *from = in_a_row(me, a->at[0].tensor), *places = in_a_row(me, index);
    struct tensor *row   = tensor_index_select(me, OP_index, from, 0, places);
    return tensor_reshape(me, row, index->dims, index->size);
}

/* ---- put ---- */

/* A number as the source stands at every index. */
static struct tensor *
source_at(struct task *me, const struct argument *source, const struct tensor *into, const struct tensor *index)
{
    if (source->tensor != NULL)
        return source->tensor;
    struct tensor *one = tensor_number(me, into->dtype, tensor_device(into), source->number);
    return tensor_expand(me, one, index->dims, index->size);
}

/* scatter, scatter_add, index_add, index_put (as index_copy) */
struct tensor *
fn_put(struct task *me, struct arguments *a)
{
    enum op        op   = a->function->row->op;
    struct op_args args = { .in = { a->at[0].tensor, a->at[2].tensor }, .dim = a->at[1].integer[0], .alpha = 1 };
    args.in[2] = source_at(me, &a->at[3], args.in[0], args.in[1]);
    if (op == OP_index_add) {
        args.in[1] = whole_indices(me, args.in[1]);
        args.alpha = a->at[4].number;
    }
    return function_apply(me, a, op, &args);
}

/* A result that is made whole and, in place, copied in. */
static struct tensor *
into_input(struct task *me, const struct arguments *a, struct tensor *result)
{
    return a->in_place && result != NULL ? tensor_copy_(me, a->at[0].tensor, result) : result;
}

struct tensor *
fn_index_fill(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *index = a->at[2].tensor, *one = a->at[3].tensor;
    int            dim = (int)a->at[1].integer[0];
    int64_t        sizes[TENSOR_DIMS];
    if (index->dims > 1 || (one != NULL && one->dims > 0))
        return failed_null(me, E_INDEX, "index_fill: expected an index of one dimension and one value, got %s and %s",
                           shape_text(index).text, one != NULL ? shape_text(one).text : "a number");
    memcpy(sizes, x->size, sizeof sizes);
    if (x->dims > 0)
        sizes[dim] = tensor_count(index);
    if (one == NULL)
        one = tensor_number(me, x->dtype, tensor_device(x), a->at[3].number);
    struct indexed_rows rows = { dim, index, tensor_expand(me, one, x->dims, sizes) };
    return into_input(me, a, tensor_index_put(me, OP_index_put, x, &rows));
}

/* ---- where something is not 0 ---- */

/* How many of the bytes are not 0, and their places, in row-major order; NULL: failed. */
static int64_t *
places_of(struct task *me, const struct tensor *shape, const unsigned char *bytes, int64_t *rows)
{
    int64_t count = tensor_count(shape), found = 0;
    *rows         = 0;
    for (int64_t i = 0; i < count; i++)
        *rows += bytes[i] != 0;
    int64_t *places = scratch_new(me, (size_t)(*rows * shape->dims + 1), sizeof *places);
    for (int64_t i = 0; i < count && places != NULL; i++) {
        int64_t rest = i;
        for (int d = shape->dims; bytes[i] && d-- > 0;) {
            places[found * shape->dims + d] = rest % shape->size[d];
            rest /= shape->size[d];
        }
        found += bytes[i] != 0;
    }
    return places;
}

struct tensor *
tensor_nonzero(struct task *me, struct tensor *tensor)
{
    struct tensor *zero  = tensor_number(me, DTYPE_BOOL, DEVICE_CPU, 0), *result = NULL;
    struct tensor *truth = tensor_detach(me, op_on(me, OP_ne, tensor_detach(me, tensor), zero, 1));
    int64_t       *places = NULL, rows = 0;
    unsigned char *bytes  = truth != NULL ? scratch_new(me, (size_t)tensor_count(tensor) + 1, 1) : NULL;
    if (bytes != NULL && tensor_read(me, truth, bytes))
        places = places_of(me, tensor, bytes, &rows);
    if (places != NULL)
        result = tensor_from(me, DTYPE_I64, 2, (const int64_t[]){ rows, tensor->dims }, places);
    return result != NULL ? tensor_to(me, result, tensor_device(tensor), DTYPE_I64) : NULL;
}

struct tensor *
fn_nonzero(struct task *me, struct arguments *a)
{
    return tensor_nonzero(me, a->at[0].tensor);
}

/* ---- by mask ---- */

/* In row-major order, after both are stretched to one shape. */
struct tensor *
fn_masked_select(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *mask = a->at[1].tensor, *places = NULL;
    if (mask->dtype != DTYPE_BOOL)
        return failed_null(me, E_RUNTIME, "masked_select: expected a mask of bool, got %s", dtype_name(mask->dtype));
    if (!tensor_same_shape(x, mask)) {
        struct tensor *wide = op_on(me, OP_logical_or, tensor_detach(me, x), mask, 1); /* for its shape */
        x    = wide != NULL ? tensor_expand(me, x, wide->dims, wide->size) : NULL;
        mask = wide != NULL ? tensor_expand(me, mask, wide->dims, wide->size) : NULL;
    }
    mask = in_a_row(me, mask);
    if (mask != NULL)
        places = tensor_nonzero(me, mask);
    places = tensor_select(me, places, 1, 0);
    return tensor_index_select(me, OP_index, in_a_row(me, x), 0, places);
}

/* How often the mask has held so far, at each of its places; *held: in all. NULL: failed, or the mask has no places. */
static struct tensor *
running_number(struct task *me, struct tensor *mask, int64_t *held)
{
    struct op_args args   = { .in = { tensor_cast(me, in_a_row(me, mask), DTYPE_I64) } };
    struct tensor *number = args.in[0] != NULL ? op_call(me, OP_cumsum, &args) : NULL;
    *held                 = 0;
    if (number == NULL || tensor_count(number) == 0)
        return NULL;
    struct tensor *last = tensor_select(me, number, 0, tensor_count(number) - 1);
    return last != NULL && tensor_read(me, last, held) ? number : NULL;
}

/* Where the mask holds the elements of `source`, in their order. */
static struct tensor *
filled_in_order(struct task *me, struct tensor *x, struct tensor *mask, struct tensor *source)
{
    int64_t held;
    if (!tensor_same_shape(x, mask)) /* the mask is stretched, and may stretch the tensor */
        x = op_on(me, OP_masked_fill, x, op_on(me, OP_logical_xor, mask, mask, 1), 0);
    mask = x != NULL ? tensor_expand(me, mask, x->dims, x->size) : NULL;
    struct tensor *number = running_number(me, mask, &held);
    if (task_failed(me))
        return NULL;
    if (held > tensor_count(source))
        return failed_null(me, E_RUNTIME, "masked_scatter: the mask holds %lld times, but the source has %lld elements",
                           (long long)held, (long long)tensor_count(source));
    if (held == 0)
        return tensor_copied(me, x);
    /* Before the mask first holds the number is 0: any element of the source will do there. */
    struct tensor *least = tensor_from(me, DTYPE_I64, 0, NULL, &(int64_t){ 1 });
    struct tensor *place = tensor_add_number(me, op_on(me, OP_maximum, number, least, 1), -1);
    struct tensor *row   = tensor_index_select(me, OP_index, in_a_row(me, source), 0, place);
    struct op_args args  = { .in = { mask, tensor_reshape(me, row, x->dims, x->size), x } };
    return args.in[1] != NULL ? op_call(me, OP_where, &args) : NULL;
}

struct tensor *
fn_masked_scatter(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *mask = a->at[1].tensor, *source = a->at[2].tensor;
    if (mask->dtype != DTYPE_BOOL || source->dtype != x->dtype)
        return failed_null(me, E_RUNTIME,
                           "masked_scatter: expected a mask of bool and a source of %s, got %s and %s",
                           dtype_name(x->dtype), dtype_name(mask->dtype), dtype_name(source->dtype));
    return into_input(me, a, filled_in_order(me, x, mask, source));
}

/* ---- several times ---- */

/* How often each of `size` rows comes: all `each` times, or as the list says. */
struct times { int64_t size, each, *list; double total; };

/* `repeats` is a number, or a vector with one for each row or for all; the list is the caller's to free. */
static bool
read_times(struct task *me, const struct argument *repeats, struct times *times)
{
    struct tensor *vector = repeats->tensor;
    int64_t        count  = tensor_count(vector), least;
    if (vector == NULL && !repeats->whole)
        return failed(me, E_TYPE, "repeat_interleave: expected a whole number or a Tensor, got %g", repeats->number);
    if (vector != NULL && (vector->dtype != DTYPE_I64 || vector->dims > 1 || (count != times->size && count != 1)))
        return failed(me, E_RUNTIME,
                      "repeat_interleave: expected a vector of %lld int64 numbers, one for each, got %s with %lld",
                      (long long)times->size, dtype_name(vector->dtype), (long long)count);
    times->list = vector != NULL ? scratch_new(me, (size_t)count + 1, sizeof *times->list) : NULL;
    if (vector != NULL && times->list == NULL)
        return false;
    if (vector != NULL && !tensor_read(me, vector, times->list))
        return false;
    bool one     = vector == NULL || (count == 1 && times->size != 1);
    times->each  = vector == NULL ? repeats->integer[0] : count == 1 ? times->list[0] : 0;
    times->total = one ? (double)times->each * (double)times->size : 0;
    least        = times->each;
    for (int64_t i = 0; !one && i < count; i++) {
        least = times->list[i] < least ? times->list[i] : least;
        times->total += (double)times->list[i];
    }
    if (one)
        times->list = NULL;
    return least >= 0 || failed(me, E_RUNTIME, "repeat_interleave: repeats can not be negative");
}

/* The numbers 0, 1 ..., each as often as `times` says. */
static struct tensor *
interleaved(struct task *me, const struct times *times)
{
    int64_t count = (int64_t)times->total, at = 0, *places = scratch_new(me, (size_t)count + 1, sizeof *places);
    for (int64_t i = 0; i < times->size && places != NULL; i++)
        for (int64_t j = times->list != NULL ? times->list[i] : times->each; j > 0; j--)
            places[at++] = i;
    return places != NULL ? tensor_from(me, DTYPE_I64, 1, &count, places) : NULL;
}

static struct tensor *
rows_repeated(struct task *me, const struct arguments *a, struct tensor *x, const struct times *times)
{
    int dim = a->at[2].none ? 0 : (int)a->at[2].integer[0];
    if (times->total > 0x1p48)
        return failed_null(me, E_MEMORY, "out of memory: repeat_interleave of %.3g rows", times->total);
    struct tensor *from  = a->at[2].none ? in_a_row(me, x) : x, *index = interleaved(me, times);
    if (index != NULL && from != NULL)
        index = tensor_to(me, index, tensor_device(from), DTYPE_I64);
    return tensor_index_select(me, OP_index_select, from, dim, index);
}

/* Without a dimension of the tensor seen as a vector. */
struct tensor *
fn_repeat_interleave(struct task *me, struct arguments *a)
{
    struct tensor *x     = a->at[0].tensor;
    bool           rows  = !a->at[2].none && x->dims > 0;
    struct times   times = { .size = rows ? x->size[a->at[2].integer[0]] : tensor_count(x) };
    return read_times(me, &a->at[1], &times) ? rows_repeated(me, a, x, &times) : NULL;
}

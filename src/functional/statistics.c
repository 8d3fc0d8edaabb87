/* What a tensor's elements are like: medians, quantiles, counts, covariances; made of sort, sums and comparisons. What
 * answers values and places answers two results. PyTorch: torch.median, torch.unique and their like. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- in order ---- */

struct along { int64_t dim; bool keepdim; };

/* One row of a dimension, which stays with size 1. */
static struct tensor *
row_along(struct task *me, struct tensor *x, int64_t dim, int64_t index)
{
    return x != NULL && x->dims > 0 ? tensor_narrow(me, x, (int)dim, index, 1) : x;
}

static struct tensor *
row_squeezed(struct task *me, struct tensor *row, struct along along)
{
    return row == NULL || along.keepdim || row->dims == 0 ? row : tensor_squeeze(me, row, (int)along.dim);
}

static struct tensor *
flattened(struct task *me, struct tensor *x)
{
    return x != NULL ? tensor_reshape(me, x, 1, (const int64_t[]){ tensor_count(x) }) : NULL;
}

/* The place of the last of a row's order instead, if that is NaN. */
static struct tensor *
place_of_nan(struct task *me, struct tensor *x, int64_t dim, struct tensor *order, struct tensor *places)
{
    struct tensor *last  = row_along(me, order, dim, x->dims > 0 ? x->size[dim] - 1 : 0);
    struct tensor *worst = tensor_index_select(me, OP_gather, tensor_detach(me, x), dim, last);
    struct op_args args  = { .in = { op_on(me, OP_isnan, worst, NULL, 1), last, places } };
    return args.in[0] != NULL ? op_call(me, OP_where, &args) : NULL;
}

/* The median and its place: of an even number the lower; with NaNs in the row one of them. */
struct tensor *
fn_median(struct task *me, struct arguments *a)
{
    struct tensor *x     = a->at[0].tensor;
    bool           whole = a->at[1].none;
    struct along   along = { whole ? 0 : a->at[1].integer[0], a->at[2].integer[0] && !whole };
    int64_t        size  = !whole && x->dims > 0 ? x->size[along.dim] : tensor_count(x);
    if (size == 0)
        return failed_null(me, E_INDEX, "median: there is no element");
    x = whole ? flattened(me, x) : x;
    struct tensor *order  = tensor_argsort(me, x, along.dim, false);
    struct tensor *places = row_along(me, order, along.dim, (size - 1) / 2);
    if (places != NULL && dtype_is_float(x->dtype))
        places = place_of_nan(me, x, along.dim, order, places);
    struct tensor *values = row_squeezed(me, tensor_index_select(me, OP_gather, x, along.dim, places), along);
    places = row_squeezed(me, places, along);
    return whole ? values : answer_two(a, values, places);
}

/* (input, k, dim, keepdim): k counts from 1. */
struct tensor *
fn_kthvalue(struct task *me, struct arguments *a)
{
    struct tensor *x     = a->at[0].tensor;
    int64_t        k     = a->at[1].integer[0];
    struct along   along = { a->at[2].integer[0], a->at[3].integer[0] };
    int64_t        size  = x->dims > 0 ? x->size[along.dim] : 1;
    if (k < 1 || k > size)
        return failed_null(me, E_RUNTIME, "kthvalue: selected number k out of range for dimension %lld: %lld of %lld",
                           (long long)along.dim, (long long)k, (long long)size);
    struct tensor *places = row_along(me, tensor_argsort(me, x, along.dim, false), along.dim, k - 1);
    struct tensor *values = row_squeezed(me, tensor_index_select(me, OP_gather, x, along.dim, places), along);
    return answer_two(a, values, row_squeezed(me, places, along));
}

/* How far from the element below to the one above; -1: no such way to interpolate. */
static double
part_between(const char *how, double at)
{
    double part = at - floor(at);
    if (strcmp(how, "linear") == 0)
        return part;
    if (strcmp(how, "lower") == 0)
        return 0;
    if (strcmp(how, "higher") == 0)
        return part > 0;
    if (strcmp(how, "midpoint") == 0)
        return part > 0 ? 0.5 : 0;
    return strcmp(how, "nearest") == 0 ? nearbyint(at) - floor(at) : -1;
}

/* Between the two elements around place q (n - 1), as `how` says. */
static struct tensor *
value_at(struct task *me, struct tensor *sorted, int64_t dim, double q, const char *how)
{
    double         at = q * (double)(sorted->size[dim] - 1), part = part_between(how, at);
    struct tensor *below = row_along(me, sorted, dim, (int64_t)floor(at));
    struct tensor *above = row_along(me, sorted, dim, (int64_t)ceil(at));
    if (part == 0 || part == 1)
        return part == 0 ? below : above;
    struct tensor *way = tensor_sub(me, above, below);
    return part < 0.5 ? tensor_add_scaled(me, below, way, part) : tensor_add_scaled(me, above, way, part - 1);
}

/* (input, q, dim, keepdim, interpolation). A row with a NaN has NaN quantiles. */
struct tensor *
fn_quantile(struct task *me, struct arguments *a)
{
    struct tensor *x     = a->at[0].tensor;
    double         q     = a->at[1].number;
    bool           whole = a->at[2].none || x->dims == 0;
    struct along   along = { whole ? 0 : a->at[2].integer[0], a->at[3].integer[0] && !whole };
    if (part_between(a->at[4].text, 0) < 0)
        return failed_null(me, E_RUNTIME, "quantile: interpolation must be linear, lower, higher, midpoint or nearest");
    if (!(q >= 0 && q <= 1))
        return failed_null(me, E_RUNTIME, "quantile: q must be in the range [0, 1], got %g", q);
    if (!dtype_is_float(x->dtype) || tensor_count(x) == 0)
        return failed_null(me, E_RUNTIME, "quantile: expected a tensor of fractions with elements, got %s",
                           tensor_count(x) == 0 ? "an empty one" : dtype_name(x->dtype));
    x = whole ? flattened(me, x) : x;
    struct tensor *order  = tensor_argsort(me, x, along.dim, false);
    struct tensor *sorted = tensor_index_select(me, OP_sort, x, along.dim, order);
    if (sorted == NULL)
        return NULL;
    struct tensor *worst  = row_along(me, sorted, along.dim, sorted->size[along.dim] - 1);
    struct op_args args   = { .in = { op_on(me, OP_isnan, worst, NULL, 1), worst } };
    args.in[2]            = value_at(me, sorted, along.dim, q, a->at[4].text);
    struct tensor *result = args.in[0] != NULL && args.in[2] != NULL ? op_call(me, OP_where, &args) : NULL;
    return row_squeezed(me, result, along);
}

/* ---- sums that leave something out ---- */

struct tensor *
fn_count_nonzero(struct task *me, struct arguments *a)
{
    struct fold_options options = { .dims = 0 };
    if (!argument_dims(me, &a->at[1], &options))
        return NULL;
    struct tensor *x    = tensor_detach(me, a->at[0].tensor);
    struct tensor *zero = number_beside(me, 0, x);
    return tensor_fold(me, OP_sum_dims, op_on(me, OP_ne, x, zero, 1), &options);
}

static struct tensor *
sum_of_numbers(struct task *me, struct tensor *x, struct tensor *nan, const struct fold_options *options)
{
    return tensor_fold(me, OP_sum_dims, op_on(me, OP_masked_fill, x, nan, 0), options);
}

struct tensor *
fn_nansum(struct task *me, struct arguments *a)
{
    struct fold_options options = { .keepdim = a->at[2].integer[0] };
    if (!argument_dims(me, &a->at[1], &options))
        return NULL;
    struct tensor *nan = op_on(me, OP_isnan, tensor_detach(me, a->at[0].tensor), NULL, 1);
    return sum_of_numbers(me, a->at[0].tensor, nan, &options);
}

struct tensor *
fn_nanmean(struct task *me, struct arguments *a)
{
    struct tensor      *x       = a->at[0].tensor;
    struct fold_options options = { .keepdim = a->at[2].integer[0] };
    if (!dtype_is_float(x->dtype))
        return failed_null(me, E_NOT_IMPLEMENTED, "nanmean: expected a tensor of fractions, got %s",
                           dtype_name(x->dtype));
    if (!argument_dims(me, &a->at[1], &options))
        return NULL;
    struct tensor *nan   = op_on(me, OP_isnan, tensor_detach(me, x), NULL, 1);
    struct tensor *sum   = sum_of_numbers(me, x, nan, &options);
    struct tensor *count = tensor_fold(me, OP_sum_dims, op_on(me, OP_logical_not, nan, NULL, 1), &options);
    return tensor_div(me, sum, count);
}

/* ---- differences; extremes so far, a row at a time ---- */

/* (input, n, dim): each element less the one before, n times. */
struct tensor *
fn_diff(struct task *me, struct arguments *a)
{
    struct tensor *x     = a->at[0].tensor;
    int64_t        times = a->at[1].integer[0], dim = a->at[2].integer[0], size = x->dims > 0 ? x->size[dim] : 0;
    if (x->dims == 0 || times < 0)
        return failed_null(me, E_RUNTIME, "diff: expected an input of 1 dimension or more and n of 0 or more, got "
                           "%d and %lld", x->dims, (long long)times);
    if (times >= size || tensor_count(x) == 0 || times == 0) { /* nothing is left to subtract */
        x = tensor_narrow(me, x, (int)dim, 0, times < size ? size - times : 0);
        return x != NULL ? tensor_copied(me, x) : NULL;
    }
    for (int64_t i = 0; i < times && x != NULL; i++) {
        struct tensor *later   = tensor_narrow(me, x, (int)dim, 1, x->size[dim] - 1);
        struct tensor *earlier = tensor_narrow(me, x, (int)dim, 0, x->size[dim] - 1);
        x = later == NULL || later->dtype != DTYPE_BOOL ? tensor_sub(me, later, earlier)
                                                        : op_on(me, OP_logical_xor, later, earlier, 1);
    }
    return x;
}

/* Two rows of the running extremes: the best so far, and where it was met last. */
struct best { struct tensor *value, *place; };

static struct best
better_of(struct task *me, struct best now, struct best before, enum op at_least)
{
    struct tensor *row  = tensor_detach(me, now.value);
    struct tensor *then = tensor_detach(me, before.value);
    struct tensor *wins = op_on(me, at_least, row, then, 1);
    if (wins != NULL && dtype_is_float(row->dtype))
        wins = op_on(me, OP_logical_or, wins, op_on(me, OP_isnan, row, NULL, 1), 1);
    struct op_args value = { .in = { wins, now.value, before.value } };
    struct op_args place = { .in = { wins, now.place, before.place } };
    struct best    best  = { wins != NULL ? op_call(me, OP_where, &value) : NULL, NULL };
    best.place           = best.value != NULL ? op_call(me, OP_where, &place) : NULL;
    return best;
}

/* cummax, cummin: the rows are made one by one and joined. */
struct tensor *
fn_extremes_so_far(struct task *me, struct arguments *a)
{
    struct tensor *x     = a->at[0].tensor;
    int64_t        dim   = a->at[1].integer[0], count = x->dims > 0 ? x->size[dim] : 0;
    struct tensor **rows = scratch_new(me, 2 * ((size_t)count + 1), sizeof *rows), **places;
    struct best    best  = { NULL, NULL };
    if (rows == NULL)
        return NULL;
    places = rows + count;
    for (int64_t i = 0; i < count; i++) {
        struct best now = { tensor_narrow(me, x, (int)dim, i, 1), NULL };
        if (now.value != NULL)
            now.place = tensor_empty(me, DTYPE_I64, tensor_device(x), now.value->dims, now.value->size);
        now.place = tensor_filled(me, now.place, (double)i);
        best = i == 0 || now.place == NULL ? now : better_of(me, now, best, a->function->row->op);
        if (best.place == NULL)
            return NULL;
        rows[i]   = best.value;
        places[i] = best.place;
    }
    struct tensor *values = count > 0 ? tensor_cat(me, rows, (int)count, (int)dim) : tensor_copied(me, x);
    return answer_two(a, values, count > 0 ? tensor_cat(me, places, (int)count, (int)dim)
                                           : tensor_zeros(me, DTYPE_I64, tensor_device(x), x->dims, x->size));
}

/* ---- covariance: rows are variables, columns observations ---- */

static struct tensor *
covariance_of(struct task *me, struct tensor *x, double correction)
{
    if (x->dims > 2)
        return failed_null(me, E_RUNTIME,
                           "cov: expected input to have two or fewer dimensions but got an input with %d", x->dims);
    if (!dtype_is_float(x->dtype))
        x = tensor_cast(me, x, DTYPE_F32);
    if (x != NULL && x->dims < 2)
        x = tensor_reshape(me, x, 2, (const int64_t[]){ 1, tensor_count(x) });
    if (x == NULL)
        return NULL;
    struct fold_options options = { .dims = 1, .dim = { 1 }, .keepdim = true };
    struct tensor      *from    = tensor_sub(me, x, tensor_fold(me, OP_mean_dims, x, &options));
    double              divisor = (double)tensor_size(x, -1) - correction;
    return tensor_div_number(me, tensor_mm(me, from, tensor_t(me, from)), divisor > 0 ? divisor : 0);
}

/* Of a vector the only one. */
static struct tensor *
variances_of(struct task *me, const struct tensor *x, struct tensor *matrix)
{
    return x->dims < 2 && matrix != NULL ? tensor_reshape(me, matrix, 0, NULL) : matrix;
}

struct tensor *
fn_cov(struct task *me, struct arguments *a)
{
    return variances_of(me, a->at[0].tensor, covariance_of(me, a->at[0].tensor, a->at[1].number));
}

struct tensor *
fn_corrcoef(struct task *me, struct arguments *a)
{
    struct op_args diagonal = { .in = { covariance_of(me, a->at[0].tensor, 1) }, .dim = 0, .start = 1 };
    if (diagonal.in[0] == NULL)
        return NULL;
    struct tensor *spread = op_on(me, OP_sqrt, op_call(me, OP_diagonal, &diagonal), NULL, 1);
    struct tensor *scaled = tensor_div(me, diagonal.in[0], tensor_unsqueeze(me, spread, 1));
    return variances_of(me, a->at[0].tensor, tensor_div(me, scaled, spread));
}

/* ---- counting ---- */

/* Waits for the device. false: failed. */
static bool
read_ends(struct task *me, struct tensor *x, enum dtype dtype, void *least, void *largest)
{
    struct fold_options all  = { .dims = 0 };
    struct tensor      *low  = tensor_cast(me, tensor_fold(me, OP_amin, x, &all), dtype);
    struct tensor      *high = tensor_cast(me, tensor_fold(me, OP_amax, x, &all), dtype);
    return low != NULL && high != NULL && tensor_read(me, low, least) && tensor_read(me, high, largest);
}

bool
tensor_ends(struct task *me, struct tensor *indices, int64_t *least, int64_t *largest)
{
    *least   = 0;
    *largest = -1;
    return tensor_count(indices) == 0 || read_ends(me, indices, DTYPE_I64, least, largest);
}

/* How often each number from 0 on stands in a vector; with weights their sums. */
static struct tensor *
counts_of(struct task *me, struct tensor *x, struct tensor *weights, int64_t minlength)
{
    int64_t least, largest, count = tensor_count(x);
    if (x == NULL || !tensor_ends(me, x, &least, &largest))
        return NULL;
    if (least < 0)
        return failed_null(me, E_RUNTIME, "bincount only supports non-negative integers, found %lld", (long long)least);
    int64_t bins = largest + 1 > minlength ? largest + 1 : minlength;
    if (bins > (int64_t)1 << 28)
        return failed_null(me, E_MEMORY, "bincount: %lld bins are too many", (long long)bins);
    int            device = tensor_device(x);
    enum dtype     dtype  = weights == NULL ? DTYPE_I64 : weights->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    struct tensor *from   = weights != NULL ? tensor_cast(me, weights, dtype)
                                            : tensor_filled(me, tensor_empty(me, dtype, device, 1, &count), 1);
    struct tensor *into   = tensor_zeros(me, dtype, device, 1, &bins);
    struct indexed_rows rows = { .index = tensor_cast(me, x, DTYPE_I64), .from = from };
    return tensor_index_put(me, OP_index_add, into, &rows);
}

struct tensor *
fn_bincount(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *weights = a->at[1].tensor;
    int64_t        minlength = a->at[2].integer[0];
    if (x->dims != 1 || dtype_is_float(x->dtype) || minlength < 0)
        return failed_null(me, E_RUNTIME, "bincount: expected a vector of integers and a minlength of 0 or more, got "
                                          "%s with %d dimensions", dtype_name(x->dtype), x->dims);
    if (weights != NULL && !tensor_same_shape(weights, x))
        return failed_null(me, E_RUNTIME, "bincount: weights should have the same length as the input: expected %s, "
                           "got %s", shape_text(x).text, shape_text(weights).text);
    x       = tensor_detach(me, x);
    weights = weights != NULL ? tensor_detach(me, weights) : NULL;
    return task_failed(me) ? NULL : counts_of(me, x, weights, minlength);
}

/* How many elements fall into each of equal bins between two ends; those outside do not count. */
static struct tensor *
histogram_of(struct task *me, struct tensor *x, int64_t bins, double low, double high)
{
    double         scale  = (double)bins / (high - low);
    struct tensor *flat   = flattened(me, x);
    struct tensor *bottom = number_beside(me, low, flat), *top = number_beside(me, high, flat);
    struct tensor *over   = op_on(me, OP_ge, flat, bottom, 1), *under = op_on(me, OP_le, flat, top, 1);
    struct tensor *inside = op_on(me, OP_logical_and, over, under, 1);
    struct tensor *place  = tensor_mul_number(me, tensor_add_number(me, flat, -low), scale);
    place                 = op_on(me, OP_floor, place, NULL, 1);
    struct tensor *last   = tensor_number(me, DTYPE_F64, DEVICE_CPU, (double)(bins - 1));
    place                 = op_on(me, OP_minimum, place, last, 1);
    struct tensor *beside = op_on(me, OP_logical_not, inside, NULL, 1);
    place                 = op_on(me, OP_masked_fill, place, beside, (double)bins); /* the bin for the rest */
    struct tensor *counts = counts_of(me, tensor_cast(me, place, DTYPE_I64), NULL, bins);
    return counts != NULL ? tensor_cast(me, tensor_narrow(me, counts, 0, 0, bins), x->dtype) : NULL;
}

/* (input, bins, min, max): equal ends stand for the smallest and the largest element. */
struct tensor *
fn_histc(struct task *me, struct arguments *a)
{
    struct tensor *x    = a->at[0].tensor;
    int64_t        bins = a->at[1].integer[0];
    double         low = a->at[2].number, high = a->at[3].number;
    if (!dtype_is_float(x->dtype))
        return failed_null(me, E_NOT_IMPLEMENTED, "histc: expected fractions, got a tensor of %s",
                           dtype_name(x->dtype));
    if (bins <= 0 || bins > 1 << 24 || !(low <= high))
        return failed_null(me, E_RUNTIME, "histc: expected 1 bin or more, and max not below min, got %lld, %g and %g",
                           (long long)bins, high, low);
    x = tensor_detach(me, x);
    if (x == NULL || (low == high && tensor_count(x) > 0 && !read_ends(me, x, DTYPE_F64, &low, &high)))
        return NULL;
    if (low == high) {
        low -= 1;
        high += 1;
    }
    if (!isfinite(low) || !isfinite(high))
        return failed_null(me, E_RUNTIME, "histc: range of [%g, %g] is not finite", low, high);
    return histogram_of(me, x, bins, low, high);
}

/* ---- places in a sorted vector ---- */

/* How many boundaries are below each value (`right`: or equal to it). */
static struct tensor *
places_among(struct task *me, struct tensor *values, struct tensor *boundaries, bool right)
{
    if (boundaries->dims != 1)
        return failed_null(me, E_RUNTIME, "boundaries tensor must be 1 dimension, but got dim(%d)", boundaries->dims);
    if (values->dims == TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "the values have too many dimensions: at most %d", TENSOR_DIMS - 1);
    struct fold_options last  = { .dims = 1, .dim = { values->dims } };
    struct tensor      *each  = tensor_unsqueeze(me, tensor_detach(me, values), values->dims);
    struct tensor      *below = op_on(me, right ? OP_ge : OP_gt, each, tensor_detach(me, boundaries), 1);
    return tensor_fold(me, OP_sum_dims, below, &last);
}

struct tensor *
fn_bucketize(struct task *me, struct arguments *a)
{
    return places_among(me, a->at[0].tensor, a->at[1].tensor, a->at[2].integer[0]);
}

struct tensor *
fn_searchsorted(struct task *me, struct arguments *a)
{
    return places_among(me, a->at[1].tensor, a->at[0].tensor, a->at[2].integer[0]);
}

struct tensor *
fn_isin(struct task *me, struct arguments *a)
{
    struct tensor *elements = a->at[0].tensor;
    if (elements->dims == TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "isin: at most %d dimensions", TENSOR_DIMS - 1);
    struct fold_options last = { .dims = 1, .dim = { elements->dims }, .any = true };
    struct tensor      *each = tensor_unsqueeze(me, tensor_detach(me, elements), elements->dims);
    struct tensor      *flat = flattened(me, tensor_detach(me, a->at[1].tensor));
    return tensor_fold(me, OP_all, op_on(me, OP_eq, each, flat, 1), &last);
}

/* ---- different ones ---- */

/* Where a vector differs from the element before it; the first always does. */
static struct tensor *
starts_of(struct task *me, struct tensor *flat)
{
    int64_t        count = tensor_count(flat), one = 1;
    struct tensor *first = tensor_filled(me, tensor_empty(me, DTYPE_BOOL, tensor_device(flat), 1, &one), 1);
    if (count < 2)
        return count == 1 ? first : tensor_narrow(me, first, 0, 0, 0);
    struct tensor *later  = tensor_narrow(me, flat, 0, 1, count - 1);
    struct tensor *before = tensor_narrow(me, flat, 0, 0, count - 1);
    struct tensor *differ = op_on(me, OP_ne, later, before, 1);
    return first != NULL && differ != NULL ? tensor_cat(me, (struct tensor *[]){ first, differ }, 2, 0) : NULL;
}

struct different { struct tensor *values, *inverse, *counts; };

/* Of a vector whose equal elements stand together; `order`: where they came from, NULL: from there. */
static struct different
different_of(struct task *me, struct tensor *flat, struct tensor *order)
{
    struct different result = { NULL, NULL, NULL };
    struct tensor   *starts = flat != NULL ? starts_of(me, flat) : NULL;
    struct tensor   *places = starts != NULL ? tensor_nonzero(me, starts) : NULL;
    places        = places != NULL ? tensor_select(me, places, 1, 0) : NULL;
    result.values = tensor_index_select(me, OP_index_select, flat, 0, places);
    struct op_args running = { .in = { tensor_cast(me, starts, DTYPE_I64) } };
    struct tensor *number  = running.in[0] != NULL ? op_call(me, OP_cumsum, &running) : NULL;
    number         = tensor_add_number(me, number, -1);
    struct indexed_rows back = { .index = order, .from = number };
    result.inverse = order == NULL || number == NULL ? number : tensor_index_put(me, OP_index_put, number, &back);
    result.counts  = counts_of(me, number, NULL, 0);
    return result;
}

/* `inverse`, `counts`: arguments that ask for a result each. */
static struct tensor *
answer_different(struct task *me, struct arguments *a, struct different found, int inverse)
{
    const struct tensor *x = a->at[0].tensor;
    if (found.inverse != NULL)
        found.inverse = tensor_reshape(me, found.inverse, x->dims, x->size);
    if (found.inverse == NULL || found.counts == NULL)
        return NULL;
    if (a->at[inverse].integer[0])
        a->more[a->results++ - 1] = found.inverse;
    if (a->at[inverse + 1].integer[0])
        a->more[a->results++ - 1] = found.counts;
    return found.values;
}

struct tensor *
fn_unique(struct task *me, struct arguments *a)
{
    struct tensor *flat   = flattened(me, tensor_detach(me, a->at[0].tensor));
    struct tensor *order  = tensor_argsort(me, flat, 0, false);
    struct tensor *sorted = tensor_index_select(me, OP_index_select, flat, 0, order);
    return answer_different(me, a, different_of(me, sorted, order), 2);
}

struct tensor *
fn_unique_consecutive(struct task *me, struct arguments *a)
{
    struct tensor *flat = flattened(me, tensor_detach(me, a->at[0].tensor));
    return answer_different(me, a, different_of(me, flat, NULL), 1);
}

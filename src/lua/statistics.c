/* What a tensor's elements are like: medians, quantiles, counts, covariances; made of sort, sums and comparisons.
 * Methods and functions of rs alike: t:median(1), rs.bincount(t). What answers values and places answers two
 * results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "functional/functional.h"
#include "lua/internal.h"
#include "sched/task.h"

static struct tensor *
unary_op(struct task *me, enum op op, struct tensor *a)
{
    return op_on(me, op, a, NULL, 1);
}

static struct tensor *
compared(struct task *me, enum op op, struct tensor *a, double number)
{
    return op_on(me, op, a, operand_tensor(me, (struct operand){ .number = number }, a), 1);
}

static struct tensor *
cast(struct task *me, struct tensor *a, enum dtype dtype)
{
    return a != NULL ? tensor_copy_to(me, a, tensor_device(a), dtype) : NULL;
}

static int
two_results(struct call *call, struct tensor *first, struct tensor *second)
{
    call_end(call, first != NULL && second != NULL);
    push_tensor(call->L, first);
    push_tensor(call->L, second);
    return call_leave(call, 2);
}

/* A dimension and keepdim from argument `at` on: positional, or fields of a table. */
struct along { int dim; bool given, keepdim; };

static struct along
check_along(lua_State *L, int at, const struct tensor *tensor)
{
    struct along along = { tensor->dims > 0 ? tensor->dims - 1 : 0, false, false };
    lua_settop(L, at + 1);
    int table = option_table(L, lua_istable(L, at) ? at : lua_istable(L, at + 1) ? at + 1 : 0);
    option_known(L, table, "dim keepdim");
    if (table == at && option_push(L, table, "dim")) {
        along.dim   = check_dim(L, -1, tensor->dims);
        along.given = true;
    } else if (table != at && !lua_isnil(L, at)) {
        along.dim   = check_dim(L, at, tensor->dims);
        along.given = true;
    }
    along.keepdim = option_bool(L, table, "keepdim", table == 0 && lua_toboolean(L, at + 1));
    return along;
}

static struct tensor *
order_of(struct task *me, struct tensor *tensor, int dim)
{
    struct op_args args = { .in = { tensor }, .dim = dim };
    return tensor != NULL ? op_call(me, OP_argsort, &args) : NULL;
}

/* One row of a dimension, which stays with size 1. */
static struct tensor *
row_at(struct task *me, struct tensor *tensor, int dim, int64_t index)
{
    return tensor != NULL && tensor->dims > 0 ? tensor_narrow(me, tensor, dim, index, 1) : tensor;
}

static struct tensor *
without(struct task *me, struct tensor *tensor, struct along along)
{
    return tensor == NULL || along.keepdim || tensor->dims == 0 ? tensor : tensor_squeeze(me, tensor, along.dim);
}

/* ---- in order ---- */

/* The k-th smallest and its place; with NaNs in the row the last, which is one, if `nan`. */
static int
ranked(struct call *call, struct tensor *tensor, struct along along, int64_t rank, bool nan)
{
    struct task   *me     = call->me;
    struct tensor *order  = order_of(me, tensor, along.dim);
    struct tensor *places = row_at(me, order, along.dim, rank);
    if (nan && places != NULL && dtype_is_float(tensor->dtype)) {
        struct tensor *last  = row_at(me, order, along.dim, tensor->dims > 0 ? tensor->size[along.dim] - 1 : 0);
        struct tensor *worst = tensor_index_select(me, OP_gather, tensor_detach(me, tensor), along.dim, last);
        struct op_args args  = { .in = { unary_op(me, OP_isnan, worst), last, places } };
        places = args.in[0] != NULL ? op_call(me, OP_where, &args) : NULL;
    }
    struct tensor *values = places != NULL ? tensor_index_select(me, OP_gather, tensor, along.dim, places) : NULL;
    values = without(me, values, along);
    return two_results(call, values, without(me, places, along));
}

/* t:median(): the lower one of two; t:median(dim, keepdim): values and places */
static int
median(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct along   along  = check_along(L, 2, tensor);
    int64_t        size   = along.given && tensor->dims > 0 ? tensor->size[along.dim] : tensor_count(tensor);
    if (size == 0)
        raise_error(L, "IndexError", "median: there is no element");
    script_reserve(L, me, 24 * (double)tensor_count(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (!along.given) {
        tensor = tensor_reshape(me, tensor, 1, (const int64_t[]){ size });
        along  = (struct along){ 0, true, false };
    }
    int results = ranked(&call, tensor, along, (size - 1) / 2, true);
    return lua_isnone(L, 2) || lua_isnil(L, 2) ? (lua_pop(L, results - 1), 1) : results;
}

/* t:kthvalue(k, dim, keepdim): k counts from 1 */
static int
kthvalue(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        k      = check_integer(L, 2);
    struct along   along  = check_along(L, 3, tensor);
    int64_t        size   = tensor->dims > 0 ? tensor->size[along.dim] : 1;
    if (k < 1 || k > size)
        raise_error(L, "RuntimeError", "kthvalue: selected number k out of range for dimension %d: %lld of %lld",
                    along.dim,
                    (long long)k, (long long)size);
    script_reserve(L, me, 24 * (double)tensor_count(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    return ranked(&call, tensor, along, k - 1, false);
}

static int
msort(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    script_reserve(L, me, 24 * (double)tensor_count(tensor));
    struct call    call  = call_open(L, me, CALL_PLAIN);
    struct tensor *order = order_of(me, tensor, 0);
    return call_tensor(&call, order != NULL ? tensor_index_select(me, OP_sort, tensor, 0, order) : NULL);
}

/* Between the two elements around place q (n - 1), as `how` says. */
static struct tensor *
quantile_of(struct task *me, struct tensor *sorted, int dim, double q, const char *how)
{
    double at = q * (double)(sorted->size[dim] - 1), low = floor(at), part = at - low;
    if (strcmp(how, "lower") == 0)
        part = 0;
    else if (strcmp(how, "higher") == 0)
        part = part > 0 ? 1 : 0;
    else if (strcmp(how, "midpoint") == 0)
        part = part > 0 ? 0.5 : 0;
    else if (strcmp(how, "nearest") == 0)
        part = nearbyint(at) - low;
    struct tensor *below = row_at(me, sorted, dim, (int64_t)low), *above = row_at(me, sorted, dim, (int64_t)ceil(at));
    if (part == 0 || part == 1)
        return part == 0 ? below : above;
    struct tensor *way = tensor_sub(me, above, below);
    return part < 0.5 ? tensor_add_scaled(me, below, way, part) : tensor_add_scaled(me, above, way, part - 1);
}

/* t:quantile(q, dim, keepdim) or options dim, keepdim, interpolation. A row with a NaN has NaN quantiles. */
static int
quantile(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    double         q      = check_number(L, 2);
    const char    *how    = "linear";
    if (lua_istable(L, 3)) {
        option_known(L, 3, "dim keepdim interpolation");
        how = option_text(L, 3, "interpolation", how);
        option_own(L, 3);
        lua_pushnil(L); /* the others are check_along's */
        lua_setfield(L, 3, "interpolation");
    }
    if (strcmp(how, "linear") != 0 && strcmp(how, "lower") != 0 && strcmp(how, "higher") != 0 &&
        strcmp(how, "midpoint") != 0 && strcmp(how, "nearest") != 0)
        raise_error(L, "RuntimeError", "quantile: interpolation must be linear, lower, higher, midpoint or nearest");
    struct along along = check_along(L, 3, tensor);
    if (!(q >= 0 && q <= 1))
        raise_error(L, "RuntimeError", "quantile: q must be in the range [0, 1], got %g", q);
    if (!dtype_is_float(tensor->dtype) || tensor_count(tensor) == 0)
        raise_error(L, "RuntimeError", "quantile: expected a tensor of fractions with elements, got %s",
                    tensor_count(tensor) == 0 ? "an empty one" : dtype_name(tensor->dtype));
    script_reserve(L, me, 32 * (double)tensor_count(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (!along.given || tensor->dims == 0) {
        tensor = tensor_reshape(me, tensor, 1, (const int64_t[]){ tensor_count(tensor) });
        along  = (struct along){ 0, true, false };
    }
    struct tensor *order  = order_of(me, tensor, along.dim);
    struct tensor *sorted = order != NULL ? tensor_index_select(me, OP_sort, tensor, along.dim, order) : NULL;
    if (sorted == NULL)
        return call_tensor(&call, NULL);
    struct tensor *worst  = row_at(me, sorted, along.dim, sorted->size[along.dim] - 1);
    struct op_args args = { .in = { unary_op(me, OP_isnan, worst), worst } };
    args.in[2] = quantile_of(me, sorted, along.dim, q, how);
    struct tensor *result = args.in[0] != NULL && args.in[2] != NULL ? op_call(me, OP_where, &args) : NULL;
    return call_tensor(&call, without(me, result, along));
}

/* ---- sums that leave something out ---- */

static struct fold_options
fold_along(struct along along)
{
    struct fold_options options = { .dims = along.given, .dim = { along.dim }, .keepdim = along.keepdim };
    return options;
}

static int
count_nonzero(lua_State *L)
{
    struct task        *me      = script_task(L);
    struct tensor      *tensor  = check_tensor(L, 1);
    struct fold_options options = fold_along(check_along(L, 2, tensor));
    struct call         call    = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_fold(me, OP_sum_dims, compared(me, OP_ne, tensor_detach(me, tensor), 0),
                                          &options));
}

/* Upvalue 1: 1 nanmean */
static int
nansum(lua_State *L)
{
    struct task        *me      = script_task(L);
    struct tensor      *tensor  = check_tensor(L, 1);
    struct fold_options options = fold_along(check_along(L, 2, tensor));
    bool                mean    = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    if (mean && !dtype_is_float(tensor->dtype))
        raise_error(L, "RuntimeError", "nanmean: expected a tensor of fractions, got %s", dtype_name(tensor->dtype));
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *nan  = unary_op(me, OP_isnan, tensor_detach(me, tensor));
    struct tensor *sum  = tensor_fold(me, OP_sum_dims, op_on(me, OP_masked_fill, tensor, nan, 0), &options);
    if (!mean)
        return call_tensor(&call, sum);
    struct tensor *count = tensor_fold(me, OP_sum_dims, unary_op(me, OP_logical_not, nan), &options);
    return call_tensor(&call, tensor_div(me, sum, count));
}

/* rs.aminmax(t, {dim, keepdim}): the smallest and the largest */
static int
aminmax(lua_State *L)
{
    struct task        *me      = script_task(L);
    struct tensor      *tensor  = check_tensor(L, 1);
    struct fold_options options = fold_along(check_along(L, 2, tensor));
    struct call         call    = call_open(L, me, CALL_PLAIN);
    struct tensor      *least   = tensor_fold(me, OP_amin, tensor, &options);
    return two_results(&call, least, tensor_fold(me, OP_amax, tensor, &options));
}

/* t:diff(n, dim): each element less the one before, n times */
static int
diff(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        times  = opt_integer(L, 2, 1);
    int            dim    = lua_isnoneornil(L, 3) ? tensor->dims - 1 : check_dim(L, 3, tensor->dims);
    if (tensor->dims == 0 || times < 0)
        raise_error(L, "RuntimeError", "diff: expected a vector or more, and n of 0 or more");
    script_reserve(L, me, 2 * (double)tensor_bytes(tensor));
    int64_t     size = tensor->size[dim];
    struct call call = call_open(L, me, CALL_PLAIN);
    if (times >= size || tensor_count(tensor) == 0 || times == 0) { /* nothing is left to subtract */
        tensor = tensor_narrow(me, tensor, dim, 0, times < size ? size - times : 0);
        return call_tensor(&call, tensor != NULL ? tensor_copied(me, tensor) : NULL);
    }
    for (int64_t i = 0; i < times && tensor != NULL; i++) {
        int64_t        length = tensor->size[dim] - 1;
        struct tensor *later = tensor_narrow(me, tensor, dim, 1, length),
            *earlier = tensor_narrow(me, tensor, dim, 0, length);
        tensor = later == NULL || later->dtype != DTYPE_BOOL ? tensor_sub(me, later, earlier)
                                                             : op_on(me, OP_logical_xor, later, earlier, 1);
    }
    return call_tensor(&call, tensor);
}

/* rs.var_mean(t, dim, keepdim): two results. Upvalue 1: OP_std for std_mean */
static int
var_mean(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    enum op        op     = (enum op)lua_tointeger(L, lua_upvalueindex(1));
    double         correction = 1;
    for (int at = 2; at <= 3; at++) {
        if (!lua_istable(L, at))
            continue;
        correction = option_number(L, at, "correction", option_bool(L, at, "unbiased", true));
        option_own(L, at);
        lua_pushnil(L); /* the others are check_along's */
        lua_setfield(L, at, "correction");
        lua_pushnil(L);
        lua_setfield(L, at, "unbiased");
    }
    struct fold_options options = fold_along(check_along(L, 2, tensor));
    options.correction = correction;
    if (!dtype_is_float(tensor->dtype))
        raise_error(L, "RuntimeError", "var_mean: expected a tensor of fractions, got %s", dtype_name(tensor->dtype));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *spread = tensor_fold(me, op, tensor, &options);
    struct tensor *mean   = options.dims == 0 ? tensor_mean(me, tensor) : tensor_fold(me, OP_mean_dims, tensor,
                                                                                      &options);
    return two_results(&call, spread, mean);
}

/* ---- running along a dimension, a row at a time ---- */

static struct tensor *
joined_rows(struct task *me, struct tensor **rows, int64_t count, int dim, struct tensor *none)
{
    return count > 0 ? tensor_cat(me, rows, (int)count, dim) : none;
}

struct running { struct tensor **values, **places; int64_t count; };

/* Each row's largest (least) so far and where it was met last. */
static bool
run_extremes(struct task *me, struct tensor *tensor, int dim, bool largest, const struct running *running)
{
    int device = tensor_device(tensor);
    for (int64_t i = 0; i < running->count; i++) {
        struct tensor *row = tensor_narrow(me, tensor, dim, i, 1);
        if (row == NULL)
            return false;
        struct tensor *here = tensor_filled(me, tensor_empty(me, DTYPE_I64, device, row->dims, row->size), (double)i);
        running->values[i]  = row;
        running->places[i]  = here;
        if (here == NULL)
            return false;
        if (i == 0)
            continue;
        struct tensor *before = running->values[i - 1];
        struct tensor *now = tensor_detach(me, row), *then = tensor_detach(me, before);
        struct tensor *better = op_on(me, largest ? OP_ge : OP_le, now, then, 1);
        if (dtype_is_float(tensor->dtype))
            better = op_on(me, OP_logical_or, better, unary_op(me, OP_isnan, now), 1);
        struct op_args value = { .in = { better, row, before } },
            place = { .in = { better, here, running->places[i - 1] } };
        running->values[i]   = better != NULL ? op_call(me, OP_where, &value) : NULL;
        running->places[i]   = better != NULL ? op_call(me, OP_where, &place) : NULL;
        if (running->values[i] == NULL || running->places[i] == NULL)
            return false;
    }
    return true;
}

/* t:cummax(dim): the largest so far, and its place. Upvalue 1: 1 cummin */
static int
cummax(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int            dim    = check_dim(L, 2, tensor->dims);
    bool           largest = lua_tointeger(L, lua_upvalueindex(1)) == 0;
    struct running running = { .count = tensor->dims > 0 ? tensor->size[dim] : 0 };
    script_reserve(L, me, 64 * (double)tensor_count(tensor));
    running.values = lua_newuserdatauv(L, ((size_t)running.count + 1) * sizeof *running.values, 0);
    running.places = lua_newuserdatauv(L, ((size_t)running.count + 1) * sizeof *running.places, 0);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *none = tensor_zeros(me, DTYPE_I64, tensor_device(tensor), tensor->dims, tensor->size);
    if (!run_extremes(me, tensor, dim, largest, &running))
        return two_results(&call, NULL, NULL);
    struct tensor *values = joined_rows(me, running.values, running.count, dim, tensor_copied(me, tensor));
    return two_results(&call, values, joined_rows(me, running.places, running.count, dim, none));
}

/* ---- covariance: rows are variables, columns observations ---- */

static struct tensor *
covariance_of(struct task *me, struct tensor *tensor, double correction)
{
    int64_t             count   = tensor_size(tensor, -1);
    struct fold_options options = { .dims = 1, .dim = { 1 }, .keepdim = true };
    struct tensor      *from    = tensor_sub(me, tensor, tensor_fold(me, OP_mean_dims, tensor, &options));
    double              divisor = (double)count - correction;
    return tensor_div_number(me, tensor_mm(me, from, tensor_t(me, from)), divisor > 0 ? divisor : 0);
}

/* Upvalue 1: 1 corrcoef */
static int
cov(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    bool           corr   = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    int            table  = option_table(L, lua_istable(L, 2) ? 2 : 0);
    option_known(L, table, corr ? "" : "correction");
    double correction = option_number(L, table, "correction", 1);
    if (tensor->dims > 2)
        raise_error(L, "RuntimeError", "cov: expected input to have two or fewer dimensions but got an input with %d",
                    tensor->dims);
    bool vector = tensor->dims < 2;
    script_reserve(L, me, 8 * (vector ? 1 : (double)tensor->size[0] * (double)tensor->size[0]));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (!dtype_is_float(tensor->dtype))
        tensor = cast(me, tensor, DTYPE_F32);
    if (vector && tensor != NULL)
        tensor = tensor_reshape(me, tensor, 2, (const int64_t[]){ 1, tensor_count(tensor) });
    struct tensor *result = tensor != NULL ? covariance_of(me, tensor, correction) : NULL;
    if (corr && result != NULL) {
        struct op_args args = { .in = { result }, .dim = 0, .start = 1 };
        struct tensor *spread = unary_op(me, OP_sqrt, op_call(me, OP_diagonal, &args));
        result = tensor_div(me, tensor_div(me, result, tensor_unsqueeze(me, spread, 1)), spread);
    }
    return call_tensor(&call, vector && result != NULL ? tensor_reshape(me, result, 0, NULL) : result);
}

/* ---- counting ---- */

static bool
read_largest(struct task *me, struct tensor *tensor, int64_t *least, int64_t *largest)
{
    struct fold_options all = { .dims = 0 };
    if (tensor_count(tensor) == 0) {
        *least   = 0;
        *largest = -1;
        return true;
    }
    struct tensor *low  = cast(me, tensor_fold(me, OP_amin, tensor, &all), DTYPE_I64);
    struct tensor *high = cast(me, tensor_fold(me, OP_amax, tensor, &all), DTYPE_I64);
    return low != NULL && high != NULL && tensor_read(me, low, least) && tensor_read(me, high, largest);
}

/* How often each number from 0 on stands in a vector; with weights their sums. Reads the largest: waits. */
static struct tensor *
bincount_of(struct task *me, struct tensor *tensor, struct tensor *weights, int64_t minlength)
{
    int64_t least, largest, count = tensor_count(tensor);
    if (!read_largest(me, tensor, &least, &largest))
        return NULL;
    if (least < 0)
        return failed_null(me, E_RUNTIME, "bincount only supports non-negative integers, found %lld", (long long)least);
    int64_t bins = largest + 1 > minlength ? largest + 1 : minlength;
    if (bins > (int64_t)1 << 28)
        return failed_null(me, E_MEMORY, "bincount: %lld bins are too many", (long long)bins);
    int            device = tensor_device(tensor);
    enum dtype     dtype = weights == NULL ? DTYPE_I64 : weights->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    struct tensor *from = weights != NULL ? cast(me, weights, dtype)
                                          : tensor_filled(me, tensor_empty(me, dtype, device, 1, &count), 1);
    struct tensor *into = tensor_zeros(me, dtype, device, 1, &bins);
    struct indexed_rows rows = { .index = cast(me, tensor, DTYPE_I64), .from = from };
    return tensor_index_put(me, OP_index_add, into, &rows);
}

static int
bincount(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *weights = test_tensor(L, 2);
    int            table  = option_table(L, lua_istable(L, 2) ? 2 : lua_istable(L, 3) ? 3 : 0);
    option_known(L, table, "weights minlength");
    int64_t minlength = option_integer(L, table, "minlength", table == 0 ? opt_integer(L, 3, 0) : 0);
    if (weights == NULL && option_push(L, table, "weights"))
        weights = check_tensor(L, -1);
    if (tensor->dims != 1 || dtype_is_float(tensor->dtype) || minlength < 0)
        raise_error(L, "RuntimeError",
                    "bincount: expected a vector of integers and a minlength of 0 or more, got %s with %d "
                    "dimensions", dtype_name(tensor->dtype), tensor->dims);
    if (weights != NULL && !tensor_same_shape(weights, tensor))
        raise_error(L, "RuntimeError", "bincount: weights should have the same length as the input");
    struct call call = call_open(L, me, CALL_PLAIN);
    tensor  = tensor_detach(me, tensor);
    weights = weights != NULL ? tensor_detach(me, weights) : NULL;
    return call_tensor(&call, tensor != NULL ? bincount_of(me, tensor, weights, minlength) : NULL);
}

/* How many elements fall into each of equal bins between two ends; those outside do not count. */
static struct tensor *
histc_of(struct task *me, struct tensor *tensor, int64_t bins, double low, double high)
{
    double         scale = (double)bins / (high - low);
    struct tensor *flat  = tensor_reshape(me, tensor, 1, (const int64_t[]){ tensor_count(tensor) });
    struct tensor *above = compared(me, OP_ge, flat, low), *below = compared(me, OP_le, flat, high);
    struct tensor *inside = op_on(me, OP_logical_and, above, below, 1);
    struct tensor *place  = unary_op(me, OP_floor, tensor_mul_number(me, tensor_add_number(me, flat, -low), scale));
    struct tensor *last   = tensor_number(me, DTYPE_F64, DEVICE_CPU, (double)(bins - 1));
    place = op_on(me, OP_minimum, place, last, 1);
    place = op_on(me, OP_masked_fill, place, unary_op(me, OP_logical_not, inside),
                  (double)bins); /* the bin for the rest */
    struct tensor *counts = place != NULL ? bincount_of(me, cast(me, place, DTYPE_I64), NULL, bins) : NULL;
    return counts != NULL ? cast(me, tensor_narrow(me, counts, 0, 0, bins), tensor->dtype) : NULL;
}

static int
histc(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int            table  = option_table(L, lua_istable(L, 2) ? 2 : 0);
    option_known(L, table, "bins min max");
    int64_t bins = option_integer(L, table, "bins", table == 0 ? opt_integer(L, 2, 100) : 100);
    double  low  = option_number(L, table, "min", table == 0 ? opt_number(L, 3, 0) : 0);
    double  high = option_number(L, table, "max", table == 0 ? opt_number(L, 4, 0) : 0);
    if (bins <= 0 || bins > 1 << 24 || !dtype_is_float(tensor->dtype) || !(low <= high))
        raise_error(L, "RuntimeError", "histc: expected a tensor of fractions, 1 bin or more, and max not below min");
    struct call call = call_open(L, me, CALL_PLAIN);
    tensor = tensor_detach(me, tensor);
    if (low == high && tensor != NULL && tensor_count(tensor) > 0) { /* not given: the smallest and the largest */
        struct fold_options all = { .dims = 0 };
        struct tensor *least   = cast(me, tensor_fold(me, OP_amin, tensor, &all), DTYPE_F64);
        struct tensor *largest = cast(me, tensor_fold(me, OP_amax, tensor, &all), DTYPE_F64);
        if (least == NULL || largest == NULL || !tensor_read(me, least, &low) || !tensor_read(me, largest, &high))
            return call_tensor(&call, NULL);
    }
    if (low == high) {
        low -= 1;
        high += 1;
    }
    if (!isfinite(low) || !isfinite(high))
        return call_tensor(&call, failed_null(me, E_RUNTIME, "histc: range of [%g, %g] is not finite", low, high));
    return call_tensor(&call, tensor != NULL ? histc_of(me, tensor, bins, low, high) : NULL);
}

/* ---- places in a sorted vector ---- */

/* How many boundaries are below each value (`right`: or equal to it). */
static struct tensor *
placed(struct task *me, struct tensor *values, struct tensor *boundaries, bool right)
{
    struct fold_options last = { .dims = 1, .dim = { values->dims } };
    struct tensor      *each = tensor_unsqueeze(me, tensor_detach(me, values), values->dims);
    return tensor_fold(me, OP_sum_dims, op_on(me, right ? OP_ge : OP_gt, each, tensor_detach(me, boundaries), 1),
                       &last);
}

/* rs.bucketize(values, boundaries, {right}); upvalue 1: 1 searchsorted(boundaries, values, {right}) */
static int
bucketize(lua_State *L)
{
    struct task   *me    = script_task(L);
    bool           search = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    struct tensor *values = check_tensor(L, search ? 2 : 1), *boundaries = check_tensor(L, search ? 1 : 2);
    int            table = option_table(L, lua_istable(L, 3) ? 3 : 0);
    option_known(L, table, "right");
    bool right = option_bool(L, table, "right", table == 0 && lua_toboolean(L, 3));
    if (boundaries->dims != 1)
        raise_error(L, "RuntimeError", "boundaries tensor must be 1 dimension, but got dim(%d)", boundaries->dims);
    if (values->dims == TENSOR_DIMS)
        raise_error(L, "RuntimeError", "the values have too many dimensions: at most %d", TENSOR_DIMS - 1);
    script_reserve(L, me, 2 * (double)tensor_count(values) * (double)tensor_count(boundaries));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, placed(me, values, boundaries, right));
}

/* rs.isin(elements, test_elements): true for those that occur in the others */
static int
isin(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *elements = check_tensor(L, 1), *others = check_tensor(L, 2);
    if (elements->dims == TENSOR_DIMS)
        raise_error(L, "RuntimeError", "isin: at most %d dimensions", TENSOR_DIMS - 1);
    script_reserve(L, me, (double)tensor_count(elements) * (double)tensor_count(others));
    struct call         call = call_open(L, me, CALL_PLAIN);
    struct fold_options last = { .dims = 1, .dim = { elements->dims }, .any = true };
    struct tensor *each = tensor_unsqueeze(me, tensor_detach(me, elements), elements->dims);
    struct tensor *flat = tensor_reshape(me, tensor_detach(me, others), 1, (const int64_t[]){ tensor_count(others) });
    return call_tensor(&call, tensor_fold(me, OP_all, op_on(me, OP_eq, each, flat, 1), &last));
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
    struct tensor *later = tensor_narrow(me, flat, 0, 1, count - 1), *before = tensor_narrow(me, flat, 0, 0, count - 1);
    struct tensor *differ = op_on(me, OP_ne, later, before, 1);
    return first != NULL && differ != NULL ? tensor_cat(me, (struct tensor *[]){ first, differ }, 2, 0) : NULL;
}

struct different { struct tensor *values, *inverse, *counts; };

/* Of a vector whose equal elements stand together; `order`: where they came from, NULL: from there. */
static struct different
different_of(struct task *me, struct tensor *flat, struct tensor *order)
{
    struct different result = { NULL, NULL, NULL };
    struct tensor   *starts = starts_of(me, flat), *places = starts != NULL ? tensor_nonzero(me, starts) : NULL;
    places        = places != NULL ? tensor_select(me, places, 1, 0) : NULL;
    result.values = places != NULL ? tensor_index_select(me, OP_index_select, flat, 0, places) : NULL;
    struct op_args running = { .in = { cast(me, starts, DTYPE_I64) } };
    struct tensor *number  = running.in[0] != NULL ? op_call(me, OP_cumsum, &running) : NULL;
    number         = tensor_add_number(me, number, -1);
    result.inverse = number;
    if (order != NULL && number != NULL)
        result.inverse = tensor_index_put(me, OP_index_put, number, &(struct indexed_rows){ 0, order, number });
    result.counts  = number != NULL ? bincount_of(me, number, NULL, 0) : NULL;
    return result;
}

/* rs.unique(t, {return_inverse, return_counts}): the different elements, sorted. Upvalue 1: 1 unique_consecutive */
static int
unique(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    bool           consecutive = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    int            table = option_table(L, lua_istable(L, 2) ? 2 : 0), results = 1;
    option_known(L, table, "sorted return_inverse return_counts");
    bool inverse = option_bool(L, table, "return_inverse", false),
        counts = option_bool(L, table, "return_counts", false);
    script_reserve(L, me, 64 * (double)tensor_count(tensor));
    struct call    call  = call_open(L, me, CALL_PLAIN);
    struct tensor *shape = tensor, *order = NULL;
    tensor = tensor_reshape(me, tensor_detach(me, tensor), 1, (const int64_t[]){ tensor_count(tensor) });
    if (!consecutive && tensor != NULL) {
        order  = order_of(me, tensor, 0);
        tensor = order != NULL ? tensor_index_select(me, OP_index_select, tensor, 0, order) : NULL;
    }
    struct different found = { NULL, NULL, NULL };
    if (tensor != NULL)
        found = different_of(me, tensor, order);
    if (found.inverse != NULL)
        found.inverse = tensor_reshape(me, found.inverse, shape->dims, shape->size);
    call_end(&call, found.values != NULL && found.inverse != NULL && found.counts != NULL);
    push_tensor(L, found.values);
    if (inverse)
        results += (push_tensor(L, found.inverse), 1);
    if (counts)
        results += (push_tensor(L, found.counts), 1);
    return call_leave(&call, results);
}

static const struct op_row rows[] = {
    { "median", median, 0, "median(t, dim, keepdim)",
      "the middle element, the lower of two; over a dimension: values and places" },
    { "kthvalue", kthvalue, 0, "kthvalue(t, k, dim, keepdim)", "the k-th smallest, k from 1, and its place" },
    { "msort", msort, 0, "msort(t)", "sorted along dimension 0" },
    { "quantile", quantile, 0, "quantile(t, q, dim, keepdim or {dim, keepdim, interpolation = \"linear\"})",
      "the value that a share q of the elements is below" },
    { "count_nonzero", count_nonzero, 0, "count_nonzero(t, dim)", "how many elements are not 0" },
    { "nansum", nansum, 0, "nansum(t, dim, keepdim)", "the sum of what is a number" },
    { "nanmean", nansum, 1, "nanmean(t, dim, keepdim)", "the mean of what is a number" },
    { "aminmax", aminmax, 0, "aminmax(t, {dim, keepdim})", "two results: the smallest and the largest" },
    { "var_mean", var_mean, OP_var, "var_mean(t, dim, keepdim)", "two results: variance and mean" },
    { "std_mean", var_mean, OP_std, "std_mean(t, dim, keepdim)", "two results: standard deviation and mean" },
    { "cummax", cummax, 0, "cummax(t, dim)", "the largest so far along a dimension, and its place" },
    { "cummin", cummax, 1, "cummin(t, dim)", "the least so far along a dimension, and its place" },
    { "diff", diff, 0, "diff(t, n, dim)", "each element less the one before, n times" },
    { "cov", cov, 0, "cov(t, {correction = 1})", "covariances of the rows" },
    { "corrcoef", cov, 1, "corrcoef(t)", "correlations of the rows" },
    { "bincount", bincount, 0, "bincount(t, weights, minlength)", "how often each number from 0 on stands there" },
    { "histc", histc, 0, "histc(t, bins, min, max)", "how many elements fall into each of equal bins" },
    { "unique", unique, 0, "unique(t, {return_inverse, return_counts})",
      "the different elements, sorted; then where each came to, how often each" },
    { "unique_consecutive", unique, 1, "unique_consecutive(t, {return_inverse, return_counts})",
      "runs of equal elements taken as one" },
};
static const struct op_row functions[] = {
    { "bucketize", bucketize, 0, "rs.bucketize(values, boundaries, {right = false})",
      "how many boundaries are below each value" },
    { "searchsorted", bucketize, 1, "rs.searchsorted(boundaries, values, {right = false})",
      "where each value belongs in a sorted vector" },
    { "isin", isin, 0, "rs.isin(elements, test_elements)", "true for the elements that occur in the others" },
};

void
lua_open_statistics(lua_State *L)
{
    push_ringside(L);
    add_ops(L, rows, countof(rows));
    add_ops(L, functions, countof(functions));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, rows, countof(rows));
    lua_pop(L, 2);
}

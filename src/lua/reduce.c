/* Reductions as methods and functions of rs: t:sum(), t:sum(1, true), t:sum({0, 1}), t:sum{dim = 1, keepdim =
 * true}; what answers values and places answers two results: local values, indices = t:max(1). */
#include "lua/internal.h"
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "sched/task.h"

/* One dimension or a list of them at `at`. */
static void
check_dims(lua_State *L, int at, const struct tensor *tensor, struct fold_options *options)
{
    bool listed[TENSOR_DIMS] = { false };
    int  count = lua_isnil(L, at) ? 0 : lua_istable(L, at) ? (int)lua_rawlen(L, at) : 1;
    for (int i = 0; i < count; i++) {
        if (lua_istable(L, at))
            lua_rawgeti(L, at, i + 1);
        else
            lua_pushvalue(L, at);
        int dim = check_dim(L, -1, tensor->dims);
        if (listed[dim])
            raise_error(L, "RuntimeError", "dim %d appears multiple times in the list of dims", dim);
        listed[dim] = true;
        options->dim[options->dims++] = dim;
        lua_pop(L, 1);
    }
}

/* From argument 2 on: the dimensions, then keepdim (of var and std: unbiased, keepdim); or options at their end. */
static struct fold_options
check_fold(lua_State *L, const struct tensor *tensor, bool spread)
{
    struct fold_options options = { .correction = 1 };
    static const char   known[] = "dim keepdim unbiased correction dtype";
    lua_settop(L, 4);
    int table = lua_istable(L, 2) && lua_rawlen(L, 2) == 0 ? 2 : lua_istable(L, 3) ? 3 : lua_istable(L, 4) ? 4 : 0;
    int keep  = spread ? 4 : 3;
    if (spread && lua_isboolean(L, 2)) { /* t:var(false) */
        options.correction = lua_toboolean(L, 2);
        lua_pushnil(L);
        lua_replace(L, 2);
    }
    if (table != 0) {
        option_known(L, table, known);
        options.keepdim    = option_bool(L, table, "keepdim", false);
        options.correction = option_number(L, table, "correction", option_bool(L, table, "unbiased", true));
    }
    if (!lua_istable(L, keep))
        options.keepdim = options.keepdim || lua_toboolean(L, keep);
    if (spread && lua_isboolean(L, 3))
        options.correction = lua_toboolean(L, 3);
    if (table == 2)
        lua_getfield(L, 2, "dim");
    check_dims(L, table == 2 ? 5 : 2, tensor, &options);
    return options;
}

/* {dtype = "float64"} among the arguments: the elements become that first, and the result; DTYPE_COUNT: not given. */
static enum dtype
fold_dtype(lua_State *L)
{
    enum dtype dtype = DTYPE_COUNT;
    for (int i = 2; i <= lua_gettop(L) && i <= 4; i++)
        if (lua_istable(L, i) && lua_rawlen(L, i) == 0)
            dtype = option_dtype(L, i, dtype);
    return dtype;
}

static void
check_foldable(lua_State *L, enum op op, enum dtype dtype, enum dtype given)
{
    if (given != DTYPE_COUNT && op != OP_sum_dims && op != OP_mean_dims && op != OP_prod)
        raise_error(L, "TypeError", "only sum, mean and prod take a dtype");
    dtype = given != DTYPE_COUNT ? given : dtype;
    if (op == OP_mean_dims && !dtype_is_float(dtype))
        raise_error(L, "RuntimeError", "mean(): could not infer output dtype. Input dtype must be a floating point "
                                       "dtype. Got: %s", dtype_title(dtype));
    if ((op == OP_var || op == OP_std) && !dtype_is_float(dtype))
        raise_error(L, "RuntimeError", "std and var only support floating point dtypes. Got: %s", dtype_title(dtype));
    if ((op == OP_argmax || op == OP_argmin) && dtype == DTYPE_BOOL)
        raise_error(L, "RuntimeError", "\"%s_cpu\" not implemented for 'Bool'", op == OP_argmax ? "argmax" : "argmin");
}

/* Upvalue 1: the op over dimensions; sums and means of everything have ops of their own. */
static int
fold(lua_State *L)
{
    struct task        *me      = script_task(L);
    struct tensor      *tensor  = check_tensor(L, 1);
    enum op             op      = (enum op)lua_tointeger(L, lua_upvalueindex(1));
    enum dtype          given   = fold_dtype(L), dtype = given != DTYPE_COUNT ? given : tensor->dtype;
    struct fold_options options = check_fold(L, tensor, op == OP_var || op == OP_std);
    check_foldable(L, op, tensor->dtype, given);
    struct call call = call_open(L, me, CALL_PLAIN);
    if (dtype != tensor->dtype && (tensor = tensor_copy_to(me, tensor, tensor_device(tensor), dtype)) == NULL)
        return call_tensor(&call, NULL);
    struct tensor *result = options.dims > 0       ? tensor_fold(me, op, tensor, &options)
                            : op == OP_sum_dims    ? tensor_sum(me, tensor)
                            : op == OP_mean_dims   ? tensor_mean(me, tensor)
                                                   : tensor_fold(me, op, tensor, &options);
    if (given != DTYPE_COUNT && result != NULL && result->dtype != given)
        result = tensor_copy_to(me, result, tensor_device(result), given);
    return call_tensor(&call, result);
}

static int
any(lua_State *L)
{
    struct task        *me      = script_task(L);
    struct tensor      *tensor  = check_tensor(L, 1);
    struct fold_options options = check_fold(L, tensor, false);
    options.any      = true;
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_fold(me, OP_all, tensor, &options));
}

static int
two_results(struct call *call, struct tensor *values, struct tensor *places)
{
    call_end(call, values != NULL && places != NULL);
    push_tensor(call->L, values);
    push_tensor(call->L, places);
    return call_leave(call, 2);
}

/* t:max(), t:max(dim, keepdim): values and places, t:max(other): the larger of each two. */
static int
extreme(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *other = test_tensor(L, 2);
    bool           largest = lua_tointeger(L, lua_upvalueindex(1)) == OP_max;
    struct fold_options options = { .dims = 0 };
    if (other == NULL)
        options = check_fold(L, tensor, false);
    if (options.dims > 1)
        raise_error(L, "TypeError", "%s over several dimensions: use %s", largest ? "max" : "min",
                    largest ? "amax" : "amin");
    struct call call = call_open(L, me, CALL_PLAIN);
    if (other != NULL)
        return call_tensor(&call, op_on(me, largest ? OP_maximum : OP_minimum, tensor, other, 1));
    if (options.dims == 0)
        return call_tensor(&call, op_on(me, largest ? OP_max : OP_min, tensor, NULL, 1));
    struct tensor *places = tensor_fold(me, largest ? OP_argmax : OP_argmin, tensor, &options);
    struct tensor *values = tensor_index_select(me, largest ? OP_max_dim : OP_min_dim, tensor, options.dim[0], places);
    return two_results(&call, values, places);
}

/* ---- in order ---- */

/* Dimension and flags from argument `first` on: positional, or fields of a table. */
struct ordering { int dim; bool flag; };

static struct ordering
check_ordering(lua_State *L, int first, const struct tensor *tensor, const char *flag, bool otherwise)
{
    struct ordering ordering = { tensor->dims > 0 ? tensor->dims - 1 : 0, otherwise };
    lua_settop(L, first + 2);
    int table = lua_istable(L, first) ? first : lua_istable(L, first + 1) ? first + 1 : 0;
    if (table != 0) {
        option_known(L, table, strcmp(flag, "largest") == 0 ? "dim largest sorted" : "dim descending stable");
        ordering.flag = option_bool(L, table, flag, otherwise);
    } else if (!lua_isnil(L, first + 1)) {
        ordering.flag = lua_toboolean(L, first + 1);
    }
    if (table == first && option_push(L, table, "dim")) {
        ordering.dim = check_dim(L, -1, tensor->dims);
        lua_pop(L, 1);
    } else if (table != first && !lua_isnil(L, first)) {
        ordering.dim = check_dim(L, first, tensor->dims);
    }
    return ordering;
}

static struct tensor *
order_of(struct task *me, struct tensor *tensor, int dim, bool descending)
{
    struct op_args args = { .in = { tensor }, .dim = dim, .start = descending };
    return op_call(me, OP_argsort, &args);
}

static int
sort(lua_State *L)
{
    struct task    *me       = script_task(L);
    struct tensor  *tensor   = check_tensor(L, 1);
    struct ordering ordering = check_ordering(L, 2, tensor, "descending", false);
    script_reserve(L, me, 24 * (double)tensor_count(tensor));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *places = order_of(me, tensor, ordering.dim, ordering.flag);
    return two_results(&call, tensor_index_select(me, OP_sort, tensor, ordering.dim, places), places);
}

static int
argsort(lua_State *L)
{
    struct task    *me       = script_task(L);
    struct tensor  *tensor   = check_tensor(L, 1);
    struct ordering ordering = check_ordering(L, 2, tensor, "descending", false);
    script_reserve(L, me, 24 * (double)tensor_count(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, order_of(me, tensor, ordering.dim, ordering.flag));
}

static int
topk(lua_State *L)
{
    struct task    *me       = script_task(L);
    option_spread(L, 2, "k dim largest");
    struct tensor  *tensor   = check_tensor(L, 1);
    int64_t         count    = check_integer(L, 2);
    struct ordering ordering = check_ordering(L, 3, tensor, "largest", true);
    int64_t         size     = tensor->dims > 0 ? tensor_size(tensor, ordering.dim) : 1;
    if (tensor->dtype == DTYPE_BOOL)
        raise_error(L, "RuntimeError", "\"topk_cpu\" not implemented for 'Bool'");
    if (count < 0 || count > size)
        raise_error(L, "RuntimeError", "selected index k out of range: %lld of %lld", (long long)count,
                    (long long)size);
    script_reserve(L, me, 24 * (double)tensor_count(tensor));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *places = order_of(me, tensor, ordering.dim, ordering.flag);
    if (places != NULL && tensor->dims > 0)
        places = tensor_contiguous(me, tensor_narrow(me, places, ordering.dim, 0, count));
    return two_results(&call, tensor_index_select(me, OP_topk, tensor, ordering.dim, places), places);
}

static int
running(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) } };
    enum op        op   = (enum op)lua_tointeger(L, lua_upvalueindex(1));
    enum dtype     given = fold_dtype(L), dtype = given != DTYPE_COUNT ? given : args.in[0]->dtype;
    args.dim            = check_dim(L, 2, args.in[0]->dims);
    script_reserve(L, me, 8 * (double)tensor_count(args.in[0]));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (dtype != args.in[0]->dtype)
        args.in[0] = tensor_copy_to(me, args.in[0], tensor_device(args.in[0]), dtype);
    struct tensor *result = args.in[0] != NULL ? op_call(me, op, &args) : NULL;
    if (given != DTYPE_COUNT && result != NULL && result->dtype != given)
        result = tensor_copy_to(me, result, tensor_device(result), given);
    return call_tensor(&call, result);
}

/* ---- one node for several kernels ---- */

static struct tensor *
folded(struct task *me, enum op op, struct tensor *tensor, const struct fold_options *options, double alpha)
{
    struct op_args args = { .in = { tensor }, .alpha = alpha, .dims = options->dims, .keepdim = options->keepdim };
    memcpy(args.sizes, options->dim, sizeof args.sizes);
    return op_call(me, op, &args);
}

struct tensor *
tensor_norm(struct task *me, struct tensor *a, double p, const struct fold_options *options)
{
    return folded(me, OP_norm, a, options, p);
}

/* t:norm(), t:norm(p, dim, keepdim) */
static int
norm(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    double         p      = opt_number(L, 2, 2);
    if (lua_gettop(L) > 1)
        lua_remove(L, 2);
    struct fold_options options = check_fold(L, tensor, false);
    struct call         call    = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_norm(me, tensor, p, &options));
}

static int
logsumexp(lua_State *L)
{
    struct task        *me      = script_task(L);
    struct tensor      *tensor  = check_tensor(L, 1);
    struct fold_options options = check_fold(L, tensor, false);
    script_reserve(L, me, 2.0 * (double)tensor_bytes(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, folded(me, OP_logsumexp, tensor, &options, 0));
}

static int
trace(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) } };
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_call(me, OP_trace, &args));
}

static const struct op_row rows[] = {
    { "sum", fold, OP_sum_dims, "sum(t, {dim, keepdim = false})",
      "sum of all elements, or over one or several dimensions" },
    { "mean", fold, OP_mean_dims, "mean(t, {dim, keepdim = false})", "mean of all elements, or over dimensions" },
    { "prod", fold, OP_prod, "prod(t, {dim, keepdim = false})", "product of all elements, or over dimensions" },
    { "amax", fold, OP_amax, "amax(t, {dim, keepdim = false})",
      "largest over dimensions; equal ones share the gradient" },
    { "amin", fold, OP_amin, "amin(t, {dim, keepdim = false})",
      "smallest over dimensions; equal ones share the gradient" },
    { "argmax", fold, OP_argmax, "argmax(t, {dim, keepdim = false})", "place of the largest, the first of equal ones" },
    { "argmin", fold, OP_argmin, "argmin(t, {dim, keepdim = false})",
      "place of the smallest, the first of equal ones" },
    { "all", fold, OP_all, "all(t, {dim, keepdim = false})", "is no element 0?" },
    { "any", any, 0, "any(t, {dim, keepdim = false})", "is one element not 0?" },
    { "var", fold, OP_var, "var(t, {dim, unbiased = true, keepdim = false, correction = 1})", "variance" },
    { "std", fold, OP_std, "std(t, {dim, unbiased = true, keepdim = false, correction = 1})", "standard deviation" },
    { "max", extreme, OP_max, "max(t, {dim, keepdim = false})",
      "the largest element; over a dimension: values and places" },
    { "min", extreme, OP_min, "min(t, {dim, keepdim = false})",
      "the smallest element; over a dimension: values and places" },
    { "sort", sort, 0, "sort(t, {dim = -1, descending = false})", "sorted values and their places; stable" },
    { "argsort", argsort, 0, "argsort(t, {dim = -1, descending = false})", "places in sorted order; stable" },
    { "topk", topk, 0, "topk(t, k, {dim = -1, largest = true})", "the k largest and their places" },
    { "cumsum", running, OP_cumsum, "cumsum(t, dim)", "running sums" },
    { "cumprod", running, OP_cumprod, "cumprod(t, dim)", "running products" },
    { "norm", norm, 0, "norm(t, {p = 2, dim, keepdim = false})", "the p-norm, p = 2 unless given" },
    { "logsumexp", logsumexp, 0, "logsumexp(t, dim, {keepdim = false})", "log of the sum of exp, without overflow" },
};

/* rs.trace is the run's trace. */
static const struct op_row method_rows[] = {
    { "trace", trace, 0, "t:trace()", "the sum of a matrix' diagonal" },
};

void
lua_open_reduce(lua_State *L)
{
    push_ringside(L);
    add_ops(L, rows, countof(rows));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, rows, countof(rows));
    add_ops(L, method_rows, countof(method_rows));
    lua_pop(L, 2);
}

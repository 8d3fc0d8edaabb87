/* More tensors to begin with: rs.linspace, rs.logspace, index pairs of triangles, t:new_zeros and its like. create.c
 * has the common ones. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "device/storage.h"
#include "lua/internal.h"
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

/* rs.linspace(start, end, steps, options); upvalue 1: 1 logspace, whose options have base, too */
static int
linspace(lua_State *L)
{
    struct task *me  = script_task(L);
    bool         log = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    struct steps steps = { check_number(L, 1), check_number(L, 2), check_integer(L, 3), false };
    int          table = option_table(L, lua_istable(L, 4) ? 4 : 0);
    double       base  = option_number(L, log ? table : 0, "base", 10);
    if (log && table != 0) {
        option_own(L, table);
        lua_pushnil(L);
        lua_setfield(L, table, "base"); /* the others are check_making's */
    }
    struct making making = check_making(L, table, DTYPE_F32);
    if (steps.count < 0 || steps.count > (int64_t)1 << 40)
        raise_error(L, "RuntimeError", "number of steps must be non-negative, and not too large, got %lld",
                    (long long)steps.count);
    script_reserve(L, me, 16 * (double)steps.count);
    steps.single = making.dtype == DTYPE_F32;
    double *elements = lua_newuserdatauv(L, ((size_t)steps.count + 1) * sizeof *elements, 0);
    for (int64_t i = 0; i < steps.count; i++)
        elements[i] = log ? pow(base, step_at(&steps, i)) : step_at(&steps, i);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_from(me, DTYPE_F64, 1, &steps.count, elements);
    return call_made(&call, result != NULL ? tensor_to(me, result, making.device, making.dtype) : NULL, &making);
}

/* ---- pairs of indices ---- */

/* rs.tril_indices(rows, columns, offset, options): two rows, the places of the lower triangle. Upvalue 1: 1 triu */
static int
triangle_indices(lua_State *L)
{
    struct task  *me    = script_task(L);
    bool          upper = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    int64_t       rows = check_integer(L, 1), columns = check_integer(L, 2), count = 0, at = 0;
    bool          table = lua_istable(L, 3) || lua_istable(L, 4);
    int64_t       offset = lua_istable(L, 3) ? 0 : opt_integer(L, 3, 0);
    struct making making = check_making(L, option_table(L, table ? lua_gettop(L) : 0), DTYPE_I64);
    if (rows < 0 || columns < 0 || (double)rows * (double)columns > 1e9)
        raise_error(L, "RuntimeError", "expected sizes of 0 or more, and not too large ones");
    for (int64_t i = 0; i < rows * columns; i++)
        count += upper ? i % columns - i / columns >= offset : i % columns - i / columns <= offset;
    script_reserve(L, me, 32 * (double)count);
    int64_t *places = lua_newuserdatauv(L, (2 * (size_t)count + 1) * sizeof *places, 0);
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t row = i / columns, column = i % columns;
        if (upper ? column - row < offset : column - row > offset)
            continue;
        places[at]           = row;
        places[count + at++] = column;
    }
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_from(me, DTYPE_I64, 2, (const int64_t[]){ 2, count }, places);
    return call_made(&call, result != NULL ? tensor_to(me, result, making.device, making.dtype) : NULL, &making);
}

/* ---- like another ---- */

/* t:new_zeros{sizes}: of t's dtype and device unless the options say otherwise. Upvalue 1: the value (2: new_full's) */
static int
new_filled(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct tensor *like  = check_tensor(L, 1);
    int            which = (int)lua_tointeger(L, lua_upvalueindex(1)), last = lua_gettop(L);
    double         value = which;
    if (which == 2) { /* t:new_full({sizes}, value, options) */
        value = check_number(L, 3);
        lua_remove(L, 3);
        last--;
    }
    int table = last > 2 && lua_istable(L, last) ? last : 0;
    lua_settop(L, last);
    if (table == 0)
        lua_createtable(L, 0, 2);
    else
        option_own(L, table);
    if (!option_push(L, lua_gettop(L), "device")) {
        push_device(L, tensor_device(like));
        lua_setfield(L, -2, "device");
    } else {
        lua_pop(L, 1);
    }
    struct making making = check_sized(L, 2, like->dtype);
    struct call   call   = call_open(L, me, CALL_PLAIN);
    struct tensor *made = tensor_empty(me, making.dtype, making.device, making.dims, making.sizes);
    return call_made(&call, tensor_filled(me, made, value), &making);
}

/* functional.one_hot(indices, num_classes): a 1 in the place that each index names */
static int
one_hot(lua_State *L)
{
    struct task   *me      = script_task(L);
    struct tensor *indices = check_tensor(L, 1);
    int            table   = option_table(L, lua_istable(L, 2) ? 2 : 0);
    option_known(L, table, "num_classes");
    int64_t classes = option_integer(L, table, "num_classes", table == 0 ? opt_integer(L, 2, -1) : -1);
    int64_t least = 0, largest = -1, sizes[TENSOR_DIMS];
    if (indices->dtype != DTYPE_I64 || indices->dims == TENSOR_DIMS)
        raise_error(L, "RuntimeError", "one_hot is only applicable to index tensors: int64, got %s",
                    dtype_name(indices->dtype));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (tensor_count(indices) > 0) {
        struct fold_options all = { .dims = 0 };
        struct tensor *low = tensor_fold(me, OP_amin, indices, &all), *high = tensor_fold(me, OP_amax, indices, &all);
        if (low != NULL && high != NULL && tensor_read(me, low, &least))
            (void)!tensor_read(me, high, &largest);
    }
    call_end(&call, !task_failed(me));
    call_leave(&call, 0);
    if (least < 0 || (classes >= 0 && largest >= classes))
        raise_error(L, "RuntimeError", "one_hot: class values must be from 0 to num_classes - 1, found %lld",
                    (long long)(least < 0 ? least : largest));
    memcpy(sizes, indices->size, sizeof sizes);
    sizes[indices->dims] = classes >= 0 ? classes : largest + 1;
    if (sizes[indices->dims] <= 0)
        raise_error(L, "RuntimeError", "one_hot: %lld classes are not possible for %lld indices",
                    (long long)sizes[indices->dims], (long long)tensor_count(indices));
    script_reserve(L, me, 16 * (double)tensor_count(indices) * (double)sizes[indices->dims]);
    call = call_open(L, me, CALL_PLAIN);
    struct op_args args = { .in = { tensor_zeros(me, DTYPE_I64, tensor_device(indices), indices->dims + 1, sizes) },
                            .dim = indices->dims };
    args.in[1] = tensor_unsqueeze(me, indices, indices->dims);
    struct tensor *one = tensor_number(me, DTYPE_I64, tensor_device(indices), 1);
    if (args.in[1] != NULL && one != NULL)
        args.in[2] = tensor_expand(me, one, args.in[1]->dims, args.in[1]->size);
    return call_tensor(&call, args.in[0] != NULL && args.in[2] != NULL ? op_call(me, OP_scatter, &args) : NULL);
}

/* A stand-in for an address that repeats from run to run: the storage's number and the place in it, in bytes. */
static int
data_ptr(lua_State *L)
{
    const struct tensor *tensor = check_tensor(L, 1);
    if (tensor_is_sparse(tensor))
        raise_error(L, "RuntimeError", "data_ptr: a sparse tensor has no elements of its own: use t:to_dense()");
    lua_pushinteger(L, ((lua_Integer)tensor->storage->number << 32) +
                       tensor->offset * (lua_Integer)dtype_size(tensor->dtype));
    return 1;
}

static const struct op_row functions[] = {
    { "linspace", linspace, 0, "rs.linspace(start, end, steps, options)",
      "even steps from start to end, both included" },
    { "logspace", linspace, 1, "rs.logspace(start, end, steps, {base = 10, ...})", "base to the power of even steps" },
    { "tril_indices", triangle_indices, 0, "rs.tril_indices(rows, columns, offset, options)",
      "two rows: where the lower triangle's elements are" },
    { "triu_indices", triangle_indices, 1, "rs.triu_indices(rows, columns, offset, options)",
      "two rows: where the upper triangle's elements are" },
};
static const struct op_row methods[] = {
    { "new_zeros", new_filled, 0, "t:new_zeros({sizes}, options)", "zeros of t's dtype and device" },
    { "new_ones", new_filled, 1, "t:new_ones({sizes}, options)", "ones of t's dtype and device" },
    { "new_empty", new_filled, 0, "t:new_empty({sizes}, options)",
      "of t's dtype and device; zeros, so that runs repeat" },
    { "new_full", new_filled, 2, "t:new_full({sizes}, value, options)", "the value, in t's dtype and on its device" },
    { "data_ptr", data_ptr, 0, "t:data_ptr()",
      "a number for its first element: equal ones are one place (no address, so that runs repeat)" },
};
static const struct op_row functional[] = {
    { "one_hot", one_hot, 0, "one_hot(indices, num_classes)", "a 1 in the place that each index names" },
};

void
lua_open_series(lua_State *L)
{
    push_ringside(L);
    add_ops(L, functions, countof(functions));
    lua_getfield(L, -1, "nn");
    lua_getfield(L, -1, "functional");
    add_ops(L, functional, countof(functional));
    lua_pop(L, 3);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, methods, countof(methods));
    lua_pop(L, 2);
}

/* Making tensors: rs.tensor from nested tables, rs.zeros and its like. As in PyTorch new tensors are on the CPU
 * unless the
 * options say otherwise: {dtype = "float64", device = "device:1", requires_grad = true}. Random ones are in
 * random.c. */
#include "lua/internal.h"
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

static const char MAKE_OPTIONS[] = "dtype device requires_grad generator";

struct making
check_making(lua_State *L, int table, enum dtype dtype)
{
    struct making making = { .dtype = dtype, .device = DEVICE_CPU };
    option_known(L, table, MAKE_OPTIONS);
    making.typed         = option_text(L, table, "dtype", NULL) != NULL;
    making.dtype         = option_dtype(L, table, dtype);
    making.device        = option_device(L, table, DEVICE_CPU);
    making.requires_grad = option_bool(L, table, "requires_grad", false);
    if (option_push(L, table, "generator")) {
        making.generator = box_check(L, -1, BOX_GENERATOR);
        lua_pop(L, 1);
    }
    return making;
}

/* Sizes and options of zeros{2, 3}, zeros(2, 3), zeros({2, 3}, {dtype = ...}), zeros(2, 3, {...}); from `first` on. */
struct making
check_sized(lua_State *L, int first, enum dtype dtype)
{
    int           last   = lua_gettop(L);
    int           table  = last > first && lua_istable(L, last) ? last : 0;
    int64_t       sizes[TENSOR_DIMS];
    int           dims   = check_shape(L, first, sizes);
    arg_most(L, (lua_istable(L, first) ? first : first + dims - 1) + (table != 0 || lua_isnil(L, last)));
    struct making making = check_making(L, option_table(L, table), dtype);
    double        bytes  = (double)dtype_size(making.dtype);
    making.dims          = dims;
    for (int i = 0; i < dims; i++) {
        if (sizes[i] < 0)
            raise_error(L, "RuntimeError", "size %d of the shape is negative: %lld", i, (long long)sizes[i]);
        making.sizes[i] = sizes[i];
        bytes *= (double)sizes[i];
    }
    if (bytes > 1e15)
        raise_error(L, "RuntimeError", "a tensor of %.3g bytes is too large", bytes);
    script_reserve(L, script_of(L)->holder, bytes);
    return making;
}

int
call_made(struct call *call, struct tensor *tensor, const struct making *making)
{
    if (tensor != NULL && making->requires_grad && !dtype_is_float(tensor->dtype)) {
        failed(call->me, E_RUNTIME, "only Tensors of floating point dtype can require gradients, this one is %s",
               dtype_name(tensor->dtype));
        tensor = NULL;
    }
    if (tensor != NULL)
        tensor->requires_grad = making->requires_grad;
    return call_tensor(call, tensor);
}

/* ---- nested tables ---- */

struct nested { int dims; int64_t sizes[TENSOR_DIMS]; bool fraction, integer, truth; };

static void
note_element(lua_State *L, struct nested *nested)
{
    switch (lua_type(L, -1)) {
    case LUA_TBOOLEAN: nested->truth = true; return;
    case LUA_TNUMBER:
        if (lua_isinteger(L, -1))
            nested->integer = true;
        else
            nested->fraction = true;
        return;
    }
    raise_error(L, "TypeError", "a tensor is made of numbers or booleans, not of %s", luaL_typename(L, -1));
}

/* The value at the top: its sizes from `level` on must be those seen first. */
static void
measure(lua_State *L, struct nested *nested, int level, bool first)
{
    if (!lua_istable(L, -1)) {
        if (first)
            nested->dims = level;
        else if (level != nested->dims)
            raise_error(L, "ValueError", "the nested tables are not all of one depth");
        note_element(L, nested);
        return;
    }
    if (level == TENSOR_DIMS || (!first && level >= nested->dims))
        raise_error(L, "ValueError", "the nested tables are not all of one depth, or deeper than %d", TENSOR_DIMS);
    luaL_checkstack(L, 4, "tables nested too deep");
    int64_t count = (int64_t)lua_rawlen(L, -1);
    lua_pushnil(L);
    if (count == 0 && lua_next(L, -2) != 0) {
        push_text(L, -2);
        raise_error(L, "TypeError", "a tensor is made of lists, but this table has the key '%.60s'",
                    lua_tostring(L, -1));
    } else if (count > 0) {
        lua_pop(L, 1);
    }
    if (first)
        nested->sizes[level] = count;
    if (nested->sizes[level] != count)
        raise_error(L, "ValueError", "expected a table of length %lld at depth %d, got %lld",
                    (long long)nested->sizes[level], level, (long long)count);
    if (first && count == 0)
        nested->dims = level + 1;
    for (int64_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, i + 1);
        measure(L, nested, level + 1, first && i == 0);
        lua_pop(L, 1);
    }
}

static char *
store_element(lua_State *L, enum dtype dtype, char *at)
{
    double number = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
    if (!dtype_is_float(dtype) && !dtype_holds(dtype, number, lua_isinteger(L, -1)))
        raise_error(L, "RuntimeError", "value cannot be converted to type %s without overflow: %.17g",
                    dtype_name(dtype), number);
    if (lua_isinteger(L, -1))
        dtype_put_whole(dtype, at, lua_tointeger(L, -1));
    else
        dtype_put_fraction(dtype, at, number);
    return at + dtype_size(dtype);
}

static char *
store_nested(lua_State *L, const struct nested *nested, int level, enum dtype dtype, char *at)
{
    if (level == nested->dims)
        return store_element(L, dtype, at);
    for (int64_t i = 0; i < nested->sizes[level]; i++) {
        lua_rawgeti(L, -1, i + 1);
        at = store_nested(L, nested, level + 1, dtype, at);
        lua_pop(L, 1);
    }
    return at;
}

static int
copy_of_tensor(lua_State *L, struct tensor *from)
{
    struct task  *me     = script_task(L);
    struct making making = check_making(L, option_table(L, 2), from->dtype);
    lua_settop(L, 2);
    script_reserve(L, me, (double)tensor_bytes(from));
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *copy = tensor_clone(me, tensor_detach(me, from));
    if (copy != NULL)
        copy = tensor_to(me, copy, making.device, making.dtype);
    return call_made(&call, copy, &making);
}

static int
tensor(lua_State *L)
{
    struct nested nested = { .dims = 0 };
    lua_settop(L, 2);
    int table = option_table(L, 2);
    if (test_tensor(L, 1) != NULL)
        return copy_of_tensor(L, test_tensor(L, 1));
    struct task *me = script_task(L);
    lua_pushvalue(L, 1);
    measure(L, &nested, 0, true);
    bool          whole  = nested.integer || nested.truth;
    enum dtype    dtype  = nested.fraction || !whole ? default_dtype(me) : nested.integer ? DTYPE_I64 : DTYPE_BOOL;
    struct making making = check_making(L, table, dtype);
    double        bytes  = (double)dtype_size(making.dtype);
    for (int i = 0; i < nested.dims; i++)
        bytes *= (double)nested.sizes[i];
    script_reserve(L, me, 2 * bytes);
    void *elements = lua_newuserdatauv(L, (size_t)bytes + 8, 0);
    lua_insert(L, -2);
    store_nested(L, &nested, 0, making.dtype, elements);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_from(me, making.dtype, nested.dims, nested.sizes, elements);
    if (result != NULL)
        result = tensor_to(me, result, making.device, making.dtype);
    return call_made(&call, result, &making);
}

/* ---- filled ---- */

static int
filled(lua_State *L, double value)
{
    struct task  *me     = script_task(L);
    struct making making = check_sized(L, 1, default_dtype(script_task(L)));
    struct call   call   = call_open(L, me, CALL_PLAIN);
    struct tensor *made = tensor_empty(me, making.dtype, making.device, making.dims, making.sizes);
    return call_made(&call, tensor_filled(me, made, value), &making);
}

static int
zeros(lua_State *L)
{
    return filled(L, 0);
}

static int
ones(lua_State *L)
{
    return filled(L, 1);
}

/* Zeros too: what memory happens to hold would differ from run to run. */
static int
empty(lua_State *L)
{
    return filled(L, 0);
}

static int
full(lua_State *L)
{
    struct task *me     = script_task(L);
    bool         truth  = lua_isboolean(L, 2);
    double       value  = truth ? lua_toboolean(L, 2) : check_number(L, 2);
    enum dtype   dtype  = truth ? DTYPE_BOOL : lua_isinteger(L, 2) ? DTYPE_I64 : default_dtype(me);
    if (!lua_istable(L, 1))
        arg_error(L, 1, "a shape such as {2, 3}");
    lua_remove(L, 2);
    struct making making = check_sized(L, 1, dtype);
    struct call   call   = call_open(L, me, CALL_PLAIN);
    struct tensor *made = tensor_empty(me, making.dtype, making.device, making.dims, making.sizes);
    return call_made(&call, tensor_filled(me, made, value), &making);
}

static int
filled_like(lua_State *L, double value, int options)
{
    struct task   *me     = script_task(L);
    struct tensor *like   = check_tensor(L, 1);
    int            table  = option_table(L, options);
    struct making  making = check_making(L, table, like->dtype);
    lua_getfield(L, 1, "device");
    int device = option_device(L, table, check_device(L, -1));
    lua_pop(L, 1);
    script_reserve(L, me, (double)tensor_count(like) * 8);
    struct call call = call_open(L, me, CALL_PLAIN);
    struct tensor *made = tensor_empty(me, making.dtype, device, like->dims, like->size);
    return call_made(&call, tensor_filled(me, made, value), &making);
}

static int
zeros_like(lua_State *L)
{
    return filled_like(L, 0, 2);
}

static int
ones_like(lua_State *L)
{
    return filled_like(L, 1, 2);
}

static int
full_like(lua_State *L)
{
    return filled_like(L, check_number(L, 2), 3);
}

/* rs.arange(stop), rs.arange(start, stop), rs.arange(start, stop, step) */
static int
arange(lua_State *L)
{
    struct task *me    = script_task(L);
    int          last  = lua_gettop(L), table = lua_istable(L, last) ? last : 0;
    int          count = table != 0 ? last - 1 : last;
    double       start = count >= 2 ? check_number(L, 1) : 0, stop = check_number(L, count >= 2 ? 2 : 1);
    double       step  = count >= 3 ? check_number(L, 3) : 1;
    bool         whole = true;
    for (int i = 1; i <= count; i++)
        whole = whole && lua_isinteger(L, i);
    if (step == 0 || (stop - start) / step < 0 || !isfinite((stop - start) / step))
        raise_error(L, "RuntimeError", "arange cannot go from %g to %g in steps of %g", start, stop, step);
    struct making making = check_making(L, option_table(L, table), whole ? DTYPE_I64 : default_dtype(me));
    if ((stop - start) / step > 1e13)
        raise_error(L, "RuntimeError", "a tensor of %.3g elements is too large", (stop - start) / step);
    script_reserve(L, me, 8 * (stop - start) / step);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_arange(me, making.dtype, start, stop, step);
    if (result != NULL)
        result = tensor_to(me, result, making.device, making.dtype);
    return call_made(&call, result, &making);
}

static int
eye(lua_State *L)
{
    struct task *me    = script_task(L);
    int          last  = lua_gettop(L), table = lua_istable(L, last) ? last : 0;
    int64_t      rows  = check_integer(L, 1);
    int64_t      columns = last > 1 && last - (table != 0) >= 2 ? check_integer(L, 2) : rows;
    if (rows < 0 || columns < 0 || (double)rows * (double)columns > 1e9)
        raise_error(L, "RuntimeError", "eye expects sizes of 0 or more, and not too large ones");
    struct making making   = check_making(L, option_table(L, table), default_dtype(me));
    size_t        count    = (size_t)(rows * columns);
    script_reserve(L, me, (double)count * 12);
    float *elements = lua_newuserdatauv(L, (count + 1) * sizeof *elements, 0);
    memset(elements, 0, (count + 1) * sizeof *elements);
    for (int64_t i = 0; i < rows && i < columns; i++)
        elements[i * columns + i] = 1;
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_from(me, DTYPE_F32, 2, (int64_t[]){ rows, columns }, elements);
    if (result != NULL)
        result = tensor_to(me, result, making.device, making.dtype);
    return call_made(&call, result, &making);
}

static int
is_tensor(lua_State *L)
{
    lua_pushboolean(L, test_tensor(L, 1) != NULL);
    return 1;
}

/* rs.equal(a, b): same shape and elements, as numbers of the type that both make. */
static int
equal(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    enum dtype     common = dtype_promote(a->dtype, b->dtype);
    size_t         element = dtype_size(common), bytes = (size_t)tensor_count(a) * element;
    bool           same = tensor_same_shape(a, b), fractions = dtype_is_float(common);
    char *left = lua_newuserdatauv(L, bytes + 1, 0), *right = lua_newuserdatauv(L, bytes + 1, 0);
    struct call call = call_open(L, me, CALL_PLAIN);
    call_end(&call, !same || (tensor_read(me, tensor_to(me, tensor_detach(me, a), tensor_device(a), common), left) &&
                              tensor_read(me, tensor_to(me, tensor_detach(me, b), tensor_device(b), common), right)));
    for (size_t i = 0; i < bytes && same; i += element)
        same = fractions ? dtype_fraction(common, left + i) == dtype_fraction(common, right + i)
                         : dtype_whole(common, left + i) == dtype_whole(common, right + i);
    lua_pushboolean(L, same);
    return call_leave(&call, 1);
}

static const struct lua_entry entries[] = {
    { "tensor", tensor, "rs.tensor(nested_table, options)", "integers make int64, fractions float32, booleans bool" },
    { "zeros", zeros, "rs.zeros({sizes}, options)", "every element 0" },
    { "ones", ones, "rs.ones({sizes}, options)", "every element 1" },
    { "empty", empty, "rs.empty({sizes}, options)", "elements that mean nothing yet (zeros, so that runs repeat)" },
    { "full", full, "rs.full({sizes}, value, options)", "every element the value" },
    { "zeros_like", zeros_like, "rs.zeros_like(t, options)", "shape, dtype and device of t" },
    { "ones_like", ones_like, "rs.ones_like(t, options)", "shape, dtype and device of t" },
    { "empty_like", zeros_like, "rs.empty_like(t, options)", "shape, dtype and device of t" },
    { "full_like", full_like, "rs.full_like(t, value, options)", "shape, dtype and device of t" },
    { "arange", arange, "rs.arange(start, stop, step, options)", "start, start + step ..., stop excluded" },
    { "eye", eye, "rs.eye(rows, columns, options)", "ones on the diagonal" },
    { "is_tensor", is_tensor, "rs.is_tensor(x)", "is it a tensor?" },
    { "equal", equal, "rs.equal(a, b)", "same shape and elements?" },
};

void
lua_open_create(lua_State *L)
{
    open_namespace(L, "", entries, countof(entries));
    lua_pop(L, 1);
}

/* rs.tensor: from nested tables. As in PyTorch new tensors are on the CPU unless the options say otherwise:
 * {dtype = "float64", device = "device:1", requires_grad = true}. The other functions that make tensors are in the
 * catalogue. */
#include "lua/internal.h"
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "functional/create.h"
#include "lua/dispatch.h"
#include "sched/task.h"

static const char MAKE_OPTIONS[] = "dtype device requires_grad generator";

static struct making
check_making(lua_State *L, int table, enum dtype dtype)
{
    struct making making = { .dtype = dtype, .device = DEVICE_CPU };
    option_known(L, table, MAKE_OPTIONS);
    making.dtype         = option_dtype(L, table, dtype);
    making.device        = option_device(L, table, DEVICE_CPU);
    making.requires_grad = option_bool(L, table, "requires_grad", false);
    if (option_push(L, table, "generator")) {
        making.generator = box_check(L, -1, BOX_GENERATOR);
        lua_pop(L, 1);
    }
    return making;
}

static int
call_made(struct call *call, struct tensor *tensor, const struct making *making)
{
    return call_tensor(call, making_done(call->me, tensor, making));
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
    const char *hint = lua_type(L, -1) == LUA_TSTRING ? "; instead of [[1, 2], [3, 4]], which is a text, write "
                                                        "{ { 1, 2 }, { 3, 4 } }"
                       : test_tensor(L, -1) != NULL ? "; instead of tensor([a, b]) write rs.stack { a, b }" : "";
    raise_error(L, "TypeError", "a tensor is made of numbers or booleans, not of %s%s", luaL_typename(L, -1), hint);
}

/* The value at the top: its sizes from `level` on must be those seen first. */
static void
measure_nested(lua_State *L, struct nested *nested, int level, bool first)
{
    if (!lua_istable(L, -1)) {
        if (first)
            nested->dims = level;
        else if (level != nested->dims)
            raise_error(L, "TypeError", "the nested tables are not all of one depth");
        note_element(L, nested);
        return;
    }
    if (!first && level >= nested->dims)
        raise_error(L, "TypeError", "the nested tables are not all of one depth");
    if (level == TENSOR_DIMS)
        raise_error(L, "ValueError", "the nested tables are deeper than %d", TENSOR_DIMS);
    luaL_checkstack(L, 4, "tables nested too deep");
    int64_t count = (int64_t)lua_rawlen(L, -1);
    if (count == 0 && push_sorted_keys(L, -1) > 0) {
        lua_rawgeti(L, -1, 1);
        push_text(L, -1);
        raise_error(L, "TypeError", "a tensor is made of lists, but this table has the key '%.60s'",
                    lua_tostring(L, -1));
    } else if (count == 0) {
        lua_pop(L, 1);
    }
    list_only(L, -1);
    if (first)
        nested->sizes[level] = count;
    if (nested->sizes[level] != count)
        raise_error(L, "ValueError", "expected a table of length %lld at depth %d, got %lld",
                    (long long)nested->sizes[level], level, (long long)count);
    if (first && count == 0)
        nested->dims = level + 1;
    script_charge(L, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, i + 1);
        measure_nested(L, nested, level + 1, first && i == 0);
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
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *copy = tensor_clone(me, tensor_detach(me, from));
    if (copy != NULL)
        copy = tensor_to(me, copy, making.device, making.dtype);
    return call_made(&call, copy, &making);
}

/* What the nested table at `index` makes of itself. */
static enum dtype
measure_table(lua_State *L, int index, struct nested *nested)
{
    lua_pushvalue(L, index);
    measure_nested(L, nested, 0, true);
    lua_pop(L, 1);
    bool whole = nested->integer || nested->truth;
    if (nested->fraction || !whole)
        return default_dtype(script_task(L));
    return nested->integer ? DTYPE_I64 : DTYPE_BOOL;
}

/* Its elements, in a userdata on top of the stack. */
static void *
push_elements(lua_State *L, int index, const struct nested *nested, enum dtype dtype)
{
    double bytes = (double)dtype_size(dtype);
    for (int i = 0; i < nested->dims; i++)
        bytes *= (double)nested->sizes[i];
    void *elements = lua_newuserdatauv(L, (size_t)bytes + 8, 0);
    lua_pushvalue(L, index);
    store_nested(L, nested, 0, dtype, elements);
    lua_pop(L, 1);
    return elements;
}

static int
tensor(lua_State *L)
{
    struct nested nested = { .dims = 0 };
    lua_settop(L, 2);
    if (lua_type(L, 2) == LUA_TNUMBER)
        raise_error(L, "TypeError", "tensor takes one table; instead of tensor(1, 2, 3) write rs.tensor { 1, 2, 3 }");
    int table = option_table(L, 2);
    if (test_tensor(L, 1) != NULL)
        return copy_of_tensor(L, test_tensor(L, 1));
    struct task   *me       = script_task(L);
    struct making  making   = check_making(L, table, measure_table(L, 1, &nested));
    void          *elements = push_elements(L, 1, &nested, making.dtype);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_from(me, making.dtype, nested.dims, nested.sizes, elements);
    if (result != NULL)
        result = tensor_to(me, result, making.device, making.dtype);
    return call_made(&call, result, &making);
}

/* ---- sparse ---- */

/* A tensor as it is; of a nested table its sizes, type and elements, which stay on the stack. */
struct part { struct tensor *tensor; struct nested nested; enum dtype dtype; void *elements; };

static struct part
check_part(lua_State *L, int index)
{
    struct part part = { .tensor = test_tensor(L, index) };
    if (part.tensor != NULL) {
        part.dtype = part.tensor->dtype;
        return part;
    }
    check_table(L, index);
    part.dtype    = measure_table(L, index, &part.nested);
    part.elements = push_elements(L, index, &part.nested, part.dtype);
    return part;
}

static struct tensor *
part_tensor(struct task *me, const struct part *part)
{
    return part->tensor != NULL ? part->tensor
         : tensor_from(me, part->dtype, part->nested.dims, part->nested.sizes, part->elements);
}

static int
sparse_coo(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct part indices = check_part(L, (int)a.at[0].integer[0]), values = check_part(L, (int)a.at[1].integer[0]);
    struct sparse_parts parts = {
        .size = a.at[2].none ? NULL : a.at[2].integer, .dims = a.at[2].count,
        .dtype = a.at[3].none ? values.dtype : a.at[3].dtype,
        .device = !a.at[4].none ? (int)a.at[4].integer[0] : tensor_device(values.tensor),
        .coalesced = a.at[6].none ? -1 : a.at[6].integer[0] != 0,
    };
    if (values.tensor == NULL && a.at[4].none)
        parts.device = DEVICE_CPU;
    if (a.at[5].integer[0] != 0)
        raise_error(L, "NotImplementedError", "a sparse tensor is no leaf here: let its values require gradients");
    struct call call = call_open(L, me, CALL_PLAIN);
    parts.indices = part_tensor(me, &indices);
    parts.values  = part_tensor(me, &values);
    return call_tensor(&call, sparse_coo_tensor(me, &parts));
}

static int
is_tensor(lua_State *L)
{
    lua_pushboolean(L, test_tensor(L, 1) != NULL);
    return 1;
}

static const struct lua_entry entries[] = {
    { "tensor", tensor, "rs.tensor(nested_table, options)", "integers make int64, fractions float32, booleans bool" },
    { "sparse_coo_tensor", sparse_coo,
      "rs.sparse_coo_tensor(any indices, any values, int[]? size=None, *, dtype? dtype=None, device? device=None, "
      "bool requires_grad=False, bool? is_coalesced=None) -> Tensor",
      "rows of a table by number, as gradients of embeddings with sparse = true are" },
    { "is_tensor", is_tensor, "rs.is_tensor(x)", "is it a tensor?" },
};

void
lua_open_create(lua_State *L)
{
    fill_namespace(L, "", entries, countof(entries));
}

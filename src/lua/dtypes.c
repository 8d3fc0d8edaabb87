/* Element types: rs.float32 and its like, casts as methods (t:half(), t:type("int32")), what types make together, and
 * their limits. PyTorch: torch.finfo, torch.result_type, torch.set_default_dtype. */
#include "lua/internal.h"
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "sched/task.h"

/* Upvalue 1: the dtype. */
static int
cast(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    return copied_to(L, tensor, tensor_device(tensor), (enum dtype)lua_tointeger(L, lua_upvalueindex(1)));
}

/* PyTorch's names of tensor types, "torch.cuda.HalfTensor", as dtypes; false: it is none. */
static bool
type_parse(const char *name, enum dtype *dtype)
{
    if (strncmp(name, "torch.", 6) == 0)
        name += strncmp(name, "torch.cuda.", 11) == 0 ? 11 : 6;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        size_t length = strlen(dtype_title((enum dtype)i));
        if (strncmp(name, dtype_title((enum dtype)i), length) == 0 && strcmp(name + length, "Tensor") == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return dtype_parse(name, dtype);
}

/* t:type(): "torch.FloatTensor"; t:type("int32") is t:to("int32"). */
static int
type(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    enum dtype     dtype  = tensor->dtype;
    if (lua_isnoneornil(L, 2)) {
        lua_pushfstring(L, "torch.%s%sTensor", tensor_device(tensor) == DEVICE_CPU ? "" : "cuda.", dtype_title(dtype));
        return 1;
    }
    if (!type_parse(check_text(L, 2), &dtype))
        raise_error(L, "ValueError", "invalid type: '%.60s'", check_text(L, 2));
    return copied_to(L, tensor, tensor_device(tensor), dtype);
}

static int
type_as(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1), *other = check_tensor(L, 2);
    return copied_to(L, tensor, tensor_device(other), other->dtype);
}

static int
is_floating_point(lua_State *L)
{
    struct tensor *tensor = test_tensor(L, 1);
    lua_pushboolean(L, dtype_is_float(tensor != NULL ? tensor->dtype : check_dtype(L, 1)));
    return 1;
}

/* ---- what types make together ---- */

/* What has dimensions decides before what has none, that before numbers. */
struct ranks { enum dtype full, zero, number; };

static void
note_operand(lua_State *L, int index, struct ranks *ranks)
{
    const struct tensor *tensor = test_tensor(L, index);
    enum dtype *into = tensor == NULL ? &ranks->number : tensor->dims > 0 ? &ranks->full : &ranks->zero, dtype;
    if (tensor != NULL)
        dtype = tensor->dtype;
    else if (lua_isboolean(L, index))
        dtype = DTYPE_BOOL;
    else if (lua_type(L, index) == LUA_TNUMBER)
        dtype = lua_isinteger(L, index) ? DTYPE_I64 : default_dtype(script_task(L));
    else {
        arg_error(L, index, "Tensor or a number");
        return;
    }
    *into = *into == DTYPE_COUNT ? dtype : dtype_promote(*into, dtype);
}

static int
result_type(lua_State *L)
{
    struct ranks ranks = { DTYPE_COUNT, DTYPE_COUNT, DTYPE_COUNT };
    note_operand(L, 1, &ranks);
    note_operand(L, 2, &ranks);
    lua_pushstring(L, dtype_name(dtype_over(ranks.full, dtype_over(ranks.zero, ranks.number))));
    return 1;
}

static int
promote_types(lua_State *L)
{
    lua_pushstring(L, dtype_name(dtype_promote(check_dtype(L, 1), check_dtype(L, 2))));
    return 1;
}

static int
can_cast(lua_State *L)
{
    lua_pushboolean(L, dtype_can_cast(check_dtype(L, 1), check_dtype(L, 2)));
    return 1;
}

static int
set_default_dtype(lua_State *L)
{
    struct task *me    = script_task(L);
    enum dtype   dtype = check_dtype(L, 1);
    struct call  call  = call_open(L, me, CALL_PLAIN);
    return call_done(&call, default_dtype_set(me, dtype));
}

static int
get_default_dtype(lua_State *L)
{
    lua_pushstring(L, dtype_name(default_dtype(script_task(L))));
    return 1;
}

/* ---- limits ---- */

static void
set_number(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static void
set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* `digits` after the point of a number of [1, 2); `least` exponent of a normal one, the largest is 1 - least. */
static int
finfo(lua_State *L)
{
    enum dtype dtype = lua_isnoneornil(L, 1) ? default_dtype(script_task(L)) : check_dtype(L, 1);
    if (!dtype_is_float(dtype))
        raise_error(L, "TypeError", "finfo takes a dtype of fractions, not %s: use iinfo", dtype_name(dtype));
    int    digits = dtype == DTYPE_F64 ? 52 : dtype == DTYPE_F32 ? 23 : dtype == DTYPE_F16 ? 10 : 7;
    int    least = dtype == DTYPE_F64 ? -1022 : dtype == DTYPE_F16 ? -14 : -126;
    double most = ldexp(2 - ldexp(1, -digits), 1 - least);
    lua_newtable(L);
    set_integer(L, "bits", (int64_t)dtype_size(dtype) * 8);
    set_number(L, "eps", ldexp(1, -digits));
    set_number(L, "max", most);
    set_number(L, "min", -most);
    set_number(L, "tiny", ldexp(1, least));
    set_number(L, "smallest_normal", ldexp(1, least));
    set_number(L, "resolution", digits == 52 ? 1e-15 : digits == 23 ? 1e-6 : digits == 10 ? 1e-3 : 1e-2);
    lua_pushstring(L, dtype_name(dtype));
    lua_setfield(L, -2, "dtype");
    return 1;
}

static int
iinfo(lua_State *L)
{
    enum dtype dtype = check_dtype(L, 1);
    if (dtype_is_float(dtype) || dtype == DTYPE_BOOL)
        raise_error(L, "TypeError", "iinfo takes a dtype of integers, not %s: use finfo", dtype_name(dtype));
    lua_newtable(L);
    set_integer(L, "bits", (int64_t)dtype_size(dtype) * 8);
    set_integer(L, "max", dtype == DTYPE_U8 ? 255 : dtype == DTYPE_I32 ? INT32_MAX : INT64_MAX);
    set_integer(L, "min", dtype == DTYPE_U8 ? 0 : dtype == DTYPE_I32 ? INT32_MIN : INT64_MIN);
    lua_pushstring(L, dtype_name(dtype));
    lua_setfield(L, -2, "dtype");
    return 1;
}

static const struct op_row casts[] = {
    { "float", cast, DTYPE_F32, "t:float()", "as float32" },
    { "double", cast, DTYPE_F64, "t:double()", "as float64" },
    { "half", cast, DTYPE_F16, "t:half()", "as float16, rounded to the nearest" },
    { "bfloat16", cast, DTYPE_BF16, "t:bfloat16()", "as bfloat16, rounded to the nearest" },
    { "long", cast, DTYPE_I64, "t:long()", "as int64: fractions are cut off" },
    { "int", cast, DTYPE_I32, "t:int()", "as int32: what is too large wraps around" },
    { "byte", cast, DTYPE_U8, "t:byte()", "as uint8: what is too large wraps around" },
    { "bool", cast, DTYPE_BOOL, "t:bool()", "as bool" },
};

static const struct lua_entry methods[] = {
    { "type", type, "t:type(dtype)", "as this dtype; without one its name in PyTorch, \"torch.FloatTensor\"" },
    { "type_as", type_as, "t:type_as(other)", "as the other's dtype, on its device" },
    { "is_floating_point", is_floating_point, "t:is_floating_point()", "is it one of fractions?" },
};

static const struct lua_entry entries[] = {
    { "is_floating_point", is_floating_point, "rs.is_floating_point(t or dtype)", "is it one of fractions?" },
    { "result_type", result_type, "rs.result_type(a, b)", "the dtype of a + b; tensors or numbers" },
    { "promote_types", promote_types, "rs.promote_types(a, b)", "the smallest dtype that two dtypes fit into" },
    { "can_cast", can_cast, "rs.can_cast(from, to)", "may a result of one dtype go into a tensor of the other?" },
    { "set_default_dtype", set_default_dtype, "rs.set_default_dtype(dtype)", "what fractions become in new tensors" },
    { "get_default_dtype", get_default_dtype, "rs.get_default_dtype()", "float32 unless it was set" },
    { "finfo", finfo, "rs.finfo(dtype)", "bits, eps, max, min, tiny, resolution of a dtype of fractions" },
    { "iinfo", iinfo, "rs.iinfo(dtype)", "bits, max, min of a dtype of integers" },
};

void
lua_open_dtypes(lua_State *L)
{
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, casts, countof(casts));
    add_entries(L, -1, methods, countof(methods));
    lua_pop(L, 2);
    open_namespace(L, "", entries, countof(entries));
    for (size_t i = 0; i < countof(casts); i++) { /* rs.float32 and rs.float */
        const char *name = dtype_name((enum dtype)casts[i].which);
        lua_pushstring(L, name);
        lua_setfield(L, -2, name);
        lua_pushstring(L, name);
        lua_setfield(L, -2, casts[i].name);
    }
    lua_pop(L, 1);
}

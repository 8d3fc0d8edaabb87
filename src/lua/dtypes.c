/* Element types: rs.float32 and its like, t:to and t:type, whose arguments no signature can say, what types make
 * together, and their limits. PyTorch: torch.finfo, torch.result_type. */
#include "lua/internal.h"
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

/* ---- t:to, t:type ---- */

static int
copied_to(lua_State *L, struct tensor *tensor, int device, enum dtype dtype)
{
    struct task *me = script_task(L);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_copy_to(me, tensor, device, dtype));
}

/* t:to("device:1"), t:to("float64"), t:to(other), t:to("device:0", "int64"), t:to{dtype = ..., device = ...} */
static int
to(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1), *other = test_tensor(L, 2);
    int            device = tensor_device(tensor);
    enum dtype     dtype  = tensor->dtype;
    if (other != NULL)
        return copied_to(L, tensor, tensor_device(other), other->dtype);
    if (lua_istable(L, 2)) {
        option_known(L, 2, "dtype device");
        return copied_to(L, tensor, option_device(L, 2, device), option_dtype(L, 2, dtype));
    }
    arg_most(L, 3);
    if (lua_isnoneornil(L, 2))
        arg_error(L, 2, "a device, a dtype or a Tensor");
    for (int i = 2; i <= lua_gettop(L); i++)
        if (lua_type(L, i) != LUA_TSTRING || !dtype_parse(lua_tostring(L, i), &dtype))
            device = check_device(L, i);
    return copied_to(L, tensor, device, dtype);
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
    enum dtype dtype = dtype_over(ranks.full, dtype_over(ranks.zero, ranks.number));
    struct tensor *a = test_tensor(L, 1), *b = test_tensor(L, 2);
    if (dtype == DTYPE_I32 && (a == NULL || a->dtype != DTYPE_I32) && (b == NULL || b->dtype != DTYPE_I32)) {
        int16_missing(script_task(L), "result_type");
        return raise(L, script_task(L));
    }
    lua_pushstring(L, dtype_name(dtype));
    return 1;
}

/* ---- limits ---- */

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
    set_integer(L, -1, "bits", (int64_t)dtype_size(dtype) * 8);
    set_number(L, -1, "eps", ldexp(1, -digits));
    set_number(L, -1, "max", most);
    set_number(L, -1, "min", -most);
    set_number(L, -1, "tiny", ldexp(1, least));
    set_number(L, -1, "smallest_normal", ldexp(1, least));
    set_number(L, -1, "resolution", digits == 52 ? 1e-15 : digits == 23 ? 1e-6 : digits == 10 ? 1e-3 : 1e-2);
    set_text(L, -1, "dtype", dtype_name(dtype));
    return 1;
}

static int
iinfo(lua_State *L)
{
    enum dtype dtype = check_dtype(L, 1);
    if (dtype_is_float(dtype) || dtype == DTYPE_BOOL)
        raise_error(L, "TypeError", "iinfo takes a dtype of integers, not %s: use finfo", dtype_name(dtype));
    int64_t least, most;
    dtype_ends(dtype, &least, &most);
    lua_newtable(L);
    set_integer(L, -1, "bits", (int64_t)dtype_size(dtype) * 8);
    set_integer(L, -1, "max", most);
    set_integer(L, -1, "min", least);
    set_text(L, -1, "dtype", dtype_name(dtype));
    return 1;
}

static const struct lua_entry methods[] = {
    { "to", to, "t:to(device or dtype or tensor)", "a copy there; the same tensor if nothing changes" },
    { "type", type, "t:type(dtype)", "as this dtype; without one its name in PyTorch, \"torch.FloatTensor\"" },
};

static const struct lua_entry entries[] = {
    { "result_type", result_type, "rs.result_type(a, b)", "the dtype of a + b; tensors or numbers" },
    { "finfo", finfo, "rs.finfo(dtype)", "bits, eps, max, min, tiny, resolution of a dtype of fractions" },
    { "iinfo", iinfo, "rs.iinfo(dtype)", "bits, max, min of a dtype of integers" },
};

/* rs.float32 and rs.float */
static void
add_dtypes(lua_State *L)
{
    static const char *const seconds[DTYPE_COUNT] = {
        [DTYPE_F32] = "float", [DTYPE_F64] = "double", [DTYPE_F16] = "half", [DTYPE_BF16] = "bfloat16",
        [DTYPE_I64] = "long", [DTYPE_I32] = "int", [DTYPE_U8] = "byte", [DTYPE_I8] = "char",
        [DTYPE_BOOL] = "bool",
    };
    for (int i = 0; i < DTYPE_COUNT; i++) {
        lua_pushstring(L, dtype_name((enum dtype)i));
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, dtype_name((enum dtype)i));
        lua_setfield(L, -2, seconds[i]);
    }
}

void
lua_open_dtypes(lua_State *L)
{
    add_methods(L, BOX_TENSOR, methods, countof(methods));
    open_namespace(L, "", entries, countof(entries));
    add_dtypes(L);
    lua_pop(L, 1);
}

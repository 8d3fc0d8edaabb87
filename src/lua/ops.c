/* Operators of tensors as methods, functions of rs (t:add(u), rs.add(t, u)) and Lua operators (t + u). One function per
 * family takes its row of the table below as upvalue 1. PyTorch: torch.add and its like, python_arg_parser.cpp. */
#include "lua/internal.h"
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

/* Bytes of the result if shapes broadcast; what does not fit is refused before anything is made. */
void
reserve_result(lua_State *L, struct task *me, const struct tensor *a, const struct tensor *b)
{
    double elements = 1;
    int    dims     = tensor_dims(a) > tensor_dims(b) ? tensor_dims(a) : tensor_dims(b);
    for (int i = 1; i <= dims; i++) {
        int64_t x = i <= tensor_dims(a) ? tensor_size(a, -i) : 1, y = i <= tensor_dims(b) ? tensor_size(b, -i) : 1;
        elements *= (double)(x > y ? x : y);
    }
    script_reserve(L, me, elements * 8);
}

struct tensor *
operand_tensor(struct task *me, struct operand operand, const struct tensor *beside)
{
    if (operand.tensor != NULL)
        return operand.tensor;
    enum dtype dtype = operand.integer ? DTYPE_I64 : default_dtype(me);
    if (beside != NULL)
        dtype = dtype_over(beside->dtype, dtype);
    if (dtype_holds(dtype, operand.number, true))
        return tensor_number(me, dtype, DEVICE_CPU, operand.number);
    double element = 0; /* wraps around, or becomes infinite */
    if (operand.integer)
        dtype_put_whole(dtype, &element, (int64_t)operand.number);
    else
        dtype_put_fraction(dtype, &element, operand.number);
    return tensor_from(me, dtype, 0, NULL, &element);
}

/* Whose table is at the top: the tensors' methods, or a namespace, whose name comes before its functions'. */
static const char *
space_of_table(lua_State *L)
{
    int table = lua_gettop(L);
    push_ringside(L);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    const char *space = lua_rawequal(L, table, -3) ? "rs." : lua_rawequal(L, table, -1) ? "t:" : "nn.functional.";
    lua_settop(L, table);
    return space;
}

/* "sum(t, dim)" is rs.sum(t, dim) in rs and t:sum(dim) among the methods. */
static const char *
push_usage(lua_State *L, const char *signature, const char *space)
{
    size_t      name = strcspn(signature, "({"), first;
    const char *rest = signature + name;
    if (memchr(signature, ':', name) != NULL || memchr(signature, '.', name) != NULL)
        return lua_pushstring(L, signature);
    if (strcmp(space, "t:") != 0 || rest[0] != '(')
        return lua_pushfstring(L, "%s%s", strcmp(space, "t:") != 0 ? space : "rs.", signature);
    first = strcspn(rest, ",)");
    rest += first + strspn(rest + first, ", ");
    lua_pushlstring(L, signature, name);
    lua_pushfstring(L, "t:%s(%s", lua_tostring(L, -1), rest);
    lua_remove(L, -2);
    return lua_tostring(L, -1);
}

void
add_ops(lua_State *L, const struct op_row *list, size_t count)
{
    const char *space = space_of_table(L);
    for (size_t i = 0; i < count; i++) {
        const char *usage = push_usage(L, list[i].signature, space);
        lua_pushinteger(L, list[i].which);
        lua_pushcclosure(L, list[i].function, 1);
        note_help(L, usage, list[i].help);
        lua_setfield(L, -3, list[i].name);
        lua_pop(L, 1);
    }
}

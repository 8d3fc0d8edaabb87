/* nn.Sequential and nn.Parameter; catalog.c has the layers. */
#include "lua/internal.h"
#include "autograd/call.h"
#include "base/vec.h"
#include "nn/layers.h"
#include "sched/task.h"

/* nn.Sequential{a, b} or nn.Sequential(a, b) */
static int
sequential(lua_State *L)
{
    struct task *me = script_task(L);
    if (!is_plain_table(L, 1)) {
        int count = lua_gettop(L);
        lua_createtable(L, count, 0);
        lua_insert(L, 1);
        for (int i = count; i >= 1; i--)
            lua_rawseti(L, 1, i);
    }
    int             count    = (int)lua_rawlen(L, 1);
    struct module **children = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *children, 0);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, 1, i + 1);
        children[i] = test_module(L, -1);
        if (children[i] == NULL)
            raise_error(L, "TypeError", "element %d of Sequential: expected Module, got %s",
                        i + 1, luaL_typename(L, -1));
        lua_pop(L, 1);
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, nn_sequential(me, children, count));
}

/* nn.Parameter(tensor), nn.Parameter(tensor, {requires_grad = false}): shares the tensor's elements. */
static int
parameter(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    bool           wanted = lua_istable(L, 2) ? option_bool(L, 2, "requires_grad", true)
                                              : lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
    if (wanted && !dtype_is_float(tensor->dtype))
        raise_error(L, "RuntimeError", "only Tensors of floating point dtype can require gradients, this one is %s",
                    dtype_name(tensor->dtype));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_detach(me, tensor);
    if (result != NULL) {
        result->is_parameter  = true;
        result->requires_grad = wanted;
    }
    return call_tensor(&call, result);
}

static const struct lua_entry modules[] = {
    { "Sequential", sequential, "nn.Sequential{a, b, ...}", "one after the other; seq[0] is the first" },
    { "Parameter", parameter, "nn.Parameter(tensor, {requires_grad = true})",
      "a tensor that a module registers when it is assigned" },
};
void
lua_open_layers(lua_State *L)
{
    open_namespace(L, "nn", modules, countof(modules));
    lua_pop(L, 1);
}

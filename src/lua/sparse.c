/* What a sparse gradient answers: t._indices, t._values, t.is_coalesced and the like, as methods. */
#include "lua/internal.h"
#include "autograd/call.h"
#include "base/vec.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static struct tensor *
check_sparse(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    if (!tensor_is_sparse(tensor))
        raise_error(L, "RuntimeError", "this is no sparse tensor");
    return tensor;
}

static int
is_sparse(lua_State *L)
{
    lua_pushboolean(L, tensor_is_sparse(check_tensor(L, 1)));
    return 1;
}

static int
is_coalesced(lua_State *L)
{
    lua_pushboolean(L, check_sparse(L)->coalesced);
    return 1;
}

static int
nnz(lua_State *L)
{
    lua_pushinteger(L, tensor_size(check_sparse(L)->indices, 0));
    return 1;
}

/* [1, pairs] */
static int
indices(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *tensor = check_sparse(L);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_unsqueeze(me, tensor->indices, 0));
}

static int
values(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *tensor = check_sparse(L);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_detach(me, tensor->values));
}

static int
to_dense(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    script_reserve(L, me, 8.0 * (double)tensor_count(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_to_dense(me, tensor));
}

static int
coalesce(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *tensor = check_sparse(L);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, sparse_coalesced(me, tensor));
}

static const struct lua_entry methods[] = {
    { "is_sparse", is_sparse, "t:is_sparse()", "does it hold rows by number only?" },
    { "is_coalesced", is_coalesced, "t:is_coalesced()", "of a sparse tensor: is each row there once?" },
    { "_indices", indices, "t:_indices()", "of a sparse tensor: its rows' numbers, [1, pairs]" },
    { "_nnz", nnz, "t:_nnz()", "of a sparse tensor: how many rows it holds; one that comes twice counts twice" },
    { "_values", values, "t:_values()", "of a sparse tensor: its rows" },
    { "to_dense", to_dense, "t:to_dense()", "with all rows; those that come several times are added up" },
    { "coalesce", coalesce, "t:coalesce()", "a sparse tensor with each row once" },
};

void
lua_open_sparse(lua_State *L)
{
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_entries(L, -1, methods, countof(methods));
    lua_pop(L, 2);
}

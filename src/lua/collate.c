/* What a batch is: torch.utils.data.default_collate. Tensors are stacked, numbers become a tensor, lists of equal
 * length a list of batches, tables with names a table of batches, texts a list. */
#include <stdlib.h>
#include "base/vec.h"
#include "data/batch.h"
#include "lua/data.h"
#include "lua/internal.h"
#include "sched/task.h"
#include "tensor/tensor.h"

enum { COLLATE_DEPTH = 20, FIRST = 1 };

static void collate_deep(lua_State *L, int depth);

/* The samples are tensors. */
static void
stack_tensors(lua_State *L, int samples)
{
    struct task    *me      = script_task(L);
    int             count   = 0;
    struct tensor **tensors = check_tensors(L, samples, &count);
    struct call     call    = call_open(L, me, CALL_PLAIN);
    call_tensor(&call, data_stack(me, tensors, count));
}

static bool
all_integers(lua_State *L, int samples, int count)
{
    bool integers = true;
    for (int i = 1; i <= count; i++) {
        if (lua_rawgeti(L, samples, i) != LUA_TNUMBER)
            raise_error(L, "TypeError", "collate: sample %d of the batch is %s, the first is a number", i,
                        luaL_typename(L, -1));
        integers = integers && lua_isinteger(L, -1);
        lua_pop(L, 1);
    }
    return integers;
}

/* int64, or float64 as Python's floats. */
static void
stack_numbers(lua_State *L, int samples, int count)
{
    struct task *me       = script_task(L);
    bool         integers = all_integers(L, samples, count);
    int64_t     *wholes   = lua_newuserdatauv(L, (size_t)count * sizeof *wholes, 0), size = count;
    double      *numbers  = (double *)(void *)wholes;
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, samples, i + 1);
        if (integers)
            wholes[i] = lua_tointeger(L, -1);
        else
            numbers[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    call_tensor(&call, tensor_from(me, integers ? DTYPE_I64 : DTYPE_F64, 1, &size, wholes));
}

/* Entry `key` (at the top, popped) of every sample, collated. */
static void
collate_entry(lua_State *L, int samples, int count, int depth)
{
    int key = lua_gettop(L);
    lua_createtable(L, count, 0);
    for (int i = 1; i <= count; i++) {
        if (lua_rawgeti(L, samples, i) != LUA_TTABLE)
            raise_error(L, "TypeError", "collate: sample %d of the batch is %s, the first is a table", i,
                        luaL_typename(L, -1));
        lua_pushvalue(L, key);
        if (lua_rawget(L, -2) == LUA_TNIL)
            raise_error(L, "RuntimeError", "each element in list of batch should be of equal size");
        lua_rawseti(L, key + 1, i);
        lua_pop(L, 1);
    }
    collate_deep(L, depth + 1);
    lua_remove(L, key);
}

static void
collate_lists(lua_State *L, int samples, int count, int width, int depth)
{
    lua_createtable(L, width, 0);
    int out = lua_gettop(L);
    for (int at = 1; at <= width; at++) {
        lua_pushinteger(L, at);
        collate_entry(L, samples, count, depth);
        lua_rawseti(L, out, at);
    }
}

static void
collate_names(lua_State *L, int samples, int count, int depth)
{
    lua_rawgeti(L, samples, FIRST);
    int keys = push_sorted_keys(L, lua_gettop(L)), list = lua_gettop(L);
    lua_newtable(L);
    int out = lua_gettop(L);
    for (int i = 1; i <= keys; i++) {
        lua_rawgeti(L, list, i);
        lua_pushvalue(L, -1);
        collate_entry(L, samples, count, depth);
        lua_rawset(L, out);
    }
}

/* The list of samples at the top, which holds one at least, gives way to what it becomes. */
static void
collate_deep(lua_State *L, int depth)
{
    int samples = lua_gettop(L), count = (int)lua_rawlen(L, samples);
    luaL_checkstack(L, 20, "samples nested too deep");
    if (depth > COLLATE_DEPTH)
        raise_error(L, "ValueError", "collate: samples are nested deeper than %d", (int)COLLATE_DEPTH);
    int type = lua_rawgeti(L, samples, FIRST), width = type == LUA_TTABLE ? (int)lua_rawlen(L, -1) : 0;
    if (test_tensor(L, -1) != NULL)
        stack_tensors(L, samples);
    else if (type == LUA_TNUMBER)
        stack_numbers(L, samples, count);
    else if (type == LUA_TSTRING)
        lua_pushvalue(L, samples);
    else if (type == LUA_TTABLE && width > 0)
        collate_lists(L, samples, count, width, depth);
    else if (type == LUA_TTABLE)
        collate_names(L, samples, count, depth);
    else
        raise_error(L, "TypeError", "default_collate: batch must contain tensors, numbers, tables or lists; found %s",
                    luaL_typename(L, -1));
    lua_replace(L, samples);
    lua_settop(L, samples);
}

void
collate(lua_State *L)
{
    collate_deep(L, 0);
}

int
push_batch(lua_State *L)
{
    int batch = lua_gettop(L), count = lua_istable(L, batch) ? (int)lua_rawlen(L, batch) : 0;
    if (count == 0)
        return 1;
    luaL_checkstack(L, count + 5, "too many parts of a batch");
    for (int i = 1; i <= count; i++)
        lua_rawgeti(L, batch, i);
    return count;
}

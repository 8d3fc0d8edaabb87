/* Coroutines of a lesson: Lua's own, kept within the budget. A new one is charged, a fatal error passes through resume,
 * and nothing of a lesson runs where Lua has hooks off. Interface: guard_coroutines. */
#include "lua/internal.h"

/* Upvalue 1: the library's coroutine.create. Many short coroutines must not outrun the budget. */
static int
lesson_create(lua_State *L)
{
    script_count_steps(L);
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

/* Upvalue 1: the library's coroutine.resume. What pcall does not catch, resume does not either. */
static int
lesson_resume(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    if (script_of(L)->fatal && !lua_toboolean(L, 1)) {
        lua_settop(L, 2);
        return lua_error(L);
    }
    return lua_gettop(L);
}

/* Upvalue 1: the library's coroutine.close. Nor does it catch what a __close of the coroutine has raised. */
static int
lesson_close(lua_State *L)
{
    int results = lua_tocfunction(L, lua_upvalueindex(1))(L);
    if (script_of(L)->fatal && results == 2)
        return lua_error(L);
    return results;
}

/* Upvalues: the library's resume and close, the coroutine. The library's own wrap would close it even when a hook has
 * raised in it, and a __close that loops then runs with hooks off. */
static int
wrap_step(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_insert(L, 2);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    if (lua_toboolean(L, 1))
        return lua_gettop(L) - 1;
    lua_settop(L, 2);
    lua_State *coroutine = lua_tothread(L, lua_upvalueindex(3));
    int        status    = lua_status(coroutine);
    if (!script_of(L)->fatal && status != LUA_OK && status != LUA_YIELD) {
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_pushvalue(L, lua_upvalueindex(3));
        lua_call(L, 1, 2);
        lua_replace(L, 2); /* what closing raised, or the error itself */
        lua_settop(L, 2);
    }
    if (lua_type(L, 2) == LUA_TSTRING && status != LUA_ERRMEM) {
        luaL_where(L, 1);
        lua_insert(L, 2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

/* Upvalues: the library's create, resume and close. */
static int
lesson_wrap(lua_State *L)
{
    check_function(L, 1);
    lesson_create(L);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_rotate(L, -3, -1);
    lua_pushcclosure(L, wrap_step, 3);
    return 1;
}

void
guard_coroutines(lua_State *L)
{
    lua_getglobal(L, "coroutine");
    lua_getfield(L, -1, "create");
    lua_getfield(L, -2, "resume");
    lua_getfield(L, -3, "close");
    lua_pushcclosure(L, lesson_wrap, 3);
    lua_setfield(L, -2, "wrap");
    lua_getfield(L, -1, "create");
    lua_pushcclosure(L, lesson_create, 1);
    lua_setfield(L, -2, "create");
    lua_getfield(L, -1, "resume");
    lua_pushcclosure(L, lesson_resume, 1);
    lua_setfield(L, -2, "resume");
    lua_getfield(L, -1, "close");
    lua_pushcclosure(L, lesson_close, 1);
    lua_setfield(L, -2, "close");
    lua_pop(L, 1);
}

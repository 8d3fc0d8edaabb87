/* Metatables by name: whose a table is, memory that Lua frees, constructors with static methods, and the classes that a
 * lesson writes (nn.Module, data.Dataset): tables with __name and __base, of a family that says what a call of one
 * makes. */
#include "lua/internal.h"
#include <string.h>
#include "lua/mistakes.h"
#include "lua/shelf.h"

bool
has_class(lua_State *L, int index, const char *class)
{
    if (!lua_getmetatable(L, index))
        return false;
    luaL_getmetatable(L, class);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same;
}

void
open_class(lua_State *L, const char *class, const struct lua_entry *methods, size_t count, const luaL_Reg *metamethods)
{
    luaL_newmetatable(L, class);
    luaL_setfuncs(L, metamethods, 0);
    lua_newtable(L);
    add_entries(L, -1, methods, count);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void *
push_owned(lua_State *L, size_t size, const char *class, lua_CFunction drop)
{
    void *memory = lua_newuserdatauv(L, size, 0);
    memset(memory, 0, size);
    if (luaL_newmetatable(L, class)) {
        lua_pushcfunction(L, drop);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return memory;
}

void
push_weak_table(lua_State *L, const char *name, const char *mode)
{
    if (luaL_getsubtable(L, LUA_REGISTRYINDEX, name))
        return;
    lua_createtable(L, 0, 1);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

/* ---- classes of the engine ---- */

/* In the constructor's place: upvalue 1 is its entry, 2 itself. The class is no argument. */
static int
call_constructor(lua_State *L)
{
    lua_remove(L, 1);
    return lua_tocfunction(L, lua_upvalueindex(2))(L);
}

/* Upvalue 1: how a lesson writes the class. */
static int
static_missing(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    return no_attribute(L, lua_tostring(L, lua_upvalueindex(1)), name, 1, NULL);
}

void
make_class(lua_State *L, const char *path, const struct lua_entry *statics, size_t count)
{
    const char *help = NULL, *point = strrchr(path, '.');
    const char *name = point != NULL ? point + 1 : path;
    lua_pushstring(L, name);
    shelf_get(L, -2);
    lua_createtable(L, 0, (int)count);
    add_entries(L, -1, statics, count);
    lua_createtable(L, 0, 3);
    if (lua_getupvalue(L, -3, 1) == NULL)
        lua_pushnil(L);
    lua_pushvalue(L, -4);
    lua_pushcclosure(L, call_constructor, 2);
    lua_setfield(L, -2, "__call");
    lua_pushstring(L, path);
    lua_pushcclosure(L, static_missing, 1);
    lua_setfield(L, -2, "__index");
    set_text(L, -1, "__name", name);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -2);
    if (push_noted(L, &help)) {
        lua_pushvalue(L, -2);
        note_help(L, lua_tostring(L, -2), help);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    lua_setfield(L, -3, name);
    lua_pop(L, 1);
}

/* ---- classes of a lesson ---- */

static int
class_index(lua_State *L)
{
    lua_pushliteral(L, "__base");
    if (lua_rawequal(L, 2, -1) || lua_rawget(L, 1) != LUA_TTABLE)
        return 0;
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "super") == 0)
        return 1;       /* the class that it inherits from: Net.super.init(self, ...) */
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
}

static int
class_newindex(lua_State *L)
{
    if (lua_type(L, 2) == LUA_TSTRING)
        mistake_in_method(L, lua_tostring(L, 2), 3);
    lua_rawset(L, 1);
    return 0;
}

static int
class_tostring(lua_State *L)
{
    lua_pushliteral(L, "__name");
    lua_pushfstring(L, "<class %s>", lua_rawget(L, 1) == LUA_TSTRING ? lua_tostring(L, -1) : "?");
    return 1;
}

void
open_class_family(lua_State *L, const char *family, lua_CFunction call)
{
    const luaL_Reg metamethods[] = { { "__call", call }, { "__index", class_index },
                                     { "__newindex", class_newindex }, { "__tostring", class_tostring },
                                     { NULL, NULL } };
    luaL_newmetatable(L, family);
    luaL_setfuncs(L, metamethods, 0);
    lua_pop(L, 1);
}

void
push_class(lua_State *L, const char *family, const char *name)
{
    lua_createtable(L, 0, 4);
    set_text(L, -1, "__name", name);
    luaL_setmetatable(L, family);
}

int
declare_class(lua_State *L, const char *family, const char *expected)
{
    const char *name = check_text(L, 1);
    lua_settop(L, 2);
    push_class(L, family, name);
    if (lua_isnil(L, 2))
        return 1;
    if (!has_class(L, 2, family))
        arg_error(L, 2, expected);
    lua_pushvalue(L, 2);
    lua_setfield(L, 3, "__base");
    return 1;
}

int
init_object(lua_State *L)
{
    int count = lua_gettop(L) - 2;
    lua_getfield(L, 1, "init");
    if (!lua_isnil(L, -1)) {
        lua_insert(L, 3);
        lua_pushvalue(L, 2);
        lua_insert(L, 4);
        lua_call(L, count + 1, 0);
    }
    lua_settop(L, 2);
    return 1;
}

/* PyTorch's second names of what is not in the catalogue: torch.concat is torch.cat, rs.reshape(t, ...) is
 * t:reshape(...). The same function object under another name, so that there is one help text and one behaviour. */
#include <stdio.h>
#include "base/vec.h"
#include "lua/shelf.h"

struct alias { const char *name, *of; };

/* Of methods and functions alike; in-place twins follow where there are any. */
static const struct alias second_names[] = { { "ger", "outer" } };

/* Into the table at `to` from the one at `from`; what is not there, or has that name already, stays as it is. */
static void
alias(lua_State *L, int to, const char *name, int from, const char *of)
{
    lua_pushstring(L, name);
    lua_pushstring(L, of);
    bool wanted = shelf_get(L, from) == LUA_TFUNCTION;
    lua_insert(L, -2);
    wanted = shelf_get(L, to) == LUA_TNIL && wanted;
    lua_pop(L, 1);
    if (wanted)
        lua_setfield(L, to, name);
    else
        lua_pop(L, 1);
}

static void
second_names_of(lua_State *L, int table)
{
    for (size_t i = 0; i < countof(second_names); i++) {
        char name[40], of[40];
        alias(L, table, second_names[i].name, table, second_names[i].of);
        snprintf(name, sizeof name, "%s_", second_names[i].name);
        snprintf(of, sizeof of, "%s_", second_names[i].of);
        alias(L, table, name, table, of);
    }
}

/* Comes last: the tables it copies from are filled. */
void
lua_open_aliases(lua_State *L)
{
    push_ringside(L);
    int rs = lua_gettop(L);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    int methods = lua_gettop(L);
    second_names_of(L, rs);
    second_names_of(L, methods);
    lua_settop(L, rs - 1);
}

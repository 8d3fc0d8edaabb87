/* Names that are not there: rs.zeroes, nn.Liner, t:sume(), opt.stpe. Each is an AttributeError that tells what was
 * meant. */
#include "lua/internal.h"
#include <stdio.h>
#include <string.h>
#include "base/nearest.h"

struct search { const char *name; size_t least; char best[80]; };

/* Of two that are equally near the first in the alphabet, so that every run says the same. */
static void
consider(struct search *search, const char *word)
{
    size_t far = word_distance(search->name, word);
    if (far > word_reach(search->name) || far > search->least)
        return;
    if (far == search->least && strcmp(word, search->best) >= 0)
        return;
    search->least = far;
    snprintf(search->best, sizeof search->best, "%s", word);
}

static void
consider_words(struct search *search, const char *words)
{
    for (const char *at = words; *at != '\0'; at += strspn(at, " ")) {
        char   word[80];
        size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        at += length;
        consider(search, word);
    }
}

int
no_attribute(lua_State *L, const char *what, const char *name, int index, const char *more)
{
    struct search search = { .name = name, .least = SIZE_MAX };
    index                = index != 0 ? lua_absindex(L, index) : 0;
    if (more != NULL)
        consider_words(&search, more);
    if (index != 0 && lua_istable(L, index))
        for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1))
            if (lua_type(L, -2) == LUA_TSTRING)
                consider(&search, lua_tostring(L, -2));
    bool near = search.best[0] != '\0';
    return raise_error(L, "AttributeError", "%s has no '%.60s'%s%s%s", what, name, near ? ": did you mean '" : "",
                       search.best, near ? "'?" : "");
}

/* Upvalues: the namespace's name and its table. */
static int
namespace_index(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TSTRING)
        return 0;
    return no_attribute(L, lua_tostring(L, lua_upvalueindex(1)), lua_tostring(L, 2), lua_upvalueindex(2), NULL);
}

/* Upvalue 1: the namespace's name. */
static int
namespace_call(lua_State *L)
{
    return raise_error(L, "TypeError", "%s is a namespace, not a function", lua_tostring(L, lua_upvalueindex(1)));
}

/* The table at the top and what plain tables it holds. */
static void
guard_namespace(lua_State *L, const char *path)
{
    int table = lua_gettop(L);
    luaL_checkstack(L, 8, "namespaces too deep");
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_settop(L, table + 1)) {
        bool plain = lua_istable(L, -1) && lua_type(L, -2) == LUA_TSTRING && !lua_getmetatable(L, -1);
        if (!plain || strcmp(lua_tostring(L, -2), "args") == 0)
            continue;
        char inner[120];
        snprintf(inner, sizeof inner, "%s.%s", path, lua_tostring(L, -2));
        guard_namespace(L, inner);
    }
    lua_createtable(L, 0, 2);
    lua_pushstring(L, path);
    lua_pushcclosure(L, namespace_call, 1);
    lua_setfield(L, -2, "__call");
    lua_pushstring(L, path);
    lua_pushvalue(L, table);
    lua_pushcclosure(L, namespace_index, 2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, table);
}

void
guard_ringside(lua_State *L)
{
    push_ringside(L);
    guard_namespace(L, "rs");
    lua_pop(L, 1);
}

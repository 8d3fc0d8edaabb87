/* Names that are not there: rs.zeroes, nn.Liner, t:sume(), opt.stpe. Each is an AttributeError that tells what was
 * meant. */
#include "lua/shelf.h"
#include <stdio.h>
#include <string.h>
#include "base/nearest.h"
#include "lua/mistakes.h"

struct name_search { const char *name; size_t least; char best[80]; };

/* Of two that are equally near the first in the alphabet, so that every run says the same. */
static void
consider(struct name_search *search, const char *word)
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
consider_words(struct name_search *search, const char *words)
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
    return no_attribute_but(L, what, name, index, more, "");
}

int
no_attribute_but(lua_State *L, const char *what, const char *name, int index, const char *more, const char *otherwise)
{
    struct name_search search = { .name = name, .least = SIZE_MAX };
    if (mistake_in_attribute(L, name))
        return raise_error(L, "AttributeError", "%s has no '%.60s'; %s", what, name, lua_tostring(L, -1));
    index                = index != 0 ? lua_absindex(L, index) : 0;
    if (more != NULL)
        consider_words(&search, more);
    if (index != 0 && lua_istable(L, index))
        shelf_fill(L, index);
    if (index != 0 && lua_istable(L, index))
        for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1))
            if (lua_type(L, -2) == LUA_TSTRING)
                consider(&search, lua_tostring(L, -2));
    bool near = search.best[0] != '\0';
    return raise_error(L, "AttributeError", "%s has no '%.60s'%s%s%s", what, name, near ? ": did you mean '" : "",
                       search.best, near ? "'?" : otherwise);
}

/* Upvalue 1: the namespace's name. A lesson may put functions of its own in, or take one out. */
static int
namespace_newindex(lua_State *L)
{
    const char *path = lua_tostring(L, lua_upvalueindex(1));
    lua_settop(L, 3);
    if (lua_type(L, 2) != LUA_TSTRING || lua_isnil(L, 3) || lua_isfunction(L, 3)) {
        lua_rawset(L, 1);
        return 0;
    }
    const char *name = lua_tostring(L, 2);
    lua_pushvalue(L, 2);
    if (shelf_get(L, 1) == LUA_TFUNCTION)
        return raise_error(L, "AttributeError", "%s.%s is a function; instead of %s.%s = v write %s.%s(v)", path, name,
                           path, name, path, name);
    return raise_error(L, "AttributeError", "%s has no '%.60s' to be set; instead of %s.%.60s = v write "
                       "local %.60s = v", path, name, path, name, name);
}

/* The table at the top and what plain tables it holds. */
static void
guard_namespace(lua_State *L, const char *path)
{
    int table = lua_gettop(L);
    luaL_checkstack(L, 8, "namespaces too deep");
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_settop(L, table + 1)) {
        if (!lua_istable(L, -1) || lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "args") == 0 ||
            (lua_getmetatable(L, -1) && !shelf_is(L, table + 2)))
            continue;
        char inner[120];
        lua_settop(L, table + 2);
        snprintf(inner, sizeof inner, "%s.%s", path, lua_tostring(L, -2));
        guard_namespace(L, inner);
    }
    shelf_open(L, table, path);
    lua_getmetatable(L, table);
    lua_pushstring(L, path);
    lua_pushcclosure(L, namespace_newindex, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pop(L, 1);
}

void
guard_ringside(lua_State *L)
{
    push_ringside(L);
    guard_namespace(L, "rs");
    lua_pop(L, 1);
}

/* What `print` shows of a table: its contents, where Lua says "table: 0x55...", for the tables of lessons are lists of
 * numbers, states and results. A table with a metatable is its own affair; long and deep ones end in "...".
 *
 * Interface: push_shown. */
#include "lua/internal.h"

enum { SHOWN_MOST = 200, SHOWN_DEPTH = 6 }; /* elements in all; tables in tables */

/* The pieces of the text lie in a table on the stack until all are there: what an element says may be a lesson's own
 * function, and may raise. */
struct shown { int pieces, count, elements; };

static void
add_top(lua_State *L, struct shown *shown)
{
    lua_rawseti(L, shown->pieces, ++shown->count);
}

static void
add(lua_State *L, struct shown *shown, const char *text)
{
    lua_pushstring(L, text);
    add_top(L, shown);
}

/* Of names and numbers alone: others have no order. */
static bool
has_plain_keys(lua_State *L, int index)
{
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER) {
            lua_pop(L, 1);
            return false;
        }
    }
    return true;
}

static bool
is_shown(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TTABLE)
        return false;
    if (!lua_getmetatable(L, index))
        return has_plain_keys(L, index);
    lua_pop(L, 1);
    return false;
}

static void add_value(lua_State *L, struct shown *shown, int depth);

/* The key at the top, unless it is the next of a list; that one moves on then. */
static void
add_key(lua_State *L, struct shown *shown, lua_Integer *next)
{
    if (lua_isinteger(L, -1) && lua_tointeger(L, -1) == *next) {
        (*next)++;
        return;
    }
    bool name = lua_type(L, -1) == LUA_TSTRING;
    if (!name)
        add(L, shown, "[");
    lua_pushvalue(L, -1);
    add_top(L, shown);
    add(L, shown, name ? " = " : "] = ");
}

/* The table at the top. */
static void
add_table(lua_State *L, struct shown *shown, int depth)
{
    int         table = lua_gettop(L), count = push_sorted_keys(L, table), keys = lua_gettop(L);
    lua_Integer next = 1;
    add(L, shown, "{");
    for (int i = 1; i <= count; i++) {
        add(L, shown, i > 1 ? ", " : "");
        if (++shown->elements > SHOWN_MOST) {
            add(L, shown, "...");
            break;
        }
        lua_rawgeti(L, keys, i);
        add_key(L, shown, &next);
        lua_rawget(L, table);
        add_value(L, shown, depth + 1);
    }
    add(L, shown, "}");
    lua_settop(L, table - 1);
}

/* The value at the top, which goes. */
static void
add_value(lua_State *L, struct shown *shown, int depth)
{
    luaL_checkstack(L, 16, "a table in tables");
    bool table = is_shown(L, lua_gettop(L)), text = lua_type(L, -1) == LUA_TSTRING;
    if (table && depth < SHOWN_DEPTH) {
        add_table(L, shown, depth);
        return;
    }
    if (table)
        lua_pushliteral(L, "{...}");
    else
        push_text(L, -1);
    lua_remove(L, -2);
    add(L, shown, text ? "\"" : "");
    add_top(L, shown);
    add(L, shown, text ? "\"" : "");
}

void
push_shown(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    if (!is_shown(L, index)) {
        push_text(L, index);
        return;
    }
    lua_newtable(L);
    struct shown shown = { .pieces = lua_gettop(L) };
    lua_pushvalue(L, index);
    add_value(L, &shown, 0);
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (int i = 1; i <= shown.count; i++) {
        lua_rawgeti(L, shown.pieces, i);
        luaL_addvalue(&buffer);
    }
    luaL_pushresult(&buffer);
    lua_remove(L, shown.pieces);
}

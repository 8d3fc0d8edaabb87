/* The library `table` with Lua's results and messages, each element charged as it is touched: what __len and __index
 * say is the lesson's word, and a loop in C has no other end. Interface: tables_open. */
#include "lua/internal.h"

#include <limits.h>
#include <string.h>

/* ELEMENT is reading or writing one, and so many times more by a METAMETHOD in C; those in Lua count by themselves.
 * A LEVEL of a heap is two comparisons and an exchange. */
enum { ELEMENT_STEPS = 1, METAMETHOD = 8, NUMBER_STEPS = 10, LEVEL_STEPS = 8, BATCH = 1024 };
enum { READS = 1, WRITES = 2, MEASURES = 4 };

static uint64_t
element_steps(lua_State *L, int index)
{
    if (!lua_getmetatable(L, index))
        return ELEMENT_STEPS;
    lua_pop(L, 1);
    return ELEMENT_STEPS * METAMETHOD;
}

/* How many elements to go through before asking again: from the list at 1 into that at `target`. They are charged. */
static lua_Unsigned
next_batch(lua_State *L, lua_Unsigned left, int target)
{
    lua_Unsigned count = left < BATCH ? left : BATCH;
    script_charge(L, (element_steps(L, 1) + element_steps(L, target)) * count);
    return count;
}

static bool
has_metafield(lua_State *L, const char *name)
{
    lua_pushstring(L, name);
    bool has = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

/* A table, or what behaves as one for these `uses`. */
static void
check_list(lua_State *L, int index, unsigned uses)
{
    if (lua_type(L, index) == LUA_TTABLE)
        return;
    if (!lua_getmetatable(L, index)) {
        luaL_checktype(L, index, LUA_TTABLE);
        return;
    }
    if (((uses & READS) != 0 && !has_metafield(L, "__index")) ||
        ((uses & WRITES) != 0 && !has_metafield(L, "__newindex")) ||
        ((uses & MEASURES) != 0 && !has_metafield(L, "__len")))
        luaL_checktype(L, index, LUA_TTABLE);
    lua_pop(L, 1);
}

static lua_Integer
check_length(lua_State *L, int index, unsigned uses)
{
    check_list(L, index, uses | MEASURES);
    return luaL_len(L, index);
}

static int
table_insert(lua_State *L)
{
    lua_Unsigned end = (lua_Unsigned)check_length(L, 1, READS | WRITES) + 1, at = end;
    switch (lua_gettop(L)) {
    case 2: break;
    case 3:
        at = (lua_Unsigned)luaL_checkinteger(L, 2);
        luaL_argcheck(L, at - 1u < end, 2, "position out of bounds");
        break;
    default: return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    lua_Integer to = (lua_Integer)end, stop = (lua_Integer)at;
    while (to > stop)
        for (lua_Unsigned batch = next_batch(L, (lua_Unsigned)to - at, 1); batch > 0; batch--, to--) {
            lua_geti(L, 1, to - 1);
            lua_seti(L, 1, to);
        }
    lua_seti(L, 1, stop);
    return 0;
}

static int
table_remove(lua_State *L)
{
    lua_Integer length = check_length(L, 1, READS | WRITES), at = luaL_optinteger(L, 2, length);
    if (at != length)
        luaL_argcheck(L, (lua_Unsigned)at - 1u <= (lua_Unsigned)length, 2, "position out of bounds");
    lua_geti(L, 1, at);
    while (at < length)
        for (lua_Unsigned batch = next_batch(L, (lua_Unsigned)length - (lua_Unsigned)at, 1); batch > 0; batch--, at++) {
            lua_geti(L, 1, at + 1);
            lua_seti(L, 1, at);
        }
    lua_pushnil(L);
    lua_seti(L, 1, at);
    return 1;
}

struct moving { lua_Integer from, to; int target, step; };

static void
move_elements(lua_State *L, struct moving m, lua_Unsigned count)
{
    while (count > 0) {
        lua_Unsigned batch = next_batch(L, count, m.target);
        for (count -= batch; batch > 0; batch--) {
            lua_geti(L, 1, m.from);
            lua_seti(L, m.target, m.to);
            m.from = (lua_Integer)((lua_Unsigned)m.from + (lua_Unsigned)(lua_Integer)m.step);
            m.to   = (lua_Integer)((lua_Unsigned)m.to + (lua_Unsigned)(lua_Integer)m.step);
        }
    }
}

static int
table_move(lua_State *L)
{
    lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    int         target = lua_isnoneornil(L, 5) ? 1 : 5;
    check_list(L, 1, READS);
    check_list(L, target, WRITES);
    if (last >= first) {
        luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
        lua_Integer count = last - first + 1;
        luaL_argcheck(L, to <= LUA_MAXINTEGER - count + 1, 4, "destination wrap around");
        bool apart = to > last || to <= first || (target != 1 && !lua_compare(L, 1, target, LUA_OPEQ));
        struct moving forwards  = { first, to, target, 1 };
        struct moving backwards = { last, to + count - 1, target, -1 }; /* what is moved away lies below */
        move_elements(L, apart ? forwards : backwards, (lua_Unsigned)count);
    }
    lua_pushvalue(L, target);
    return 1;
}

struct joining { luaL_Buffer buffer; const char *separator; size_t length; uint64_t steps, element_steps; };

static void
join_element(lua_State *L, struct joining *j, lua_Integer at)
{
    int type = lua_geti(L, 1, at);
    if (type == LUA_TSTRING)
        j->steps += steps_of_bytes(lua_rawlen(L, -1) + j->length) + j->element_steps;
    else if (type == LUA_TNUMBER)
        j->steps += steps_of_bytes(j->length) + j->element_steps + NUMBER_STEPS;
    else
        luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1), at);
    if (j->steps >= BATCH) {
        script_charge(L, j->steps);
        j->steps = 0;
    }
    luaL_addvalue(&j->buffer);
}

static int
table_concat(lua_State *L)
{
    struct joining j;
    j.steps               = 0;
    lua_Integer    length = check_length(L, 1, READS);
    j.separator           = luaL_optlstring(L, 2, "", &j.length);
    lua_Integer at = luaL_optinteger(L, 3, 1), last = luaL_optinteger(L, 4, length);
    j.element_steps = element_steps(L, 1);
    luaL_buffinit(L, &j.buffer);
    for (; at < last; at++) {
        join_element(L, &j, at);
        luaL_addlstring(&j.buffer, j.separator, j.length);
    }
    if (at == last)
        join_element(L, &j, at);
    script_charge(L, j.steps);
    luaL_pushresult(&j.buffer);
    return 1;
}

static int
table_pack(lua_State *L)
{
    int count = lua_gettop(L);
    script_charge(L, (uint64_t)count * ELEMENT_STEPS);
    lua_createtable(L, count, 1);
    lua_insert(L, 1);
    for (int i = count; i >= 1; i--)
        lua_rawseti(L, 1, i);
    lua_pushinteger(L, count);
    lua_setfield(L, 1, "n");
    return 1;
}

static int
table_unpack(lua_State *L)
{
    lua_Integer  first = luaL_optinteger(L, 2, 1);
    lua_Integer  last  = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
    lua_Unsigned count = (lua_Unsigned)last - (lua_Unsigned)first;
    if (first > last)
        return 0;
    if (count >= INT_MAX || !lua_checkstack(L, (int)(count + 1)))
        return luaL_error(L, "too many results to unpack");
    script_charge(L, (count + 1) * element_steps(L, 1));
    for (; first < last; first++)
        lua_geti(L, 1, first);
    lua_geti(L, 1, last);
    return (int)count + 1;
}

/* ---- sort by a heap: always the same comparisons; the library draws its pivots from the clock ---- */

static bool
sort_less(lua_State *L, int a, int b)
{
    if (lua_isnil(L, 2))
        return lua_compare(L, a, b, LUA_OPLT);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, a);
    lua_pushvalue(L, b);
    lua_call(L, 2, 1);
    bool less = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return less;
}

static void
sort_sift_down(lua_State *L, int64_t root, int64_t end)
{
    uint64_t below = (uint64_t)(64 - __builtin_clzll((uint64_t)end / (uint64_t)root | 1));
    script_charge(L, below * LEVEL_STEPS);
    for (int64_t child; (child = 2 * root) <= end; root = child) {
        lua_settop(L, 2);
        lua_geti(L, 1, child);
        if (child < end) {
            lua_geti(L, 1, child + 1);
            if (sort_less(L, 3, 4)) {
                child++;
                lua_replace(L, 3);
            }
            lua_settop(L, 3);
        }
        lua_geti(L, 1, root);
        if (!sort_less(L, 4, 3))
            return;
        lua_seti(L, 1, child);
        lua_seti(L, 1, root);
    }
}

static int
table_sort(lua_State *L)
{
    lua_Integer count = check_length(L, 1, READS | WRITES);
    if (count < 2)
        return 0;
    luaL_argcheck(L, count < INT_MAX, 1, "array too big");
    if (!lua_isnoneornil(L, 2))
        luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    for (int64_t root = count / 2; root >= 1; root--)
        sort_sift_down(L, root, count);
    for (int64_t end = count; end > 1; end--) {
        lua_settop(L, 2);
        lua_geti(L, 1, 1);
        lua_geti(L, 1, end);
        lua_seti(L, 1, 1);
        lua_seti(L, 1, end);
        sort_sift_down(L, 1, end - 1);
    }
    return 0;
}

void
tables_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "insert", table_insert }, { "remove", table_remove }, { "move", table_move }, { "concat", table_concat },
        { "pack", table_pack }, { "unpack", table_unpack }, { "sort", table_sort }, { NULL, NULL },
    };
    lua_getglobal(L, "table");
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}

/* Lua's functions of fractions, with the same bits on every machine: liblua calls the C library's. Those of Lua 5.3,
 * which a Lua may have or not, are there everywhere.
 *
 * Interface: mathematics_open; pow, which the operator ^ of a shared liblua finds here before the C library's. */
#include "lua/internal.h"

#include <math.h>
#include "base/math.h"
#include "base/vec.h"

double
pow(double x, double y)
{
    return math_pow(x, y);
}

struct function_of_one { const char *name; double (*function)(double x); };
static const struct function_of_one of_one[] = {
    { "exp", math_exp },   { "sin", math_sin },   { "cos", math_cos },   { "tan", math_tan },     { "asin", math_asin },
    { "acos", math_acos }, { "sinh", math_sinh }, { "cosh", math_cosh }, { "tanh", math_tanh }, { "log10", math_log10 },
};

static int
call_of_one(lua_State *L)
{
    lua_pushnumber(L, of_one[lua_tointeger(L, lua_upvalueindex(1))].function(luaL_checknumber(L, 1)));
    return 1;
}

static int
logarithm(lua_State *L)
{
    double x = luaL_checknumber(L, 1);
    if (lua_isnoneornil(L, 2)) {
        lua_pushnumber(L, math_log(x));
        return 1;
    }
    double base = luaL_checknumber(L, 2);
    lua_pushnumber(L, base == 2 ? math_log2(x) : base == 10 ? math_log10(x) : math_log(x) / math_log(base));
    return 1;
}

static int
arc_tangent(lua_State *L)
{
    double y = luaL_checknumber(L, 1);
    lua_pushnumber(L, math_atan2(y, luaL_optnumber(L, 2, 1)));
    return 1;
}

static int
power(lua_State *L)
{
    double x = luaL_checknumber(L, 1);
    lua_pushnumber(L, math_pow(x, luaL_checknumber(L, 2)));
    return 1;
}

void
mathematics_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "log", logarithm }, { "atan", arc_tangent }, { "atan2", arc_tangent }, { "pow", power }, { NULL, NULL },
    };
    lua_getglobal(L, "math");
    luaL_setfuncs(L, functions, 0);
    for (size_t i = 0; i < countof(of_one); i++) {
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, call_of_one, 1);
        lua_setfield(L, -2, of_one[i].name);
    }
    lua_pop(L, 1);
}

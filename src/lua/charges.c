/* Work inside of Lua's own library functions. Lua counts instructions of Lua, and one call of string.rep may do what a
 * million of them do: so functions whose work grows with an argument say it here before they begin, and then Lua's own
 * runs in the same call, with its results and messages. What allocates is the allocator's to charge, patterns and
 * tables charge as they go (search.c, tables.c).
 *
 * The rule: a step is about 10 ns, as long as it takes to go over BYTES_A_STEP bytes.
 *
 * Interface: charge_libraries; steps_of_bytes and steps_of_source for whoever else does such work. */
#include "lua/internal.h"

#include <string.h>
#include "base/vec.h"

enum { BYTES_A_STEP = 16 };
/* BYTES_SEARCHED of them are looked through for a zero in a step. */
enum { BYTES_SEARCHED = 256, TRACEBACK_STEPS = 1000, LEVEL_STEPS = 4 };
/* Of a text that is compiled: names and labels are looked for among those before. */
enum { SOURCE_STEPS = 8, SOURCE_BYTES = 128 };

uint64_t
steps_of_bytes(uint64_t bytes)
{
    return bytes / BYTES_A_STEP;
}

uint64_t
steps_of_source(uint64_t bytes)
{
    uint64_t parts = bytes / SOURCE_BYTES;
    return bytes * SOURCE_STEPS + parts * parts;
}

/* ---- what a call is about to do, by its arguments; wrong ones are left to the function itself ---- */

static uint64_t
text_length(lua_State *L, int index)
{
    return lua_type(L, index) == LUA_TSTRING ? lua_rawlen(L, index) : 0;
}

/* Character by character, some ns each. */
static uint64_t
text_steps(lua_State *L)
{
    return text_length(L, 1) / 4;
}

/* Both operands may be numbers written as texts. */
static uint64_t
operand_steps(lua_State *L)
{
    return (text_length(L, 1) + text_length(L, 2)) / 4;
}

static uint64_t
comparison_steps(lua_State *L)
{
    uint64_t a = text_length(L, 1), b = text_length(L, 2);
    return steps_of_bytes(a < b ? a : b);
}

static uint64_t
argument_steps(lua_State *L)
{
    return (uint64_t)lua_gettop(L) / 4;
}

/* Each copy is a step of a loop, even of nothing. What no string can hold, or no lesson, is refused without work. */
static uint64_t
rep_steps(lua_State *L)
{
    lua_Integer count = lua_tointeger(L, 2);
    uint64_t    bytes = text_length(L, 1) + text_length(L, 3), all, limit = account_limit(script_of(L)->sched);
    if (count <= 0 || __builtin_mul_overflow(bytes, (uint64_t)count, &all) || (limit > 0 && all > limit))
        return 0;
    return (uint64_t)count / 4 + steps_of_bytes(all);
}

/* How many characters the arguments `first` and `last` name, with Lua's defaults. */
static uint64_t
slice_length(lua_State *L, int first, lua_Integer last_default)
{
    lua_Integer length = (lua_Integer)text_length(L, 1);
    lua_Integer from   = lua_tointeger(L, first);
    lua_Integer to     = lua_isnoneornil(L, first + 1) ? last_default : lua_tointeger(L, first + 1);
    if (from < 0)
        from = from < -length ? 1 : length + from + 1;
    if (to < 0)
        to = to < -length ? 0 : length + to + 1;
    if (from < 1)
        from = 1;
    if (to > length)
        to = length;
    return to < from ? 0 : (uint64_t)(to - from) + 1;
}

/* One number for each character; without an end there is one. */
static uint64_t
codepoint_steps(lua_State *L)
{
    return lua_isnoneornil(L, 3) ? 0 : slice_length(L, 2, 0);
}

static uint64_t
utf8_len_steps(lua_State *L)
{
    if (lua_isnoneornil(L, 2))
        return text_length(L, 1) / 4;
    return slice_length(L, 2, -1) / 4;
}

/* Sizes and alignments stand in the format: `c1000000` is a million bytes. */
static uint64_t
layout_steps(lua_State *L)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        return 0;
    size_t      length = 0;
    const char *format = lua_tolstring(L, 1, &length);
    uint64_t    bytes  = 4 * length, number = 0;
    for (size_t i = 0; i < length; i++) {
        bool digit = format[i] >= '0' && format[i] <= '9';
        number     = !digit ? 0 : number < INT32_MAX ? 10 * number + (uint64_t)(format[i] - '0') : number;
        if (digit && (i + 1 == length || format[i + 1] < '0' || format[i + 1] > '9'))
            bytes += number;
    }
    return steps_of_bytes(bytes);
}

static uint64_t
pack_steps(lua_State *L)
{
    uint64_t bytes = 0;
    for (int i = lua_gettop(L); i > 1; i--)
        bytes += text_length(L, i);
    return layout_steps(L) + steps_of_bytes(bytes);
}

/* `z` looks for the end of a text, as far as there is any. */
static uint64_t
unpack_steps(lua_State *L)
{
    size_t      length = 0;
    const char *format = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &length) : "";
    uint64_t    steps  = memchr(format, 'z', length) != NULL ? text_length(L, 2) / BYTES_SEARCHED : 0;
    return layout_steps(L) + steps;
}

/* Lua looks for the names of functions among all that is loaded, and for the end of the stack, level by level. */
static uint64_t
traceback_steps(lua_State *L)
{
    lua_State *of    = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
    int        depth = 64;
    lua_Debug  ignored;
    while (depth < (1 << 20) && lua_getstack(of, depth, &ignored))
        depth *= 2;
    return TRACEBACK_STEPS + (uint64_t)depth * LEVEL_STEPS + steps_of_bytes(text_length(L, lua_isthread(L, 1) ? 2 : 1));
}

/* ---- the table ---- */

struct charged { const char *table, *name; uint64_t (*steps)(lua_State *L); };

/* Upvalues: Lua's own function, the row. */
static int
charged_call(lua_State *L)
{
    const struct charged *row   = lua_touserdata(L, lua_upvalueindex(2));
    uint64_t              steps = row->steps(L);
    if (steps > 0)
        script_charge(L, steps);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static const struct charged charged[] = {
    { "_G", "rawequal", comparison_steps },
    { "_G", "select", argument_steps },
    { "_G", "tonumber", text_steps },
    { "debug", "traceback", traceback_steps },
    { "string", "char", argument_steps },
    { "string", "lower", text_steps },
    { "string", "pack", pack_steps },
    { "string", "packsize", layout_steps },
    { "string", "rep", rep_steps },
    { "string", "reverse", text_steps },
    { "string", "upper", text_steps },
    { "utf8", "char", argument_steps },
    { "utf8", "codepoint", codepoint_steps },
    { "utf8", "len", utf8_len_steps },
};

/* In the metatable of all strings: "10" + 1 reads a number out of a text. */
static const struct charged charged_operators[] = {
    { NULL, "__add", operand_steps }, { NULL, "__sub", operand_steps }, { NULL, "__mul", operand_steps },
    { NULL, "__div", operand_steps }, { NULL, "__mod", operand_steps }, { NULL, "__pow", operand_steps },
    { NULL, "__idiv", operand_steps }, { NULL, "__unm", operand_steps },
};

/* The function of the table at the top of the stack. */
static void
charge_function(lua_State *L, const struct charged *row)
{
    if (lua_getfield(L, -1, row->name) != LUA_TFUNCTION) {
        lua_pop(L, 1);
        return;
    }
    lua_pushlightuserdata(L, (void *)(uintptr_t)row);
    lua_pushcclosure(L, charged_call, 2);
    lua_setfield(L, -2, row->name);
}

/* ---- what is told only by what came out ---- */

/* Upvalue 1: Lua's own. How long a text is that it answers stands in the text that it reads. */
static int
unpack_call(lua_State *L)
{
    script_charge(L, unpack_steps(L));
    int      results = lua_tocfunction(L, lua_upvalueindex(1))(L);
    uint64_t bytes   = 0;
    for (int i = 1; i <= results; i++)
        bytes += text_length(L, -i);
    script_charge(L, steps_of_bytes(bytes));
    return results;
}

/* Upvalue 1: Lua's own. It went from its place (given, or an end of the text) to the one it answers, else to an end. */
static int
offset_call(lua_State *L)
{
    lua_Integer length = (lua_Integer)text_length(L, 1), count = lua_tointeger(L, 2);
    lua_Integer from   = lua_isnoneornil(L, 3) ? (count > 0 ? 1 : length + 1) : lua_tointeger(L, 3);
    int         results = lua_tocfunction(L, lua_upvalueindex(1))(L);
    if (from < 0)
        from += length + 1;
    lua_Integer to = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : count > 0 ? length : 0;
    script_charge(L, (uint64_t)(to > from ? to - from : from - to) / 4);
    return results;
}

/* Upvalue 1: Lua's own step, which passes over what continues a character: few bytes in a good text, any number in a
 * bad one. */
static int
codes_step(lua_State *L)
{
    size_t       length = 0;
    const char  *text   = luaL_checklstring(L, 1, &length);
    lua_Unsigned from   = (lua_Unsigned)lua_tointeger(L, 2), at = from;
    while (at < length && (text[at] & 0xC0) == 0x80)
        at++;
    if (at - from >= BYTES_A_STEP)
        script_charge(L, (at - from) / 4);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Upvalue 1: Lua's own. */
static int
codes_call(lua_State *L)
{
    int results = lua_tocfunction(L, lua_upvalueindex(1))(L);
    lua_pushvalue(L, -results);
    lua_pushcclosure(L, codes_step, 1);
    lua_replace(L, -results - 1);
    return results;
}

static void
replace_function(lua_State *L, const char *table, const char *name, lua_CFunction function)
{
    lua_getglobal(L, table);
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* Looking through all that Lua holds: marking costs about as much as making it. */
static uint64_t
steps_of_collecting(const struct script *script)
{
    enum { STEPS_AT_LEAST = 200 };
    return STEPS_AT_LEAST + 2 * steps_of_bytes(script->bytes);
}

/* One more counted point: what is found is let go of at once, tensors too. Upvalue 1: Lua's own, for the trusted. */
static int
lesson_collectgarbage(lua_State *L)
{
    struct script *script = script_of(L);
    const char    *what   = luaL_optstring(L, 1, "collect");
    if (strcmp(what, "count") == 0) {
        lua_pushnumber(L, (double)script->bytes / 1024);
        return 1;
    }
    if (strcmp(what, "collect") == 0) {
        struct task *me = script_task(L);
        script_charge(L, steps_of_collecting(script));
        lua_settop(L, 0);
        script_collect(L, me);
        lua_pushinteger(L, 0);
        return 1;
    }
    if (!script->options.trusted)
        return raise_error(L, "RuntimeError", "collectgarbage(\"%.20s\") is not for lessons: it takes \"collect\" or "
                           "\"count\"", what);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

void
charge_libraries(lua_State *L)
{
    lua_getglobal(L, "collectgarbage");
    lua_pushcclosure(L, lesson_collectgarbage, 1);
    lua_setglobal(L, "collectgarbage");
    for (size_t i = 0; i < countof(charged); i++) {
        lua_getglobal(L, charged[i].table);
        charge_function(L, &charged[i]);
        lua_pop(L, 1);
    }
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    for (size_t i = 0; i < countof(charged_operators); i++)
        charge_function(L, &charged_operators[i]);
    lua_pop(L, 2);
    replace_function(L, "string", "unpack", unpack_call);
    replace_function(L, "utf8", "offset", offset_call);
    replace_function(L, "utf8", "codes", codes_call);
}

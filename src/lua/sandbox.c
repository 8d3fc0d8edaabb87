/* What a lesson may not do, and what must come out the same in every run. A lesson is a downloaded thing: no files, no
 * processes, no bytecode, no finalizers; --trust gives those back. pairs, next, tostring, string.format, math.random
 * and os.clock are replaced for everybody: Lua's own depend on addresses, hash seeds and the clock. Libraries whose
 * work does not count in Lua are search.c's, tables.c's and charges.c's. */
#include "lua/shelf.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "base/vec.h"
#include "base/visible.h"
#include "lua/lesson.h"
#include "lua/mistakes.h"
#include "lua/spawn.h"
#include "sched/sched.h"
#include "sched/task.h"

static const char NUMBERS[] = "ringside.numbers", METATABLES[] = "ringside.metatables";

/* Of a conversion of string.format, one with hundreds of digits, a key that is compared, a piece of a text to load. */
enum { FORMAT_STEPS = 16, DIGITS_STEPS = 1000, KEY_STEPS = 2, PIECE_STEPS = 8 };

/* ---- names without addresses ---- */

/* Things are numbered per type in the order in which they are first asked for. */
static int64_t
number_of(lua_State *L, int index, const char *type)
{
    push_weak_table(L, NUMBERS, "k");
    lua_pushvalue(L, index);
    if (lua_rawget(L, -2) == LUA_TNIL) {
        lua_getfield(L, -2, type);
        int64_t next = lua_tointeger(L, -1) + 1;
        lua_pushinteger(L, next);
        lua_setfield(L, -4, type);
        lua_pushvalue(L, index);
        lua_pushinteger(L, next);
        lua_rawset(L, -5);
        lua_pop(L, 3);
        return next;
    }
    int64_t number = lua_tointeger(L, -1);
    lua_pop(L, 2);
    return number;
}

static void
push_identity(lua_State *L, int index)
{
    const char *type = luaL_typename(L, index);
    if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING)
        type = lua_tostring(L, -1);
    script_charge(L, 4 * steps_of_bytes(strlen(type))); /* a lesson's __name may be of any length, and is copied */
    int64_t number = lua_type(L, index) == LUA_TLIGHTUSERDATA ? 0 : number_of(L, index, type);
    lua_pushfstring(L, "%s: %I", type, (lua_Integer)number);
}

void
push_text(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    int type = lua_type(L, index);
    bool named = (type == LUA_TTABLE || type == LUA_TUSERDATA) && luaL_getmetafield(L, index, "__tostring") != LUA_TNIL;
    if (named)
        lua_pop(L, 1);
    if (type == LUA_TNUMBER && isnan(lua_tonumber(L, index))) {
        lua_pushliteral(L, "nan"); /* its sign differs between machines */
        return;
    }
    if (named || type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING) {
        luaL_tolstring(L, index, NULL);
        return;
    }
    int top = lua_gettop(L);
    push_identity(L, index);
    if (lua_gettop(L) > top + 1)
        lua_replace(L, top + 1);
}

static int
repeatable_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    push_text(L, 1);
    return 1;
}

/* A script without a run around it has no lesson to speak for it. */
static void
print_piece(struct lesson *lesson, FILE *out, const char *text, size_t length)
{
    if (lesson != NULL)
        lesson_print_text(lesson, text, length);
    else
        visible_write(out, text, length, VISIBLE_LINES);
}

/* All of it becomes text first: that may call the lesson's functions, and may raise. */
static int
repeatable_print(lua_State *L)
{
    struct script *script = script_of(L);
    struct lesson *lesson = lesson_of(script->holder);
    FILE          *out    = script->options.out;
    int            count  = lua_gettop(L);
    for (int i = 1; i <= count; i++) {
        push_shown(L, i);
        lua_replace(L, i);
    }
    if (lesson != NULL)
        lesson_print_open(lesson, script_rank(script));
    for (int i = 1; i <= count; i++) {
        size_t      length = 0;
        const char *text   = lua_tolstring(L, i, &length);
        print_piece(lesson, out, "\t", i > 1);
        print_piece(lesson, out, text, length);
    }
    if (lesson != NULL)
        lesson_print_close(lesson);
    else
        print_piece(lesson, out, "\n", 1);
    return 0;
}

/* What the conversion of this letter, its flags `length` characters long, does with the text or number at `index`. A
 * number that is large or wanted precisely has hundreds of digits; %q writes what cannot be printed as numbers. */
static uint64_t
conversion_steps(lua_State *L, char letter, size_t length, int index)
{
    if (lua_type(L, index) == LUA_TNUMBER) {
        bool many = strchr("aAeEfFgG", letter) != NULL && (length > 4 || fabs(lua_tonumber(L, index)) > 1e17);
        return many ? DIGITS_STEPS : FORMAT_STEPS;
    }
    if (lua_type(L, index) != LUA_TSTRING)
        return FORMAT_STEPS;
    size_t      bytes    = 0, unprintable = 0;
    const char *text     = lua_tolstring(L, index, &bytes);
    for (size_t i = 0; letter == 'q' && i < bytes; i++)
        unprintable += (unsigned char)text[i] < ' ' || text[i] == 127;
    return FORMAT_STEPS + steps_of_bytes(letter == 'q' ? 4 * bytes : bytes) + unprintable * FORMAT_STEPS;
}

/* Upvalue 1 is the library's own: it gets the same format with %p as %s, and texts instead of things. Charges what it
 * will do: a conversion costs as much as some of Lua's instructions, and texts are copied. */
static int
repeatable_format(lua_State *L)
{
    size_t      length = 0;
    uint64_t    steps  = 0;
    const char *format = luaL_checklstring(L, 1, &length), *end = format + length, *at = format;
    char       *copy   = NULL; /* on the stack behind the arguments, if there is a %p */
    int         arg    = 1, last = lua_gettop(L);
    for (; (at = memchr(at, '%', (size_t)(end - at))) != NULL; at++) {
        size_t flags = strspn(at + 1, "-+ #0123456789.");
        at += 1 + flags;
        if (at >= end)
            break;
        if (*at == '%')
            continue;
        if (++arg > last)
            break;
        int  type  = lua_type(L, arg);
        bool thing = type != LUA_TSTRING && type != LUA_TNUMBER;
        if (*at == 'p' && copy == NULL)
            copy = memcpy(lua_newuserdatauv(L, length + 1, 0), format, length + 1);
        if (*at == 'p')
            copy[at - format] = 's';
        if ((*at == 's' || *at == 'p') && thing) {
            push_text(L, arg);
            lua_replace(L, arg);
        }
        if (type == LUA_TNUMBER && isnan(lua_tonumber(L, arg))) { /* which sign it has differs between processors */
            lua_pushnumber(L, fabs(lua_tonumber(L, arg)));
            lua_replace(L, arg);
        }
        steps += conversion_steps(L, *at, flags, arg);
    }
    if (copy != NULL) {
        lua_pushlstring(L, copy, length);
        lua_replace(L, 1);
        lua_settop(L, last);
    }
    script_charge(L, steps + steps_of_bytes(4 * length));
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* ---- order ---- */

enum key_rank { KEY_NUMBER, KEY_TEXT, KEY_BOOL, KEY_BOX };
struct sorted_key {
    enum key_rank rank;
    bool          is_integer;
    int64_t       integer;
    double        number;
    const char   *text;
    size_t        length;
    int           at;      /* its place in the list of keys as they came */
};

static int
compare_number_keys(const struct sorted_key *a, const struct sorted_key *b)
{
    if (a->is_integer && b->is_integer)
        return a->integer < b->integer ? -1 : a->integer > b->integer;
    double x = a->is_integer ? (double)a->integer : a->number, y = b->is_integer ? (double)b->integer : b->number;
    return x < y ? -1 : x > y;
}

static int
compare_sorted_keys(const void *left, const void *right)
{
    const struct sorted_key *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->rank != KEY_TEXT)
        return compare_number_keys(a, b);
    size_t shorter = a->length < b->length ? a->length : b->length;
    int    order   = memcmp(a->text, b->text, shorter);
    return order != 0 ? order : a->length < b->length ? -1 : a->length > b->length;
}

/* Describes the key at the top of the stack, which stays. */
static struct sorted_key
describe_key(lua_State *L, int at)
{
    struct sorted_key key = { .at = at, .is_integer = true };
    switch (lua_type(L, -1)) {
    case LUA_TNUMBER:
        key.is_integer = lua_isinteger(L, -1);
        key.integer    = lua_tointeger(L, -1);
        key.number     = lua_tonumber(L, -1);
        return key;
    case LUA_TSTRING:
        key.rank = KEY_TEXT;
        key.text = lua_tolstring(L, -1, &key.length);
        return key;
    case LUA_TBOOLEAN:
        key.rank    = KEY_BOOL;
        key.integer = lua_toboolean(L, -1);
        return key;
    }
    key.rank = KEY_BOX;
    for (int kind = 0; kind < BOX_KINDS && lua_type(L, -1) == LUA_TUSERDATA; kind++) {
        struct box *box = luaL_testudata(L, -1, box_metatable((enum box_kind)kind));
        if (box != NULL)
            key.integer = box->serial;
    }
    return key;
}

static int
count_keys(lua_State *L, int index)
{
    int count = 0;
    lua_pushnil(L);
    for (; lua_next(L, index) != 0; count++)
        lua_pop(L, 1);
    return count;
}

int
push_sorted_keys(lua_State *L, int index)
{
    index             = lua_absindex(L, index);
    shelf_fill(L, index);
    int         count = count_keys(L, index), at = 0;
    script_charge(L, (uint64_t)count * KEY_STEPS * (uint64_t)(64 - __builtin_clzll((uint64_t)count | 1)));
    struct sorted_key *keys  = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *keys, 0);
    lua_createtable(L, count, 0); /* as they come */
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        lua_pop(L, 1);
        keys[at] = describe_key(L, at + 1);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, ++at);
    }
    qsort(keys, (size_t)at, sizeof *keys, compare_sorted_keys);
    for (int i = 1; i < at; i++)
        if (keys[i].rank == KEY_BOX && keys[i].integer == 0)
            raise_error(L, "RuntimeError", "this table has tables or functions as keys, and their order would differ "
                        "from run to run: use names or numbers");
    lua_createtable(L, at, 0);
    for (int i = 0; i < at; i++) {
        lua_rawgeti(L, -2, keys[i].at);
        lua_rawseti(L, -2, i + 1);
    }
    lua_replace(L, -3);
    lua_pop(L, 1);
    return at;
}

/* Upvalues: the table, its keys in order, how many are done. What was removed meanwhile is left out. */
static int
pairs_step(lua_State *L)
{
    int64_t at = lua_tointeger(L, lua_upvalueindex(3));
    for (;;) {
        lua_settop(L, 0);
        if (lua_rawgeti(L, lua_upvalueindex(2), ++at) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, 1);
        if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL)
            continue;
        lua_pushinteger(L, at);
        lua_replace(L, lua_upvalueindex(3));
        return 2;
    }
}

static int
repeatable_pairs(lua_State *L)
{
    luaL_checkany(L, 1);
    if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 3);
        return 3;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_pushvalue(L, 1);
    push_sorted_keys(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_step, 3);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

/* The smallest key above the given one. Slower than pairs, which keeps the sorted keys. */
static int
repeatable_next(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    int count = push_sorted_keys(L, 1), at = 1;
    if (!lua_isnil(L, 2)) {
        struct sorted_key best, given;
        lua_pushvalue(L, 2);
        given = describe_key(L, 0);
        lua_pop(L, 1);
        for (; at <= count; at++) {
            lua_rawgeti(L, 3, at);
            best = describe_key(L, 0);
            lua_pop(L, 1);
            if (compare_sorted_keys(&best, &given) > 0)
                break;
        }
    }
    if (at > count) {
        lua_pushnil(L);
        return 1;
    }
    lua_rawgeti(L, 3, at);
    lua_pushvalue(L, -1);
    lua_rawget(L, 1);
    return 2;
}

/* ---- chance and time ---- */

static uint64_t
rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static uint64_t
random_next(struct script *script)
{
    uint64_t *s = script->random, result = rotate(s[1] * 5, 7) * 9, shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

static int64_t
random_integer(struct script *script, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low, mask = span, draw;
    for (int shift = 1; shift < 64; shift *= 2)
        mask |= mask >> shift;
    do
        draw = random_next(script) & mask;
    while (draw > span);
    return (int64_t)((uint64_t)low + draw);
}

static int
repeatable_random(lua_State *L)
{
    struct script *script = script_of(L);
    int64_t        low = 1, high;
    switch (lua_gettop(L)) {
    case 0: lua_pushnumber(L, (double)(random_next(script) >> 11) * 0x1p-53); return 1;
    case 1: high = luaL_checkinteger(L, 1); break;
    default:
        low  = luaL_checkinteger(L, 1);
        high = luaL_checkinteger(L, 2);
    }
    if (lua_gettop(L) == 1 && high == 0) {
        lua_pushinteger(L, (lua_Integer)random_next(script));
        return 1;
    }
    luaL_argcheck(L, low <= high, lua_gettop(L), "interval is empty");
    lua_pushinteger(L, random_integer(script, low, high));
    return 1;
}

static int
repeatable_randomseed(lua_State *L)
{
    struct script *script = script_of(L);
    uint64_t       seed   = script->options.seed;
    if (!lua_isnoneornil(L, 1)) {
        double number = luaL_checknumber(L, 1);
        if (!lua_isinteger(L, 1))
            memcpy(&seed, &number, sizeof seed);
        else
            seed = (uint64_t)lua_tointeger(L, 1);
    }
    for (size_t i = 0; i < countof(script->random); i++)
        script->random[i] = splitmix(&seed);
    return 0;
}

/* Seconds of the run's own clock: virtual in `stepped`. */
static int
repeatable_clock(lua_State *L)
{
    lua_pushnumber(L, (double)sched_now(script_of(L)->holder) * 1e-12);
    return 1;
}

/* ---- what is not for lessons ---- */

/* Upvalues: a lesson's function that gives load a text piece by piece, and how many bytes it has given. */
static int
load_piece(lua_State *L)
{
    lua_Unsigned before = (lua_Unsigned)lua_tointeger(L, lua_upvalueindex(2));
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_call(L, 0, 1);
    lua_Unsigned bytes = before + (lua_type(L, -1) == LUA_TSTRING ? lua_rawlen(L, -1) : 0);
    script_charge(L, PIECE_STEPS + steps_of_source(bytes) - steps_of_source(before));
    lua_pushinteger(L, (lua_Integer)bytes);
    lua_replace(L, lua_upvalueindex(2));
    return 1;
}

static int
text_load(lua_State *L)
{
    lua_settop(L, lua_isnone(L, 4) ? 3 : 4);
    lua_pushliteral(L, "t"); /* whatever mode was asked for */
    lua_replace(L, 3);
    if (lua_type(L, 1) == LUA_TSTRING) {
        script_charge(L, steps_of_source(lua_rawlen(L, 1)));
    } else if (lua_type(L, 1) == LUA_TFUNCTION) {
        lua_pushvalue(L, 1);
        lua_pushinteger(L, 0);
        lua_pushcclosure(L, load_piece, 2);
        lua_replace(L, 1);
    }
    int results = lua_tocfunction(L, lua_upvalueindex(1))(L);
    if (script_of(L)->fatal && lua_isnil(L, -results))
        return lua_error(L); /* raised by a piece: what pcall does not catch, load does not either */
    return results;
}

/* Lua looks for __gc when the metatable is set, never later. */
void
sandbox_metatable(lua_State *L, int index)
{
    if (script_of(L)->options.trusted || lua_type(L, index) != LUA_TTABLE)
        return;
    index = lua_absindex(L, index);
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, index) != LUA_TNIL)
        raise_error(L, "RuntimeError", "a lesson's tables cannot have __gc: when it runs would differ from run to run");
    push_weak_table(L, METATABLES, "k");
    lua_pushvalue(L, index);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    lua_pop(L, 2);
}

/* Only those that the lesson has set, and that of texts, are its own to change: into another one it could put a __gc
 * that the engine's next setmetatable finds. For the rest stands a word, as __metatable gives it. */
static int
lesson_getmetatable(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    if (!lua_getmetatable(L, 1))
        lua_pushnil(L);
    if (lua_isnil(L, 2) || lua_type(L, 1) == LUA_TSTRING || luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return 1;
    push_weak_table(L, METATABLES, "k");
    lua_pushvalue(L, 2);
    bool own = lua_rawget(L, -2) != LUA_TNIL;
    lua_settop(L, 2);
    if (!own && luaL_getmetafield(L, 1, "__name") != LUA_TSTRING)
        lua_pushstring(L, luaL_typename(L, 1));
    return 1;
}

static int
plain_setmetatable(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    sandbox_metatable(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

static int
require_ringside(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    if (strcmp(name, "ringside") != 0)
        raise_error(L, "RuntimeError", "require \"%.60s\": a lesson can require \"ringside\" only; --trust lifts this",
                    name);
    push_ringside(L);
    return 1;
}

static int
finish_pcall(lua_State *L, int status, lua_KContext first)
{
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - (int)first;
    if (script_of(L)->fatal)
        return lua_error(L); /* a budget is exceeded, or the run is stopped */
    if (status == LUA_ERRMEM && script_of(L)->no_memory) {
        script_of(L)->fatal = true;
        return raise_error(L, "BudgetError", "the lesson needs more memory than its limit; --trust lifts the limit");
    }
    lua_pushboolean(L, false);
    lua_insert(L, -2);
    return 2;
}

static int
lesson_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushboolean(L, true);
    lua_insert(L, 1);
    return finish_pcall(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_pcall), 0);
}

/* Upvalue 1 is the lesson's handler. Lua calls it with hooks off when a hook has raised: then nothing could stop it. */
static int
guarded_handler(lua_State *L)
{
    if (script_of(L)->fatal)
        return 1;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

static int
lesson_xpcall(lua_State *L)
{
    int count = lua_gettop(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, guarded_handler, 1);
    lua_replace(L, 2);
    lua_pushboolean(L, true);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* f, handler, true, f, arguments */
    return finish_pcall(L, lua_pcallk(L, count - 2, LUA_MULTRET, 2, 2, finish_pcall), 2);
}

/* `function` gets the library's own as its upvalue 1. */
static void
set_wrapped(lua_State *L, int table, const char *name, lua_CFunction function)
{
    table = lua_absindex(L, table);
    lua_getfield(L, table, name);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, table, name);
}

static void
set_absent(lua_State *L, const char *library, const char *name)
{
    lua_getglobal(L, library);
    lua_pushnil(L);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

static void
restrict_lesson(lua_State *L)
{
    static const char *const globals[] = { "io", "package", "dofile", "loadfile", "warn" };
    for (size_t i = 0; i < countof(globals); i++) {
        lua_pushnil(L);
        lua_setglobal(L, globals[i]);
    }
    lua_pushglobaltable(L);
    set_wrapped(L, -1, "load", text_load);
    set_wrapped(L, -1, "setmetatable", plain_setmetatable);
    lua_pop(L, 1);
    lua_register(L, "getmetatable", lesson_getmetatable);
    lua_register(L, "require", require_ringside);
    set_absent(L, "string", "dump");
    lua_newtable(L);
    lua_setglobal(L, "os");
    lua_newtable(L);
    lua_getglobal(L, "debug");
    lua_getfield(L, -1, "traceback");
    lua_setfield(L, -3, "traceback");
    lua_pop(L, 1);
    lua_setglobal(L, "debug");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (size_t i = 0; i < countof(globals); i++) {
        lua_pushnil(L);
        lua_setfield(L, -2, globals[i]);
    }
    lua_pop(L, 1);
}

static void
set_field(lua_State *L, const char *library, const char *name, lua_CFunction function)
{
    lua_getglobal(L, library);
    lua_pushcfunction(L, function);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* A tensor's rows and a module's layers count from 0: ipairs would leave the first one out. */
static int
lesson_ipairs(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TUSERDATA && (test_tensor(L, 1) != NULL || test_module(L, 1) != NULL))
        raise_error(L, "TypeError", "ipairs counts from 1, a %s from 0; instead of for i, row in ipairs(x) write "
                    "for i = 0, #x - 1 do local row = x[i]", test_tensor(L, 1) != NULL ? "Tensor" : "Module");
    if (has_class(L, 1, LOADER_CLASS))
        raise_error(L, "TypeError", "a DataLoader is no list; instead of for i, batch in ipairs(loader) write "
                    "for x, y in loader do");
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* A function that is made on first use is there all the same. */
static int
lesson_rawget(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    shelf_get(L, 1);
    return 1;
}

void
sandbox_open(lua_State *L, struct script *script)
{
    static const luaL_Reg globals[] = {
        { "pairs", repeatable_pairs }, { "next", repeatable_next },   { "tostring", repeatable_tostring },
        { "print", repeatable_print }, { "pcall", lesson_pcall },     { "xpcall", lesson_xpcall },
        { "rawget", lesson_rawget }, { NULL, NULL },
    };
    if (!script->options.trusted)
        restrict_lesson(L);
    mistakes_open(L);
    lua_pushglobaltable(L);
    luaL_setfuncs(L, globals, 0);
    set_wrapped(L, -1, "ipairs", lesson_ipairs);
    lua_pop(L, 1);
    lua_getglobal(L, "string");
    set_wrapped(L, -1, "format", repeatable_format);
    lua_pop(L, 1);
    search_open(L);
    tables_open(L);
    mathematics_open(L);
    charge_libraries(L);
    guard_coroutines(L);
    set_field(L, "math", "random", repeatable_random);
    set_field(L, "math", "randomseed", repeatable_randomseed);
    set_field(L, "os", "clock", repeatable_clock);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    push_ringside(L);
    lua_setfield(L, -2, "ringside");
    lua_pop(L, 1);
}

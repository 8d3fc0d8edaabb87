/* Arguments of functions called by Lua: what is wrong with one is a TypeError (or ValueError, IndexError) that names
 * it.
 * Options are fields of one trailing plain table. Nothing here touches the engine. */
#include "lua/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/nearest.h"
#include "device/device.h"
#include "lua/mistakes.h"
#include "tensor/tensor.h"

int64_t
check_integer(lua_State *L, int index)
{
    int     is_integer = 0;
    int64_t value      = lua_tointegerx(L, index, &is_integer);
    if (!is_integer || lua_type(L, index) != LUA_TNUMBER)
        arg_error(L, index, "an integer");
    return value;
}

int64_t
opt_integer(lua_State *L, int index, int64_t otherwise)
{
    return lua_isnoneornil(L, index) ? otherwise : check_integer(L, index);
}

double
check_number(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TNUMBER)
        arg_error(L, index, "a number");
    return lua_tonumber(L, index);
}

const char *
check_text(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TSTRING)
        arg_error(L, index, "a string");
    return lua_tostring(L, index);
}

void
check_function(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TFUNCTION)
        arg_error(L, index, "a function");
}

static void
unknown_dtype(lua_State *L, const char *name)
{
    raise_error(L, "TypeError", "unknown dtype \"%.60s\": there are float32, float64, float16, bfloat16, int64, "
                                "int32, int8, uint8, bool", name);
}

void
check_table(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TTABLE)
        arg_error(L, index, "a table");
}

bool
check_flag(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TBOOLEAN)
        arg_error(L, index, "true or false");
    return lua_toboolean(L, index);
}

bool
opt_flag(lua_State *L, int index, bool otherwise)
{
    return lua_isnoneornil(L, index) ? otherwise : check_flag(L, index);
}

enum dtype
check_dtype(lua_State *L, int index)
{
    enum dtype dtype = DTYPE_F32;
    if (lua_type(L, index) != LUA_TSTRING)
        arg_error(L, index, "a dtype such as \"float32\"");
    if (!dtype_parse(lua_tostring(L, index), &dtype))
        unknown_dtype(L, lua_tostring(L, index));
    return dtype;
}

static bool
device_parse(const char *text, int *device)
{
    if (strcmp(text, "cpu") == 0) {
        *device = DEVICE_CPU;
        return true;
    }
    size_t word = strncmp(text, "device", 6) == 0 ? 6 : strncmp(text, "cuda", 4) == 0 ? 4 : 0;
    *device     = 0;
    if (word == 0 || text[word] == '\0')
        return word > 0;
    char *end    = NULL;
    long  number = strtol(text + word + 1, &end, 10);
    *device      = (int)number;
    return text[word] == ':' && end != text + word + 1 && *end == '\0' && number >= 0 && number < DEVICE_MAX;
}

int
check_device(lua_State *L, int index)
{
    int device = DEVICE_CPU;
    if (lua_isinteger(L, index)) {
        int64_t number = lua_tointeger(L, index);
        if (number < DEVICE_CPU || number >= DEVICE_MAX)
            raise_error(L, "RuntimeError", "there is no device %lld", (long long)number);
        return (int)number;
    }
    if (lua_type(L, index) != LUA_TSTRING)
        arg_error(L, index, "a device such as \"cpu\" or \"device:1\"");
    if (!device_parse(lua_tostring(L, index), &device))
        raise_error(L, "RuntimeError", "\"%.60s\" is no device: devices are \"cpu\", \"device:0\", \"device:1\" ...",
                    lua_tostring(L, index));
    return device;
}

/* Nothing: the current device; the host of a lesson without a current one means device:0. */
int
opt_device(lua_State *L, int index)
{
    int device = lua_isnoneornil(L, index) ? script_of(L)->holder->device : check_device(L, index);
    return device < 0 ? 0 : device;
}

/* Ours have a metatable; so have a class and its objects. Sizes (t.shape) and lists of parameters are plain all the
 * same. */
bool
is_plain_table(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TTABLE)
        return false;
    if (!lua_getmetatable(L, index))
        return true;
    luaL_getmetatable(L, "ringside.size");
    luaL_getmetatable(L, "ringside.list");
    bool plain = lua_rawequal(L, -1, -3) || lua_rawequal(L, -2, -3);
    lua_pop(L, 3);
    return plain;
}

void
gather_values(lua_State *L, int first)
{
    int count = lua_gettop(L) - first + 1;
    lua_createtable(L, count, 0);
    lua_insert(L, first);
    for (int i = count; i >= 1; i--)
        lua_rawseti(L, first, i);
}

int
option_table(lua_State *L, int index)
{
    if (index == 0 || lua_isnoneornil(L, index))
        return 0;
    if (!is_plain_table(L, index))
        arg_error(L, index, "a table of options");
    return lua_absindex(L, index);
}

enum dtype
option_dtype(lua_State *L, int table, enum dtype otherwise)
{
    const char *name = option_text(L, table, "dtype", NULL);
    if (name != NULL && !dtype_parse(name, &otherwise))
        unknown_dtype(L, name);
    return otherwise;
}

bool
option_push(lua_State *L, int table, const char *name)
{
    if (table == 0 || !lua_istable(L, table))
        return false;
    lua_pushstring(L, name);
    if (lua_rawget(L, table) != LUA_TNIL)
        return true;
    lua_pop(L, 1);
    return false;
}

static int
option_error(lua_State *L, const char *name, const char *expected)
{
    return raise_error(L, "TypeError", "option %s: expected %s, got %s", name, expected, luaL_typename(L, -1));
}

int64_t
option_integer(lua_State *L, int table, const char *name, int64_t otherwise)
{
    if (!option_push(L, table, name))
        return otherwise;
    if (!lua_isinteger(L, -1))
        option_error(L, name, "an integer");
    int64_t value = lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

double
option_number(lua_State *L, int table, const char *name, double otherwise)
{
    if (!option_push(L, table, name))
        return otherwise;
    if (lua_type(L, -1) != LUA_TNUMBER)
        option_error(L, name, "a number");
    double value = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

bool
option_bool(lua_State *L, int table, const char *name, bool otherwise)
{
    if (!option_push(L, table, name))
        return otherwise;
    if (lua_type(L, -1) != LUA_TBOOLEAN)
        option_error(L, name, "true or false");
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

bool
flag_or_option(lua_State *L, int index, const char *name, bool otherwise)
{
    if (!lua_istable(L, index))
        return opt_flag(L, index, otherwise);
    option_known(L, index, name);
    return option_bool(L, index, name, otherwise);
}

const char *
option_text(lua_State *L, int table, const char *name, const char *otherwise)
{
    if (!option_push(L, table, name))
        return otherwise;
    if (lua_type(L, -1) != LUA_TSTRING)
        option_error(L, name, "a string");
    const char *value = lua_tostring(L, -1);
    lua_pop(L, 1); /* the table keeps it */
    return value;
}

int
option_device(lua_State *L, int table, int otherwise)
{
    if (!option_push(L, table, "device"))
        return otherwise;
    if (lua_type(L, -1) != LUA_TSTRING && !lua_isinteger(L, -1))
        option_error(L, "device", "a device such as \"device:1\"");
    int device = check_device(L, -1);
    lua_pop(L, 1);
    return device;
}

static bool
listed(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return length > 0;
    return false;
}

/* The nearest of the words, which blanks separate; "" none. */
static void
nearest_word(const char *words, const char *word, char *out, size_t size)
{
    size_t least = word_reach(word) + 1;
    out[0]       = '\0';
    for (const char *at = words; *at != '\0'; at += strspn(at, " ")) {
        char   one[64];
        size_t length = strcspn(at, " ");
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        at += length;
        size_t far = word_distance(word, one);
        if (far >= least)
            continue;
        least = far;
        snprintf(out, size, "%s", one);
    }
}

static int
option_unknown(lua_State *L, const char *name, const char *names)
{
    char meant[64];
    if (names[0] == '\0')
        return raise_error(L, "TypeError", "unknown option '%.60s': there are none here", name);
    if (mistake_in_option(L, name))
        return raise_error(L, "TypeError", "unknown option '%.60s'; %s; there are: %s", name, lua_tostring(L, -1),
                           names);
    nearest_word(names, name, meant, sizeof meant);
    return raise_error(L, "TypeError", "unknown option '%.60s'%s%s%s there are: %s", name,
                       meant[0] != '\0' ? ": did you mean '" : "", meant, meant[0] != '\0' ? "'?" : ";", names);
}

void
options_listed(lua_State *L, int table, const char *names)
{
    lua_pushnil(L);
    while (lua_next(L, table) != 0) {
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING && !listed(names, lua_tostring(L, -1)))
            option_unknown(L, lua_tostring(L, -1), names);
    }
}

void
option_known(lua_State *L, int table, const char *names)
{
    if (table == 0)
        return;
    if (!is_plain_table(L, table))
        arg_error(L, table, "a table of options");
    lua_pushnil(L);
    while (lua_next(L, table) != 0) {
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING && !listed(names, lua_tostring(L, -1)))
            option_unknown(L, lua_tostring(L, -1), names);
        if (lua_type(L, -1) == LUA_TNUMBER)
            raise_error(L, "TypeError", "an option has a name, as in {name = value}; there are: %s", names);
        if (lua_type(L, -1) != LUA_TSTRING)
            raise_error(L, "TypeError", "the name of an option is a string, not a %s", luaL_typename(L, -1));
    }
}

void
set_integer(lua_State *L, int table, const char *name, int64_t value)
{
    table = lua_absindex(L, table);
    lua_pushinteger(L, value);
    lua_setfield(L, table, name);
}

void
set_number(lua_State *L, int table, const char *name, double value)
{
    table = lua_absindex(L, table);
    lua_pushnumber(L, value);
    lua_setfield(L, table, name);
}

void
set_flag(lua_State *L, int table, const char *name, bool flag)
{
    table = lua_absindex(L, table);
    lua_pushboolean(L, flag);
    lua_setfield(L, table, name);
}

void
set_text(lua_State *L, int table, const char *name, const char *text)
{
    table = lua_absindex(L, table);
    lua_pushstring(L, text);
    lua_setfield(L, table, name);
}

/* Starts behind the elements: only what is named follows. Of several names the first in the alphabet is told. */
void
list_only(lua_State *L, int index)
{
    lua_Integer length = (lua_Integer)lua_rawlen(L, index);
    const char *name   = NULL;
    index = lua_absindex(L, index);
    if (length == 0)
        lua_pushnil(L);
    else
        lua_pushinteger(L, length);
    for (; lua_next(L, index) != 0; lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "n";
        if (strcmp(key, "n") != 0 && (name == NULL || strcmp(key, name) < 0)) /* n is table.pack's */
            name = key;
    }
    if (name != NULL)
        raise_error(L, "TypeError", "'%.60s' stands in a list, where nobody looks for it; instead of "
                    "f({ a, b, %.60s = v }) write f({ a, b }, { %.60s = v })", name, name, name);
}

struct tensor **
check_tensors(lua_State *L, int index, int *count)
{
    index = lua_absindex(L, index);
    if (test_tensor(L, index) != NULL) {
        struct tensor **one = lua_newuserdatauv(L, sizeof *one, 0);
        one[0]              = test_tensor(L, index);
        *count              = 1;
        return one;
    }
    if (!lua_istable(L, index))
        arg_error(L, index, "a list of tensors");
    size_t length = lua_rawlen(L, index);
    list_only(L, index);
    if (length > 1 << 20)
        raise_error(L, "ValueError", "a list of %zu tensors is too long", length);
    struct tensor **tensors = lua_newuserdatauv(L, (length + 1) * sizeof *tensors, 1);
    lua_createtable(L, (int)length, 0);
    for (size_t i = 0; i < length; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        tensors[i] = test_tensor(L, -1);
        if (tensors[i] == NULL)
            raise_error(L, "TypeError", "element %zu of the list: expected Tensor, got %s",
                        i + 1, luaL_typename(L, -1));
        lua_rawseti(L, -2, (lua_Integer)i + 1); /* kept alive even if the lesson changes its list meanwhile */
    }
    lua_setiuservalue(L, -2, 1);
    *count = (int)length;
    return tensors;
}

/* rs.json_load: a JSON file as Lua values, for trusted lessons only (the golden numbers are read with it). An object is
 * a table with names, an array a list, null rs.none.
 *
 * Interface: lua_open_json. */
#include "lua/json.h"

#include <stdlib.h>
#include <string.h>
#include "base/json_text.h"
#include "base/reader.h"
#include "lua/internal.h"

enum { JSON_DEPTH = 100 };
#define JSON_BYTES ((size_t)1 << 30)

static void push_json(lua_State *L, const json_t *value, int depth);

static void
push_array(lua_State *L, const json_t *array, int depth)
{
    size_t count = json_array_size(array);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_json(L, json_array_get(array, i), depth + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void
push_object(lua_State *L, const json_t *object, int depth)
{
    const char *key;
    json_t     *value;
    lua_newtable(L);
    json_object_foreach ((json_t *)object, key, value) {
        lua_pushstring(L, key);
        push_json(L, value, depth + 1);
        lua_rawset(L, -3);
    }
}

static void
push_json(lua_State *L, const json_t *value, int depth)
{
    luaL_checkstack(L, 10, "nested too deeply");
    if (depth > JSON_DEPTH)
        raise_error(L, "ValueError", "nested deeper than %d levels", JSON_DEPTH);
    switch (json_typeof(value)) {
    case JSON_OBJECT: push_object(L, value, depth); break;
    case JSON_ARRAY: push_array(L, value, depth); break;
    case JSON_STRING: lua_pushlstring(L, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: lua_pushinteger(L, (lua_Integer)json_integer_value(value)); break;
    case JSON_REAL: lua_pushnumber(L, json_real_value(value)); break;
    case JSON_TRUE: lua_pushboolean(L, 1); break;
    case JSON_FALSE: lua_pushboolean(L, 0); break;
    case JSON_NULL:
        push_ringside(L);
        lua_getfield(L, -1, "none");
        lua_remove(L, -2);
        break;
    }
}

static int
free_json(lua_State *L)
{
    json_t **root = lua_touserdata(L, 1);
    json_decref(*root);
    *root = NULL;
    return 0;
}

static int
l_json_load(lua_State *L)
{
    const char       *path = check_text(L, 1), *why = NULL;
    size_t            size = 0;
    struct json_wrong wrong;
    json_t          **root = push_owned(L, sizeof *root, "ringside.json", free_json);
    char             *text = file_read(path, JSON_BYTES, &size, &why);
    if (text == NULL)
        return raise_error(L, strcmp(why, "out of memory") == 0 ? "MemoryError" : "ValueError", "%s: %s", path, why);
    *root = json_text_parse(text, size, 0, &wrong);
    free(text);
    if (*root == NULL && wrong.why == NULL)
        return raise_error(L, "MemoryError", "out of memory while reading %s", path);
    if (*root == NULL)
        return raise_error(L, "ValueError", "%s:%d: %s", path, wrong.line, wrong.why);
    push_json(L, *root, 0);
    json_decref(*root);
    *root = NULL;
    return 1;
}

static const struct lua_entry json_entries[] = {
    { "json_load", l_json_load, "rs.json_load(path)", "a JSON file as tables; trusted lessons only" },
};

void
lua_open_json(lua_State *L)
{
    if (!script_of(L)->options.trusted)
        return;
    push_ringside(L);
    add_entries(L, lua_gettop(L), json_entries, 1);
    lua_pop(L, 1);
}

/* rs.exercise, rs.vary and their like: how the checks of an exercise get what a student wrote. The student's file is a
 * chunk that returns a table of answers. It runs in the checks' own state, with an environment of its own, in which
 * everything that could reach the checks is missing, refuses, or is a copy.
 *
 * Interface: lua_open_exercise. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/reader.h"
#include "base/rng.h"
#include "base/vec.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "lua/mistakes.h"
#include "lua/shelf.h"
#include "lua/spawn.h"

enum { EXERCISE_BYTES = 1 << 20 };
static const char GUARDED[] = "ringside.guarded";

/* ---- rs, as an exercise sees it ---- */

static void push_guarded(lua_State *L);

/* Upvalue 1 is the table itself, here and below. */
static int
guarded_index(lua_State *L)
{
    static const char *const refused[] = { "lesson", "check", "close", "skip", "ask", "hint", "teacher", "exercise",
                                           "vary", "variant", "variant_random", "args" };
    lua_settop(L, 2);
    push_ringside(L);
    bool top = lua_rawequal(L, 3, lua_upvalueindex(1));
    for (size_t i = 0; top && lua_type(L, 2) == LUA_TSTRING && i < countof(refused); i++)
        if (strcmp(lua_tostring(L, 2), refused[i]) == 0)
            raise_error(L, "RuntimeError", "rs.%s belongs to the checks; an exercise only returns its answers",
                        refused[i]);
    lua_pushvalue(L, 2);
    lua_gettable(L, lua_upvalueindex(1));
    push_guarded(L);
    return 1;
}

static int
guarded_newindex(lua_State *L)
{
    push_text(L, 2);
    return raise_error(L, "RuntimeError", "an exercise changes nothing in rs: '%.60s' stays as it is",
                       lua_tostring(L, -1));
}

static int
guarded_call(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_replace(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* Upvalues: the table, its keys in order, how many are done. */
static int
guarded_next(lua_State *L)
{
    lua_Integer at = lua_tointeger(L, lua_upvalueindex(3)) + 1;
    lua_settop(L, 0);
    if (lua_rawgeti(L, lua_upvalueindex(2), at) == LUA_TNIL)
        return 1;
    lua_pushinteger(L, at);
    lua_replace(L, lua_upvalueindex(3));
    lua_pushvalue(L, 1);
    lua_rawget(L, lua_upvalueindex(1));
    push_guarded(L);
    return 2;
}

static int
guarded_pairs(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    push_sorted_keys(L, lua_upvalueindex(1));
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, guarded_next, 3);
    return 1;
}

static int
guarded_length(lua_State *L)
{
    lua_pushinteger(L, luaL_len(L, lua_upvalueindex(1)));
    return 1;
}

static void
set_guard(lua_State *L, const char *event, lua_CFunction function, int of)
{
    lua_pushvalue(L, of);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, -2, event);
}

/* A table of rs at the top is replaced by one that reads it and cannot change it, always the same one. */
static void
push_guarded(lua_State *L)
{
    int table = lua_gettop(L);
    if (!lua_istable(L, table))
        return;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, GUARDED);
    lua_pushvalue(L, table);
    if (lua_rawget(L, -2) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_createtable(L, 0, 6);
        set_guard(L, "__index", guarded_index, table);
        set_guard(L, "__newindex", guarded_newindex, table);
        set_guard(L, "__call", guarded_call, table);
        set_guard(L, "__pairs", guarded_pairs, table);
        set_guard(L, "__len", guarded_length, table);
        set_text(L, -1, "__metatable", "rs");
        lua_setmetatable(L, -2);
        lua_pushvalue(L, table);
        lua_pushvalue(L, -2);
        lua_rawset(L, table + 1);
    }
    lua_replace(L, table);
    lua_settop(L, table);
}

/* ---- the environment ---- */

/* Upvalue 1: the environment. */
static int
guest_require(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    if (strcmp(name, "ringside") != 0)
        return raise_error(L, "RuntimeError", "require \"%.60s\": an exercise can require \"ringside\" only", name);
    push_ringside(L);
    push_guarded(L);
    return 1;
}

/* Upvalues: the lesson's own load, the environment. What is loaded sees what the exercise sees. */
static int
guest_load(lua_State *L)
{
    bool given = !lua_isnone(L, 4);
    lua_settop(L, 4);
    lua_pushliteral(L, "t");
    lua_replace(L, 3);
    if (!given) {
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_replace(L, 4);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 4, LUA_MULTRET);
    return lua_gettop(L);
}

/* Upvalue 1: the lesson's own getmetatable. That of texts leads to the library that the checks use. */
static int
guest_getmetatable(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    if (lua_type(L, 1) == LUA_TSTRING) {
        lua_pushliteral(L, "string");
        return 1;
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

/* env[name] = a copy of the global table `name`; of all its functions that one alone, unless `only` is NULL. */
static void
copy_library(lua_State *L, int env, const char *name, const char *only)
{
    if (lua_getglobal(L, name) != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || (only != NULL && strcmp(lua_tostring(L, -2), only) != 0))
            continue;
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_setfield(L, env, name);
    lua_pop(L, 1);
}

/* env[name] = function, with the lesson's own of that name and the environment as upvalues. */
static void
set_guest(lua_State *L, int env, const char *name, lua_CFunction function)
{
    lua_getglobal(L, name);
    lua_pushvalue(L, env);
    lua_pushcclosure(L, function, 2);
    lua_setfield(L, env, name);
}

/* What the checks made global is not in it. */
static void
push_environment(lua_State *L)
{
    static const char *const functions[] = { "assert", "collectgarbage", "error", "ipairs", "next", "pairs", "pcall",
                                             "print", "rawequal", "rawget", "rawlen", "rawset", "select",
                                             "setmetatable", "tonumber", "tostring", "type", "xpcall", "_VERSION" };
    static const char *const libraries[] = { "string", "table", "math", "utf8", "coroutine" };
    lua_newtable(L);
    int env = lua_gettop(L);
    for (size_t i = 0; i < countof(functions); i++) {
        lua_getglobal(L, functions[i]);
        lua_setfield(L, env, functions[i]);
    }
    for (size_t i = 0; i < countof(libraries); i++)
        copy_library(L, env, libraries[i], NULL);
    lua_getfield(L, env, "string");
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
    lua_pop(L, 1);
    copy_library(L, env, "os", "clock");
    copy_library(L, env, "debug", "traceback");
    set_guest(L, env, "require", guest_require);
    set_guest(L, env, "load", guest_load);
    set_guest(L, env, "getmetatable", guest_getmetatable);
    lua_pushvalue(L, env);
    lua_setfield(L, env, "_G");
    lua_pushglobaltable(L);
    if (lua_getmetatable(L, -1)) /* which knows Python's names */
        lua_setmetatable(L, env);
    lua_settop(L, env);
}

/* ---- the file ---- */

struct exercise_text { char *text; size_t size; };

static int
exercise_gc(lua_State *L)
{
    struct exercise_text *file = lua_touserdata(L, 1);
    free(file->text);
    file->text = NULL;
    return 0;
}

/* exercises/NAME beside the folder of the checks; false: they lie elsewhere. */
static bool
find_original(const struct lesson *lesson, char *out, size_t size)
{
    const char *checks = lesson_options(lesson)->path, *own = lesson_file_name(checks != NULL ? checks : "");
    if (strncmp(own, "checks/", 7) != 0)
        return false;
    snprintf(out, size, "%.*sexercises/%s", (int)(own - checks), checks, own + 7);
    return true;
}

/* What was given behind `--`; else the course's own. */
static void
find_exercise(lua_State *L, const struct lesson *lesson, char *out, size_t size)
{
    const struct script_options *options = &script_of(L)->options;
    if (options->arg_count > 0)
        snprintf(out, size, "%s", options->args[0]);
    else if (!find_original(lesson, out, size))
        raise_error(L, "RuntimeError", "which exercise? Checks lie in a folder checks/ beside exercises/, or are "
                    "told the file: ringside run CHECKS -- FILE");
}

/* Its chunk, pushed: in the environment at the top, which it replaces. */
static void
load_exercise(lua_State *L, const char *path, const char *name)
{
    int                   env  = lua_gettop(L);
    struct exercise_text *file = push_owned(L, sizeof *file, "ringside.exercise", exercise_gc);
    const char           *why  = "";
    file->text                 = file_read(path, EXERCISE_BYTES, &file->size, &why);
    if (file->text == NULL)
        raise_error(L, "RuntimeError", "cannot read %.500s: %s", path, why);
    script_charge(L, steps_of_source(file->size));
    if (luaL_loadbufferx(L, file->text, file->size, lua_pushfstring(L, "@%s", name), "t") != LUA_OK) {
        mistake_in_text(L, name, file->text, file->size);
        lua_error(L);
    }
    lua_pushvalue(L, env);
    if (lua_setupvalue(L, -2, 1) == NULL)
        lua_pop(L, 1);
    lua_replace(L, env);
    lua_settop(L, env);
}

static const char *
what_came(lua_State *L, int index)
{
    return lua_isnoneornil(L, index) ? "nothing"
           : lua_istable(L, index)   ? "a table with a metatable"
                                     : luaL_typename(L, index);
}

/* The answer at the top is one where `wanted`, the untouched exercise's, is one. */
static bool
is_of_type(lua_State *L, int wanted)
{
    if (lua_type(L, wanted) == LUA_TNIL || lua_type(L, -1) == lua_type(L, wanted))
        return true;
    return lua_type(L, wanted) == LUA_TFUNCTION && luaL_getmetafield(L, -1, "__call") != LUA_TNIL;
}

/* The table of the untouched exercise is at the top, the student's at `answers`: the first answer that is missing or is
 * something else raises, by its name, before a check meets it. */
static void
refuse_wrong_answers(lua_State *L, int answers, const char *name)
{
    int table = lua_gettop(L), keys;
    push_sorted_keys(L, table);
    keys = lua_gettop(L);
    for (lua_Integer i = 1; lua_rawgeti(L, keys, i) == LUA_TSTRING; i++) {
        const char *key = lua_tostring(L, -1);
        lua_getfield(L, table, key);
        lua_getfield(L, answers, key);
        int wanted = lua_gettop(L) - 1;
        if (lua_isnil(L, -1))
            raise_error(L, "TypeError", "%s: your file returns no %s '%.60s'", name, luaL_typename(L, wanted), key);
        if (lua_isnumber(L, wanted) && test_tensor(L, wanted + 1) != NULL)
            raise_error(L, "TypeError", "%s: '%.60s' is a tensor instead of a number: t:item() makes one", name, key);
        if (!is_of_type(L, wanted))
            raise_error(L, "TypeError", "%s: '%.60s' is a %s in what your file returns, and has to be a %s", name, key,
                        luaL_typename(L, wanted + 1), luaL_typename(L, wanted));
        lua_settop(L, keys);
    }
    lua_settop(L, table);
}

/* The answers' names and types are those of the course's own file, where the checks have one beside them. */
static void
compare_with_original(lua_State *L, const struct lesson *lesson, const char *name)
{
    char path[PATH_MAX];
    int  answers = lua_gettop(L);
    if (script_of(L)->options.arg_count == 0 || !find_original(lesson, path, sizeof path) || access(path, R_OK) != 0)
        return;
    push_environment(L);
    load_exercise(L, path, "exercise");
    lua_call(L, 0, 1);
    if (is_plain_table(L, -1))
        refuse_wrong_answers(L, answers, name);
    lua_settop(L, answers);
}

/* rs.exercise(): the table of answers that the student's file returns. */
static int
l_exercise(lua_State *L)
{
    struct script *script = script_of(L);
    struct lesson *lesson = lesson_of(script_task(L));
    char           path[PATH_MAX], name[128];
    refuse_in_rank(L, "rs.exercise");
    if (lesson == NULL)
        return raise_error(L, "RuntimeError", "rs.lesson is called before rs.exercise");
    if (lesson_examines(lesson))
        return raise_error(L, "RuntimeError", "rs.exercise is called once");
    lua_settop(L, 0);
    find_exercise(L, lesson, path, sizeof path);
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    snprintf(name, sizeof name, "%s%.120s", strcmp(base, script->name) == 0 ? "./" : "", base);
    lesson_examine(lesson, name);
    script->options.guests = true;
    push_environment(L);
    load_exercise(L, path, name);
    lua_call(L, 0, 1);
    if (!is_plain_table(L, -1))
        return raise_error(L, "TypeError",
                           "%s: returns %s instead of a plain table: it ends with return { name = answer }", name,
                           what_came(L, -1));
    compare_with_original(L, lesson, name);
    return 1;
}

/* ---- variants ---- */

static int64_t
draw(struct script *script, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low + 1; /* 0: all there are */
    uint64_t word = splitmix(&script->variation);
    return (int64_t)((uint64_t)low + (span == 0 ? word : word % span));
}

static int
l_variant_random(lua_State *L)
{
    struct script *script = script_of(L);
    int64_t        low = check_integer(L, 1), high = check_integer(L, 2);
    refuse_in_rank(L, "rs.variant_random");
    if (low > high)
        return raise_error(L, "ValueError", "rs.variant_random(%lld, %lld): from the smaller to the larger",
                           (long long)low, (long long)high);
    lua_pushinteger(L, script->options.variant == 0 ? low : draw(script, low, high));
    return 1;
}

static int
l_vary(lua_State *L)
{
    struct script *script = script_of(L);
    luaL_checkany(L, 1);
    check_table(L, 2);
    refuse_in_rank(L, "rs.vary");
    int64_t count = (int64_t)lua_rawlen(L, 2);
    if (count == 0)
        return raise_error(L, "ValueError", "rs.vary(value, {...}): the list of other values is empty");
    if (script->options.variant == 0)
        lua_pushvalue(L, 1);
    else
        lua_rawgeti(L, 2, draw(script, 1, count));
    return 1;
}

static const struct lua_entry exercise_entries[] = {
    { "exercise", l_exercise, "rs.exercise()",
      "In the checks of an exercise, once: runs the student's file, which is the one behind -- or exercises/NAME "
      "beside checks/NAME; answers the table that it returns. From there on an error is a check that fails, and no "
      "check tells an expected value." },
    { "vary", l_vary, "rs.vary(value, others)",
      "The value; with --variant one of the others, drawn from the variant's number alone." },
    { "variant_random", l_variant_random, "rs.variant_random(low, high)",
      "A whole number from low to high, drawn from --variant alone; without it low." },
};

void
lua_open_exercise(lua_State *L)
{
    push_ringside(L);
    add_entries(L, lua_gettop(L), exercise_entries, countof(exercise_entries));
    set_integer(L, -1, "variant", (int64_t)script_of(L)->options.variant);
    lua_pop(L, 1);
}

/* Errors at the door. In Lua an error is a table {kind, message, line, traceback} with __tostring; in a task it is
 * struct error. raise: from the task into Lua. fail_from_lua: the other way. The object itself survives the way through
 * the engine as long as its message does, so a lesson gets back the very table that its forward threw. */
#include "lua/internal.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/group.h"
#include "lua/mistakes.h"
#include "sched/faults.h"
#include "sched/task.h"

static const char ERROR_CLASS[] = "ringside.error", LAST_ERROR[] = "ringside.last error";

static int
error_tostring(lua_State *L)
{
    luaL_Buffer text;
    check_table(L, 1);
    lua_settop(L, 1);
    lua_getfield(L, 1, "kind");
    lua_getfield(L, 1, "message");
    lua_getfield(L, 1, "line");
    const char *kind = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "LuaError";
    luaL_buffinit(L, &text);
    if (lua_isinteger(L, 4) && lua_tointeger(L, 4) > 0) {
        lua_pushfstring(L, "%s:%I: ", script_of(L)->name, lua_tointeger(L, 4));
        luaL_addvalue(&text);
    }
    if (strcmp(kind, "LuaError") != 0) {
        luaL_addstring(&text, kind);
        luaL_addstring(&text, ": ");
    }
    push_text(L, 3);
    luaL_addvalue(&text);
    luaL_pushresult(&text);
    return 1;
}

/* In front of the message at the top: file and line, where a function of another file than the lesson's is at work.
 * false: there is no such. */
static bool
add_guest_place(lua_State *L)
{
    lua_Debug            at;
    int                  level  = 0;
    const struct script *script = script_of(L);
    bool                 found  = false;
    while (script->options.guests && !found && lua_getstack(L, level++, &at))
        found = lua_getinfo(L, "Sl", &at) && at.currentline > 0;
    if (!found || (at.source[0] == '@' && strcmp(at.source + 1, script->name) == 0))
        return false;
    const char *message = lua_tostring(L, -1);
    size_t      name    = strlen(at.short_src);
    if (message != NULL && strncmp(message, at.short_src, name) == 0 && message[name] == ':')
        return true;
    lua_pushfstring(L, "%s:%d: ", at.short_src, at.currentline);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return true;
}

/* From the beginning: an error that a rank answers must find its class in a state where nothing has failed yet. */
void
lua_open_errors(lua_State *L)
{
    if (luaL_newmetatable(L, ERROR_CLASS)) {
        lua_pushcfunction(L, error_tostring);
        lua_setfield(L, -2, "__tostring");
        set_text(L, -1, "__metatable", "Error");
    }
    lua_pop(L, 1);
}

/* Leaves a new error object on the stack; takes the message from the top. */
static void
wrap_error(lua_State *L, const char *kind, uint32_t line)
{
    line = add_guest_place(L) ? 0 : line;
    lua_createtable(L, 0, 4);
    lua_insert(L, -2);
    lua_setfield(L, -2, "message");
    set_text(L, -1, "kind", kind);
    if (line > 0) {
        set_integer(L, -1, "line", line);
    }
    lua_open_errors(L);
    luaL_setmetatable(L, ERROR_CLASS);
}

void
push_error(lua_State *L, const char *kind, const char *message, uint32_t line)
{
    lua_pushstring(L, message);
    wrap_error(L, kind, line);
}

/* "lesson.lua:12: text": answers where the text begins, and the line. Other prefixes belong to the text. */
static const char *
skip_place(const struct script *script, const char *message, uint32_t *line)
{
    size_t name = strlen(script->name);
    if (name == 0 || strncmp(message, script->name, name) != 0 || message[name] != ':')
        return message;
    char *end    = NULL;
    long  number = strtol(message + name + 1, &end, 10);
    if (end == message + name + 1 || strncmp(end, ": ", 2) != 0 || number <= 0)
        return message;
    *line = (uint32_t)number;
    return end + 2;
}

/* Runs where the error happened, so it knows the line and who called whom. */
int
error_handler(lua_State *L)
{
    script_task(L); /* notes the line, for what has none of its own */
    if (lua_type(L, 1) == LUA_TSTRING) {
        uint32_t    line = script_line(L);
        const char *text = skip_place(script_of(L), lua_tostring(L, 1), &line);
        lua_pushstring(L, text);
        mistake_at_run(L);
        wrap_error(L, "LuaError", line);
    } else {
        lua_settop(L, 1);
    }
    if (has_class(L, -1, ERROR_CLASS) && lua_getfield(L, -1, "traceback") == LUA_TNIL) {
        luaL_traceback(L, L, NULL, 1);
        lua_setfield(L, -3, "traceback");
        lua_pop(L, 1);
    } else if (has_class(L, 1, ERROR_CLASS)) {
        lua_settop(L, 1);
    }
    return 1;
}

/* The error object at the top was an event once: on its way through Lua and back it makes no other. */
static void
note_announced(lua_State *L)
{
    if (!has_class(L, -1, ERROR_CLASS))
        return;
    set_flag(L, -1, "announced", true);
}

/* So is when it was made, and whether others waited because of it. */
static void
note_order(lua_State *L, const struct error *error)
{
    if (!has_class(L, -1, ERROR_CLASS))
        return;
    lua_pushinteger(L, error->order);
    lua_setfield(L, -2, "order");
    if (error->hung)
        set_flag(L, -1, "hung", true);
}

static enum error_kind
kind_of_name(const char *name)
{
    for (int kind = E_RUNTIME; kind <= E_STOPPED; kind++)
        if (strcmp(error_name((enum error_kind)kind), name) == 0)
            return (enum error_kind)kind;
    return E_NONE;
}

static int
save_error(lua_State *L)
{
    note_announced(L);
    lua_setfield(L, LUA_REGISTRYINDEX, LAST_ERROR);
    return 0;
}

struct wording {
    enum error_kind kind;
    uint32_t        line;
    const char     *text;
    char            kind_name[64];
    bool            announced, hung;
    unsigned        order;
};

static int
word_error(lua_State *L)
{
    struct wording *out = lua_touserdata(L, 2);
    lua_pushnil(L);
    lua_replace(L, 2);
    if (lua_type(L, 1) != LUA_TTABLE) {
        push_text(L, 1);
        out->text = skip_place(script_of(L), lua_tostring(L, -1), &out->line);
        if (strcmp(out->text, "not enough memory") == 0 && script_of(L)->no_memory) {
            out->kind = E_BUDGET;
            out->text = "the lesson needs more memory than its limit; --trust lifts the limit";
        } else if (strcmp(out->text, "not enough memory") == 0) {
            out->kind = E_MEMORY;
        }
        return 1;
    }
    if (lua_getfield(L, 1, "kind") == LUA_TSTRING)
        snprintf(out->kind_name, sizeof out->kind_name, "%s", lua_tostring(L, -1));
    if (lua_getfield(L, 1, "line") == LUA_TNUMBER)
        out->line = (uint32_t)lua_tointeger(L, -1);
    lua_getfield(L, 1, "announced");
    out->announced = lua_toboolean(L, -1);
    lua_getfield(L, 1, "hung");
    out->hung = lua_toboolean(L, -1);
    lua_getfield(L, 1, "order");
    out->order = (unsigned)lua_tointeger(L, -1);
    lua_getfield(L, 1, "message");
    push_text(L, lua_isnil(L, -1) ? 1 : -1);
    out->text = lua_tostring(L, -1);
    return 1; /* anchors the text */
}

void
error_of_object(lua_State *L, int index, struct error *out)
{
    struct wording wording = { .kind = E_SCRIPT };
    lua_pushcfunction(L, word_error);
    lua_pushvalue(L, index < 0 ? index - 1 : index);
    lua_pushlightuserdata(L, &wording);
    lua_call(L, 2, 1);
    enum error_kind known = kind_of_name(wording.kind_name);
    bool            named = known == E_NONE && wording.kind_name[0] != '\0';
    out->kind        = known != E_NONE ? known : wording.kind;
    out->lesson_line = wording.line > 0 ? wording.line : out->lesson_line;
    snprintf(out->message, sizeof out->message, "%s%s%s", named ? wording.kind_name : "", named ? ": " : "",
             wording.text);
    lua_pop(L, 1);
}

/* The error that the engine once gave to Lua becomes its task's again. */
static void
come_back(struct task *me, const struct wording *wording)
{
    struct error error = { .kind = wording->kind, .function = __func__, .line = __LINE__, .lesson_line = me->line,
                           .rank = me->rank, .hung = wording->hung, .order = wording->order };
    bool known = kind_of_name(wording->kind_name) != E_NONE;
    snprintf(error.message, sizeof error.message, "%s%s%s", known ? "" : wording->kind_name, known ? "" : ": ",
             wording->text);
    task_take_error(me, &error);
}

/* Everything that can raise here is protected: there may be no other pcall around. */
void
fail_from_lua(lua_State *L, struct task *me)
{
    struct script *script = script_of(L);
    struct wording wording = { .kind = E_SCRIPT };
    if (!lua_checkstack(L, 8)) {
        lua_pop(L, 1);
        failed(me, E_MEMORY, "out of memory for Lua's stack");
        return;
    }
    lua_pushcfunction(L, word_error);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, &wording);
    int status = lua_pcall(L, 2, 1, 0);
    if (status == LUA_ERRMEM)
        wording = (struct wording){ .kind = E_MEMORY, .text = "out of memory" };
    else if (status != LUA_OK) /* its __tostring raises */
        wording = (struct wording){ .kind = E_SCRIPT, .text = "an error that cannot be put into words" };
    enum error_kind known = kind_of_name(wording.kind_name);
    if (known != E_NONE)
        wording.kind = known;
    if (wording.line > 0)
        task_set_line(me, wording.line);
    bool first = !task_failed(me);
    if (wording.announced)
        come_back(me, &wording);
    else if (known == E_NONE && wording.kind_name[0] != '\0')
        failed(me, wording.kind, "%s: %s", wording.kind_name, wording.text);
    else
        failed(me, wording.kind, "%s", wording.text);
    lua_pop(L, 1);
    lua_pushcfunction(L, save_error);
    lua_insert(L, -2);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        lua_pop(L, 1);
        first = false;
    }
    if (!first)
        return;
    snprintf(script->last_error, sizeof script->last_error, "%s", me->error.message);
    me->error.payload = script;
}

/* self:fc(x), where fc is a module: it gets self, too. */
static bool
called_on_self(lua_State *L, const char *message)
{
    lua_Debug self = { .name = NULL };
    return strstr(message, "positional argument") != NULL && test_module(L, 1) != NULL && test_module(L, 2) != NULL &&
           lua_getstack(L, 0, &self) && lua_getinfo(L, "n", &self) && strcmp(self.namewhat, "method") == 0;
}

int
raise(lua_State *L, struct task *me)
{
    struct script *script = script_of(L);
    if (task_is_killed(me))
        (void)task_die(me);
    struct error error = me->error;
    if (task_is_killed(me) || error.kind == E_STOPPED || account_exhausted(me->sched))
        script->fatal = true;
    if (error_is_of_hang(&error))
        world_rank_told(me);
    task_clear_error(me);
    if (error.payload == script && strcmp(error.message, script->last_error) == 0 &&
        lua_getfield(L, LUA_REGISTRYINDEX, LAST_ERROR) != LUA_TNIL)
        return lua_error(L);
    if (called_on_self(L, error.message))
        lua_pushfstring(L, "%s; instead of self:layer(x) write self.layer(x)", error.message);
    else
        lua_pushstring(L, error.message);
    wrap_error(L, error_name(error.kind), error.lesson_line);
    note_announced(L);
    note_order(L, &error);
    return lua_error(L);
}

int
raise_error(lua_State *L, const char *kind, const char *format, ...)
{
    char    message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    lua_pushstring(L, message);
    if (push_dot(L)) {
        lua_pushfstring(L, "%s: use a dot: %s", message, lua_tostring(L, -1));
        lua_replace(L, -2);
    }
    wrap_error(L, kind, script_line(L));
    return lua_error(L);
}

/* Lua's own luaL_checkstack tells of a stack overflow where memory is what lacks. */
void
stack_room(lua_State *L, int count)
{
    if (!lua_checkstack(L, count))
        raise_error(L, "MemoryError", "out of memory for %d values", count);
}

/* What stands at `index`, in a word: the type, or the number itself. Pushes it. */
static const char *
push_got(lua_State *L, int index)
{
    if (lua_isnone(L, index))
        return lua_pushliteral(L, "nothing");
    if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING)
        return lua_tostring(L, -1);
    if (lua_type(L, index) == LUA_TNUMBER) {
        push_text(L, index);
        return lua_tostring(L, -1);
    }
    return lua_pushstring(L, luaL_typename(L, index));
}

/* A negative index is a value that was taken out of an argument: the message names the function alone. */
int
arg_error(lua_State *L, int argument, const char *expected)
{
    lua_Debug   ar   = { .name = NULL };
    const char *name = "this function";
    int         index = argument < 0 ? lua_absindex(L, argument) : argument;
    if (lua_getstack(L, 0, &ar)) {
        lua_getinfo(L, "n", &ar);
        if (ar.name != NULL)
            name = ar.name;
        if (ar.name != NULL && strcmp(ar.namewhat, "method") == 0)
            argument--;
    }
    bool        missing = lua_isnone(L, index);
    const char *got     = push_got(L, index);
    char        where[100];
    const char *called = strcmp(name, "for iterator") == 0 ? "iter" : name;
    if (strcmp(name, "newindex") == 0)
        snprintf(where, sizeof where, "what is assigned");
    else if (argument < 0)
        snprintf(where, sizeof where, "%.60s", called);
    else
        snprintf(where, sizeof where, "argument %d of %.60s", argument, called);
    if (argument == 0)
        return raise_error(L, "TypeError", "%s is called on %s: expected %s", called, got, expected);
    if ((argument == 1 || missing) && push_colon(L))
        return raise_error(L, "TypeError", "%s: expected %s, got %s: use a colon: %s", where, expected, got,
                           lua_tostring(L, -1));
    if (mistake_in_argument(L, missing ? 0 : index, expected))
        return raise_error(L, "TypeError", "%s: expected %s, got %s; %s", where, expected, got, lua_tostring(L, -1));
    return raise_error(L, "TypeError", "%s: expected %s, got %s", where, expected, got);
}

int
arg_most(lua_State *L, int most)
{
    lua_Debug ar  = { .name = NULL };
    int       got = lua_gettop(L), self = 0;
    while (got > most && lua_isnil(L, got))
        got--; /* nil at the end is what was not given */
    if (got <= most)
        return got;
    if (lua_getstack(L, 0, &ar))
        lua_getinfo(L, "n", &ar);
    self = ar.name != NULL && strcmp(ar.namewhat, "method") == 0;
    bool hint = mistake_in_argument(L, most + 1, "a table of options");
    return raise_error(L, "TypeError", "%s takes %d argument%s, but %d were given%s%s",
                       ar.name != NULL ? ar.name : "this function", most - self, most - self == 1 ? "" : "s",
                       got - self, hint ? "; " : "", hint ? lua_tostring(L, -1) : "");
}

/* A method called with a dot, a function of rs called with a colon: what was meant, in the lesson's own words. The line
 * of the lesson is read for it, since Lua tells a function's name but not what stands before it.
 *
 * Interface: push_colon, push_dot, writes_index, read_running_line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lua/forms.h"
#include "lua/mistakes.h"
#include "lua/shelf.h"

/* Where `path sign name` stands in a line: tokens from `first` to `sign`, which is a "." or a ":". */
struct call_site { struct source_line line; int first, sign; };

static bool
find_line(const struct script *script, int number, struct source_line *line)
{
    struct source source = source_open(script->options.text, script->options.text_size);
    for (int at = 0; source_line(&source, line);)
        if (++at == number)
            return true;
    return false;
}

/* The first name of the path that ends before `sign`; `sign` itself if no name stands there: f().x */
static int
path_begin(const struct source_line *line, int sign)
{
    int first = sign;
    while (first > 0 && line->tokens[first - 1].kind == TOKEN_NAME) {
        first--;
        if (first < 2 || !token_is(&line->tokens[first - 1], "."))
            return first;
        if (line->tokens[first - 2].kind != TOKEN_NAME)
            return sign;
        first--;
    }
    return sign;
}

bool
read_running_line(lua_State *L, int level, struct source_line *line)
{
    const struct script *script = script_of(L);
    lua_Debug            at     = { .source = NULL };
    script_charge(L, script->options.text_size / 8);
    return script->options.text != NULL && lua_getstack(L, level, &at) && lua_getinfo(L, "Sl", &at) &&
           at.source[0] == '@' && strcmp(at.source + 1, script->name) == 0 && find_line(script, at.currentline, line);
}

bool
writes_index(lua_State *L, long long index)
{
    struct source_line line;
    char               digits[24];
    int                minus = index < 0;
    snprintf(digits, sizeof digits, "%lld", llabs(index));
    if (!read_running_line(L, 1, &line))
        return false;
    for (int i = 0; i + 2 + minus < line.count; i++) {
        const struct token *open = &line.tokens[i], *number = open + 1 + minus;
        if (token_is(open, "[") && (!minus || token_is(open + 1, "-")) && token_is(number, digits) &&
            token_is(number + 1, "]"))
            return true;
    }
    return false;
}

/* Of the C function that runs, in the line of the lesson that called it. */
static bool
find_call(lua_State *L, const char *sign, struct call_site *site)
{
    lua_Debug self = { .name = NULL };
    if (!lua_getstack(L, 0, &self) || !lua_getinfo(L, "n", &self) || self.name == NULL ||
        !read_running_line(L, 1, &site->line))
        return false;
    for (int i = 1; i + 1 < site->line.count; i++) {
        if (!token_is(&site->line.tokens[i], sign) || !token_is(&site->line.tokens[i + 1], self.name))
            continue;
        site->sign  = i;
        site->first = path_begin(&site->line, i);
        return true;
    }
    return false;
}

/* "PATH:name()", pushed. */
static bool
push_call(lua_State *L, const struct call_site *site, const char *sign)
{
    const struct token *first = &site->line.tokens[site->first], *at = &site->line.tokens[site->sign];
    if (site->first == site->sign)
        lua_pushliteral(L, "(...)");
    else
        lua_pushlstring(L, first->text, (size_t)(at->text - first->text));
    lua_pushstring(L, sign);
    lua_pushlstring(L, at[1].text, at[1].length);
    lua_pushliteral(L, "()");
    lua_concat(L, 4);
    return true;
}

/* ---- what the path leads to ---- */

/* The caller's variable of that name: a local, the last one counts; an upvalue; a global. */
static void
push_variable(lua_State *L, const char *name)
{
    lua_Debug   caller = { .name = NULL };
    const char *known;
    int         found = 0;
    lua_getstack(L, 1, &caller);
    for (int i = 1; (known = lua_getlocal(L, &caller, i)) != NULL; i++) {
        found = strcmp(known, name) == 0 ? i : found;
        lua_pop(L, 1);
    }
    if (found > 0) {
        lua_getlocal(L, &caller, found);
        return;
    }
    lua_getinfo(L, "f", &caller);
    for (int i = 1; (known = lua_getupvalue(L, -1, i)) != NULL; i++) {
        if (strcmp(known, name) == 0) {
            lua_remove(L, -2);
            return;
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    lua_pushglobaltable(L);
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

/* Does the table on top hold the function that is called? Then it is nobody's method: nn.SyncBatchNorm's, which can be
 * called itself. */
static bool
holds_called(lua_State *L, const struct call_site *site)
{
    const struct token *called = &site->line.tokens[site->sign + 1];
    lua_pushlstring(L, called->text, called->length);
    lua_rawget(L, -2);
    bool holds = lua_iscfunction(L, -1);
    lua_pop(L, 1);
    return holds;
}

/* Is what stands before the sign a thing that has methods, not a table of functions? A field of a thing is one. */
static bool
leads_to_thing(lua_State *L, const struct call_site *site)
{
    int top = lua_gettop(L);
    if (site->first == site->sign)
        return true;
    for (int i = site->first; i < site->sign; i += 2) {
        const struct token *token = &site->line.tokens[i];
        lua_pushlstring(L, token->text, token->length);
        if (i == site->first) {
            push_variable(L, lua_tostring(L, -1));
        } else {
            lua_rawget(L, -2);
        }
        if (!lua_istable(L, -1))
            break;
    }
    bool thing = lua_isuserdata(L, -1) || (lua_istable(L, -1) && !shelf_is(L, -1) &&
                                             !holds_called(L, site) && lua_getmetatable(L, -1));
    lua_settop(L, top);
    return thing;
}

bool
push_colon(lua_State *L)
{
    struct call_site site;
    luaL_checkstack(L, 12, "no room to look");
    return find_call(L, ".", &site) && leads_to_thing(L, &site) && push_call(L, &site, ":");
}

bool
push_dot(lua_State *L)
{
    struct call_site site;
    luaL_checkstack(L, 12, "no room to look");
    return lua_istable(L, 1) && shelf_is(L, 1) && !shelf_has_methods(L, 1) &&
           find_call(L, ":", &site) && push_call(L, &site, ".");
}

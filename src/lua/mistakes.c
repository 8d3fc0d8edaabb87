/* The table of mistakes, and the hints that messages take from it.
 *
 * Interface: mistakes.h. */
#include "lua/mistakes.h"
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "lua/forms.h"
#include "lua/shelf.h"

enum mistake_kind { IN_COMPLAINT, IN_UNCLOSED, IN_LINE, IN_BLOCK, IN_LINE_BEFORE, IN_GLOBAL, IN_LIBRARY, IN_CONSTANT,
                    IN_FIELD, IN_MESSAGE, IN_OPERATION, IN_ARGUMENT, IN_OPTION, IN_ATTRIBUTE, IN_METHOD, IN_NOTHING };
struct mistake { enum mistake_kind kind; const char *form, *python, *here; };

static const struct mistake mistakes[] = {
#define COMPLAINT(form, python, here) { IN_COMPLAINT, form, python, here },
#define UNCLOSED(form, python, here)  { IN_UNCLOSED, form, python, here },
#define SYNTAX(form, python, here)    { IN_LINE, form, python, here },
#define BLOCK(form, python, here)     { IN_BLOCK, form, python, here },
#define BEFORE(form, python, here)    { IN_LINE_BEFORE, form, python, here },
#define GLOBAL(form, python, here)    { IN_GLOBAL, form, python, here },
#define LIBRARY(form, here)           { IN_LIBRARY, form, NULL, here },
#define CONSTANT(form, python, here)  { IN_CONSTANT, form, python, here },
#define FIELD(form, python, here)     { IN_FIELD, form, python, here },
#define MESSAGE(form, python, here)   { IN_MESSAGE, form, python, here },
#define OPERATION(form, python, here) { IN_OPERATION, form, python, here },
#define ARGUMENT(form, python, here)  { IN_ARGUMENT, form, python, here },
#define OPTION(form, python, here)    { IN_OPTION, form, python, here },
#define ATTRIBUTE(form, python, here) { IN_ATTRIBUTE, form, python, here },
#define METHOD(form, python, here)    { IN_METHOD, form, python, here },
#define NOTE(python, here)            { IN_NOTHING, "", python, here },
#include "lua/mistakes.def"
#undef NOTE
#undef METHOD
#undef ATTRIBUTE
#undef OPTION
#undef ARGUMENT
#undef OPERATION
#undef MESSAGE
#undef FIELD
#undef CONSTANT
#undef LIBRARY
#undef GLOBAL
#undef BEFORE
#undef BLOCK
#undef SYNTAX
#undef UNCLOSED
#undef COMPLAINT
};

/* ---- hints ---- */

/* "%2" is 1: the name's place; -1: it is no such sign. */
static int
place_of_name(const char *text)
{
    return text[0] == '%' && text[1] >= '1' && text[1] < '1' + FORM_NAMES ? text[1] - '1' : -1;
}

/* `text` with the names for %1 and so on. */
static void
add_filled(luaL_Buffer *out, const char *text, const struct found_names *names)
{
    for (; *text != '\0'; text++) {
        int number = place_of_name(text);
        if (number < 0) {
            luaL_addchar(out, *text);
            continue;
        }
        text++;
        if (number < names->count)
            luaL_addlstring(out, names->name[number].text, names->name[number].length);
        else
            luaL_addstring(out, "x");
    }
}

/* "instead of len(x) write #x", pushed. */
static void
push_hint(lua_State *L, const struct mistake *mistake, const struct found_names *names)
{
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    if (mistake->python != NULL) {
        luaL_addstring(&out, "instead of ");
        add_filled(&out, mistake->python, names);
        luaL_addstring(&out, " write ");
    }
    add_filled(&out, mistake->here, names);
    luaL_pushresult(&out);
}

static const struct mistake *
mistake_named(enum mistake_kind kind, const char *name)
{
    for (size_t i = 0; i < countof(mistakes); i++)
        if (mistakes[i].kind == kind && strcmp(mistakes[i].form, name) == 0)
            return &mistakes[i];
    return NULL;
}

/* ---- of the compiler ---- */

struct complaint {
    const char *message;
    long        line;
    long        opened; /* the line of the "if" that nothing closes; 0: it is not said */
    char        near[60];
    bool        first; /* it begins its line, or is the end of the text */
};

/* "lesson.lua:4: unexpected symbol near '!'"; false: it has not this form. */
static bool
read_complaint(const char *message, const char *name, struct complaint *out)
{
    size_t      length = strlen(name);
    const char *near   = strstr(message, " near ");
    if (strncmp(message, name, length) != 0 || message[length] != ':')
        return false;
    *out = (struct complaint){ .message = message, .line = strtol(message + length + 1, NULL, 10) };
    const char *opened = strstr(message, "(to close 'if' at line ");
    if (opened != NULL)
        out->opened = strtol(opened + strlen("(to close 'if' at line "), NULL, 10);
    for (const char *next = near; next != NULL; next = strstr(next + 1, " near "))
        near = next;
    if (near == NULL || strcmp(near, " near <eof>") == 0) {
        out->first = true;
        return true;
    }
    near += strlen(" near ");
    size_t end = strlen(near);
    if (end > 2 && end - 2 < sizeof out->near)
        memcpy(out->near, near + 1, end - 2); /* without the quotes around it */
    return true;
}

static const struct mistake *
mistake_of_line(enum mistake_kind kind, const struct source_line *line, const char *near, struct found_names *names)
{
    for (size_t i = 0; i < countof(mistakes); i++)
        if (mistakes[i].kind == kind && form_fits(mistakes[i].form, line, near, names))
            return &mistakes[i];
    return NULL;
}

static const struct mistake *
mistake_of_glob(enum mistake_kind kind, const char *text, struct found_names *names)
{
    for (size_t i = 0; i < countof(mistakes); i++)
        if (mistakes[i].kind == kind && glob_fits(mistakes[i].form, text, names))
            return &mistakes[i];
    return NULL;
}

/* Moves the complaint to the line where the mistake is. What no Lua can be, on a line before, made the compiler stumble
 * later; else the word that it names tells. */
static const struct mistake *
find_mistake(const char *text, size_t size, struct complaint *complaint, struct found_names *names)
{
    struct source         source = source_open(text, size);
    struct source_line    lines[2], *line = &lines[0], *before = &lines[1];
    const struct mistake *found  = NULL;
    long                  number = 0, last = 0;
    before->count = 0;
    while (source_line(&source, line) && ++number < complaint->line) {
        found = mistake_of_line(IN_BLOCK, line, NULL, names);
        if (found == NULL && complaint->opened > 0 && number > complaint->opened)
            found = mistake_of_line(IN_UNCLOSED, line, NULL, names);
        if (found != NULL) {
            complaint->line = number;
            return found;
        }
        if (line->count == 0)
            continue;
        struct source_line *kept = before;
        before = line;
        line   = kept;
        last   = number;
    }
    const char *near  = complaint->near;
    bool        first = complaint->first || number < complaint->line ||
                 (line->count > 0 && strncmp(line->tokens[0].text, near, strlen(near)) == 0);
    found = mistake_of_glob(IN_COMPLAINT, complaint->message, names);
    if (found == NULL && !complaint->first)
        found = mistake_of_line(IN_LINE, line, near, names);
    if (found == NULL)
        found = mistake_of_line(IN_BLOCK, line, NULL, names);
    if (found != NULL || !first)
        return found;
    found = mistake_of_line(IN_LINE_BEFORE, before, NULL, names);
    if (found != NULL)
        complaint->line = last;
    return found;
}

void
mistake_in_text(lua_State *L, const char *name, const char *text, size_t size)
{
    const char        *message = lua_tostring(L, -1);
    struct complaint   complaint;
    struct found_names names;
    if (message == NULL || !read_complaint(message, name, &complaint))
        return;
    const struct mistake *mistake = find_mistake(text, size, &complaint, &names);
    if (mistake == NULL)
        return;
    const char *said = strstr(message + strlen(name), ": ");
    push_hint(L, mistake, &names);
    lua_pushfstring(L, "%s:%I%s; %s", name, (lua_Integer)complaint.line, said, lua_tostring(L, -1));
    lua_replace(L, -3);
    lua_pop(L, 1);
}

/* ---- of what runs ---- */

/* "attempt to call a nil value (field 'append')": its row by the name. */
static const struct mistake *
mistake_of_name(const char *message)
{
    struct found_names names;
    char               name[40];
    bool               global = glob_fits("attempt to * a nil value (global '*')", message, &names);
    if (!global && !glob_fits("attempt to * a nil value (field '*')", message, &names) &&
        !glob_fits("attempt to * a nil value (method '*')", message, &names))
        return NULL;
    if (names.name[1].length >= sizeof name)
        return NULL;
    memcpy(name, names.name[1].text, names.name[1].length);
    name[names.name[1].length] = '\0';
    return mistake_named(global ? IN_GLOBAL : IN_FIELD, name);
}

static const struct mistake *
mistake_of_message(const char *message, struct found_names *names)
{
    const struct mistake *named = mistake_of_name(message);
    names->count = 0;
    if (named != NULL)
        return named;
    const struct mistake *found = mistake_of_glob(IN_MESSAGE, message, names);
    return found != NULL && found->here != NULL ? found : NULL;
}

/* A global that is not there, but is in the library: pushes "instead of relu write rs.relu". */
static bool
push_library_name(lua_State *L, const char *message)
{
    static const char *const spaces[][2] = {
        { "", "" }, { "nn.", "" }, { "nn.", "functional." }, { "nn.", "parallel." }, { "optim.", "" },
        { "distributed.", "" }, { "utils.", "data." },
    };
    struct found_names names;
    int                top = lua_gettop(L);
    if (!glob_fits("attempt to * a nil value (global '*')", message, &names))
        return false;
    for (size_t i = 0; i < countof(spaces); i++) {
        push_ringside(L);
        for (int part = 0; part < 2 && spaces[i][part][0] != '\0'; part++) {
            lua_pushlstring(L, spaces[i][part], strlen(spaces[i][part]) - 1);
            lua_rawget(L, -2);
        }
        lua_pushlstring(L, names.name[1].text, names.name[1].length);
        const char *name = lua_tostring(L, -1);
        lua_pushvalue(L, -1);
        if (lua_istable(L, -3) && shelf_get(L, -3) != LUA_TNIL) {
            lua_pushfstring(L, "instead of %s write rs.%s%s%s", name, spaces[i][0], spaces[i][1], name);
            lua_replace(L, top + 1);
            lua_settop(L, top + 1);
            return true;
        }
        lua_settop(L, top);
    }
    return false;
}

void
mistake_at_run(lua_State *L)
{
    struct found_names    names;
    struct source_line    line;
    const char           *message = lua_tostring(L, -1);
    const struct mistake *mistake = message != NULL ? mistake_of_message(message, &names) : NULL;
    if (message == NULL || !lua_checkstack(L, 12))
        return;
    if (mistake == NULL && glob_fits("attempt to * a nil value (field '*')", message, &names) &&
        read_running_line(L, 1, &line)) /* level 0 is the handler */
        mistake = mistake_of_line(IN_LIBRARY, &line, NULL, &names);
    if (mistake != NULL)
        push_hint(L, mistake, &names);
    else if (!push_library_name(L, message))
        return;
    lua_pushfstring(L, "%s; %s", message, lua_tostring(L, -1));
    lua_replace(L, -3);
    lua_pop(L, 1);
}

/* A sign between a text and a tensor: the line tells which one. Lua's own method of texts may stand between. */
static const struct mistake *
mistake_of_operation(lua_State *L, struct found_names *names)
{
    struct source_line line;
    script_charge(L, script_of(L)->options.text_size / 8);
    if (!read_running_line(L, 1, &line) && !read_running_line(L, 2, &line))
        return NULL;
    return mistake_of_line(IN_OPERATION, &line, NULL, names);
}

bool
mistake_in_argument(lua_State *L, int index, const char *expected)
{
    struct found_names names;
    const char        *type = index == 0 ? "nothing" : luaL_typename(L, index);
    if (lua_istable(L, 1) && shelf_is(L, 1))
        return false; /* called with a colon: push_dot's */
    if (index != 0 && luaL_getmetafield(L, index, "__name") == LUA_TSTRING)
        type = lua_tostring(L, -1);
    lua_pushfstring(L, "%s for %s", type, expected);
    const struct mistake *mistake = NULL;
    if (strcmp(lua_tostring(L, -1), "string for Tensor or a number") == 0)
        mistake = mistake_of_operation(L, &names);
    if (mistake == NULL)
        mistake = mistake_of_glob(IN_ARGUMENT, lua_tostring(L, -1), &names);
    if (mistake != NULL)
        push_hint(L, mistake, &names);
    return mistake != NULL;
}

static bool
push_named_hint(lua_State *L, enum mistake_kind kind, const char *name)
{
    const struct mistake *mistake = mistake_named(kind, name);
    if (mistake != NULL)
        push_hint(L, mistake, &(struct found_names){ .count = 0 });
    return mistake != NULL;
}

bool
mistake_in_attribute(lua_State *L, const char *name)
{
    return push_named_hint(L, IN_ATTRIBUTE, name);
}

bool
mistake_in_option(lua_State *L, const char *name)
{
    return push_named_hint(L, IN_OPTION, name);
}

/* function Net:forward(self, x) */
static bool
takes_self_twice(lua_State *L, int function)
{
    lua_pushvalue(L, function);
    const char *first = lua_getlocal(L, NULL, 1), *second = lua_getlocal(L, NULL, 2); /* of the function at the top */
    lua_pop(L, 1);
    return first != NULL && second != NULL && strcmp(first, "self") == 0 && strcmp(second, "self") == 0;
}

void
mistake_in_method(lua_State *L, const char *name, int function)
{
    if (lua_isfunction(L, function) && !lua_iscfunction(L, function) && takes_self_twice(L, function))
        raise_error(L, "TypeError", "%s has self already, by its colon; instead of function Net:%s(self, ...) write "
                    "function Net:%s(...)", name, name, name);
    if (push_named_hint(L, IN_METHOD, name))
        raise_error(L, "AttributeError", "nobody calls %s of a class; %s", name, lua_tostring(L, -1));
}

/* Of the globals: asked only for what is not there. */
static int
absent_global(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TSTRING || !push_named_hint(L, IN_CONSTANT, lua_tostring(L, 2)))
        return 0;
    return raise_error(L, "LuaError", "%s is not known; %s", lua_tostring(L, 2), lua_tostring(L, -1));
}

void
mistakes_open(lua_State *L)
{
    lua_pushglobaltable(L);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, absent_global);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

/* ---- the page ---- */

/* The same may be noticed in more than one way. */
static bool
is_told(const struct mistake *mistake)
{
    const struct mistake *before = mistakes;
    while (before < mistake && (before->python == NULL || strcmp(before->python, mistake->python) != 0))
        before++;
    return before < mistake;
}

/* A row's text, where a name stands for what a message would fill in. */
static void
add_example(struct str *out, const char *text)
{
    static const char *const names[FORM_NAMES] = { "name", "other", "third" };
    for (; *text != '\0'; text++) {
        int place = place_of_name(text);
        if (place >= 0)
            str_add(out, names[place]);
        else
            str_addf(out, "%c", *text);
        text += place >= 0;
    }
}

static void
add_page_line(struct str *out, const struct mistake *mistake)
{
    size_t before = out->len;
    str_add(out, "  ");
    add_example(out, mistake->python);
    do
        str_add(out, " ");
    while (out->len < before + 36);
    add_example(out, mistake->here);
    str_add(out, "\n");
}

void
mistakes_page(struct str *out)
{
    static const char *const titles[] = {
        [IN_COMPLAINT] = "Comparisons", [IN_UNCLOSED] = "Conditions",
        [IN_LINE] = "Signs and statements", [IN_BLOCK] = "Blocks",
        [IN_LINE_BEFORE] = "Calls without brackets",
        [IN_GLOBAL] = "Names", [IN_CONSTANT] = "Constants", [IN_FIELD] = "Lists, dicts and strings",
        [IN_MESSAGE] = "Values", [IN_OPERATION] = "Texts", [IN_ARGUMENT] = "Arguments", [IN_OPTION] = "Options",
        [IN_ATTRIBUTE] = "Tensors and modules", [IN_METHOD] = "Classes",
        [IN_NOTHING] = "What no message can tell",
    };
    const struct mistake *last = NULL;
    str_add(out, "What is written in Python, and what in a lesson. Lua ends blocks with end, has one kind of table\n"
                 "for lists and dicts, and named arguments go in such a table.\n");
    for (size_t i = 0; i < countof(mistakes); i++) {
        const struct mistake *m = &mistakes[i];
        if (m->python == NULL || m->here == NULL || is_told(m))
            continue;
        if (last == NULL || last->kind != m->kind)
            str_addf(out, "\n%s\n", titles[m->kind]);
        last = m;
        add_page_line(out, m);
    }
}

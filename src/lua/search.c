/* string.find, match, gmatch and gsub over our own patterns (pattern.h), and string.sub and byte, which scanners call
 * for every character, with Lua's results and messages.
 * Interface: search_open. */
#include "lua/pattern.h"

#include <limits.h>
#include <string.h>
#include "lua/internal.h"

enum { FIRST_TRIES = 8, SMALL_TEXT = 16 };

/* Where a search begins that is asked to begin at `init`: 0 for the first character, `length` + 1 for behind all. */
static size_t
start_offset(lua_Integer init, size_t length)
{
    if (init > 0)
        return (size_t)init - 1 < length ? (size_t)init - 1 : (size_t)init - 1 == length ? length : length + 1;
    if (init == 0 || init < -(lua_Integer)length)
        return 0;
    return length - (size_t)-init;
}

static bool
has_specials(const char *pattern, size_t length)
{
    for (size_t i = 0; i < length; i++)
        switch (pattern[i]) {
        case '^': case '$': case '*': case '+': case '?': case '.': case '(': case '[': case '%': case '-': return true;
        }
    return false;
}

/* Most texts are found by their first character. Where that leads astray too often memmem goes on, whose time is in
 * proportion to the lengths whatever they hold. */
static const char *
find_text(const char *text, size_t length, const char *what, size_t what_length)
{
    if (what_length == 0)
        return text;
    const char *end = text + length;
    for (int tries = 0; tries < FIRST_TRIES && (size_t)(end - text) >= what_length; tries++, text++) {
        text = memchr(text, *what, (size_t)(end - text) - what_length + 1);
        if (text == NULL || memcmp(text, what, what_length) == 0)
            return text;
    }
    return memmem(text, (size_t)(end - text), what, what_length);
}

static int
find_plain(lua_State *L, const char *text, size_t from, size_t length, const char *what, size_t what_length)
{
    script_charge(L, 2 * steps_of_bytes(length - from + what_length));
    const char *found = find_text(text + from, length - from, what, what_length);
    if (found == NULL) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, found - text + 1);
    lua_pushinteger(L, found - text + (lua_Integer)what_length);
    return 2;
}

static int
search(lua_State *L, bool find)
{
    size_t      length, pattern_length;
    const char *text    = luaL_checklstring(L, 1, &length);
    const char *source  = luaL_checklstring(L, 2, &pattern_length);
    size_t      from    = start_offset(luaL_optinteger(L, 3, 1), length);
    if (from > length) {
        lua_pushnil(L);
        return 1;
    }
    if (find && (lua_toboolean(L, 4) || !has_specials(source, pattern_length)))
        return find_plain(L, text, from, length, source, pattern_length);
    struct pattern pattern;
    struct match   match;
    bool           anchored = pattern_length > 0 && *source == '^';
    pattern_read(L, &pattern, source + anchored, pattern_length - anchored);
    match_begin(&match, L, &pattern, text, length);
    const char *at = text + from, *end;
    while ((end = match_at(&match, at)) == NULL && at < match.end && !anchored)
        at++;
    match_end(&match);
    if (end == NULL) {
        lua_pushnil(L);
        return 1;
    }
    if (!find)
        return match_push(&match, at, end);
    lua_pushinteger(L, at - text + 1);
    lua_pushinteger(L, end - text);
    return 2 + match_push(&match, NULL, NULL);
}

static int
string_find(lua_State *L)
{
    return search(L, true);
}

static int
string_match(lua_State *L)
{
    return search(L, false);
}

/* ---- gmatch ---- */

struct walk {
    struct pattern pattern;
    const char    *text, *at;
    const char    *last;        /* where the match before ended: an empty one does not follow there */
    size_t         length;
};

/* Upvalues: the walk, the text, what the pattern needs to stay. */
static int
walk_step(lua_State *L)
{
    struct walk *walk = lua_touserdata(L, lua_upvalueindex(1));
    struct match match;
    match_begin(&match, L, &walk->pattern, walk->text, walk->length);
    for (const char *at = walk->at; at <= match.end; at++) {
        const char *end = match_at(&match, at);
        if (end != NULL && end != walk->last) {
            walk->at = walk->last = end;
            match_end(&match);
            return match_push(&match, at, end);
        }
    }
    match_end(&match);
    return 0;
}

static int
string_gmatch(lua_State *L)
{
    size_t      length, pattern_length;
    const char *text   = luaL_checklstring(L, 1, &length);
    const char *source = luaL_checklstring(L, 2, &pattern_length);
    size_t      from   = start_offset(luaL_optinteger(L, 3, 1), length);
    lua_settop(L, 2);
    struct walk *walk = lua_newuserdatauv(L, sizeof *walk, 0);
    walk->text        = text;
    walk->at          = text + from;
    walk->last        = NULL;
    walk->length      = length;
    lua_pushvalue(L, 1);
    pattern_read(L, &walk->pattern, source, pattern_length);
    lua_pushcclosure(L, walk_step, 3);
    return 1;
}

/* ---- gsub ---- */

struct replacing {
    struct match match;
    luaL_Buffer  buffer;
    const char  *copied;        /* of the text, up to here, is in the buffer */
    const char  *text;          /* the replacement, if it is a text */
    size_t       length;
};

/* What stands behind a % in the replacement. */
static void
add_escaped(struct replacing *r, char what, const char *from, const char *to)
{
    if (what == '%') {
        luaL_addchar(&r->buffer, '%');
    } else if (what == '0') {
        luaL_addlstring(&r->buffer, from, (size_t)(to - from));
    } else if (what >= '1' && what <= '9') {
        struct capture capture = match_capture(&r->match, what - '1', from, to);
        if (capture.length >= 0) {
            luaL_addlstring(&r->buffer, capture.at, (size_t)capture.length);
            return;
        }
        match_push_capture(&r->match, capture);
        luaL_addvalue(&r->buffer);
    } else {
        luaL_error(r->match.L, "invalid use of '%c' in replacement string", '%');
    }
}

static void
add_text(struct replacing *r, const char *from, const char *to)
{
    const char *at = r->text, *end = at + r->length, *escape;
    script_charge(r->match.L, steps_of_bytes(r->length));
    for (; (escape = memchr(at, '%', (size_t)(end - at))) != NULL; at = escape + 2) {
        luaL_addlstring(&r->buffer, at, (size_t)(escape - at));
        script_charge(r->match.L, 1);
        add_escaped(r, escape + 1 < end ? escape[1] : 0, from, to);
    }
    luaL_addlstring(&r->buffer, at, (size_t)(end - at));
}

/* What the table or function at 3 has for the match. */
static void
push_replacement(struct replacing *r, const char *from, const char *to)
{
    lua_State *L = r->match.L;
    if (lua_type(L, 3) == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);
        lua_call(L, match_push(&r->match, from, to), 1);
    } else {
        match_push_capture(&r->match, match_capture(&r->match, 0, from, to));
        lua_gettable(L, 3);
    }
}

/* false: the match stays as it is. What is before it is in the buffer by now: the buffer may have its memory in a slot
 * of the stack, below which nothing else may lie when it grows. */
static bool
add_replacement(struct replacing *r, const char *from, const char *to)
{
    lua_State *L = r->match.L;
    if (r->text != NULL) {
        add_text(r, from, to);
        return true;
    }
    push_replacement(r, from, to);
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(&r->buffer);
    return true;
}

static void
add_pending(struct replacing *r, const char *to)
{
    luaL_addlstring(&r->buffer, r->copied, (size_t)(to - r->copied));
    r->copied = to;
}

/* Answers how many matches there were; *changed: any was replaced. */
static lua_Integer
replace_all(struct replacing *r, lua_Integer most, bool anchored, bool *changed)
{
    const char *at = r->match.begin, *last = NULL;
    lua_Integer count = 0;
    while (count < most) {
        const char *end = match_at(&r->match, at);
        if (end != NULL && end != last) {
            count++;
            add_pending(r, at);
            if (add_replacement(r, at, end)) {
                r->copied = end;
                *changed  = true;
            }
            at = last = end;
        } else if (at < r->match.end) {
            at++;
        } else {
            break;
        }
        if (anchored)
            break;
    }
    return count;
}

static int
string_gsub(lua_State *L)
{
    struct pattern   pattern;
    struct replacing r;
    size_t           length, pattern_length;
    const char      *text    = luaL_checklstring(L, 1, &length);
    const char      *source  = luaL_checklstring(L, 2, &pattern_length);
    int              type    = lua_type(L, 3);
    lua_Integer      most    = luaL_optinteger(L, 4, (lua_Integer)length + 1);
    bool             changed = false, anchored = pattern_length > 0 && *source == '^';
    if (type != LUA_TNUMBER && type != LUA_TSTRING && type != LUA_TTABLE && type != LUA_TFUNCTION)
        return luaL_typeerror(L, 3, "string/function/table");
    r.text   = type == LUA_TNUMBER || type == LUA_TSTRING ? lua_tolstring(L, 3, &r.length) : NULL;
    r.copied = text;
    pattern_read(L, &pattern, source + anchored, pattern_length - anchored);
    match_begin(&r.match, L, &pattern, text, length);
    luaL_buffinit(L, &r.buffer);
    lua_Integer count = replace_all(&r, most, anchored, &changed);
    match_end(&r.match);
    if (changed) {
        add_pending(&r, r.match.end);
        luaL_pushresult(&r.buffer);
    } else {
        lua_pushvalue(L, 1);
    }
    lua_pushinteger(L, count);
    return 2;
}

/* ---- parts of a text ---- */

/* Of a text of this length, counted from 1; a negative place counts from the end. */
static lua_Integer
place_from_end(lua_Integer place, size_t length)
{
    return place >= 0 ? place : place < -(lua_Integer)length ? 0 : (lua_Integer)length + place + 1;
}

static int
string_sub(lua_State *L)
{
    size_t      length;
    const char *text  = luaL_checklstring(L, 1, &length);
    lua_Integer first = place_from_end(luaL_checkinteger(L, 2), length);
    lua_Integer last  = place_from_end(luaL_optinteger(L, 3, -1), length);
    first             = first < 1 ? 1 : first;
    last              = last > (lua_Integer)length ? (lua_Integer)length : last;
    size_t bytes      = first <= last ? (size_t)(last - first) + 1 : 0;
    if (bytes > SMALL_TEXT)
        script_charge(L, steps_of_bytes(bytes));
    lua_pushlstring(L, bytes > 0 ? text + first - 1 : "", bytes);
    return 1;
}

static int
string_byte(lua_State *L)
{
    size_t      length;
    const char *text  = luaL_checklstring(L, 1, &length);
    lua_Integer given = luaL_optinteger(L, 2, 1), first = place_from_end(given, length);
    lua_Integer last  = place_from_end(luaL_optinteger(L, 3, first), length);
    first             = first < 1 ? 1 : first;
    last              = last > (lua_Integer)length ? (lua_Integer)length : last;
    if (first > last)
        return 0;
    if (last - first >= INT_MAX)
        return luaL_error(L, "string slice too long");
    int count = (int)(last - first) + 1;
    if (count > SMALL_TEXT)
        script_charge(L, (uint64_t)count);
    luaL_checkstack(L, count, "string slice too long");
    for (int i = 0; i < count; i++)
        lua_pushinteger(L, (unsigned char)text[first - 1 + i]);
    return count;
}

void
search_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "find", string_find }, { "match", string_match }, { "gmatch", string_gmatch }, { "gsub", string_gsub },
        { "sub", string_sub },   { "byte", string_byte },   { NULL, NULL },
    };
    lua_getglobal(L, "string");
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}

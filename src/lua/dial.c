/* rs.lesson's `story` and `tell`, read and checked, then written into the trace as options, one for each kind: who
 * reads the trace finds an answer for a kind and knows no families. Of several names that fit a kind the longest
 * counts.
 *
 * Interface: read_dial, record_dial; no_kind. */
#include "lua/dial.h"

#include <stdio.h>
#include <string.h>
#include "base/nearest.h"
#include "base/visible.h"
#include "lua/internal.h"
#include "trace/writer.h"

enum { SENTENCE_MOST = 200 };

int
no_kind(lua_State *L, const char *option, const char *kind)
{
    size_t      least = word_reach(kind) + 1;
    const char *meant = NULL;
    for (int i = KIND_NONE + 1; i < KIND_COUNT; i++) {
        const char *name = kind_table[i].name;
        if (word_distance(kind, name) < least) {
            least = word_distance(kind, name);
            meant = name;
        }
    }
    return raise_error(L, "ValueError", "%s names no kind of event: \"%.60s\"%s%s%s", option, kind,
                       meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "", meant != NULL ? "?" : "");
}

/* ---- story ---- */

/* How exactly each kind was named so far, 0: not at all. */
struct naming { size_t fit[KIND_COUNT]; };

/* "dp.scatter" fits that kind; "dp.scatter.*" it and what is below, less exactly. 0: it does not fit. */
static size_t
fit_of(const char *name, const char *kind)
{
    size_t length = strlen(name), stem = length > 2 && strcmp(name + length - 2, ".*") == 0 ? length - 2 : 0;
    if (strcmp(name, kind) == 0)
        return 2 * length + 1;
    return stem > 0 && strncmp(name, kind, stem) == 0 && (kind[stem] == '\0' || kind[stem] == '.') ? 2 * stem : 0;
}

static void
turn(lua_State *L, struct naming *naming, struct dial *dial, const char *name, enum dial_part part)
{
    bool any = false;
    script_charge(L, KIND_COUNT);
    for (int i = KIND_NONE + 1; i < KIND_COUNT; i++) {
        size_t fit = fit_of(name, kind_table[i].name);
        any |= fit > 0;
        if (fit == 0 || fit < naming->fit[i])
            continue;
        if (fit == naming->fit[i] && dial->part[i] != part)
            raise_error(L, "ValueError", "rs.lesson: story has \"%.60s\" twice, told and silent", name);
        naming->fit[i] = fit;
        dial->part[i]  = (unsigned char)part;
    }
    if (!any)
        no_kind(L, "rs.lesson: story", name);
}

/* A key of the table at `story`, at the top: a place of its list, or a name. */
static void
read_turn(lua_State *L, int story, struct naming *naming, struct dial *dial)
{
    bool        listed = lua_isinteger(L, -1);
    const char *name   = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL; /* the table keeps it */
    lua_rawget(L, story);
    if (listed && lua_type(L, -1) == LUA_TSTRING)
        turn(L, naming, dial, lua_tostring(L, -1), DIAL_SCENE);
    else if (name != NULL && lua_isboolean(L, -1))
        turn(L, naming, dial, name, lua_toboolean(L, -1) ? DIAL_SCENE : DIAL_SILENT);
    else if (name != NULL)
        raise_error(L, "TypeError", "rs.lesson: story's [\"%.60s\"] is true (told) or false (silent), not a %s", name,
                    luaL_typename(L, -1));
    else
        raise_error(L, "TypeError", "rs.lesson: story's list holds names of kinds, as \"dp.scatter.chunk\", not a %s",
                    luaL_typename(L, -1));
}

static void
read_story(lua_State *L, int story, struct dial *dial)
{
    struct naming naming = { 0 };
    int           count = push_sorted_keys(L, story), keys = lua_gettop(L);
    for (int i = 1; i <= count; i++, lua_settop(L, keys)) {
        lua_rawgeti(L, keys, i);
        read_turn(L, story, &naming, dial);
    }
}

/* ---- tell ---- */

/* What is no UTF-8 counts byte by byte. */
static size_t
characters_of(const char *text)
{
    size_t   count = 0, left = strlen(text);
    uint32_t code;
    for (; left > 0; count++) {
        size_t step = utf8_take(text, left, &code);
        step        = step > 0 ? step : 1;
        text += step;
        left -= step;
    }
    return count;
}

static int
kind_named(const char *name)
{
    for (int i = KIND_NONE + 1; i < KIND_COUNT; i++)
        if (strcmp(kind_table[i].name, name) == 0)
            return i;
    return KIND_NONE;
}

/* A name and its sentence, at the top. */
static void
read_sentence(lua_State *L, struct dial *dial)
{
    if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING)
        raise_error(L, "TypeError", "rs.lesson: tell is a table like { [\"ddp.mark_bucket_ready\"] = "
                                    "\"Bucket {bucket} is full.\" }");
    const char *name = lua_tostring(L, -2), *sentence = lua_tostring(L, -1);
    int         kind = kind_named(name);
    if (kind == KIND_NONE)
        no_kind(L, "rs.lesson: tell", name);
    if (sentence[strspn(sentence, " \t")] == '\0' || strchr(sentence, '\n') != NULL)
        raise_error(L, "ValueError", "rs.lesson: tell's [\"%.60s\"] is one line of words", name);
    size_t length = characters_of(sentence);
    if (length > SENTENCE_MOST)
        raise_error(L, "ValueError", "rs.lesson: tell's [\"%.60s\"] has %zu characters: at most %d", name, length,
                    SENTENCE_MOST);
    dial->sentence[kind] = sentence;
}

static void
read_tell(lua_State *L, int tell, struct dial *dial)
{
    int count = push_sorted_keys(L, tell), keys = lua_gettop(L);
    for (int i = 1; i <= count; i++, lua_settop(L, keys)) {
        lua_rawgeti(L, keys, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, tell);
        read_sentence(L, dial);
    }
}

/* ---- both ---- */

static void
read_option(lua_State *L, int table, const char *name, void (*read)(lua_State *L, int given, struct dial *dial),
            struct dial *dial)
{
    int top = lua_gettop(L);
    if (!option_push(L, table, name))
        return;
    if (!lua_istable(L, -1))
        raise_error(L, "TypeError", "rs.lesson: %s is a table, not a %s", name, luaL_typename(L, -1));
    read(L, lua_gettop(L), dial);
    lua_settop(L, top);
}

void
read_dial(lua_State *L, int table, struct dial *out)
{
    luaL_checkstack(L, 16, "rs.lesson");
    read_option(L, table, "story", read_story, out);
    read_option(L, table, "tell", read_tell, out);
}

static void
record_of_kind(struct trace_writer *writer, const char *of, int kind, const char *value)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", of, kind_table[kind].name);
    trace_option(writer, key, value);
}

void
record_dial(struct trace_writer *writer, const struct dial *dial)
{
    for (int i = KIND_NONE + 1; i < KIND_COUNT; i++) {
        if (dial->part[i] != DIAL_USUAL)
            record_of_kind(writer, STORY_PART, i, dial->part[i] == DIAL_SCENE ? "scene" : "silent");
        if (dial->sentence[i] != NULL)
            record_of_kind(writer, STORY_TELL, i, dial->sentence[i]);
    }
}

/* rs.save and rs.load: weights to and from PyTorch's world and whole states of a training, as safetensors files. Files
 * are not for lessons that somebody downloaded: both want --trust. */
#include <string.h>
#include "base/vec.h"
#include "data/safetensors.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "lua/kept.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static void
want_trust(lua_State *L, const char *name)
{
    if (!script_of(L)->options.trusted)
        raise_error(L, "PermissionError", "%s reaches files, which a lesson may not: run it with --trust", name);
}

/* Sorted keys of the table at `table`, which have to be texts: an array on the stack. */
static const char **
push_names(lua_State *L, int table, size_t *count, const char *what)
{
    *count             = (size_t)push_sorted_keys(L, table);
    int          keys  = lua_gettop(L);
    const char **names = lua_newuserdatauv(L, (*count + 1) * sizeof *names, 0);
    for (size_t i = 0; i < *count; i++) {
        if (lua_rawgeti(L, keys, (lua_Integer)i + 1) != LUA_TSTRING)
            raise_error(L, "TypeError", "rs.save: %s are texts, this one is %s", what, luaL_typename(L, -1));
        names[i] = lua_tostring(L, -1); /* the table keeps it */
        lua_pop(L, 1);
    }
    return names;
}

/* The metadata at `table` (0: none) and, unless it is NULL, `kept`. */
static void
read_metadata(lua_State *L, int table, const char *kept, struct safetensors_content *content)
{
    size_t       count = 0;
    const char **keys  = table != 0 ? push_names(L, table, &count, "keys of the metadata") : NULL;
    const char **all   = lua_newuserdatauv(L, (count + 1) * sizeof *all, 0);
    const char **texts = lua_newuserdatauv(L, (count + 1) * sizeof *texts, 0);
    for (size_t i = 0; i < count; i++) {
        all[i] = keys[i];
        if (lua_getfield(L, table, keys[i]) != LUA_TSTRING)
            raise_error(L, "TypeError", "rs.save: metadata are texts, \"%.80s\" is %s", keys[i], luaL_typename(L, -1));
        texts[i] = lua_tostring(L, -1);
        lua_pop(L, 1);
        if (strcmp(keys[i], KEPT_KEY) == 0)
            raise_error(L, "ValueError", "rs.save: the metadata's \"" KEPT_KEY "\" is what it writes itself");
    }
    all[count]   = KEPT_KEY;
    texts[count] = kept;
    content->keys           = all;
    content->texts          = texts;
    content->metadata_count = count + (kept != NULL);
}

/* rs.save(value, path, {metadata = {key = "text"}}) */
static int
save(lua_State *L)
{
    struct task               *me = script_task(L);
    struct safetensors_content content = { 0 };
    struct arguments           a;
    want_trust(L, "rs.save");
    take_arguments(L, &a);
    const char *kept = push_kept(L, (int)a.at[0].integer[0], &content);
    read_metadata(L, a.at[2].none ? 0 : (int)a.at[2].integer[0], kept, &content);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, safetensors_save(me, a.at[1].text, &content));
}

static int
close_file(lua_State *L)
{
    struct safetensors **file = lua_touserdata(L, 1);
    safetensors_close(*file);
    *file = NULL;
    return 0;
}

/* The metadata as a table, pushed; answers what rs.save wrote there for itself, NULL: nothing. */
static const char *
push_metadata(lua_State *L, const struct safetensors *file)
{
    const char *key = NULL, *text = NULL, *kept = NULL;
    lua_newtable(L);
    for (size_t i = 0; i < safetensors_metadata(file, i, &key, &text); i++) {
        if (strcmp(key, KEPT_KEY) == 0)
            kept = text;
        else
            set_text(L, -1, key, text);
    }
    return kept;
}

/* rs.load(path, {map_location}): what was saved, and the metadata. */
static int
load_file(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    want_trust(L, "rs.load");
    take_arguments(L, &a);
    int map = a.at[1].none ? 0 : (int)a.at[1].integer[0];
    check_map_location(L, map);
    struct safetensors **file = push_owned(L, sizeof *file, "ringside.safetensors", close_file);
    struct call          call = call_open(L, me, CALL_PLAIN);
    *file                     = safetensors_open(me, a.at[0].text);
    call_done(&call, *file != NULL);
    const char *kept = push_metadata(L, *file);
    push_restored(L, *file, a.at[0].text, kept, map);
    lua_insert(L, -2);
    safetensors_close(*file);
    *file = NULL;
    return 2;
}

static const struct lua_entry entries[] = {
    { "save", save, "rs.save(any value, str path, *, table? metadata=None) -> any",
      "tensors and nested tables of them, numbers and texts into a safetensors file; with --trust" },
    { "load", load_file, "rs.load(str path, any? map_location=None) -> any",
      "what rs.save wrote, each tensor on its device, or any safetensors file; and its metadata; with --trust" },
};

void
lua_open_save(lua_State *L)
{
    fill_namespace(L, "", entries, countof(entries));
}

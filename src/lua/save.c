/* rs.save and rs.load: weights to and from PyTorch's world, as safetensors files. Files are not for lessons that
 * somebody downloaded: both want --trust. */
#include "base/vec.h"
#include "data/safetensors.h"
#include "lua/data.h"
#include "lua/dispatch.h"
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

static void
read_tensors(lua_State *L, int table, struct safetensors_content *content)
{
    content->names          = push_names(L, table, &content->count, "the names of tensors");
    struct tensor **tensors = lua_newuserdatauv(L, (content->count + 1) * sizeof *tensors, 0);
    for (size_t i = 0; i < content->count; i++) {
        lua_getfield(L, table, content->names[i]);
        tensors[i] = test_tensor(L, -1);
        if (tensors[i] == NULL)
            raise_error(L, "TypeError", "rs.save takes tensors by name, such as m:state_dict(): \"%.80s\" is %s",
                        content->names[i], luaL_typename(L, -1));
        lua_pop(L, 1);
    }
    content->tensors = tensors;
}

static void
read_metadata(lua_State *L, int table, struct safetensors_content *content)
{
    content->keys      = push_names(L, table, &content->metadata_count, "keys of the metadata");
    const char **texts = lua_newuserdatauv(L, (content->metadata_count + 1) * sizeof *texts, 0);
    for (size_t i = 0; i < content->metadata_count; i++) {
        if (lua_getfield(L, table, content->keys[i]) != LUA_TSTRING)
            raise_error(L, "TypeError", "rs.save: metadata are texts, \"%.80s\" is %s", content->keys[i],
                        luaL_typename(L, -1));
        texts[i] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    content->texts = texts;
}

/* rs.save(dict, path, {metadata = {key = "text"}}) */
static int
save(lua_State *L)
{
    struct task               *me = script_task(L);
    struct safetensors_content content = { 0 };
    struct arguments           a;
    want_trust(L, "rs.save");
    take_arguments(L, &a);
    read_tensors(L, (int)a.at[0].integer[0], &content);
    if (!a.at[2].none)
        read_metadata(L, (int)a.at[2].integer[0], &content);
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

/* rs.load(path): the tensors by name, and the metadata. */
static int
load_file(lua_State *L)
{
    struct task     *me  = script_task(L);
    const char      *key = NULL, *text = NULL;
    struct arguments a;
    want_trust(L, "rs.load");
    take_arguments(L, &a);
    struct safetensors **file = push_owned(L, sizeof *file, "ringside.safetensors", close_file);
    struct call          call = call_open(L, me, CALL_PLAIN);
    *file                     = safetensors_open(me, a.at[0].text);
    call_done(&call, *file != NULL);
    lua_newtable(L);
    for (size_t i = 0; i < safetensors_count(*file); i++) {
        lua_pushstring(L, safetensors_name(*file, i));
        call = call_open(L, me, CALL_PLAIN);
        call_tensor(&call, safetensors_tensor(me, *file, i));
        lua_rawset(L, -3);
    }
    lua_newtable(L);
    for (size_t i = 0; i < safetensors_metadata(*file, i, &key, &text); i++)
        set_text(L, -1, key, text);
    safetensors_close(*file);
    *file = NULL;
    return 2;
}

static const struct lua_entry entries[] = {
    { "save", save, "rs.save(table dict, str path, *, table? metadata=None) -> any",
      "tensors by name into a safetensors file; with --trust" },
    { "load", load_file, "rs.load(str path) -> any",
      "the tensors of a safetensors file by name, and its metadata; with --trust" },
};

void
lua_open_save(lua_State *L)
{
    fill_namespace(L, "", entries, countof(entries));
}

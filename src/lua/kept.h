/* What a file of rs.save says beside its tensors: nested tables, numbers and texts as JSON, and of each tensor its device,
 * its strides and whose elements it shares. It stands in the metadata under KEPT_KEY; a file of plain tensors by name
 * needs none of it, so that any reader of safetensors has the whole file. */
#ifndef LUA_KEPT_H
#define LUA_KEPT_H
#include <jansson.h>
#include <lua.h>

struct safetensors; struct safetensors_content;

#define KEPT_KEY "ringside"
enum { KEPT_DEPTH = 150 };

/* ---- keep.c ---- */
/* The value at `index` as the tensors of `content` and, unless it is plain tensors by name, a text for KEPT_KEY; NULL: it
 * needs none. All of it lives as long as what is pushed. Raises with the path to what no file keeps. */
const char *push_kept(lua_State *L, int index, struct safetensors_content *content);

/* ---- restore.c ---- */
void check_map_location(lua_State *L, int map_location);     /* raises for what is none */
/* Pushes what was kept. `text`: of KEPT_KEY, NULL for plain tensors by name; `map_location`: where the option is, 0 none.
 * Raises in one line for whatever the text says that no rs.save wrote. */
void push_restored(lua_State *L, struct safetensors *file, const char *path, const char *text, int map_location);
#endif

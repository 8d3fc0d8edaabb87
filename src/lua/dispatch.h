/* Reads the arguments of a Lua call by a signature (functional/catalogue.h): by place, by name in one trailing table,
 * or both. What is wrong is a TypeError that names the argument. */
#ifndef LUA_DISPATCH_H
#define LUA_DISPATCH_H
#include "functional/catalogue.h"
#include "lua/internal.h"

/* From argument 1 on. `title` is what messages call a constructor ("nn.Linear"); NULL: a function, which messages call
 * by the name that the lesson used. What is read stays on the stack: texts, tensors and lists are Lua's. */
void read_arguments(lua_State *L, const struct signature *signature, const char *title, struct arguments *out);
/* For a function whose entry has a signature in the catalogue's language ("... -> any"): its own, which is answered. */
const struct signature *take_arguments(lua_State *L, struct arguments *out);
/* Those from `first` on become fields of the table at `table`, an absolute index: numbers, flags, Lua's own values. */
void set_arguments(lua_State *L, int table, const struct arguments *a, int first);
/* How a lesson writes it, pushed: "rs.sum(t, {dim, keepdim = false})" for `before` "rs.", "t:sum({dim, ...})" for "t:". */
const char *push_usage(lua_State *L, const struct signature *signature, const char *before);
/* The catalogue's function of that name, with one of the forms, for the table at `table`; pushed and noted for help. A
 * second name is the same object as the first. false: there is none. */
bool        push_catalogue_function(lua_State *L, int table, const char *name, unsigned forms, const char *before);
void        lua_open_functions(lua_State *L);
#endif

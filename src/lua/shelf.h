/* Tables of functions that are filled on first use: see shelf.c. */
#ifndef LUA_SHELF_H
#define LUA_SHELF_H
#include "lua/internal.h"

struct signature;

/* The table at `table` is filled on demand from now on; it stays as long as the state. `path`: a namespace, "rs.nn",
 * in which a name that is not there is an AttributeError; NULL: methods, where it is nil. */
void shelf_open(lua_State *L, int table, const char *path);
bool shelf_is(lua_State *L, int table);
bool shelf_has_methods(lua_State *L, int table);   /* its functions are called with a colon, as rs.trace's */
/* Lists to fill it from; of two functions of one name the one added later counts. false: it is no such table. */
bool shelf_add(lua_State *L, int table, const struct lua_entry *entries, size_t count);
/* Of an entry that has one in the catalogue's language. */
const struct signature *entry_signature(lua_State *L, const struct lua_entry *entry);
void shelf_add_catalogue(lua_State *L, int table, unsigned forms, const char *before);
/* Functions that neither a list nor the catalogue describes: layers. */
struct shelf_maker {
    bool        (*push)(lua_State *L, const char *name);   /* pushed and noted for help; false: there is none */
    const char *(*name)(lua_State *L, size_t index);       /* all that there are; NULL: no more */
};
void shelf_add_maker(lua_State *L, int table, const struct shelf_maker *maker); /* which outlives the state */
/* The key at the top becomes its value, whose type is answered; no metamethod runs. Of any table. */
int  shelf_get(lua_State *L, int table);
void shelf_fill(lua_State *L, int table);   /* before it is walked; nothing for other tables */
void shelf_fill_all(lua_State *L);          /* for help: every function is made and noted */
#endif

/* Lua values as bytes, for what objects travel in between ranks: nil, booleans, numbers, texts, rs.none, tensors of the
 * host, and tables and tuples of these, shared and cyclic ones too. */
#ifndef LUA_PICKLE_H
#define LUA_PICKLE_H
#include <lua.h>
#include <stddef.h>

/* How many bytes the value at `index` takes. Raises TypeError for what cannot travel: functions, modules ... */
size_t pickle_size(lua_State *L, int index);
/* Fills exactly so many. Raises if the value was changed since they were counted. */
void   pickle(lua_State *L, int index, void *bytes, size_t size);
/* Pushes the value. Raises RuntimeError for bytes that pickle did not write; none of them is trusted. */
void   unpickle(lua_State *L, const void *bytes, size_t size);
#endif

/* rs.json_load, for trusted lessons. */
#ifndef LUA_JSON_H
#define LUA_JSON_H
#include <lua.h>

void lua_open_json(lua_State *L);
#endif

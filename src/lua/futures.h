/* Futures as lessons see them, for who makes one: work.c, comm_hook.c, algorithm.c. */
#ifndef LUA_FUTURES_H
#define LUA_FUTURES_H
#include <lua.h>
#include "c10d/future.h"

/* The script's; made at the first call. Raises without memory. */
struct futures *futures_here(lua_State *L);
/* A new one's box. */
struct future *push_future(lua_State *L);
/* What the future at `box` will answer: the value at the top, popped. */
void set_future_value(lua_State *L, int box);
/* What the future at `box`, which is done, answers, pushed; raises what it failed with. */
void push_future_value(lua_State *L, int box);
#endif

/* Futures as lessons see them, for who makes one: work.c, comm_hook.c, algorithm.c. */
#ifndef LUA_FUTURES_H
#define LUA_FUTURES_H
#include <lua.h>
#include "c10d/future.h"

/* The script's; made at the first call. Raises without memory. */
struct futures *futures_here(lua_State *L);
/* A new one's box. */
struct future *push_future(lua_State *L);
/* A new one's box: of what the function at `function` answers or fails with. Nobody calls it but who waits for a future
 * that is not done: that one's and those of all that were due before, in the order in which they were made, so that what
 * they do is done in the same order on all ranks. */
struct future *push_due_future(lua_State *L, int function);
struct script;
bool futures_are_due(const struct script *script);
void end_due_futures(lua_State *L, int box);   /* until the future at `box` is done, or none is due */
/* What the future at `box` will answer: the value at the top, popped. */
void set_future_value(lua_State *L, int box);
/* What the future at `box`, which is done, answers, pushed; raises what it failed with. */
void push_future_value(lua_State *L, int box);
#endif

/* What the Lua files about optimizers share. */
#ifndef LUA_OPTIM_H
#define LUA_OPTIM_H
#include <lua.h>
#include <stdbool.h>
#include "optim/optimizer.h"

struct task;

/* ---- optim.c: opt.param_groups, a list of plain tables that the lesson may change ---- */
void push_param_groups(lua_State *L, int optimizer);       /* of the box there */
void apply_param_groups(lua_State *L, int optimizer);      /* what stands in them, to the engine; raises */
/* The function at `index` is optim.SGD ...: which; -1: none of them. And the options that a table (0: none) gives it. */
int                  optim_kind_of(lua_State *L, int index);
struct optim_options check_optim_options(lua_State *L, enum optim_kind kind, int table);
void copy_optim_options(lua_State *L, int from);           /* all but params, from a table (0: none) to the one on top */

/* ---- optim_state.c ---- */
int optim_state_dict(lua_State *L);
int optim_load_state_dict(lua_State *L);
int push_optim_state(lua_State *L, int optimizer);         /* opt.state: by parameter */

/* ---- post_localsgd_optimizer.c: the optimizer in the wrapper at index, pushed; false: it is no wrapper ---- */
bool push_wrapped_optimizer(lua_State *L, int index);

void lua_open_lr_scheduler(lua_State *L);
void lua_open_clip(lua_State *L);
#endif

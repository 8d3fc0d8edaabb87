/* ddp.logger, as an argument. */
#ifndef LUA_DDP_INSPECT_H
#define LUA_DDP_INSPECT_H
#include <lua.h>
#include "parallel/ddp_inspect.h"

struct ddp_inside check_ddp_logger(lua_State *L, int index);   /* nil: one without a logger */
#endif

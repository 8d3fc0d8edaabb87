/* What the files of DataParallel in Lua share: its devices, and what is told of them once. */
#ifndef LUA_PARALLEL_H
#define LUA_PARALLEL_H
#include "lua/internal.h"
#include "parallel/data_parallel.h"

/* A list of devices ({0, 1} or {"device:0", ...}) at index, with its array on the stack; nil: all there are. */
struct device_list check_devices(lua_State *L, int index);
/* Where outputs are gathered: a device, "cpu", or -1, an older word for it, of which is warned. */
int  check_output_device(lua_State *L, int index);
void lua_open_comm(lua_State *L);
#endif

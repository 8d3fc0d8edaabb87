/* How much the ranks tell: rs.distributed.DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env, and
 * what the environment says to DistributedDataParallel. As torch.distributed, which reads TORCH_DISTRIBUTED_DEBUG when
 * it is imported; here the first who needs the level does. Each rank has its own, and begins with that of the lesson.
 *
 * Interface: debug_level_here, lua_open_debug_level. */
#include "c10d/debug_level.h"
#include <stdlib.h>
#include "base/vec.h"
#include "lua/rank.h"
#include "sched/task.h"

/* In the registry: the level of a script that is no rank; nil: not known yet. */
static const char level_key[] = "ringside.debug_level";

static void
set_level(lua_State *L, enum debug_level level)
{
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (rank != NULL)
        rank->context.debug_level = level;
    lua_pushinteger(L, level);
    lua_setfield(L, LUA_REGISTRYINDEX, level_key);
}

static enum debug_level
level_of_environment(lua_State *L)
{
    enum debug_level level = DEBUG_OFF;
    struct call      call  = call_open(L, script_task(L), CALL_PLAIN);
    call_done(&call, debug_level_from_environment(call.me, &level));
    return level;
}

enum debug_level
debug_level_here(lua_State *L)
{
    const struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (rank != NULL)
        return (enum debug_level)rank->context.debug_level;
    bool             known = lua_getfield(L, LUA_REGISTRYINDEX, level_key) == LUA_TNUMBER;
    enum debug_level level = (enum debug_level)lua_tointeger(L, -1);
    lua_pop(L, 1);
    if (known)
        return level;
    level = level_of_environment(L);
    set_level(L, level);
    return level;
}

static int
l_get_debug_level(lua_State *L)
{
    arg_most(L, 0);
    lua_pushstring(L, debug_level_name(debug_level_here(L)));
    return 1;
}

static int
l_set_debug_level(lua_State *L)
{
    enum debug_level level = DEBUG_OFF;
    arg_most(L, 1);
    if (lua_type(L, 1) != LUA_TSTRING || !debug_level_parse(lua_tostring(L, 1), &level))
        return raise_error(L, "ValueError",
                           "set_debug_level takes what TORCH_DISTRIBUTED_DEBUG may be: OFF, INFO or DETAIL (of "
                           "dist.DebugLevel), not '%.60s'", luaL_tolstring(L, 1, NULL));
    set_level(L, level);
    return 0;
}

static int
l_set_debug_level_from_env(lua_State *L)
{
    arg_most(L, 0);
    set_level(L, level_of_environment(L));
    return 0;
}

/* PyTorch's list, in its order. */
static const char *const relevant[] = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME",
    "GLOO_DEVICE_TRANSPORT", "NCCL_SOCKET_IFNAME", "TORCH_NCCL_BLOCKING_WAIT", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
    "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PERTHREAD", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_RINGS", "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS", "NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS", "NCCL_LAUNCH_MODE", "NCCL_IB_HCA",
    "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_IB_GID_INDEX", "NCCL_IB_SL", "NCCL_IB_TC", "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_CUDA_SUPPORT", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_LL_THRESHOLD", "NCCL_TREE_THRESHOLD", "NCCL_ALGO", "NCCL_PROTO", "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_DEBUG_FILE", "NCCL_COLLNET_ENABLE", "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
};

/* A print of its own for each line, with the lesson's print. */
static int
l_dump_env_vars(lua_State *L)
{
    arg_most(L, 0);
    for (size_t i = 0; i < countof(relevant); i++) {
        const char *value = getenv(relevant[i]);
        lua_getglobal(L, "print");
        lua_pushfstring(L, "env:%s=%s", relevant[i], value != NULL ? value : "N/A");
        lua_call(L, 1, 0);
    }
    return 0;
}

static const struct lua_entry entries[] = {
    { "get_debug_level", l_get_debug_level, "dist.get_debug_level()",
      "the level of this rank, or of the lesson: OFF, INFO or DETAIL. Unless set_debug_level was called it is what the "
      "environment variable TORCH_DISTRIBUTED_DEBUG says" },
    { "set_debug_level", l_set_debug_level, "dist.set_debug_level(level)",
      "how much this rank tells of what goes wrong; before dist.spawn all its ranks. A DistributedDataParallel keeps "
      "the level with which it was made: from INFO on its errors name parameters" },
    { "set_debug_level_from_env", l_set_debug_level_from_env, "dist.set_debug_level_from_env()",
      "sets the level that TORCH_DISTRIBUTED_DEBUG says: OFF, INFO or DETAIL, in any case; OFF where it is not set" },
    { "_dump_DDP_relevant_env_vars", l_dump_env_vars, "dist._dump_DDP_relevant_env_vars()",
      "prints a line for each environment variable that PyTorch's DistributedDataParallel and its back-ends look at: "
      "env:NAME=value, or env:NAME=N/A" },
};

void
lua_open_debug_level(lua_State *L)
{
    open_namespace(L, "distributed", entries, countof(entries));
    lua_createtable(L, 0, DEBUG_DETAIL + 1);
    for (int level = DEBUG_OFF; level <= DEBUG_DETAIL; level++) {
        const char *name = debug_level_name((enum debug_level)level);
        set_text(L, -1, name, name);
    }
    lua_setfield(L, -2, "DebugLevel");
    lua_pop(L, 1);
}

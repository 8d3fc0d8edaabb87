/* Comm hooks by a word: ddp:_register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS), for those that PyTorch
 * has in C++, and ddp_comm_hooks.register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, ddp, state).
 *
 * Interface: lua_open_comm_hook_types, l_register_builtin_comm_hook. */
#include "lua/comm_hook.h"

#include <string.h>
#include "base/vec.h"
#include "lua/rank.h"
#include "parallel/distributed_data_parallel.h"
#include "sched/task.h"

/* ---- BuiltinCommHookType ---- */

static const struct { const char *name, *logged; struct comm_hook (*hook)(struct process_group *group); } builtin[] = {
    { "ALLREDUCE", "BuiltinCommHookType.ALLREDUCE", allreduce_hook },
    { "FP16_COMPRESS", "BuiltinCommHookType.FP16_COMPRESS", fp16_compress_hook },
};

/* Over the ranks of the DistributedDataParallel, where the hooks by name ask for a group. */
int
l_register_builtin_comm_hook(lua_State *L)
{
    struct task    *me      = script_task(L);
    struct reducer *reducer = ddp_reducer(check_module(L, 1));
    if (reducer == NULL)
        raise_error(L, "TypeError", "this is a method of DistributedDataParallel");
    arg_most(L, 2);
    const char *word = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    size_t      at   = 0;
    while (at < countof(builtin) && strcmp(builtin[at].name, word) != 0)
        at++;
    if (at == countof(builtin))
        return raise_error(L, "TypeError", "comm_hook_type: expected dist.BuiltinCommHookType.ALLREDUCE or "
                                           "FP16_COMPRESS, got %s", word[0] != '\0' ? word : luaL_typename(L, 2));
    struct comm_hook hook = builtin[at].hook(reducer_group(reducer));
    hook.name             = builtin[at].logged;
    struct call call = call_open(L, me, CALL_KEEP);
    return call_done(&call, reducer_register_comm_hook(me, reducer, &hook));
}

/* ---- DDPCommHookType ---- */

#define LIBRARY "distributed.algorithms.ddp_comm_hooks"

/* Where each hook is, below LIBRARY. With `rank` not 0 the state is a PowerSGDState of that rank, around that given. */
struct hook_type { const char *name, *space, *hook; int rank; };

static const struct hook_type types[] = {
    { "ALLREDUCE", "default_hooks", "allreduce_hook", 0 },
    { "FP16_COMPRESS", "default_hooks", "fp16_compress_hook", 0 },
    { "BF16_COMPRESS", "default_hooks", "bf16_compress_hook", 0 },
    { "QUANTIZE_PER_TENSOR", "quantization_hooks", "quantization_pertensor_hook", 0 },
    { "QUANTIZE_PER_CHANNEL", "quantization_hooks", "quantization_perchannel_hook", 0 },
    { "POWER_SGD", "powerSGD_hook", "powerSGD_hook", 1 },
    { "POWER_SGD_RANK2", "powerSGD_hook", "powerSGD_hook", 2 },
    { "BATCHED_POWER_SGD", "powerSGD_hook", "batched_powerSGD_hook", 1 },
    { "BATCHED_POWER_SGD_RANK2", "powerSGD_hook", "batched_powerSGD_hook", 2 },
    { "NOOP", "debugging_hooks", "noop_hook", 0 },
};

enum { POWER_SGD_START = 1000 };      /* start_powerSGD_iter of states that are made here */

/* LIBRARY.space.name, pushed. */
static void
push_from_library(lua_State *L, const char *space, const char *name)
{
    open_namespace(L, LIBRARY, NULL, 0);
    lua_getfield(L, -1, space);
    lua_getfield(L, -1, name);
    lua_replace(L, -3);
    lua_pop(L, 1);
}

/* In the place of the group at `state` PowerSGD's state, pushed. */
static void
push_power_state(lua_State *L, int state, int rank)
{
    push_from_library(L, "powerSGD_hook", "PowerSGDState");
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, state);
    lua_setfield(L, -2, "process_group");
    set_integer(L, -1, "matrix_approximation_rank", rank);
    set_integer(L, -1, "start_powerSGD_iter", POWER_SGD_START);
    lua_call(L, 1, 1);
}

static int
l_register_ddp_comm_hook(lua_State *L)
{
    arg_most(L, 3);
    lua_settop(L, 3);
    const char *word = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
    for (size_t i = 0; i < countof(types); i++) {
        if (strcmp(types[i].name, word) != 0)
            continue;
        push_from_library(L, types[i].space, types[i].hook);
        if (types[i].rank != 0)
            push_power_state(L, 3, types[i].rank);
        else
            lua_pushvalue(L, 3);
        register_comm_hook(L, 2, -1, -2);
        return 0;
    }
    return raise_error(L, "TypeError", "comm_hook_type: expected one of DDPCommHookType's, such as "
                                       "DDPCommHookType.FP16_COMPRESS, got %s",
                       word[0] != '\0' ? word : luaL_typename(L, 1));
}

static const struct lua_entry entries[] = {
    { "register_ddp_comm_hook", l_register_ddp_comm_hook,
      "dist.algorithms.ddp_comm_hooks.register_ddp_comm_hook(comm_hook_type, model, state)",
      "the hook of that word becomes the model's; of PowerSGD the state, a group or nil, is put into one" },
};

void
lua_open_comm_hook_types(lua_State *L)
{
    open_namespace(L, LIBRARY, entries, countof(entries));
    lua_createtable(L, 0, (int)countof(types));
    for (size_t i = 0; i < countof(types); i++)
        set_text(L, -1, types[i].name, types[i].name);
    lua_setfield(L, -2, "DDPCommHookType");
    lua_pop(L, 1);
    open_namespace(L, "distributed", NULL, 0);
    lua_createtable(L, 0, (int)countof(builtin));
    for (size_t i = 0; i < countof(builtin); i++)
        set_text(L, -1, builtin[i].name, builtin[i].name);
    lua_setfield(L, -2, "BuiltinCommHookType");
    lua_pop(L, 1);
}

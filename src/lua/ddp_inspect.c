/* The private names of PyTorch's DistributedDataParallel by which tests look into it, and the two collectives of its
 * construction by themselves: ddp.reducer, ddp.logger, ddp.process_group, ddp:_build_params_for_reducer ...
 *
 * Interface: lua_open_ddp_inspect, push_ddp_inside, check_ddp_logger. */
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "device/cells.h"
#include "lua/ddp_inspect.h"
#include "lua/internal.h"
#include "lua/rank.h"
#include "parallel/ddp_inspect.h"
#include "parallel/state_sync.h"
#include "parallel/verify_params.h"
#include "sched/task.h"
#include "tensor/tensor.h"

#define REDUCER_CLASS "ringside.ddp_reducer"
#define LOGGER_CLASS  "ringside.ddp_logger"

/* ---- the wrapper, and what stands for a part of it: a table {wrapper} ---- */

static struct ddp_inside
check_inside(lua_State *L, int index)
{
    struct ddp_inside inside;
    if (!ddp_look_inside(check_module(L, index), &inside))
        raise_error(L, "TypeError", "this is a method of DistributedDataParallel");
    return inside;
}

static struct ddp_inside
check_part(lua_State *L, int index, const char *class, const char *what)
{
    bool is_part = lua_istable(L, index) && lua_getmetatable(L, index);
    if (is_part) {
        luaL_getmetatable(L, class);
        is_part = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    if (!is_part)
        raise_error(L, "TypeError", "expected %s of a DistributedDataParallel, got %s", what, luaL_typename(L, index));
    lua_rawgeti(L, index, 1);
    struct ddp_inside inside = check_inside(L, -1);
    lua_pop(L, 1);
    return inside;
}

struct ddp_inside
check_ddp_logger(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index))
        return (struct ddp_inside){ 0 };
    return check_part(L, index, LOGGER_CLASS, "the logger");
}

static void
push_part(lua_State *L, const char *class)
{
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    luaL_setmetatable(L, class);
}

static void
push_limits(lua_State *L, const struct ddp_inside *inside)
{
    lua_createtable(L, inside->limit_count, 0);
    for (int i = 0; i < inside->limit_count; i++) {
        lua_pushinteger(L, (lua_Integer)inside->limits[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

bool
push_ddp_inside(lua_State *L, const struct module *module, const char *name)
{
    struct ddp_inside inside;
    if (!ddp_look_inside(module, &inside))
        return false;
    if (strcmp(name, "process_group") == 0)
        push_group(L, inside.group);
    else if (strcmp(name, "bucket_bytes_cap_list") == 0)
        push_limits(L, &inside);
    else if (strcmp(name, "bucket_bytes_cap_default") == 0)
        lua_pushboolean(L, inside.first_is_smaller);
    else if (strcmp(name, "reducer") == 0 && inside.count > 0)
        push_part(L, REDUCER_CLASS);
    else if (strcmp(name, "logger") == 0 && inside.logger != NULL)
        push_part(L, LOGGER_CLASS);
    else
        return false;
    return true;
}

/* ---- the reducer's ---- */

static int
l_used_map(lua_State *L)
{
    struct ddp_inside inside = check_part(L, 1, REDUCER_CLASS, "the reducer");
    struct call       call   = call_open(L, script_task(L), CALL_PLAIN);
    if (inside.used_map == NULL)
        failed(call.me, E_RUNTIME, "nobody notes which parameters are used: that takes find_unused_parameters=true or "
                                   "static_graph=true");
    return call_tensor(&call, inside.used_map != NULL ? tensor_clone(call.me, inside.used_map) : NULL);
}

static int
l_graph_static(lua_State *L)
{
    lua_pushboolean(L, check_part(L, 1, REDUCER_CLASS, "the reducer").graph_static);
    return 1;
}

/* ---- parameters and their names ---- */

static int
l_build_params(lua_State *L)
{
    struct ddp_inside inside = check_inside(L, 1);
    arg_most(L, 1);
    lua_createtable(L, inside.count, 0);
    lua_createtable(L, inside.count, 0);
    for (int i = 0; i < inside.count; i++) {
        push_tensor(L, inside.params[i]);
        lua_rawseti(L, -3, i + 1);
        lua_pushboolean(L, inside.sparse[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 2;
}

static int
index_of_param(const struct ddp_inside *inside, const struct tensor *tensor)
{
    for (int i = 0; i < inside->count; i++)
        if (inside->params[i] == tensor)
            return i;
    return -1;
}

/* As PyTorch's, which says so when the two lists are not of the same parameters. */
static int
l_name_mapping(lua_State *L)
{
    struct ddp_inside inside = check_inside(L, 1);
    int               count;
    arg_most(L, 2);
    struct tensor **params = check_tensors(L, 2, &count);
    lua_createtable(L, 0, count);
    for (int i = 0; i < count; i++) {
        int index = index_of_param(&inside, params[i]);
        if (index < 0)
            return raise_error(L, "ValueError", "Expected param to name mapping to have all %d parameters, but number "
                               "%d is none that this DistributedDataParallel reduces", count, i);
        lua_pushstring(L, inside.names[index]);
        lua_rawseti(L, -2, i);
    }
    for (int index = 0; index < inside.count; index++) {
        int given = 0;
        while (given < count && params[given] != inside.params[index])
            given++;
        if (given == count)
            return raise_error(L, "ValueError", "Param with name %s is reduced, but is not among the %d that were "
                               "given", inside.names[index], count);
    }
    return 1;
}

/* ---- collectives ---- */

static int64_t
optional_integer(lua_State *L, int index, int64_t unless)
{
    return lua_isnoneornil(L, index) ? unless : check_integer(L, index);
}

/* Before the first call that keeps memory: raises. */
static int
check_root(lua_State *L, int index, const struct process_group *group)
{
    int64_t root = optional_integer(L, index, 0);
    if (root < 0 || root >= process_group_size(group))
        raise_error(L, "RuntimeError", "invalid root rank: %lld; the group has %d ranks", (long long)root,
                    process_group_size(group));
    return (int)root;
}

static size_t
check_bytes(lua_State *L, int index)
{
    int64_t bytes = optional_integer(L, index, 0);
    if (bytes < 0)
        raise_error(L, "ValueError", "a bucket's size is a number of bytes, not %lld", (long long)bytes);
    return (size_t)bytes;
}

/* ddp:_default_broadcast_coalesced(bufs, bucket_size, authoritative_rank) */
static int
l_broadcast_coalesced(lua_State *L)
{
    struct ddp_inside inside = check_inside(L, 1);
    struct state_sync sync   = { .keeps_versions = true };
    arg_most(L, 4);
    sync.bucket_bytes = check_bytes(L, 3);
    sync.root         = check_root(L, 4, inside.group);
    sync.tensors      = check_tensors(L, 2, &sync.count);
    struct call call  = call_open(L, script_task(L), CALL_PLAIN);
    return call_done(&call, broadcast_coalesced(call.me, inside.group, &sync));
}

/* The list of texts at the index, which keeps them, in memory that is pushed. NULL: no list. */
static const char **
check_names(lua_State *L, int index, int *count)
{
    *count = 0;
    if (lua_isnil(L, index))
        return NULL;
    check_table(L, index);
    *count             = (int)lua_rawlen(L, index);
    const char **names = lua_newuserdatauv(L, (size_t)(*count + 1) * sizeof *names, 0);
    for (int i = 0; i < *count; i++) {
        if (lua_rawgeti(L, index, i + 1) != LUA_TSTRING)
            raise_error(L, "TypeError", "expected a list of parameters' and buffers' names");
        names[i] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    return names;
}

struct wanted_states { const char **ignored; int ignored_count; bool with_buffers; };

static bool
is_ignored(const struct wanted_states *wanted, const char *name)
{
    for (int i = 0; i < wanted->ignored_count; i++)
        if (strcmp(wanted->ignored[i], name) == 0)
            return true;
    return false;
}

static void
take_wanted(const struct named_tensors *from, const struct wanted_states *wanted, struct tensor **tensors, int *count)
{
    for (int i = 0; i < from->count; i++)
        if (!is_ignored(wanted, from->names[i]))
            tensors[(*count)++] = from->tensors[i];
}

static bool
sync_states(struct task *me, struct module *module, struct process_group *group, const struct wanted_states *wanted,
            struct state_sync *sync)
{
    struct named_tensors params = { 0 }, buffers = { 0 };
    struct tensor      **tensors = NULL;
    if (module_named_parameters(me, module, &params) &&
        (!wanted->with_buffers || module_named_buffers(me, module, &buffers)))
        tensors = scratch_new(me, (size_t)(params.count + buffers.count) + 1, sizeof *tensors);
    if (tensors != NULL) {
        take_wanted(&params, wanted, tensors, &sync->count);
        take_wanted(&buffers, wanted, tensors, &sync->count);
    }
    sync->tensors = tensors;
    bool ok       = tensors != NULL && broadcast_coalesced(me, group, sync);
    named_tensors_free(me, &params);
    named_tensors_free(me, &buffers);
    return ok;
}

static struct process_group *
check_own_group(lua_State *L, int index)
{
    struct process_group *group = check_group(L, index);
    if (group == NULL)
        raise_error(L, "ValueError", "this rank is no member of that group");
    return group;
}

/* dist._sync_module_states(module, group, broadcast_bucket_size, src, params_and_buffers_to_ignore,
 * broadcast_buffers) */
static int
l_sync_module_states(lua_State *L)
{
    struct module        *module = check_module(L, 1);
    struct process_group *group  = check_own_group(L, 2);
    arg_most(L, 6);
    lua_settop(L, 6);
    struct state_sync    sync   = { .bucket_bytes = check_bytes(L, 3), .root = check_root(L, 4, group) };
    struct wanted_states wanted = { .with_buffers = lua_isnil(L, 6) || check_flag(L, 6) };
    wanted.ignored              = check_names(L, 5, &wanted.ignored_count);
    struct call call            = call_open(L, script_task(L), CALL_PLAIN);
    return call_done(&call, sync_states(call.me, module, group, &wanted, &sync));
}

/* dist._verify_params_across_processes(group, params, logger). The tensors have no names: only shapes are compared. */
static int
l_verify_params(lua_State *L)
{
    struct process_group *group  = check_own_group(L, 1);
    struct named_tensors  params = { 0 };
    arg_most(L, 3);
    lua_settop(L, 3);
    struct ddp_inside inside = check_ddp_logger(L, 3);
    params.tensors           = check_tensors(L, 2, &params.count);
    params.names             = lua_newuserdatauv(L, (size_t)(params.count + 1) * sizeof *params.names, 0);
    char nameless[]          = "nameless";
    for (int i = 0; i < params.count; i++)
        params.names[i] = nameless;
    struct call call = call_open(L, script_task(L), CALL_PLAIN);
    return call_done(&call, ddp_verify_params(call.me, group, &params) || ddp_tell_error(call.me, &inside));
}

/* ---- their names ---- */

static const struct lua_entry method_entries[] = {
    { "_build_params_for_reducer", l_build_params, "ddp:_build_params_for_reducer()",
      "the parameters that it reduces, in the order by which errors and buckets number them; and which of them have "
      "sparse gradients" },
    { "_build_debug_param_to_name_mapping", l_name_mapping, "ddp:_build_debug_param_to_name_mapping(parameters)",
      "the names of these parameters, which must be all that it reduces, by number from 0" },
    { "_default_broadcast_coalesced", l_broadcast_coalesced,
      "ddp:_default_broadcast_coalesced(bufs [, bucket_size [, authoritative_rank]])",
      "the tensors become those of one rank, as buffers do in front of a forward: for a buffer hook" },
};

static const struct lua_entry dist_entries[] = {
    { "_sync_module_states", l_sync_module_states,
      "dist._sync_module_states(module, group [, broadcast_bucket_size [, src [, params_and_buffers_to_ignore "
      "[, broadcast_buffers]]]])",
      "the module's parameters and buffers become those of rank src: what DistributedDataParallel does when it is "
      "made" },
    { "_verify_params_across_processes", l_verify_params,
      "dist._verify_params_across_processes(group, parameters [, logger])",
      "an error on the ranks whose parameters are of other shapes than rank 0's, or of another number; with ddp.logger "
      "it is in the logging data, too" },
};

static void
open_part(lua_State *L, const char *class, const luaL_Reg *methods)
{
    luaL_newmetatable(L, class);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void
lua_open_ddp_inspect(lua_State *L)
{
    static const luaL_Reg reducer[] = { { "_get_local_used_map", l_used_map }, { "_ddp_graph_static", l_graph_static },
                                        { NULL, NULL } };
    static const luaL_Reg logger[] = { { NULL, NULL } };
    open_part(L, REDUCER_CLASS, reducer);
    open_part(L, LOGGER_CLASS, logger);
    add_methods(L, BOX_MODULE, method_entries, countof(method_entries));
    fill_namespace(L, "distributed", dist_entries, countof(dist_entries));
}

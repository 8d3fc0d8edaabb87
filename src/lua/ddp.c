/* nn.parallel.DistributedDataParallel in Lua, and the rule of its buckets.
 *
 * Interface: lua_open_ddp; l_bucket_assignment (rs.distributed._compute_bucket_assignment_by_size). */
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "lua/rank.h"
#include "lua/spawn.h"
#include "parallel/buckets.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/reducer.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* ---- the wrapper ---- */

static struct process_group *
group_for_ddp(lua_State *L, int table)
{
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (rank != NULL && option_push(L, table, "process_group")) {
        struct process_group *group = check_group(L, -1);
        lua_pop(L, 1);
        if (group == NULL)
            raise_error(L, "ValueError", "process_group: this rank is no member of that group");
        return group;
    }
    if (rank == NULL || rank->context.group == NULL)
        raise_error(L, "ValueError", "DistributedDataParallel needs a process group: it is made in a rank "
                                       "(dist.spawn), after dist.init_process_group");
    return rank->context.group;
}

/* PyTorch's one element for a module on one device. Nothing moves here: the module has to be there already. */
static void
check_device_ids(lua_State *L, struct task *me, int table, struct module *module)
{
    struct named_tensors list = { 0 };
    if (!option_push(L, table, "device_ids"))
        return;
    check_table(L, -1);
    if (lua_rawlen(L, -1) != 1)
        raise_error(L, "ValueError", "device_ids can only be nil or contain a single element");
    lua_rawgeti(L, -1, 1);
    int         device = check_device(L, -1), where = device;
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = module_named_parameters(me, module, &list);
    if (ok && list.count > 0)
        where = tensor_device(list.tensors[0]);
    named_tensors_free(me, &list);
    call_done(&call, ok);
    if (where != device)
        raise_error(L, "ValueError",
                    "device_ids names device %d, but the module's parameters are on %s: move it there first", device,
                    where < 0 ? "the CPU" : "another one");
    lua_pop(L, 2);
}

static size_t
default_first_bucket_bytes(lua_State *L)
{
    push_ringside(L);
    lua_getfield(L, -1, "distributed");
    lua_getfield(L, -1, "_DEFAULT_FIRST_BUCKET_BYTES");
    lua_Integer bytes = lua_tointeger(L, -1);
    lua_pop(L, 3);
    return bytes > 0 ? (size_t)bytes : 0;
}

/* broadcast_buffers is the older word for both; forward_sync_buffers leaves the construction alone, and wins. */
static void
sync_buffers_options(lua_State *L, int table, struct ddp_options *options)
{
    bool older = option_push(L, table, "broadcast_buffers"), newer = option_push(L, table, "forward_sync_buffers");
    bool broadcast = option_bool(L, table, "broadcast_buffers", true);
    options->no_forward_sync_buffers = !option_bool(L, table, "forward_sync_buffers", broadcast);
    options->no_init_sync_buffers    = !newer && !broadcast;
    lua_pop(L, older + newer);
    if (older && newer)
        lesson_warn(L, "broadcast_buffers and forward_sync_buffers were both given: broadcast_buffers is deprecated "
                       "and its value ignored");
    else if (older)
        lesson_warn(L, "broadcast_buffers is deprecated, use forward_sync_buffers: that one, when false, still syncs "
                       "the buffers when the wrapper is made, where broadcast_buffers=false leaves them as they are");
}

static void
bucket_cap_options(lua_State *L, int table, struct ddp_options *options)
{
    options->has_bucket_cap = option_push(L, table, "bucket_cap_mb");
    lua_pop(L, options->has_bucket_cap);
    options->bucket_cap_mb              = option_number(L, table, "bucket_cap_mb", 0);
    options->default_first_bucket_bytes = default_first_bucket_bytes(L);
    if (!(options->bucket_cap_mb >= 0 && options->bucket_cap_mb <= 1e6))
        raise_error(L, "ValueError", "bucket_cap_mb is a number of MiB, up to a million");
}

static int
l_ddp(lua_State *L)
{
    struct task          *me     = script_task(L);
    struct module        *module = check_module(L, 1);
    int                   table  = option_table(L, 2);
    struct process_group *group  = group_for_ddp(L, table);
    option_known(L, table, "bucket_cap_mb find_unused_parameters broadcast_buffers forward_sync_buffers device_ids"
                           " output_device process_group init_sync");
    struct ddp_options options = {
        .find_unused_parameters = option_bool(L, table, "find_unused_parameters", false),
        .no_init_sync           = !option_bool(L, table, "init_sync", true),
    };
    bucket_cap_options(L, table, &options);
    sync_buffers_options(L, table, &options);
    check_device_ids(L, me, table, module);
    struct call    call    = call_open(L, me, CALL_BACK);
    struct module *wrapper = ddp_new(me, module, group, &options);
    return call_module(&call, wrapper);
}

static struct module *
check_ddp(lua_State *L)
{
    struct module *wrapper = check_module(L, 1);
    if (ddp_module(wrapper) == NULL)
        raise_error(L, "TypeError", "this is a method of DistributedDataParallel");
    return wrapper;
}

/* ddp:no_sync(f): f runs without synchronising; forwards made in it decide, not backwards. */
static int
l_no_sync(lua_State *L)
{
    struct module *wrapper = check_ddp(L);
    script_task(L);
    check_function(L, 2);
    lua_settop(L, 2);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "ringside.no_sync"); /* which wrappers are in a no_sync already */
    lua_insert(L, 2);
    bool inner = lua_rawgetp(L, 2, wrapper) != LUA_TNIL;
    lua_pop(L, 1);
    lua_pushboolean(L, 1);
    lua_rawsetp(L, 2, wrapper);
    ddp_set_sync(wrapper, false);
    bool ok = lua_pcall(L, 0, LUA_MULTRET, 0) == LUA_OK;
    if (!inner) {
        ddp_set_sync(wrapper, true);
        lua_pushnil(L);
        lua_rawsetp(L, 2, wrapper);
    }
    return ok ? lua_gettop(L) - 2 : lua_error(L);
}

static int
l_set_sink_clone(lua_State *L)
{
    struct module *wrapper = check_ddp(L);
    ddp_set_sink_clone(wrapper, check_flag(L, 2));
    return 0;
}

/* Numbers as numbers, lists of numbers as PyTorch's texts. */
static int
l_logging_data(lua_State *L)
{
    static const char *const keys[] = { "bucket_sizes", "rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices",
                                        "has_rebuilt_buckets", "bucket_cap_bytes",
                                        "prev_iteration_grad_ready_order_indices" };
    struct reducer *reducer = ddp_reducer(check_ddp(L));
    lua_createtable(L, 0, (int)countof(keys));
    for (size_t i = 0; i < countof(keys); i++) {
        struct str text = { 0 };
        char       copy[64];
        if (reducer == NULL || !reducer_logging_data(reducer, keys[i], &text) || !str_ok(&text)) {
            str_free(&text);
            continue;
        }
        bool number = strcmp(keys[i], "has_rebuilt_buckets") == 0 || strcmp(keys[i], "bucket_cap_bytes") == 0;
        if (number) {
            snprintf(copy, sizeof copy, "%s", str_text(&text));
            str_free(&text);
            lua_pushinteger(L, (lua_Integer)strtoll(copy, NULL, 10));
        } else {
            lua_pushlstring(L, str_text(&text), text.len);
            str_free(&text);
        }
        lua_setfield(L, -2, keys[i]);
    }
    return 1;
}

/* ---- buckets ---- */

/* The list at `index` as whole numbers (0: nil) in memory that Lua frees; pushed. */
static int64_t *
check_bucket_numbers(lua_State *L, int index, int *count)
{
    *count = 0;
    if (lua_isnoneornil(L, index)) {
        lua_pushnil(L);
        return NULL;
    }
    check_table(L, index);
    *count           = (int)lua_rawlen(L, index);
    int64_t *numbers = lua_newuserdatauv(L, (size_t)(*count + 1) * sizeof *numbers, 0);
    for (int i = 0; i < *count; i++) {
        lua_rawgeti(L, index, i + 1);
        numbers[i] = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : check_integer(L, -1);
        lua_pop(L, 1);
    }
    return numbers;
}

static void
push_buckets(lua_State *L, const struct bucket_list *list)
{
    lua_createtable(L, list->count, 0);
    lua_createtable(L, list->count, 0);
    for (int b = 0; b < list->count; b++) {
        lua_createtable(L, list->sizes[b], 0);
        for (int i = 0; i < list->sizes[b]; i++) {
            lua_pushinteger(L, list->indices[b][i]);
            lua_rawseti(L, -2, i + 1);
        }
        lua_rawseti(L, -3, b + 1);
        lua_pushinteger(L, (lua_Integer)list->limits[b]);
        lua_rawseti(L, -2, b + 1);
    }
}

static int
free_buckets(lua_State *L)
{
    buckets_free(lua_touserdata(L, 1));
    return 0;
}

int
l_bucket_assignment(lua_State *L)
{
    struct task *me = script_task(L);
    int          count, limit_count, sparse_count, order_count;
    lua_settop(L, 4);
    struct tensor **tensors = check_tensors(L, 1, &count);
    int64_t        *limits  = check_bucket_numbers(L, 2, &limit_count);
    int64_t        *sparse  = check_bucket_numbers(L, 3, &sparse_count);
    int64_t        *indices = check_bucket_numbers(L, 4, &order_count);
    if (limit_count == 0 || (sparse_count != 0 && sparse_count != count) || (order_count != 0 && order_count != count))
        return raise_error(L, "ValueError", "needs at least one limit, and as many sparse flags and indices as "
                                           "tensors (or none)");
    struct bucket_input *inputs = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *inputs, 0);
    size_t              *bytes  = lua_newuserdatauv(L, (size_t)limit_count * sizeof *bytes, 0);
    int                 *order  = lua_newuserdatauv(L, (size_t)(order_count + 1) * sizeof *order, 0);
    for (int i = 0; i < count; i++) {
        inputs[i]        = bucket_input_of(tensors[i]);
        inputs[i].sparse = sparse_count != 0 && sparse[i] != 0;
    }
    for (int i = 0; i < limit_count; i++) {
        if (limits[i] < 0)
            return raise_error(L, "ValueError", "limits are bytes, not %lld", (long long)limits[i]);
        bytes[i] = (size_t)limits[i];
    }
    for (int i = 0; i < order_count; i++) {
        if (indices[i] < 0 || indices[i] >= count)
            return raise_error(L, "IndexError", "index %lld of %d tensors", (long long)indices[i], count);
        order[i] = (int)indices[i];
    }
    struct bucket_list *list = push_owned(L, sizeof *list, "ringside.buckets", free_buckets);
    struct call         call = call_open(L, me, CALL_PLAIN);
    const struct bucket_assignment wanted = {
        .inputs = inputs, .count = count, .limits = bytes, .limit_count = limit_count,
        .order = order_count != 0 ? order : NULL, .order_count = order_count,
    };
    call_done(&call, buckets_assign(me, &wanted, list));
    push_buckets(L, list);
    return 2;
}

static const struct lua_entry parallel_entries[] = {
    { "DistributedDataParallel", l_ddp,
      "nn.parallel.DistributedDataParallel(module, {bucket_cap_mb=, find_unused_parameters=, forward_sync_buffers=,"
      " broadcast_buffers=, init_sync=, device_ids=, process_group=})",
      "the module with synchronised gradients: call it as the module; ddp.module is the module" },
};

static const struct lua_entry method_entries[] = {
    { "no_sync", l_no_sync, "ddp:no_sync(f)", "forwards made in f do not synchronise" },
    { "register_comm_hook", l_register_comm_hook, "ddp:register_comm_hook(state, hook)",
      "hook(state, bucket) all-reduces a bucket of gradients, which nobody has divided; answers a Future of them" },
    { "_set_ddp_sink_clone", l_set_sink_clone, "ddp:_set_ddp_sink_clone(val)",
      "false: with find_unused_parameters outputs go on without being copied" },
    { "_get_ddp_logging_data", l_logging_data, "ddp:_get_ddp_logging_data()",
      "buckets and ready order, as PyTorch tells them" },
};

void
lua_open_ddp(lua_State *L)
{
    fill_namespace(L, "nn.parallel", parallel_entries, countof(parallel_entries));
    add_methods(L, BOX_MODULE, method_entries, countof(method_entries));
    lua_open_comm_hook(L);
}

/* nn.parallel.DistributedDataParallel in Lua, and the rule of its buckets.
 *
 * Interface: lua_open_ddp; l_bucket_assignment (rs.distributed._compute_bucket_assignment_by_size). */
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "lua/comm_hook.h"
#include "lua/dispatch.h"
#include "lua/ddp_inspect.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "lua/parallel.h"
#include "lua/rank.h"
#include "lua/spawn.h"
#include "parallel/buckets.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/logger.h"
#include "parallel/reducer.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* Whose parameters and buffers are to be ignored: module -> list of names. */
#define IGNORED "ringside.ddp_ignored"

/* ---- the options ---- */

/* In the order of the signature. */
enum {
    AT_MODULE, AT_DEVICE_IDS, AT_OUTPUT_DEVICE, AT_DIM, AT_BROADCAST_BUFFERS, AT_INIT_SYNC, AT_PROCESS_GROUP,
    AT_BUCKET_CAP_MB, AT_FIND_UNUSED_PARAMETERS, AT_CHECK_REDUCTION, AT_GRADIENT_AS_BUCKET_VIEW, AT_STATIC_GRAPH,
    AT_DELAY_NAMED_PARAMS, AT_PARAM_TO_HOOK, AT_MIXED_PRECISION, AT_DEVICE_MESH, AT_SKIP_UNUSED, AT_BUCKET_CAP_MB_LIST,
    AT_BATCHED_GRAD_COPY, AT_FORWARD_SYNC_BUFFERS, AT_LAZY_BUCKET_ALLOCATION
};

static int
place_of(const struct arguments *a, int at)
{
    return (int)a->at[at].integer[0];
}

static bool
is_set(const struct arguments *a, int at)
{
    return !a->at[at].none && a->at[at].number != 0;
}

static struct process_group *
group_for_ddp(lua_State *L, const struct arguments *a)
{
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (rank != NULL && !a->at[AT_PROCESS_GROUP].none) {
        struct process_group *group = check_group(L, place_of(a, AT_PROCESS_GROUP));
        if (group == NULL)
            raise_error(L, "ValueError", "process_group: this rank is no member of that group");
        return group;
    }
    if (rank == NULL || rank->context.group == NULL)
        raise_error(L, "ValueError", "DistributedDataParallel needs a process group: it is made in a rank "
                                       "(dist.spawn), after dist.init_process_group");
    return rank->context.group;
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
sync_buffers_options(lua_State *L, const struct arguments *a, struct ddp_options *options)
{
    bool older = !a->at[AT_BROADCAST_BUFFERS].none, newer = !a->at[AT_FORWARD_SYNC_BUFFERS].none;
    bool broadcast = !older || is_set(a, AT_BROADCAST_BUFFERS);
    options->no_forward_sync_buffers = newer ? !is_set(a, AT_FORWARD_SYNC_BUFFERS) : !broadcast;
    options->no_init_sync_buffers    = !newer && !broadcast;
    if (older && newer)
        lesson_warn(L, "broadcast_buffers and forward_sync_buffers were both given: broadcast_buffers is deprecated "
                       "and its value ignored");
    else if (older)
        lesson_warn(L, "broadcast_buffers is deprecated, use forward_sync_buffers: that one, when false, still syncs "
                       "the buffers when the wrapper is made, where broadcast_buffers=false leaves them as they are");
}

static double
check_cap(lua_State *L, double cap)
{
    if (!(cap >= 0 && cap <= 1e6))
        raise_error(L, "ValueError", "bucket_cap_mb: a bucket's cap is a number of MiB, up to a million, not %g", cap);
    return cap;
}

static void
bucket_cap_options(lua_State *L, const struct arguments *a, struct ddp_options *options)
{
    options->has_bucket_cap = !a->at[AT_BUCKET_CAP_MB].none;
    options->bucket_cap_mb  = options->has_bucket_cap ? check_cap(L, a->at[AT_BUCKET_CAP_MB].number) : 0;
    options->default_first_bucket_bytes = default_first_bucket_bytes(L);
    if (a->at[AT_BUCKET_CAP_MB_LIST].none)
        return;
    int list = place_of(a, AT_BUCKET_CAP_MB_LIST), count = (int)lua_rawlen(L, list);
    list_only(L, list);
    double *caps = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *caps, 0);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, list, i + 1);
        caps[i] = check_cap(L, check_number(L, -1));
        lua_pop(L, 1);
    }
    options->bucket_caps_mb   = caps;
    options->bucket_cap_count = count;
}

/* What PyTorch has and this does not, and what it has no more. */
static void
check_absent(lua_State *L, const struct arguments *a)
{
    if (!a->at[AT_MIXED_PRECISION].none)
        raise_error(L, "NotImplementedError", "mixed_precision is not there: cast the module by module:to(dtype), or "
                                              "the gradients by a comm hook");
    if (!a->at[AT_DEVICE_MESH].none)
        raise_error(L, "NotImplementedError", "device_mesh is not there: give the process_group of the mesh's "
                                              "dimension");
    if (is_set(a, AT_CHECK_REDUCTION))
        lesson_warn(L, "check_reduction is deprecated and does nothing: the reducer always checks");
}

/* Those that are none of the wrapper's business, by name: of _set_params_and_buffers_to_ignore_for_model, or a field
 * that the lesson has set. Pushes what they live in. */
static void
ignored_options(lua_State *L, struct module *module, struct ddp_options *options)
{
    push_weak_table(L, IGNORED, "k");
    push_module(L, module);
    if (lua_rawget(L, -2) == LUA_TNIL && module_is_script(module)) {
        object_push(L, module_attributes(module));
        lua_pushstring(L, "_ddp_params_and_buffers_to_ignore");
        lua_rawget(L, -2);
    }
    int list = lua_gettop(L), count = lua_istable(L, list) ? (int)lua_rawlen(L, list) : 0;
    const char **names = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *names, 0);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, list, i + 1);
        names[i] = check_text(L, -1);
        lua_pop(L, 1);
    }
    options->ignored       = names;
    options->ignored_count = count;
}

/* A list of {name, parameter}. */
static void
delayed_options(lua_State *L, const struct arguments *a, struct ddp_options *options)
{
    bool named = !a->at[AT_DELAY_NAMED_PARAMS].none, hooked = !a->at[AT_PARAM_TO_HOOK].none;
    if (named != hooked)
        raise_error(L, "ValueError", "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the "
                                     "same time");
    if (!named)
        return;
    int list = place_of(a, AT_DELAY_NAMED_PARAMS), count = (int)lua_rawlen(L, list);
    const char    **names   = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *names, 0);
    struct tensor **tensors = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof(struct tensor *), 0);
    for (int i = 0; i < count; i++) {
        if (lua_rawgeti(L, list, i + 1) != LUA_TTABLE)
            raise_error(L, "TypeError", "delay_all_reduce_named_params is a list of {name, parameter}");
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        names[i]   = check_text(L, -2);
        tensors[i] = check_tensor(L, -1);
        lua_pop(L, 3);
    }
    options->delayed = (struct delayed_params){ tensors, names, count, a->at[AT_PARAM_TO_HOOK].tensor };
}

static int
l_ddp(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct module        *module = check_module(L, place_of(&a, AT_MODULE));
    struct ddp_options    options = {
        .find_unused_parameters        = is_set(&a, AT_FIND_UNUSED_PARAMETERS),
        .gradient_as_bucket_view       = is_set(&a, AT_GRADIENT_AS_BUCKET_VIEW),
        .static_graph                  = is_set(&a, AT_STATIC_GRAPH),
        .skip_all_reduce_unused_params = is_set(&a, AT_SKIP_UNUSED),
        .batched_grad_copy             = is_set(&a, AT_BATCHED_GRAD_COPY),
        .lazy_bucket_allocation        = is_set(&a, AT_LAZY_BUCKET_ALLOCATION),
        .no_init_sync                  = !is_set(&a, AT_INIT_SYNC),
    };
    delayed_options(L, &a, &options);
    check_absent(L, &a);
    struct process_group *group = group_for_ddp(L, &a);
    bucket_cap_options(L, &a, &options);
    sync_buffers_options(L, &a, &options);
    ignored_options(L, module, &options);
    if (!a.at[AT_DEVICE_IDS].none)
        options.device_ids = check_devices(L, place_of(&a, AT_DEVICE_IDS));
    options.has_output_device = !a.at[AT_OUTPUT_DEVICE].none;
    if (options.has_output_device)
        options.output_device = check_device(L, place_of(&a, AT_OUTPUT_DEVICE));
    struct call    call    = call_open(L, me, CALL_BACK);
    struct module *wrapper = ddp_new(me, module, group, &options);
    return call_module(&call, wrapper);
}

/* DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names) */
static int
l_ignore(lua_State *L)
{
    check_module(L, 1);
    check_table(L, 2);
    arg_most(L, 2);
    push_weak_table(L, IGNORED, "k");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_rawset(L, -3);
    return 0;
}

/* ---- attributes ---- */

static void
push_ddp_devices(lua_State *L, const struct ddp_state *state)
{
    if (state->device_ids.count == 0) {
        lua_pushnil(L);
        return;
    }
    lua_createtable(L, 1, 0);
    lua_pushinteger(L, state->device_ids.ids[0]);
    lua_rawseti(L, -2, 1);
}

bool
push_ddp_attribute(lua_State *L, const struct module *module, const char *name)
{
    struct ddp_state state;
    if (!ddp_state(module, &state))
        return false;
    const struct { const char *name; bool value; } flags[] = {
        { "find_unused_parameters", state.find_unused_parameters },
        { "gradient_as_bucket_view", state.gradient_as_bucket_view },
        { "static_graph", state.static_graph },
        { "forward_sync_buffers", state.forward_sync_buffers },
        { "broadcast_buffers", state.forward_sync_buffers },
        { "require_backward_grad_sync", state.require_backward_grad_sync },
        { "require_forward_param_sync", state.require_forward_param_sync },
        { "require_manual_backward_finalization", state.manual_finalization },
        { "should_finalize_after_backward", state.should_finalize_after_backward },
    };
    for (size_t i = 0; i < countof(flags); i++) {
        if (strcmp(flags[i].name, name) == 0) {
            lua_pushboolean(L, flags[i].value);
            return true;
        }
    }
    if (strcmp(name, "device_ids") == 0)
        push_ddp_devices(L, &state);
    else if (strcmp(name, "output_device") == 0 && state.has_output_device)
        lua_pushinteger(L, state.output_device);
    else if (strcmp(name, "_authoritative_rank") == 0 && state.authoritative_rank >= 0)
        lua_pushinteger(L, state.authoritative_rank);
    else if (strcmp(name, "_join_config") == 0)
        push_ddp_join_config(L, module);
    else if (strcmp(name, "bucket_bytes_cap") == 0)
        lua_pushinteger(L, (lua_Integer)state.bucket_bytes_cap);
    else
        return push_ddp_inside(L, module, name);
    return true;
}

bool
set_ddp_attribute(lua_State *L, struct module *module, const char *name)
{
    if (ddp_module(module) == NULL)
        return false;
    if (strcmp(name, "require_backward_grad_sync") == 0) {
        ddp_set_sync(module, check_flag(L, 3));
    } else if (strcmp(name, "forward_sync_buffers") == 0 || strcmp(name, "broadcast_buffers") == 0) {
        ddp_set_forward_sync_buffers(module, check_flag(L, 3));
    } else if (strcmp(name, "require_manual_backward_finalization") == 0) {
        bool        required = check_flag(L, 3);
        struct call call     = call_open(L, script_task(L), CALL_PLAIN);
        call_done(&call, ddp_set_manual_finalization(call.me, module, required));
    } else {
        return false;
    }
    return true;
}

/* ---- methods ---- */

static struct module *
check_ddp(lua_State *L)
{
    struct module *wrapper = check_module(L, 1);
    if (ddp_module(wrapper) == NULL)
        raise_error(L, "TypeError", "this is a method of DistributedDataParallel");
    return wrapper;
}

static struct reducer *
check_reducer(lua_State *L)
{
    struct reducer *reducer = ddp_reducer(check_ddp(L));
    if (reducer == NULL)
        raise_error(L, "RuntimeError", "this DistributedDataParallel has no reducer: all its parameters are in "
                                       "delay_all_reduce_named_params");
    return reducer;
}

/* ddp:no_sync(f): f runs without synchronising; forwards made in it decide, not backwards. */
static int
l_no_sync(lua_State *L)
{
    struct module   *wrapper = check_ddp(L);
    struct ddp_state before;
    script_task(L);
    check_function(L, 2);
    lua_settop(L, 2);
    ddp_state(wrapper, &before);
    ddp_set_sync(wrapper, false);
    bool ok = lua_pcall(L, 0, LUA_MULTRET, 0) == LUA_OK;
    ddp_set_sync(wrapper, before.require_backward_grad_sync);
    return ok ? lua_gettop(L) - 1 : lua_error(L);
}

static int
l_set_sink_clone(lua_State *L)
{
    struct module *wrapper = check_ddp(L);
    ddp_set_sink_clone(wrapper, check_flag(L, 2));
    return 0;
}

static int
l_set_static_graph(lua_State *L)
{
    struct module *wrapper = check_ddp(L);
    struct call    call    = call_open(L, script_task(L), CALL_PLAIN);
    return call_done(&call, ddp_set_static_graph(call.me, wrapper));
}

static int
l_finalize_backward(lua_State *L)
{
    struct module *wrapper = check_ddp(L);
    struct call    call    = call_open(L, script_task(L), CALL_BACK);
    return call_done(&call, ddp_finalize_backward(call.me, wrapper));
}

static int
l_remove_hooks(lua_State *L)
{
    reducer_remove_hooks(script_task(L), check_reducer(L));
    return 0;
}

static int
l_check_finalized(lua_State *L)
{
    struct reducer *reducer = check_reducer(L);
    struct call     call    = call_open(L, script_task(L), CALL_PLAIN);
    return call_done(&call, reducer_check_finalized(call.me, reducer));
}

static int
l_update_process_group(lua_State *L)
{
    struct module        *wrapper = check_ddp(L);
    struct process_group *group   = check_group(L, 2);
    struct call           call    = call_open(L, script_task(L), CALL_PLAIN);
    return call_done(&call, ddp_update_process_group(call.me, wrapper, group));
}

static struct ddp_logger *
check_logger(lua_State *L)
{
    struct ddp_logger *logger = ddp_logger(check_ddp(L));
    if (logger == NULL)
        raise_error(L, "AssertionError", "this DistributedDataParallel has no logger: all its parameters are in "
                                         "delay_all_reduce_named_params");
    return logger;
}

/* Numbers as numbers, lists of numbers as PyTorch's texts. */
static int
l_logging_data(lua_State *L)
{
    const struct ddp_logger *logger = check_logger(L);
    struct log_entry         entry;
    arg_most(L, 1);
    lua_createtable(L, 0, LOGGED_FIELDS);
    for (int i = 0; i < LOGGED_FIELDS; i++) {
        if (!logger_field(logger, (enum logged_field)i, &entry))
            continue;
        if (entry.text != NULL)
            set_text(L, -1, entry.name, entry.text);
        else
            set_integer(L, -1, entry.name, entry.number);
    }
    return 1;
}

static int
l_set_sample_rate(lua_State *L)
{
    struct reducer *reducer = check_reducer(L);
    int64_t         rate    = check_integer(L, 2);
    arg_most(L, 2);
    struct call call = call_open(L, script_task(L), CALL_PLAIN);
    return call_done(&call, reducer_set_sample_rate(call.me, reducer, rate));
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

/* Sparse gradients are told by the flags: their parameters are dense. */
static bool
all_dense(struct task *me, struct tensor *const *tensors, int count)
{
    for (int i = 0; i < count; i++)
        if (tensors[i]->indices != NULL)
            return failed(me, E_RUNTIME, "No support for sparse tensors: number %d is one. Buckets are of parameters; "
                          "whose gradients are sparse is told by the flags", i);
    return true;
}

/* Pushed. */
static size_t *
push_limits(lua_State *L, const int64_t *limits, int count)
{
    size_t *bytes = lua_newuserdatauv(L, (size_t)count * sizeof *bytes, 0);
    for (int i = 0; i < count; i++) {
        if (limits[i] < 0)
            raise_error(L, "ValueError", "limits are bytes, not %lld", (long long)limits[i]);
        bytes[i] = (size_t)limits[i];
    }
    return bytes;
}

/* Pushed. */
static int *
push_order(lua_State *L, const int64_t *indices, int count, int tensors)
{
    int *order = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *order, 0);
    for (int i = 0; i < count; i++) {
        if (indices[i] < 0 || indices[i] >= tensors)
            raise_error(L, "IndexError", "index %lld of %d tensors", (long long)indices[i], tensors);
        order[i] = (int)indices[i];
    }
    return order;
}

int
l_bucket_assignment(lua_State *L)
{
    struct task *me = script_task(L);
    int          count, limit_count, sparse_count, order_count;
    lua_settop(L, 5);
    struct ddp_inside logger = check_ddp_logger(L, 5);
    struct tensor **tensors = check_tensors(L, 1, &count);
    int64_t        *limits  = check_bucket_numbers(L, 2, &limit_count);
    int64_t        *sparse  = check_bucket_numbers(L, 3, &sparse_count);
    int64_t        *indices = check_bucket_numbers(L, 4, &order_count);
    if (limit_count == 0 || (sparse_count != 0 && sparse_count != count) || (order_count != 0 && order_count != count))
        return raise_error(L, "ValueError", "needs at least one limit, and as many sparse flags and indices as "
                                           "tensors (or none)");
    struct bucket_input *inputs = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *inputs, 0);
    size_t              *bytes  = push_limits(L, limits, limit_count);
    int                 *order  = push_order(L, indices, order_count, count);
    for (int i = 0; i < count; i++) {
        inputs[i]        = bucket_input_of(tensors[i]);
        inputs[i].sparse = sparse_count != 0 && sparse[i] != 0;
    }
    struct bucket_list list;
    struct call        call = call_open(L, me, CALL_PLAIN);
    if (!all_dense(me, tensors, count))
        call_end(&call, ddp_tell_error(me, &logger));
    const struct bucket_assignment wanted = {
        .inputs = inputs, .count = count, .limits = bytes, .limit_count = limit_count,
        .order = order_count != 0 ? order : NULL, .order_count = order_count,
    };
    call_end(&call, buckets_assign(me, &wanted, &list));
    push_buckets(L, &list);
    return call_leave(&call, 2);
}

static const struct lua_entry parallel_entries[] = {
    { "DistributedDataParallel", l_ddp,
      "nn.parallel.DistributedDataParallel(any module, table? device_ids=None, any? output_device=None, int dim=0, "
      "bool? broadcast_buffers=None, bool init_sync=True, any? process_group=None, float? bucket_cap_mb=None, "
      "bool find_unused_parameters=False, bool check_reduction=False, bool gradient_as_bucket_view=False, "
      "bool static_graph=False, table? delay_all_reduce_named_params=None, Tensor? param_to_hook_all_reduce=None, "
      "any? mixed_precision=None, any? device_mesh=None, bool skip_all_reduce_unused_params=False, "
      "table? bucket_cap_mb_list=None, bool batched_grad_copy=False, bool? forward_sync_buffers=None, "
      "bool lazy_bucket_allocation=False) -> any",
      "the module with synchronised gradients: call it as the module; ddp.module is the module" },
};

static const struct lua_entry method_entries[] = {
    { "no_sync", l_no_sync, "ddp:no_sync(f)", "forwards made in f do not synchronise" },
    { "join", l_ddp_join,
      "ddp:join([divide_by_initial_world_size [, enable [, throw_on_early_termination]]] [, {...}], f)",
      "calls f, in which each rank goes through its own number of inputs: a rank whose f is done sends zeros in the "
      "others' iterations until all are, and has then the last one's state. Answers f's results" },
    { "register_comm_hook", l_register_comm_hook, "ddp:register_comm_hook(state, hook)",
      "hook(state, bucket) all-reduces a bucket of gradients, which nobody has divided; answers a Future of them" },
    { "_register_builtin_comm_hook", l_register_builtin_comm_hook, "ddp:_register_builtin_comm_hook(comm_hook_type)",
      "dist.BuiltinCommHookType.ALLREDUCE or FP16_COMPRESS: those of PyTorch's hooks that it has in C++, too" },
    { "_register_fused_optim", l_register_fused_optim, "ddp:_register_fused_optim(optim, {lr, ..., optim_params})",
      "each bucket's parameters (or only those listed) are stepped as soon as the bucket is averaged" },
    { "_set_ddp_sink_clone", l_set_sink_clone, "ddp:_set_ddp_sink_clone(val)",
      "false: with find_unused_parameters outputs go on without being copied" },
    { "_set_static_graph", l_set_static_graph, "ddp:_set_static_graph()",
      "every iteration is as the first, which is watched; before the first forward" },
    { "finalize_backward", l_finalize_backward, "ddp:finalize_backward()",
      "after a backward, with require_manual_backward_finalization: waits for the buckets and writes .grad" },
    { "_remove_autograd_hooks", l_remove_hooks, "ddp:_remove_autograd_hooks()",
      "from here on gradients stay this rank's own" },
    { "_check_reducer_finalized", l_check_finalized, "ddp:_check_reducer_finalized()",
      "an error if the last backward has begun to reduce and did not end" },
    { "_update_process_group", l_update_process_group, "ddp:_update_process_group(group)",
      "the ranks of that group reduce from here on; buckets are rebuilt" },
    { "_register_buffer_comm_hook", l_register_buffer_hook, "ddp:_register_buffer_comm_hook(state, hook, location)",
      "hook(state, buffers) syncs the buffers, a table by name, instead of the broadcast from rank 0; location "
      "\"post_forward\" (as PyTorch does by default) or \"pre_forward\"; its list of Futures is waited for at the "
      "end of the backward" },
    { "_get_ddp_logging_data", l_logging_data, "ddp:_get_ddp_logging_data()",
      "how it was made, what its last sampled iteration did and how long that took, its errors: a table, whose fields "
      "'ringside help logged' tells. An iteration is noted when the next forward that synchronises begins" },
    { "_set_ddp_runtime_logging_sample_rate", l_set_sample_rate,
      "ddp:_set_ddp_runtime_logging_sample_rate(sample_rate)",
      "after the first ten iterations the logging data note every sample_rate-th, at first every hundredth" },
};

static const struct lua_entry static_entries[] = {
    { "_set_params_and_buffers_to_ignore_for_model", l_ignore,
      "nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, "
      "params_and_buffers_to_ignore)",
      "a wrapper that is made of the module later leaves the parameters and buffers of these qualified names alone" },
};

void
lua_open_ddp(lua_State *L)
{
    open_namespace(L, "nn.parallel", parallel_entries, countof(parallel_entries));
    make_class(L, "rs.nn.parallel.DistributedDataParallel", static_entries, countof(static_entries));
    lua_pop(L, 1);
    add_methods(L, BOX_MODULE, method_entries, countof(method_entries));
    lua_open_comm_hook(L);
}

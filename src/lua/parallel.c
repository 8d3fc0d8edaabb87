/* nn.DataParallel and nn.parallel.{scatter, replicate, parallel_apply, gather, data_parallel} in Lua. */
#include "lua/dispatch.h"
#include <string.h>
#include "base/number.h"
#include "base/vec.h"
#include "device/device.h"
#include "parallel/data_parallel.h"
#include "sched/task.h"

enum { OUTPUT_FIRST = -2 };

/* A list of devices ({0, 1} or {"device:0", ...}) at index, with its array on the stack; nil: all there are. */
static struct device_list
check_devices(lua_State *L, int index)
{
    struct task *me = script_of(L)->holder;
    index           = lua_absindex(L, index);
    bool all        = lua_isnil(L, index);
    if (!all && !lua_istable(L, index))
        arg_error(L, index, "a list of devices such as {0, 1}");
    size_t length = all ? (size_t)device_count(me) : lua_rawlen(L, index);
    if (length > DEVICE_MAX)
        raise_error(L, "ValueError", "a list of %zu devices is too long", length);
    if (!all)
        list_only(L, index);
    int *devices = lua_newuserdatauv(L, (length + 1) * sizeof *devices, 0);
    for (size_t i = 0; i < length; i++) {
        devices[i] = (int)i;
        if (all)
            continue;
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        devices[i] = check_device(L, -1);
        lua_pop(L, 1);
    }
    return (struct device_list){ devices, (int)length };
}

/* Of three arguments: device_ids, output_device, dim. */
static struct data_parallel_options
check_dp_options(lua_State *L, const struct argument *at)
{
    struct data_parallel_options options = { .output_device = OUTPUT_FIRST, .dim = int_of_int64(at[2].integer[0]) };
    if (!at[0].none)
        options.devices = check_devices(L, (int)at[0].integer[0]);
    if (!at[1].none)
        options.output_device = (int)at[1].integer[0];
    return options;
}

static int
parallel_data_parallel(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct module               *module  = check_module(L, (int)a.at[0].integer[0]);
    struct data_parallel_options options = check_dp_options(L, &a.at[1]);
    struct call                  call    = call_open(L, me, CALL_PLAIN);
    return call_module(&call, data_parallel_new(me, module, &options));
}

/* The inputs at index as a tuple: a tuple or list of them, or one. */
static struct value *
inputs_tuple(lua_State *L, struct task *me, int index)
{
    struct value *value = value_from_lua(L, me, index, true);
    if (value == NULL || value->kind == VALUE_TUPLE)
        return value;
    if (value->kind == VALUE_LIST)
        return value_tuple(me, value->count, value->items);
    return value_tuple(me, 1, &value);
}

static int
data_parallel_function(lua_State *L)
{
    struct task     *me   = script_task(L);
    size_t           mark = scope_mark(me);
    struct arguments a;
    take_arguments(L, &a);
    struct module               *module  = check_module(L, (int)a.at[0].integer[0]);
    struct data_parallel_options options = check_dp_options(L, &a.at[2]);
    struct call_arguments        given   = { .inputs = inputs_tuple(L, me, (int)a.at[1].integer[0]) };
    if (!a.at[5].none)
        given.kwargs = value_from_lua(L, me, (int)a.at[5].integer[0], true);
    struct call call     = call_open(L, me, CALL_BACK);
    call.mark            = mark;
    struct value *result = given.inputs != NULL ? data_parallel_forward(me, module, given, &options) : NULL;
    call_end(&call, result != NULL);
    return call_leave(&call, push_results(L, result));
}

/* Room for one value per device, empty, on the stack. */
static struct value **
push_room(lua_State *L, int count)
{
    struct value **room = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *room, 0);
    memset(room, 0, (size_t)(count + 1) * sizeof *room);
    return room;
}

/* Room for one call's arguments per device, empty, on the stack. */
static struct call_arguments *
push_arguments(lua_State *L, int count)
{
    struct call_arguments *room = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *room, 0);
    memset(room, 0, (size_t)(count + 1) * sizeof *room);
    return room;
}

/* nn.parallel.scatter(inputs, devices, dim): a list with one entry per device that gets something. What is no tuple is
 * scattered as it is: scatter(t, {0, 1}) gives {t0, t1}. */
static int
parallel_scatter(lua_State *L)
{
    struct task *me   = script_task(L);
    size_t       mark = scope_mark(me);
    int          dim  = int_of_int64(opt_integer(L, 3, 0));
    struct device_list devices = check_devices(L, 2);
    struct value      *one     = value_from_lua(L, me, 1, true);
    struct call_arguments   given   = { .kwargs = NULL };
    given.inputs = one != NULL ? value_tuple(me, 1, &one) : NULL;
    struct call_arguments *out  = push_arguments(L, devices.count);
    struct call       call = call_open(L, me, CALL_PLAIN);
    call.mark              = mark;
    int chunks             = given.inputs != NULL ? dp_scatter(me, given, devices, dim, out) : 0;
    call_end(&call, chunks > 0);
    lua_createtable(L, chunks, 0);
    for (int i = 0; i < chunks; i++) {
        if (out[i].inputs->count > 0)
            push_value(L, out[i].inputs->items[0]);
        else
            lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None");
        lua_rawseti(L, -2, i + 1);
    }
    return call_leave(&call, 1);
}

/* nn.parallel.gather(outputs, device, dim) */
static int
parallel_gather(lua_State *L)
{
    struct task  *me     = script_task(L);
    size_t        mark   = scope_mark(me);
    int           device = check_device(L, 2), dim = int_of_int64(opt_integer(L, 3, 0));
    check_table(L, 1);
    int            count   = (int)lua_rawlen(L, 1);
    struct value **outputs = push_room(L, count);
    bool           ok      = count > 0 || failed(me, E_VALUE, "gather expects at least one output");
    for (int i = 0; i < count && ok; i++) {
        lua_rawgeti(L, 1, i + 1);
        outputs[i] = value_from_lua(L, me, -1, true);
        ok         = outputs[i] != NULL;
        lua_pop(L, 1);
    }
    struct call call     = call_open(L, me, CALL_PLAIN);
    call.mark            = mark;
    struct value *result = ok ? dp_gather(me, outputs, count, device, dim) : NULL;
    return call_value(&call, result);
}

/* nn.parallel.replicate(module, devices): a list of replicas. */
static int
replicate(lua_State *L)
{
    struct task    *me     = script_task(L);
    struct module  *module = check_module(L, 1);
    struct device_list devices = check_devices(L, 2);
    struct module **replicas = lua_newuserdatauv(L, (size_t)(devices.count + 1) * sizeof *replicas, 0);
    struct call     call     = call_open(L, me, CALL_BACK);
    call_end(&call, dp_replicate(me, module, devices, replicas));
    lua_createtable(L, devices.count, 0);
    for (int i = 0; i < devices.count; i++) {
        push_module(L, replicas[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return call_leave(&call, 1);
}

/* nn.parallel.parallel_apply(modules, inputs, {kwargs = {...}, devices = {...}}): a list of outputs. */
static int
parallel_apply(lua_State *L)
{
    struct task *me   = script_task(L);
    size_t       mark = scope_mark(me);
    check_table(L, 1);
    check_table(L, 2);
    lua_settop(L, 3);
    int table = option_table(L, 3), count = (int)lua_rawlen(L, 1);
    option_known(L, table, "kwargs devices");
    if ((int)lua_rawlen(L, 2) != count)
        raise_error(L, "ValueError", "%d modules but %d inputs", count, (int)lua_rawlen(L, 2));
    struct module **modules = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *modules, 0);
    struct call_arguments *given = push_arguments(L, count);
    struct value   **outputs = push_room(L, count);
    bool            named = option_push(L, table, "kwargs"), ok = true;
    int             names = lua_gettop(L);
    for (int i = 0; i < count && ok; i++) {
        lua_rawgeti(L, 1, i + 1);
        modules[i] = check_module(L, lua_gettop(L));
        lua_rawgeti(L, 2, i + 1);
        given[i].inputs = inputs_tuple(L, me, lua_gettop(L));
        ok              = given[i].inputs != NULL;
        if (named && lua_rawgeti(L, names, i + 1) == LUA_TTABLE)
            ok = ok && (given[i].kwargs = value_from_lua(L, me, -1, true)) != NULL;
        lua_settop(L, names);
    }
    struct device_list devices = { NULL, count };
    if (option_push(L, table, "devices"))
        devices = check_devices(L, -1);
    if (devices.count != count)
        raise_error(L, "ValueError", "%d modules but %d devices", count, devices.count);
    struct call call = call_open(L, me, CALL_BACK);
    call.mark        = mark;
    call_end(&call, ok && dp_parallel_apply(me, modules, given, devices, outputs));
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_value(L, outputs[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return call_leave(&call, 1);
}

static const struct lua_entry nn_entries[] = {
    { "DataParallel", parallel_data_parallel, "nn.DataParallel(any module, table? device_ids=None, "
      "device? output_device=None, int dim=0) -> any",
      "the module on several devices: the batch is scattered, the outputs gathered; dp.module is the module" },
};
static const struct lua_entry entries[] = {
    { "data_parallel", data_parallel_function,
      "nn.parallel.data_parallel(any module, any inputs, table? device_ids=None, device? output_device=None, "
      "int dim=0, any? module_kwargs=None) -> any",
      "what a DataParallel does in its forward" },
    { "scatter", parallel_scatter, "nn.parallel.scatter(inputs, devices, dim)", "a list: what each device gets" },
    { "replicate", replicate, "nn.parallel.replicate(module, devices)", "a list of replicas" },
    { "parallel_apply", parallel_apply, "nn.parallel.parallel_apply(modules, inputs, {kwargs, devices})",
      "one thread per module; a list of outputs" },
    { "gather", parallel_gather, "nn.parallel.gather(outputs, device, dim)", "the outputs joined on one device" },
};

void
lua_open_parallel(lua_State *L)
{
    fill_namespace(L, "nn", nn_entries, countof(nn_entries));
    fill_namespace(L, "nn.parallel", entries, countof(entries));
}

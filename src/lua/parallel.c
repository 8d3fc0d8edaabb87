/* nn.DataParallel and nn.parallel.{scatter, replicate, parallel_apply, gather, data_parallel} in Lua. */
#include "lua/parallel.h"
#include <stdio.h>
#include <string.h>
#include "autograd/node.h"
#include "base/number.h"
#include "base/vec.h"
#include "device/device.h"
#include "lua/dispatch.h"
#include "lua/lesson.h"
#include "sched/task.h"

enum { OUTPUT_FIRST = -2 };

struct device_list
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

int
check_output_device(lua_State *L, int index)
{
    if (lua_isinteger(L, index) && lua_tointeger(L, index) == DEVICE_CPU)
        lesson_warn(L, "Using -1 to represent the CPU is deprecated, use \"cpu\"");
    return check_device(L, index);
}

/* Of three arguments: device_ids, output_device, dim. */
static struct data_parallel_options
check_dp_options(lua_State *L, const struct argument *at)
{
    struct data_parallel_options options = { .output_device = OUTPUT_FIRST, .dim = int_of_int64(at[2].integer[0]) };
    if (!at[0].none)
        options.devices = check_devices(L, (int)at[0].integer[0]);
    if (!at[1].none)
        options.output_device = check_output_device(L, (int)at[1].integer[0]);
    return options;
}

static void
push_device_ids(lua_State *L, struct device_list devices)
{
    lua_createtable(L, devices.count, 0);
    for (int i = 0; i < devices.count; i++) {
        lua_pushinteger(L, devices.ids[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

/* By name, the copies that stand for parameters: a replica has no parameters of its own. */
static void
push_former_parameters(lua_State *L, const struct module *replica)
{
    lua_createtable(L, 0, replica->parameters.count);
    for (int i = 0; i < replica->parameters.count; i++) {
        const struct module_entry *entry = &replica->parameters.entries[i];
        if (entry->tensor == NULL)
            continue;
        push_tensor(L, entry->tensor);
        lua_setfield(L, -2, entry->name);
    }
}

static bool push_parallel_step(lua_State *L, const char *name);

bool
push_parallel_attribute(lua_State *L, const struct module *module, const char *name)
{
    const struct data_parallel_options *options = data_parallel_options(module);
    if (module->is_replica && strcmp(name, "_former_parameters") == 0)
        push_former_parameters(L, module);
    else if (strcmp(name, "_is_replica") == 0)
        lua_pushboolean(L, module->is_replica);
    else if (options != NULL && strcmp(name, "device_ids") == 0)
        push_device_ids(L, options->devices);
    else if (options != NULL && strcmp(name, "output_device") == 0 && options->output_device != OUTPUT_FIRST)
        lua_pushinteger(L, options->output_device);
    else if (options != NULL && strcmp(name, "dim") == 0)
        lua_pushinteger(L, options->dim);
    else
        return options != NULL && push_parallel_step(L, name);
    return true;
}

static void
warn_of_imbalance(lua_State *L, struct device_list devices)
{
    int  smallest = 0, largest = 0;
    char text[300];
    if (!data_parallel_imbalance(script_of(L)->holder, devices, &smallest, &largest))
        return;
    snprintf(text, sizeof text, "There is an imbalance between your devices: device:%d has less than 75%% of the "
             "memory of device:%d and may be left out, by the argument device_ids of DataParallel", smallest, largest);
    lesson_warn(L, text);
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
    struct module               *wrapper = data_parallel_new(me, module, &options);
    call_end(&call, wrapper != NULL);
    warn_of_imbalance(L, data_parallel_options(wrapper)->devices);
    push_module(L, wrapper);
    return call_leave(&call, 1);
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
    if (device_count(me) == 0)
        raise_error(L, "RuntimeError", "device type could not be determined: there are no devices");
    if (options.devices.ids != NULL && options.devices.count == 0)
        raise_error(L, "IndexError", "device_ids is empty: it has no first device");
    struct call_arguments given = { .inputs = NULL };
    bool                  ok    = true;
    if (!a.at[1].none)
        ok = (given.inputs = value_from_lua(L, me, (int)a.at[1].integer[0], true)) != NULL;
    if (ok && !a.at[5].none)
        ok = (given.kwargs = value_from_lua(L, me, (int)a.at[5].integer[0], true)) != NULL;
    struct call call     = call_open(L, me, CALL_BACK);
    call.mark            = mark;
    struct value *result = ok ? data_parallel_forward(me, module, given, &options) : NULL;
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

/* A scatter as Lua asks for it. `ok` false: the arguments could not be read, and me has failed. */
struct scatter_request {
    struct call_arguments given;
    struct device_list    devices;
    int                   dim;
    size_t                mark;
    bool                  ok;
};

/* Pushes what the replicas get: a list of their first inputs, or, with `words`, one of all inputs and one of kwargs. */
static int
scatter_to_lists(lua_State *L, struct task *me, const struct scatter_request *asked, bool words)
{
    struct call_arguments *out  = push_arguments(L, asked->devices.count);
    struct call            call = call_open(L, me, CALL_PLAIN);
    call.mark = asked->mark;
    int count = asked->ok ? dp_scatter(me, asked->given, asked->devices, asked->dim, out) : 0;
    call_end(&call, asked->ok && !task_failed(me));
    lua_createtable(L, count, 0);
    lua_createtable(L, words ? count : 0, 0);
    for (int i = 0; i < count; i++) {
        const struct value *inputs = out[i].inputs, *first = inputs->count > 0 ? inputs->items[0] : NULL;
        if (words)
            push_value(L, inputs);
        else if (first != NULL && first->kind != VALUE_NONE)
            push_value(L, first);
        else
            lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None");
        lua_rawseti(L, -3, i + 1);
        if (!words)
            continue;
        push_value(L, out[i].kwargs);
        lua_rawseti(L, -2, i + 1);
    }
    if (!words)
        lua_pop(L, 1);
    return call_leave(&call, words ? 2 : 1);
}

/* nn.parallel.scatter(inputs, devices, dim): a list with one entry per device that gets something. What is no tuple is
 * scattered as it is: scatter(t, {0, 1}) gives {t0, t1}. */
static int
parallel_scatter(lua_State *L)
{
    struct task           *me    = script_task(L);
    struct scatter_request asked = { .mark = scope_mark(me) };
    struct arguments       a;
    take_arguments(L, &a);
    asked.devices = check_devices(L, (int)a.at[1].integer[0]);
    asked.dim     = int_of_int64(a.at[2].integer[0]);
    struct value *one = value_from_lua(L, me, (int)a.at[0].integer[0], true);
    asked.given.inputs = one != NULL ? value_tuple(me, 1, &one) : NULL;
    asked.ok           = asked.given.inputs != NULL;
    return scatter_to_lists(L, me, &asked, false);
}

/* nn.parallel.scatter_kwargs(inputs, kwargs, devices, dim): two lists, of tuples and of tables with names. */
static int
parallel_scatter_kwargs(lua_State *L)
{
    struct task           *me    = script_task(L);
    struct scatter_request asked = { .mark = scope_mark(me), .ok = true };
    struct arguments       a;
    take_arguments(L, &a);
    if (a.at[2].none)
        lua_pushnil(L);
    asked.devices = check_devices(L, a.at[2].none ? -1 : (int)a.at[2].integer[0]);
    asked.dim     = int_of_int64(a.at[3].integer[0]);
    if (!a.at[0].none)
        asked.ok = (asked.given.inputs = inputs_tuple(L, me, (int)a.at[0].integer[0])) != NULL;
    if (asked.ok && !a.at[1].none)
        asked.ok = (asked.given.kwargs = value_from_lua(L, me, (int)a.at[1].integer[0], true)) != NULL;
    return scatter_to_lists(L, me, &asked, true);
}

/* nn.parallel.gather(outputs, device, dim) */
static int
parallel_gather(lua_State *L)
{
    struct task     *me   = script_task(L);
    size_t           mark = scope_mark(me);
    struct arguments a;
    take_arguments(L, &a);
    int            list    = (int)a.at[0].integer[0], device = check_output_device(L, (int)a.at[1].integer[0]);
    int            count   = (int)lua_rawlen(L, list);
    struct value **outputs = push_room(L, count);
    bool           ok      = count > 0 || failed(me, E_INDEX, "gather expects at least one output");
    for (int i = 0; i < count && ok; i++) {
        lua_rawgeti(L, list, i + 1);
        outputs[i] = value_from_lua(L, me, -1, true);
        ok         = outputs[i] != NULL;
        lua_pop(L, 1);
    }
    struct call call = call_open(L, me, CALL_BACK);
    call.mark        = mark;
    return call_value(&call, ok ? dp_gather(me, outputs, count, device, int_of_int64(a.at[2].integer[0])) : NULL);
}

/* nn.parallel.replicate(module, devices, detach): a list of replicas. */
static int
replicate(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct module     *module   = check_module(L, (int)a.at[0].integer[0]);
    struct device_list devices  = check_devices(L, (int)a.at[1].integer[0]);
    struct module    **replicas = lua_newuserdatauv(L, (size_t)(devices.count + 1) * sizeof *replicas, 0);
    struct call        call     = call_open(L, me, CALL_BACK);
    bool               recorded = grad_enabled(me);
    grad_set_enabled(me, recorded && a.at[2].integer[0] == 0);
    bool done = devices.count == 0 || dp_replicate(me, module, devices, replicas);
    grad_set_enabled(me, recorded);
    call_end(&call, done);
    lua_createtable(L, devices.count, 0);
    for (int i = 0; i < devices.count; i++) {
        push_module(L, replicas[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return call_leave(&call, 1);
}

/* The lists at `modules`, `inputs` and `kwargs` (0: none), element by element. false: failed. */
static bool
read_calls(lua_State *L, struct task *me, const int lists[3], int count, struct module **modules,
           struct call_arguments *given)
{
    int top = lua_gettop(L);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, lists[0], i + 1);
        modules[i] = check_module(L, lua_gettop(L));
        lua_rawgeti(L, lists[1], i + 1);
        given[i].inputs = inputs_tuple(L, me, lua_gettop(L));
        bool ok         = given[i].inputs != NULL;
        if (lists[2] != 0 && lua_rawgeti(L, lists[2], i + 1) == LUA_TTABLE)
            ok = ok && (given[i].kwargs = value_from_lua(L, me, -1, true)) != NULL;
        lua_settop(L, top);
        if (!ok)
            return false;
    }
    return true;
}

/* nn.parallel.parallel_apply(modules, inputs, kwargs_tup, devices): a list of outputs. */
static int
parallel_apply(lua_State *L)
{
    struct task     *me   = script_task(L);
    size_t           mark = scope_mark(me);
    struct arguments a;
    take_arguments(L, &a);
    const struct argument *words = a.at[2].none ? &a.at[4] : &a.at[2];
    const int lists[3] = { (int)a.at[0].integer[0], (int)a.at[1].integer[0], words->none ? 0 : (int)words->integer[0] };
    int       count    = (int)lua_rawlen(L, lists[0]);
    if ((int)lua_rawlen(L, lists[1]) != count)
        raise_error(L, "AssertionError", "The number of modules %d is not equal to the number of inputs %d", count,
                    (int)lua_rawlen(L, lists[1]));
    if (!words->none && (int)lua_rawlen(L, lists[2]) != count)
        raise_error(L, "AssertionError", "The number of modules %d is not equal to the number of kwargs_tup %d", count,
                    (int)lua_rawlen(L, lists[2]));
    struct device_list devices = { NULL, count };
    if (!a.at[3].none)
        devices = check_devices(L, (int)a.at[3].integer[0]);
    if (devices.count != count)
        raise_error(L, "AssertionError", "The number of modules %d is not equal to the number of devices %d", count,
                    devices.count);
    struct module **modules = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *modules, 0);
    struct call_arguments *given = push_arguments(L, count);
    struct value   **outputs = push_room(L, count);
    bool             ok      = read_calls(L, me, lists, count, modules, given);
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
      "any? output_device=None, int dim=0) -> any",
      "the module on several devices: the batch is scattered, the outputs gathered; dp.module is the module" },
};

static const struct lua_entry entries[] = {
    { "data_parallel", data_parallel_function,
      "nn.parallel.data_parallel(any module, any? inputs, table? device_ids=None, any? output_device=None, "
      "int dim=0, any? module_kwargs=None) -> any",
      "what a DataParallel does in its forward" },
    { "scatter", parallel_scatter, "nn.parallel.scatter(any inputs, table devices, int dim=0) -> any",
      "a list: what each device gets" },
    { "scatter_kwargs", parallel_scatter_kwargs,
      "nn.parallel.scatter_kwargs(any? inputs=None, any? kwargs=None, table? devices=None, int dim=0) -> any",
      "two lists as long: positional and named arguments of each replica" },
    { "replicate", replicate, "nn.parallel.replicate(any module, table devices, bool detach=False) -> any",
      "a list of replicas" },
    { "parallel_apply", parallel_apply,
      "nn.parallel.parallel_apply(table modules, table inputs, table? kwargs_tup=None, table? devices=None, *, "
      "table? kwargs=None) -> any",
      "one thread per module; a list of outputs" },
    { "gather", parallel_gather, "nn.parallel.gather(table outputs, any device, int dim=0) -> any",
      "the outputs joined on one device" },
};

/* ---- DataParallel as the base of a lesson's class ---- */

/* MyDP.super.init(self, module, {device_ids, output_device, dim}): what nn.DataParallel(...) reads is kept in the
 * object. */
static int
data_parallel_init(lua_State *L)
{
    static const char *const fields[] = { "module", "device_ids", "dim", "output_device" };
    check_module(L, 1);
    lua_pushlightuserdata(L, (void *)(uintptr_t)&nn_entries[0]);
    lua_pushcclosure(L, parallel_data_parallel, 1);
    lua_insert(L, 2);
    lua_call(L, lua_gettop(L) - 2, 1);
    bool nowhere = data_parallel_options(check_module(L, -1))->devices.count == 0; /* as in PyTorch: no output_device */
    for (size_t i = 0; i < countof(fields) - nowhere; i++) {
        lua_getfield(L, -1, fields[i]);
        lua_setfield(L, 1, fields[i]);
    }
    return 0;
}

/* The function of nn.parallel of that name. */
static void
push_parallel(lua_State *L, const char *name)
{
    size_t at = 0;
    while (strcmp(entries[at].name, name) != 0)
        at++;
    lua_pushlightuserdata(L, (void *)(uintptr_t)&entries[at]);
    lua_pushcclosure(L, entries[at].function, 1);
}

/* dp:scatter(inputs, kwargs, device_ids): two lists */
static int
step_scatter(lua_State *L)
{
    lua_settop(L, 4);
    push_parallel(L, "scatter_kwargs");
    lua_rotate(L, 2, 1);
    lua_getfield(L, 1, "dim");
    lua_call(L, 4, 2);
    return 2;
}

/* dp:replicate(module, device_ids): a list of replicas */
static int
step_replicate(lua_State *L)
{
    lua_settop(L, 3);
    push_parallel(L, "replicate");
    lua_rotate(L, 2, 1);
    lua_call(L, 2, 1);
    return 1;
}

/* The first `count` of the list at the top, in its place. */
static void
first_of_list(lua_State *L, lua_Integer count)
{
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, -2, i);
        lua_rawseti(L, -2, i);
    }
    lua_remove(L, -2);
}

/* dp:parallel_apply(replicas, inputs, kwargs): a list of outputs */
static int
step_parallel_apply(lua_State *L)
{
    lua_settop(L, 4);
    check_table(L, 2);
    push_parallel(L, "parallel_apply");
    lua_rotate(L, 2, 1);
    lua_getfield(L, 1, "device_ids");
    first_of_list(L, (lua_Integer)lua_rawlen(L, 3));
    lua_call(L, 4, 1);
    return 1;
}

/* dp:gather(outputs, output_device) */
static int
step_gather(lua_State *L)
{
    lua_settop(L, 3);
    push_parallel(L, "gather");
    lua_rotate(L, 2, 1);
    lua_getfield(L, 1, "dim");
    lua_call(L, 3, 1);
    return 1;
}

static const struct luaL_Reg steps[] = {
    { "scatter", step_scatter }, { "replicate", step_replicate }, { "parallel_apply", step_parallel_apply },
    { "gather", step_gather },
};

static bool
push_parallel_step(lua_State *L, const char *name)
{
    for (size_t i = 0; i < countof(steps); i++) {
        if (strcmp(steps[i].name, name) != 0)
            continue;
        lua_pushcfunction(L, steps[i].func);
        return true;
    }
    return false;
}

/* The object at 1 has one of the steps from its own class. */
static bool
has_own_step(lua_State *L)
{
    bool own = false;
    for (size_t i = 0; i < countof(steps) && !own; i++) {
        lua_getfield(L, 1, steps[i].name);
        own = lua_tocfunction(L, -1) != steps[i].func;
        lua_pop(L, 1);
    }
    return own;
}

/* Pushes self's method and self. */
static void
push_step(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    lua_pushvalue(L, 1);
}

static int
push_unpacked(lua_State *L, int list)
{
    int count = (int)lua_rawlen(L, list);
    stack_room(L, count + 4);
    for (int i = 1; i <= count; i++)
        lua_rawgeti(L, list, i);
    return count;
}

/* Calls the module with the tuple and the table of named ones at these places. */
static int
call_with(lua_State *L, int module, int inputs, int kwargs)
{
    int top = lua_gettop(L);
    lua_pushvalue(L, module);
    int count = inputs != 0 ? push_unpacked(L, inputs) : 0;
    if (kwargs != 0 && lua_istable(L, kwargs)) {
        lua_pushvalue(L, kwargs);
        luaL_setmetatable(L, "ringside.kw");
        count++;
    }
    lua_call(L, count, LUA_MULTRET);
    return lua_gettop(L) - top;
}

enum { STEP_INPUTS = 2, STEP_KWARGS, STEP_DEVICES, STEP_MODULE, STEP_CUT_INPUTS, STEP_CUT_KWARGS, STEP_ARGUMENTS };

static void
check_module_place(lua_State *L, struct module *module)
{
    struct task       *me      = script_task(L);
    struct device_list devices = check_devices(L, STEP_DEVICES);
    struct call        call    = call_open(L, me, CALL_PLAIN);
    call_done(&call, data_parallel_check(me, module, devices.ids[0]));
    lua_pop(L, 1);
}

/* The lists that self:scatter gave, at their places: as long as one another. Answers for how many replicas. */
static lua_Integer
scatter_by_step(lua_State *L)
{
    push_step(L, "scatter");
    lua_pushvalue(L, STEP_INPUTS);
    lua_pushvalue(L, STEP_KWARGS);
    lua_pushvalue(L, STEP_DEVICES);
    lua_call(L, 4, 2);
    lua_Integer count = lua_istable(L, STEP_CUT_INPUTS) ? (lua_Integer)lua_rawlen(L, STEP_CUT_INPUTS) : -1;
    if (count < 0 || !lua_istable(L, STEP_CUT_KWARGS) || (lua_Integer)lua_rawlen(L, STEP_CUT_KWARGS) != count)
        raise_error(L, "TypeError", "%s's scatter gives two lists, one of inputs and one of kwargs, an entry for each "
                    "replica", module_class_name(check_module(L, 1)));
    return count;
}

/* The forward of a class that has steps of its own, read as PyTorch's: each step is asked of self. At 2 the inputs as a
 * tuple, at 3 the named ones. What gather gives as a tuple is several results. */
static int
forward_by_steps(lua_State *L, struct module *module)
{
    lua_getfield(L, 1, "device_ids");
    lua_getfield(L, 1, "module");
    if (lua_rawlen(L, STEP_DEVICES) == 0)
        return call_with(L, STEP_MODULE, STEP_INPUTS, STEP_KWARGS);
    check_module_place(L, module);
    lua_Integer count = scatter_by_step(L);
    if (lua_rawlen(L, STEP_DEVICES) == 1 || count == 0) {
        lua_rawgeti(L, STEP_CUT_INPUTS, 1);
        lua_rawgeti(L, STEP_CUT_KWARGS, 1);
        return call_with(L, STEP_MODULE, count > 0 ? STEP_ARGUMENTS : 0, count > 0 ? STEP_ARGUMENTS + 1 : 0);
    }
    push_step(L, "gather");
    push_step(L, "parallel_apply");
    push_step(L, "replicate");
    lua_pushvalue(L, STEP_MODULE);
    lua_pushvalue(L, STEP_DEVICES);
    first_of_list(L, count);
    lua_call(L, 3, 1);
    lua_pushvalue(L, STEP_CUT_INPUTS);
    lua_pushvalue(L, STEP_CUT_KWARGS);
    lua_call(L, 4, 1);
    lua_getfield(L, 1, "output_device");
    lua_call(L, 3, 1);
    return has_class(L, -1, "ringside.tuple") ? push_unpacked(L, lua_gettop(L)) : 1;
}

/* Replaces the arguments behind self by a tuple of them and a table of the named ones. */
static void
pack_arguments(lua_State *L)
{
    struct task  *me     = script_task(L);
    size_t        mark   = scope_mark(me);
    struct value *kwargs = NULL, *inputs = arguments_from_lua(L, me, 2, &kwargs, true);
    struct call   call   = call_open(L, me, CALL_PLAIN);
    call.mark = mark;
    call_end(&call, inputs != NULL);
    lua_settop(L, 1);
    push_value(L, inputs);
    if (kwargs != NULL)
        push_value(L, kwargs);
    else
        lua_newtable(L);
    call_leave(&call, 2);
}

/* MyDP.super.forward(self, ...) */
static int
data_parallel_object_forward(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct module *self = check_module(L, 1), *module = module_child(self, "module");
    size_t         mark = scope_mark(me);
    if (module == NULL)
        raise_error(L, "AttributeError", "%s has no module: its init calls %s.super.init(self, module)",
                    module_class_name(self), module_class_name(self));
    if (has_own_step(L)) {
        me->iteration = (uint32_t)self->integers[0]++;
        pack_arguments(L);
        return forward_by_steps(L, module);
    }
    struct call_arguments given = { .kwargs = NULL };
    given.inputs = arguments_from_lua(L, me, 2, &given.kwargs, true);
    lua_getfield(L, 1, "dim");
    struct data_parallel_options options = { .output_device = OUTPUT_FIRST,
                                             .dim = int_of_int64(lua_tointeger(L, -1)) };
    lua_getfield(L, 1, "device_ids");
    options.devices = check_devices(L, -1);
    if (options.devices.count > 0 && lua_getfield(L, 1, "output_device") != LUA_TNIL)
        options.output_device = check_device(L, -1);
    struct call call = call_open(L, me, CALL_BACK);
    call.mark        = mark;
    me->iteration    = (uint32_t)self->integers[0]++;
    struct value *result = given.inputs != NULL ? data_parallel_forward(me, module, given, &options) : NULL;
    call_end(&call, result != NULL);
    return call_leave(&call, push_results(L, result));
}

bool
push_base_class(lua_State *L, int index)
{
    static const char name[] = "ringside.DataParallel";
    if (lua_tocfunction(L, index) != parallel_data_parallel)
        return false;
    if (lua_getfield(L, LUA_REGISTRYINDEX, name) == LUA_TTABLE)
        return true;
    lua_pop(L, 1);
    push_class(L, MODULE_CLASS, "DataParallel");
    lua_pushcfunction(L, data_parallel_init);
    lua_setfield(L, -2, "init");
    lua_pushcfunction(L, data_parallel_object_forward);
    lua_setfield(L, -2, "forward");
    for (size_t i = 0; i < countof(steps); i++) {
        lua_pushcfunction(L, steps[i].func);
        lua_setfield(L, -2, steps[i].name);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, name);
    return true;
}

void
lua_open_parallel(lua_State *L)
{
    fill_namespace(L, "nn", nn_entries, countof(nn_entries));
    fill_namespace(L, "nn.parallel", entries, countof(entries));
    lua_open_comm(L);
}

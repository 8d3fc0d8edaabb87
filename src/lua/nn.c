/* What every module can do (parameters, to, train ...; state_dict is in state.c). The layers themselves are
 * rows of nn/layers.def. Lists of parameters and modules work in both loops: `for i, p in
 * ipairs(m:parameters())` and, as in PyTorch, `for p in m:parameters()`, `for name, p in m:named_parameters()`. */
#include "lua/internal.h"
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

static const char LIST[] = "ringside.list";

/* ---- lists ---- */

/* The list itself is the iterator: what follows `control`. Entries that are {name, thing} give both. */
static int
list_next(lua_State *L)
{
    int64_t count = (int64_t)lua_rawlen(L, 1), at = 1;
    lua_settop(L, 3);
    for (; !lua_isnil(L, 3) && at <= count; at++) {
        lua_rawgeti(L, 1, at);
        if (lua_istable(L, -1))
            lua_rawgeti(L, -1, 1);
        bool found = lua_rawequal(L, -1, 3); /* a tensor has one box, and == would tell of its elements */
        lua_settop(L, 3);
        if (found) {
            at++;
            break;
        }
    }
    lua_rawgeti(L, 1, at);
    if (!lua_istable(L, -1))
        return 1;
    lua_rawgeti(L, 4, 1);
    lua_rawgeti(L, 4, 2);
    return 2;
}

static void
push_list(lua_State *L, int room)
{
    lua_createtable(L, room, 0);
    if (luaL_newmetatable(L, LIST)) {
        lua_pushcfunction(L, list_next);
        lua_setfield(L, -2, "__call");
        set_text(L, -1, "__name", "list");
    }
    lua_setmetatable(L, -2);
}

/* The thing at the top of the stack goes to the end of the list below it, with its name unless that is NULL. */
static void
list_add(lua_State *L, const char *name)
{
    if (name != NULL) {
        lua_createtable(L, 2, 0);
        lua_insert(L, -2);
        lua_rawseti(L, -2, 2);
        lua_pushstring(L, name);
        lua_rawseti(L, -2, 1);
    }
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static void
names_free(struct task *me, void *list)
{
    named_tensors_free(me, list);
}

static void
modules_free(struct task *me, void *list)
{
    named_modules_free(me, list);
}

/* A replica's parameters are plain attributes: the list leaves them out, as nn.Module.parameters has since 1.5. */
static bool
is_listed(const struct module *module, const struct tensor *tensor)
{
    return !module->is_replica || tensor->is_parameter;
}

enum listing { LIST_PARAMETERS = 0, LIST_BUFFERS = 1, LIST_NAMED = 2 };

static int
list_tensors(lua_State *L, unsigned listing)
{
    bool                  buffers = (listing & LIST_BUFFERS) != 0;
    struct task          *me      = script_task(L);
    struct module        *module  = check_module(L, 1);
    struct named_tensors *list    = lua_newuserdatauv(L, sizeof *list, 0);
    *list                         = (struct named_tensors){ 0 };
    struct call call              = call_open(L, me, CALL_PLAIN);
    bool        ok = buffers ? module_named_buffers(me, module, list) : module_named_parameters(me, module, list);
    if (ok)
        born(me, list, names_free);
    call_end(&call, ok);
    push_list(L, list->count);
    for (int i = 0; i < list->count; i++) {
        if (!buffers && !is_listed(module, list->tensors[i]))
            continue;
        push_tensor(L, list->tensors[i]);
        list_add(L, (listing & LIST_NAMED) != 0 ? list->names[i] : NULL);
    }
    return call_leave(&call, 1);
}

static int
parameters(lua_State *L)
{
    return list_tensors(L, LIST_PARAMETERS);
}

static int
named_parameters(lua_State *L)
{
    return list_tensors(L, LIST_PARAMETERS | LIST_NAMED);
}

static int
buffers(lua_State *L)
{
    return list_tensors(L, LIST_BUFFERS);
}

static int
named_buffers(lua_State *L)
{
    return list_tensors(L, LIST_BUFFERS | LIST_NAMED);
}

static int
list_modules(lua_State *L, bool named)
{
    struct task          *me     = script_task(L);
    struct module        *module = check_module(L, 1);
    struct named_modules *list   = lua_newuserdatauv(L, sizeof *list, 0);
    *list                        = (struct named_modules){ 0 };
    struct call call             = call_open(L, me, CALL_PLAIN);
    bool        ok               = module_named_modules(me, module, list);
    if (ok)
        born(me, list, modules_free);
    call_end(&call, ok);
    push_list(L, list->count);
    for (int i = 0; i < list->count; i++) {
        push_module(L, list->modules[i]);
        list_add(L, named ? list->names[i] : NULL);
    }
    return call_leave(&call, 1);
}

static int
modules(lua_State *L)
{
    return list_modules(L, false);
}

static int
named_modules(lua_State *L)
{
    return list_modules(L, true);
}

static int
list_children(lua_State *L, bool named)
{
    struct module *module = check_module(L, 1);
    push_list(L, module->children.count);
    for (int i = 0; i < module->children.count; i++) {
        if (module->children.entries[i].module == NULL)
            continue;
        push_module(L, module->children.entries[i].module);
        list_add(L, named ? module->children.entries[i].name : NULL);
    }
    return 1;
}

static int
children(lua_State *L)
{
    return list_children(L, false);
}

static int
named_children(lua_State *L)
{
    return list_children(L, true);
}

/* ---- registering ---- */

/* As PyTorch's hasattr: what the module has under another heading than `own` may not be put out of sight. */
static void
check_name_free(lua_State *L, const struct module *module, const char *name, const void *own)
{
    if (own == NULL && (module_parameter(module, name) != NULL || module_buffer(module, name) != NULL ||
                        module_child(module, name) != NULL))
        raise_error(L, "KeyError", "attribute '%s' already exists", name);
}

static int
register_parameter(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    const char    *name   = check_text(L, 2);
    struct tensor *tensor = lua_isnoneornil(L, 3) ? NULL : check_tensor(L, 3);
    if (tensor != NULL && !tensor->is_parameter)
        raise_error(L, "TypeError", "register_parameter expects an nn.Parameter, this is a plain tensor");
    check_name_free(L, module, name, module_parameter(module, name));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, module_add_parameter(me, module, name, tensor));
}

static int
register_buffer(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    const char    *name   = check_text(L, 2);
    struct tensor *tensor = lua_isnoneornil(L, 3) ? NULL : check_tensor(L, 3);
    check_name_free(L, module, name, module_buffer(module, name));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, module_add_buffer(me, module, name, tensor));
}

static int
add_module(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1), *child = lua_isnoneornil(L, 3) ? NULL : check_module(L, 3);
    const char    *name   = check_text(L, 2);
    check_name_free(L, module, name, module_child(module, name));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, module_add_child(me, module, name, child));
}

/* ---- moving and modes ---- */

static int
moved(lua_State *L, int device)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_self(&call, module_to(me, module, device));
}

/* m:to("device:1"), m:to("float64"), m:to("device:0", "float16"), m:to{dtype = ..., device = ...}, m:to(tensor) */
static int
to(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    struct tensor *other  = test_tensor(L, 2);
    int            device = DEVICE_MAX + 1, last = lua_gettop(L);
    enum dtype     dtype  = DTYPE_COUNT;
    if (other != NULL) {
        device = tensor_device(other);
        dtype  = other->dtype;
    } else if (lua_istable(L, 2)) {
        option_known(L, 2, "dtype device");
        device = option_device(L, 2, device);
        dtype  = option_dtype(L, 2, dtype);
    }
    for (int i = 2; i <= (last < 2 ? 2 : last) && i <= 3 && other == NULL && !lua_istable(L, 2); i++)
        if (lua_type(L, i) != LUA_TSTRING || !dtype_parse(lua_tostring(L, i), &dtype))
            device = check_device(L, i);
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = dtype == DTYPE_COUNT || module_cast(me, module, dtype);
    return call_self(&call, ok && (device > DEVICE_MAX || module_to(me, module, device)));
}

/* Upvalue 1: the dtype. m:half() */
static int
cast(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    enum dtype     dtype  = (enum dtype)lua_tointeger(L, lua_upvalueindex(1));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_self(&call, module_cast(me, module, dtype));
}

static int
cuda(lua_State *L)
{
    int device = lua_isnoneornil(L, 2) ? script_of(L)->holder->device : check_device(L, 2);
    return moved(L, device < 0 ? 0 : device);
}

static int
cpu(lua_State *L)
{
    return moved(L, DEVICE_CPU);
}

static int
set_training(lua_State *L, bool training)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_self(&call, module_train(me, module, training));
}

static int
train(lua_State *L)
{
    return set_training(L, opt_flag(L, 2, true));
}

static int
eval(lua_State *L)
{
    return set_training(L, false);
}

/* m:zero_grad(), m:zero_grad{set_to_none = false}. A counted point of collection: the graph of the step before is
 * dead. */
static int
zero_grad(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    bool           none   = flag_or_option(L, 2, "set_to_none", true);
    if (module->is_replica)
        lesson_warn(L, "Calling .zero_grad() from a module created with nn.DataParallel() has no effect: "
                       "its parameters are copies, no leaves, and keep no gradients; a forward that needs some uses "
                       "autograd.grad");
    struct call    call   = call_open(L, me, CALL_PLAIN);
    call_done(&call, module_zero_grad(me, module, none));
    script_collect_if_due(L, me);
    return 0;
}

static int
requires_grad_(lua_State *L)
{
    bool on = opt_flag(L, 2, true);
    lua_settop(L, 1);
    list_tensors(L, LIST_PARAMETERS);
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        check_tensor(L, -1)->requires_grad = on;
        lua_pop(L, 1);
    }
    lua_settop(L, 1);
    return 1;
}

static int
has_uninitialized_params(lua_State *L)
{
    const struct module *module = check_module(L, 1);
    bool                 any    = false;
    for (int i = 0; i < module->parameters.count; i++)
        any = any || tensor_uninitialized(module->parameters.entries[i].tensor);
    lua_pushboolean(L, any);
    return 1;
}

/* f of every module, children before parents, as nn.Module.apply. */
static void
apply_to(lua_State *L, struct module *module, int depth)
{
    if (depth > 200)
        raise_error(L, "RuntimeError", "modules are nested deeper than 200");
    luaL_checkstack(L, 8, "modules nested too deep");
    for (int i = 0; i < module->children.count; i++)
        if (module->children.entries[i].module != NULL)
            apply_to(L, module->children.entries[i].module, depth + 1);
    lua_pushvalue(L, 2);
    push_module(L, module);
    lua_call(L, 1, 0);
}

static int
apply(lua_State *L)
{
    struct module *module = check_module(L, 1);
    check_function(L, 2);
    apply_to(L, module, 0);
    lua_settop(L, 1);
    return 1;
}

static const struct lua_entry methods[] = {
    { "parameters", parameters, "m:parameters()", "a list of all parameters, depth first, shared ones once" },
    { "named_parameters", named_parameters, "m:named_parameters()", "for name, p in m:named_parameters() do" },
    { "buffers", buffers, "m:buffers()", "a list of all buffers" },
    { "named_buffers", named_buffers, "m:named_buffers()", "with their names" },
    { "modules", modules, "m:modules()", "itself and all below it" },
    { "named_modules", named_modules, "m:named_modules()", "with their names; its own is \"\"" },
    { "children", children, "m:children()", "its own children" },
    { "named_children", named_children, "m:named_children()", "with their names" },
    { "register_parameter", register_parameter, "m:register_parameter(name, parameter)",
      "the same as m.name = parameter" },
    { "register_buffer", register_buffer, "m:register_buffer(name, tensor)",
      "a tensor that is state but no parameter" },
    { "add_module", add_module, "m:add_module(name, module)", "the same as m.name = module" },
    { "to", to, "m:to(device or dtype, dtype)", "parameters and buffers move; they stay the same tensor objects" },
    { "cuda", cuda, "m:cuda(index)", "m:to(\"device:0\")" },
    { "cpu", cpu, "m:cpu()", "m:to(\"cpu\")" },
    { "train", train, "m:train(on)", "training mode, here and below" },
    { "eval", eval, "m:eval()", "the other mode" },
    { "zero_grad", zero_grad, "m:zero_grad{set_to_none = true}",
      "gradients become none, or zeros where that is false; before PyTorch 2.0 zeros was the default" },
    { "requires_grad_", requires_grad_, "m:requires_grad_(on)", "freezes (false) or thaws all parameters" },
    { "has_uninitialized_params", has_uninitialized_params, "m:has_uninitialized_params()",
      "does one of its own parameters wait for the first forward to get its shape?" },
    { "apply", apply, "m:apply(f)", "f(module) for all, children first" },
};

static const struct { const char *name; lua_CFunction function; int which; const char *signature, *help; } casts[] = {
    { "float", cast, DTYPE_F32, "m:float()", "parameters and buffers of fractions become float32" },
    { "double", cast, DTYPE_F64, "m:double()", "parameters and buffers of fractions become float64" },
    { "half", cast, DTYPE_F16, "m:half()", "parameters and buffers of fractions become float16" },
    { "bfloat16", cast, DTYPE_BF16, "m:bfloat16()", "parameters and buffers of fractions become bfloat16" },
};

void
lua_open_nn(lua_State *L)
{
    luaL_getmetatable(L, box_metatable(BOX_MODULE));
    lua_getfield(L, -1, "methods");
    add_entries(L, -1, methods, countof(methods));
    for (size_t i = 0; i < countof(casts); i++) {
        lua_pushinteger(L, casts[i].which);
        lua_pushcclosure(L, casts[i].function, 1);
        note_help(L, casts[i].signature, casts[i].help);
        lua_setfield(L, -2, casts[i].name);
    }
    lua_pop(L, 2);
    lua_open_state(L);
}

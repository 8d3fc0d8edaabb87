/* nn.Module in Lua: classes of the lesson's own, their objects, attributes and calls. A class is a table made by
 * nn.Module("Name") or nn.Module("Name", Base); calling it makes an object and runs its init. An object is a box: what
 * is assigned to it is registered if it is a parameter or a module, else kept in its table of plain attributes. The
 * engine sees a struct module whose type, script_module, calls back into the class's forward. A replica's attributes
 * are a shallow copy: torch.nn.Module._replicate_for_data_parallel. The methods of all modules are in nn.c. */
#include "lua/shelf.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char CLASS[] = MODULE_CLASS, KW[] = "ringside.kw";

/* ---- the type: what the engine calls ---- */

struct module_forward_call { struct module *module; struct value *args, *kwargs, *result; bool deep; };

/* Several results are a tuple, one rs.tuple a whole one. */
static struct value *
results_from_lua(lua_State *L, struct task *me, int first, bool deep)
{
    int count = lua_gettop(L) - first + 1;
    if (count == 1) {
        struct value *value = value_from_lua(L, me, first, deep);
        if (value != NULL && value->kind == VALUE_TUPLE)
            value->whole = true;
        return value;
    }
    if (count == 0)
        return value_none(me);
    struct value *kwargs = NULL; /* a trailing rs.kw is no result */
    return arguments_from_lua(L, me, first, &kwargs, deep);
}

static int
module_forward_body(lua_State *L)
{
    struct module_forward_call *forward = lua_touserdata(L, 1);
    struct task    *me      = script_of(L)->holder;
    object_push(L, forward->module->script);
    if (!lua_istable(L, -1) || lua_getfield(L, -1, "forward") == LUA_TNIL)
        raise_error(L, "NotImplementedError", "Module [%s] is missing the required \"forward\" function: write "
                    "function %s:forward(x)", forward->module->class_name, forward->module->class_name);
    push_module(L, forward->module);
    int count = forward->args->count;
    stack_room(L, count + 10);
    for (int i = 0; i < count; i++)
        push_value(L, forward->args->items[i]);
    if (forward->kwargs != NULL && forward->kwargs->count > 0) {
        push_value(L, forward->kwargs);
        luaL_setmetatable(L, KW);
        count++;
    }
    lua_call(L, count + 1, LUA_MULTRET);
    forward->result = results_from_lua(L, me, 3, forward->deep);
    return 0;
}

static struct value *
script_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct script_object *object  = self->script;
    struct visit         *visit   = (struct visit *)(uintptr_t)me->slots[SLOT_LUA];
    struct module_forward_call        forward = { .module = self, .args = args, .kwargs = kwargs, .deep = true };
    if (object == NULL || !object_open(object))
        return failed_null(me, E_RUNTIME, "the script of this module has ended");
    if (visit != NULL) {
        forward.deep  = visit->direct != self;
        visit->direct = NULL;
    }
    if (!script_visit(me, object->script, module_forward_body, &forward))
        return NULL;
    return forward.result;
}

struct copying { struct script_object *from, *to; };

static int
copy_body(lua_State *L)
{
    struct copying *copying = lua_touserdata(L, 1);
    object_push(L, copying->from);
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, 2) != 0) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, 3);
    }
    if (lua_getmetatable(L, 2)) {
        sandbox_metatable(L, -1);
        lua_setmetatable(L, 3);
    }
    copying->to = object_new(L, script_of(L)->holder, 3, copying->from->name);
    return 0;
}

static struct module *
script_copy(struct task *me, struct module *self)
{
    struct copying copying = { .from = self->script };
    if (!object_open(copying.from))
        return failed_null(me, E_RUNTIME, "the script of this module has ended");
    if (!script_visit(me, copying.from->script, copy_body, &copying) || copying.to == NULL)
        return NULL;
    struct module *copy = module_plain_copy(me, self);
    if (copy == NULL) {
        object_free(me, copying.to);
        return NULL;
    }
    copy->script     = copying.to;
    copy->class_name = copying.to->name;
    return copy;
}

static void
script_drop(struct task *me, struct module *self)
{
    object_free(me, self->script);
}

static void
script_describe(const struct module *self, struct str *out)
{
    (void)self;
    (void)out;
}

static const struct module_type script_module = {
    .name     = "Module",
    .forward  = script_forward,
    /* nothing to rewire: tables of parameters and children are read through the module */
    .life     = &(const struct module_life){ script_copy, module_plain_rewired, script_drop },
    .describe = script_describe,
};

bool
module_is_script(const struct module *module)
{
    return module->type == &script_module;
}

struct script_object *
module_attributes(const struct module *module)
{
    return module_is_script(module) ? module->script : NULL;
}

/* ---- boxes ---- */

struct module *
test_module(lua_State *L, int index)
{
    return box_test(L, index, BOX_MODULE);
}

struct module *
check_module(lua_State *L, int index)
{
    return box_check(L, index, BOX_MODULE);
}

static void
drop_boxed_module(struct task *me, void *module)
{
    module_unref(me, module);
}

void
push_module(lua_State *L, struct module *module)
{
    if (module == NULL) {
        lua_pushnil(L);
        return;
    }
    box_push(L, BOX_MODULE, 2);
    box_fill(L, module_ref(module), drop_boxed_module, true);
    if (!module_is_script(module) || lua_getiuservalue(L, -1, 1) == LUA_TTABLE) {
        if (module_is_script(module))
            lua_pop(L, 1);
        return;
    }
    lua_pop(L, 1);
    object_push(L, module->script);
    if (luaL_getmetafield(L, -1, "__index") != LUA_TNIL)
        lua_setiuservalue(L, -3, 2);
    lua_setiuservalue(L, -2, 1);
}

struct module *
script_module_new(lua_State *L, struct task *me, int class_index)
{
    class_index = lua_absindex(L, class_index);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, class_index);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pushliteral(L, "__name");
    const char *name = lua_rawget(L, class_index) == LUA_TSTRING ? lua_tostring(L, -1) : "Module";
    struct script_object *object = object_new(L, me, -2, name);
    if (object == NULL)
        raise(L, me);
    lua_pop(L, 2);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct module *module = module_new(me, &script_module);
    if (module != NULL) {
        module->script     = object;
        module->class_name = object->name;
    } else {
        object_free(me, object);
    }
    call_module(&call, module);
    return module;
}

/* ---- attributes ---- */

static struct module_entry *
find_entry(struct module_table *table, const char *name)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->entries[i].name, name) == 0)
            return &table->entries[i];
    return NULL;
}

/* What PyTorch's built-in modules show of their options. */
static bool
push_option(lua_State *L, const struct module *module, const char *name)
{
    const struct module_attribute *at = module->type->attributes;
    while (at != NULL && at->name != NULL && strcmp(at->name, name) != 0)
        at++;
    if (at == NULL || at->name == NULL)
        return false;
    switch (at->kind) {
    case ATTRIBUTE_INTEGER: lua_pushinteger(L, module->integers[at->at]); break;
    case ATTRIBUTE_FLAG: lua_pushboolean(L, module->integers[at->at] != 0); break;
    case ATTRIBUTE_NUMBER:
        if (isnan(module->numbers[at->at]))
            lua_pushnil(L);
        else
            lua_pushnumber(L, module->numbers[at->at]);
        break;
    case ATTRIBUTE_PAIR:
        lua_createtable(L, 2, 0);
        for (int i = 0; i < 2; i++) {
            lua_pushinteger(L, module->integers[at->at + i]);
            lua_rawseti(L, -2, i + 1);
        }
        break;
    }
    return true;
}

static bool
push_registered(lua_State *L, struct module *module, const char *name)
{
    struct module_entry *entry = find_entry(&module->parameters, name);
    if (entry == NULL)
        entry = find_entry(&module->buffers, name);
    if (entry != NULL && entry->tensor != NULL) {
        push_tensor(L, entry->tensor);
        return true;
    }
    entry = find_entry(&module->children, name);
    if (entry == NULL || entry->module == NULL)
        return false;
    push_module(L, entry->module);
    return true;
}

/* seq[0]: children by number. */
static int
child_by_number(lua_State *L, struct module *module)
{
    bool    tensors = module->children.count == 0 && module->parameters.count > 0;
    int64_t index = lua_tointeger(L, 2), count = tensors ? module->parameters.count : module->children.count;
    if (index < -count || index >= count)
        raise_error(L, "IndexError", "index %lld is out of range: there are %lld",
                    (long long)index, (long long)count);
    index += index < 0 ? count : 0;
    if (tensors)
        push_tensor(L, module->parameters.entries[index].tensor);
    else
        push_module(L, module->children.entries[index].module);
    return 1;
}

static bool
is_registered(struct module *module, const char *name)
{
    return find_entry(&module->parameters, name) != NULL || find_entry(&module->buffers, name) != NULL ||
           find_entry(&module->children, name) != NULL;
}

static const char *
wrapped_hint(const struct module *module)
{
    if (strcmp(module->type->name, "DistributedDataParallel") == 0)
        return "; the wrapped module is ddp.module";
    return strcmp(module->type->name, "DataParallel") == 0 ? "; the wrapped module is dp.module" : "";
}

/* A built-in module's; one that a lesson wrote answers nil, as any table of Lua. */
static int
no_module_attribute(lua_State *L, struct module *module)
{
    const struct module_table     *tables[] = { &module->parameters, &module->buffers, &module->children };
    const struct module_attribute *option = module->type->attributes;
    char   words[600] = "training ", what[80];
    size_t at = strlen(words);
    for (size_t i = 0; i < countof(tables); i++)
        for (int j = 0; j < tables[i]->count && at < sizeof words; j++)
            at += (size_t)snprintf(words + at, sizeof words - at, "%s ", tables[i]->entries[j].name);
    for (; option != NULL && option->name != NULL && at < sizeof words; option++)
        at += (size_t)snprintf(words + at, sizeof words - at, "%s ", option->name);
    snprintf(what, sizeof what, "a %s", module->type->name);
    return no_attribute_but(L, what, lua_tostring(L, 2), lua_upvalueindex(1), words, wrapped_hint(module));
}

/* What the object itself does not have: its class's __getattr__(self, name) is asked, as in Python, or what Lua calls
 * __index. nil: no such. */
static int
asked_attribute(lua_State *L, struct module *module)
{
    object_push(L, module->script);
    if (!lua_istable(L, -1) || (lua_getfield(L, -1, "__getattr__") == LUA_TNIL &&
                                lua_getfield(L, -2, "__index") == LUA_TNIL)) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
    return 1;
}

/* Upvalue 1: the methods of all modules. */
static int
module_index(lua_State *L)
{
    struct module *module = check_module(L, 1);
    if (lua_isinteger(L, 2) && !module_is_script(module))
        return child_by_number(L, module);
    if (lua_type(L, 2) == LUA_TSTRING) {
        const char *name = lua_tostring(L, 2);
        if (push_registered(L, module, name))
            return 1;
        if (strcmp(name, "training") == 0) {
            lua_pushboolean(L, module->training);
            return 1;
        }
        if (push_option(L, module, name) || push_parallel_attribute(L, module, name) ||
            push_ddp_attribute(L, module, name) || push_sync_batch_norm_attribute(L, module, name))
            return 1;
    }
    if (module_is_script(module)) {
        object_push(L, module->script);
        lua_pushvalue(L, 2);
        if (lua_istable(L, -2) && lua_gettable(L, -2) != LUA_TNIL)
            return 1;
    }
    lua_pushvalue(L, 2);
    if (shelf_get(L, lua_upvalueindex(1)) != LUA_TNIL || lua_type(L, 2) != LUA_TSTRING)
        return 1;
    if (module_is_script(module))
        return asked_attribute(L, module);
    if (is_registered(module, lua_tostring(L, 2)))
        return 1;
    return no_module_attribute(L, module);
}

/* An entry of that name gets the new thing, or none; other tables lose theirs. Middle part. */
static bool
register_thing(struct task *me, struct module *module, const char *name, struct tensor *tensor, struct module *child)
{
    struct module_entry *parameter = find_entry(&module->parameters, name);
    struct module_entry *buffer    = find_entry(&module->buffers, name);
    struct module_entry *old       = find_entry(&module->children, name);
    bool is_parameter = parameter != NULL || (tensor != NULL && tensor->is_parameter && buffer == NULL);
    if (child != NULL)
        return module_add_child(me, module, name, child);
    if (is_parameter)
        return module_add_parameter(me, module, name, tensor);
    if (buffer != NULL)
        return module_add_buffer(me, module, name, tensor);
    return old == NULL || module_add_child(me, module, name, NULL);
}

static void
check_assignment(lua_State *L, struct module *module, const char *name, const struct tensor *tensor)
{
    if (lua_isnil(L, 3))
        return;
    bool parameter = find_entry(&module->parameters, name) != NULL, buffer = find_entry(&module->buffers, name) != NULL;
    if (parameter && (tensor == NULL || (!tensor->is_parameter && !module->is_replica)))
        raise_error(L, "TypeError", "cannot assign %s as parameter '%s' (nn.Parameter or nil expected)",
                    tensor != NULL ? "a plain tensor" : luaL_typename(L, 3), name);
    if (buffer && tensor == NULL)
        raise_error(L, "TypeError", "cannot assign %s as buffer '%s' (Tensor or nil expected)",
                    luaL_typename(L, 3), name);
    if (find_entry(&module->children, name) != NULL && test_module(L, 3) == NULL)
        raise_error(L, "TypeError", "cannot assign %s as child module '%s' (nn.Module or nil expected)",
                    luaL_typename(L, 3),
                    name);
}

/* A plain attribute of that key: set, or taken away when something is registered under the name. */
static void
set_attribute(lua_State *L, struct module *module, bool registered)
{
    if (!module_is_script(module)) {
        if (registered)
            return;
        raise_error(L, "AttributeError",
                    "a %s takes parameters, buffers and modules only: make a class with nn.Module for more",
                    module->type->name);
    }
    object_push(L, module->script);
    lua_pushvalue(L, 2);
    if (registered)
        lua_pushnil(L);
    else
        lua_pushvalue(L, 3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

static int
module_newindex(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1), *child = test_module(L, 3);
    struct tensor *tensor = test_tensor(L, 3);
    const char    *name   = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
    if (lua_isnil(L, 2))
        raise_error(L, "TypeError", "an attribute's name cannot be nil");
    if (name != NULL && strcmp(name, "training") == 0) {
        module->training = lua_toboolean(L, 3);
        return 0;
    }
    bool registered = name != NULL && (child != NULL || (tensor != NULL && tensor->is_parameter) ||
                                       is_registered(module, name));
    if (!registered) {
        if (name == NULL || !set_ddp_attribute(L, module, name))
            set_attribute(L, module, false);
        return 0;
    }
    check_assignment(L, module, name, tensor);
    struct call call = call_open(L, me, CALL_PLAIN);
    call_done(&call, register_thing(me, module, name, tensor, child));
    set_attribute(L, module, true);
    return 0;
}

/* ---- calling ---- */

/* A module of the lesson's own, called by Lua itself, gets the very tables that it was given; one that is wrapped gets
 * what scatter and gather make of them. */
static int
module_call(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    struct visit  *visit  = (struct visit *)(uintptr_t)me->slots[SLOT_LUA];
    bool           direct = module_is_script(module);
    size_t         mark   = scope_mark(me);
    struct value  *kwargs = NULL, *args = arguments_from_lua(L, me, 2, &kwargs, !direct);
    struct call    call   = call_open(L, me, CALL_BACK);
    call.mark             = mark;
    visit->direct         = direct ? module : NULL;
    struct value *result  = args != NULL ? module_forward(me, module, args, kwargs) : NULL;
    visit->direct         = NULL;
    call_end(&call, result != NULL);
    return call_leave(&call, push_results(L, result));
}

static int
module_length(lua_State *L)
{
    lua_pushinteger(L, check_module(L, 1)->children.count);
    return 1;
}

static int
module_equal(lua_State *L)
{
    lua_pushboolean(L, test_module(L, 1) != NULL && test_module(L, 1) == test_module(L, 2));
    return 1;
}

static int
module_tostring(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct module *module = check_module(L, 1);
    struct str    *text   = lua_newuserdatauv(L, sizeof *text, 0);
    *text                 = (struct str){ 0 };
    struct call call      = call_open(L, me, CALL_PLAIN);
    born(me, text, drop_text);
    module_print(module, text);
    call_end(&call, str_ok(text) || failed(me, E_MEMORY, "out of memory"));
    lua_pushlstring(L, str_text(text), text->len);
    return call_leave(&call, 1);
}

/* ---- classes ---- */

static int
module_class_call(lua_State *L)
{
    struct task *me = script_task(L);
    check_table(L, 1);
    script_module_new(L, me, 1);
    lua_insert(L, 2); /* class, object, arguments */
    return init_object(L);
}

/* nn.Module("Name"), nn.Module("Name", Base) */
static int
module_class(lua_State *L)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        raise_error(L, "TypeError", "a class has a name: write local Net = nn.Module(\"Net\")");
    lua_settop(L, 2);
    if (push_base_class(L, 2))
        lua_replace(L, 2);
    return declare_class(L, CLASS, "a class made by nn.Module, or nn.DataParallel");
}

static const luaL_Reg metamethods[] = {
    { "__call", module_call }, { "__newindex", module_newindex }, { "__len", module_length },
    { "__eq", module_equal },  { "__tostring", module_tostring }, { NULL, NULL },
};
static const struct lua_entry entries[] = {
    { "Module", module_class, "nn.Module(name, base)",
      "a class: give it init(self, ...) and forward(self, ...); its super is the base, which may be nn.DataParallel. "
      "Its parameters and children are in the order of their assignments: write a statement for each, as Lua assigns "
      "self.a, self.b = X, Y from the right, and b comes first" },
};

void
lua_open_module(lua_State *L)
{
    open_class_family(L, CLASS, module_class_call);
    box_class(L, BOX_MODULE, NULL, 0);
    luaL_setfuncs(L, metamethods, 0);
    lua_getfield(L, -1, "__index");
    add_module_hooks(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    lua_pushcclosure(L, module_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    fill_namespace(L, "nn", entries, countof(entries));
}

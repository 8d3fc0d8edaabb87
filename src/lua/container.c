/* nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict, stacks of layers; nn.utils.rnn. A
 * dict's order is that of its list of pairs, or the alphabet's for a plain table, which has none. */
#include "lua/dispatch.h"
#include <string.h>
#include "base/vec.h"
#include "nn/attention.h"
#include "nn/container.h"
#include "nn/layers.h"
#include "nn/module.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* ---- making ---- */

/* Each element of the list at `index` goes into the container at the top of the stack. */
static void
append_all(lua_State *L, struct module *list, int index)
{
    struct task *me = script_task(L);
    int64_t      count = (int64_t)lua_rawlen(L, index);
    list_only(L, index);
    for (int64_t i = 1; i <= count; i++) {
        lua_rawgeti(L, index, i);
        bool           parameters = module_is_parameter_list(list);
        struct module *child = parameters ? NULL : test_module(L, -1);
        struct tensor *tensor = parameters ? test_tensor(L, -1) : NULL;
        if (child == NULL && tensor == NULL)
            raise_error(L, "TypeError", "element %d of %s: expected %s, got %s", (int)i, list->type->name,
                        parameters ? "a Parameter" : "a Module", luaL_typename(L, -1));
        struct call call = call_open(L, me, CALL_PLAIN);
        call_done(&call, parameters ? parameter_append(me, list, tensor) : module_append(me, list, child));
        lua_pop(L, 1);
    }
}

static int
make_container(lua_State *L, struct module *(*make)(struct task *me))
{
    struct task *me = script_task(L);
    if (lua_gettop(L) > 0 && !is_plain_table(L, 1))
        gather_values(L, 1);
    lua_settop(L, 1);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, make(me));
}

static int
module_list(lua_State *L)
{
    make_container(L, nn_module_list);
    if (lua_istable(L, 1))
        append_all(L, check_module(L, 2), 1);
    return 1;
}

static int
parameter_list(lua_State *L)
{
    make_container(L, nn_parameter_list);
    if (lua_istable(L, 1))
        append_all(L, check_module(L, 2), 1);
    return 1;
}

/* A ModuleDict's next module, a ParameterDict's next parameter. */
static void
add_named(lua_State *L, struct module *dict, int name, int child)
{
    struct task   *me = script_task(L);
    bool           parameters = module_is_parameter_dict(dict);
    struct module *module = parameters ? NULL : test_module(L, child);
    struct tensor *tensor = parameters ? test_tensor(L, child) : NULL;
    if (lua_type(L, name) != LUA_TSTRING || (module == NULL && tensor == NULL))
        raise_error(L, "TypeError", "%s expects names with %s, got %s and %s", dict->type->name,
                    parameters ? "parameters" : "modules", luaL_typename(L, name), luaL_typename(L, child));
    struct call call = call_open(L, me, CALL_PLAIN);
    call_done(&call, parameters ? module_add_parameter(me, dict, lua_tostring(L, name), tensor)
                                : module_add_child(me, dict, lua_tostring(L, name), module));
}

/* nn.ModuleDict{ name = module, ... } or nn.ModuleDict{ {"name", module}, ... } */
static int
make_dict(lua_State *L, struct module *(*make)(struct task *me))
{
    make_container(L, make);
    if (!lua_istable(L, 1))
        return 1;
    struct module *dict = check_module(L, 2);
    int64_t        pairs = (int64_t)lua_rawlen(L, 1);
    for (int64_t i = 1; i <= pairs; i++) {
        lua_rawgeti(L, 1, i);
        if (!lua_istable(L, -1))
            raise_error(L, "TypeError", "%s expects pairs {name, %s}, got %s", dict->type->name,
                        module_is_parameter_dict(dict) ? "parameter" : "module", luaL_typename(L, -1));
        lua_rawgeti(L, 3, 1);
        lua_rawgeti(L, 3, 2);
        add_named(L, dict, 4, 5);
        lua_settop(L, 2);
    }
    int names = pairs > 0 ? 0 : push_sorted_keys(L, 1);
    for (int i = 1; i <= names; i++) {
        lua_rawgeti(L, 3, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, 1);
        add_named(L, dict, 4, 5);
        lua_settop(L, 3);
    }
    lua_settop(L, 2);
    return 1;
}

static int
module_dict(lua_State *L)
{
    return make_dict(L, nn_module_dict);
}

static int
parameter_dict(lua_State *L)
{
    return make_dict(L, nn_parameter_dict);
}

/* nn.TransformerEncoder(layer, num_layers, {norm}): deep copies of the layer. */
static int
make_stack(lua_State *L, struct module *(*make)(struct task *me, struct module *layer, int64_t count,
                                                struct module *norm))
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct module *layer = check_module(L, (int)a.at[0].integer[0]);
    struct module *norm  = a.at[2].none ? NULL : check_module(L, (int)a.at[2].integer[0]);
    int64_t        count = a.at[1].integer[0];
    if (count < 0)
        raise_error(L, "ValueError", "num_layers is %lld, there cannot be fewer than 0", (long long)count);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, make(me, layer, count, norm));
}

static int
transformer_encoder(lua_State *L)
{
    return make_stack(L, nn_transformer_encoder);
}

static int
transformer_decoder(lua_State *L)
{
    return make_stack(L, nn_transformer_decoder);
}

/* ---- methods ---- */

static struct module *
check_list(lua_State *L, const char *what)
{
    struct module *module = check_module(L, 1);
    if (!module_is_list(module) && !module_is_parameter_list(module))
        raise_error(L, "AttributeError", "'%s' object has no attribute '%s'", module->type->name, what);
    return module;
}

static int
append(lua_State *L)
{
    struct module *list = check_list(L, "append");
    lua_settop(L, 2);
    gather_values(L, 2);
    append_all(L, list, 2);
    lua_settop(L, 1);
    return 1;
}

static int
extend(lua_State *L)
{
    struct module *list = check_list(L, "extend");
    check_table(L, 2);
    append_all(L, list, 2);
    lua_settop(L, 1);
    return 1;
}

static int
keys(lua_State *L)
{
    struct module *dict = check_module(L, 1);
    if (!module_is_dict(dict))
        raise_error(L, "AttributeError", "'%s' object has no attribute 'keys'", dict->type->name);
    const struct module_table *table = module_is_parameter_dict(dict) ? &dict->parameters : &dict->children;
    lua_createtable(L, table->count, 0);
    for (int i = 0; i < table->count; i++) {
        lua_pushstring(L, table->entries[i].name);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int
container_length(lua_State *L)
{
    const struct module *module = check_module(L, 1);
    bool parameters = module_is_parameter_list(module) || module_is_parameter_dict(module);
    lua_pushinteger(L, parameters ? module->parameters.count : module->children.count);
    return 1;
}

/* ---- nn.utils.rnn ---- */

/* A list of integers, or a tensor of them. */
static int64_t *
check_sequence_lengths(lua_State *L, int index, int64_t *count)
{
    struct tensor *tensor = test_tensor(L, index);
    if (tensor != NULL) {
        struct task *me = script_task(L);
        if (tensor->dtype != DTYPE_I64 || tensor->dims != 1)
            arg_error(L, index, "lengths as a 1-D tensor of int64");
        *count = tensor->size[0];
        int64_t    *out = lua_newuserdatauv(L, (size_t)(*count + 1) * sizeof *out, 0);
        struct call call = call_open(L, me, CALL_PLAIN);
        call_done(&call, tensor_read(me, tensor, out));
        return out;
    }
    check_table(L, index);
    *count = (int64_t)lua_rawlen(L, index);
    int64_t *out = lua_newuserdatauv(L, (size_t)(*count + 1) * sizeof *out, 0);
    for (int64_t i = 0; i < *count; i++) {
        lua_rawgeti(L, index, i + 1);
        if (!lua_isinteger(L, -1))
            arg_error(L, index, "a list of integers");
        out[i] = lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    return out;
}

static int
pack_padded_sequence(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    int64_t            count = 0, *lengths = check_sequence_lengths(L, (int)a.at[1].integer[0], &count);
    struct padded_form form  = { a.at[2].integer[0] != 0, a.at[3].integer[0] != 0 };
    struct call        call  = call_open(L, me, CALL_PLAIN);
    return call_value(&call, pack_padded(me, a.at[0].tensor, &(struct integer_list){ lengths, count }, &form));
}

/* Answers two: what is padded, and the lengths. */
static int
pad_packed_sequence(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    bool          first  = a.at[1].integer[0] != 0;
    struct call   call   = call_open(L, me, CALL_KEEP);
    struct value *packed = value_from_lua(L, me, (int)a.at[0].integer[0], true);
    struct value *result = packed != NULL ? pad_packed(me, packed, first, a.at[2].number, a.at[3].integer[0]) : NULL;
    call_end(&call, result != NULL);
    return call_leave(&call, push_results(L, result));
}

/* nn.Sequential{a, b} or nn.Sequential(a, b) */
static int
sequential(lua_State *L)
{
    struct task *me = script_task(L);
    if (!is_plain_table(L, 1))
        gather_values(L, 1);
    list_only(L, 1);
    int             count    = (int)lua_rawlen(L, 1);
    struct module **children = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *children, 0);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, 1, i + 1);
        children[i] = test_module(L, -1);
        if (children[i] == NULL)
            raise_error(L, "TypeError", "element %d of Sequential: expected Module, got %s",
                        i + 1, luaL_typename(L, -1));
        lua_pop(L, 1);
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, nn_sequential(me, children, count));
}

static const struct lua_entry containers[] = {
    { "Sequential", sequential, "nn.Sequential{a, b, ...}", "one after the other; seq[0] is the first" },
    { "ModuleList", module_list, "nn.ModuleList{a, b, ...}", "modules by number; list[0] is the first" },
    { "ModuleDict", module_dict, "nn.ModuleDict{{\"name\", a}, ...}", "modules by name" },
    { "ParameterList", parameter_list, "nn.ParameterList{a, b, ...}", "parameters by number" },
    { "ParameterDict", parameter_dict, "nn.ParameterDict{{\"name\", a}, ...}", "parameters by name; d.name is one" },
    { "TransformerEncoder", transformer_encoder,
      "nn.TransformerEncoder(any layer, int num_layers, any? norm=None) -> any",
      "num_layers deep copies of a TransformerEncoderLayer, one after the other" },
    { "TransformerDecoder", transformer_decoder,
      "nn.TransformerDecoder(any layer, int num_layers, any? norm=None) -> any",
      "num_layers deep copies of a TransformerDecoderLayer, one after the other" },
};
static const struct lua_entry methods[] = {
    { "append", append, "list:append(module)", "one more at the end of a ModuleList, Sequential or ParameterList" },
    { "extend", extend, "list:extend{a, b}", "several more" },
    { "keys", keys, "dict:keys()", "the names of a ModuleDict or ParameterDict in order" },
};
static const struct lua_entry sequences[] = {
    { "pack_padded_sequence", pack_padded_sequence,
      "nn.utils.rnn.pack_padded_sequence(Tensor input, any lengths, bool batch_first=False, "
      "bool enforce_sorted=True) -> any",
      "sequences of different lengths without their padding" },
    { "pad_packed_sequence", pad_packed_sequence,
      "nn.utils.rnn.pad_packed_sequence(any sequence, bool batch_first=False, float padding_value=0, "
      "int total_length=-1) -> any",
      "padded again, and the lengths" },
};

void
lua_open_container(lua_State *L)
{
    fill_namespace(L, "nn", containers, countof(containers));
    fill_namespace(L, "nn.utils.rnn", sequences, countof(sequences));
    luaL_getmetatable(L, box_metatable(BOX_MODULE));
    lua_pushcfunction(L, container_length);
    lua_setfield(L, -2, "__len");
    lua_getfield(L, -1, "methods");
    add_entries(L, -1, methods, countof(methods));
    lua_pop(L, 2);
}

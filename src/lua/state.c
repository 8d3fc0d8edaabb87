/* m:state_dict() and m:load_state_dict(): what a module is, by name. In PyTorch: torch/nn/modules/module.py. */
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/str.h"
#include "base/vec.h"
#include "lua/dispatch.h"
#include "nn/module.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static int
free_names(lua_State *L)
{
    named_tensors_free(script_of(L)->holder, lua_touserdata(L, 1));
    return 0;
}

/* The module's state, which lives as long as what is pushed. */
static struct named_tensors *
push_module_state(lua_State *L, struct module *module)
{
    struct task          *me = script_task(L);
    struct named_tensors *list = push_owned(L, sizeof *list, "ringside.named_tensors", free_names);
    struct call call = call_open(L, me, CALL_PLAIN);
    call_done(&call, module_named_state(me, module, list));
    return list;
}

static int
module_state_dict(lua_State *L)
{
    struct task                *me = script_task(L);
    const struct named_tensors *list = push_module_state(L, check_module(L, 1));
    lua_createtable(L, 0, list->count);
    int dict = lua_gettop(L);
    for (int i = 0; i < list->count; i++) {
        struct tensor *tensor = list->tensors[i];
        struct call    call   = call_open(L, me, CALL_PLAIN);
        call_tensor(&call, tensor_uninitialized(tensor) ? tensor : tensor_detach(me, tensor));
        lua_setfield(L, dict, list->names[i]);
    }
    lua_settop(L, dict);
    return 1;
}

static int
state_names(lua_State *L)
{
    const struct named_tensors *list = push_module_state(L, check_module(L, 1));
    lua_createtable(L, list->count, 0);
    for (int i = 0; i < list->count; i++) {
        lua_pushstring(L, list->names[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* ---- loading ---- */

/* What was wrong, one line a kind; nothing is loaded half: PyTorch loads what fits all the same, and so do we. */
struct complaints { struct str missing, unexpected, sizes; };

static int
free_complaints(lua_State *L)
{
    struct complaints *wrong = lua_touserdata(L, 1);
    str_free(&wrong->missing);
    str_free(&wrong->unexpected);
    str_free(&wrong->sizes);
    return 0;
}

static void
add_state_name(struct str *out, const char *name)
{
    str_addf(out, "%s\"%.80s\"", out->len > 0 ? ", " : "", name);
}

static void
add_shape_words(struct str *out, const char *name, const struct tensor *into, const struct tensor *from)
{
    str_addf(out, "\n\tsize mismatch for %.80s: copying a param with shape torch.Size(", name);
    shape_print(from->dims, from->size, out);
    str_add(out, ") from checkpoint, the shape in current model is torch.Size(");
    shape_print(into->dims, into->size, out);
    str_add(out, ").");
}

/* A tensor of one element fits one without dimensions, as in PyTorch's old files. */
static void
load_module_state(lua_State *L, struct tensor *into, struct tensor *from, const char *name, struct complaints *wrong)
{
    struct task *me = script_task(L);
    if (tensor_uninitialized(from)) {
        if (!tensor_uninitialized(into))
            raise_error(L, "RuntimeError", "Can't access the shape of an uninitialized parameter: what is loaded has "
                        "no %s yet; run a forward of its module first", name);
        return;
    }
    if (tensor_uninitialized(into)) {
        struct call call = call_open(L, me, CALL_PLAIN);
        bool        ok   = tensor_materialize(me, into, from->dims, from->size);
        if (ok)
            tensor_announce_role(me, into, "parameter");
        call_done(&call, ok);
    }
    bool         one = into->dims == 0 && from->dims == 1 && from->size[0] == 1;
    if (!tensor_same_shape(into, from) && !one) {
        add_shape_words(&wrong->sizes, name, into, from);
        return;
    }
    bool        before = grad_enabled(me);
    struct call call   = call_open(L, me, CALL_PLAIN);
    grad_set_enabled(me, false);
    struct tensor *plain = one ? tensor_select(me, from, 0, 0) : from;
    bool           ok = plain != NULL && tensor_copy_(me, into, plain) != NULL;
    grad_set_enabled(me, before);
    call_done(&call, ok);
}

/* Names of the dict at 2 that the module does not have, in the order of the alphabet. */
static void
find_unexpected(lua_State *L, const struct named_tensors *list, struct complaints *wrong)
{
    int count = push_sorted_keys(L, 2), keys = lua_gettop(L);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, keys, i);
        bool known = false;
        for (int j = 0; !known && lua_type(L, -1) == LUA_TSTRING && j < list->count; j++)
            known = strcmp(list->names[j], lua_tostring(L, -1)) == 0;
        if (!known)
            add_state_name(&wrong->unexpected, luaL_tolstring(L, -1, NULL));
        lua_settop(L, keys);
    }
    lua_settop(L, keys - 1);
}

/* The complaints leave as an error. */
static int
complain_of_keys(lua_State *L, const struct module *module, const struct complaints *wrong)
{
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    lua_pushfstring(L, "Error(s) in loading state_dict for %s:",
                    module->class_name != NULL ? module->class_name : module->type->name);
    luaL_addvalue(&buffer);
    if (wrong->missing.len > 0) {
        lua_pushfstring(L, "\n\tMissing key(s) in state_dict: %s. ", str_text(&wrong->missing));
        luaL_addvalue(&buffer);
    }
    if (wrong->unexpected.len > 0) {
        lua_pushfstring(L, "\n\tUnexpected key(s) in state_dict: %s. ", str_text(&wrong->unexpected));
        luaL_addvalue(&buffer);
    }
    if (wrong->sizes.len > 0)
        luaL_addstring(&buffer, str_text(&wrong->sizes));
    luaL_pushresult(&buffer);
    return raise_error(L, "RuntimeError", "%s", lua_tostring(L, -1));
}

/* What comes second may be metadata that rs.load answered: only a boolean says anything. */
static bool
is_strict(lua_State *L, int index)
{
    if (lua_type(L, index) == LUA_TBOOLEAN)
        return lua_toboolean(L, index);
    if (lua_type(L, index) != LUA_TTABLE)
        return true;
    bool lax = lua_getfield(L, index, "strict") == LUA_TBOOLEAN && !lua_toboolean(L, -1);
    lua_pop(L, 1);
    return !lax;
}

static int
module_load_state_dict(lua_State *L)
{
    struct module *module = check_module(L, 1);
    check_table(L, 2);
    lua_settop(L, 3);
    bool                        strict = is_strict(L, 3);
    const struct named_tensors *list = push_module_state(L, module);
    struct complaints          *wrong = push_owned(L, sizeof *wrong, "ringside.complaints", free_complaints);
    int                         top = lua_gettop(L);
    for (int i = 0; i < list->count; i++) {
        lua_getfield(L, 2, list->names[i]);
        struct tensor *from = test_tensor(L, -1);
        if (from != NULL)
            load_module_state(L, list->tensors[i], from, list->names[i], wrong);
        else if (strict)
            add_state_name(&wrong->missing, list->names[i]);
        lua_settop(L, top);
    }
    if (strict)
        find_unexpected(L, list, wrong);
    return wrong->missing.len + wrong->unexpected.len + wrong->sizes.len > 0 ? complain_of_keys(L, module, wrong) : 0;
}

/* In place, as PyTorch's: what a wrapper saved is made to fit what it wraps. */
static int
consume_prefix(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    int         dict   = (int)a.at[0].integer[0], count = push_sorted_keys(L, dict), keys = lua_gettop(L);
    const char *prefix = a.at[1].text;
    size_t      length = strlen(prefix);
    for (int i = 1; i <= count && length > 0; i++, lua_settop(L, keys)) {
        lua_rawgeti(L, keys, i);
        const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        if (strncmp(name, prefix, length) != 0)
            continue;
        lua_pushvalue(L, -1);
        lua_rawget(L, dict);
        lua_setfield(L, dict, name + length);
        lua_pushnil(L);
        lua_rawset(L, dict);
    }
    return 0;
}

static const struct lua_entry prefixes[] = {
    { "consume_prefix_in_state_dict_if_present", consume_prefix,
      "nn.modules.utils.consume_prefix_in_state_dict_if_present(table state_dict, str prefix) -> any",
      "takes the prefix off the names that have it, in place: \"module.\" of a state that a wrapper saved" },
};

static const struct lua_entry methods[] = {
    { "state_dict", module_state_dict, "m:state_dict()",
      "name -> tensor, sharing the elements: parameters and buffers, shared ones under each name" },
    { "state_names", state_names, "m:state_names()", "the names of m:state_dict(), in PyTorch's order" },
    { "load_state_dict", module_load_state_dict, "m:load_state_dict(dict, {strict = true})",
      "copies them in; names and shapes must match (without strict: shapes), as in m:load_state_dict(rs.load(path))" },
};

void
lua_open_state(lua_State *L)
{
    add_methods(L, BOX_MODULE, methods, countof(methods));
    fill_namespace(L, "nn.modules.utils", prefixes, countof(prefixes));
}

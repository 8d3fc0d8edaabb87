/* torch.Tensor in Lua: what it is (shape, dtype, device, grad ...) and how it is looked at (item, tolist, tostring).
 * What is computed of it is in the catalogue (dispatch.c), t[i] in index.c. */
#include "lua/shelf.h"
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/str.h"
#include "base/vec.h"
#include "device/storage.h"
#include "device/stream.h"
#include "lua/lesson.h"
#include "lua/mistakes.h"
#include "sched/task.h"

/* ---- properties: t.shape ---- */

static void
push_sizes(lua_State *L, int count, const int64_t *sizes)
{
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushinteger(L, sizes[i]);
        lua_rawseti(L, -2, i + 1);
    }
    luaL_setmetatable(L, "ringside.size");
}

static void
get_shape(lua_State *L, struct tensor *t)
{
    if (tensor_uninitialized(t))
        raise_error(L, "RuntimeError", "Can't access the shape of an uninitialized parameter: run a forward of its "
                    "module first");
    push_sizes(L, t->dims, t->size);
}

static void
get_dtype(lua_State *L, struct tensor *t)
{
    lua_pushstring(L, dtype_name(t->dtype));
}

static void
push_device(lua_State *L, int device)
{
    if (device == DEVICE_CPU)
        lua_pushliteral(L, "cpu");
    else
        lua_pushfstring(L, "device:%d", device);
}

static void
get_device(lua_State *L, struct tensor *t)
{
    push_device(L, tensor_device(t));
}

static void
get_requires_grad(lua_State *L, struct tensor *t)
{
    t = tensor_history(t);
    lua_pushboolean(L, t->requires_grad || t->grad_fn != NULL);
}

static void
get_grad(lua_State *L, struct tensor *t)
{
    push_tensor(L, t->grad);
}

static void
get_grad_fn(lua_State *L, struct tensor *t)
{
    push_node(L, tensor_history(t)->grad_fn);
}

static void
get_is_leaf(lua_State *L, struct tensor *t)
{
    lua_pushboolean(L, tensor_history(t)->grad_fn == NULL);
}

static void
get_is_parameter(lua_State *L, struct tensor *t)
{
    lua_pushboolean(L, t->is_parameter);
}

static void
get_ndim(lua_State *L, struct tensor *t)
{
    lua_pushinteger(L, t->dims);
}

static void
get_version(lua_State *L, struct tensor *t)
{
    lua_pushinteger(L, tensor_version(t));
}

static void
get_output_nr(lua_State *L, struct tensor *t)
{
    lua_pushinteger(L, t->output_nr);
}

static void
get_name(lua_State *L, struct tensor *t)
{
    if (t->name != NULL)
        lua_pushstring(L, t->name);
    else
        lua_pushnil(L);
}

static void
get_is_cuda(lua_State *L, struct tensor *t)
{
    lua_pushboolean(L, tensor_device(t) != DEVICE_CPU);
}

static void
get_is_sparse(lua_State *L, struct tensor *t)
{
    lua_pushboolean(L, tensor_is_sparse(t));
}

static void
get_base(lua_State *L, struct tensor *t)
{
    push_tensor(L, t->base);
}

static void
get_data(lua_State *L, struct tensor *t)
{
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_PLAIN);
    call_tensor(&call, tensor_own_version(me, tensor_detach(me, t)));
}

/* "strided", or "sparse_coo" of some gradients of embeddings */
static void
get_layout(lua_State *L, struct tensor *t)
{
    lua_pushstring(L, tensor_is_sparse(t) ? "sparse_coo" : "strided");
}

static void
get_transposed(lua_State *L, struct tensor *t)
{
    struct task *me   = script_task(L);
    int64_t      order[TENSOR_DIMS];
    for (int i = 0; i < t->dims; i++)
        order[i] = t->dims - 1 - i;
    struct call call = call_open(L, me, CALL_PLAIN);
    call_tensor(&call, tensor_permute(me, t, t->dims, order));
}

static const struct { const char *name; void (*get)(lua_State *L, struct tensor *t); } properties[] = {
    { "shape", get_shape },         { "dtype", get_dtype },       { "device", get_device },
    { "grad", get_grad },           { "grad_fn", get_grad_fn },   { "requires_grad", get_requires_grad },
    { "is_leaf", get_is_leaf },     { "ndim", get_ndim },         { "_version", get_version },
    { "name", get_name },           { "data", get_data },         { "is_parameter", get_is_parameter },
    { "is_cuda", get_is_cuda },     { "_base", get_base },        { "output_nr", get_output_nr },
    { "T", get_transposed },        { "layout", get_layout },
    { "is_sparse", get_is_sparse },
};

/* t.values, of a tensor that is not sparse: x.max(0).values of Python is meant, or t:values(), which refuses it. */
static bool
lacks_pairs(const struct tensor *tensor, const char *name)
{
    return !tensor_is_sparse(tensor) && (strcmp(name, "values") == 0 || strcmp(name, "indices") == 0);
}

/* Upvalue 1: the methods. Anything but a name is an index of elements. */
static int
tensor_index(lua_State *L)
{
    struct tensor *tensor = check_any_tensor(L, 1);
    if (lua_type(L, 2) != LUA_TSTRING)
        return index_read(L);
    const char *name = lua_tostring(L, 2);
    if (lacks_pairs(tensor, name) && mistake_in_attribute(L, name))
        return raise_error(L, "RuntimeError", "%s expected sparse tensor layout but got Strided; %s", name,
                           lua_tostring(L, -1));
    lua_pushvalue(L, 2);
    if (shelf_get(L, lua_upvalueindex(1)) != LUA_TNIL)
        return 1;
    for (size_t i = 0; i < countof(properties); i++)
        if (strcmp(properties[i].name, name) == 0) {
            properties[i].get(L, tensor);
            return 1;
        }
    char words[400] = "";
    for (size_t i = 0, at = 0; i < countof(properties) && at < sizeof words; i++)
        at += (size_t)snprintf(words + at, sizeof words - at, "%s ", properties[i].name);
    return no_attribute(L, "a Tensor", name, lua_upvalueindex(1), words);
}

static void
set_requires_grad(lua_State *L, struct tensor *tensor, bool on)
{
    if (on && tensor_is_sparse(tensor))
        raise_error(L, "NotImplementedError", "a sparse tensor is no leaf here: let its values require gradients");
    if (tensor->grad_fn != NULL && !on)
        raise_error(L, "RuntimeError", "you can only change requires_grad of leaf tensors: use t:detach()");
    if (tensor->grad_fn == NULL && on && !dtype_is_float(tensor->dtype))
        raise_error(L, "RuntimeError", "only Tensors of floating point dtype can require gradients, this one is %s",
                    dtype_name(tensor->dtype));
    if (tensor->grad_fn == NULL)
        tensor->requires_grad = on;
}

static void
set_grad(lua_State *L, struct tensor *tensor, int index)
{
    struct tensor *grad = lua_isnil(L, index) ? NULL : check_tensor(L, index);
    if (grad != NULL && (!tensor_same_shape(grad, tensor) || grad->dtype != tensor->dtype ||
                         tensor_device(grad) != tensor_device(tensor)))
        raise_error(L, "RuntimeError", "a gradient must have the tensor's shape, dtype and device: expected %s of "
                    "%s, got %s of %s%s", shape_text(tensor).text, dtype_name(tensor->dtype), shape_text(grad).text,
                    dtype_name(grad->dtype), tensor_device(grad) != tensor_device(tensor) ? ", elsewhere" : "");
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_PLAIN);
    tensor_keep(me, &tensor->grad, grad);
    call_done(&call, true);
}

static int
tensor_newindex(lua_State *L)
{
    struct tensor *tensor = check_any_tensor(L, 1);
    if (lua_type(L, 2) != LUA_TSTRING)
        return index_write(L);
    const char *name = lua_tostring(L, 2);
    if (strcmp(name, "grad") == 0)
        set_grad(L, tensor, 3);
    else if (strcmp(name, "requires_grad") == 0)
        set_requires_grad(L, tensor, check_flag(L, 3));
    else
        raise_error(L, "AttributeError", "\"%.60s\" of a Tensor cannot be set%s", name,
                    strcmp(name, "data") == 0 ? "; instead of x.data = y write rs.no_grad(function() x:copy_(y) end)"
                                              : "");
    return 0;
}

static int
requires_grad_(lua_State *L)
{
    set_requires_grad(L, check_tensor(L, 1), opt_flag(L, 2, true));
    lua_settop(L, 1);
    return 1;
}

/* A dimension; negative counts from the end. */
static int
check_dim(lua_State *L, int index, int dims)
{
    int64_t dim  = check_integer(L, index);
    int     span = dims > 0 ? dims : 1;
    if (dim < -span || dim >= span)
        raise_error(L, "IndexError", "dimension %lld is out of range: expected %d to %d",
                    (long long)dim, -span, span - 1);
    return (int)(dim < 0 ? dim + span : dim);
}

/* ---- looking ---- */

static int
size(lua_State *L)
{
    struct tensor *tensor = check_any_tensor(L, 1);
    if (lua_isnoneornil(L, 2))
        push_sizes(L, tensor->dims, tensor->size);
    else
        lua_pushinteger(L, tensor_size(tensor, check_dim(L, 2, tensor->dims)));
    return 1;
}

static int
stride(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    if (lua_isnoneornil(L, 2))
        push_sizes(L, tensor->dims, tensor->stride);
    else
        lua_pushinteger(L, tensor->dims == 0 ? 1 : tensor->stride[check_dim(L, 2, tensor->dims)]);
    return 1;
}

static int
length(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    if (tensor->dims == 0)
        raise_error(L, "TypeError", "a 0-dim tensor has no length");
    lua_pushinteger(L, tensor->size[0]);
    return 1;
}

static void
push_element(lua_State *L, enum dtype dtype, const void *element)
{
    if (dtype_is_float(dtype))
        lua_pushnumber(L, dtype_fraction(dtype, element));
    else if (dtype == DTYPE_BOOL)
        lua_pushboolean(L, dtype_whole(dtype, element) != 0);
    else
        lua_pushinteger(L, dtype_whole(dtype, element));
}

static int
item(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    if (tensor_count(tensor) != 1)
        raise_error(L, "RuntimeError", "a Tensor with %lld elements cannot be converted to a number",
                    (long long)tensor_count(tensor));
    char        element[16] = { 0 };
    struct call call        = call_open(L, me, CALL_PLAIN);
    call_end(&call, tensor_read(me, tensor, element));
    push_element(L, tensor->dtype, element);
    return call_leave(&call, 1);
}

static const char *
push_nested(lua_State *L, const struct tensor *tensor, int level, const char *at)
{
    size_t bytes = dtype_size(tensor->dtype);
    if (level == tensor->dims) {
        push_element(L, tensor->dtype, at);
        return at + bytes;
    }
    luaL_checkstack(L, 4, "too many dimensions");
    int64_t count = tensor->size[level];
    lua_createtable(L, count < 1 << 20 ? (int)count : 0, 0);
    for (int64_t i = 0; i < count; i++) {
        at = push_nested(L, tensor, level + 1, at);
        lua_rawseti(L, -2, i + 1);
    }
    return at;
}

static int
tolist(lua_State *L)
{
    struct task   *me       = script_task(L);
    struct tensor *tensor   = check_tensor(L, 1);
    void          *elements = lua_newuserdatauv(L, (size_t)tensor_bytes(tensor) + 1, 0);
    struct call    call     = call_open(L, me, CALL_PLAIN);
    call_end(&call, tensor_read(me, tensor, elements));
    push_nested(L, tensor, 0, elements);
    return call_leave(&call, 1);
}

/* What autograd adds to the printed tensor, as in PyTorch; a leaf's requires_grad is printed by the tensor itself. */
static void
add_gradient_note(const struct tensor *tensor, struct str *text)
{
    if (text->len == 0 || text->text[text->len - 1] != ')' || tensor->grad_fn == NULL)
        return;
    text->text[--text->len] = '\0';
    const char *line = strrchr(text->text, '\n');
    size_t      used = line != NULL ? strlen(line) + 1 : text->len + 2;
    bool        full = used + strlen("grad_fn=<>") + strlen(tensor->grad_fn->name) + 2 > 80;
    str_addf(text, "%sgrad_fn=<%s>)", full ? ",\n       " : ", ", tensor->grad_fn->name);
}

static bool
show(struct task *me, struct tensor *tensor, struct str *text)
{
    if (tensor_uninitialized(tensor)) {
        str_add(text, "<UninitializedParameter>");
        return str_ok(text) || failed(me, E_MEMORY, "out of memory");
    }
    if (tensor->is_parameter)
        str_add(text, "Parameter containing:\n");
    if (!tensor_show(me, tensor, text))
        return false;
    add_gradient_note(tensor, text);
    return str_ok(text) || failed(me, E_MEMORY, "out of memory");
}

static int
tensor_tostring(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_any_tensor(L, 1);
    struct str    *text   = lua_newuserdatauv(L, sizeof *text, 0);
    *text                 = (struct str){ 0 };
    struct call call      = call_open(L, me, CALL_PLAIN);
    born(me, text, drop_text);
    call_end(&call, show(me, tensor, text));
    lua_pushlstring(L, str_text(text), text->len);
    return call_leave(&call, 1);
}

/* A stand-in for an address that repeats from run to run: the storage's number and the place in it, in bytes. */
static int
data_ptr(lua_State *L)
{
    const struct tensor *tensor = check_tensor(L, 1);
    if (tensor_is_sparse(tensor))
        raise_error(L, "RuntimeError", "data_ptr: a sparse tensor has no elements of its own: use t:to_dense()");
    lua_pushinteger(L, ((lua_Integer)tensor->storage->number << 32) +
                       tensor->offset * (lua_Integer)dtype_size(tensor->dtype));
    return 1;
}

/* p:materialize(2, 3), p:materialize{2, 3} */
static int
materialize(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_any_tensor(L, 1);
    int64_t        sizes[TENSOR_DIMS];
    int            dims = 0;
    if (!tensor_uninitialized(tensor))
        raise_error(L, "AttributeError", "materialize: this tensor has its shape already");
    if (is_plain_table(L, 2)) {
        lua_settop(L, 2);
        for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 2) && i <= TENSOR_DIMS; i++)
            lua_rawgeti(L, 2, i);
        lua_remove(L, 2);
    }
    for (dims = 0; dims < lua_gettop(L) - 1 && dims < TENSOR_DIMS; dims++)
        sizes[dims] = check_integer(L, dims + 2);
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = tensor_materialize(me, tensor, dims, sizes);
    if (ok)
        tensor_announce_role(me, tensor, "parameter");
    return call_done(&call, ok);
}

static const struct lua_entry methods[] = {
    { "materialize", materialize, "p:materialize(sizes...)", "gives an uninitialized parameter its shape" },
    { "size", size, "t:size(dim)", "the shape, or the size of one dimension" },
    { "stride", stride, "t:stride(dim)", "elements from one index to the next, per dimension" },
    { "item", item, "t:item()", "the only element as a number; waits for the device" },
    { "tolist", tolist, "t:tolist()", "nested tables of numbers; waits for the device" },
    { "requires_grad_", requires_grad_, "t:requires_grad_(on)", "record what is done with this leaf" },
    { "data_ptr", data_ptr, "t:data_ptr()",
      "a number for its first element: equal ones are one place (no address, so that runs repeat)" },
};

/* Who compares two tensors of one shape may mean their elements: said once, since finding one in a list is right. */
static void
note_equality(lua_State *L, const struct tensor *a, const struct tensor *b)
{
    struct script *script = script_of(L);
    struct lesson *lesson = lesson_of(script->holder);
    char           text[200];
    if (script->equality_noted || lesson == NULL || !tensor_same_shape(a, b))
        return;
    script->equality_noted = true;
    snprintf(text, sizeof text, "line %u: == asks whether both are the same tensor; instead of x == y write x:eq(y) "
             "for each element, x:equal(y) for all", script_line(L));
    lesson_note(lesson, script->rank, "note", text);
}

static int
same_object(lua_State *L)
{
    const struct tensor *a = test_tensor(L, 1), *b = test_tensor(L, 2);
    if (a != NULL && b != NULL && a != b)
        note_equality(L, a, b);
    lua_pushboolean(L, a != NULL && a == b);
    return 1;
}

/* Lua's comparisons answer one boolean; those with a number come here, too, and a > b as b < a. */
static int
no_order(lua_State *L)
{
    return raise_error(L, "TypeError", "Lua compares to one boolean; instead of x < y write x:lt(y), of x > y x:gt(y); "
                       "in an if x:item() < y");
}

static int
no_order_or_equal(lua_State *L)
{
    return raise_error(L, "TypeError", "Lua compares to one boolean; instead of x <= y write x:le(y), of x >= y "
                       "x:ge(y); in an if x:item() <= y");
}

/* What lies beside the sizes is nil, which ends a loop; but not where Python's 0 or -1 is written. */
static int
size_index(lua_State *L)
{
    lua_Integer at = lua_isinteger(L, 2) ? lua_tointeger(L, 2) : 1;
    if (at > 0 || !writes_index(L, at))
        return 0;
    return raise_error(L, "IndexError", "a shape is a list of Lua, counted from 1; instead of x.shape[%lld] write "
                       "x:size(%lld)", (long long)at, (long long)at);
}

static int
size_tostring(lua_State *L)
{
    luaL_Buffer text;
    int         count = (int)lua_rawlen(L, 1);
    luaL_buffinit(L, &text);
    luaL_addchar(&text, '[');
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, i);
        luaL_tolstring(L, -1, NULL);
        lua_remove(L, -2);
        luaL_addvalue(&text);
        if (i < count)
            luaL_addstring(&text, ", ");
    }
    luaL_addchar(&text, ']');
    luaL_pushresult(&text);
    return 1;
}

static int
size_equal(lua_State *L)
{
    int count = (int)lua_rawlen(L, 1);
    int same  = (int)lua_rawlen(L, 2) == count;
    for (int i = 1; i <= count && same; i++) {
        lua_rawgeti(L, 1, i);
        lua_rawgeti(L, 2, i);
        same = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    lua_pushboolean(L, same);
    return 1;
}

static const luaL_Reg metamethods[] = {
    { "__newindex", tensor_newindex }, { "__len", length }, { "__eq", same_object }, { "__tostring", tensor_tostring },
    { "__lt", no_order }, { "__le", no_order_or_equal }, { NULL, NULL },
};
static const luaL_Reg size_metamethods[] = {
    { "__tostring", size_tostring }, { "__eq", size_equal }, { "__index", size_index }, { NULL, NULL },
};

void
lua_open_tensor(lua_State *L)
{
    box_class(L, BOX_TENSOR, methods, countof(methods));
    luaL_setfuncs(L, metamethods, 0);
    lua_getfield(L, -1, "__index");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    lua_pushcclosure(L, tensor_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newmetatable(L, "ringside.size");
    luaL_setfuncs(L, size_metamethods, 0);
    lua_pop(L, 1);
}

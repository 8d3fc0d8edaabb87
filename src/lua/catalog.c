/* nn.Conv2d and all other layers, nn.functional: what nn/catalog.c and nn/functions.c list, with arguments in PyTorch's
 * order, by name in one trailing table, or both. rs.none is None. */
#include "lua/internal.h"
#include <stdio.h>
#include <string.h>
#include "device/device.h"
#include "nn/layer.h"
#include "sched/task.h"

/* What is read: `name` for messages. */
struct reading { lua_State *L; const char *name; int options, given; };

static bool
is_none(lua_State *L, int index)
{
    return luaL_testudata(L, index, "ringside.none") != NULL;
}

static int
wrong(struct reading *r, const struct parameter *p, const char *expected)
{
    return raise_error(r->L, "TypeError", "%s: argument '%s' must be %s, got %s", r->name, p->name, expected,
                       luaL_typename(r->L, -1));
}

/* A list of integers, or one integer. */
static void
read_sizes(struct reading *r, const struct parameter *p, struct argument *out)
{
    lua_State *L = r->L;
    bool       pair = p->kind == P_PAIR || p->kind == P_PADDING;
    if (lua_isinteger(L, -1)) {
        out->integer[0] = out->integer[1] = lua_tointeger(L, -1);
        out->count      = 1;
        return;
    }
    size_t length = is_plain_table(L, lua_gettop(L)) ? lua_rawlen(L, -1) : 0;
    if (length < 1 || length > (pair ? 2 : TENSOR_DIMS))
        wrong(r, p, pair ? "an integer or {height, width}" : "an integer or a list of integers");
    for (size_t i = 0; i < length; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        bool none = pair && p->text != NULL && is_none(L, -1);
        if (!lua_isinteger(L, -1) && !none)
            wrong(r, p, "made of integers");
        out->integer[i] = none ? -1 : lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    if (length == 1)
        out->integer[1] = out->integer[0];
    out->count = (int)length;
}

/* The value at the top of the stack. */
static void
read_value(struct reading *r, const struct parameter *p, struct argument *out)
{
    lua_State *L = r->L;
    switch (p->kind) {
    case P_INTEGER:
        if (!lua_isinteger(L, -1))
            wrong(r, p, "an integer");
        out->integer[0] = lua_tointeger(L, -1);
        break;
    case P_NUMBER:
        if (lua_type(L, -1) != LUA_TNUMBER)
            wrong(r, p, "a number");
        out->number = lua_tonumber(L, -1);
        break;
    case P_FLAG:
        if (!lua_isboolean(L, -1))
            wrong(r, p, "true or false");
        out->integer[0] = lua_toboolean(L, -1);
        break;
    case P_PADDING:
        if (lua_type(L, -1) == LUA_TSTRING)
            out->text = lua_tostring(L, -1);
        else
            read_sizes(r, p, out);
        break;
    case P_PAIR:
    case P_SHAPE: read_sizes(r, p, out); break;
    case P_TEXT:
        if (lua_type(L, -1) != LUA_TSTRING)
            wrong(r, p, "a string");
        out->text = lua_tostring(L, -1);
        break;
    case P_TENSOR:
        out->tensor = test_tensor(L, -1);
        if (out->tensor == NULL)
            wrong(r, p, "a Tensor");
        break;
    }
}

/* Values stay on the stack: texts and tensors are theirs. */
static void
read_parameter(struct reading *r, const struct parameter *p, int index, struct argument *out)
{
    lua_State *L = r->L;
    bool       by_name = option_push(L, r->options, p->name);
    *out = (struct argument){ .none = false };
    if (index <= r->given && !lua_isnil(L, index)) {
        if (by_name)
            raise_error(L, "TypeError", "%s: argument '%s' is given twice", r->name, p->name);
        lua_pushvalue(L, index);
    } else if (!by_name) {
        if (p->how == P_NEEDED)
            raise_error(L, "TypeError", "%s: missing the argument '%s'", r->name, p->name);
        out->none       = p->how == P_NONE && p->otherwise == 0;
        out->number     = p->otherwise;
        out->integer[0] = out->integer[1] = (int64_t)p->otherwise;
        out->text       = p->text;
        return;
    }
    if (!is_none(L, -1)) {
        read_value(r, p, out);
        return;
    }
    if (p->how != P_NONE)
        wrong(r, p, "given");
    out->none = true;
}

static void
known_names(const struct parameter *parameters, const char *more, char *out, size_t size)
{
    int at = snprintf(out, size, "%s", more);
    for (int i = 0; i < PARAMETERS && parameters[i].name != NULL && at < (int)size; i++)
        at += snprintf(out + at, size - (size_t)at, "%s%s", at > 0 ? " " : "", parameters[i].name);
}

static int
read_arguments(lua_State *L, const char *name, const struct parameter *parameters, const char *more,
               struct arguments *out)
{
    struct reading r = { .L = L, .name = name, .given = lua_gettop(L) };
    char           known[400];
    luaL_checkstack(L, 2 * PARAMETERS + 10, "too many arguments");
    if (r.given > 0 && is_plain_table(L, r.given) && lua_rawlen(L, r.given) == 0)
        r.options = r.given--;
    known_names(parameters, more, known, sizeof known);
    option_known(L, r.options, known);
    int count = 0;
    while (count < PARAMETERS && parameters[count].name != NULL)
        count++;
    if (r.given > count)
        raise_error(L, "TypeError", "%s takes %d arguments, but %d were given", name, count, r.given);
    for (int i = 0; i < count; i++)
        read_parameter(&r, &parameters[i], i + 1, &out->at[i]);
    return r.options;
}

/* Room for the first weight: the two sizes that lead, and a kernel. */
static void
reserve(lua_State *L, struct task *me, const struct layer_kind *kind, const struct arguments *a)
{
    double size = 8;
    for (int i = 0; i < 3 && kind->parameters[i].name != NULL; i++) {
        if (kind->parameters[i].how != P_NEEDED)
            continue;
        if (kind->parameters[i].kind == P_INTEGER)
            size *= (double)a->at[i].integer[0];
        else if (kind->parameters[i].kind == P_PAIR)
            size *= (double)a->at[i].integer[0] * (double)a->at[i].integer[1];
    }
    script_reserve(L, me, size);
}

static int
make_layer(lua_State *L)
{
    struct task             *me = script_task(L);
    const struct layer_kind *kind = lua_touserdata(L, lua_upvalueindex(1));
    struct arguments         arguments;
    char                     name[64];
    snprintf(name, sizeof name, "nn.%s", kind->name);
    int table = read_arguments(L, name, kind->parameters, "dtype device", &arguments);
    arguments.dtype = option_dtype(L, table, default_dtype(me));
    int device = option_device(L, table, DEVICE_CPU);
    if (!dtype_is_float(arguments.dtype))
        raise_error(L, "TypeError", "%s: a layer's numbers are fractions, not %s", name, dtype_name(arguments.dtype));
    reserve(L, me, kind, &arguments);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct module *module = kind->make != NULL ? kind->make(me, &arguments) : layer_plain(me, kind, &arguments);
    if (module != NULL && device != DEVICE_CPU && !module_to(me, module, device))
        module = NULL;
    return call_module(&call, module);
}

static int
call_function(lua_State *L)
{
    struct task                *me = script_task(L);
    const struct function_kind *kind = lua_touserdata(L, lua_upvalueindex(1));
    struct arguments            arguments = { .dtype = default_dtype(me) };
    read_arguments(L, kind->name, kind->parameters, "", &arguments);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, kind->call(me, &arguments));
}

/* "nn.Conv2d(in_channels, out_channels, {bias = true})"; pushed, so that it lives as long as the state. */
static const char *
push_signature(lua_State *L, const char *path, const char *name, const struct parameter *parameters)
{
    luaL_Buffer buffer;
    bool        optional = false;
    luaL_buffinit(L, &buffer);
    lua_pushfstring(L, "%s.%s(", path, name);
    luaL_addvalue(&buffer);
    for (int i = 0; i < PARAMETERS && parameters[i].name != NULL; i++) {
        const struct parameter *p = &parameters[i];
        luaL_addstring(&buffer, i > 0 ? ", " : "");
        if (p->how != P_NEEDED && !optional)
            luaL_addstring(&buffer, "{");
        optional = optional || p->how != P_NEEDED;
        luaL_addstring(&buffer, p->name);
        if (p->how == P_NEEDED || (p->how == P_NONE && p->otherwise == 0))
            continue;
        if (p->kind == P_TEXT)
            lua_pushfstring(L, " = \"%s\"", p->text);
        else if (p->kind == P_FLAG)
            lua_pushstring(L, p->otherwise != 0 ? " = true" : " = false");
        else if (p->otherwise == (double)(lua_Integer)p->otherwise)
            lua_pushfstring(L, " = %I", (lua_Integer)p->otherwise);
        else
            lua_pushfstring(L, " = %f", p->otherwise);
        luaL_addvalue(&buffer);
    }
    luaL_addstring(&buffer, optional ? "})" : ")");
    luaL_pushresult(&buffer);
    return lua_tostring(L, -1);
}

static void
add_kind(lua_State *L, lua_CFunction function, const void *kind, const char *name, const char *path,
         const struct parameter *parameters, const char *help)
{
    const char *signature = push_signature(L, path, name, parameters);
    luaL_ref(L, LUA_REGISTRYINDEX); /* help keeps pointing to it */
    lua_pushlightuserdata(L, (void *)(uintptr_t)kind);
    lua_pushcclosure(L, function, 1);
    note_help(L, signature, help);
    lua_setfield(L, -2, name);
}

void
lua_open_catalog(lua_State *L)
{
    int                         layers, functions;
    const struct layer_kind    *layer = layer_kinds(&layers);
    const struct function_kind *function = function_kinds(&functions);
    open_namespace(L, "nn", NULL, 0);
    for (int i = 0; i < layers; i++)
        add_kind(L, make_layer, &layer[i], layer[i].name, "nn", layer[i].parameters, layer[i].help);
    lua_pop(L, 1);
    open_namespace(L, "nn.functional", NULL, 0);
    for (int i = 0; i < functions; i++)
        add_kind(L, call_function, &function[i], function[i].name, "nn.functional", function[i].parameters,
                 function[i].help);
    lua_pop(L, 1);
}

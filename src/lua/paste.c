/* Copies Lua values into a state: the other half of copy.c, and the names of what every state has of its own.
 *
 * Interface: parcel_unpack; permanents_push, permanents_forget, permanent_resolve. */
#include <string.h>
#include "base/reader.h"
#include "lua/copy.h"
#include "lua/shelf.h"
#include "lua/spawn.h"
#include "sched/task.h"
#include "tensor/op.h"

/* ---- what every state has ---- */

static const char permanents[] = "ringside.permanents";
enum { PERMANENT_DEPTH = 8 };

/* Maps what the table at the top holds, below `path` (at `at`): C functions, userdata and, going down, tables. */
static void
walk_permanents(lua_State *L, int map, int path, int depth)
{
    int table = lua_gettop(L);
    luaL_checkstack(L, 10, "out of memory for Lua's stack");
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_settop(L, table + 1)) {
        int type = lua_type(L, -1);
        if (lua_type(L, -2) != LUA_TSTRING || (type != LUA_TTABLE && type != LUA_TUSERDATA && !lua_iscfunction(L, -1)))
            continue;
        lua_pushvalue(L, -1);
        bool known = lua_rawget(L, map) != LUA_TNIL;
        lua_pop(L, 1);
        if (known)
            continue;
        lua_pushvalue(L, path);
        lua_pushliteral(L, "\1");
        lua_pushvalue(L, table + 1);
        lua_concat(L, 3);
        lua_pushvalue(L, table + 2);
        lua_pushvalue(L, -2);
        lua_rawset(L, map);
        if (type == LUA_TTABLE && depth < PERMANENT_DEPTH) {
            lua_pushvalue(L, table + 2);
            walk_permanents(L, map, table + 3, depth + 1);
        }
    }
}

/* The table at the top and all below it, which is popped. */
static void
add_root(lua_State *L, int map, const char *root)
{
    int table = lua_gettop(L);
    lua_pushstring(L, root);
    lua_pushvalue(L, table);
    lua_pushvalue(L, table + 1);
    lua_rawset(L, map);
    lua_pushvalue(L, table);
    walk_permanents(L, map, table + 1, 0);
    lua_settop(L, table - 1);
}

/* One library or base function of the globals; what the lesson itself made global is not a permanent. */
static void
add_globals(lua_State *L, int map)
{
    static const char *const libraries[] = { "string", "table", "math", "utf8", "coroutine", "os", "io", "debug",
                                             "package", NULL };
    lua_pushglobaltable(L);
    int globals = lua_gettop(L);
    lua_pushvalue(L, globals);
    lua_pushliteral(L, "G");
    lua_rawset(L, map);
    for (int i = 0; libraries[i] != NULL; i++) {
        char root[24];
        snprintf(root, sizeof root, "G\1%s", libraries[i]);
        if (lua_getfield(L, globals, libraries[i]) == LUA_TTABLE)
            add_root(L, map, root);
        lua_settop(L, globals);
    }
    for (lua_pushnil(L); lua_next(L, globals) != 0; lua_settop(L, globals + 1)) {
        lua_pushvalue(L, -1);
        bool known = lua_rawget(L, map) != LUA_TNIL;
        lua_pop(L, 1);
        if (known || !lua_iscfunction(L, -1) || lua_type(L, globals + 1) != LUA_TSTRING)
            continue;
        lua_pushfstring(L, "G\1%s", lua_tostring(L, globals + 1));
        lua_rawset(L, map);
        lua_pushnil(L);
    }
    lua_settop(L, globals - 1);
}

/* Metatables and singletons that the engine keeps in the registry under names of its own. */
static void
add_registry(lua_State *L, int map)
{
    int top = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX) != 0; lua_settop(L, top + 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        if (strncmp(name, "ringside.", 9) != 0 || strcmp(name, permanents) == 0 ||
            (!lua_istable(L, -1) && !lua_isuserdata(L, -1)))
            continue;
        lua_pushvalue(L, -1);
        bool known = lua_rawget(L, map) != LUA_TNIL;
        lua_pop(L, 1);
        if (known)
            continue;
        lua_pushvalue(L, -1);
        lua_pushfstring(L, "R\1%s", name);
        lua_rawset(L, map);
    }
    lua_settop(L, top);
}

void
permanents_push(lua_State *L)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, permanents) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    int map = lua_gettop(L);
    push_ringside(L);
    add_root(L, map, "S");
    add_globals(L, map);
    add_registry(L, map);
    lua_pushvalue(L, map);
    lua_setfield(L, LUA_REGISTRYINDEX, permanents);
}

void
permanents_forget(lua_State *L)
{
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, permanents);
}

static void
permanent_resolve(lua_State *L, const char *path)
{
    if (path[0] == 'S')
        push_ringside(L);
    else if (path[0] == 'G')
        lua_pushglobaltable(L);
    else
        lua_pushvalue(L, LUA_REGISTRYINDEX);
    for (path++; *path == '\1';) {
        size_t length = strcspn(++path, "\1");
        if (!lua_istable(L, -1)) {
            lua_pop(L, 1);
            lua_pushnil(L);
            return;
        }
        lua_pushlstring(L, path, length);
        shelf_get(L, -2);
        lua_remove(L, -2);
        path += length;
    }
}

/* ---- unpacking ---- */

struct paste {
    lua_State    *L;
    struct reader in;
    int           objects, upvalues; /* stack: number -> object; number -> function, then its upvalue's number */
    lua_Integer   next, next_upvalue;
};

static void unpack_value(struct paste *p);

static void
copy_out(struct paste *p, void *into, size_t size)
{
    const void *bytes = read_bytes(&p->in, size);
    if (bytes == NULL)
        raise_error(p->L, "RuntimeError", "a copied value is cut short");
    memcpy(into, bytes, size);
}

/* The object at the top gets the next number. */
static void
number(struct paste *p)
{
    lua_pushvalue(p->L, -1);
    lua_rawseti(p->L, p->objects, p->next++);
}

/* Pushes the next value; false: it was the END. */
static bool
unpack_or_end(struct paste *p)
{
    if (p->in.at < p->in.size && p->in.bytes[p->in.at] == PACKED_END) {
        p->in.at++;
        return false;
    }
    unpack_value(p);
    return true;
}

static void
unpack_entries(struct paste *p, int table)
{
    while (unpack_or_end(p)) {
        unpack_value(p);
        lua_rawset(p->L, table);
    }
}

static void
unpack_table(struct paste *p)
{
    lua_newtable(p->L);
    int table = lua_gettop(p->L);
    number(p);
    unpack_entries(p, table);
    unpack_value(p);
    if (lua_isnil(p->L, -1)) {
        lua_pop(p->L, 1);
        return;
    }
    sandbox_metatable(p->L, -1);
    lua_setmetatable(p->L, table);
}

static void
unpack_function(struct paste *p)
{
    lua_State  *L    = p->L;
    uint32_t    size = read_u32(&p->in);
    const char *code = read_bytes(&p->in, (size_t)size + 1);
    if (code == NULL || luaL_loadbufferx(L, code, size, "copy", "b") != LUA_OK)
        raise_error(L, "RuntimeError", "a copied function cannot be loaded");
    int function = lua_gettop(L);
    number(p);
    uint32_t count = read_u32(&p->in);
    for (uint32_t n = 1; n <= count; n++) {
        if (read_u8(&p->in) == PACKED_OLD_UPVALUE) {
            lua_Integer shared = 2 * (lua_Integer)read_u32(&p->in);
            lua_rawgeti(L, p->upvalues, shared + 1);
            lua_rawgeti(L, p->upvalues, shared + 2);
            lua_upvaluejoin(L, function, (int)n, function + 1, (int)lua_tointeger(L, -1));
        } else {
            lua_Integer fresh = 2 * p->next_upvalue++;
            lua_pushvalue(L, function);
            lua_rawseti(L, p->upvalues, fresh + 1);
            lua_pushinteger(L, n);
            lua_rawseti(L, p->upvalues, fresh + 2);
            unpack_value(p);
            lua_setupvalue(L, function, (int)n);
        }
        lua_settop(L, function);
    }
}

static void
unpack_builtin(struct paste *p)
{
    lua_CFunction function;
    copy_out(p, &function, sizeof function);
    uint32_t count = read_u32(&p->in);
    luaL_checkstack(p->L, (int)count + 10, "too many upvalues");
    for (uint32_t n = 0; n < count; n++)
        unpack_value(p);
    lua_pushcclosure(p->L, function, (int)count);
}

static void
unpack_tensor(struct paste *p)
{
    struct packed_tensor head;
    copy_out(p, &head, sizeof head);
    int64_t count = 1;
    for (int i = 0; i < head.dims; i++)
        count *= head.size[i];
    const void  *bytes = read_bytes(&p->in, (size_t)count * dtype_size((enum dtype)head.dtype));
    struct task *me    = script_task(p->L);
    if (bytes == NULL)
        raise_error(p->L, "RuntimeError", "a copied tensor is cut short");
    struct call    call   = call_open(p->L, me, CALL_PLAIN);
    struct tensor *tensor = tensor_from(me, (enum dtype)head.dtype, head.dims, head.size, bytes);
    if (tensor != NULL && head.device != DEVICE_CPU)
        tensor = tensor_to(me, tensor, head.device, tensor->dtype);
    if (tensor != NULL) {
        tensor->requires_grad = head.requires_grad;
        tensor->is_parameter  = head.is_parameter;
        tensor->uninitialized = head.uninitialized;
    }
    call_tensor(&call, tensor);
    number(p);
}

/* The box at `box` gets its parameters, buffers and children. */
static void
unpack_members(struct paste *p, int box)
{
    lua_State     *L      = p->L;
    struct module *module = check_module(L, box);
    struct task   *me     = script_task(L);
    for (int table = 0; table < 3; table++) {
        while (unpack_or_end(p)) {
            unpack_value(p);
            const char *name = lua_tostring(L, -2);
            struct call call = call_open(L, me, CALL_PLAIN);
            bool        ok   = table == 0   ? module_add_parameter(me, module, name, test_tensor(L, -1))
                               : table == 1 ? module_add_buffer(me, module, name, test_tensor(L, -1))
                                            : module_add_child(me, module, name, test_module(L, -1));
            call_done(&call, ok);
            lua_pop(L, 2);
        }
    }
}

static void
unpack_layer(struct paste *p)
{
    struct packed_layer head;
    copy_out(p, &head, sizeof head);
    struct task   *me     = script_task(p->L);
    struct call    call   = call_open(p->L, me, CALL_PLAIN);
    struct module *module = module_new(me, head.type);
    if (module != NULL) {
        memcpy(module->integers, head.integers, sizeof head.integers);
        memcpy(module->numbers, head.numbers, sizeof head.numbers);
        module->training = head.training;
    }
    call_module(&call, module);
    number(p);
    unpack_members(p, lua_gettop(p->L));
}

static void
unpack_script_module(struct paste *p)
{
    lua_State *L = p->L;
    unpack_value(p);
    int class_index = lua_gettop(L);
    if (read_u8(&p->in) == PACKED_REF) {
        lua_rawgeti(L, p->objects, read_u32(&p->in));
    } else {
        struct task   *me     = script_task(L);
        struct module *module = script_module_new(L, me, class_index);
        number(p);
        module->training = read_u8(&p->in) == PACKED_TRUE;
        object_push(L, module_attributes(module));
        unpack_entries(p, lua_gettop(L));
        lua_pop(L, 1);
        unpack_members(p, class_index + 1);
    }
    lua_remove(L, class_index);
}

static void
unpack_permanent(struct paste *p)
{
    const char *path = read_text(&p->in), *last = strrchr(path, '\1');
    permanent_resolve(p->L, path);
    if (lua_isnil(p->L, -1))
        raise_error(p->L, "RuntimeError", "this rank has no '%s'", last != NULL ? last + 1 : path);
}

static void
unpack_value(struct paste *p)
{
    lua_State  *L = p->L;
    lua_Integer integer;
    lua_Number  real;
    void       *pointer;
    luaL_checkstack(L, 20, "nested too deeply to be copied");
    switch ((enum packed)read_u8(&p->in)) {
    case PACKED_NIL: lua_pushnil(L); return;
    case PACKED_FALSE: lua_pushboolean(L, 0); return;
    case PACKED_TRUE: lua_pushboolean(L, 1); return;
    case PACKED_INTEGER:
        copy_out(p, &integer, sizeof integer);
        lua_pushinteger(L, integer);
        return;
    case PACKED_NUMBER:
        copy_out(p, &real, sizeof real);
        lua_pushnumber(L, real);
        return;
    case PACKED_POINTER:
        copy_out(p, &pointer, sizeof pointer);
        lua_pushlightuserdata(L, pointer);
        return;
    case PACKED_TEXT: {
        uint32_t length = read_u32(&p->in);
        lua_pushlstring(L, read_bytes(&p->in, (size_t)length + 1), length);
        return;
    }
    case PACKED_REF: lua_rawgeti(L, p->objects, read_u32(&p->in)); return;
    case PACKED_PERMANENT: unpack_permanent(p); return;
    case PACKED_TABLE: unpack_table(p); return;
    case PACKED_FUNCTION: unpack_function(p); return;
    case PACKED_BUILTIN: unpack_builtin(p); return;
    case PACKED_TENSOR: unpack_tensor(p); return;
    case PACKED_LAYER: unpack_layer(p); return;
    case PACKED_MODULE: unpack_script_module(p); return;
    case PACKED_END:
    case PACKED_OLD_UPVALUE:
    case PACKED_NEW_UPVALUE: break;
    }
    raise_error(L, "RuntimeError", "a copied value is damaged");
}

int
parcel_unpack(lua_State *L, const struct parcel *parcel)
{
    struct paste p = { .L = L, .in = reader_of(parcel->bytes.text, parcel->bytes.len) };
    luaL_checkstack(L, (int)parcel->values + 20, "out of memory for Lua's stack");
    lua_newtable(L);
    p.objects = lua_gettop(L);
    lua_newtable(L);
    p.upvalues = lua_gettop(L);
    for (uint32_t i = 0; i < parcel->values; i++)
        unpack_value(&p);
    while (unpack_or_end(&p)) { /* globals */
        unpack_value(&p);
        lua_pushglobaltable(L);
        lua_insert(L, -3);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
    lua_remove(L, p.upvalues);
    lua_remove(L, p.objects);
    return (int)parcel->values;
}

/* Values between Lua and the engine: tensors, and the containers that DataParallel's scatter and gather tell apart.
 * A sequence is a list, a table with string keys a dict, rs.tuple and rs.namedtuple what they say, rs.none is None
 * inside a container, rs.kw marks keyword arguments; everything else travels by reference. */
#include "lua/internal.h"
#include <string.h>
#include "base/str.h"
#include "autograd/node.h"
#include "sched/task.h"
#include "tensor/tensor.h"

enum { VALUE_DEPTH = 60 };
static const char TUPLE[] = "ringside.tuple", KW[] = "ringside.kw", NONE[] = "ringside.none",
                  NAMED[] = "ringside.namedtuples";

struct tensor *
test_tensor(lua_State *L, int index)
{
    return box_test(L, index, BOX_TENSOR);
}

struct tensor *
check_any_tensor(lua_State *L, int index)
{
    return box_check(L, index, BOX_TENSOR);
}

struct tensor *
known_tensor(lua_State *L, struct tensor *tensor)
{
    if (tensor_uninitialized(tensor)) {
        struct task *me = script_task(L);
        uninitialized_refused(me, tensor->name != NULL ? tensor->name : "Tensor");
        raise(L, me);
    }
    return tensor;
}

struct tensor *
check_tensor(lua_State *L, int index)
{
    return known_tensor(L, check_any_tensor(L, index));
}

static void
drop_tensor(struct task *me, void *tensor)
{
    tensor_unref(me, tensor);
}

/* Bytes count once per box of a tensor that owns its elements: views bring nothing new. */
void
push_tensor(lua_State *L, struct tensor *tensor)
{
    if (tensor == NULL) {
        lua_pushnil(L);
        return;
    }
    uint32_t boxes = script_of(L)->boxes;
    box_push(L, BOX_TENSOR, 0);
    box_fill(L, tensor_ref(tensor), drop_tensor, true);
    const struct box *box = lua_touserdata(L, -1);
    if (box->serial > boxes && tensor->base == NULL)
        script_allocated(L, script_of(L)->holder, (uint64_t)tensor_bytes(tensor));
}

static void
drop_node(struct task *me, void *node)
{
    node_unref(me, node);
}

void
push_node(lua_State *L, struct node *node)
{
    if (node == NULL) {
        lua_pushnil(L);
        return;
    }
    box_push(L, BOX_NODE, 0);
    box_fill(L, node_ref(script_of(L)->holder, node), drop_node, true);
}

void
drop_text(struct task *me, void *text)
{
    (void)me;
    str_free(text);
}

/* ---- from Lua ---- */

static struct value *table_from_lua(lua_State *L, struct task *me, int index, int depth);

/* Its class, or Lua's own word for it: "Net", "function". */
static void
object_type(lua_State *L, int index, char *out, size_t size)
{
    const struct module *module = test_module(L, index);
    bool named = module == NULL && luaL_getmetafield(L, index, "__name") != LUA_TNIL;
    const char *name = named ? lua_tostring(L, -1) : NULL;
    if (module != NULL)
        name = module->class_name != NULL ? module->class_name : module->type->name;
    snprintf(out, size, "%.*s", (int)size - 1, name != NULL && name[0] != '\0' ? name : luaL_typename(L, index));
    lua_settop(L, named ? -2 : -1);
}

static struct value *
object_from_lua(lua_State *L, struct task *me, int index)
{
    char type[40];
    index = lua_absindex(L, index);
    object_type(L, index, type, sizeof type);
    struct script_object *object = object_new(L, me, index, type);
    return object != NULL ? value_object(me, object, object->name, object_free) : NULL;
}

static struct value *
convert(lua_State *L, struct task *me, int index, int depth)
{
    switch (lua_type(L, index)) {
    case LUA_TNIL:
    case LUA_TNONE: return value_none(me);
    case LUA_TBOOLEAN: return value_bool(me, lua_toboolean(L, index));
    case LUA_TSTRING: return value_text(me, lua_tostring(L, index));
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            return value_integer(me, lua_tointeger(L, index));
        return value_number(me, lua_tonumber(L, index));
    case LUA_TUSERDATA:
        if (test_tensor(L, index) != NULL)
            return value_tensor(me, test_tensor(L, index));
        if (luaL_testudata(L, index, NONE) != NULL)
            return value_none(me);
        return object_from_lua(L, me, index);
    case LUA_TTABLE:
        if (depth >= VALUE_DEPTH)
            raise_error(L, "ValueError", "tables are nested more than %d deep (does one contain itself?)", VALUE_DEPTH);
        if (depth >= 0)
            return table_from_lua(L, me, lua_absindex(L, index), depth + 1);
    }
    return object_from_lua(L, me, index);
}

/* The elements 1..count of the table, converted; their array is a userdata left on the stack. NULL: failed. */
static struct value **
items_from_lua(lua_State *L, struct task *me, int index, int64_t count, int depth)
{
    struct value **items = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *items, 0);
    for (int64_t i = 0; i < count; i++) {
        lua_rawgeti(L, index, i + 1);
        items[i] = convert(L, me, -1, depth);
        lua_pop(L, 1);
        if (items[i] == NULL)
            return NULL;
    }
    return items;
}

static struct value *
sequence_from_lua(lua_State *L, struct task *me, int index, enum value_kind kind, int depth)
{
    int            count = (int)lua_rawlen(L, index);
    struct value **items = items_from_lua(L, me, index, count, depth);
    if (items == NULL)
        return NULL;
    return value_container(me, &(struct value_form){ kind, NULL, NULL }, count, items);
}

/* Keys in the order of their bytes: Lua does not remember any other. */
static struct value *
dict_from_lua(lua_State *L, struct task *me, int index, int depth)
{
    int            count = push_sorted_keys(L, index);
    int            keys  = lua_gettop(L);
    struct value **items = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *items, 0);
    const char   **names = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *names, 0);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, keys, i + 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            raise_error(L, "TypeError", "a table with names is a dict, but this one has a key that is a %s too",
                        luaL_typename(L, -1));
        names[i] = lua_tostring(L, -1);
        lua_rawget(L, index);
        items[i] = convert(L, me, -1, depth);
        lua_pop(L, 1);
        if (items[i] == NULL)
            return NULL;
    }
    return value_container(me, &(struct value_form){ VALUE_DICT, names, NULL }, count, items);
}

/* The metatable of a namedtuple is at the top of the stack: {name, fields...} in its field "namedtuple". */
static struct value *
namedtuple_from_lua(lua_State *L, struct task *me, int index, int depth)
{
    int fields = lua_gettop(L), count = (int)lua_rawlen(L, fields);
    bool        proper = lua_getfield(L, fields, "name") == LUA_TSTRING;
    const char *name   = lua_tostring(L, -1);
    const char **names = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *names, 0);
    for (int i = 0; i < count && proper; i++) {
        proper   = lua_rawgeti(L, fields, i + 1) == LUA_TSTRING;
        names[i] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    if (!proper)
        raise_error(L, "TypeError", "a namedtuple is made by rs.namedtuple");
    struct value **items = items_from_lua(L, me, index, count, depth);
    if (items == NULL)
        return NULL;
    return value_container(me, &(struct value_form){ VALUE_NAMEDTUPLE, names, name }, count, items);
}

/* The key at the top is no place of a list of so many. */
static bool
is_odd_key(lua_State *L, lua_Unsigned count)
{
    return !lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1 || (lua_Unsigned)lua_tointeger(L, -1) > count;
}

/* false: a list. What is neither raises: its odd elements would be lost without a word. */
static bool
has_names(lua_State *L, int index)
{
    const lua_Unsigned count = lua_rawlen(L, index);
    bool               odd   = false;
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING) {
            lua_pop(L, 1);
            return true;
        }
        odd = odd || is_odd_key(L, count);
    }
    if (odd)
        raise_error(L, "TypeError", "a table is a list from 1 on or has names; this one has other keys (0, say)");
    return false;
}

static struct value *
table_from_lua(lua_State *L, struct task *me, int index, int depth)
{
    int           top = lua_gettop(L);
    struct value *value;
    luaL_checkstack(L, 12, "tables nested too deep");
    if (luaL_getmetafield(L, index, "namedtuple") == LUA_TTABLE)
        value = namedtuple_from_lua(L, me, index, depth);
    else if (has_class(L, index, TUPLE))
        value = sequence_from_lua(L, me, index, VALUE_TUPLE, depth);
    else if (has_class(L, index, KW))
        value = dict_from_lua(L, me, index, depth);
    else if (!is_plain_table(L, index))
        value = object_from_lua(L, me, index);
    else if (has_names(L, index))
        value = dict_from_lua(L, me, index, depth);
    else
        value = sequence_from_lua(L, me, index, VALUE_LIST, depth);
    lua_settop(L, top);
    return value;
}

struct value *
value_from_lua(lua_State *L, struct task *me, int index, bool deep)
{
    return convert(L, me, lua_absindex(L, index), deep ? 0 : -1);
}

struct value *
arguments_from_lua(lua_State *L, struct task *me, int first, struct value **kwargs, bool deep)
{
    int last = lua_gettop(L);
    *kwargs  = NULL;
    if (last >= first && lua_istable(L, last) && has_class(L, last, KW)) {
        *kwargs = deep ? table_from_lua(L, me, last, 0) : dict_from_lua(L, me, last, -1);
        lua_settop(L, --last);
        if (*kwargs == NULL)
            return NULL;
    }
    int            count = last >= first ? last - first + 1 : 0;
    struct value **items = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *items, 0);
    for (int i = 0; i < count; i++) {
        items[i] = value_from_lua(L, me, first + i, deep);
        if (items[i] == NULL)
            return NULL;
    }
    return value_tuple(me, count, items);
}

/* ---- to Lua ---- */

static void push_inner(lua_State *L, const struct value *value);

static int
named_index(lua_State *L)
{
    int count = (int)lua_rawlen(L, lua_upvalueindex(1));
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, lua_upvalueindex(1), i);
        if (lua_rawequal(L, -1, 2)) {
            lua_rawgeti(L, 1, i);
            return 1;
        }
        lua_pop(L, 1);
    }
    return 0;
}

/* The metatable of the namedtuple `name` whose table of fields is at the top of the stack, which it replaces. One per
 * name and fields, so that what comes back from a gather is of the type that went in. */
static void
push_named_class(lua_State *L, const char *name)
{
    int fields = lua_gettop(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, NAMED);
    lua_pushstring(L, name);
    for (int i = 1; i <= (int)lua_rawlen(L, fields); i++) {
        lua_pushliteral(L, "\n");
        lua_rawgeti(L, fields, i);
        lua_concat(L, 3);
    }
    lua_pushvalue(L, -1);
    if (lua_rawget(L, fields + 1) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_createtable(L, 0, 4);
        lua_pushvalue(L, fields);
        lua_pushcclosure(L, named_index, 1);
        lua_setfield(L, -2, "__index");
        lua_pushstring(L, name);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, "__name");
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, "__metatable");
        lua_setfield(L, fields, "name");
        lua_pushvalue(L, fields);
        lua_setfield(L, -2, "namedtuple");
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, fields + 1);
    }
    lua_replace(L, fields);
    lua_settop(L, fields);
}

static void
push_container(lua_State *L, const struct value *value)
{
    bool named = value->kind == VALUE_DICT;
    lua_createtable(L, named ? 0 : value->count, named ? value->count : 0);
    for (int i = 0; i < value->count; i++) {
        push_inner(L, value->items[i]);
        if (named)
            lua_setfield(L, -2, value->keys[i]);
        else
            lua_rawseti(L, -2, i + 1);
    }
    if (value->kind == VALUE_TUPLE)
        luaL_setmetatable(L, TUPLE);
    if (value->kind != VALUE_NAMEDTUPLE)
        return;
    lua_createtable(L, value->count, 1);
    for (int i = 0; i < value->count; i++) {
        lua_pushstring(L, value->keys[i]);
        lua_rawseti(L, -2, i + 1);
    }
    push_named_class(L, value->text != NULL ? value->text : "namedtuple");
    lua_setmetatable(L, -2);
}

void
push_value(lua_State *L, const struct value *value)
{
    luaL_checkstack(L, 12, "values nested too deep");
    switch (value->kind) {
    case VALUE_NONE: lua_pushnil(L); break;
    case VALUE_TENSOR: push_tensor(L, value->tensor); break;
    case VALUE_INTEGER: lua_pushinteger(L, value->integer); break;
    case VALUE_NUMBER: lua_pushnumber(L, value->number); break;
    case VALUE_BOOL: lua_pushboolean(L, value->integer != 0); break;
    case VALUE_TEXT: lua_pushstring(L, value->text); break;
    case VALUE_OBJECT: object_push(L, value->drop_object == object_free ? value->object : NULL); break;
    case VALUE_TUPLE:
    case VALUE_LIST:
    case VALUE_DICT:
    case VALUE_NAMEDTUPLE: push_container(L, value); break;
    }
}

static void
push_none(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None");
}

static void
push_inner(lua_State *L, const struct value *value)
{
    if (value == NULL || value->kind == VALUE_NONE)
        push_none(L);
    else
        push_value(L, value);
}

int
push_results(lua_State *L, const struct value *value)
{
    if (value->kind != VALUE_TUPLE || value->whole) {
        push_value(L, value);
        return 1;
    }
    luaL_checkstack(L, value->count + 12, "too many results");
    for (int i = 0; i < value->count; i++)
        push_value(L, value->items[i]);
    return value->count;
}

/* ---- rs.tuple, rs.namedtuple, rs.kw, rs.none ---- */

static int
make_tuple(lua_State *L)
{
    if (!is_plain_table(L, 1) || lua_gettop(L) > 1) { /* rs.tuple(a, b) */
        int count = lua_gettop(L);
        lua_createtable(L, count, 0);
        lua_insert(L, 1);
        for (int i = count; i >= 1; i--)
            lua_rawseti(L, 1, i);
    }
    lua_settop(L, 1);
    luaL_setmetatable(L, TUPLE);
    return 1;
}

static int
make_kw(lua_State *L)
{
    if (!is_plain_table(L, 1))
        arg_error(L, 1, "a table of names and values");
    lua_settop(L, 1);
    luaL_setmetatable(L, KW);
    return 1;
}

/* Upvalue 1: the metatable; its field namedtuple lists the names. P(a, b) or P{x = a, y = b}. */
static int
named_new(lua_State *L)
{
    lua_getfield(L, lua_upvalueindex(1), "namedtuple");
    lua_insert(L, 1);
    int  count = (int)lua_rawlen(L, 1), given = lua_gettop(L) - 1;
    bool table = given == 1 && is_plain_table(L, 2) && has_names(L, 2);
    if (!table && given != count)
        raise_error(L, "TypeError", "expected %d fields, got %d", count, given);
    lua_createtable(L, count, 0);
    for (int i = 1; i <= count; i++) {
        if (table) {
            lua_rawgeti(L, 1, i);
            lua_rawget(L, 2);
        } else {
            lua_pushvalue(L, i + 1);
        }
        lua_rawseti(L, -2, i);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_setmetatable(L, -2);
    return 1;
}

static int
make_namedtuple(lua_State *L)
{
    const char *name = check_text(L, 1);
    if (!lua_istable(L, 2))
        arg_error(L, 2, "a list of field names");
    int count = (int)lua_rawlen(L, 2);
    lua_createtable(L, count, 1);
    for (int i = 1; i <= count; i++) {
        if (lua_rawgeti(L, 2, i) != LUA_TSTRING)
            raise_error(L, "TypeError", "field %d of %s: expected a name, got %s", i, name, luaL_typename(L, -1));
        lua_rawseti(L, -2, i);
    }
    push_named_class(L, name);
    lua_pushcclosure(L, named_new, 1);
    return 1;
}

static int
none_tostring(lua_State *L)
{
    lua_pushliteral(L, "None");
    return 1;
}

static const struct lua_entry entries[] = {
    { "tuple", make_tuple, "rs.tuple{a, b, ...}",
      "a tuple: scatter and gather keep it one, and a forward that returns one gives one" },
    { "namedtuple", make_namedtuple, "rs.namedtuple(name, {fields...})",
      "makes a type: P(a, b) or P{x = a, y = b}; read p.x or p[1]" },
    { "kw", make_kw, "rs.kw{name = value, ...}", "keyword arguments for a forward: model(x, rs.kw{mask = m})" },
};

void
lua_open_values(lua_State *L)
{
    const char *const classes[] = { TUPLE, KW };
    for (int i = 0; i < 2; i++) {
        luaL_newmetatable(L, classes[i]);
        set_text(L, -1, "__name", i == 0 ? "tuple" : "kw");
        lua_pop(L, 1);
    }
    lua_newuserdatauv(L, 0, 0);
    luaL_newmetatable(L, NONE);
    lua_pushcfunction(L, none_tostring);
    lua_setfield(L, -2, "__tostring");
    set_text(L, -1, "__name", "None");
    set_text(L, -1, "__metatable", "None");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, "ringside.None");
    open_namespace(L, "", entries, sizeof entries / sizeof *entries);
    lua_insert(L, -2);
    lua_setfield(L, -2, "none");
    lua_pop(L, 1);
}

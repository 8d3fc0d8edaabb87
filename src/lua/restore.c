/* The second half of rs.load: what keep.c wrote becomes values again, each tensor on the device that it was on or where
 * map_location says. The text comes from a file: nothing in it is believed. As torch.load. */
#include "lua/kept.h"

#include <math.h>
#include <string.h>
#include "autograd/operators.h"
#include "base/json_text.h"
#include "data/safetensors.h"
#include "device/device.h"
#include "lua/internal.h"
#include "sched/task.h"
#include "tensor/op.h"
#include "tensor/tensor.h"

struct restorer {
    lua_State          *L;
    struct safetensors *file;
    const char         *path;            /* the file's */
    int                 map;             /* on the stack: map_location; 0 none */
    int                 index, entries, objects; /* name -> its place in the file, name -> tensor, id -> object */
    int                 depth;
};

static int
refuse_file(struct restorer *r, const char *why)
{
    return raise_error(r->L, "ValueError", "%s: not what rs.save writes: %s", r->path, why);
}

/* ---- where a tensor goes ---- */

/* false: nil, or a name that the map does not have. Else what it says is at the top. */
static bool
push_mapped(struct restorer *r, int tensor, int device, const char *place)
{
    lua_State *L = r->L;
    if (lua_isfunction(L, r->map)) {
        lua_pushvalue(L, r->map);
        lua_pushvalue(L, tensor);
        lua_pushstring(L, place);
        lua_call(L, 2, 1);
    } else if (!lua_istable(L, r->map)) {
        lua_pushvalue(L, r->map);
    } else if (lua_getfield(L, r->map, place) == LUA_TNIL && device >= 0) {
        lua_pop(L, 1);
        lua_pushfstring(L, "cuda:%d", device);
        if (lua_rawget(L, r->map) == LUA_TNIL) {
            lua_pop(L, 1);
            lua_rawgeti(L, r->map, device);
        }
    }
    if (!lua_isnil(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

/* What a function answered in place of the tensor at `tensor`, at the top. */
static void
check_replacement(struct restorer *r, int tensor)
{
    struct tensor *given = test_tensor(r->L, -1), *asked = test_tensor(r->L, tensor);
    if (given->dtype != asked->dtype || !tensor_same_shape(given, asked) || !tensor_is_contiguous(given))
        raise_error(r->L, "TypeError", "map_location answered another tensor than the one that it was given, in type, "
                    "shape or layout: it moves it, as in t:to(\"cpu\"), or answers a device");
}

/* The tensor of an entry, at the top and on the CPU, is moved. `name` is what messages call it. */
static void
place_entry(struct restorer *r, const char *place, const char *name)
{
    lua_State   *L      = r->L;
    struct task *me     = script_task(L);
    int          tensor = lua_gettop(L), device = DEVICE_CPU;
    lua_pushstring(L, place);
    int saved = check_device(L, -1);
    lua_pop(L, 1);
    bool mapped = r->map != 0 && push_mapped(r, tensor, saved, place);
    if (mapped && test_tensor(L, -1) != NULL) {
        check_replacement(r, tensor);
        lua_replace(L, tensor);
        return;
    }
    if (mapped && lua_type(L, -1) != LUA_TSTRING && !lua_isinteger(L, -1))
        raise_error(L, "TypeError", "map_location: expected a device such as \"cpu\" for %s, got %s", place,
                    luaL_typename(L, -1));
    device = mapped ? check_device(L, -1) : saved;
    lua_settop(L, tensor);
    int         there = device_count(me);
    const char *why   = mapped ? ", for which map_location names one that is not there" : "";
    if (device >= there)
        raise_error(L, "RuntimeError", "%s: %.120s was saved on %s%s, and of devices this run has %d: say where it "
                    "shall go, as in rs.load(path, { map_location = \"cpu\" })", r->path, name, place, why, there);
    if (device == DEVICE_CPU)
        return;
    struct tensor *here = test_tensor(L, tensor);
    struct call    call = call_open(L, me, CALL_PLAIN);
    call_tensor(&call, tensor_to(me, here, device, here->dtype));
    lua_replace(L, tensor);
}

static const char *
place_of(struct restorer *r, const json_t *node)
{
    const json_t *place = json_object_get(node, "device");
    const char   *text  = json_string_value(place);
    int           number = 0, used = 0;
    if (place == NULL)
        return "cpu";
    if (text == NULL || sscanf(text, "device:%5d%n", &number, &used) != 1 || text[used] != '\0' || number < 0)
        refuse_file(r, "a device that is none");
    return text;
}

/* ---- tensors ---- */

/* Entry `name` of the file as it lies there, on the CPU. */
static void
push_entry(struct restorer *r, const char *name)
{
    lua_State   *L  = r->L;
    struct task *me = script_task(L);
    if (lua_getfield(L, r->index, name) != LUA_TNUMBER)
        refuse_file(r, "a tensor that is not in the file");
    size_t at = (size_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    struct call call = call_open(L, me, CALL_PLAIN);
    call_tensor(&call, safetensors_tensor(me, r->file, at));
}

static void
read_whole_numbers(struct restorer *r, const json_t *list, int64_t out[TENSOR_DIMS])
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *number = json_array_get(list, i);
        out[i]               = (int64_t)json_integer_value(number);
        if (!json_is_integer(number) || out[i] < 0)
            refuse_file(r, "a shape that cannot be");
    }
}

/* Of `entry` a view with these sizes; dims < 0: the whole. NULL: failed. */
static struct tensor *
piece_of(struct task *me, struct tensor *entry, int dims, const int64_t *size, const int64_t *stride, int64_t offset)
{
    if (dims < 0)
        return tensor_detach(me, entry);
    return tensor_view(me, entry, &(struct view_place){ dims, size, stride, entry->offset + offset });
}

static void
push_tensor_node(struct restorer *r, const json_t *node, const char *name, const char *path)
{
    lua_State    *L    = r->L;
    struct task  *me   = script_task(L);
    const json_t *size = json_object_get(node, "size"), *stride = json_object_get(node, "stride");
    const json_t *offset = json_object_get(node, "offset");
    int64_t       sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    int           dims = size != NULL ? (int)json_array_size(size) : -1;
    if (size != NULL && (!json_is_array(size) || !json_is_array(stride) || !json_is_integer(offset) ||
                         dims > TENSOR_DIMS || (int)json_array_size(stride) != dims || json_integer_value(offset) < 0))
        refuse_file(r, "a shape that cannot be");
    if (size != NULL) {
        read_whole_numbers(r, size, sizes);
        read_whole_numbers(r, stride, strides);
    }
    if (lua_getfield(L, r->entries, name) == LUA_TNIL) {
        lua_pop(L, 1);
        push_entry(r, name);
        place_entry(r, place_of(r, node), path[0] != '\0' ? path : name);
        lua_pushvalue(L, -1);
        lua_setfield(L, r->entries, name);
    }
    struct tensor *entry = test_tensor(L, -1);
    int64_t        room  = tensor_count(entry);
    bool           grad  = json_is_true(json_object_get(node, "requires_grad"));
    bool           far   = json_integer_value(offset) > room;
    for (int i = 0; i < dims; i++)
        far = far || strides[i] > room;
    if (far)
        refuse_file(r, "a shape that reaches outside of its elements");
    if (grad && !dtype_is_float(entry->dtype))
        refuse_file(r, "integers that require gradients");
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *tensor = piece_of(me, entry, dims, sizes, strides, (int64_t)json_integer_value(offset));
    if (tensor != NULL) {
        tensor->requires_grad = grad;
        tensor->is_parameter  = json_is_true(json_object_get(node, "parameter"));
    }
    call_tensor(&call, tensor);
    lua_remove(L, -2);
}

static void
push_bytes_node(struct restorer *r, const char *name)
{
    lua_State   *L  = r->L;
    struct task *me = script_task(L);
    push_entry(r, name);
    struct tensor *tensor = test_tensor(L, -1);
    if (tensor->dtype != DTYPE_U8)
        refuse_file(r, "a text that is no bytes");
    size_t      count = (size_t)tensor_bytes(tensor);
    void       *bytes = lua_newuserdatauv(L, count + 1, 0);
    struct call call  = call_open(L, me, CALL_PLAIN);
    call_done(&call, tensor_read(me, tensor, bytes));
    lua_pushlstring(L, bytes, count);
    lua_replace(L, -3);
    lua_pop(L, 1);
}

/* ---- any value ---- */

static void push_kept_value(struct restorer *r, const json_t *node, const char *path);

static void
fill_list(struct restorer *r, const json_t *list, int table, const char *path)
{
    lua_State *L = r->L;
    for (size_t i = 0; i < json_array_size(list); i++) {
        lua_pushfstring(L, "%s[%d]", path, (int)i + 1);
        push_kept_value(r, json_array_get(list, i), lua_tostring(L, -1));
        lua_rawseti(L, table, (lua_Integer)i + 1);
        lua_settop(L, table);
    }
}

static void
fill_map(struct restorer *r, const json_t *map, int table, const char *path)
{
    lua_State  *L = r->L;
    const char *key;
    json_t     *value;
    json_object_foreach ((json_t *)map, key, value) {
        lua_pushfstring(L, "%s%s%s", path, path[0] != '\0' ? "." : "", key);
        push_kept_value(r, value, lua_tostring(L, -1));
        lua_setfield(L, table, key);
        lua_settop(L, table);
    }
}

static void
fill_pairs(struct restorer *r, const json_t *pairs, int table, const char *path)
{
    lua_State *L = r->L;
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i);
        if (json_array_size(pair) != 2)
            refuse_file(r, "a pair that is none");
        push_kept_value(r, json_array_get(pair, 0), path);
        lua_Number number = lua_tonumber(L, -1);
        if ((lua_type(L, -1) != LUA_TNUMBER && lua_type(L, -1) != LUA_TBOOLEAN) || number != number)
            refuse_file(r, "a key that cannot be one");
        lua_pushfstring(L, "%s[%s]", path, luaL_tolstring(L, -1, NULL));
        push_kept_value(r, json_array_get(pair, 1), lua_tostring(L, -1));
        lua_replace(L, table + 2);
        lua_settop(L, table + 2);
        lua_rawset(L, table);
    }
}

/* The object at the top may be asked for again. */
static void
note_object(struct restorer *r, const json_t *node)
{
    const json_t *id = json_object_get(node, "id");
    if (id == NULL)
        return;
    lua_pushvalue(r->L, -1);
    lua_rawseti(r->L, r->objects, (lua_Integer)json_integer_value(id));
}

static void
push_object(struct restorer *r, const json_t *node, const char *path)
{
    lua_State    *L    = r->L;
    const char   *name = json_string_value(json_object_get(node, "tensor")), *number;
    const json_t *same = json_object_get(node, "same");
    if (name != NULL) {
        push_tensor_node(r, node, name, path);
        note_object(r, node);
    } else if ((name = json_string_value(json_object_get(node, "bytes"))) != NULL) {
        push_bytes_node(r, name);
    } else if ((number = json_string_value(json_object_get(node, "number"))) != NULL) {
        lua_pushnumber(L, strcmp(number, "inf") == 0 ? INFINITY : strcmp(number, "-inf") == 0 ? -INFINITY : NAN);
    } else if (same != NULL) {
        if (lua_rawgeti(L, r->objects, (lua_Integer)json_integer_value(same)) == LUA_TNIL)
            refuse_file(r, "it refers to what is not there");
    } else {
        lua_newtable(L);
        note_object(r, node);
        int table = lua_gettop(L);
        fill_list(r, json_object_get(node, "list"), table, path);
        fill_map(r, json_object_get(node, "map"), table, path);
        fill_pairs(r, json_object_get(node, "pairs"), table, path);
    }
}

static void
push_kept_value(struct restorer *r, const json_t *node, const char *path)
{
    lua_State *L = r->L;
    stack_room(L, 20);
    script_charge(L, 10);
    if (++r->depth > KEPT_DEPTH + 10)
        refuse_file(r, "it is nested too deeply");
    switch (node != NULL ? json_typeof(node) : JSON_ARRAY) {
    case JSON_OBJECT: push_object(r, node, path); break;
    case JSON_STRING: lua_pushlstring(L, json_string_value(node), json_string_length(node)); break;
    case JSON_INTEGER: lua_pushinteger(L, (lua_Integer)json_integer_value(node)); break;
    case JSON_REAL: lua_pushnumber(L, json_real_value(node)); break;
    case JSON_TRUE:
    case JSON_FALSE: lua_pushboolean(L, json_is_true(node)); break;
    case JSON_NULL:
        push_ringside(L);
        lua_getfield(L, -1, "none");
        lua_remove(L, -2);
        break;
    case JSON_ARRAY: refuse_file(r, "a value that is none");
    }
    r->depth--;
}

/* ---- files ---- */

/* Tensors by name, as any writer of safetensors makes them: of the CPU. */
static void
push_plain(struct restorer *r)
{
    lua_State *L = r->L;
    lua_newtable(L);
    for (size_t i = 0; i < safetensors_count(r->file); i++) {
        const char *name = safetensors_name(r->file, i);
        push_entry(r, name);
        place_entry(r, "cpu", name);
        lua_setfield(L, -2, name);
    }
}

static int
free_json(lua_State *L)
{
    json_t **root = lua_touserdata(L, 1);
    json_decref(*root);
    *root = NULL;
    return 0;
}

/* A name in it that is no device's is a mistyped option. */
void
check_map_location(lua_State *L, int map)
{
    if (map == 0 || lua_isfunction(L, map))
        return;
    if (!lua_istable(L, map)) {
        check_device(L, map);
        return;
    }
    for (lua_pushnil(L); lua_next(L, map) != 0; lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "device";
        if (strncmp(name, "device", 6) != 0 && strncmp(name, "cuda", 4) != 0 && strcmp(name, "cpu") != 0) {
            lua_settop(L, lua_gettop(L) - 2);
            option_known(L, map, "path map_location");
            return;
        }
    }
}

void
push_restored(lua_State *L, struct safetensors *file, const char *path, const char *text, int map_location)
{
    struct restorer   r = { .L = L, .file = file, .path = path, .map = map_location };
    struct json_wrong wrong;
    stack_room(L, 20);
    int base = lua_gettop(L);
    for (int *at[] = { &r.index, &r.entries, &r.objects }, i = 0; i < 3; i++) {
        lua_newtable(L);
        *at[i] = lua_gettop(L);
    }
    for (size_t i = 0; i < safetensors_count(file); i++)
        set_integer(L, r.index, safetensors_name(file, i), (int64_t)i);
    if (text == NULL) {
        push_plain(&r);
    } else {
        json_t **root = push_owned(L, sizeof *root, "ringside.description", free_json);
        *root         = json_text_parse(text, strlen(text), JSON_REJECT_DUPLICATES, &wrong);
        if (*root == NULL && wrong.why == NULL)
            raise_error(L, "MemoryError", "out of memory while reading %s", path);
        if (*root == NULL || !json_is_object(*root))
            refuse_file(&r, "its description is no JSON");
        push_kept_value(&r, json_object_get(*root, "value"), "");
    }
    lua_replace(L, base + 1);
    lua_settop(L, base + 1);
}

/* The first half of rs.save: any nested table becomes JSON and a list of tensors, in an order that repeats.
 *
 *     number, text, true, rs.none    as in JSON; {"number": "inf"}; {"bytes": NAME} of a text that is no UTF-8
 *     table                          {"list": [...], "map": {...}, "pairs": [[key, value], ...]}
 *     tensor                         {"tensor": NAME, and "device", "requires_grad", "parameter", "size", "stride",
 *                                    "offset" where they are not what the entry says}
 *     what came before               {"same": N}, and the first has "id": N
 *
 * Tensors that share a storage are pieces of one entry: of the one that spans all the others, else of the span itself,
 * flat. What of a storage nobody keeps is not written. As torch.save, whose pickles are programs: these are data. */
#include "lua/kept.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json_text.h"
#include "base/str.h"
#include "base/visible.h"
#include "data/safetensors.h"
#include "lua/internal.h"
#include "sched/task.h"
#include "tensor/tensor.h"

struct leaf {
    struct tensor *tensor;
    json_t        *node;
    const char    *path;
    int64_t        low, high;        /* of the storage's elements */
    struct group  *group;
};

/* Leaves that share elements. */
struct group {
    const struct leaf *whole;        /* the first that spans all the others; NULL: none does */
    int64_t            low, high;
    const char        *entry;        /* what they are pieces of */
};

struct kept {
    json_t      *root;
    struct str   text;
    struct leaf *leaves;
    size_t       count, room;
    struct group   *groups;
    const char    **names;           /* what is written: two a leaf at most */
    struct tensor **tensors;
    size_t          written;
};

struct keeper {
    lua_State   *L;
    struct kept *kept;
    int          seen, held, taken;  /* on the stack: object -> node; what lives as long; names in use */
    int64_t      ids;
    int          depth;
    bool         flat;               /* tensors by name and nothing else */
};

static int
free_kept(lua_State *L)
{
    struct kept *kept = lua_touserdata(L, 1);
    json_decref(kept->root);
    str_free(&kept->text);
    free(kept->leaves);
    free(kept->groups);
    free(kept->names);
    free(kept->tensors);
    memset(kept, 0, sizeof *kept);
    return 0;
}

static int
no_room(lua_State *L)
{
    return raise_error(L, "MemoryError", "out of memory while saving");
}

/* The value at the top stays alive as long as the leaves, and is popped. */
static void
hold(struct keeper *k)
{
    lua_pushboolean(k->L, 1);
    lua_rawset(k->L, k->held);
}

/* ---- values ---- */

/* `node` becomes a field of an object or, without a key, the next of an array. Raises. */
static json_t *
attach(struct keeper *k, json_t *parent, const char *key, json_t *node)
{
    int failed = key != NULL ? json_object_set_new(parent, key, node) : json_array_append_new(parent, node);
    if (node == NULL || failed != 0)
        no_room(k->L);
    return node;
}

static int
refuse_value(struct keeper *k, int index, const char *path, const char *what)
{
    lua_State  *L    = k->L;
    const char *name = what, *hint = "";
    if (test_module(L, index) != NULL)
        name = "a module", hint = "; save its state_dict()";
    else if (box_test(L, index, BOX_OPTIMIZER) != NULL)
        name = "an optimizer", hint = "; save its state_dict()";
    else if (box_test(L, index, BOX_GENERATOR) != NULL)
        name = "a generator", hint = "; save its get_state()";
    else if (name == NULL && luaL_getmetafield(L, index, "__name") == LUA_TSTRING)
        name = lua_pushfstring(L, "a %s", lua_tostring(L, -1));
    else if (name == NULL)
        name = lua_pushfstring(L, "a %s", luaL_typename(L, index));
    return raise_error(L, "TypeError", "rs.save: %.120s is %.80s, which no file keeps%s", path[0] ? path : "the value",
                       name, hint);
}

static bool
is_text(const char *text, size_t length)
{
    uint32_t code = 0;
    for (size_t at = 0; at < length;) {
        size_t step = text[at] == '\0' ? 0 : utf8_take(text + at, length - at, &code);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

static void
add_leaf(struct keeper *k, struct tensor *tensor, json_t *node, const char *path)
{
    struct kept *kept = k->kept;
    if (kept->count == kept->room) {
        size_t       room  = kept->room * 2 + 32;
        struct leaf *grown = realloc(kept->leaves, room * sizeof *grown);
        if (grown == NULL)
            no_room(k->L);
        kept->leaves = grown;
        kept->room   = room;
    }
    lua_pushstring(k->L, path);
    path = lua_tostring(k->L, -1);
    hold(k);
    struct leaf leaf = { .tensor = tensor, .node = node, .path = path, .low = tensor->offset, .high = tensor->offset };
    if (tensor_count(tensor) > 0) {
        leaf.high++;
        for (int i = 0; i < tensor->dims; i++)
            leaf.high += (tensor->size[i] - 1) * tensor->stride[i];
    }
    kept->leaves[kept->count++] = leaf;
}

/* A text that is no UTF-8, such as the state of a generator: an entry of bytes. */
static void
keep_bytes(struct keeper *k, const char *bytes, size_t length, const char *path, json_t *node)
{
    struct task *me   = script_task(k->L);
    struct call  call = call_open(k->L, me, CALL_PLAIN);
    call_tensor(&call, tensor_from(me, DTYPE_U8, 1, &(int64_t){ (int64_t)length }, bytes));
    struct tensor *tensor = test_tensor(k->L, -1);
    hold(k);
    attach(k, node, "bytes", json_null());
    add_leaf(k, tensor, node, path);
}

static void
keep_text(struct keeper *k, int index, const char *path, json_t *parent, const char *key)
{
    size_t      length = 0;
    const char *text   = lua_tolstring(k->L, index, &length);
    script_charge(k->L, 1 + length / WORK_BYTES);
    if (is_text(text, length))
        attach(k, parent, key, json_stringn_nocheck(text, length));
    else
        keep_bytes(k, text, length, path, attach(k, parent, key, json_object()));
}

static void
keep_number(struct keeper *k, int index, json_t *parent, const char *key)
{
    double number = lua_tonumber(k->L, index);
    if (lua_isinteger(k->L, index))
        attach(k, parent, key, json_integer((json_int_t)lua_tointeger(k->L, index)));
    else if (isfinite(number))
        attach(k, parent, key, json_real(number));
    else
        attach(k, attach(k, parent, key, json_object()), "number",
               json_string(isnan(number) ? "nan" : number > 0 ? "inf" : "-inf"));
}

static void
keep_tensor(struct keeper *k, int index, const char *path, json_t *node)
{
    struct tensor *tensor = test_tensor(k->L, index);
    int            device = tensor_device(tensor);
    char           place[24];
    if (tensor_is_sparse(tensor))
        refuse_value(k, index, path, "a sparse tensor (t:to_dense() has its elements)");
    if (tensor_uninitialized(tensor))
        refuse_value(k, index, path, "a parameter without a shape (a forward gives it one)");
    attach(k, node, "tensor", json_null());
    snprintf(place, sizeof place, "device:%d", device);
    if (device != DEVICE_CPU)
        attach(k, node, "device", json_string(place));
    if (tensor->requires_grad)
        attach(k, node, "requires_grad", json_true());
    if (tensor->is_parameter)
        attach(k, node, "parameter", json_true());
    k->flat = k->flat && k->depth == 1;
    add_leaf(k, tensor, node, path);
}

static void keep_value(struct keeper *k, int index, const char *path, json_t *parent, const char *key);

/* The path to the key at `key`, pushed: a.b, a[3]. */
static const char *
push_path(struct keeper *k, const char *path, int key)
{
    lua_State *L = k->L;
    if (lua_type(L, key) == LUA_TSTRING)
        return lua_pushfstring(L, "%s%s%s", path, path[0] ? "." : "", lua_tostring(L, key));
    lua_pushfstring(L, "%s[", path);
    luaL_tolstring(L, key, NULL);
    lua_pushliteral(L, "]");
    lua_concat(L, 3);
    return lua_tostring(L, -1);
}

/* The value of the key at the top, which stays. */
static void
keep_field(struct keeper *k, int table, const char *path, json_t *parent, const char *key)
{
    lua_State *L    = k->L;
    int        name = lua_gettop(L);
    path            = push_path(k, path, name);
    lua_pushvalue(L, name);
    lua_rawget(L, table);
    keep_value(k, name + 2, path, parent, key);
    lua_settop(L, name);
}

static lua_Integer
keep_list(struct keeper *k, int table, const char *path, json_t *node)
{
    lua_State  *L     = k->L;
    json_t     *list  = NULL;
    lua_Integer count = 0;
    while (lua_rawgeti(L, table, count + 1) != LUA_TNIL) {
        lua_pop(L, 1);
        if (list == NULL)
            list = attach(k, node, "list", json_array());
        lua_pushinteger(L, ++count);
        keep_field(k, table, path, list, NULL);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return count;
}

static void
check_keys(struct keeper *k, int table, const char *path)
{
    lua_State *L = k->L;
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
        int type = lua_type(L, -2);
        if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN)
            raise_error(L, "TypeError", "rs.save: %.120s has a key that is a %s: files keep texts, numbers and "
                        "booleans", path[0] ? path : "the table", luaL_typename(L, -2));
    }
}

/* Text keys are names of a map; the others are pairs. */
static void
keep_rest(struct keeper *k, int table, const char *path, json_t *node, lua_Integer listed)
{
    lua_State *L     = k->L;
    int        count = push_sorted_keys(L, table), keys = lua_gettop(L);
    json_t    *map   = NULL, *pairs = NULL;
    for (int i = 1; i <= count; i++, lua_settop(L, keys)) {
        lua_rawgeti(L, keys, i);
        size_t      length = 0;
        const char *name   = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
        if (lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= listed)
            continue;
        if (name != NULL && is_text(name, length)) {
            map = map != NULL ? map : attach(k, node, "map", json_object());
            keep_field(k, table, path, map, name);
            continue;
        }
        if (name != NULL)
            raise_error(L, "ValueError", "rs.save: %.120s has the name \"%.60s\", which is not UTF-8 text",
                        path[0] ? path : "the table", name);
        k->flat      = false;
        pairs        = pairs != NULL ? pairs : attach(k, node, "pairs", json_array());
        json_t *pair = attach(k, pairs, NULL, json_array());
        keep_value(k, keys + 1, path, pair, NULL);
        keep_field(k, table, path, pair, NULL);
    }
    lua_settop(L, keys - 1);
}

static void
keep_table(struct keeper *k, int index, const char *path, json_t *node)
{
    if (!is_plain_table(k->L, index) && lua_getmetatable(k->L, index))
        refuse_value(k, index, path, "a table with a metatable");
    check_keys(k, index, path);
    lua_Integer listed = keep_list(k, index, path, node);
    k->flat            = k->flat && (k->depth == 1) && listed == 0;
    keep_rest(k, index, path, node, listed);
}

/* true: the object was kept before; this is its second place. */
static bool
keep_known(struct keeper *k, int index, json_t *parent, const char *key)
{
    lua_State *L = k->L;
    lua_pushvalue(L, index);
    bool    known = lua_rawget(L, k->seen) == LUA_TLIGHTUSERDATA;
    json_t *first = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (!known)
        return false;
    json_t *id = json_object_get(first, "id");
    if (id == NULL)
        id = attach(k, first, "id", json_integer(++k->ids));
    attach(k, attach(k, parent, key, json_object()), "same", json_integer(json_integer_value(id)));
    k->flat = false;
    return true;
}

static void
keep_object(struct keeper *k, int index, const char *path, json_t *parent, const char *key)
{
    lua_State *L     = k->L;
    bool       table = lua_istable(L, index);
    if (!table && test_tensor(L, index) == NULL)
        refuse_value(k, index, path, NULL);
    if (keep_known(k, index, parent, key))
        return;
    if (k->depth >= KEPT_DEPTH)
        raise_error(L, "ValueError", "rs.save: %.120s lies deeper than %d tables", path, KEPT_DEPTH);
    json_t *node = attach(k, parent, key, json_object());
    lua_pushvalue(L, index);
    lua_pushlightuserdata(L, node);
    lua_rawset(L, k->seen);
    k->depth += table;
    if (table)
        keep_table(k, index, path, node);
    else
        keep_tensor(k, index, path, node);
    k->depth -= table;
}

static void
keep_value(struct keeper *k, int index, const char *path, json_t *parent, const char *key)
{
    lua_State *L = k->L;
    stack_room(L, 20);
    script_charge(L, 10);
    int type = lua_type(L, index);
    if (type == LUA_TNUMBER)
        keep_number(k, index, parent, key);
    else if (type == LUA_TSTRING)
        keep_text(k, index, path, parent, key);
    else if (type == LUA_TBOOLEAN)
        attach(k, parent, key, json_boolean(lua_toboolean(L, index)));
    else if (luaL_testudata(L, index, "ringside.none") != NULL)
        attach(k, parent, key, json_null());
    else {
        keep_object(k, index, path, parent, key);
        return;
    }
    k->flat = false;
}

/* ---- storages ---- */

static int
by_storage(const void *left, const void *right)
{
    const struct leaf *a = *(struct leaf *const *)left, *b = *(struct leaf *const *)right;
    uintptr_t          x = (uintptr_t)a->tensor->storage, y = (uintptr_t)b->tensor->storage;
    if (x != y)
        return x < y ? -1 : 1;
    if (a->tensor->dtype != b->tensor->dtype)
        return a->tensor->dtype < b->tensor->dtype ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Empty ones share nothing. */
static bool
shares(const struct leaf *a, const struct leaf *b)
{
    return a->tensor->storage == b->tensor->storage && a->tensor->dtype == b->tensor->dtype && a->high > a->low &&
           b->high > b->low;
}

static void
find_groups(struct keeper *k)
{
    struct kept  *kept   = k->kept;
    struct leaf **sorted = lua_newuserdatauv(k->L, (kept->count + 1) * sizeof *sorted, 0);
    for (size_t i = 0; i < kept->count; i++)
        sorted[i] = &kept->leaves[i];
    qsort(sorted, kept->count, sizeof *sorted, by_storage);
    struct group *group = kept->groups;
    for (size_t i = 0; i < kept->count; i++) {
        struct leaf *leaf = sorted[i];
        if (i == 0 || !shares(leaf, sorted[i - 1]))
            *group++ = (struct group){ .low = leaf->low, .high = leaf->high };
        leaf->group       = group - 1;
        leaf->group->low  = leaf->low < leaf->group->low ? leaf->low : leaf->group->low;
        leaf->group->high = leaf->high > leaf->group->high ? leaf->high : leaf->group->high;
    }
    lua_pop(k->L, 1);
    for (size_t i = 0; i < kept->count; i++) {
        struct leaf *leaf = &kept->leaves[i];
        if (leaf->group->whole == NULL && leaf->low == leaf->group->low && leaf->high == leaf->group->high &&
            tensor_is_contiguous(leaf->tensor))
            leaf->group->whole = leaf;
    }
}

/* ---- entries ---- */

/* Under `name`, or with a number behind it where another one has that. */
static const char *
write_entry(struct keeper *k, struct tensor *tensor, const char *name)
{
    lua_State *L = k->L;
    lua_pushstring(L, name[0] != '\0' ? name : "value");
    for (int more = 2; lua_pushvalue(L, -1), lua_rawget(L, k->taken) != LUA_TNIL; more++) {
        lua_pop(L, 2);
        lua_pushfstring(L, "%s#%d", name, more);
    }
    lua_pop(L, 1);
    const char *entry = lua_tostring(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, k->taken); /* which keeps the text */
    k->kept->names[k->kept->written]     = entry;
    k->kept->tensors[k->kept->written++] = tensor;
    return entry;
}

/* What the group's tensors are pieces of, all in a row. */
static const char *
write_span(struct keeper *k, const struct leaf *leaf)
{
    struct task         *me    = script_task(k->L);
    const struct group  *group = leaf->group;
    const int64_t        count = group->high - group->low, step = 1;
    struct call          call  = call_open(k->L, me, CALL_PLAIN);
    call_tensor(&call, tensor_view(me, leaf->tensor, &(struct view_place){ 1, &count, &step, group->low }));
    struct tensor *span = test_tensor(k->L, -1);
    hold(k);
    lua_pushfstring(k->L, "%s.storage", leaf->path);
    const char *entry = write_entry(k, span, lua_tostring(k->L, -1));
    lua_pop(k->L, 1);
    return entry;
}

static void
attach_list(struct keeper *k, json_t *node, const char *key, const int64_t *list, int count)
{
    json_t *array = attach(k, node, key, json_array());
    for (int i = 0; i < count; i++)
        attach(k, array, NULL, json_integer(list[i]));
}

static void
describe_leaf(struct keeper *k, const struct leaf *leaf)
{
    const struct leaf   *lead   = leaf->group->whole;
    const struct tensor *tensor = leaf->tensor, *whole = lead != NULL ? lead->tensor : NULL;
    attach(k, leaf->node, json_object_get(leaf->node, "bytes") != NULL ? "bytes" : "tensor",
           json_string(leaf->group->entry));
    if (whole != NULL && tensor_is_contiguous(tensor) && tensor_same_shape(tensor, whole) &&
        tensor->offset == whole->offset)
        return;
    attach_list(k, leaf->node, "size", tensor->size, tensor->dims);
    attach_list(k, leaf->node, "stride", tensor->stride, tensor->dims);
    attach(k, leaf->node, "offset", json_integer(tensor->offset - leaf->group->low));
}

/* Of a flat table every tensor is an entry by its own name, whatever it shares, for other readers. true: they need to
 * know nothing else. */
static bool
write_leaves(struct keeper *k)
{
    struct kept *kept  = k->kept;
    bool         plain = k->flat;
    for (size_t i = 0; i < kept->count; i++) {
        const struct leaf *leaf = &kept->leaves[i];
        const char        *own  = k->flat ? write_entry(k, leaf->tensor, leaf->path) : NULL;
        if (leaf->group->whole == leaf)
            leaf->group->entry = own != NULL ? own : write_entry(k, leaf->tensor, leaf->path);
        else if (leaf->group->whole == NULL && leaf->group->entry == NULL)
            leaf->group->entry = write_span(k, leaf);
        plain = plain && leaf->group->whole == leaf;
    }
    for (size_t i = 0; i < kept->count; i++) {
        describe_leaf(k, &kept->leaves[i]);
        plain = plain && json_object_size(kept->leaves[i].node) == 1;
    }
    return plain;
}

const char *
push_kept(lua_State *L, int index, struct safetensors_content *content)
{
    index = lua_absindex(L, index);
    stack_room(L, 20);
    struct kept  *kept = push_owned(L, sizeof *kept, "ringside.kept", free_kept);
    struct keeper k    = { .L = L, .kept = kept, .flat = true };
    for (int *at[] = { &k.seen, &k.held, &k.taken }, i = 0; i < 3; i++) {
        lua_newtable(L);
        *at[i] = lua_gettop(L);
    }
    kept->root = json_object();
    if (kept->root == NULL)
        no_room(L);
    keep_value(&k, index, "", kept->root, "value");
    kept->groups  = calloc(kept->count + 1, sizeof *kept->groups);
    kept->names   = calloc(2 * kept->count + 1, sizeof *kept->names);
    kept->tensors = calloc(2 * kept->count + 1, sizeof(struct tensor *));
    if (kept->groups == NULL || kept->names == NULL || kept->tensors == NULL)
        no_room(L);
    find_groups(&k);
    bool plain = write_leaves(&k);
    if (!plain && !json_text_write(kept->root, &kept->text))
        no_room(L);
    *content = (struct safetensors_content){ .tensors = kept->tensors, .names = kept->names, .count = kept->written };
    return plain ? NULL : str_text(&kept->text);
}

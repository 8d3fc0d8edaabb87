/* Values as bytes. Nothing here calls itself: what a value refers to is numbered as it is met and written in that
 * order, so tables may be nested without end, shared, and contain themselves.
 *
 *     "RSP1", an atom (the value), a record for each object that atoms refer to, from number 1 on, a zero byte
 *     atom    a letter and what it says: N nil, F, T, n rs.none, i integer, d number, s text, o object's number
 *     record  l list part and pairs of a table, t the same of a tuple, x a tensor: dtype, flags, sizes, elements
 *
 * A reader goes over the records twice: first it makes the objects, then it fills them.
 * Interface in order of use: pickle_size, pickle, unpickle. As Python's pickle for torch.distributed's object lists. */
#include "lua/pickle.h"
#include <math.h>
#include <string.h>
#include "base/reader.h"
#include "lua/internal.h"
#include "tensor/tensor.h"

static const char MAGIC[4] = { 'R', 'S', 'P', '1' }, TUPLE[] = "ringside.tuple", NONE[] = "ringside.none";
enum { FLAG_REQUIRES_GRAD = 1, FLAG_PARAMETER = 2, PRESIZED = 1 << 20 };

/* ---- writing ---- */

struct writer {
    lua_State  *L;
    char       *out;              /* NULL: only counts */
    size_t      used, room;
    int         seen, found;      /* on the stack: object -> number, number -> object */
    lua_Integer count;            /* of objects */
    char        at[60];           /* the last key, for messages */
};

static void
put(struct writer *w, const void *bytes, size_t size)
{
    if (w->out != NULL && size > w->room - w->used)
        raise_error(w->L, "RuntimeError", "a value was changed while it was pickled");
    if (w->out != NULL && size > 0)
        memcpy(w->out + w->used, bytes, size);
    w->used += size;
    script_charge(w->L, 1 + size / WORK_BYTES);
}

static void
put_letter(struct writer *w, char letter)
{
    put(w, &letter, 1);
}

static void
put_u32(struct writer *w, lua_Integer number)
{
    uint32_t u32 = (uint32_t)number;
    put(w, &u32, sizeof u32);
}

static int
refuse(struct writer *w, int index)
{
    lua_State           *L      = w->L;
    const struct module *module = test_module(L, index);
    const char          *name   = luaL_typename(L, index), *hint = "";
    if (module != NULL) {
        name = module->class_name != NULL ? module->class_name : module->type->name;
        hint = ": send its state_dict()";
    } else if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) {
        name = lua_tostring(L, -1);
    } else if (lua_istable(L, index)) {
        name = "table with a metatable";
    }
    bool inside = w->at[0] != '\0';
    return raise_error(L, "TypeError", "cannot pickle a %s%s%s%s%s", name, inside ? ", reached through '" : "", w->at,
                       inside ? "'" : "", hint);
}

/* The number of the object at `index`, which gets the next one where it is new. */
static lua_Integer
object_number(struct writer *w, int index)
{
    lua_State *L = w->L;
    lua_pushvalue(L, index);
    if (lua_rawget(L, w->seen) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_pushvalue(L, index);
        lua_pushinteger(L, ++w->count);
        lua_rawset(L, w->seen);
        lua_pushvalue(L, index);
        lua_rawseti(L, w->found, w->count);
        return w->count;
    }
    lua_Integer number = lua_tointeger(L, -1);
    lua_pop(L, 1);
    return number;
}

static void
put_number(struct writer *w, int index)
{
    lua_Integer integer = lua_tointeger(w->L, index);
    lua_Number  number  = lua_tonumber(w->L, index);
    bool        whole   = lua_isinteger(w->L, index);
    put_letter(w, whole ? 'i' : 'd');
    put(w, whole ? (const void *)&integer : &number, 8);
}

static void
put_text(struct writer *w, int index)
{
    size_t      length = 0;
    const char *text   = lua_tolstring(w->L, index, &length);
    if (length > UINT32_MAX)
        raise_error(w->L, "ValueError", "cannot pickle a text of %zu bytes", length);
    put_letter(w, 's');
    put_u32(w, (lua_Integer)length);
    put(w, text, length);
}

static void
put_atom(struct writer *w, int index)
{
    lua_State *L = w->L;
    switch (lua_type(L, index)) {
    case LUA_TNIL: put_letter(w, 'N'); return;
    case LUA_TBOOLEAN: put_letter(w, lua_toboolean(L, index) ? 'T' : 'F'); return;
    case LUA_TNUMBER: put_number(w, index); return;
    case LUA_TSTRING: put_text(w, index); return;
    default: break;
    }
    if (luaL_testudata(L, index, NONE) != NULL) {
        put_letter(w, 'n');
        return;
    }
    if (!lua_istable(L, index) && test_tensor(L, index) == NULL)
        refuse(w, index);
    put_letter(w, 'o');
    put_u32(w, object_number(w, index));
}

static void
put_tensor(struct writer *w, struct tensor *tensor)
{
    if (tensor_is_sparse(tensor) || tensor_device(tensor) >= 0)
        raise_error(w->L, "TypeError", "cannot pickle a tensor %s", tensor_is_sparse(tensor)
                    ? "that is sparse: send t:to_dense()" : "of a device: send t:cpu()");
    unsigned char head[3] = { (unsigned char)tensor->dtype, 0, (unsigned char)tensor->dims };
    head[1] = (unsigned char)((tensor->requires_grad ? FLAG_REQUIRES_GRAD : 0) |
                              (tensor->is_parameter ? FLAG_PARAMETER : 0));
    put_letter(w, 'x');
    put(w, head, sizeof head);
    put(w, tensor->size, (size_t)tensor->dims * sizeof tensor->size[0]);
    size_t bytes = (size_t)tensor_bytes(tensor), from = w->used;
    script_charge(w->L, 1 + bytes / WORK_BYTES);
    w->used += bytes;
    if (w->out == NULL || bytes == 0)
        return;
    if (w->used > w->room)
        raise_error(w->L, "RuntimeError", "a value was changed while it was pickled");
    struct task *me   = script_task(w->L);
    struct call  call = call_open(w->L, me, CALL_PLAIN);
    call_done(&call, tensor_read(me, tensor, w->out + from));
}

/* How many keys there are that are no place of the list part. */
static lua_Integer
count_names(lua_State *L, int index, lua_Integer length)
{
    lua_Integer names = 0;
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        lua_pop(L, 1);
        bool place = lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= length;
        names += !place;
        script_charge(L, 1);
    }
    return names;
}

static void
note_key(struct writer *w, int index)
{
    size_t length = 0;
    lua_pushvalue(w->L, index);
    const char *text = lua_tolstring(w->L, -1, &length);
    size_t      kept = text == NULL ? 0 : length < sizeof w->at ? length : sizeof w->at - 1;
    if (kept > 0)
        memcpy(w->at, text, kept);
    w->at[kept] = '\0';
    lua_pop(w->L, 1);
}

static void
put_names(struct writer *w, int index, lua_Integer length)
{
    lua_State *L     = w->L;
    int        count = push_sorted_keys(L, index), keys = lua_gettop(L);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, keys, i);
        int  type  = lua_type(L, -1);
        bool place = lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= length;
        if (type != LUA_TNUMBER && type != LUA_TSTRING && type != LUA_TBOOLEAN)
            raise_error(L, "TypeError", "cannot pickle a table with a %s as a key", luaL_typename(L, -1));
        if (!place) {
            put_atom(w, keys + 1);
            note_key(w, keys + 1);
            lua_rawget(L, index);
            put_atom(w, keys + 1);
        }
        lua_settop(L, keys);
    }
    lua_pop(L, 1);
}

static void
put_table(struct writer *w, int index)
{
    lua_State *L        = w->L;
    bool       is_tuple = has_class(L, index, TUPLE);
    if (!is_tuple && lua_getmetatable(L, index))
        refuse(w, index);
    lua_Integer length = (lua_Integer)lua_rawlen(L, index), names = count_names(L, index, length);
    if (length > UINT32_MAX || names > UINT32_MAX)
        raise_error(L, "ValueError", "cannot pickle a table of so many elements");
    put_letter(w, is_tuple ? 't' : 'l');
    put_u32(w, length);
    put_u32(w, names);
    for (lua_Integer i = 1; i <= length; i++) {
        snprintf(w->at, sizeof w->at, "%lld", (long long)i);
        lua_rawgeti(L, index, i);
        put_atom(w, index + 1);
        lua_pop(L, 1);
    }
    if (names > 0)
        put_names(w, index, length);
}

static size_t
write_value(lua_State *L, int index, char *out, size_t room)
{
    struct writer w = { .L = L, .out = out, .room = room };
    int           top = lua_gettop(L);
    index = lua_absindex(L, index);
    luaL_checkstack(L, 12, "too many values");
    lua_newtable(L);
    w.seen = lua_gettop(L);
    lua_newtable(L);
    w.found = lua_gettop(L);
    put(&w, MAGIC, sizeof MAGIC);
    put_atom(&w, index);
    for (lua_Integer number = 1; number <= w.count; number++) {
        lua_rawgeti(L, w.found, number);
        if (lua_istable(L, -1))
            put_table(&w, lua_gettop(L));
        else
            put_tensor(&w, test_tensor(L, -1));
        lua_settop(L, w.found);
    }
    put_letter(&w, '\0');
    lua_settop(L, top);
    return w.used;
}

size_t
pickle_size(lua_State *L, int index)
{
    return write_value(L, index, NULL, 0);
}

void
pickle(lua_State *L, int index, void *bytes, size_t size)
{
    if (write_value(L, index, bytes, size) != size)
        raise_error(L, "RuntimeError", "a value was changed while it was pickled");
}

/* ---- reading ---- */

struct loader {
    lua_State    *L;
    struct reader in;
    int           objects;        /* on the stack: number -> object */
    lua_Integer   count;          /* of objects made so far; when they are filled, all */
    bool          fills;          /* the second time */
};

static int
damaged(struct loader *l)
{
    return raise_error(l->L, "RuntimeError", "these bytes are no pickled value, or it is damaged at byte %zu of %zu",
                       l->in.at, l->in.size);
}

static void
push_integer_or_number(struct loader *l, char letter)
{
    uint64_t   bits = read_u64(&l->in);
    lua_Number number;
    memcpy(&number, &bits, sizeof number);
    if (letter == 'i')
        lua_pushinteger(l->L, (lua_Integer)bits);
    else
        lua_pushnumber(l->L, number);
}

static void
push_text_atom(struct loader *l)
{
    uint32_t    length = read_u32(&l->in);
    const char *text   = read_bytes(&l->in, length);
    if (text == NULL && length > 0)
        damaged(l);
    if (l->fills)
        lua_pushlstring(l->L, text != NULL ? text : "", length);
    else
        lua_pushnil(l->L);
}

/* Pushes what the next atom says; before the objects are all there, nil for one that is not. */
static void
push_atom(struct loader *l)
{
    lua_State *L = l->L;
    script_charge(L, 1);
    char letter = (char)read_u8(&l->in);
    switch (letter) {
    case 'N': lua_pushnil(L); break;
    case 'F':
    case 'T': lua_pushboolean(L, letter == 'T'); break;
    case 'n': lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None"); break;
    case 'i':
    case 'd': push_integer_or_number(l, letter); break;
    case 's': push_text_atom(l); break;
    case 'o':
        if (lua_rawgeti(L, l->objects, read_u32(&l->in)) == LUA_TNIL && l->fills)
            damaged(l);
        break;
    default: damaged(l);
    }
    if (l->in.broken)
        damaged(l);
}

struct tensor_head { enum dtype dtype; int flags, dims; int64_t size[TENSOR_DIMS]; size_t bytes; };

/* false: it is of no tensor. */
static bool
read_tensor_head(struct loader *l, struct tensor_head *out)
{
    int dtype = read_u8(&l->in);
    *out      = (struct tensor_head){ .dtype = (enum dtype)dtype, .flags = read_u8(&l->in) };
    out->dims = read_u8(&l->in);
    if (dtype >= DTYPE_COUNT || out->dims > TENSOR_DIMS || out->flags > (FLAG_REQUIRES_GRAD | FLAG_PARAMETER) ||
        (out->flags != 0 && !dtype_is_float(out->dtype)))
        return false;
    int64_t bytes = (int64_t)dtype_size(out->dtype);
    bool    empty = false;
    for (int i = 0; i < out->dims; i++) {
        int64_t size = out->size[i] = (int64_t)read_u64(&l->in);
        empty        = empty || size == 0;
        if (size < 0 || __builtin_mul_overflow(bytes, size > 0 ? size : 1, &bytes))
            return false;
    }
    out->bytes = empty ? 0 : (size_t)bytes;
    return !l->in.broken;
}

static bool
are_bools(const unsigned char *elements, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (elements[i] > 1)
            return false;
    return true;
}

static void
load_tensor(struct loader *l)
{
    lua_State         *L = l->L;
    struct tensor_head head;
    if (!read_tensor_head(l, &head))
        damaged(l);
    const void *elements = read_bytes(&l->in, head.bytes);
    if (l->in.broken || (head.dtype == DTYPE_BOOL && !are_bools(elements, head.bytes)))
        damaged(l);
    script_charge(L, 1 + head.bytes / WORK_BYTES);
    ++l->count;
    if (l->fills)
        return;
    struct task   *me     = script_task(L);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *tensor = tensor_from(me, head.dtype, head.dims, head.size, elements);
    if (tensor != NULL) {
        tensor->requires_grad = head.flags & FLAG_REQUIRES_GRAD;
        tensor->is_parameter  = head.flags & FLAG_PARAMETER;
    }
    call_tensor(&call, tensor);
    lua_rawseti(L, l->objects, l->count);
}

static bool
is_key(lua_State *L, int index)
{
    int type = lua_type(L, index);
    return type == LUA_TSTRING || type == LUA_TBOOLEAN || (type == LUA_TNUMBER && !isnan(lua_tonumber(L, index)));
}

/* Each element takes a byte at least, so a length that is not true is known before anything is made for it. */
static int
push_table(struct loader *l, uint32_t length, uint32_t names, bool is_tuple)
{
    lua_State *L = l->L;
    ++l->count;
    if (l->fills) {
        lua_rawgeti(L, l->objects, l->count);
        return lua_gettop(L);
    }
    lua_createtable(L, (int)(length < PRESIZED ? length : PRESIZED), (int)(names < PRESIZED ? names : PRESIZED));
    if (is_tuple)
        luaL_setmetatable(L, TUPLE);
    lua_pushvalue(L, -1);
    lua_rawseti(L, l->objects, l->count);
    return lua_gettop(L);
}

/* Made the first time, filled the second. */
static void
load_table(struct loader *l, bool is_tuple)
{
    lua_State *L      = l->L;
    uint32_t   length = read_u32(&l->in), names = read_u32(&l->in);
    size_t     left   = l->in.size - l->in.at;
    if (l->in.broken || length > left || names > left / 2)
        damaged(l);
    int table = push_table(l, length, names, is_tuple);
    for (uint32_t i = 1; i <= length; i++) {
        push_atom(l);
        if (l->fills)
            lua_rawseti(L, table, i);
        lua_settop(L, table);
    }
    for (uint32_t i = 0; i < names; i++) {
        push_atom(l);
        push_atom(l);
        if (l->fills && !is_key(L, table + 1))
            damaged(l);
        if (l->fills)
            lua_rawset(L, table);
        lua_settop(L, table);
    }
    lua_pop(L, 1);
}

static void
load_records(struct loader *l)
{
    l->count = 0;
    for (;;) {
        switch (read_u8(&l->in)) {
        case 'l': load_table(l, false); break;
        case 't': load_table(l, true); break;
        case 'x': load_tensor(l); break;
        case '\0':
            if (l->in.broken || l->in.at != l->in.size)
                damaged(l);
            return;
        default: damaged(l);
        }
    }
}

void
unpickle(lua_State *L, const void *bytes, size_t size)
{
    struct loader l = { .L = L, .in = reader_of(bytes, size) };
    luaL_checkstack(L, 12, "too many values");
    lua_newtable(L);
    l.objects = lua_gettop(L);
    const void *magic = read_bytes(&l.in, sizeof MAGIC);
    if (magic == NULL || memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        damaged(&l);
    size_t begin = l.in.at;
    push_atom(&l);
    lua_pop(L, 1);
    load_records(&l);
    l.fills = true;
    l.in.at = begin;
    push_atom(&l);
    load_records(&l);
    lua_replace(L, l.objects);
}

/* Copies Lua values out of a state: the function that a rank runs, with all it closes over, and what it returns.
 * As torch.multiprocessing pickles arguments and Lua Lanes copies functions: functions as bytecode with their lines,
 * shared upvalues shared again, tables with metatables and cycles, tensors and modules by value, `rs` and the
 * libraries by name. Keys go in order, so that what is made on the other side is made in a repeatable order.
 *
 * Interface in order of use: parcel_new, parcel_pack, parcel_free. paste.c is the other half. */
#include "lua/copy.h"

#include <stdlib.h>
#include <string.h>
#include "lua/internal.h"
#include "lua/spawn.h"
#include "tensor/tensor.h"

enum { COPY_DEPTH = 180 };

struct pack {
    lua_State  *L;
    struct parcel *parcel;
    struct str *out;
    int         seen, upvalues, permanents; /* stack: object -> number, upvalue id -> number, object -> path (nil
                                               until it is asked for: most results are numbers) */
    uint32_t    next, next_upvalue;
    int         depth;
    const char *upvalue;     /* name of the one that is being packed, for messages */
    char        why[300];
};

struct parcel *
parcel_new(struct sched *sched)
{
    struct parcel *parcel = calloc(1, sizeof *parcel);
    if (parcel != NULL)
        parcel->sched = sched;
    return parcel;
}

void
parcel_free(struct parcel *parcel)
{
    if (parcel == NULL)
        return;
    str_free(&parcel->bytes);
    account_give(parcel->sched, parcel->charged);
    free(parcel);
}

/* ---- bytes ---- */

/* The text that grows may be twice as long as what is in it. */
static void
pack_bytes(struct pack *p, const void *bytes, size_t count)
{
    enum { CHARGE_STEP = 64 << 10 };
    struct parcel *parcel = p->parcel;
    size_t         more   = 2 * (p->out->len + count) + CHARGE_STEP - parcel->charged;
    if (2 * (p->out->len + count) > parcel->charged) {
        struct task *me = script_of(p->L)->holder;
        if (!account_take(parcel->sched, more)) {
            memory_failed(me, more, "the host");
            raise(p->L, me);
        }
        parcel->charged += more;
    }
    script_charge(p->L, 1 + count / WORK_BYTES);
    str_add_bytes(p->out, bytes, count);
}

static void
put_byte(struct pack *p, enum packed byte)
{
    char c = (char)byte;
    pack_bytes(p, &c, 1);
}

static void
pack_u32(struct pack *p, uint32_t number)
{
    pack_bytes(p, &number, sizeof number);
}

static void
pack_text(struct pack *p, const char *text, size_t length)
{
    pack_u32(p, (uint32_t)length);
    pack_bytes(p, text, length);
    pack_bytes(p, "", 1);
}

static bool pack_value(struct pack *p, int index);

static bool
refuse_packing(struct pack *p, const char *what)
{
    const char *into = p->parcel->into != NULL ? p->parcel->into : "another rank";
    if (p->upvalue != NULL)
        snprintf(p->why, sizeof p->why, "%s cannot be copied into %s (reached through '%s')", what, into, p->upvalue);
    else
        snprintf(p->why, sizeof p->why, "%s cannot be copied into %s", what, into);
    return false;
}

/* The object at `index` gets the next number. */
static void
remember_packed(struct pack *p, int index)
{
    lua_pushvalue(p->L, index);
    lua_pushinteger(p->L, p->next++);
    lua_rawset(p->L, p->seen);
}

/* The object at the top becomes its path in every state; nil: it has none. */
static void
push_path(struct pack *p)
{
    lua_State *L = p->L;
    if (lua_isnil(L, p->permanents)) {
        permanents_push(L);
        lua_replace(L, p->permanents);
    }
    lua_rawget(L, p->permanents);
}

/* true: it was packed before, or every state has it; a reference was written. */
static bool
pack_known(struct pack *p, int index)
{
    lua_State *L = p->L;
    lua_pushvalue(L, index);
    if (lua_rawget(L, p->seen) == LUA_TNUMBER) {
        put_byte(p, PACKED_REF);
        pack_u32(p, (uint32_t)lua_tointeger(L, -1));
        lua_pop(L, 1);
        return true;
    }
    lua_pushvalue(L, index);
    push_path(p);
    size_t      length = 0;
    bool        known  = lua_type(L, -1) == LUA_TSTRING;
    const char *path   = lua_tolstring(L, -1, &length);
    if (known) {
        put_byte(p, PACKED_PERMANENT);
        pack_text(p, path, length);
    }
    lua_pop(L, 2);
    return known;
}

/* ---- tables ---- */

struct packed_key { int rank; double number; const char *text; size_t length; int at; };

static int
by_key(const void *left, const void *right)
{
    const struct packed_key *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank - b->rank;
    if (a->rank == 0 && a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->rank == 1) {
        size_t shorter = a->length < b->length ? a->length : b->length;
        int    order   = memcmp(a->text, b->text, shorter);
        if (order == 0)
            order = a->length < b->length ? -1 : a->length > b->length;
        if (order != 0)
            return order;
    }
    return a->at - b->at;
}

/* Pushes a list of the table's keys: numbers, texts, then others as they come. Answers how many. */
static int
push_keys(lua_State *L, int index)
{
    int count = 0, at = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1))
        count++;
    lua_createtable(L, count, 0);
    struct packed_key *keys = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *keys, 0);
    lua_createtable(L, count, 0);
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        struct packed_key key = { .rank = 2, .at = ++at };
        if (lua_type(L, -2) == LUA_TNUMBER)
            key.rank = 0, key.number = lua_tonumber(L, -2);
        else if (lua_type(L, -2) == LUA_TSTRING)
            key.rank = 1, key.text = lua_tolstring(L, -2, &key.length);
        keys[at - 1] = key;
        lua_pushvalue(L, -2);
        lua_rawseti(L, -4, at);
    }
    qsort(keys, (size_t)at, sizeof *keys, by_key);
    for (int i = 0; i < at; i++) {
        lua_rawgeti(L, -1, keys[i].at);
        lua_rawseti(L, -4, i + 1);
    }
    lua_pop(L, 2);
    return at;
}

/* Every key and value of the table, then END. */
static bool
pack_entries(struct pack *p, int index)
{
    lua_State *L     = p->L;
    int        count = push_keys(L, index), keys = lua_gettop(L);
    bool       ok    = true;
    for (int i = 1; i <= count && ok; i++) {
        lua_rawgeti(L, keys, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, index);
        ok = pack_value(p, keys + 1) && pack_value(p, keys + 2);
        lua_settop(L, keys);
    }
    lua_pop(L, 1);
    put_byte(p, PACKED_END);
    return ok;
}

static bool
pack_table(struct pack *p, int index)
{
    put_byte(p, PACKED_TABLE);
    remember_packed(p, index);
    if (!pack_entries(p, index))
        return false;
    if (!lua_getmetatable(p->L, index))
        lua_pushnil(p->L);
    bool ok = pack_value(p, lua_gettop(p->L));
    lua_pop(p->L, 1);
    return ok;
}

/* ---- functions ---- */

static int
write_bytecode(lua_State *L, const void *bytes, size_t count, void *context)
{
    (void)L;
    str_add_bytes(context, bytes, count);
    return 0;
}

/* Upvalue `n` of the function at `index`: one that two functions share stays shared. */
static bool
pack_upvalue(struct pack *p, int index, int n)
{
    lua_State *L  = p->L;
    void      *id = lua_upvalueid(L, index, n);
    if (lua_rawgetp(L, p->upvalues, id) == LUA_TNUMBER) {
        put_byte(p, PACKED_OLD_UPVALUE);
        pack_u32(p, (uint32_t)lua_tointeger(L, -1));
        lua_pop(L, 1);
        return true;
    }
    lua_pop(L, 1);
    lua_pushinteger(L, p->next_upvalue++);
    lua_rawsetp(L, p->upvalues, id);
    put_byte(p, PACKED_NEW_UPVALUE);
    const char *outer = p->upvalue, *name = lua_getupvalue(L, index, n);
    if (name != NULL && name[0] != '\0' && strcmp(name, "_ENV") != 0)
        p->upvalue = name;
    bool ok    = pack_value(p, lua_gettop(L));
    p->upvalue = outer;
    lua_pop(L, 1);
    return ok;
}

static bool
pack_function(struct pack *p, int index)
{
    lua_State *L       = p->L;
    struct str code    = { 0 };
    int        count   = 0;
    bool       ok      = true;
    while (lua_getupvalue(L, index, count + 1) != NULL) {
        lua_pop(L, 1);
        count++;
    }
    put_byte(p, PACKED_FUNCTION);
    remember_packed(p, index);
    lua_pushvalue(L, index);
    lua_dump(L, write_bytecode, &code, 0);
    lua_pop(L, 1);
    pack_text(p, str_text(&code), code.len);
    p->out->broken = p->out->broken || !str_ok(&code);
    str_free(&code);
    pack_u32(p, (uint32_t)count);
    for (int n = 1; n <= count && ok; n++)
        ok = pack_upvalue(p, index, n);
    return ok;
}

/* A C function is the same in every state; its upvalues are values. */
static bool
pack_builtin(struct pack *p, int index)
{
    lua_State    *L        = p->L;
    lua_CFunction function = lua_tocfunction(L, index);
    uint32_t      count    = 0;
    bool          ok       = true;
    while (lua_getupvalue(L, index, (int)count + 1) != NULL) {
        lua_pop(L, 1);
        count++;
    }
    put_byte(p, PACKED_BUILTIN);
    pack_bytes(p, &function, sizeof function);
    pack_u32(p, count);
    for (uint32_t n = 1; n <= count && ok; n++) {
        lua_getupvalue(L, index, (int)n);
        ok = pack_value(p, lua_gettop(L));
        lua_pop(L, 1);
    }
    return ok;
}

/* ---- tensors and modules ---- */

/* By value, contiguous, without its graph. */
static bool
pack_tensor(struct pack *p, int index)
{
    lua_State           *L      = p->L;
    struct tensor       *tensor = check_any_tensor(L, index);
    struct packed_tensor head   = { .dtype = (int32_t)tensor->dtype, .dims = tensor->dims,
                                    .device        = tensor_device(tensor),
                                    .requires_grad = tensor->requires_grad && tensor->grad_fn == NULL,
                                    .is_parameter = tensor->is_parameter,
                                    .uninitialized = tensor->uninitialized };
    memcpy(head.size, tensor->size, sizeof head.size);
    size_t       bytes = (size_t)tensor_bytes(tensor);
    void        *copy  = lua_newuserdatauv(L, bytes + 1, 0);
    struct task *me    = script_task(L);
    struct call  call  = call_open(L, me, CALL_PLAIN);
    bool         read  = tensor_read(me, tensor, copy);
    call_done(&call, read);
    put_byte(p, PACKED_TENSOR);
    remember_packed(p, index);
    pack_bytes(p, &head, sizeof head);
    pack_bytes(p, copy, bytes);
    lua_pop(L, 1);
    return true;
}

/* Names with what stands behind them, then END. */
static bool
pack_members(struct pack *p, const struct module_table *table, bool children)
{
    lua_State *L = p->L;
    for (int i = 0; i < table->count; i++) {
        put_byte(p, PACKED_TEXT);
        pack_text(p, table->entries[i].name, strlen(table->entries[i].name));
        if (children)
            push_module(L, table->entries[i].module);
        else
            push_tensor(L, table->entries[i].tensor);
        bool ok = pack_value(p, lua_gettop(L));
        lua_pop(L, 1);
        if (!ok)
            return false;
    }
    put_byte(p, PACKED_END);
    return true;
}

/* Of a script's module: its class first, through which it may itself be reached; then it is new or not (`again`). */
static bool
pack_script_module(struct pack *p, int index, const struct module *module, bool *again)
{
    lua_State *L = p->L;
    put_byte(p, PACKED_MODULE);
    lua_getiuservalue(L, index, 2);
    bool ok = pack_value(p, lua_gettop(L));
    lua_pop(L, 1);
    *again = ok && pack_known(p, index);
    if (!ok || *again)
        return ok;
    put_byte(p, PACKED_MODULE);
    remember_packed(p, index);
    put_byte(p, module->training ? PACKED_TRUE : PACKED_FALSE);
    object_push(L, module_attributes(module));
    ok = lua_istable(L, -1) && pack_entries(p, lua_gettop(L));
    lua_pop(L, 1);
    return ok;
}

static bool
pack_layer(struct pack *p, int index, const struct module *module)
{
    struct packed_layer head = { .type = module->type, .training = module->training };
    memcpy(head.integers, module->integers, sizeof head.integers);
    memcpy(head.numbers, module->numbers, sizeof head.numbers);
    if (module->script != NULL || module->is_replica) {
        char what[100];
        snprintf(what, sizeof what, "a %.60s (wrap the module where it is used)", module->type->name);
        return refuse_packing(p, what);
    }
    put_byte(p, PACKED_LAYER);
    remember_packed(p, index);
    pack_bytes(p, &head, sizeof head);
    return true;
}

static bool
pack_module(struct pack *p, int index)
{
    struct module *module = check_module(p->L, index);
    bool           script = module_is_script(module) && !module->is_replica, again = false;
    if (!(script ? pack_script_module(p, index, module, &again) : pack_layer(p, index, module)))
        return false;
    return again || (pack_members(p, &module->parameters, false) && pack_members(p, &module->buffers, false) &&
                     pack_members(p, &module->children, true));
}

/* ---- any value ---- */

static bool
pack_object(struct pack *p, int index)
{
    lua_State *L = p->L;
    switch (lua_type(L, index)) {
    case LUA_TTABLE: return pack_table(p, index);
    case LUA_TFUNCTION: return lua_iscfunction(L, index) ? pack_builtin(p, index) : pack_function(p, index);
    case LUA_TTHREAD: return refuse_packing(p, "a coroutine");
    case LUA_TUSERDATA: break;
    default: return refuse_packing(p, luaL_typename(L, index));
    }
    if (test_tensor(L, index) != NULL)
        return pack_tensor(p, index);
    if (test_module(L, index) != NULL)
        return pack_module(p, index);
    if (luaL_testudata(L, index, box_metatable(BOX_STORE)) != NULL)
        return refuse_packing(p, "a store (each rank opens its own: dist.TCPStore or dist.FileStore by its address)");
    luaL_getmetafield(L, index, "__name");
    char what[80];
    snprintf(what, sizeof what, "a %.60s", lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "userdata");
    return refuse_packing(p, what);
}

static bool
pack_value(struct pack *p, int index)
{
    lua_State  *L = p->L;
    lua_Integer integer = lua_tointeger(L, index);
    lua_Number  number  = lua_tonumber(L, index);
    void       *pointer = lua_touserdata(L, index);
    size_t      length  = 0;
    switch (lua_type(L, index)) {
    case LUA_TNIL: put_byte(p, PACKED_NIL); return true;
    case LUA_TBOOLEAN: put_byte(p, lua_toboolean(L, index) ? PACKED_TRUE : PACKED_FALSE); return true;
    case LUA_TNUMBER:
        put_byte(p, lua_isinteger(L, index) ? PACKED_INTEGER : PACKED_NUMBER);
        pack_bytes(p, lua_isinteger(L, index) ? (const void *)&integer : (const void *)&number, 8);
        return true;
    case LUA_TSTRING:
        put_byte(p, PACKED_TEXT);
        lua_tolstring(L, index, &length);
        pack_text(p, lua_tostring(L, index), length);
        return true;
    case LUA_TLIGHTUSERDATA:
        put_byte(p, PACKED_POINTER);
        pack_bytes(p, &pointer, sizeof pointer);
        return true;
    }
    luaL_checkstack(L, 20, "nested too deeply to be copied");
    if (pack_known(p, index))
        return true;
    if (p->depth >= COPY_DEPTH)
        return refuse_packing(p, "something nested so deeply");
    p->depth++;
    bool ok = pack_object(p, index);
    p->depth--;
    return ok;
}

/* ---- the lesson's globals ---- */

/* Forgets what was numbered from `next` on. */
static void
roll_back(struct pack *p, int table, uint32_t next)
{
    lua_State *L = p->L;
    for (lua_pushnil(L); lua_next(L, table) != 0;) {
        bool late = lua_tointeger(L, -1) >= next;
        lua_pop(L, 1);
        if (!late)
            continue;
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, table); /* clearing a field during a traversal is allowed */
    }
}

/* Names and values of globals that are not the state's own, then END. What cannot be copied stays behind: the rank
 * may never ask for it. */
static void
pack_globals(struct pack *p)
{
    lua_State *L = p->L;
    lua_pushglobaltable(L);
    int globals = lua_gettop(L), count = push_keys(L, globals), keys = lua_gettop(L);
    for (int i = 1; i <= count; i++) {
        struct pack saved = *p;
        size_t      used  = p->out->len;
        lua_rawgeti(L, keys, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, globals);
        lua_pushfstring(L, "G\1%s", lua_type(L, keys + 1) == LUA_TSTRING ? lua_tostring(L, keys + 1) : "");
        lua_pushvalue(L, keys + 2);
        push_path(p);
        bool own = lua_rawequal(L, -1, -2) || lua_rawequal(L, keys + 2, globals);
        lua_settop(L, keys + 2);
        if (!own && !(pack_value(p, keys + 1) && pack_value(p, keys + 2)) && str_ok(p->out)) {
            p->out->len = used;
            roll_back(p, p->seen, saved.next);
            roll_back(p, p->upvalues, saved.next_upvalue);
            p->next         = saved.next;
            p->next_upvalue = saved.next_upvalue;
            p->depth        = saved.depth;
            p->upvalue      = saved.upvalue;
        }
        lua_settop(L, keys);
    }
    lua_settop(L, globals - 1);
    put_byte(p, PACKED_END);
}

void
parcel_pack(lua_State *L, struct parcel *parcel, int first, int count, bool globals)
{
    int         top = lua_gettop(L);
    struct pack p   = { .L = L, .parcel = parcel, .out = &parcel->bytes };
    bool        ok  = true;
    luaL_checkstack(L, 20, "out of memory for Lua's stack");
    lua_newtable(L);
    p.seen = lua_gettop(L);
    lua_newtable(L);
    p.upvalues = lua_gettop(L);
    lua_pushnil(L);
    p.permanents = lua_gettop(L);
    for (int i = 0; i < count && ok; i++)
        ok = pack_value(&p, first + i);
    parcel->values = (uint32_t)count;
    if (ok && globals)
        pack_globals(&p);
    else if (ok)
        put_byte(&p, PACKED_END);
    lua_settop(L, top);
    if (!ok)
        raise_error(L, "TypeError", "%s", p.why);
    if (!str_ok(&parcel->bytes))
        raise_error(L, "MemoryError", "out of memory");
}

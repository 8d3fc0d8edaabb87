/* rs.distributed's stores: keys that ranks and processes see. As torch.distributed.Store and its kinds; dist.store is
 * the world's own, which needs no making. Timeouts are seconds; a key has no NUL, a value any bytes.
 *
 * Interface: store_at, lua_open_store. */
#include "c10d/store.h"
#include <math.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "c10d/rendezvous.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "sched/task.h"

/* ---- which store, which keys ---- */

static bool
is_world_store(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) != LUA_TTABLE)
        return false;
    open_namespace(L, "distributed.store", NULL, 0);
    bool is = lua_rawequal(L, index, -1);
    lua_pop(L, 1);
    return is;
}

/* NULL: it is no store. */
struct store *
store_at(lua_State *L, int index)
{
    struct store *store = box_test(L, index, BOX_STORE);
    if (store == NULL && is_world_store(L, index))
        store = world_store(rank_here(L)->context.world);
    return store;
}

/* The text at `index`, which is called `what` in messages. */
static const char *
key_at(lua_State *L, int index, const char *what)
{
    if (lua_type(L, index) != LUA_TSTRING)
        raise_error(L, "TypeError", "%s of a store is a text, not a %s", what, luaL_typename(L, index));
    size_t      length = 0;
    const char *key    = lua_tolstring(L, index, &length);
    if (strlen(key) != length)
        raise_error(L, "ValueError", "%s of a store cannot have a NUL in it", what);
    return key;
}

/* A method of a store, which comes first and is taken away. */
struct store_call { struct task *me; struct store *store; struct arguments a; struct call call; };

/* An argument that is read as a text ends at its first NUL: a key, by its place or by its name. */
static void
refuse_nul(lua_State *L)
{
    bool by_name = lua_istable(L, 2);
    if (by_name) {
        lua_pushliteral(L, "key");
        lua_rawget(L, 2);
    }
    int index = by_name ? lua_gettop(L) : 2;
    if (lua_type(L, index) == LUA_TSTRING)
        key_at(L, index, "a key");
    if (by_name)
        lua_pop(L, 1);
}

static void
take_store_call(lua_State *L, const char *name, int most, struct store_call *out)
{
    int given  = lua_gettop(L) - 1;
    out->me    = script_task(L);
    out->store = store_at(L, 1);
    if (out->store == NULL)
        raise_error(L, "TypeError", "dist.store.%s is a method: write dist.store:%s(...)", name, name);
    if (given > most && !lua_istable(L, -1))
        raise_error(L, "TypeError", "%s takes %d argument%s, but %d were given", name, most, most == 1 ? "" : "s",
                    given);
    refuse_nul(L);
    lua_remove(L, 1);
    take_arguments(L, &out->a);
}

/* Nothing was collected since the store was taken from the stack; from here on the call holds it. */
static void
open_store_call(lua_State *L, struct store_call *s)
{
    s->call = call_open(L, s->me, CALL_BACK);
    born(s->me, store_ref(s->store), store_drop);
}

static struct store_text
value_at(lua_State *L, int index, const char *name)
{
    struct store_text value = { NULL, 0 };
    if (!lua_isstring(L, index))
        raise_error(L, "TypeError", "argument 2 of %s: expected a text, got %s", name, luaL_typename(L, index));
    value.bytes = lua_tolstring(L, index, &value.count);
    return value;
}

/* A list of texts, or one; the array and the texts stay on the stack. */
static const char *const *
keys_at(lua_State *L, int index, int *count)
{
    *count = 1;
    if (lua_type(L, index) == LUA_TSTRING) {
        const char **one = lua_newuserdatauv(L, sizeof *one, 0);
        *one             = key_at(L, index, "a key");
        return one;
    }
    if (!lua_istable(L, index))
        raise_error(L, "TypeError", "keys of a store are a list of texts, not a %s", luaL_typename(L, index));
    list_only(L, index);
    size_t length = lua_rawlen(L, index);
    if (length > STORE_KEYS)
        raise_error(L, "ValueError", "%zu keys in one call of a store: at most %d are possible", length, STORE_KEYS);
    const char **keys = lua_newuserdatauv(L, (length + 1) * sizeof *keys, 1);
    lua_createtable(L, (int)length, 0);
    for (size_t i = 0; i < length; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        keys[i] = key_at(L, -1, "a key");
        lua_rawseti(L, -2, (lua_Integer)i + 1); /* kept even if the lesson changes its list meanwhile */
    }
    lua_setiuservalue(L, -2, 1);
    *count = (int)length;
    return keys;
}

static const struct store_text *
values_at(lua_State *L, int index, int count)
{
    if (!lua_istable(L, index) || (int)lua_rawlen(L, index) != count)
        raise_error(L, "ValueError", "multi_set takes two lists of the same length, keys and values");
    list_only(L, index);
    struct store_text *values = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *values, 1);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, index, i + 1);
        values[i] = value_at(L, -1, "multi_set");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setiuservalue(L, -2, 1);
    return values;
}

static uint64_t
timeout_of(lua_State *L, const struct argument *seconds)
{
    const double LONGEST = 1e6;
    if (seconds->none)
        return STORE_TIMEOUT;
    if (isnan(seconds->number) || seconds->number < 0)
        raise_error(L, "ValueError", "a timeout of %f: it is a number of seconds", seconds->number);
    return (uint64_t)((seconds->number < LONGEST ? seconds->number : LONGEST) * 1e12);
}

static int
answer_text(struct store_call *s, bool ok, const struct store_text *text)
{
    call_end(&s->call, ok);
    lua_pushlstring(s->call.L, text->bytes, text->count);
    return call_leave(&s->call, 1);
}

static int
answer_flag(struct store_call *s, bool ok, bool flag)
{
    call_end(&s->call, ok);
    lua_pushboolean(s->call.L, flag);
    return call_leave(&s->call, 1);
}

static int
answer_texts(struct store_call *s, bool ok, const struct store_text *texts, int count)
{
    call_end(&s->call, ok);
    lua_createtable(s->call.L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushlstring(s->call.L, texts[i].bytes, texts[i].count);
        lua_rawseti(s->call.L, -2, i + 1);
    }
    return call_leave(&s->call, 1);
}

/* ---- keys and values ---- */

/* A key and a value, in the words of its kind. */
static int
put(lua_State *L, const char *name, bool (*put_it)(struct task *, struct store *, const char *, const void *, size_t))
{
    struct store_call s;
    take_store_call(L, name, 2, &s);
    const char       *key   = s.a.at[0].text;
    struct store_text value = value_at(L, (int)s.a.at[1].integer[0], name);
    open_store_call(L, &s);
    bool ok = put_it(s.me, s.store, key, value.bytes, value.count);
    return call_done(&s.call, ok);
}

static int
l_store_set(lua_State *L)
{
    return put(L, "set", store_set);
}

static int
l_store_append(lua_State *L)
{
    return put(L, "append", store_append);
}

static int
l_store_queue_push(lua_State *L)
{
    return put(L, "queue_push", store_queue_push);
}

static int
l_store_get(lua_State *L)
{
    struct store_call s;
    void             *bytes = NULL;
    size_t            count = 0;
    take_store_call(L, "get", 1, &s);
    const char *key = s.a.at[0].text;
    open_store_call(L, &s);
    bool ok = store_get(s.me, s.store, key, &bytes, &count);
    return answer_text(&s, ok, &(struct store_text){ bytes, count });
}

static int
l_store_wait(lua_State *L)
{
    struct store_call s;
    int               count = 0;
    take_store_call(L, "wait", 2, &s);
    const char *const *keys    = keys_at(L, (int)s.a.at[0].integer[0], &count);
    uint64_t           timeout = timeout_of(L, &s.a.at[1]);
    open_store_call(L, &s);
    bool ok = store_wait(s.me, s.store, keys, count, timeout);
    return call_done(&s.call, ok);
}

static int
l_store_add(lua_State *L)
{
    struct store_call s;
    take_store_call(L, "add", 2, &s);
    const char *key = s.a.at[0].text;
    open_store_call(L, &s);
    int64_t value = store_add(s.me, s.store, key, s.a.at[1].integer[0]);
    return call_integer(&s.call, !task_failed(s.me), value);
}

static int
l_store_compare_set(lua_State *L)
{
    struct store_call s;
    struct store_text now = { NULL, 0 };
    take_store_call(L, "compare_set", 3, &s);
    const char       *key     = s.a.at[0].text;
    struct store_text pair[2] = { value_at(L, (int)s.a.at[1].integer[0], "compare_set"),
                                  value_at(L, (int)s.a.at[2].integer[0], "compare_set") };
    open_store_call(L, &s);
    bool ok = store_compare_set(s.me, s.store, key, pair, &now);
    return answer_text(&s, ok, &now);
}

static int
l_store_check(lua_State *L)
{
    struct store_call s;
    int               count = 0;
    bool              there = false;
    take_store_call(L, "check", 1, &s);
    const char *const *keys = keys_at(L, (int)s.a.at[0].integer[0], &count);
    open_store_call(L, &s);
    bool ok = store_check(s.me, s.store, keys, count, &there);
    return answer_flag(&s, ok, there);
}

static int
l_store_delete_key(lua_State *L)
{
    struct store_call s;
    bool              was_there = false;
    take_store_call(L, "delete_key", 1, &s);
    const char *key = s.a.at[0].text;
    open_store_call(L, &s);
    bool ok = store_delete_key(s.me, s.store, key, &was_there);
    return answer_flag(&s, ok, was_there);
}

static int
l_store_num_keys(lua_State *L)
{
    struct store_call s;
    int64_t           count = 0;
    take_store_call(L, "num_keys", 0, &s);
    open_store_call(L, &s);
    bool ok = store_num_keys(s.me, s.store, &count);
    return call_integer(&s.call, ok, count);
}

static int
l_store_list_keys(lua_State *L)
{
    struct store_call  s;
    struct store_text *keys  = NULL;
    int                count = 0;
    take_store_call(L, "list_keys", 0, &s);
    open_store_call(L, &s);
    bool ok = store_list_keys(s.me, s.store, &keys, &count);
    return answer_texts(&s, ok, keys, count);
}

static int
l_store_multi_get(lua_State *L)
{
    struct store_call s;
    int               count = 0;
    take_store_call(L, "multi_get", 1, &s);
    const char *const *keys   = keys_at(L, (int)s.a.at[0].integer[0], &count);
    struct store_text *values = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *values, 0);
    open_store_call(L, &s);
    bool ok = store_multi_get(s.me, s.store, keys, count, values);
    return answer_texts(&s, ok, values, count);
}

static int
l_store_multi_set(lua_State *L)
{
    struct store_call s;
    int               count = 0;
    take_store_call(L, "multi_set", 2, &s);
    const char *const       *keys   = keys_at(L, (int)s.a.at[0].integer[0], &count);
    const struct store_text *values = values_at(L, (int)s.a.at[1].integer[0], count);
    open_store_call(L, &s);
    bool ok = store_multi_set(s.me, s.store, keys, values, count);
    return call_done(&s.call, ok);
}

/* ---- queues ---- */

static int
l_store_queue_pop(lua_State *L)
{
    struct store_call s;
    struct store_text value = { NULL, 0 };
    take_store_call(L, "queue_pop", 2, &s);
    const char *key = s.a.at[0].text;
    open_store_call(L, &s);
    bool ok = store_queue_pop(s.me, s.store, key, s.a.at[1].integer[0] != 0, &value);
    return answer_text(&s, ok, &value);
}

static int
l_store_queue_len(lua_State *L)
{
    struct store_call s;
    int64_t           count = 0;
    take_store_call(L, "queue_len", 1, &s);
    const char *key = s.a.at[0].text;
    open_store_call(L, &s);
    bool ok = store_queue_len(s.me, s.store, key, &count);
    return call_integer(&s.call, ok, count);
}

/* ---- the store itself ---- */

/* The empty box at stack index `box` gets the store. */
static int
hand_over_store(struct call *call, struct store *store, int box)
{
    call_end(call, store != NULL);
    lua_pushvalue(call->L, box);
    box_fill(call->L, store, store_drop, true);
    return call_leave(call, 1);
}

static int
l_store_clone(lua_State *L)
{
    struct store_call s;
    take_store_call(L, "clone", 0, &s);
    box_push(L, BOX_STORE, 0);
    int box = lua_gettop(L);
    open_store_call(L, &s);
    struct store *clone = store_clone(s.me, s.store);
    return hand_over_store(&s.call, clone, box);
}

static int
l_store_set_timeout(lua_State *L)
{
    struct store_call s;
    take_store_call(L, "set_timeout", 1, &s);
    uint64_t timeout = timeout_of(L, &s.a.at[0]);
    store_set_timeout(s.store, timeout);
    return 0;
}

static int
l_store_barrier(lua_State *L)
{
    struct store_call s;
    take_store_call(L, "barrier", 3, &s);
    const char *key     = s.a.at[0].text;
    int64_t     size    = s.a.at[1].integer[0];
    uint64_t    timeout = timeout_of(L, &s.a.at[2]);
    if (size < 1)
        return raise_error(L, "ValueError", "a barrier of %lld: at least 1 has to come", (long long)size);
    open_store_call(L, &s);
    bool ok = store_barrier(s.me, s.store, key, size, timeout);
    return call_done(&s.call, ok);
}

static int
l_store_has_extended_api(lua_State *L)
{
    struct store_call s;
    take_store_call(L, "has_extended_api", 0, &s);
    lua_pushboolean(L, store_has_extended_api(s.store));
    return 1;
}

/* ---- fields ---- */

static int
push_field(lua_State *L, struct store *store, const char *name)
{
    if (strcmp(name, "timeout") == 0)
        lua_pushnumber(L, (double)store_timeout_ps(store) / 1e12);
    else if (strcmp(name, "host") == 0 && store_tcp_host(store) != NULL)
        lua_pushstring(L, store_tcp_host(store));
    else if (strcmp(name, "port") == 0 && store_tcp_host(store) != NULL)
        lua_pushinteger(L, store_tcp_port(store));
    else if (strcmp(name, "path") == 0 && store_file_path(store) != NULL)
        lua_pushstring(L, store_file_path(store));
    else
        return 0;
    return 1;
}

static int
push_underlying(lua_State *L, struct store *store)
{
    box_push(L, BOX_STORE, 0);
    box_fill(L, store_ref(store_underlying(store)), store_drop, true);
    return 1;
}

/* Upvalue 1: the table of methods. */
static int
store_index(lua_State *L)
{
    struct store *store = box_check(L, 1, BOX_STORE);
    const char   *name  = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    if (push_field(L, store, name) == 1)
        return 1;
    if (strcmp(name, "underlying_store") == 0 && store_underlying(store) != NULL)
        return push_underlying(L, store);
    lua_pushvalue(L, 2);
    if (lua_gettable(L, lua_upvalueindex(1)) != LUA_TNIL)
        return 1;
    const char *fields = store_tcp_host(store) != NULL ? "timeout host port"
                       : store_file_path(store) != NULL ? "timeout path"
                       : store_underlying(store) != NULL ? "timeout underlying_store" : "timeout";
    return no_attribute(L, store_name(store), name, lua_upvalueindex(1), fields);
}

static int
store_tostring(lua_State *L)
{
    struct store *store = box_check(L, 1, BOX_STORE);
    if (store_tcp_host(store) != NULL)
        lua_pushfstring(L, "TCPStore(%s:%d)", store_tcp_host(store), store_tcp_port(store));
    else if (store_file_path(store) != NULL)
        lua_pushfstring(L, "FileStore(%s)", store_file_path(store));
    else
        lua_pushfstring(L, "%s()", store_name(store));
    return 1;
}

/* ---- making ---- */

/* What a function that makes a store begins with: its arguments, and an empty box above them. */
static struct task *
begin_store(lua_State *L, struct arguments *a, int *box)
{
    struct task *me = script_task(L);
    take_arguments(L, a);
    box_push(L, BOX_STORE, 0);
    *box = lua_gettop(L);
    return me;
}

static int
l_hash_store(lua_State *L)
{
    struct arguments a;
    int              box;
    struct task     *me    = begin_store(L, &a, &box);
    struct call      call  = call_open(L, me, CALL_PLAIN);
    struct store    *store = store_hash_new(me, NULL);
    return hand_over_store(&call, store, box);
}

static int
l_file_store(lua_State *L)
{
    struct arguments a;
    int              box;
    struct task     *me = begin_store(L, &a, &box);
    struct store_file_options options = { .path = a.at[0].text, .world_size = a.at[1].integer[0],
                                          .trusted = script_of(L)->options.trusted };
    struct call      call  = call_open(L, me, CALL_BACK);
    struct store    *store = store_file_new(me, &options);
    return hand_over_store(&call, store, box);
}

static int
l_tcp_store(lua_State *L)
{
    struct arguments a;
    int              box;
    struct task     *me = begin_store(L, &a, &box);
    struct store_tcp_options options = { .host = a.at[0].text, .port = a.at[1].integer[0],
                                         .world_size = a.at[2].none ? -1 : a.at[2].integer[0],
                                         .is_master = a.at[3].integer[0] != 0, .timeout_ps = timeout_of(L, &a.at[4]),
                                         .wait_for_workers = a.at[5].integer[0] != 0,
                                         .multi_tenant = a.at[6].integer[0] != 0,
                                         .trusted = script_of(L)->options.trusted };
    struct call      call  = call_open(L, me, CALL_BACK);
    struct store    *store = store_tcp_new(me, &options);
    return hand_over_store(&call, store, box);
}

static int
l_prefix_store(lua_State *L)
{
    struct arguments a;
    int              box;
    struct task     *me    = begin_store(L, &a, &box);
    int              index = (int)a.at[1].integer[0];
    struct store    *inner = store_at(L, index);
    if (inner == NULL)
        return raise_error(L, "TypeError", "argument 2 of PrefixStore: expected a store, got %s",
                           luaL_typename(L, index));
    struct call   call  = call_open(L, me, CALL_PLAIN);
    struct store *store = store_prefix_new(me, a.at[0].text, inner);
    return hand_over_store(&call, store, box);
}

/* A field of the table that stands in for the process's environment; it stays on the stack. NULL: there is none. */
static const char *
environment_at(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, table);
    return lua_isstring(L, -1) ? lua_tostring(L, -1) : NULL;
}

/* dist.rendezvous(url, {rank, world_size, timeout, env}): a store, this rank and the world's size. */
static int
l_rendezvous(lua_State *L)
{
    struct arguments              a;
    struct rendezvous_environment environment;
    struct rendezvous             met = { .rank = -1 };
    int                           box, table;
    struct task                  *me = begin_store(L, &a, &box);
    struct rendezvous_options options = { .rank = a.at[1].integer[0], .world_size = a.at[2].integer[0],
                                          .timeout_ps = timeout_of(L, &a.at[3]),
                                          .trusted = script_of(L)->options.trusted };
    if (!a.at[4].none) {
        table = (int)a.at[4].integer[0];
        environment.rank        = environment_at(L, table, "RANK");
        environment.world_size  = environment_at(L, table, "WORLD_SIZE");
        environment.master_addr = environment_at(L, table, "MASTER_ADDR");
        environment.master_port = environment_at(L, table, "MASTER_PORT");
        options.environment     = &environment;
    }
    struct call call = call_open(L, me, CALL_BACK);
    bool        ok   = rendezvous(me, a.at[0].text, &options, &met);
    hand_over_store(&call, ok ? met.store : NULL, box);
    lua_pushinteger(L, met.rank);
    lua_pushinteger(L, met.world_size);
    return 3;
}

static const struct lua_entry store_entries[] = {
    { "set", l_store_set, "dist.store:set(str key, any value) -> any", "the text of that key from now on" },
    { "get", l_store_get, "dist.store:get(str key) -> any", "waits until the key is there; its text" },
    { "wait", l_store_wait, "dist.store:wait(any keys, float? timeout=None) -> any",
      "waits until all of the keys are there" },
    { "add", l_store_add, "dist.store:add(str key, int amount) -> any",
      "adds to a counter that begins at 0; its new value" },
    { "compare_set", l_store_compare_set,
      "dist.store:compare_set(str key, any expected_value, any desired_value) -> any",
      "sets the key if its text is what was expected, or if it is absent and nothing was; the text after that" },
    { "append", l_store_append, "dist.store:append(str key, any value) -> any", "puts the text behind the key's own" },
    { "check", l_store_check, "dist.store:check(any keys) -> any", "whether all of the keys are there now" },
    { "delete_key", l_store_delete_key, "dist.store:delete_key(str key) -> any",
      "removes the key; whether it was there" },
    { "num_keys", l_store_num_keys, "dist.store:num_keys() -> any",
      "how many keys there are, with those that a FileStore or TCPStore needs itself" },
    { "list_keys", l_store_list_keys, "dist.store:list_keys() -> any", "the keys, sorted" },
    { "multi_get", l_store_multi_get, "dist.store:multi_get(any keys) -> any",
      "waits until all of the keys are there; a list of their texts" },
    { "multi_set", l_store_multi_set, "dist.store:multi_set(any keys, any values) -> any",
      "sets all of the keys at one go" },
    { "queue_push", l_store_queue_push, "dist.store:queue_push(str key, any value) -> any",
      "puts a text at the end of that queue" },
    { "queue_pop", l_store_queue_pop, "dist.store:queue_pop(str key, bool block=True) -> any",
      "takes the first text out of that queue; waits for one unless block is false" },
    { "queue_len", l_store_queue_len, "dist.store:queue_len(str key) -> any", "how many texts are in that queue" },
    { "clone", l_store_clone, "dist.store:clone() -> any", "another store with the same keys" },
    { "set_timeout", l_store_set_timeout, "dist.store:set_timeout(float timeout) -> any",
      "how long waits of this store may take: 300 s unless set" },
    { "barrier", l_store_barrier, "dist.store:barrier(str key, int world_size, float? timeout=None) -> any",
      "waits until so many have come to this key" },
    { "has_extended_api", l_store_has_extended_api, "dist.store:has_extended_api() -> any",
      "whether append, multi_get, multi_set and queues are done at one go" },
};

static const struct lua_entry distributed_entries[] = {
    { "HashStore", l_hash_store, "dist.HashStore() -> any", "a store in the memory of this process" },
    { "FileStore", l_file_store, "dist.FileStore(str file_name, int world_size=-1) -> any",
      "a store in a file, for all who open it; the last of world_size users removes it" },
    { "TCPStore", l_tcp_store,
      "dist.TCPStore(str host_name, int port, int? world_size=None, bool is_master=False, float timeout=300, "
      "bool wait_for_workers=True, bool multi_tenant=False) -> any",
      "a store at a server, which the master runs in a thread of its own" },
    { "PrefixStore", l_prefix_store, "dist.PrefixStore(str prefix, any store) -> any",
      "the keys of another store that begin with the prefix and a slash" },
    { "rendezvous", l_rendezvous,
      "dist.rendezvous(str url, int rank=-1, int world_size=-1, float timeout=300, table? env=None) -> any",
      "how processes find each other: env://, tcp://host:port or file:///path; answers a store, the rank and the "
      "world's size" },
};

void
lua_open_store(lua_State *L)
{
    fill_namespace(L, "distributed", distributed_entries, countof(distributed_entries));
    fill_namespace(L, "distributed.store", store_entries, countof(store_entries));
    box_class(L, BOX_STORE, store_entries, countof(store_entries));
    lua_getfield(L, -1, "__index");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    lua_pushcclosure(L, store_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, store_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
}

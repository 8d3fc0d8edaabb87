/* rs.distributed.store: the keys that all ranks of a world see. As torch.distributed.Store.
 *
 * Interface: lua_open_store. */
#include "base/vec.h"
#include "c10d/group.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "sched/task.h"

static struct store *
store_here(lua_State *L)
{
    return world_store(rank_here(L)->context.world);
}

/* A method of the store, which comes first. */
struct store_call { struct task *me; struct store *store; const char *key; struct arguments a; };

static void
take_store_call(lua_State *L, const char *name, int most, struct store_call *out)
{
    int given  = lua_gettop(L) - 1;
    out->me    = script_task(L);
    out->store = store_here(L);
    if (lua_type(L, 1) != LUA_TTABLE)
        raise_error(L, "TypeError", "dist.store.%s is a method: write dist.store:%s(...)", name, name);
    if (given > most && !lua_istable(L, -1))
        raise_error(L, "TypeError", "%s takes %d argument%s, but %d were given", name, most, most == 1 ? "" : "s",
                    given);
    lua_remove(L, 1);
    take_arguments(L, &out->a);
    out->key = out->a.at[0].text;
}

static int
l_store_set(lua_State *L)
{
    struct store_call s;
    size_t            count = 0;
    take_store_call(L, "set", 2, &s);
    int value = (int)s.a.at[1].integer[0];
    if (!lua_isstring(L, value))
        raise_error(L, "TypeError", "argument 2 of set: expected a text, got %s", luaL_typename(L, value));
    const char *bytes = lua_tolstring(L, value, &count);
    struct call call  = call_open(L, s.me, CALL_BACK);
    bool        ok    = store_set(s.me, s.store, s.key, bytes, count);
    return call_done(&call, ok);
}

static int
wait_for_key(lua_State *L, const char *name, bool answer)
{
    struct store_call s;
    void             *bytes = NULL;
    size_t            count = 0;
    take_store_call(L, name, 1, &s);
    struct call call = call_open(L, s.me, CALL_BACK);
    bool        ok   = store_wait(s.me, s.store, s.key, answer ? &bytes : NULL, &count);
    call_end(&call, ok);
    if (answer)
        lua_pushlstring(L, bytes, count);
    return call_leave(&call, answer);
}

static int
l_store_get(lua_State *L)
{
    return wait_for_key(L, "get", true);
}

static int
l_store_wait(lua_State *L)
{
    return wait_for_key(L, "wait", false);
}

static int
l_store_add(lua_State *L)
{
    struct store_call s;
    take_store_call(L, "add", 2, &s);
    struct call call  = call_open(L, s.me, CALL_BACK);
    int64_t     value = store_add(s.me, s.store, s.key, s.a.at[1].integer[0]);
    return call_integer(&call, !task_failed(s.me), value);
}

static const struct lua_entry store_entries[] = {
    { "set", l_store_set, "dist.store:set(str key, any value) -> any", "the text of that key from now on" },
    { "get", l_store_get, "dist.store:get(str key) -> any", "waits until the key is there; its text" },
    { "wait", l_store_wait, "dist.store:wait(str key) -> any", "waits until the key is there" },
    { "add", l_store_add, "dist.store:add(str key, int amount) -> any",
      "adds to a counter that begins at 0; its new value" },
};

void
lua_open_store(lua_State *L)
{
    fill_namespace(L, "distributed.store", store_entries, countof(store_entries));
}

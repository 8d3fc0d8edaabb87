/* rs.distributed inside a rank: who asks, init_process_group, the store. As torch.distributed; ranks are started by
 * spawn.c; groups.c, collectives.c, p2p.c and work.c have the rest.
 *
 * Interface: lua_open_distributed. */
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "lua/spawn.h"
#include "parallel/reducer.h"
#include "sched/task.h"

/* ---- who asks ---- */

struct rank *
rank_here(lua_State *L)
{
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (rank == NULL)
        raise_error(L, "RuntimeError", "there are no ranks here: dist.spawn(function(rank) ... end, { world = 2 }) "
                                       "starts some");
    return rank;
}

struct process_group *
group_here(lua_State *L)
{
    struct process_group *group = rank_here(L)->context.group;
    if (group == NULL)
        raise_error(L, "RuntimeError", "the default process group has not been initialized: call "
                                       "dist.init_process_group first");
    return group;
}

/* ---- the group ---- */

/* A spawn has met already, so that the first call has nothing to do; the second is PyTorch's error. */
static int
l_init_process_group(lua_State *L)
{
    struct task *me      = script_task(L);
    struct rank *rank    = rank_here(L);
    const char  *backend = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "local";
    if (strcmp(backend, "local") != 0)
        return raise_error(L, "ValueError", "built without the backend '%s'; there is 'local'", backend);
    if (rank->context.group != NULL && !rank->implicit)
        return raise_error(L, "RuntimeError", "trying to initialize the default process group twice!");
    rank->implicit = false;
    if (rank->context.group != NULL)
        return 0;
    struct call call    = call_open(L, me, CALL_BACK);
    rank->context.group = process_group_rendezvous(me, rank->context.world, rank->context.rank);
    return call_done(&call, rank->context.group != NULL);
}

static int
l_destroy_process_group(lua_State *L)
{
    struct task          *me    = script_task(L);
    struct rank          *rank  = rank_here(L);
    struct process_group *group = group_here(L);
    struct call           call  = call_open(L, me, CALL_BACK);
    rank->context.group         = NULL;
    bool ok                     = process_group_destroy(me, group);
    return call_done(&call, ok);
}

static int
l_get_rank(lua_State *L)
{
    script_task(L);
    lua_pushinteger(L, process_group_rank(group_here(L)));
    return 1;
}

static int
l_get_world_size(lua_State *L)
{
    script_task(L);
    lua_pushinteger(L, process_group_size(group_here(L)));
    return 1;
}

static int
l_is_initialized(lua_State *L)
{
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    lua_pushboolean(L, rank != NULL && rank->context.group != NULL);
    return 1;
}

static const struct lua_entry distributed_entries[] = {
    { "spawn", l_spawn, "dist.spawn(function f, *, int? world=None, table? args=None, bool init=True) -> any",
      "starts ranks, each with a Lua state of its own into which f is copied; answers what each returned, by rank" },
    { "init_process_group", l_init_process_group, "dist.init_process_group([backend])",
      "meets the other ranks (a spawn has done so already, unless init=false)" },
    { "destroy_process_group", l_destroy_process_group, "dist.destroy_process_group()", "leaves the group" },
    { "is_initialized", l_is_initialized, "dist.is_initialized()", "whether there is a default group here" },
    { "get_rank", l_get_rank, "dist.get_rank()", "this rank's number" },
    { "get_world_size", l_get_world_size, "dist.get_world_size()", "how many ranks there are" },
    { "_compute_bucket_assignment_by_size", l_bucket_assignment,
      "dist._compute_bucket_assignment_by_size(tensors, limits [, sparse [, indices]])",
      "DDP's buckets: lists of 0-based indices, and the limit of each" },
};

/* ---- the store ---- */

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
lua_open_distributed(lua_State *L)
{
    fill_namespace(L, "distributed.store", store_entries, countof(store_entries));
    open_namespace(L, "distributed", distributed_entries, countof(distributed_entries));
    set_integer(L, -1, "_DEFAULT_FIRST_BUCKET_BYTES", 1048576);
    lua_pop(L, 1);
    lua_open_work(L);
    lua_open_groups(L);
    lua_open_collectives(L);
    lua_open_p2p(L);
    lua_open_algorithms(L);
    lua_open_ddp(L);
}

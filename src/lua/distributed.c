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
        raise_error(L, "ValueError", "there are no ranks here: dist.spawn(function(rank) ... end, { world = 2 }) "
                                       "starts some");
    return rank;
}

struct process_group *
group_here(lua_State *L)
{
    struct process_group *group = rank_here(L)->context.group;
    if (group == NULL)
        raise_error(L, "ValueError", "Default process group has not been initialized: call dist.init_process_group "
                                     "first");
    return group;
}

/* ---- init_process_group ---- */

enum { BACKEND, INIT_METHOD, TIMEOUT, WORLD_SIZE, RANK, STORE, GROUP_NAME, PG_OPTIONS, DEVICE_ID };

/* What was given for an integer of which -1 is none. */
static bool
is_given(const struct argument *number)
{
    return number->given && number->integer[0] != -1;
}

/* PyTorch's order: the store first, then the URL. */
static void
check_meeting(lua_State *L, const struct argument *at)
{
    int64_t world = at[WORLD_SIZE].integer[0], rank = at[RANK].integer[0];
    if (!at[STORE].none && !at[INIT_METHOD].none)
        raise_error(L, "AssertionError", "Cannot specify both init_method and store.");
    if (!at[STORE].none && !(world > 0))
        raise_error(L, "AssertionError", "world_size must be positive if using store");
    if (!at[STORE].none && !(rank >= 0))
        raise_error(L, "AssertionError", "rank must be non-negative if using store");
    if (is_given(&at[WORLD_SIZE]) && world < 1)
        raise_error(L, "ValueError", "world_size is %lld: a world has 1 rank or more", (long long)world);
    if (is_given(&at[RANK]) && (rank < 0 || (is_given(&at[WORLD_SIZE]) && rank >= world)))
        raise_error(L, "ValueError", "rank is %lld, outside the world of %lld", (long long)rank, (long long)world);
}

/* In a spawn, the numbers are those that it gave. */
static void
check_place(lua_State *L, const struct rank *rank, const struct argument *at)
{
    int world = world_size(rank->context.world);
    if (is_given(&at[WORLD_SIZE]) && at[WORLD_SIZE].integer[0] != world)
        raise_error(L, "ValueError", "world_size is %lld, but this world has %d rank%s",
                    (long long)at[WORLD_SIZE].integer[0], world, world == 1 ? "" : "s");
    if (is_given(&at[RANK]) && at[RANK].integer[0] != rank->context.rank)
        raise_error(L, "ValueError", "rank is %lld, but this is rank %d", (long long)at[RANK].integer[0],
                    rank->context.rank);
}

/* Outside a spawn there is one rank, the lesson itself. */
static struct rank *
lone_rank(lua_State *L, struct task *me, const struct argument *at)
{
    int64_t world = at[WORLD_SIZE].integer[0];
    if (is_given(&at[WORLD_SIZE]) && world > 1)
        raise_error(L, "RuntimeError", "a world of %lld ranks: dist.spawn(function(rank) ... end, { world = %lld }) "
                                       "starts them; without it there is one", (long long)world, (long long)world);
    if (!is_given(&at[WORLD_SIZE]) || !is_given(&at[RANK]))
        raise_error(L, "ValueError", "init_process_group needs %s here, as there are no ranks of dist.spawn: "
                                     "{ rank = 0, world_size = 1 } is a world of one",
                    is_given(&at[RANK]) ? "world_size" : "rank");
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (rank != NULL)
        return rank;
    struct call call = call_open(L, me, CALL_PLAIN);
    rank             = lone_rank_new(L, me);
    call_done(&call, rank != NULL);
    return rank;
}

/* A spawn has met already, so that the first call has nothing to do; the second is PyTorch's error. */
static int
l_init_process_group(lua_State *L)
{
    struct task     *me   = script_task(L);
    struct rank     *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    struct arguments a;
    take_arguments(L, &a);
    if (rank != NULL && rank->context.group != NULL && !rank->implicit)
        return raise_error(L, "RuntimeError", "trying to initialize the default process group twice!");
    check_meeting(L, a.at);
    check_device_id(L, me, &a.at[DEVICE_ID]);
    check_backend(L, a.at[BACKEND].none ? NULL : a.at[BACKEND].text);
    uint64_t timeout = timeout_given(L, &a.at[TIMEOUT], &a.at[PG_OPTIONS]);
    if (rank == NULL || rank->spawn == NULL)
        rank = lone_rank(L, me, a.at);
    check_place(L, rank, a.at);
    if (rank->context.group == NULL) {
        struct call call    = call_open(L, me, CALL_BACK);
        rank->context.group = process_group_rendezvous(me, rank->context.world, rank->context.rank);
        call_done(&call, rank->context.group != NULL);
    }
    rank->implicit = false;
    if (timeout != 0)
        process_group_set_timeout(rank->context.group, timeout);
    return 0;
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
    { "init_process_group", l_init_process_group,
      "dist.init_process_group(str? backend=None, str? init_method=None, float? timeout=None, int world_size=-1, "
      "int rank=-1, any? store=None, str group_name=\"\", any? pg_options=None, device? device_id=None) -> any",
      "meets the other ranks (a spawn has done so already, unless init=false)" },
    { "is_initialized", l_is_initialized, "dist.is_initialized()", "whether there is a default group here" },
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
    lua_open_backends(L);
    lua_open_process_group(L);
    lua_open_groups(L);
    lua_open_collectives(L);
    lua_open_p2p(L);
    lua_open_ddp(L);
}

/* rs.distributed inside a rank: who asks, init_process_group. As torch.distributed; ranks are started by spawn.c;
 * groups.c, collectives.c, p2p.c, work.c and store.c have the rest.
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

void
lua_open_distributed(lua_State *L)
{
    open_namespace(L, "distributed", distributed_entries, countof(distributed_entries));
    set_integer(L, -1, "_DEFAULT_FIRST_BUCKET_BYTES", 1048576);
    lua_pop(L, 1);
    lua_open_work(L);
    lua_open_backends(L);
    lua_open_process_group(L);
    lua_open_groups(L);
    lua_open_collectives(L);
    lua_open_p2p(L);
    lua_open_objects(L);
    lua_open_algorithms(L);
    lua_open_store(L);
    lua_open_ddp(L);
}

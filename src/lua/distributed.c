/* rs.distributed inside a rank: who asks, init_process_group. As torch.distributed; ranks are started by spawn.c;
 * groups.c, collectives.c, p2p.c, work.c, store.c and debug_level.c have the rest.
 *
 * Interface: lua_open_distributed. */
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "c10d/job.h"
#include "c10d/rendezvous.h"
#include "c10d/store.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "lua/share.h"
#include "lua/spawn.h"
#include "parallel/reducer.h"
#include "sched/task.h"

/* ---- who asks ---- */

struct rank *
rank_here(lua_State *L)
{
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (script_worker(script_of(L)) >= 0)
        raise_error(L, "ValueError", "a DataLoader worker is in no process group: give the data set rank and "
                                       "world_size when it is made");
    if (rank == NULL && share_job(script_task(L)) != NULL)
        raise_error(L, "ValueError", "Default process group has not been initialized: call dist.init_process_group() "
                                     "first, which makes this process a rank of its job");
    if (rank == NULL)
        raise_error(L, "ValueError", "there are no ranks here: dist.spawn(function(rank) ... end, { world = 2 }) "
                                       "starts some");
    return rank;
}

struct process_group *
group_here(lua_State *L)
{
    struct process_group *group = rank_here(L)->context.group;
    if (group == NULL || (process_group_is_gone(group) && !process_group_runs_on(group, script_task(L))))
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

/* Where the ranks meet: at a store, at an address, or, both NULL, in the world's own store. */
struct meeting { struct store *store; const char *address; struct rendezvous_options options; uint64_t timeout_ps; };

static bool
is_env(const char *address)
{
    return strncmp(address, "env:", 4) == 0;
}

/* What was given, or what the address says; env:// may leave it to a spawn or a job that knows. */
static struct rendezvous
find_place(lua_State *L, struct task *me, const struct rank *rank, struct meeting *meeting)
{
    struct rendezvous_options *options = &meeting->options;
    struct rendezvous          place   = { .rank = options->rank, .world_size = options->world_size };
    const struct job *job = share_job(me);
    bool in_spawn = rank != NULL && rank->spawn != NULL;
    if ((in_spawn || job != NULL) && (meeting->address == NULL || is_env(meeting->address))) {
        int own = in_spawn ? rank->context.rank : job_rank(job);
        int all = in_spawn ? world_size(rank->context.world) : job_size(job);
        options->rank       = place.rank       = place.rank < 0 ? own : place.rank;
        options->world_size = place.world_size = place.world_size < 0 ? all : place.world_size;
    }
    bool known = place.rank >= 0 && place.world_size >= 0;
    if (meeting->store != NULL || (meeting->address == NULL && known))
        return place;
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = rendezvous_place(me, meeting->address != NULL ? meeting->address : "env://", options, &place);
    call_done(&call, ok);
    return place;
}

/* In a spawn, the numbers are those that it gave. */
static void
check_place(lua_State *L, const struct rank *rank, const struct rendezvous *place)
{
    int world = world_size(rank->context.world);
    if (place->world_size != world)
        raise_error(L, "ValueError", "world_size is %lld, but this world has %d rank%s", (long long)place->world_size,
                    world, world == 1 ? "" : "s");
    if (place->rank != rank->context.rank)
        raise_error(L, "ValueError", "rank is %lld, but this is rank %d", (long long)place->rank, rank->context.rank);
}

/* In a job, the numbers are its own: found out before anybody waits for a rank that will not come. */
static void
check_job(lua_State *L, const struct job *job, const struct rendezvous *place)
{
    if (place->world_size != job_size(job))
        raise_error(L, "ValueError", "world_size is %lld, but this job has %d processes", (long long)place->world_size,
                    job_size(job));
    if (place->rank != job_rank(job))
        raise_error(L, "ValueError", "rank is %lld, but this process is rank %d of its job", (long long)place->rank,
                    job_rank(job));
}

/* Outside a spawn there is one rank, the lesson itself; in a job one in each process. */
static struct rank *
lone_rank(lua_State *L, struct task *me, const struct rendezvous *place)
{
    struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    if (share_job(me) != NULL)
        check_job(L, share_job(me), place);
    else if (place->world_size > 1)
        raise_error(L, "RuntimeError", "a world of %lld ranks: dist.spawn(function(rank) ... end, { world = %lld }) "
                                       "starts them in this process; without it there is one",
                    (long long)place->world_size, (long long)place->world_size);
    if (rank != NULL)
        return rank;
    enum debug_level level = debug_level_here(L);
    struct call      call  = call_open(L, me, CALL_BACK);
    rank                   = lone_rank_new(L, me, level);
    call_done(&call, rank != NULL);
    return rank;
}

static bool
meet(struct task *me, struct rank *rank, const struct meeting *meeting)
{
    struct rendezvous met = { .store = meeting->store };
    if (meeting->address != NULL && !rendezvous(me, meeting->address, &meeting->options, &met))
        return false;
    if (met.store != NULL && meeting->store == NULL)
        born(me, met.store, store_drop);
    rank->context.group = process_group_rendezvous_at(me, rank->context.world, rank->context.rank, met.store);
    return rank->context.group != NULL;
}

static struct meeting
take_meeting(lua_State *L, const struct argument *at)
{
    check_meeting(L, at);
    struct meeting meeting = { .timeout_ps = timeout_given(L, &at[TIMEOUT], &at[PG_OPTIONS]),
                               .address = at[INIT_METHOD].none ? NULL : at[INIT_METHOD].text };
    meeting.options = (struct rendezvous_options){
        .rank = at[RANK].integer[0], .world_size = at[WORLD_SIZE].integer[0],
        .timeout_ps = meeting.timeout_ps != 0 ? meeting.timeout_ps : STORE_TIMEOUT,
        .trusted = script_of(L)->options.trusted };
    if (!at[STORE].none && (meeting.store = store_at(L, (int)at[STORE].integer[0])) == NULL)
        raise_error(L, "TypeError", "store: expected a store, got %s", luaL_typename(L, (int)at[STORE].integer[0]));
    return meeting;
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
        return raise_error(L, "ValueError", "trying to initialize the default process group twice: call "
                                            "dist.destroy_process_group first");
    check_device_id(L, me, &a.at[DEVICE_ID]);
    check_backend(L, me, a.at[BACKEND].none ? NULL : a.at[BACKEND].text);
    struct meeting          meeting = take_meeting(L, a.at);
    const struct rendezvous place   = find_place(L, me, rank, &meeting);
    if (rank == NULL || rank->spawn == NULL)
        rank = lone_rank(L, me, &place);
    check_place(L, rank, &place);
    if (rank->context.group != NULL && (meeting.store != NULL || meeting.address != NULL))
        return raise_error(L, "RuntimeError", "the ranks of this spawn have met already: with dist.spawn(f, "
                                              "{ init = false }) they meet where init_process_group says");
    if (rank->context.group == NULL) {
        struct call call = call_open(L, me, CALL_BACK);
        bool        ok   = meet(me, rank, &meeting);
        call_done(&call, ok);
    }
    rank->implicit = false;
    if (meeting.timeout_ps != 0)
        process_group_set_timeout(rank->context.group, meeting.timeout_ps);
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
      "dist._compute_bucket_assignment_by_size(tensors, limits [, sparse [, indices [, logger]]])",
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
    lua_open_debug_level(L);
    lua_open_process_group(L);
    lua_open_groups(L);
    lua_open_flight(L);
    lua_open_collectives(L);
    lua_open_p2p(L);
    lua_open_objects(L);
    lua_open_algorithms(L);
    lua_open_functional_collectives(L);
    lua_open_store(L);
    lua_open_ddp(L);
    lua_open_model_averaging(L);
    lua_open_post_localsgd_optimizer(L);
    lua_open_ddp_inspect(L);
    lua_open_join(L);
    lua_open_sync_batch_norm(L);
}

/* rs.distributed inside a rank: groups, collectives, point to point. As torch.distributed; ranks are
 * started by spawn.c, the store is in store.c. A collective without async_op waits; with it, it answers a Work.
 *
 * Interface: lua_open_distributed. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "lua/spawn.h"
#include "parallel/reducer.h"
#include "sched/task.h"
#include "tensor/tensor.h"

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

static struct process_group *
group_here(lua_State *L)
{
    struct process_group *group = rank_here(L)->context.group;
    if (group == NULL)
        raise_error(L, "RuntimeError", "the default process group has not been initialized: call "
                                       "dist.init_process_group first");
    return group;
}

/* An argument that is a rank of the group. */
static int
peer_of(lua_State *L, const struct argument *rank, struct process_group *group)
{
    int64_t peer = rank->integer[0];
    if (peer < 0 || peer >= process_group_size(group))
        raise_error(L, "ValueError", "rank %lld is not in the group: it has ranks 0 to %d", (long long)peer,
                    process_group_size(group) - 1);
    return (int)peer;
}

/* A function of a rank: who asks, which group, and its arguments. */
struct rank_call { struct task *me; struct process_group *group; struct arguments a; };

static void
take_rank_call(lua_State *L, struct rank_call *out)
{
    out->me    = script_task(L);
    out->group = group_here(L);
    take_arguments(L, &out->a);
}

/* ---- Work ---- */

static void
drop_work(struct task *me, void *work)
{
    work_free(me, work);
}

/* An empty box that keeps the tensor (or list) at `index` alive; filled once the work was issued. */
static void
push_work_box(lua_State *L, int index)
{
    box_push(L, BOX_WORK, 1);
    lua_pushvalue(L, index);
    lua_setiuservalue(L, -2, 1);
}

static void
push_tensor_work(lua_State *L, struct tensor *tensor)
{
    push_tensor(L, tensor);
    push_work_box(L, lua_gettop(L));
}

/* The box is at the top of the stack. */
static int
call_work(lua_State *L, struct call *call, struct work *work)
{
    call_end(call, work != NULL);
    box_fill(L, work, drop_work, false);
    return call_leave(call, 1);
}

static int
l_work_wait(lua_State *L)
{
    struct task *me   = script_task(L);
    struct work *work = box_check(L, 1, BOX_WORK);
    struct call  call = call_open(L, me, CALL_BACK);
    bool         ok   = work_wait(me, work);
    call_end(&call, ok);
    lua_pushboolean(L, 1);
    return call_leave(&call, 1);
}

static int
l_work_is_completed(lua_State *L)
{
    struct task *me   = script_task(L);
    struct work *work = box_check(L, 1, BOX_WORK);
    struct call  call = call_open(L, me, CALL_PLAIN);
    bool         done = work_done(me, work);
    call_end(&call, true);
    lua_pushboolean(L, done);
    return call_leave(&call, 1);
}

static const struct lua_entry work_entries[] = {
    { "wait", l_work_wait, "work:wait()", "waits for the operation; its failure is raised here" },
    { "is_completed", l_work_is_completed, "work:is_completed()", "whether it has ended" },
};

/* ---- collectives ---- */

static const char *const reduce_names[] = { "sum", "avg", "product", "min", "max" };

static enum reduce_op
reduce_op(lua_State *L, const char *name)
{
    for (size_t i = 0; i < countof(reduce_names); i++)
        if (strcasecmp(name, reduce_names[i]) == 0)
            return (enum reduce_op)i;
    raise_error(L, "ValueError", "unknown ReduceOp '%s'; there are SUM, AVG, PRODUCT, MIN and MAX", name);
    return REDUCE_SUM;
}

/* dist.all_reduce(t, op, {async_op, algorithm, direction}) */
static int
l_all_reduce(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    const struct argument    *at        = r.a.at;
    const char               *direction = at[4].text;
    struct collective_options options   = { .op = reduce_op(L, at[1].text), .algorithm = at[3].text,
                                            .ring_backwards = strcmp(direction, "backward") == 0 };
    if (!options.ring_backwards && strcmp(direction, "forward") != 0)
        raise_error(L, "ValueError", "direction is forward (r sends to r + 1) or backward, not '%s'", direction);
    bool later = at[2].integer[0] != 0;
    if (later)
        push_tensor_work(L, at[0].tensor);
    struct call call = call_open(L, r.me, CALL_BACK);
    if (later)
        return call_work(L, &call, group_all_reduce(r.me, r.group, at[0].tensor, &options));
    bool ok = group_all_reduce_now(r.me, r.group, at[0].tensor, &options);
    return call_done(&call, ok);
}

static int
l_broadcast(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    struct tensor *tensor = r.a.at[0].tensor;
    int            root   = peer_of(L, &r.a.at[1], r.group);
    bool           later  = r.a.at[2].integer[0] != 0;
    if (later)
        push_tensor_work(L, tensor);
    struct call call = call_open(L, r.me, CALL_BACK);
    if (later)
        return call_work(L, &call, group_broadcast(r.me, r.group, tensor, root));
    bool ok = group_broadcast_now(r.me, r.group, tensor, root);
    return call_done(&call, ok);
}

/* What the empty slots of an all_gather's list become. */
static bool
fill_outputs(struct task *me, struct tensor *input, struct tensor **outputs, int count)
{
    bool ok = true;
    for (int i = 0; i < count && ok; i++) {
        outputs[i] = tensor_empty(me, input->dtype, tensor_device(input), input->dims, input->size);
        ok         = outputs[i] != NULL;
    }
    return ok;
}

/* dist.all_gather(list, t): an empty list is filled. Answers the list, or a Work. */
static int
l_all_gather(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    struct task          *me    = r.me;
    struct process_group *group = r.group;
    struct tensor        *input = r.a.at[1].tensor;
    int                   size  = process_group_size(group), given = 0, list = (int)r.a.at[0].integer[0];
    bool                  later = r.a.at[2].integer[0] != 0, empty = lua_rawlen(L, list) == 0;
    struct tensor       **outputs = empty ? lua_newuserdatauv(L, (size_t)size * sizeof *outputs, 0)
                                          : check_tensors(L, list, &given);
    if (!empty && given != size)
        return raise_error(L, "ValueError", "all_gather needs a list of %d tensors, one per rank, not %d", size, given);
    if (later)
        push_work_box(L, list);
    struct call  call = call_open(L, me, CALL_BACK);
    struct work *work = NULL;
    bool         ok   = !empty || fill_outputs(me, input, outputs, size);
    if (ok && later)
        ok = (work = group_all_gather(me, group, outputs, input)) != NULL;
    else if (ok)
        ok = group_all_gather_now(me, group, outputs, input);
    call_end(&call, ok);
    if (later)
        box_fill(L, work, drop_work, false);
    for (int i = 0; i < size && empty; i++) {
        push_tensor(L, outputs[i]);
        lua_rawseti(L, list, i + 1);
    }
    if (!later)
        lua_pushvalue(L, list);
    return call_leave(&call, 1);
}

static int
l_barrier(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    bool later = r.a.at[0].integer[0] != 0;
    if (later)
        push_work_box(L, 1);
    struct call call = call_open(L, r.me, CALL_BACK);
    if (later)
        return call_work(L, &call, group_barrier(r.me, r.group));
    bool ok = group_barrier_now(r.me, r.group);
    return call_done(&call, ok);
}

/* ---- point to point ---- */

static int
l_send(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    int         peer = peer_of(L, &r.a.at[1], r.group);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = group_send(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[2].integer[0]);
    return call_done(&call, ok);
}

static int
l_recv(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    int         peer = peer_of(L, &r.a.at[1], r.group);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = group_recv(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[2].integer[0]);
    return call_integer(&call, ok, peer);
}

static int
l_isend(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    int peer = peer_of(L, &r.a.at[1], r.group);
    push_tensor_work(L, r.a.at[0].tensor);
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_work(L, &call, group_isend(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[2].integer[0]));
}

static int
l_irecv(lua_State *L)
{
    struct rank_call r;
    take_rank_call(L, &r);
    int peer = peer_of(L, &r.a.at[1], r.group);
    push_tensor_work(L, r.a.at[0].tensor);
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_work(L, &call, group_irecv(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[2].integer[0]));
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
    { "all_reduce", l_all_reduce,
      "dist.all_reduce(Tensor t, str op=\"sum\", *, bool async_op=False, str? algorithm=None, "
      "str direction=\"forward\") -> any",
      "t becomes the reduction over all ranks' t" },
    { "broadcast", l_broadcast, "dist.broadcast(Tensor t, int src, *, bool async_op=False) -> any",
      "t becomes src's t" },
    { "all_gather", l_all_gather, "dist.all_gather(table list, Tensor t, *, bool async_op=False) -> any",
      "list[r + 1] becomes rank r's t; an empty list is filled; answers the list" },
    { "barrier", l_barrier, "dist.barrier(*, bool async_op=False) -> any",
      "waits until every rank has come" },
    { "send", l_send, "dist.send(Tensor t, int dst, *, int tag=0) -> any", "waits until it was received" },
    { "recv", l_recv, "dist.recv(Tensor t, int src, *, int tag=0) -> any", "fills t; answers the sender's rank" },
    { "isend", l_isend, "dist.isend(Tensor t, int dst, *, int tag=0) -> any", "the same, later: answers a Work" },
    { "irecv", l_irecv, "dist.irecv(Tensor t, int src, *, int tag=0) -> any", "the same, later: answers a Work" },
    { "_compute_bucket_assignment_by_size", l_bucket_assignment,
      "dist._compute_bucket_assignment_by_size(tensors, limits [, sparse [, indices]])",
      "DDP's buckets: lists of 0-based indices, and the limit of each" },
};

void
lua_open_distributed(lua_State *L)
{
    static const char *const ops[] = { "SUM", "AVG", "PRODUCT", "MIN", "MAX" };
    box_class(L, BOX_WORK, work_entries, countof(work_entries));
    lua_pop(L, 1);
    open_namespace(L, "distributed", distributed_entries, countof(distributed_entries));
    lua_createtable(L, 0, (int)countof(ops));
    for (size_t i = 0; i < countof(ops); i++) {
        set_text(L, -1, ops[i], ops[i]);
    }
    lua_setfield(L, -2, "ReduceOp");
    set_integer(L, -1, "_DEFAULT_FIRST_BUCKET_BYTES", 1048576);
    lua_pop(L, 1);
    lua_open_store(L);
    lua_open_ddp(L);
}

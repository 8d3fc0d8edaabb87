/* rs.distributed's collectives: what all ranks of a group do together. With async_op each answers a Work.
 *
 * Interface: lua_open_collectives. */
#include <string.h>
#include <strings.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "tensor/tensor.h"

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
    if (!take_rank_call(L, &r, 2))
        return 0;
    const struct argument    *at        = r.a.at;
    const char               *direction = at[5].text;
    struct collective_options options   = { .op = reduce_op(L, at[1].text), .algorithm = at[4].text,
                                            .ring_forwards = strcmp(direction, "forward") == 0 };
    if (!options.ring_forwards && strcmp(direction, "backward") != 0)
        raise_error(L, "ValueError", "direction is backward (r sends to r - 1, in Gloo's order) or forward, not '%s'",
                    direction);
    bool later = at[3].integer[0] != 0;
    if (later)
        push_tensor_work(L, at[0].tensor);
    struct algorithm_run *own = algorithm_begin(L, options.algorithm, r.group);
    options.custom   = algorithm_custom(own);
    struct call call = call_open(L, r.me, CALL_BACK);
    struct work *work = group_all_reduce(r.me, r.group, at[0].tensor, &options);
    algorithm_issued(r.me, own, work);
    if (later)
        return call_work(L, &call, work);
    bool ok = work != NULL && work_wait(r.me, work);
    work_free(r.me, work);
    return call_done(&call, ok);
}

static int
l_broadcast(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    struct tensor *tensor = r.a.at[0].tensor;
    int            root   = peer_of(L, &r.a.at[1], r.group);
    bool           later  = r.a.at[3].integer[0] != 0;
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
    if (!take_rank_call(L, &r, 2))
        return 0;
    struct task          *me    = r.me;
    struct process_group *group = r.group;
    struct tensor        *input = r.a.at[1].tensor;
    int                   size  = process_group_size(group), given = 0, list = (int)r.a.at[0].integer[0];
    bool                  later = r.a.at[3].integer[0] != 0, empty = lua_rawlen(L, list) == 0;
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
        fill_work_box(L, work);
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
    if (!take_rank_call(L, &r, 0))
        return 0;
    bool later = r.a.at[1].integer[0] != 0;
    if (later)
        push_work_box(L, 1);
    struct call call = call_open(L, r.me, CALL_BACK);
    if (later)
        return call_work(L, &call, group_barrier(r.me, r.group));
    bool ok = group_barrier_now(r.me, r.group);
    return call_done(&call, ok);
}

static const struct lua_entry entries[] = {
    { "all_reduce", l_all_reduce,
      "dist.all_reduce(Tensor t, str op=\"sum\", any? group=None, *, bool async_op=False, "
      "str? algorithm=None, str direction=\"backward\") -> any",
      "t becomes the reduction over all ranks' t" },
    { "broadcast", l_broadcast, "dist.broadcast(Tensor t, int src, any? group=None, *, bool async_op=False) -> any",
      "t becomes src's t" },
 
    { "all_gather", l_all_gather,
      "dist.all_gather(table list, Tensor t, any? group=None, *, bool async_op=False) -> any",
      "list[r + 1] becomes rank r's t; an empty list is filled; answers the list" },
    { "barrier", l_barrier, "dist.barrier(any? group=None, *, bool async_op=False) -> any",
      "waits until every rank has come" },
};

void
lua_open_collectives(lua_State *L)
{
    static const char *const ops[] = { "SUM", "AVG", "PRODUCT", "MIN", "MAX" };
    open_namespace(L, "distributed", entries, countof(entries));
    lua_createtable(L, 0, (int)countof(ops));
    for (size_t i = 0; i < countof(ops); i++)
        set_text(L, -1, ops[i], ops[i]);
    lua_setfield(L, -2, "ReduceOp");
    lua_pop(L, 1);
}

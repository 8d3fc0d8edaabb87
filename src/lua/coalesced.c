/* rs.distributed's collectives of many tensors at once, and the coalescing manager, which makes such a one of the calls
 * in a function. As torch.distributed.all_reduce_coalesced, all_gather_coalesced, _coalescing_manager.
 *
 * Interface: lua_open_coalesced; coalesce_call notes a call where a manager is open. */
#include <string.h>
#include "base/vec.h"
#include "lua/collective.h"
#include "lua/dispatch.h"
#include "tensor/tensor.h"

/* ---- lists ---- */

static int
l_all_reduce_coalesced(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    const struct argument    *at      = r.a.at;
    struct collective_options options = check_reduce_op(L, at[1].text);
    int                       list    = (int)at[0].integer[0], count = 0;
    struct tensor           **tensors = check_tensors(L, list, &count);
    struct collective_call    call    = open_collective(L, &r, at[3].integer[0] != 0, list);
    struct group_tensors      all     = { tensors, count };
    return close_collective(L, &call, group_all_reduce_coalesced(r.me, r.group, &all, &options));
}

/* A list of lists, one for each rank, as one array on the stack. */
static struct tensor **
check_output_lists(lua_State *L, const struct rank_call *r, int lists, int count)
{
    int             size = process_group_size(r->group);
    struct tensor **all  = lua_newuserdatauv(L, ((size_t)size * (size_t)count + 1) * sizeof *all, 1);
    if ((int)lua_rawlen(L, lists) != size)
        raise_error(L, "RuntimeError", "all_gather_coalesced: a list for each of %d ranks is needed, not %d", size,
                    (int)lua_rawlen(L, lists));
    lua_createtable(L, size, 0);
    for (int rank = 0; rank < size; rank++) {
        int given = 0;
        lua_rawgeti(L, lists, rank + 1);
        struct tensor **theirs = check_tensors(L, -1, &given);
        if (given != count)
            raise_error(L, "RuntimeError", "all_gather_coalesced: rank %d's list needs %d tensors, as many as there "
                                           "are inputs, not %d", rank, count, given);
        memcpy(all + (size_t)rank * (size_t)count, theirs, (size_t)count * sizeof *all);
        lua_rawseti(L, -3, rank + 1);    /* kept alive */
        lua_pop(L, 1);
    }
    lua_setiuservalue(L, -2, 1);
    return all;
}

static int
l_all_gather_coalesced(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    const struct argument *at      = r.a.at;
    int                    lists   = (int)at[0].integer[0], count = 0;
    struct tensor        **inputs  = check_tensors(L, (int)at[1].integer[0], &count);
    struct tensor        **outputs = check_output_lists(L, &r, lists, count);
    struct collective_call call    = open_collective(L, &r, at[3].integer[0] != 0, lists);
    struct group_tensors   all     = { inputs, count };
    return close_collective(L, &call, group_all_gather_coalesced(r.me, r.group, outputs, &all));
}

/* ---- the manager ---- */

/* In the registry while a manager is open: {group =, kind =, op =, an output and an input for each call}. */
static const char manager_key[] = "ringside.coalescing";

static bool
is_of(lua_State *L, int manager, const struct process_group *group)
{
    lua_getfield(L, manager, "group");
    bool same = lua_touserdata(L, -1) == group;
    lua_pop(L, 1);
    return same;
}

/* The manager's kind and operation are those of its first call. */
static void
note_kind(lua_State *L, int manager, enum coalesced_kind kind, const char *op)
{
    if (lua_getfield(L, manager, "kind") == LUA_TNIL) {
        lua_pushinteger(L, kind);
        lua_setfield(L, manager, "kind");
        set_text(L, manager, "op", op);
        lua_pop(L, 1);
        return;
    }
    lua_getfield(L, manager, "op");
    if (lua_tointeger(L, -2) != (lua_Integer)kind || strcmp(lua_tostring(L, -1), op) != 0)
        raise_error(L, "ValueError", "a coalescing manager takes calls of one collective with one ReduceOp");
    lua_pop(L, 2);
}

bool
coalesce_call(lua_State *L, const struct rank_call *r, enum coalesced_kind kind)
{
    const struct argument *at    = r->a.at;
    int                    type  = lua_getfield(L, LUA_REGISTRYINDEX, manager_key), manager = lua_gettop(L);
    if (type == LUA_TNIL || !is_of(L, manager, r->group)) {
        lua_pop(L, 1);
        return false;
    }
    int op = kind == COALESCED_ALL_REDUCE ? 1 : 2;
    note_kind(L, manager, kind, kind == COALESCED_ALL_GATHER ? "" : at[op].text);
    push_tensor(L, at[0].tensor);
    lua_rawseti(L, manager, (lua_Integer)lua_rawlen(L, manager) + 1);
    if (kind != COALESCED_ALL_REDUCE) {
        push_tensor(L, at[1].tensor);
        lua_rawseti(L, manager, (lua_Integer)lua_rawlen(L, manager) + 1);
    }
    lua_pop(L, 1);
    return true;
}

/* Each by itself: all-reduces alone are added as one tensor. A rank's collectives end in order, so the last one stands
 * for all. */
static struct work *
issue_each(const struct rank_call *r, struct tensor **pairs, int count, const struct collective_options *options)
{
    struct work *last = NULL;
    for (int i = 0; i < count; i += 2) {
        work_forget(r->me, last);
        last = options == NULL ? group_all_gather_into_tensor(r->me, r->group, pairs[i], pairs[i + 1])
                               : group_reduce_scatter_single(r->me, r->group, pairs[i], pairs[i + 1], options);
        if (last == NULL)
            return NULL;
    }
    return last;
}

/* What the manager at the top of the stack has noted is issued. */
static int
manager_issue(lua_State *L, const struct rank_call *r, bool later)
{
    int                       manager = lua_gettop(L), count = 0;
    struct collective_options options = { .op = REDUCE_SUM };
    if (lua_getfield(L, manager, "kind") == LUA_TNIL)
        return 0;
    enum coalesced_kind kind = (enum coalesced_kind)lua_tointeger(L, -1);
    lua_getfield(L, manager, "op");
    if (kind != COALESCED_ALL_GATHER)
        options = check_reduce_op(L, lua_tostring(L, -1));
    lua_createtable(L, (int)lua_rawlen(L, manager), 0);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, manager); i++) {
        lua_rawgeti(L, manager, i);
        lua_rawseti(L, -2, i);
    }
    int                    list    = lua_gettop(L);
    struct tensor        **tensors = check_tensors(L, list, &count);
    struct collective_call call    = open_collective(L, r, later, list);
    struct group_tensors   all     = { tensors, count };
    struct work *work = kind == COALESCED_ALL_REDUCE
                      ? group_all_reduce_coalesced(r->me, r->group, &all, &options)
                      : issue_each(r, tensors, count, kind == COALESCED_ALL_GATHER ? NULL : &options);
    return close_collective(L, &call, work);
}

static int
l_coalescing_manager(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 1))
        return 0;
    int function = (int)r.a.at[0].integer[0];
    if (lua_getfield(L, LUA_REGISTRYINDEX, manager_key) != LUA_TNIL)
        raise_error(L, "RuntimeError", "a coalescing manager is open already");
    lua_newtable(L);
    int manager = lua_gettop(L);
    lua_pushlightuserdata(L, r.group);
    lua_setfield(L, manager, "group");
    lua_pushvalue(L, manager);
    lua_setfield(L, LUA_REGISTRYINDEX, manager_key);
    lua_pushvalue(L, function);
    bool ok = lua_pcall(L, 0, 0, 0) == LUA_OK;
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, manager_key);
    if (!ok)
        return lua_error(L);
    lua_settop(L, manager);
    return manager_issue(L, &r, r.a.at[3].integer[0] != 0);
}

static const struct lua_entry entries[] = {
    { "all_reduce_coalesced", l_all_reduce_coalesced,
      "dist.all_reduce_coalesced(table tensors, str op=\"sum\", any? group=None, bool async_op=False) -> any",
      "all_reduce of many tensors at once" },
    { "all_gather_coalesced", l_all_gather_coalesced,
      "dist.all_gather_coalesced(table output_tensor_lists, table input_tensor_list, any? group=None, "
      "bool async_op=False) -> any",
      "output_tensor_lists[r + 1] becomes rank r's input_tensor_list" },
    { "_coalescing_manager", l_coalescing_manager,
      "dist._coalescing_manager(function f, any? group=None, any? device=None, bool async_ops=False) -> any",
      "calls f; its calls of one collective are issued as one when it ends" },
};

void
lua_open_coalesced(lua_State *L)
{
    fill_namespace(L, "distributed", entries, countof(entries));
}

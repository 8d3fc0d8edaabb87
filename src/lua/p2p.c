/* rs.distributed's point to point: send, recv, isend, irecv and batches of the last two. Ranks are those of the world
 * (dst, src), or of the group (group_dst, group_src).
 *
 * Interface: lua_open_p2p; peer_given for who sends objects. As torch/distributed/distributed_c10d.py. */
#include <stdio.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "lua/dispatch.h"
#include "lua/rank.h"

static const char P2P_OP[] = "ringside.P2POp";

int
peer_given(lua_State *L, const struct rank_call *r, const struct peer_places *places)
{
    const struct argument *rank = &r->a.at[places->world], *of_group = &r->a.at[places->group];
    if (rank->none == of_group->none)
        raise_error(L, "ValueError", "give %s, a rank of the world, or group_%s, one of the group%s", places->word,
                    places->word, rank->none ? "" : ", not both");
    if (!rank->none)
        return peer_of(L, rank, r->group);
    int64_t peer = of_group->integer[0];
    if (peer < 0 || peer >= process_group_size(r->group))
        raise_error(L, "ValueError", "group_%s = %lld: the group has ranks 0 to %d", places->word, (long long)peer,
                    process_group_size(r->group) - 1);
    return (int)peer;
}

/* send, recv, isend, irecv take (t, peer, group, tag, group_peer). */
struct p2p_call { struct rank_call r; struct tensor *tensor; int peer; int64_t tag; };

static bool
take_p2p(lua_State *L, struct p2p_call *out, bool is_send)
{
    if (!take_rank_call(L, &out->r, 2))
        return false;
    const struct argument *at = out->r.a.at;
    out->tensor = at[0].tensor;
    out->tag    = at[3].integer[0];
    if (!is_send && at[1].none && at[4].none)
        out->peer = ANY_SOURCE;
    else
        out->peer = peer_given(L, &out->r, &(struct peer_places){ 1, 4, is_send ? "dst" : "src" });
    return true;
}

static int
l_send(lua_State *L)
{
    struct p2p_call p;
    if (!take_p2p(L, &p, true))
        return 0;
    struct call call = call_open(L, p.r.me, CALL_BACK);
    bool        ok   = group_send(p.r.me, p.r.group, p.tensor, p.peer, p.tag);
    return call_done(&call, ok);
}

static int
l_recv(lua_State *L)
{
    struct p2p_call p;
    if (!take_p2p(L, &p, false)) {
        lua_pushinteger(L, -1);
        return 1;
    }
    struct call call   = call_open(L, p.r.me, CALL_BACK);
    int         source = p.peer;
    if (p.peer == ANY_SOURCE)
        source = group_recv_any(p.r.me, p.r.group, p.tensor, p.tag);
    else if (!group_recv(p.r.me, p.r.group, p.tensor, p.peer, p.tag))
        source = -1;
    return call_integer(&call, source >= 0, process_group_global_rank(p.r.group, source));
}

static int
l_isend(lua_State *L)
{
    struct p2p_call p;
    if (!take_p2p(L, &p, true))
        return 0;
    push_tensor_work(L, p.tensor);
    struct call call = call_open(L, p.r.me, CALL_BACK);
    return call_work(L, &call, group_isend(p.r.me, p.r.group, p.tensor, p.peer, p.tag));
}

static int
l_irecv(lua_State *L)
{
    struct p2p_call p;
    if (!take_p2p(L, &p, false))
        return 0;
    push_tensor_work(L, p.tensor);
    struct call call = call_open(L, p.r.me, CALL_BACK);
    return call_work(L, &call, group_irecv(p.r.me, p.r.group, p.tensor, p.peer, p.tag));
}

/* ---- batches ---- */

/* dist.P2POp(dist.isend, tensor, peer, group, tag, group_peer): a table of these. */
static int
l_p2p_op(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 3))
        return 0;
    const struct argument *at = r.a.at;
    lua_CFunction          op = lua_tocfunction(L, (int)at[0].integer[0]);
    if (op != l_isend && op != l_irecv)
        return raise_error(L, "ValueError", "a P2POp's op is dist.isend or dist.irecv");
    int peer = peer_given(L, &r, &(struct peer_places){ 2, 5, "peer" });
    lua_createtable(L, 0, 6);
    int table = lua_gettop(L);
    lua_pushvalue(L, (int)at[0].integer[0]);
    lua_setfield(L, table, "op");
    push_tensor(L, at[1].tensor);
    lua_setfield(L, table, "tensor");
    push_group(L, r.group);
    lua_setfield(L, table, "group");
    set_integer(L, table, "tag", at[4].integer[0]);
    set_integer(L, table, "peer", process_group_global_rank(r.group, peer));
    set_integer(L, table, "group_peer", peer);
    luaL_setmetatable(L, P2P_OP);
    return 1;
}

/* The P2POp at the top, which is popped; its group. */
static struct process_group *
read_p2p_op(lua_State *L, struct p2p_op *out)
{
    if (!lua_istable(L, -1) || !has_class(L, -1, P2P_OP))
        raise_error(L, "ValueError", "batch_isend_irecv takes a list of dist.P2POp, this one has a %s",
                    luaL_typename(L, -1));
    int op = lua_gettop(L);
    lua_getfield(L, op, "op");
    lua_getfield(L, op, "tensor");
    lua_getfield(L, op, "group_peer");
    lua_getfield(L, op, "tag");
    lua_getfield(L, op, "group");
    *out = (struct p2p_op){ .is_send = lua_tocfunction(L, op + 1) == l_isend, .tensor = test_tensor(L, op + 2),
                            .peer = (int)lua_tointeger(L, op + 3), .tag = lua_tointeger(L, op + 4) };
    struct process_group *group = box_test(L, op + 5, BOX_GROUP);
    if (out->tensor == NULL || group == NULL)
        raise_error(L, "ValueError", "a P2POp was changed: it has no tensor or no group any more");
    lua_settop(L, op - 1);
    return group;
}

/* A list of works without content, one for each of the `count` ops, at the top. */
static void
push_empty_works(lua_State *L, const struct p2p_op *ops, int count)
{
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_tensor_work(L, ops[i].tensor);
        lua_rawseti(L, -3, i + 1);
        lua_pop(L, 1);
    }
}

static int
l_batch_isend_irecv(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    group_here(L);
    take_arguments(L, &a);
    int list = (int)a.at[0].integer[0], count = lua_istable(L, list) ? (int)lua_rawlen(L, list) : 0;
    if (!lua_istable(L, list))
        return raise_error(L, "ValueError", "batch_isend_irecv takes a list of dist.P2POp, not a %s",
                           luaL_typename(L, list));
    if (count == 0)
        return raise_error(L, "IndexError", "batch_isend_irecv got an empty list");
    struct p2p_op        *ops   = lua_newuserdatauv(L, (size_t)count * sizeof *ops, 0);
    struct work         **works = lua_newuserdatauv(L, (size_t)count * sizeof *works, 0);
    struct process_group *group = NULL;
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, list, i + 1);
        struct process_group *its = read_p2p_op(L, &ops[i]);
        if (group != NULL && group != its)
            return raise_error(L, "ValueError", "all ops of a batch_isend_irecv need the same group");
        group = its;
    }
    push_empty_works(L, ops, count);
    struct call call = call_open(L, me, CALL_BACK);
    bool        ok   = group_batch_isend_irecv(me, group, ops, count, works);
    call_end(&call, ok);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, -1, i + 1);
        fill_work_box(L, works[i]);
        lua_pop(L, 1);
    }
    return call_leave(&call, 1);
}

static const struct lua_entry entries[] = {
    { "send", l_send,
      "dist.send(Tensor t, int? dst=None, any? group=None, int tag=0, int? group_dst=None) -> any",
      "waits until it was received" },
    { "recv", l_recv,
      "dist.recv(Tensor t, int? src=None, any? group=None, int tag=0, int? group_src=None) -> any",
      "fills t, without src from whoever sends first; answers the sender's rank" },
    { "isend", l_isend,
      "dist.isend(Tensor t, int? dst=None, any? group=None, int tag=0, int? group_dst=None) -> any",
      "the same, later: answers a Work" },
    { "irecv", l_irecv,
      "dist.irecv(Tensor t, int? src=None, any? group=None, int tag=0, int? group_src=None) -> any",
      "the same, later: answers a Work" },
    { "P2POp", l_p2p_op,
      "dist.P2POp(function op, Tensor tensor, int? peer=None, any? group=None, int tag=0, int? group_peer=None) -> any",
      "one isend or irecv of a batch_isend_irecv" },
    { "batch_isend_irecv", l_batch_isend_irecv, "dist.batch_isend_irecv(any p2p_op_list) -> any",
      "all of them at once: answers a list of Works" },
};

void
lua_open_p2p(lua_State *L)
{
    luaL_newmetatable(L, P2P_OP);
    set_text(L, -1, "__name", "P2POp");
    lua_pop(L, 1);
    fill_namespace(L, "distributed", entries, countof(entries));
}

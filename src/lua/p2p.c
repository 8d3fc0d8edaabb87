/* rs.distributed's point to point: send, recv and their later forms. Ranks are those of the world.
 *
 * Interface: lua_open_p2p. */
#include "base/vec.h"
#include "c10d/group.h"
#include "lua/dispatch.h"
#include "lua/rank.h"

static int
l_send(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    int         peer = peer_of(L, &r.a.at[1], r.group);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = group_send(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[3].integer[0]);
    return call_done(&call, ok);
}

static int
l_recv(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    int         peer = peer_of(L, &r.a.at[1], r.group);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = group_recv(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[3].integer[0]);
    return call_integer(&call, ok, process_group_global_rank(r.group, peer));
}

static int
l_isend(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    int peer = peer_of(L, &r.a.at[1], r.group);
    push_tensor_work(L, r.a.at[0].tensor);
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_work(L, &call, group_isend(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[3].integer[0]));
}

static int
l_irecv(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    int peer = peer_of(L, &r.a.at[1], r.group);
    push_tensor_work(L, r.a.at[0].tensor);
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_work(L, &call, group_irecv(r.me, r.group, r.a.at[0].tensor, peer, r.a.at[3].integer[0]));
}

static const struct lua_entry entries[] = {
    { "send", l_send, "dist.send(Tensor t, int dst, any? group=None, *, int tag=0) -> any",
      "waits until it was received" },
    { "recv", l_recv, "dist.recv(Tensor t, int src, any? group=None, *, int tag=0) -> any",
      "fills t; answers the sender's rank" },
    { "isend", l_isend, "dist.isend(Tensor t, int dst, any? group=None, *, int tag=0) -> any",
      "the same, later: answers a Work" },
    { "irecv", l_irecv, "dist.irecv(Tensor t, int src, any? group=None, *, int tag=0) -> any",
      "the same, later: answers a Work" },
};

void
lua_open_p2p(lua_State *L)
{
    fill_namespace(L, "distributed", entries, countof(entries));
}

/* rs.distributed's object lists: any values that can be pickled, in place of tensors. They travel as bytes through the
 * ordinary calls, lengths first, so a trace shows what they cost: two collectives, and for an all_gather everybody's
 * bytes padded to the longest.
 *
 * Interface: lua_open_objects. As torch/distributed/distributed_c10d.py, which pickles too. */
#include <string.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "lua/collective.h"
#include "lua/dispatch.h"
#include "lua/pickle.h"
#include "lua/rank.h"
#include "tensor/tensor.h"

/* ---- bytes and lengths as tensors ---- */

/* Pickled values one after the other, in a userdata that was pushed. */
struct bytes { char *all; int64_t *lengths; int64_t count, total; };

static void
pickle_values(lua_State *L, struct bytes *out, int64_t count)
{
    int first = lua_gettop(L) - (int)count + 1;
    out->count   = count;
    out->total   = 0;
    out->lengths = lua_newuserdatauv(L, (size_t)count * sizeof *out->lengths, 0);
    for (int64_t i = 0; i < count; i++)
        out->total += out->lengths[i] = (int64_t)pickle_size(L, first + (int)i);
    out->all = lua_newuserdatauv(L, (size_t)out->total, 0);
    for (int64_t i = 0, at = 0; i < count; at += out->lengths[i++])
        pickle(L, first + (int)i, out->all + at, (size_t)out->lengths[i]);
}

/* The elements of the list at `index`; what is not there is nil. */
static void
pickle_list(lua_State *L, int index, struct bytes *out)
{
    lua_Integer count = (lua_Integer)lua_rawlen(L, index);
    if (count > INT32_MAX / 2)
        raise_error(L, "ValueError", "so many objects do not go into one call");
    luaL_checkstack(L, (int)count + 12, "too many objects");
    for (lua_Integer i = 1; i <= count; i++)
        lua_rawgeti(L, index, i);
    pickle_values(L, out, count);
}

static const char *
elements_of(const struct tensor *tensor)
{
    return (const char *)tensor->storage->data + (size_t)tensor->offset * dtype_size(tensor->dtype);
}

static const int64_t *
lengths_of(const struct tensor *tensor)
{
    return (const int64_t *)(const void *)elements_of(tensor);
}

static struct tensor *
empty_bytes(struct task *me, int64_t count)
{
    return tensor_empty(me, DTYPE_U8, DEVICE_CPU, 1, &count);
}

static struct tensor *
empty_lengths(struct task *me, int64_t count)
{
    return tensor_empty(me, DTYPE_I64, DEVICE_CPU, 1, &count);
}

static struct tensor *
lengths_from(struct task *me, const int64_t *lengths, int64_t count)
{
    return tensor_from(me, DTYPE_I64, 1, &count, lengths);
}

/* With zeros behind them, `room` in all. */
static struct tensor *
padded_bytes(struct task *me, const char *bytes, int64_t count, int64_t room)
{
    struct tensor *padded = tensor_zeros(me, DTYPE_U8, DEVICE_CPU, 1, &room);
    struct tensor *head   = padded != NULL ? tensor_piece(me, padded, 1, &count, 0) : NULL;
    return head != NULL && tensor_write(me, head, bytes) ? padded : NULL;
}

/* Their sum; -1: failed, no such lengths were sent. */
static int64_t
sum_lengths(struct task *me, const int64_t *lengths, int64_t count)
{
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++)
        if (lengths[i] < 0 || __builtin_add_overflow(total, lengths[i], &total)) {
            failed(me, E_RUNTIME, "what was received is no list of objects");
            return -1;
        }
    return total;
}

static int64_t
longest(const int64_t *lengths, int64_t count)
{
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++)
        most = lengths[i] > most ? lengths[i] : most;
    return most;
}

/* What a list of objects travels in: lengths and bytes. In me's scope. */
struct parcels { struct tensor *lengths, *bytes; };

/* Replaces the elements of the list at `index` by what lies in `bytes`. */
static void
unpickle_list(lua_State *L, int index, const struct tensor *bytes, const int64_t *lengths, int64_t count)
{
    const char *at = elements_of(bytes);
    for (int64_t i = 0; i < count; at += lengths[i++]) {
        unpickle(L, at, (size_t)lengths[i]);
        lua_rawseti(L, index, i + 1);
    }
}

static bool
work_through(struct task *me, struct work *work)
{
    bool done = work != NULL && work_wait(me, work);
    work_free(me, work);
    return done;
}

/* ---- all_gather_object ---- */

/* In me's scope: everybody's length and padded bytes, by rank. */
struct gathered { int64_t *lengths; struct tensor **bytes; };

static bool
gather_lengths(struct task *me, struct process_group *group, int64_t mine, struct gathered *out)
{
    int             ranks   = process_group_size(group);
    struct tensor **lengths = scratch_new(me, (size_t)ranks, sizeof *lengths);
    out->lengths            = scratch_new(me, (size_t)ranks, sizeof *out->lengths);
    out->bytes              = scratch_new(me, (size_t)ranks, sizeof(struct tensor *));
    bool ok                 = lengths != NULL && out->lengths != NULL && out->bytes != NULL;
    for (int i = 0; i < ranks && ok; i++)
        ok = (lengths[i] = empty_lengths(me, 1)) != NULL;
    ok = ok && work_through(me, group_all_gather(me, group, lengths, lengths_from(me, &mine, 1)));
    for (int i = 0; i < ranks && ok; i++)
        out->lengths[i] = *lengths_of(lengths[i]);
    return ok && sum_lengths(me, out->lengths, ranks) >= 0;
}

static bool
make_places(struct task *me, struct tensor **bytes, int count, int64_t room)
{
    bool ok = true;
    for (int i = 0; i < count && ok; i++)
        ok = (bytes[i] = empty_bytes(me, room)) != NULL;
    return ok;
}

static bool
all_gather_bytes(struct task *me, struct process_group *group, const struct bytes *mine, struct gathered *out)
{
    int ranks = process_group_size(group);
    if (!gather_lengths(me, group, mine->total, out))
        return false;
    int64_t room = longest(out->lengths, ranks);
    return make_places(me, out->bytes, ranks, room) &&
           work_through(me, group_all_gather(me, group, out->bytes, padded_bytes(me, mine->all, mine->total, room)));
}

/* list[r + 1] becomes rank r's object, for each rank. */
static void
unpickle_gathered(lua_State *L, int list, const struct gathered *from, int ranks)
{
    for (int i = 0; i < ranks; i++) {
        unpickle(L, elements_of(from->bytes[i]), (size_t)from->lengths[i]);
        lua_rawseti(L, list, i + 1);
    }
}

/* The object at `place`, so that it is neither taken for options nor for nothing, becomes a list of it; nil travels as
 * rs.none. push_object pushes it again. */
static void
wrap_object(lua_State *L, int place)
{
    if (lua_gettop(L) < place)
        return;
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, place);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None");
    }
    lua_rawseti(L, -2, 1);
    lua_replace(L, place);
}

static void
push_object(lua_State *L, const struct argument *argument)
{
    lua_rawgeti(L, (int)argument->integer[0], 1);
}

static int
l_all_gather_object(lua_State *L)
{
    struct rank_call r;
    struct bytes     mine = { 0 };
    struct gathered  gathered = { 0 };
    wrap_object(L, 2);
    if (!take_rank_call(L, &r, 2))
        return 0;
    int list = (int)r.a.at[0].integer[0];
    push_object(L, &r.a.at[1]);
    pickle_values(L, &mine, 1);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = all_gather_bytes(r.me, r.group, &mine, &gathered);
    call_end(&call, ok);
    unpickle_gathered(L, list, &gathered, process_group_size(r.group));
    return call_leave(&call, 0);
}

/* ---- gather_object ---- */

static bool
gather_bytes(struct task *me, struct process_group *group, int root, const struct bytes *mine, struct gathered *out)
{
    int  ranks   = process_group_size(group);
    bool is_root = process_group_rank(group) == root;
    if (!gather_lengths(me, group, mine->total, out))
        return false;
    int64_t        room   = longest(out->lengths, ranks);
    struct tensor *padded = padded_bytes(me, mine->all, mine->total, room);
    return padded != NULL && (!is_root || make_places(me, out->bytes, ranks, room)) &&
           work_through(me, group_gather(me, group, is_root ? out->bytes : NULL, padded, root));
}

/* gather_object(obj, {}): the empty list is one, though it is the last argument. */
static void
keep_empty_list(lua_State *L, int place)
{
    if (lua_gettop(L) != place || !is_plain_table(L, place))
        return;
    lua_pushnil(L);
    if (lua_next(L, place) == 0)
        lua_pushinteger(L, 0);
    else
        lua_pop(L, 2);
}

static int
l_gather_object(lua_State *L)
{
    struct rank_call r;
    struct bytes     mine = { 0 };
    struct gathered  gathered = { 0 };
    wrap_object(L, 1);
    keep_empty_list(L, 2);
    if (!take_rank_call(L, &r, 3))
        return 0;
    int  root    = check_root(L, &r, &(struct root_places){ .global = 2, .own = 4, .optional = true });
    bool is_root = process_group_rank(r.group) == root, has_list = !r.a.at[1].none;
    int  list    = has_list ? (int)r.a.at[1].integer[0] : 0;
    if (is_root != has_list)
        return raise_error(L, "ValueError", "gather_object: the rank that receives gives a list, the others do not");
    push_object(L, &r.a.at[0]);
    pickle_values(L, &mine, 1);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = gather_bytes(r.me, r.group, root, &mine, &gathered);
    call_end(&call, ok);
    if (is_root)
        unpickle_gathered(L, list, &gathered, process_group_size(r.group));
    return call_leave(&call, 0);
}

/* ---- scatter_object_list ---- */

/* What the root scatters, in me's scope: everybody's padded bytes and lengths. false: failed. */
static bool
scatter_pieces(struct task *me, const struct bytes *all, int64_t room, struct gathered *out, struct tensor **lengths)
{
    bool        ok = true;
    const char *at = all->all;
    for (int64_t i = 0; i < all->count && ok; at += all->lengths[i++]) {
        out->bytes[i] = padded_bytes(me, at, all->lengths[i], room);
        lengths[i]    = lengths_from(me, &all->lengths[i], 1);
        ok            = out->bytes[i] != NULL && lengths[i] != NULL;
    }
    return ok;
}

/* As PyTorch: the longest length to all, then the bytes, then each rank's own length. */
static bool
scatter_bytes(struct task *me, struct process_group *group, int root, const struct bytes *all, struct parcels *out)
{
    int64_t         room    = all != NULL ? longest(all->lengths, all->count) : 0;
    struct tensor  *most    = lengths_from(me, &room, 1), **lengths = NULL;
    struct gathered pieces  = { 0 };
    if (most == NULL || !work_through(me, group_broadcast(me, group, most, root)))
        return false;
    room         = *lengths_of(most);
    out->bytes   = sum_lengths(me, &room, 1) >= 0 ? empty_bytes(me, room) : NULL;
    out->lengths = empty_lengths(me, 1);
    if (out->bytes == NULL || out->lengths == NULL)
        return false;
    if (all != NULL) {
        lengths      = scratch_new(me, (size_t)all->count, sizeof *lengths);
        pieces.bytes = scratch_new(me, (size_t)all->count, sizeof *pieces.bytes);
        if (lengths == NULL || pieces.bytes == NULL || !scatter_pieces(me, all, room, &pieces, lengths))
            return false;
    }
    return work_through(me, group_scatter(me, group, out->bytes, pieces.bytes, root)) &&
           work_through(me, group_scatter(me, group, out->lengths, lengths, root)) &&
           ((*lengths_of(out->lengths) >= 0 && *lengths_of(out->lengths) <= room) ||
            failed(me, E_RUNTIME, "what was received is no object"));
}

static int
l_scatter_object_list(lua_State *L)
{
    struct rank_call r;
    struct parcels   parcels = { 0 };
    struct bytes     all = { 0 };
    if (!take_rank_call(L, &r, 3))
        return 0;
    struct root_places places = { .global = 2, .own = 4, .optional = true, .is_source = true };
    int  root    = check_root(L, &r, &places), size = process_group_size(r.group);
    int  list    = (int)r.a.at[0].integer[0];
    bool is_root = process_group_rank(r.group) == root;
    if (is_root && (r.a.at[1].none || (int)lua_rawlen(L, (int)r.a.at[1].integer[0]) != size))
        return raise_error(L, "ValueError", "scatter_object_list: the rank that sends gives a list of %d objects, one "
                           "for each rank", size);
    if (is_root)
        pickle_list(L, (int)r.a.at[1].integer[0], &all);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = scatter_bytes(r.me, r.group, root, is_root ? &all : NULL, &parcels);
    call_end(&call, ok);
    unpickle_list(L, list, parcels.bytes, lengths_of(parcels.lengths), 1);
    return call_leave(&call, 0);
}

/* ---- broadcast_object_list ---- */

static bool
broadcast_bytes(struct task *me, struct process_group *group, int root, const struct bytes *mine, struct parcels *out)
{
    bool is_root = process_group_rank(group) == root;
    out->lengths = is_root ? lengths_from(me, mine->lengths, mine->count) : empty_lengths(me, mine->count);
    if (out->lengths == NULL || !work_through(me, group_broadcast(me, group, out->lengths, root)))
        return false;
    int64_t total = sum_lengths(me, lengths_of(out->lengths), mine->count);
    if (total < 0)
        return false;
    out->bytes = is_root ? padded_bytes(me, mine->all, total, total) : empty_bytes(me, total);
    return out->bytes != NULL && work_through(me, group_broadcast(me, group, out->bytes, root));
}

static int
l_broadcast_object_list(lua_State *L)
{
    struct rank_call r;
    struct parcels   parcels = { 0 };
    if (!take_rank_call(L, &r, 2))
        return 0;
    struct root_places places = { .global = 1, .own = 4, .optional = true, .is_source = true };
    int          root    = check_root(L, &r, &places), list = (int)r.a.at[0].integer[0];
    bool         is_root = process_group_rank(r.group) == root;
    struct bytes mine    = { .count = (int64_t)lua_rawlen(L, list) };
    if (mine.count == 0)
        return raise_error(L, "ValueError", "broadcast_object_list needs a list of as many objects as src has, rs.none "
                           "where they are to come");
    if (is_root)
        pickle_list(L, list, &mine);
    struct call call = call_open(L, r.me, CALL_BACK);
    bool        ok   = broadcast_bytes(r.me, r.group, root, &mine, &parcels);
    call_end(&call, ok);
    if (!is_root)
        unpickle_list(L, list, parcels.bytes, lengths_of(parcels.lengths), mine.count);
    return call_leave(&call, 0);
}

/* ---- send_object_list, recv_object_list ---- */

static bool
send_bytes(struct task *me, struct process_group *group, int peer, const struct bytes *mine)
{
    struct tensor *lengths = lengths_from(me, mine->lengths, mine->count);
    return lengths != NULL && group_send(me, group, lengths, peer, 0) &&
           group_send(me, group, padded_bytes(me, mine->all, mine->total, mine->total), peer, 0);
}

static int
l_send_object_list(lua_State *L)
{
    struct rank_call r;
    struct bytes     mine = { 0 };
    if (!take_rank_call(L, &r, 2))
        return 0;
    int peer = peer_given(L, &r, &(struct peer_places){ 1, 4, "dst" });
    pickle_list(L, (int)r.a.at[0].integer[0], &mine);
    if (mine.count == 0)
        return raise_error(L, "ValueError", "send_object_list needs a list of objects, this one is empty");
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_done(&call, send_bytes(r.me, r.group, peer, &mine));
}

/* The bytes come from whoever sent the lengths. Answers who that is; -1: failed. */
static int
recv_bytes(struct task *me, struct process_group *group, int peer, int64_t count, struct parcels *out)
{
    out->lengths = empty_lengths(me, count);
    if (out->lengths == NULL)
        return -1;
    if (peer == ANY_SOURCE)
        peer = group_recv_any(me, group, out->lengths, 0);
    else if (!group_recv(me, group, out->lengths, peer, 0))
        return -1;
    int64_t total = peer >= 0 ? sum_lengths(me, lengths_of(out->lengths), count) : -1;
    out->bytes    = total >= 0 ? empty_bytes(me, total) : NULL;
    return out->bytes != NULL && group_recv(me, group, out->bytes, peer, 0) ? peer : -1;
}

static int
l_recv_object_list(lua_State *L)
{
    struct rank_call r;
    struct parcels   parcels = { 0 };
    if (!take_rank_call(L, &r, 2)) {
        lua_pushinteger(L, -1);
        return 1;
    }
    bool    any   = r.a.at[1].none && r.a.at[4].none;
    int     peer  = any ? ANY_SOURCE : peer_given(L, &r, &(struct peer_places){ 1, 4, "src" });
    int     list  = (int)r.a.at[0].integer[0];
    int64_t count = (int64_t)lua_rawlen(L, list);
    if (count == 0)
        return raise_error(L, "ValueError", "recv_object_list needs a list of as many objects as were sent, rs.none "
                           "where they are to come");
    struct call call = call_open(L, r.me, CALL_BACK);
    peer             = recv_bytes(r.me, r.group, peer, count, &parcels);
    call_end(&call, peer >= 0);
    unpickle_list(L, list, parcels.bytes, lengths_of(parcels.lengths), count);
    lua_pushinteger(L, process_group_global_rank(r.group, peer));
    return call_leave(&call, 1);
}

static const struct lua_entry entries[] = {
    { "all_gather_object", l_all_gather_object,
      "dist.all_gather_object(table object_list, any obj, any? group=None, bool weights_only=False) -> any",
      "object_list[r + 1] becomes a copy of rank r's obj" },
    { "gather_object", l_gather_object,
      "dist.gather_object(any obj, table? object_gather_list=None, int? dst=None, any? group=None, "
      "int? group_dst=None, bool weights_only=False) -> any",
      "on dst object_gather_list[r + 1] becomes a copy of rank r's obj" },
    { "scatter_object_list", l_scatter_object_list,
      "dist.scatter_object_list(table scatter_object_output_list, table? scatter_object_input_list=None, "
      "int? src=None, any? group=None, int? group_src=None, bool weights_only=False) -> any",
      "the first element becomes a copy of this rank's of src's list" },
    { "broadcast_object_list", l_broadcast_object_list,
      "dist.broadcast_object_list(table object_list, int? src=None, any? group=None, any? device=None, "
      "int? group_src=None, bool weights_only=False) -> any",
      "the elements become copies of src's" },
    { "send_object_list", l_send_object_list,
      "dist.send_object_list(table object_list, int? dst=None, any? group=None, any? device=None, "
      "int? group_dst=None, bool use_batch=False, bool weights_only=False) -> any",
      "waits until they were received" },
    { "recv_object_list", l_recv_object_list,
      "dist.recv_object_list(table object_list, int? src=None, any? group=None, any? device=None, "
      "int? group_src=None, bool use_batch=False, bool weights_only=False) -> any",
      "the elements become copies of those sent; answers the sender's rank" },
};

void
lua_open_objects(lua_State *L)
{
    fill_namespace(L, "distributed", entries, countof(entries));
}

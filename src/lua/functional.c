/* Collectives that answer new tensors, with a backward: dist.nn, as torch.distributed.nn.functional, and dist.functional,
 * as torch.distributed._functional_collectives, under both of their names each.
 *
 * Interface: lua_open_functional_collectives. */
#include "c10d/functional.h"

#include "base/number.h"
#include "base/vec.h"
#include "lua/collective.h"
#include "lua/dispatch.h"
#include "tensor/tensor.h"

/* ---- what calls have in common ---- */

/* Reads the arguments; `group` is its place. false: this rank is no member. */
static bool
open_functional(lua_State *L, struct rank_call *r, int group, struct functional *out)
{
    if (!take_rank_call(L, r, group))
        return false;
    *out = (struct functional){ .group = r->group };
    return true;
}

static struct tensor **
push_list_room(lua_State *L, const struct functional *f)
{
    return lua_newuserdatauv(L, ((size_t)process_group_size(f->group) + 1) * sizeof(struct tensor *), 0);
}

static int
call_list(struct call *call, const struct functional *f, bool ok, struct tensor *const *out)
{
    int ranks = process_group_size(f->group);
    call_end(call, ok);
    lua_createtable(call->L, ranks, 0);
    for (int i = 0; i < ranks; i++) {
        push_tensor(call->L, out[i]);
        lua_rawseti(call->L, -2, i + 1);
    }
    return call_leave(call, 1);
}

/* Sizes of the pieces that a tensor is cut into, one for each rank; NULL: equal ones. */
static const int64_t *
check_rows(lua_State *L, const struct functional *f, const struct argument *splits)
{
    if (splits->none || splits->count == 0)
        return NULL;
    if (splits->count != process_group_size(f->group))
        raise_error(L, "RuntimeError", "all_to_all_single: %d split sizes are given, but the group has %d ranks",
                    splits->count, process_group_size(f->group));
    return splits->integers;
}

typedef struct tensor *one_tensor(struct task *me, const struct functional *call, struct tensor *tensor);

static int
call_one(lua_State *L, const struct rank_call *r, const struct functional *f, one_tensor *run)
{
    struct call call = call_open(L, r->me, CALL_BACK);
    return call_tensor(&call, run(r->me, f, r->a.at[0].tensor));
}

/* ---- dist.nn ---- */

static int
l_all_reduce(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    f.options = check_reduce_op(L, r.a.at[1].text);
    return call_one(L, &r, &f, functional_all_reduce);
}

static int
l_broadcast(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    f.options.root = peer_of(L, &r.a.at[1], f.group);
    return call_one(L, &r, &f, functional_broadcast);
}

static int
l_reduce(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 3, &f))
        return 0;
    f.options      = check_reduce_op(L, r.a.at[2].text);
    f.options.root = peer_of(L, &r.a.at[1], f.group);
    return call_one(L, &r, &f, functional_reduce);
}

static int
l_gather(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    f.options.root      = peer_of(L, &r.a.at[1], f.group);
    struct tensor **out = push_list_room(L, &f);
    struct call    call = call_open(L, r.me, CALL_BACK);
    bool           ok   = functional_gather(r.me, &f, r.a.at[0].tensor, out);
    return call_list(&call, &f, ok, out);
}

static int
l_scatter(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    f.options.root         = peer_of(L, &r.a.at[1], f.group);
    struct tensor **inputs = check_rank_list(L, &r, (int)r.a.at[0].integer[0], "scatter");
    struct call    call    = call_open(L, r.me, CALL_BACK);
    return call_tensor(&call, functional_scatter(r.me, &f, inputs));
}

static int
l_reduce_scatter(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 3, &f))
        return 0;
    f.options              = check_reduce_op(L, r.a.at[2].text);
    struct tensor **inputs = check_rank_list(L, &r, (int)r.a.at[1].integer[0], "reduce_scatter");
    struct call     call   = call_open(L, r.me, CALL_BACK);
    return call_tensor(&call, functional_reduce_scatter(r.me, &f, r.a.at[0].tensor, inputs));
}

static int
l_all_gather(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 1, &f))
        return 0;
    struct tensor **out  = push_list_room(L, &f);
    struct call     call = call_open(L, r.me, CALL_BACK);
    bool            ok   = functional_all_gather(r.me, &f, r.a.at[0].tensor, out);
    return call_list(&call, &f, ok, out);
}

static int
l_all_to_all(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    struct tensor **outputs = check_rank_list(L, &r, (int)r.a.at[0].integer[0], "all_to_all");
    struct tensor **inputs  = check_rank_list(L, &r, (int)r.a.at[1].integer[0], "all_to_all");
    struct tensor **out     = push_list_room(L, &f);
    struct call     call    = call_open(L, r.me, CALL_BACK);
    bool            ok      = functional_all_to_all(r.me, &f, outputs, inputs, out);
    return call_list(&call, &f, ok, out);
}

static int
l_all_to_all_single(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 4, &f))
        return 0;
    const struct argument *at     = r.a.at;
    struct splits          splits = { .output = check_rows(L, &f, &at[2]), .input = check_rows(L, &f, &at[3]) };
    struct call            call   = call_open(L, r.me, CALL_BACK);
    return call_tensor(&call, functional_all_to_all_single(r.me, &f, at[0].tensor, at[1].tensor, &splits));
}

static const struct lua_entry nn_entries[] = {
    { "all_reduce", l_all_reduce, "dist.nn.all_reduce(Tensor tensor, str op=\"sum\", any? group=None) -> any",
      "the reduction of all ranks' tensors; its backward reduces the gradients by the same op" },
    { "broadcast", l_broadcast, "dist.nn.broadcast(Tensor tensor, int src, any? group=None) -> any",
      "a copy of src's tensor, to which all ranks' gradients go" },
    { "reduce", l_reduce, "dist.nn.reduce(Tensor tensor, int dst, str op=\"sum\", any? group=None) -> any",
      "on dst the reduction of all ranks' tensors; each gets dst's gradient" },
    { "gather", l_gather, "dist.nn.gather(Tensor tensor, int dst=0, any? group=None) -> any",
      "on dst the list of all ranks' tensors, elsewhere zeros" },
    { "scatter", l_scatter, "dist.nn.scatter(table tensors, int src=0, any? group=None) -> any",
      "this rank's tensor of src's list" },
    { "reduce_scatter", l_reduce_scatter,
      "dist.nn.reduce_scatter(Tensor output, table input_list, str op=\"sum\", any? group=None) -> any",
      "fills output with the reduction of all ranks' input_list[r + 1]; answers it with history" },
    { "all_gather", l_all_gather, "dist.nn.all_gather(Tensor tensor, any? group=None) -> any",
      "the list of all ranks' tensors; each gets the sum of all ranks' gradients" },
    { "all_to_all", l_all_to_all,
      "dist.nn.all_to_all(table output_tensor_list, table input_tensor_list, any? group=None) -> any",
      "rank r gets input_tensor_list[r + 1]; answers what came, with history" },
    { "all_to_all_single", l_all_to_all_single,
      "dist.nn.all_to_all_single(Tensor output, Tensor input, int|int[]? output_split_sizes=None, "
      "int|int[]? input_split_sizes=None, any? group=None) -> any",
      "the same with one tensor, cut along dimension 0" },
};

/* ---- dist.functional ---- */

static int
l_reduced(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    f.options = check_reduce_op(L, r.a.at[1].text);
    return call_one(L, &r, &f, functional_reduced);
}

static int
l_sent(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    f.options.root = peer_of(L, &r.a.at[1], f.group);
    return call_one(L, &r, &f, functional_sent);
}

static int
l_gathered(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 2, &f))
        return 0;
    int         dim  = int_of_int64(r.a.at[1].integer[0]);
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_tensor(&call, functional_gathered(r.me, &f, r.a.at[0].tensor, dim));
}

static int
l_scattered(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 3, &f))
        return 0;
    f.options        = check_reduce_op(L, r.a.at[1].text);
    int         dim  = int_of_int64(r.a.at[2].integer[0]);
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_tensor(&call, functional_scattered(r.me, &f, r.a.at[0].tensor, dim));
}

static int
l_exchanged(lua_State *L)
{
    struct rank_call  r;
    struct functional f;
    if (!open_functional(L, &r, 3, &f))
        return 0;
    struct splits splits = { .output = check_rows(L, &f, &r.a.at[1]), .input = check_rows(L, &f, &r.a.at[2]) };
    if ((splits.output == NULL) != (splits.input == NULL))
        raise_error(L, "AssertionError", "output_split_sizes and input_split_sizes must either be specified together "
                                         "or both set to None");
    struct call call = call_open(L, r.me, CALL_BACK);
    return call_tensor(&call, functional_exchanged(r.me, &f, r.a.at[0].tensor, &splits));
}

static const struct lua_entry entries[] = {
    { "all_reduce", l_reduced,
      "dist.functional.all_reduce(Tensor self, str reduceOp, any? group=None, str tag=\"\") -> any",
      "the reduction of all ranks' tensors; a MIN or MAX gives all gradients to who had it" },
    { "broadcast", l_sent, "dist.functional.broadcast(Tensor self, int src, any? group=None, str tag=\"\") -> any",
      "a copy of src's tensor; the gradient goes to this rank's own" },
    { "all_gather_tensor", l_gathered,
      "dist.functional.all_gather_tensor(Tensor self, int gather_dim, any? group=None, str tag=\"\") -> any",
      "all ranks' tensors joined along a dimension; each gets the sum of all ranks' gradients" },
    { "all_gather_tensor_autograd", l_gathered,
      "dist.functional.all_gather_tensor_autograd(Tensor self, int gather_dim, any? group=None, str tag=\"\") -> any",
      "all ranks' tensors joined along a dimension; each gets the sum of all ranks' gradients" },
    { "all_gather_single", l_gathered,
      "dist.functional.all_gather_single(Tensor self, int gather_dim, any? group=None, str tag=\"\") -> any",
      "all ranks' tensors joined along a dimension; each gets the sum of all ranks' gradients" },
    { "all_gather_single_autograd", l_gathered,
      "dist.functional.all_gather_single_autograd(Tensor self, int gather_dim, any? group=None, str tag=\"\") -> any",
      "all ranks' tensors joined along a dimension; each gets the sum of all ranks' gradients" },
    { "reduce_scatter_tensor", l_scattered,
      "dist.functional.reduce_scatter_tensor(Tensor self, str reduceOp, int scatter_dim, any? group=None, "
      "str tag=\"\") -> any",
      "this rank's piece, along a dimension, of the reduction of all ranks' tensors" },
    { "reduce_scatter_tensor_autograd", l_scattered,
      "dist.functional.reduce_scatter_tensor_autograd(Tensor self, str reduceOp, int scatter_dim, any? group=None, "
      "str tag=\"\") -> any",
      "this rank's piece, along a dimension, of the reduction of all ranks' tensors" },
    { "reduce_scatter_single", l_scattered,
      "dist.functional.reduce_scatter_single(Tensor self, str reduceOp, int scatter_dim, any? group=None, "
      "str tag=\"\") -> any",
      "this rank's piece, along a dimension, of the reduction of all ranks' tensors" },
    { "reduce_scatter_single_autograd", l_scattered,
      "dist.functional.reduce_scatter_single_autograd(Tensor self, str reduceOp, int scatter_dim, any? group=None, "
      "str tag=\"\") -> any",
      "this rank's piece, along a dimension, of the reduction of all ranks' tensors" },
    { "all_to_all_single", l_exchanged,
      "dist.functional.all_to_all_single(Tensor self, int|int[]? output_split_sizes=None, "
      "int|int[]? input_split_sizes=None, any? group=None, str tag=\"\") -> any",
      "rows of this rank's tensor for each rank, rows of theirs for this one" },
    { "all_to_all_single_autograd", l_exchanged,
      "dist.functional.all_to_all_single_autograd(Tensor self, int|int[]? output_split_sizes=None, "
      "int|int[]? input_split_sizes=None, any? group=None, str tag=\"\") -> any",
      "rows of this rank's tensor for each rank, rows of theirs for this one" },
};

void
lua_open_functional_collectives(lua_State *L)
{
    fill_namespace(L, "distributed.nn", nn_entries, countof(nn_entries));
    fill_namespace(L, "distributed.nn.functional", nn_entries, countof(nn_entries));
    fill_namespace(L, "distributed.functional", entries, countof(entries));
    fill_namespace(L, "distributed._functional_collectives", entries, countof(entries));
}

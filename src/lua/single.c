/* rs.distributed's collectives of one tensor instead of a list: it holds the pieces of all ranks, one after the other.
 * Each has two names, as in PyTorch.
 *
 * Interface: lua_open_singles. */
#include "base/vec.h"
#include "lua/collective.h"
#include "lua/dispatch.h"
#include "tensor/tensor.h"

static int
l_all_gather_single(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2) || coalesce_call(L, &r, COALESCED_ALL_GATHER))
        return 0;
    const struct argument *at   = r.a.at;
    struct collective_call call = open_tensor_collective(L, &r, at[3].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_all_gather_into_tensor(r.me, r.group, at[0].tensor, at[1].tensor));
}

static int
l_gather_single(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 3))
        return 0;
    const struct argument *at   = r.a.at;
    int                    root = check_root(L, &r, &(struct root_places){ .global = 2, .own = 5, .optional = true });
    struct collective_call call = open_tensor_collective(L, &r, at[4].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_gather_single(r.me, r.group, at[1].tensor, at[0].tensor, root));
}

static int
l_reduce_scatter_single(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 3))
        return 0;
    const struct argument    *at      = r.a.at;
    struct collective_options options = check_reduce_op(L, at[2].text);
    if (coalesce_call(L, &r, COALESCED_REDUCE_SCATTER))
        return 0;
    struct collective_call call = open_tensor_collective(L, &r, at[4].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_reduce_scatter_single(r.me, r.group, at[0].tensor, at[1].tensor, &options));
}

static const int64_t *
check_splits(lua_State *L, const struct rank_call *r, const struct argument *splits)
{
    int size = process_group_size(r->group);
    if (splits->none || splits->count == 0)
        return NULL;
    if (splits->count != size)
        raise_error(L, "RuntimeError", "all_to_all_single: Number of tensor splits not equal to group size: %d of %d",
                    splits->count, size);
    return splits->integers;
}

static int
l_all_to_all_single(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 4))
        return 0;
    const struct argument *at     = r.a.at;
    struct splits          splits = { check_splits(L, &r, &at[2]), check_splits(L, &r, &at[3]) };
    struct collective_call call   = open_tensor_collective(L, &r, at[5].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_all_to_all_single(r.me, r.group, at[0].tensor, at[1].tensor, &splits));
}

static const struct lua_entry entries[] = {
    { "all_gather_into_tensor", l_all_gather_single,
      "dist.all_gather_into_tensor(Tensor output_tensor, Tensor input_tensor, any? group=None, "
      "bool async_op=False) -> any",
      "output_tensor becomes all ranks' input_tensor, one after the other" },
    { "all_gather_single", l_all_gather_single,
      "dist.all_gather_single(Tensor output_tensor, Tensor input_tensor, any? group=None, "
      "bool async_op=False) -> any",
      "all_gather_into_tensor by its other name" },
    { "gather_into_tensor", l_gather_single,
      "dist.gather_into_tensor(Tensor t, Tensor? gather_tensor=None, int? dst=None, any? group=None, "
      "bool async_op=False, int? group_dst=None) -> any",
      "dst's gather_tensor becomes all ranks' t, one after the other" },
    { "gather_single", l_gather_single,
      "dist.gather_single(Tensor t, Tensor? gather_tensor=None, int? dst=None, any? group=None, "
      "bool async_op=False, int? group_dst=None) -> any",
      "gather_into_tensor by its other name" },
    { "reduce_scatter_tensor", l_reduce_scatter_single,
      "dist.reduce_scatter_tensor(Tensor output, Tensor input, str op=\"sum\", any? group=None, "
      "bool async_op=False) -> any",
      "rank r's output becomes piece r of the reduction over all ranks' input" },
    { "reduce_scatter_single", l_reduce_scatter_single,
      "dist.reduce_scatter_single(Tensor output, Tensor input, str op=\"sum\", any? group=None, "
      "bool async_op=False) -> any",
      "reduce_scatter_tensor by its other name" },
    { "all_to_all_single", l_all_to_all_single,
      "dist.all_to_all_single(Tensor output, Tensor input, int|int[]? output_split_sizes=None, "
      "int|int[]? input_split_sizes=None, any? group=None, bool async_op=False) -> any",
      "piece r of output becomes the piece that rank r has for this one in its input" },
};

void
lua_open_singles(lua_State *L)
{
    fill_namespace(L, "distributed", entries, countof(entries));
}

/* rs.distributed's collectives: what all ranks of a group do together. With async_op each answers a Work. Those of one
 * tensor instead of a list are in single.c, those of many at once in coalesced.c; what all three share is in
 * collective.h.
 *
 * Interface: lua_open_collectives. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/vec.h"
#include "lua/collective.h"
#include "lua/dispatch.h"
#include "tensor/tensor.h"

/* ---- reduce operations: texts ---- */

static const char *const reduce_names[] = { "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR" };
static const char premul_name[] = "PREMUL_SUM";

/* PREMUL_SUM(2.5): made by dist._make_nccl_premul_sum. */
static bool
premul_factor(const char *name, double *factor)
{
    size_t length = sizeof premul_name - 1;
    char  *end    = NULL;
    if (strncasecmp(name, premul_name, length) != 0 || name[length] != '(')
        return false;
    *factor = strtod(name + length + 1, &end);
    return end != name + length + 1 && strcmp(end, ")") == 0;
}

struct collective_options
check_reduce_op(lua_State *L, const char *name)
{
    struct collective_options options = { .op = REDUCE_PREMUL_SUM };
    for (size_t i = 0; i < countof(reduce_names); i++)
        if (strcasecmp(name, reduce_names[i]) == 0)
            return (struct collective_options){ .op = (enum reduce_op)i };
    if (premul_factor(name, &options.factor))
        return options;
    if (strcasecmp(name, premul_name) == 0)
        raise_error(L, "RuntimeError", "PREMUL_SUM needs a factor: use dist._make_nccl_premul_sum(factor)");
    raise_error(L, "ValueError", "unknown ReduceOp '%s'; there are SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR and "
                                 "dist._make_nccl_premul_sum(factor)", name);
    return options;
}

static int
l_make_premul_sum(lua_State *L)
{
    char             text[64];
    struct arguments a;
    take_arguments(L, &a);
    snprintf(text, sizeof text, "%s(%.17g)", premul_name, a.at[0].number);
    lua_pushstring(L, text);
    return 1;
}

/* ---- arguments ---- */

int
check_root(lua_State *L, const struct rank_call *r, const struct root_places *places)
{
    const struct argument *global = &r->a.at[places->global], *own = &r->a.at[places->own];
    const char            *side   = places->is_source ? "src" : "dst";
    if (!global->none && !own->none)
        return raise_error(L, "ValueError", "Can't specify both %s and group_%s", side, side);
    if (global->none && own->none && !places->optional)
        return raise_error(L, "ValueError", "Must specify %s or group_%s: the rank of the root", side, side);
    struct argument zero = { .count = 1 };
    if (own->none && process_group_number(r->group) != 0)
        return peer_of(L, global->none ? &zero : global, r->group);
    int64_t rank = own->none ? global->none ? 0 : global->integer[0] : own->integer[0];
    return rank < 0 || rank > INT32_MAX ? -1 : (int)rank;
}

struct tensor **
check_rank_list(lua_State *L, const struct rank_call *r, int index, const char *name)
{
    int             count   = 0, size = process_group_size(r->group);
    struct tensor **tensors = check_tensors(L, index, &count);
    if (count != size)
        raise_error(L, "RuntimeError",
                    "%s: invalid tensor list at index 0: expected %d tensors, one for each rank, got %d", name, size,
                    count);
    return tensors;
}

/* A list that only the root gives; an empty one is none. */
static struct tensor **
check_root_list(lua_State *L, const struct rank_call *r, const struct argument *list, int root, const char *name)
{
    int  index = (int)list->integer[0];
    bool given = !list->none && lua_rawlen(L, index) > 0, is_root = process_group_rank(r->group) == root;
    if (given != is_root)
        raise_error(L, "ValueError", is_root ? "%s: `%s_list` must be specified on the root rank"
                                             : "%s: `%s_list` must NOT be specified on ranks that are not the root",
                    name, name);
    return given ? check_rank_list(L, r, index, name) : NULL;
}

/* ---- issued, and waited for unless it shall be later ---- */

struct collective_call
open_collective(lua_State *L, const struct rank_call *r, bool later, int keep)
{
    if (later)
        push_work_box(L, keep);
    return (struct collective_call){ .call = call_open(L, r->me, CALL_BACK), .later = later };
}

struct collective_call
open_tensor_collective(lua_State *L, const struct rank_call *r, bool later, struct tensor *tensor)
{
    if (later)
        push_tensor_work(L, tensor);
    return (struct collective_call){ .call = call_open(L, r->me, CALL_BACK), .later = later };
}

int
close_collective(lua_State *L, struct collective_call *call, struct work *work)
{
    if (call->later)
        return call_work(L, &call->call, work);
    bool done = work_complete(call->call.me, work);
    return call_done(&call->call, done);
}

/* ---- the collectives ---- */

/* dist.all_reduce(t, op, group, async_op, {algorithm, direction}) */
static int
l_all_reduce(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    const struct argument    *at        = r.a.at;
    const char               *direction = at[5].text;
    struct collective_options options   = check_reduce_op(L, at[1].text);
    options.algorithm     = at[4].text;
    options.ring_forwards = strcmp(direction, "forward") == 0;
    if (!options.ring_forwards && strcmp(direction, "backward") != 0)
        raise_error(L, "ValueError", "direction is backward (r sends to r - 1, in Gloo's order) or forward, not '%s'",
                    direction);
    if (coalesce_call(L, &r, COALESCED_ALL_REDUCE))
        return 0;
    bool later = at[3].integer[0] != 0;
    if (later)
        push_tensor_work(L, at[0].tensor);
    struct algorithm_run *own = algorithm_begin(L, options.algorithm, r.group);
    options.custom = algorithm_custom(own);
    struct collective_call call = { .call = call_open(L, r.me, CALL_BACK), .later = later };
    struct work           *work = group_all_reduce(r.me, r.group, at[0].tensor, &options);
    algorithm_issued(r.me, own, work);
    return close_collective(L, &call, work);
}

static int
l_broadcast(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    const struct argument *at   = r.a.at;
    int                    root = check_root(L, &r, &(struct root_places){ .global = 1, .own = 4, .is_source = true });
    struct collective_call call = open_tensor_collective(L, &r, at[3].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_broadcast(r.me, r.group, at[0].tensor, root));
}

static int
l_reduce(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 3))
        return 0;
    const struct argument    *at      = r.a.at;
    struct collective_options options = check_reduce_op(L, at[2].text);
    options.root = check_root(L, &r, &(struct root_places){ .global = 1, .own = 5 });
    struct collective_call call = open_tensor_collective(L, &r, at[4].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_reduce(r.me, r.group, at[0].tensor, &options));
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
    struct tensor  *input = r.a.at[1].tensor;
    int             size  = process_group_size(r.group), list = (int)r.a.at[0].integer[0];
    bool            later = r.a.at[3].integer[0] != 0, empty = lua_rawlen(L, list) == 0;
    struct tensor **outputs = empty ? lua_newuserdatauv(L, (size_t)size * sizeof *outputs, 0)
                                    : check_rank_list(L, &r, list, "all_gather");
    struct collective_call call = open_collective(L, &r, later, list);
    struct work *work = NULL;
    bool         ok   = !empty || fill_outputs(r.me, input, outputs, size);
    if (ok)
        ok = (work = group_all_gather(r.me, r.group, outputs, input)) != NULL;
    if (ok && !later)
        ok = work_complete(r.me, work);
    call_end(&call.call, ok);
    if (later)
        fill_work_box(L, work);
    for (int i = 0; i < size && empty; i++) {
        push_tensor(L, outputs[i]);
        lua_rawseti(L, list, i + 1);
    }
    if (!later)
        lua_pushvalue(L, list);
    return call_leave(&call.call, 1);
}

static int
l_gather(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 3))
        return 0;
    const struct argument *at      = r.a.at;
    struct root_places     places  = { .global = 2, .own = 5, .optional = true };
    int                    root    = check_root(L, &r, &places);
    struct tensor        **outputs = check_root_list(L, &r, &at[1], root, "gather");
    struct collective_call call    = open_tensor_collective(L, &r, at[4].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_gather(r.me, r.group, outputs, at[0].tensor, root));
}

static int
l_scatter(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 3))
        return 0;
    const struct argument *at     = r.a.at;
    struct root_places     places = { .global = 2, .own = 5, .optional = true, .is_source = true };
    int                    root   = check_root(L, &r, &places);
    struct tensor        **inputs = check_root_list(L, &r, &at[1], root, "scatter");
    struct collective_call call   = open_tensor_collective(L, &r, at[4].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_scatter(r.me, r.group, at[0].tensor, inputs, root));
}

static int
l_reduce_scatter(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 3))
        return 0;
    const struct argument    *at      = r.a.at;
    struct collective_options options = check_reduce_op(L, at[2].text);
    struct tensor           **inputs  = check_rank_list(L, &r, (int)at[1].integer[0], "reduce_scatter");
    struct collective_call    call    = open_tensor_collective(L, &r, at[4].integer[0] != 0, at[0].tensor);
    return close_collective(L, &call, group_reduce_scatter(r.me, r.group, at[0].tensor, inputs, &options));
}

static int
l_all_to_all(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 2))
        return 0;
    const struct argument *at      = r.a.at;
    int                    list    = (int)at[0].integer[0];
    struct tensor        **outputs = check_rank_list(L, &r, list, "all_to_all: output");
    struct tensor        **inputs  = check_rank_list(L, &r, (int)at[1].integer[0], "all_to_all: input");
    struct collective_call call    = open_collective(L, &r, at[3].integer[0] != 0, list);
    return close_collective(L, &call, group_all_to_all(r.me, r.group, outputs, inputs));
}

/* ---- barriers ---- */

/* ps; 0: none is given. */
static uint64_t
barrier_timeout(lua_State *L, const struct argument *seconds)
{
    return seconds->none ? 0 : check_timeout(L, seconds->number);
}

static int
l_barrier(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 0))
        return 0;
    uint64_t               timeout = barrier_timeout(L, &r.a.at[3]);
    struct collective_call call    = open_tensor_collective(L, &r, r.a.at[1].integer[0] != 0, NULL);
    return close_collective(L, &call, group_barrier_within(r.me, r.group, timeout));
}

static int
l_monitored_barrier(lua_State *L)
{
    struct rank_call r;
    if (!take_rank_call(L, &r, 0))
        return 0;
    struct monitored options = { .timeout_ps = barrier_timeout(L, &r.a.at[1]), .all = r.a.at[2].integer[0] != 0 };
    struct call      call    = call_open(L, r.me, CALL_BACK);
    bool             ok      = group_monitored_barrier(r.me, r.group, &options);
    return call_done(&call, ok);
}

static const struct lua_entry entries[] = {
    { "all_reduce", l_all_reduce,
      "dist.all_reduce(Tensor t, str op=\"sum\", any? group=None, bool async_op=False, *, "
      "str? algorithm=None, str direction=\"backward\") -> any",
      "t becomes the reduction over all ranks' t" },
    { "broadcast", l_broadcast,
      "dist.broadcast(Tensor t, int? src=None, any? group=None, bool async_op=False, int? group_src=None) -> any",
      "t becomes src's t" },
    { "reduce", l_reduce,
      "dist.reduce(Tensor t, int? dst=None, str op=\"sum\", any? group=None, bool async_op=False, "
      "int? group_dst=None) -> any",
      "dst's t becomes the reduction over all ranks' t; the others keep theirs" },
    { "all_gather", l_all_gather,
      "dist.all_gather(table list, Tensor t, any? group=None, bool async_op=False) -> any",
      "list[r + 1] becomes rank r's t; an empty list is filled; answers the list" },
    { "gather", l_gather,
      "dist.gather(Tensor t, table? gather_list=None, int? dst=None, any? group=None, bool async_op=False, "
      "int? group_dst=None) -> any",
      "dst's gather_list[r + 1] becomes rank r's t" },
    { "scatter", l_scatter,
      "dist.scatter(Tensor t, table? scatter_list=None, int? src=None, any? group=None, bool async_op=False, "
      "int? group_src=None) -> any",
      "rank r's t becomes src's scatter_list[r + 1]" },
    { "reduce_scatter", l_reduce_scatter,
      "dist.reduce_scatter(Tensor output, table input_list, str op=\"sum\", any? group=None, "
      "bool async_op=False) -> any",
      "rank r's output becomes the reduction over all ranks' input_list[r + 1]" },
    { "all_to_all", l_all_to_all,
      "dist.all_to_all(table output_tensor_list, table input_tensor_list, any? group=None, "
      "bool async_op=False) -> any",
      "output_tensor_list[r + 1] becomes what rank r has for this one in its input_tensor_list" },
    { "barrier", l_barrier,
      "dist.barrier(any? group=None, bool async_op=False, any? device_ids=None, float? timeout=None) -> any",
      "waits until every rank has come" },
    { "monitored_barrier", l_monitored_barrier,
      "dist.monitored_barrier(any? group=None, float? timeout=None, bool wait_all_ranks=False) -> any",
      "the same, and names the first rank that does not come, or all" },
    { "_make_nccl_premul_sum", l_make_premul_sum, "dist._make_nccl_premul_sum(float factor) -> any",
      "the operation that multiplies each rank's tensor by factor before it adds them" },
};

void
lua_open_collectives(lua_State *L)
{
    open_namespace(L, "distributed", entries, countof(entries));
    lua_createtable(L, 0, (int)countof(reduce_names) + 1);
    for (size_t i = 0; i < countof(reduce_names); i++)
        set_text(L, -1, reduce_names[i], reduce_names[i]);
    set_text(L, -1, premul_name, premul_name);
    lua_setfield(L, -2, "ReduceOp");
    lua_pop(L, 1);
    lua_open_singles(L);
    lua_open_coalesced(L);
}

/* Collectives that answer new tensors, with a backward: dist.nn, as torch.distributed.nn.functional, and
 * dist.functional, as torch.distributed._functional_collectives, under both of their names each.
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
    struct tensor **outputs = check_rank_list(L, &r, (int)r.a.at[0].integer[0], "all_to_all: output");
    struct tensor **inputs  = check_rank_list(L, &r, (int)r.a.at[1].integer[0], "all_to_all: input");
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

/* ---- their names: each list has two ---- */

#define ENTRY( path, name, function, arguments, help ) { name, function, path "." name arguments " -> any", help },

#define FUNCTIONAL( name, function, arguments, help )
#define NN( name, function, arguments, help ) ENTRY( "dist.nn", name, function, arguments, help )
static const struct lua_entry nn_entries[] = {
#include "lua/functional.def"
};
#undef NN
#define NN( name, function, arguments, help ) ENTRY( "dist.nn.functional", name, function, arguments, help )
static const struct lua_entry nn_functional_entries[] = {
#include "lua/functional.def"
};
#undef NN
#undef FUNCTIONAL
#define NN( name, function, arguments, help )
#define FUNCTIONAL( name, function, arguments, help ) ENTRY( "dist.functional", name, function, arguments, help )
static const struct lua_entry entries[] = {
#include "lua/functional.def"
};
#undef FUNCTIONAL
#define FUNCTIONAL( name, function, arguments, help )                                                                  \
    ENTRY( "dist._functional_collectives", name, function, arguments, help )
static const struct lua_entry collectives_entries[] = {
#include "lua/functional.def"
};

void
lua_open_functional_collectives(lua_State *L)
{
    fill_namespace(L, "distributed.nn", nn_entries, countof(nn_entries));
    fill_namespace(L, "distributed.nn.functional", nn_functional_entries, countof(nn_functional_entries));
    fill_namespace(L, "distributed.functional", entries, countof(entries));
    fill_namespace(L, "distributed._functional_collectives", collectives_entries, countof(collectives_entries));
}

/* Where a pass over a loader gets the indices of its batches from: a sampler of ours, a list, an object with iter(); or
 * whatever gives whole batches. rs.utils.data.BatchSampler. In PyTorch: torch/utils/data/sampler.py.
 *
 * Interface: indices_open, indices_next, indices_skip; push_own_sampler, check_batch_size. */
#include <string.h>
#include "base/vec.h"
#include "lua/data.h"
#include "lua/dispatch.h"

static const char BATCHES[] = "ringside.batch_sampler", PASSES[] = "ringside.batch_sampler.passes";
enum { BATCH_MOST = 1 << 20 };

/* A pass over a BatchSampler by itself. User value 1: what gives its indices. */
struct batch_pass { struct index_source source; };

void
check_batch_size(lua_State *L, int64_t size)
{
    if (size < 1 || size > BATCH_MOST)
        raise_error(L, "ValueError", "batch_size should be a positive integer value, but got batch_size=%lld",
                    (long long)size);
}

/* ---- beginning ---- */

/* A sampler of ours, a list, or an object with iter(): what gives its indices, at the top in its place. */
static void
push_giver(lua_State *L)
{
    int sampler = lua_gettop(L);
    if (is_sampler(L, sampler)) {
        push_stream(L, sampler);
    } else if (is_plain_table(L, sampler)) {
        lua_pushvalue(L, sampler);
    } else {
        lua_getfield(L, sampler, "iter");
        check_function(L, -1);
        lua_pushvalue(L, sampler);
        lua_call(L, 1, 1);
        check_function(L, -1);
    }
    lua_remove(L, sampler);
}

/* Of a table that has them: a BatchSampler, or a loader. */
static void
read_sizes(lua_State *L, int table, struct index_source *source)
{
    source->batch_size = option_integer(L, table, "batch_size", 0);
    source->drop_last  = option_bool(L, table, "drop_last", false);
    if (source->batch_size != 0)
        check_batch_size(L, source->batch_size);
}

void
indices_open(lua_State *L, int loader, struct index_source *source)
{
    *source = (struct index_source){ .batch_size = 0 };
    if (lua_getfield(L, loader, "batch_sampler") == LUA_TNIL) {
        lua_pop(L, 1);
        read_sizes(L, loader, source);
        lua_getfield(L, loader, "sampler");
    } else if (has_class(L, -1, BATCHES)) {
        read_sizes(L, lua_gettop(L), source);
        lua_getfield(L, -1, "sampler");
        lua_remove(L, -2);
    } else {
        source->lists = true;
    }
    push_giver(L);
}

void
push_own_sampler(lua_State *L, int loader)
{
    int table = loader, top = lua_gettop(L);
    if (lua_getfield(L, loader, "batch_sampler") != LUA_TNIL)
        table = has_class(L, -1, BATCHES) ? top + 1 : 0;
    if (table > 0)
        lua_getfield(L, table, "sampler");
    if (table == 0 || !is_sampler(L, -1))
        lua_pushnil(L);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
}

/* ---- indices ---- */

/* What a function or a list gives next, pushed. false: no more. */
static bool
push_given(lua_State *L, int at, struct index_source *source)
{
    if (lua_isfunction(L, at)) {
        lua_pushvalue(L, at);
        lua_call(L, 0, 1);
    } else {
        lua_rawgeti(L, at, ++source->at);
    }
    if (!lua_isnil(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

static bool
next_index(lua_State *L, int at, struct index_source *source, int64_t *index)
{
    if (lua_type(L, at) == LUA_TUSERDATA)
        return next_of_stream(L, at, index);
    if (!push_given(L, at, source))
        return false;
    *index = check_integer(L, -1);
    lua_pop(L, 1);
    return true;
}

/* The list at the top gives way to its indices. */
static int64_t
list_to_indices(lua_State *L, int64_t **indices)
{
    int list = lua_gettop(L);
    check_table(L, list);
    int64_t count = (int64_t)lua_rawlen(L, list);
    if (count > BATCH_MOST)
        raise_error(L, "ValueError", "a batch of %lld indices is too long", (long long)count);
    *indices = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof **indices, 0);
    for (int64_t i = 0; i < count; i++) {
        lua_rawgeti(L, list, i + 1);
        (*indices)[i] = check_integer(L, -1);
        lua_pop(L, 1);
    }
    lua_remove(L, list);
    return count;
}

int64_t
indices_next(lua_State *L, int at, struct index_source *source, int64_t **indices)
{
    if (source->lists) {
        source->over = source->over || !push_given(L, at, source);
        return source->over ? -1 : list_to_indices(L, indices);
    }
    int64_t size = source->batch_size > 0 ? source->batch_size : 1, count = 0;
    *indices     = lua_newuserdatauv(L, (size_t)size * sizeof **indices, 0);
    while (!source->over && count < size) {
        source->over = !next_index(L, at, source, &(*indices)[count]);
        count += !source->over;
    }
    if (count > 0 && (count == size || !source->drop_last))
        return count;
    lua_pop(L, 1);
    return -1;
}

void
indices_skip(lua_State *L, int at, struct index_source *source, int64_t batches)
{
    int64_t *indices = NULL;
    for (int64_t i = 0; lua_type(L, at) != LUA_TUSERDATA && !source->over && i < batches; i++)
        if (indices_next(L, at, source, &indices) >= 0)
            lua_pop(L, 1);
}

/* ---- BatchSampler ---- */

static int
check_batches(lua_State *L)
{
    if (!has_class(L, 1, BATCHES))
        arg_error(L, 1, "a BatchSampler");
    return 1;
}

static void
push_batch_pass(lua_State *L)
{
    struct batch_pass *pass = lua_newuserdatauv(L, sizeof *pass, 1);
    *pass                   = (struct batch_pass){ .source = { .batch_size = 0 } };
    read_sizes(L, 1, &pass->source);
    lua_getfield(L, 1, "sampler");
    push_giver(L);
    lua_setiuservalue(L, -2, 1);
}

/* The list of the next batch's indices; nothing: there is none. */
static int
push_next_batch(lua_State *L, int at)
{
    struct batch_pass *pass    = lua_touserdata(L, at);
    int64_t           *indices = NULL;
    lua_getiuservalue(L, at, 1);
    int64_t count = indices_next(L, lua_gettop(L), &pass->source, &indices);
    if (count < 0)
        return 0;
    lua_createtable(L, (int)count, 0);
    for (int64_t i = 0; i < count; i++) {
        lua_pushinteger(L, indices[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int
batches_next(lua_State *L)
{
    return push_next_batch(L, lua_upvalueindex(1));
}

static int
batches_iter(lua_State *L)
{
    lua_settop(L, check_batches(L));
    push_batch_pass(L);
    lua_pushcclosure(L, batches_next, 1);
    return 1;
}

/* Called without a control it begins a pass. */
static int
batches_call(lua_State *L)
{
    check_batches(L);
    lua_settop(L, 3);
    push_weak_table(L, PASSES, "k");
    lua_pushvalue(L, 1);
    if (lua_isnil(L, 3)) {
        push_batch_pass(L);
        lua_pushvalue(L, -1);
        lua_insert(L, 5);
        lua_rawset(L, 4);
    } else {
        lua_rawget(L, 4);
    }
    if (lua_touserdata(L, 5) == NULL)
        raise_error(L, "RuntimeError", "this pass over the BatchSampler is over");
    return push_next_batch(L, 5);
}

static int
batches_length(lua_State *L)
{
    struct index_source source;
    check_batches(L);
    read_sizes(L, 1, &source);
    lua_getfield(L, 1, "sampler");
    int64_t samples = luaL_len(L, -1);
    check_batch_size(L, source.batch_size);
    lua_pushinteger(L, samples / source.batch_size + (samples % source.batch_size > 0 && !source.drop_last));
    return 1;
}

/* BatchSampler(sampler, batch_size, drop_last) */
static int
batch_sampler(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    check_batch_size(L, a.at[1].integer[0]);
    lua_createtable(L, 0, 3);
    luaL_setmetatable(L, BATCHES);
    set_arguments(L, lua_gettop(L), &a, 0);
    return 1;
}

static const struct lua_entry methods[] = {
    { "iter", batches_iter, "batch_sampler:iter()", "one pass: for list in batch_sampler:iter() do; itself does, too" },
};
static const struct lua_entry entries[] = {
    { "BatchSampler", batch_sampler, "utils.data.BatchSampler(any sampler, int batch_size, bool drop_last) -> any",
      "a sampler's indices, a list for each batch" },
};

void
lua_open_batches(lua_State *L)
{
    static const luaL_Reg metamethods[] = { { "__call", batches_call }, { "__len", batches_length }, { NULL, NULL } };
    open_class(L, BATCHES, methods, countof(methods), metamethods);
    fill_namespace(L, "utils.data", entries, countof(entries));
}

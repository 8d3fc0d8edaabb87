/* What a loader's batch is: samples of a data set by their indices, or the next ones of a stream, collated. The same in
 * the loader's own task and in a worker's. In PyTorch: torch/utils/data/_utils/fetch.py.
 *
 * Interface: fetch_batch, fetch_sample; fetch_open_stream, fetch_of_stream. */
#include "base/vec.h"
#include "data/batch.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "tensor/tensor.h"

enum { SUBSETS = 16 };

/* Subsets give way to what they are part of; the indices change accordingly. */
static int
resolve_subsets(lua_State *L, int dataset, int64_t *indices, int64_t count)
{
    for (int depth = 0; depth < SUBSETS && dataset_subset(L, dataset); depth++) {
        int list = lua_gettop(L);
        for (int64_t i = 0; i < count; i++) {
            if (lua_rawgeti(L, list, indices[i] + 1) != LUA_TNUMBER)
                raise_error(L, "IndexError", "index %lld is out of range: the subset has %lld samples",
                            (long long)indices[i], (long long)lua_rawlen(L, list));
            indices[i] = check_integer(L, -1);
            lua_pop(L, 1);
        }
        dataset = list - 1;
    }
    return dataset;
}

/* Rows of the tensors in the list at the top (or of the one tensor there) as results. */
static int
push_rows(lua_State *L, const int64_t *indices, int64_t count)
{
    struct task    *me     = script_task(L);
    int             tensors = 0;
    struct tensor **list   = check_tensors(L, lua_gettop(L), &tensors);
    luaL_checkstack(L, tensors + 5, "too many tensors");
    for (int i = 0; i < tensors; i++) {
        struct call call = call_open(L, me, CALL_PLAIN);
        call_tensor(&call, data_rows(me, list[i], indices, count));
    }
    return tensors;
}

static void
push_sample(lua_State *L, int dataset, int64_t index)
{
    dataset_item(L, dataset, index);
    if (lua_isnil(L, -1))
        raise_error(L, "IndexError", "the data set has no sample %lld", (long long)index);
}

/* ---- collating ---- */

/* collate_fn of what is at the top, as results; -1: the loader has none. */
static int
collate_by_function(lua_State *L, int loader)
{
    int data = lua_gettop(L);
    lua_getfield(L, loader, "collate_fn");
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return -1;
    }
    lua_insert(L, data);
    lua_call(L, 1, LUA_MULTRET);
    return lua_gettop(L) - data + 1;
}

/* The list of samples at the top as results: of samples that are lists, one for each entry. */
static int
collate_samples(lua_State *L, int loader)
{
    int results = collate_by_function(L, loader);
    if (results >= 0)
        return results;
    lua_rawgeti(L, -1, 1);
    bool lists = is_plain_table(L, -1) && lua_rawlen(L, -1) > 0;
    lua_pop(L, 1);
    collate(L);
    return lists ? push_batch(L) : 1;
}

/* One sample, without a batch around it. */
static int
convert_sample(lua_State *L, int loader)
{
    int results = collate_by_function(L, loader);
    if (results >= 0)
        return results;
    return is_plain_table(L, -1) && lua_rawlen(L, -1) > 0 ? push_batch(L) : 1;
}

/* ---- by index ---- */

int
fetch_batch(lua_State *L, int loader, int64_t *indices, int64_t count)
{
    lua_getfield(L, loader, "dataset");
    int  dataset = lua_gettop(L);
    bool plain   = lua_getfield(L, loader, "collate_fn") == LUA_TNIL;
    lua_pop(L, 1);
    if (plain) {
        dataset = resolve_subsets(L, dataset, indices, count);
        if (dataset_tensors(L, dataset))
            return push_rows(L, indices, count);
        lua_pushvalue(L, dataset);
        if (test_tensor(L, -1) != NULL)
            return push_rows(L, indices, count);
        lua_pop(L, 1);
    }
    lua_createtable(L, (int)count, 0);
    int list = lua_gettop(L);
    for (int64_t i = 0; i < count; i++) {
        push_sample(L, dataset, indices[i]);
        lua_rawseti(L, list, i + 1);
    }
    return collate_samples(L, loader);
}

int
fetch_sample(lua_State *L, int loader, int64_t index)
{
    lua_getfield(L, loader, "dataset");
    push_sample(L, lua_gettop(L), index);
    return convert_sample(L, loader);
}

/* ---- of a stream ---- */

void
fetch_open_stream(lua_State *L, int loader)
{
    lua_getfield(L, loader, "dataset");
    lua_getfield(L, -1, "iter");
    if (lua_isnil(L, -1))
        refuse_without(L, lua_absindex(L, -2), "iter");
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    if (!lua_isfunction(L, -1))
        raise_error(L, "TypeError", "an IterableDataset's iter answers a function that gives the next sample, not %s",
                    luaL_typename(L, -1));
}

/* Pushes the next sample, several values as a list. false: there are no more. */
static bool
next_of_iterator(lua_State *L, int iterator)
{
    int top = lua_gettop(L);
    lua_pushvalue(L, iterator);
    lua_call(L, 0, LUA_MULTRET);
    if (lua_gettop(L) == top || lua_isnil(L, top + 1)) {
        lua_settop(L, top);
        return false;
    }
    if (lua_gettop(L) > top + 1)
        gather_values(L, top + 1);
    return true;
}

int
fetch_of_stream(lua_State *L, int loader, int iterator, struct fetch *wanted)
{
    if (wanted->count == 0)
        return (wanted->ended = !next_of_iterator(L, iterator)) ? 0 : convert_sample(L, loader);
    lua_newtable(L);
    int     list = lua_gettop(L);
    int64_t got  = 0;
    while (got < wanted->count && !wanted->ended) {
        wanted->ended = !next_of_iterator(L, iterator);
        if (!wanted->ended)
            lua_rawseti(L, list, ++got);
    }
    bool nothing = got == 0 || (wanted->drop_last && got < wanted->count);
    return nothing ? 0 : collate_samples(L, loader);
}

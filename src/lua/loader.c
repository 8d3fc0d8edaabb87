/* rs.utils.data.DataLoader: for x, y in loader do. A pass begins with the base seed that PyTorch draws for its workers,
 * though there are none; then indices come from the sampler as batches need them. The control variable of the loop
 * finds its pass again, so loops over one loader may nest. */
#include "base/vec.h"
#include "data/batch.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char LOADER[] = LOADER_CLASS, PASSES[] = "ringside.loader.passes", LATEST[] = "ringside.loader.latest";
enum { BATCH_MOST = 1 << 20, SUBSETS = 16, RNG_STATE = 5056 };

/* One pass over a loader. User value 1: the loader; 2: where indices come from, a stream, a list or a function; 3: the
 * state of the loader's generator when it began, or nil. */
struct loading {
    int64_t batch_size, batch;
    int64_t at;             /* in a list */
    int64_t base_seed, yielded;
    bool    drop_last, over, ended;   /* over: there are no more indices; ended: the lesson was told so */
};
enum { PASS_LOADER = 1, PASS_SOURCE, PASS_GENERATOR, PASS_VALUES = PASS_GENERATOR };

static void
check_loader(lua_State *L)
{
    if (!has_class(L, 1, LOADER))
        arg_error(L, 1, "a DataLoader");
}

/* ---- beginning ---- */

/* From the loader's generator, whose state is kept: who goes on with this pass begins there. */
static int64_t
draw_base_seed(lua_State *L, int pass)
{
    struct task *me = script_task(L);
    if (option_push(L, 1, "generator")) {
        struct generator *given = box_check(L, -1, BOX_GENERATOR);
        unsigned char     state[RNG_STATE];
        generator_state(given, state);
        lua_pushlstring(L, (const char *)state, sizeof state);
        lua_setiuservalue(L, pass, PASS_GENERATOR);
        lua_pop(L, 1);
        return draw_random_i64(given);
    }
    struct generator *generator = default_generator(me);
    if (generator == NULL)
        raise(L, me);
    return draw_random_i64(generator);
}

/* A sampler of ours, a list of indices, or an object with iter(): what the indices come from, at the top. */
static void
push_source(lua_State *L)
{
    lua_getfield(L, 1, "sampler");
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

static void
check_batch_size(lua_State *L, int64_t size)
{
    if (size < 1 || size > BATCH_MOST)
        raise_error(L, "ValueError", "batch_size should be a positive integer value, but got %lld", (long long)size);
}

/* ---- going on with another pass ---- */

/* Where the loader's state (the table at `state`) wants this pass to go on. What it draws was drawn then: from the
 * loader's own generator once more, from the task's not at all. */
static void
resume_pass(lua_State *L, int pass, int state)
{
    struct loading *loading = lua_touserdata(L, pass);
    loading->batch          = check_yielded(L, state, "batches");
    if (lua_getfield(L, state, "generator") == LUA_TSTRING && option_push(L, 1, "generator")) {
        struct generator *given = box_check(L, -1, BOX_GENERATOR);
        size_t            length = 0;
        const char       *text   = lua_tolstring(L, -2, &length);
        if (length != RNG_STATE || !generator_set_state(given, (const unsigned char *)text))
            raise_error(L, "ValueError", "this is no state_dict: generator must be a generator's state");
        loading->base_seed = draw_base_seed(L, pass);
        lua_pop(L, 1);
    } else if (lua_getfield(L, state, "base_seed") == LUA_TNUMBER) {
        loading->base_seed = check_integer(L, -1);
    } else {
        loading->base_seed = draw_base_seed(L, pass);
    }
    lua_settop(L, state);
    if (lua_getfield(L, state, "sampler") != LUA_TTABLE)
        raise_error(L, "ValueError", "this is no state_dict of a DataLoader: it has no sampler");
    loading->yielded = check_yielded(L, state + 1, "yielded");
    lua_getfield(L, 1, "sampler");
    if (is_sampler(L, -1))
        load_sampler_state(L, state + 2, state + 1);
    lua_settop(L, state);
}

static bool next_index(lua_State *L, int source, struct loading *loading, int64_t *index);

/* Samplers of ours have gone on by themselves; of others the first indices are passed over. */
static void
pass_over(lua_State *L, int pass)
{
    struct loading *loading = lua_touserdata(L, pass);
    int64_t         index   = 0;
    lua_getiuservalue(L, pass, PASS_SOURCE);
    int source = lua_gettop(L);
    for (int64_t i = 0; lua_type(L, source) != LUA_TUSERDATA && !loading->over && i < loading->yielded; i++)
        loading->over = !next_index(L, source, loading, &index);
    lua_settop(L, source - 1);
}

static struct loading *
push_pass(lua_State *L)
{
    struct loading *loading = lua_newuserdatauv(L, sizeof *loading, PASS_VALUES);
    int             self    = lua_gettop(L);
    *loading = (struct loading){ .batch_size = option_integer(L, 1, "batch_size", 1),
                                 .drop_last = option_bool(L, 1, "drop_last", false) };
    check_batch_size(L, loading->batch_size);
    if (lua_getfield(L, 1, "resume") == LUA_TTABLE)
        resume_pass(L, self, self + 1);
    else
        loading->base_seed = draw_base_seed(L, self);
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_setfield(L, 1, "resume");
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, self, PASS_LOADER);
    push_source(L);
    lua_setiuservalue(L, self, PASS_SOURCE);
    pass_over(L, self);
    push_weak_table(L, LATEST, "k");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, self);
    lua_rawset(L, -3);
    lua_settop(L, self);
    return loading;
}

/* What loader:load_state_dict(dict) wants of the latest pass: how far it has come, and what it has drawn. */
static int
loader_state_dict(lua_State *L)
{
    check_loader(L);
    lua_settop(L, 1);
    lua_createtable(L, 0, 4);
    push_weak_table(L, LATEST, "k");
    lua_pushvalue(L, 1);
    lua_rawget(L, 3);
    const struct loading *loading = lua_touserdata(L, 4);
    bool                  under_way = loading != NULL && !loading->ended;
    set_integer(L, 2, "batches", under_way ? loading->batch : 0);
    if (under_way) {
        set_integer(L, 2, "base_seed", loading->base_seed);
        lua_getiuservalue(L, 4, PASS_GENERATOR);
        lua_setfield(L, 2, "generator");
        lua_getiuservalue(L, 4, PASS_SOURCE);
    }
    lua_settop(L, 5);
    lua_getfield(L, 1, "sampler");
    if (is_sampler(L, 6) && lua_type(L, 5) == LUA_TUSERDATA) {
        push_sampler_state(L, 6, 5, loading->yielded);
    } else {
        lua_createtable(L, 0, 2);
        set_integer(L, 7, "yielded", under_way ? loading->yielded : 0);
        if (is_sampler(L, 6) && option_push(L, 6, "epoch"))
            lua_setfield(L, 7, "epoch");
    }
    lua_setfield(L, 2, "sampler");
    lua_settop(L, 2);
    return 1;
}

static int
loader_load_state_dict(lua_State *L)
{
    check_loader(L);
    check_table(L, 2);
    check_yielded(L, 2, "batches");
    lua_pushvalue(L, 2);
    lua_setfield(L, 1, "resume");
    return 0;
}

/* ---- indices ---- */

static bool
next_of_function(lua_State *L, int source, int64_t *index)
{
    lua_pushvalue(L, source);
    lua_call(L, 0, 1);
    bool more = !lua_isnil(L, -1);
    if (more)
        *index = check_integer(L, -1);
    lua_pop(L, 1);
    return more;
}

static bool
next_of_list(lua_State *L, int source, struct loading *loading, int64_t *index)
{
    bool more = lua_rawgeti(L, source, ++loading->at) != LUA_TNIL;
    if (more)
        *index = check_integer(L, -1);
    lua_pop(L, 1);
    return more;
}

static bool
next_index(lua_State *L, int source, struct loading *loading, int64_t *index)
{
    if (lua_isfunction(L, source))
        return next_of_function(L, source, index);
    if (lua_istable(L, source))
        return next_of_list(L, source, loading, index);
    return next_of_stream(L, source, index);
}

/* The next batch's indices, in memory at the top of the stack. 0: there is none. */
static int64_t
push_indices(lua_State *L, int pass, int64_t **indices)
{
    struct loading *loading = lua_touserdata(L, pass);
    int64_t         count   = 0;
    lua_getiuservalue(L, pass, PASS_SOURCE);
    int source = lua_gettop(L);
    *indices   = lua_newuserdatauv(L, (size_t)loading->batch_size * sizeof **indices, 0);
    while (!loading->over && count < loading->batch_size) {
        loading->over = !next_index(L, source, loading, &(*indices)[count]);
        count += !loading->over;
    }
    lua_remove(L, source);
    return count < loading->batch_size && loading->drop_last ? 0 : count;
}

/* ---- samples ---- */

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

static int
push_samples(lua_State *L, int dataset, const int64_t *indices, int64_t count, bool collated)
{
    lua_createtable(L, (int)count, 0);
    int list = lua_gettop(L);
    for (int64_t i = 0; i < count; i++) {
        dataset_item(L, dataset, indices[i]);
        if (lua_isnil(L, -1))
            raise_error(L, "IndexError", "the data set has no sample %lld", (long long)indices[i]);
        lua_rawseti(L, list, i + 1);
    }
    if (collated)
        return 1;
    lua_rawgeti(L, list, 1);
    bool lists = is_plain_table(L, -1) && lua_rawlen(L, -1) > 0;
    lua_pop(L, 1);
    collate(L);
    return lists ? push_batch(L) : 1;
}

/* The batch of these indices as results. */
static int
push_data(lua_State *L, int64_t *indices, int64_t count)
{
    lua_getfield(L, 1, "dataset");
    int dataset = lua_gettop(L);
    lua_getfield(L, 1, "collate_fn");
    if (!lua_isnil(L, -1)) {
        int function = lua_gettop(L);
        push_samples(L, dataset, indices, count, true);
        lua_call(L, 1, LUA_MULTRET);
        return lua_gettop(L) - function + 1;
    }
    dataset = resolve_subsets(L, dataset, indices, count);
    if (dataset_tensors(L, dataset))
        return push_rows(L, indices, count);
    lua_pushvalue(L, dataset);
    if (test_tensor(L, -1) != NULL)
        return push_rows(L, indices, count);
    return push_samples(L, dataset, indices, count, false);
}

static int
next_batch(lua_State *L, int pass)
{
    struct task    *me      = script_task(L);
    struct loading *loading = lua_touserdata(L, pass);
    int64_t        *indices = NULL, count = push_indices(L, pass, &indices);
    loading->ended          = count == 0;
    if (count == 0)
        return 0;
    loading->yielded += count;
    struct call call = call_open(L, me, CALL_PLAIN);
    data_index(me, loading->batch++, indices, count);
    call_done(&call, true);
    return push_data(L, indices, count);
}

/* ---- walking ---- */

/* registry[PASSES][loader]: control variable -> pass, weak in all keys. */
static void
push_passes(lua_State *L)
{
    push_weak_table(L, PASSES, "k");
    lua_pushvalue(L, 1);
    if (lua_rawget(L, -2) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_getmetatable(L, -2);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
}

/* The pass of the control variable at 3, which it leaves; nil begins one. */
static int
push_pass_of(lua_State *L, int passes)
{
    if (lua_isnil(L, 3)) {
        push_pass(L);
        return lua_gettop(L);
    }
    lua_pushvalue(L, 3);
    if (lua_rawget(L, passes) != LUA_TUSERDATA)
        raise_error(L, "RuntimeError", "this pass over the DataLoader is over");
    lua_pushvalue(L, 3);
    lua_pushnil(L);
    lua_rawset(L, passes);
    return lua_gettop(L);
}

static int
loader_call(lua_State *L)
{
    check_loader(L);
    lua_settop(L, 3);
    push_passes(L);
    int passes = lua_gettop(L), pass = push_pass_of(L, passes), results = next_batch(L, pass);
    if (results == 0)
        return 0;
    int first = lua_gettop(L) - results + 1;
    if (lua_isnil(L, first))
        raise_error(L, "TypeError", "collate_fn answered nil");
    lua_pushvalue(L, first);
    lua_pushvalue(L, pass);
    lua_rawset(L, passes);
    return results;
}

static int
loader_next(lua_State *L)
{
    lua_settop(L, 0);
    lua_getiuservalue(L, lua_upvalueindex(1), PASS_LOADER);
    lua_pushvalue(L, lua_upvalueindex(1));
    return next_batch(L, 2);
}

static int
loader_iter(lua_State *L)
{
    check_loader(L);
    lua_settop(L, 1);
    push_pass(L);
    lua_pushcclosure(L, loader_next, 1);
    return 1;
}

/* How many batches. */
static int
loader_length(lua_State *L)
{
    check_loader(L);
    lua_getfield(L, 1, "sampler");
    int64_t samples = luaL_len(L, -1), size = option_integer(L, 1, "batch_size", 1);
    bool    drop    = option_bool(L, 1, "drop_last", false);
    check_batch_size(L, size);
    lua_pushinteger(L, samples / size + (samples % size > 0 && !drop));
    return 1;
}

/* ---- making ---- */

/* The loader at `self` gets a sampler of its own, over `length` samples. */
static void
set_sampler(lua_State *L, int self, int64_t length, bool shuffle)
{
    if (shuffle && length == 0)
        raise_error(L, "ValueError", "num_samples should be a positive integer value, but got num_samples=0");
    push_sampler(L, shuffle ? "RandomSampler" : "SequentialSampler", length);
    set_integer(L, -1, "num_samples", length);
    lua_getfield(L, self, "generator");
    lua_setfield(L, -2, "generator");
    lua_setfield(L, self, "sampler");
}

/* DataLoader(dataset, batch_size = 1, shuffle = false, {sampler, num_workers, collate_fn, drop_last, generator}) */
static int
data_loader(lua_State *L)
{
    struct arguments       a;
    const struct argument *batch_size = &a.at[1], *shuffle = &a.at[2], *sampler = &a.at[3], *num_workers = &a.at[4];
    take_arguments(L, &a);
    check_batch_size(L, batch_size->integer[0]);
    if (num_workers->integer[0] != 0)
        raise_error(L, "NotImplementedError", "num_workers must be 0: there are no loading processes here, and batches "
                                              "would come in the same order");
    int64_t length = dataset_length(L, (int)a.at[0].integer[0]);
    if (shuffle->integer[0] && !sampler->none)
        raise_error(L, "ValueError", "sampler option is mutually exclusive with shuffle");
    lua_createtable(L, 0, 8);
    luaL_setmetatable(L, LOADER);
    int self = lua_gettop(L);
    set_arguments(L, self, &a, 0);
    if (sampler->none)
        set_sampler(L, self, length, shuffle->integer[0] != 0);
    return 1;
}

static int
default_collate(lua_State *L)
{
    check_table(L, 1);
    lua_settop(L, 1);
    if (lua_rawlen(L, 1) == 0)
        raise_error(L, "ValueError", "default_collate: there are no samples");
    collate(L);
    return 1;
}

static const struct lua_entry methods[] = {
    { "iter", loader_iter, "loader:iter()", "one pass: for x, y in loader:iter() do; the loader itself does, too" },
    { "state_dict", loader_state_dict, "loader:state_dict()",
      "where its last pass stands: batches, the seeds it drew, its sampler's state" },
    { "load_state_dict", loader_load_state_dict, "loader:load_state_dict(dict)",
      "its next pass goes on behind those batches" },
};
static const struct lua_entry entries[] = {
    { "DataLoader", data_loader,
      "utils.data.DataLoader(any dataset, int batch_size=1, bool shuffle=False, *, table? sampler=None, "
      "int num_workers=0, function? collate_fn=None, bool drop_last=False, Generator? generator=None) -> any",
      "for x, y in loader do: a data set in batches" },
    { "default_collate", default_collate, "utils.data.default_collate({samples})", "what a batch of them is" },
};

void
lua_open_loader(lua_State *L)
{
    static const luaL_Reg metamethods[] = { { "__call", loader_call }, { "__len", loader_length }, { NULL, NULL } };
    open_class(L, LOADER, methods, countof(methods), metamethods);
    fill_namespace(L, "utils.data", entries, countof(entries));
}

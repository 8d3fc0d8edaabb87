/* rs.utils.data.DataLoader: for x, y in loader do. A pass begins with the base seed that PyTorch draws for its workers,
 * also if there are none; then indices come from the sampler as batches need them, or, with workers, as far ahead as
 * they may load. The control variable of the loop finds its pass again, so loops over one loader may nest. In PyTorch:
 * torch/utils/data/dataloader.py. */
#include <stdio.h>
#include <string.h>
#include "base/vec.h"
#include "data/batch.h"
#include "device/device.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char LOADER[] = LOADER_CLASS, PASSES[] = "ringside.loader.passes", LATEST[] = "ringside.loader.latest",
                  CREWS[] = "ringside.loader.crews";
enum { WORKERS_MOST = 256, PREFETCH_MOST = 1024, RNG_STATE = 5056 };

/* With workers: batches from `received` to `sent` are ordered and not handed over; which worker has batch b, and of how
 * many samples it is, stands at b % room. */
struct ordered { int worker; int64_t samples; };
struct ahead {
    struct crew **crew;                     /* its box; NULL there: it has ended */
    int64_t      sent, received, room;
    int          count, next;               /* workers; whose turn the next order is */
    bool         persistent;
    bool         active[WORKERS_MOST];      /* false: its stream has ended */
    struct ordered ordered[];
};

/* One pass over a loader. User value 1: the loader; 2: where indices come from; 3: the state of the loader's generator
 * when it began, or nil; 4: of a stream without workers, what gives its samples; 5: struct ahead; 6: what keeps its
 * crew. */
struct loading {
    struct index_source source;
    int64_t batch;                 /* the next one */
    int64_t base_seed, yielded;
    int64_t skip;                  /* of a stream that goes on: batches to be thrown away */
    int64_t told_length;           /* of a stream: what it was said to have; -1: nobody asked */
    bool    stream, ended;         /* ended: the lesson was told so */
    struct fetch  fetch;
    struct ahead *ahead;           /* NULL: no workers */
};
enum { PASS_LOADER = 1, PASS_SOURCE, PASS_GENERATOR, PASS_ITERATOR, PASS_AHEAD, PASS_CREW, PASS_VALUES = PASS_CREW };

/* The box of the workers that the loader at 1 has kept, pushed. false: it has none. */
static bool
push_lasting_crew(lua_State *L)
{
    push_weak_table(L, CREWS, "k");
    lua_pushvalue(L, 1);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    if (lua_touserdata(L, -1) != NULL && *(struct crew **)lua_touserdata(L, -1) != NULL)
        return true;
    lua_pop(L, 1);
    return false;
}

static void
check_loader(lua_State *L)
{
    if (!has_class(L, 1, LOADER))
        arg_error(L, 1, "a DataLoader");
}

static bool
loader_is_stream(lua_State *L)
{
    lua_getfield(L, 1, "dataset");
    bool stream = dataset_is_stream(L, -1);
    lua_pop(L, 1);
    return stream;
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
    push_own_sampler(L, 1);
    if (!lua_isnil(L, -1))
        load_sampler_state(L, state + 2, state + 1);
    lua_settop(L, state);
}

/* What loader:load_state_dict(dict) wants of the latest pass: how far it has come, and what it has drawn. As
 * torchdata's StatefulDataLoader. */
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
    push_own_sampler(L, 1);
    if (!lua_isnil(L, 6) && lua_type(L, 5) == LUA_TUSERDATA) {
        push_sampler_state(L, 6, 5, loading->yielded);
    } else {
        lua_createtable(L, 0, 2);
        set_integer(L, 7, "yielded", under_way ? loading->yielded : 0);
        if (option_push(L, 6, "epoch"))
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

/* ---- with workers ---- */

/* The next batch is ordered, if there is one, of the next worker that has not come to its end. */
static void
order_next(lua_State *L, int pass)
{
    struct loading *loading = lua_touserdata(L, pass);
    struct ahead   *ahead   = loading->ahead;
    int64_t        *indices = NULL, samples = loading->fetch.count;
    int             top     = lua_gettop(L);
    lua_getiuservalue(L, pass, PASS_SOURCE);
    if (!loading->stream)
        samples = indices_next(L, top + 1, &loading->source, &indices);
    int worker = ahead->next;
    for (int i = 0; i < ahead->count && !ahead->active[worker]; i++)
        worker = (worker + 1) % ahead->count;
    if (samples >= 0 && ahead->active[worker]) {
        ahead->next = (worker + 1) % ahead->count;
        const struct crew_order order = { ahead->sent, samples, indices };
        crew_send(L, *ahead->crew, worker, &order);
        ahead->ordered[ahead->sent++ % ahead->room] = (struct ordered){ worker, samples };
    }
    lua_settop(L, top);
}

/* Of all passes over the loader at 1 this one began last. */
static void
note_latest(lua_State *L, int pass)
{
    push_weak_table(L, LATEST, "k");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, pass);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* Workers that persist have one pass at a time, the latest: an older one goes on with that. In PyTorch both are one
 * iterator, which was begun again. */
static int
pass_under_way(lua_State *L, int pass)
{
    const struct loading *loading = lua_touserdata(L, pass);
    if (loading->ahead == NULL || !loading->ahead->persistent)
        return pass;
    push_weak_table(L, LATEST, "k");
    lua_pushvalue(L, 1);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    return lua_gettop(L);
}

/* Workers that persist are the loader's, others this pass's. */
static void
push_crew_of_loader(lua_State *L, int pass, int count)
{
    struct loading *loading = lua_touserdata(L, pass);
    if (push_lasting_crew(L)) {
        loading->ahead->crew = lua_touserdata(L, -1);
        note_latest(L, pass);
        crew_again(L, *loading->ahead->crew);
        return;
    }
    const struct crew_options options = { .base_seed = loading->base_seed, .count = count, .stream = loading->stream,
                                          .fetch = loading->fetch, .timeout = option_number(L, 1, "timeout", 0),
                                          .batched = loading->source.lists || loading->source.batch_size > 0 };
    loading->ahead->crew = push_crew(L, 1, &options);
    if (!loading->ahead->persistent)
        return;
    push_weak_table(L, CREWS, "k");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

static void
check_worker_count(lua_State *L, int64_t workers)
{
    if (workers < 0)
        raise_error(L, "ValueError", "num_workers option should be non-negative; use num_workers=0 to load without "
                                     "workers.");
    if (workers > WORKERS_MOST)
        raise_error(L, "ValueError", "num_workers is %lld: at most %d", (long long)workers, (int)WORKERS_MOST);
}

static void
check_prefetch(lua_State *L, int64_t batches)
{
    if (batches < 0)
        raise_error(L, "ValueError", "prefetch_factor option should be non-negative");
    if (batches > PREFETCH_MOST)
        raise_error(L, "ValueError", "prefetch_factor is %lld: at most %d", (long long)batches, (int)PREFETCH_MOST);
}

/* How many workers this pass has: those that were kept, or as many as the loader wants, whose fields a lesson may have
 * changed. */
static int
count_workers(lua_State *L)
{
    int64_t count = option_integer(L, 1, "num_workers", 0);
    check_worker_count(L, count);
    if (!push_lasting_crew(L))
        return (int)count;
    count = crew_count(*(struct crew **)lua_touserdata(L, -1));
    lua_pop(L, 1);
    return (int)count;
}

static void
hire(lua_State *L, int pass)
{
    struct loading *loading = lua_touserdata(L, pass);
    int             count   = count_workers(L);
    if (count == 0)
        return;
    int64_t prefetch = option_integer(L, 1, "prefetch_factor", 2);
    check_prefetch(L, prefetch);
    if (prefetch == 0)
        raise_error(L, "AssertionError", "prefetch_factor must be greater than 0 with workers");
    int64_t room = count * prefetch;
    struct ahead *ahead = lua_newuserdatauv(L, sizeof *ahead + (size_t)room * sizeof(struct ordered), 0);
    int64_t       first = loading->stream ? 0 : loading->batch; /* a stream is read again from its beginning */
    *ahead = (struct ahead){ .sent = first, .received = first, .room = room, .count = count,
                             .next = (int)(first % count),
                             .persistent = option_bool(L, 1, "persistent_workers", false) };
    memset(ahead->active, true, (size_t)count);
    lua_setiuservalue(L, pass, PASS_AHEAD);
    loading->ahead = ahead;
    push_crew_of_loader(L, pass, count);
    lua_setiuservalue(L, pass, PASS_CREW);
    for (int64_t i = 0; i < room; i++)
        order_next(L, pass);
}

static void
part_with(lua_State *L, int pass)
{
    struct loading *loading = lua_touserdata(L, pass);
    if (!loading->ahead->persistent && *loading->ahead->crew != NULL)
        crew_end(L, *loading->ahead->crew);
}

/* The next batch of a worker, as results; 0: there is none. Whose stream has ended gets no more orders, and those that
 * it has are lost, as in PyTorch. */
static int
next_of_crew(lua_State *L, int pass)
{
    struct loading *loading = lua_touserdata(L, pass);
    struct ahead   *ahead   = loading->ahead;
    while (*ahead->crew != NULL && ahead->received < ahead->sent) {
        int64_t        batch = ahead->received;
        struct ordered at    = ahead->ordered[batch % ahead->room];
        bool           ended = true;
        if (ahead->active[at.worker])
            ended = crew_receive(L, *ahead->crew, at.worker, batch); /* if that raises, it is still to come */
        ahead->received++;
        if (!ahead->active[at.worker])
            continue;
        ahead->active[at.worker] = !ended;
        if (ended && !ahead->persistent)
            crew_dismiss(L, *ahead->crew, at.worker);
        order_next(L, pass);
        if (ended)
            continue;
        loading->yielded += at.samples;
        return crew_open(L, *ahead->crew, at.worker);
    }
    part_with(L, pass);
    return 0;
}

/* ---- without ---- */

static int
next_here(lua_State *L, int pass)
{
    struct task    *me      = script_task(L);
    struct loading *loading = lua_touserdata(L, pass);
    int64_t        *indices = NULL;
    lua_getiuservalue(L, pass, loading->stream ? PASS_ITERATOR : PASS_SOURCE);
    int at = lua_gettop(L);
    if (loading->stream)
        return loading->fetch.ended ? 0 : fetch_of_stream(L, 1, at, &loading->fetch);
    int64_t count = indices_next(L, at, &loading->source, &indices);
    if (count < 0)
        return 0;
    loading->yielded += count;
    struct call call = call_open(L, me, CALL_PLAIN);
    data_index(me, loading->batch, indices, count);
    call_done(&call, true);
    bool batched = loading->source.lists || loading->source.batch_size > 0;
    return batched ? fetch_batch(L, 1, indices, count) : fetch_sample(L, 1, indices[0]);
}

/* ---- a pass ---- */

static struct loading *
push_pass(lua_State *L)
{
    struct loading *loading = lua_newuserdatauv(L, sizeof *loading, PASS_VALUES);
    int             self    = lua_gettop(L);
    *loading = (struct loading){ .stream = loader_is_stream(L) };
    if (lua_getfield(L, 1, "resume") == LUA_TTABLE)
        resume_pass(L, self, self + 1);
    else if (push_lasting_crew(L)) /* whoever stays was seeded once */
        loading->base_seed = crew_base_seed(*(struct crew **)lua_touserdata(L, -1));
    else
        loading->base_seed = draw_base_seed(L, self);
    lua_pushnil(L);
    lua_setfield(L, 1, "resume");
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, self, PASS_LOADER);
    lua_settop(L, self);
    loading->told_length = option_integer(L, 1, "told_length", -1);
    loading->fetch       = (struct fetch){ .count = option_integer(L, 1, "batch_size", 0),
                                           .drop_last = option_bool(L, 1, "drop_last", false) };
    if (loading->stream) {
        if (loading->fetch.count != 0)
            check_batch_size(L, loading->fetch.count);
        loading->skip = loading->batch;
    } else {
        indices_open(L, 1, &loading->source);
        indices_skip(L, self + 1, &loading->source, loading->batch);
        lua_setiuservalue(L, self, PASS_SOURCE);
    }
    hire(L, self);
    if (loading->stream && loading->ahead == NULL) {
        fetch_open_stream(L, 1);
        lua_setiuservalue(L, self, PASS_ITERATOR);
    }
    note_latest(L, self);
    lua_settop(L, self);
    return loading;
}

/* A stream that gives more than its len has said, when len(loader) was asked for. */
static void
warn_of_length(lua_State *L, const struct loading *loading)
{
    char text[600];
    if (!loading->stream || loading->told_length < 0 || loading->batch <= loading->told_length)
        return;
    lua_getfield(L, 1, "dataset");
    lua_getfield(L, -1, "__class");
    lua_getfield(L, -1, "__name");
    const char *name = lua_tostring(L, -1);
    snprintf(text, sizeof text, "Length of IterableDataset %.60s was reported to be %lld(when accessing "
             "len(dataloader)), but %lld samples have been fetched. %s", name != NULL ? name : "?",
             (long long)loading->told_length, (long long)loading->batch, loading->ahead == NULL ? "" :
             "With workers each one reads the whole stream, unless its iter asks rs.utils.data.get_worker_info() for "
             "the worker's part.");
    lua_pop(L, 3);
    lesson_warn(L, text);
}

static int
next_batch(lua_State *L, int pass)
{
    pass = pass_under_way(L, pass);
    struct loading *loading = lua_touserdata(L, pass);
    int             top     = lua_gettop(L), results = 0;
    do {
        lua_settop(L, top);
        results = loading->ahead != NULL ? next_of_crew(L, pass) : next_here(L, pass);
    } while (results > 0 && loading->skip-- > 0);
    loading->skip  = 0;
    loading->ended = results == 0;
    loading->batch += results > 0 && loading->skip == 0;
    if (results > 0)
        warn_of_length(L, loading);
    return results;
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
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, loader_next, 1);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_getiuservalue(L, 2, option_bool(L, 1, "persistent_workers", false) ? PASS_VALUES + 1 : PASS_CREW);
    return 4; /* the crew is closed where the loop is left: its workers end there */
}

/* How many batches. */
static int
loader_length(lua_State *L)
{
    check_loader(L);
    bool stream = loader_is_stream(L), lists = lua_getfield(L, 1, "batch_sampler") != LUA_TNIL;
    if (!lists)
        lua_getfield(L, 1, stream ? "dataset" : "sampler");
    int64_t samples = luaL_len(L, -1), size = option_integer(L, 1, "batch_size", 1);
    bool    drop    = option_bool(L, 1, "drop_last", false);
    check_batch_size(L, size);
    if (stream)
        set_integer(L, 1, "told_length", samples);
    lua_pushinteger(L, samples / size + (samples % size > 0 && !drop));
    return 1;
}

/* ---- making ---- */

enum { DATASET, BATCH_SIZE, SHUFFLE, SAMPLER, BATCH_SAMPLER, NUM_WORKERS, COLLATE_FN, PIN_MEMORY, DROP_LAST, TIMEOUT,
       WORKER_INIT_FN, GENERATOR, PREFETCH_FACTOR, PERSISTENT_WORKERS };

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

static void
check_workers(lua_State *L, const struct argument *at)
{
    int64_t workers = at[NUM_WORKERS].integer[0];
    check_worker_count(L, workers);
    if (!(at[TIMEOUT].number >= 0))
        raise_error(L, "ValueError", "timeout option should be non-negative");
    if (workers == 0 && !at[PREFETCH_FACTOR].none)
        raise_error(L, "ValueError", "prefetch_factor option is for workers: give num_workers > 0, or leave it out.");
    if (!at[PREFETCH_FACTOR].none)
        check_prefetch(L, at[PREFETCH_FACTOR].integer[0]);
    if (workers == 0 && at[PERSISTENT_WORKERS].integer[0] != 0)
        raise_error(L, "ValueError", "persistent_workers option needs num_workers > 0");
    if (workers == 0 && at[TIMEOUT].number != 0)
        raise_error(L, "AssertionError", "timeout is for workers: give num_workers > 0, or leave it out");
    if (workers > 0 && script_worker(script_of(L)) >= 0)
        raise_error(L, "AssertionError", "a DataLoader worker cannot have workers of its own: num_workers must be 0");
}

/* A stream has no indices. */
static void
check_stream_options(lua_State *L, const struct argument *at)
{
    const char *what = NULL;
    if (!at[SHUFFLE].none && at[SHUFFLE].integer[0] != 0)
        what = "shuffle option, but got shuffle=True";
    else if (!at[SAMPLER].none)
        what = "sampler option";
    else if (!at[BATCH_SAMPLER].none)
        what = "batch_sampler option";
    if (what != NULL)
        raise_error(L, "ValueError", "DataLoader with IterableDataset: expected unspecified %s", what);
}

static void
check_batching(lua_State *L, const struct argument *at)
{
    bool shuffle = !at[SHUFFLE].none && at[SHUFFLE].integer[0] != 0, drop_last = at[DROP_LAST].integer[0] != 0;
    bool usual   = !at[BATCH_SIZE].none && at[BATCH_SIZE].integer[0] == 1;
    if (!at[SAMPLER].none && shuffle)
        raise_error(L, "ValueError", "sampler option is mutually exclusive with shuffle");
    if (!at[BATCH_SAMPLER].none && (!usual || shuffle || !at[SAMPLER].none || drop_last))
        raise_error(L, "ValueError", "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                                     "and drop_last");
    if (at[BATCH_SAMPLER].none && at[BATCH_SIZE].none && drop_last)
        raise_error(L, "ValueError", "batch_size=None option disables auto-batching and is mutually exclusive with "
                                     "drop_last");
    if (!at[BATCH_SIZE].none)
        check_batch_size(L, at[BATCH_SIZE].integer[0]);
}

/* DataLoader(dataset, batch_size = 1, shuffle = false, ...) */
static int
data_loader(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    int  dataset = (int)a.at[DATASET].integer[0];
    bool stream  = dataset_is_stream(L, dataset);
    check_workers(L, a.at);
    if (stream)
        check_stream_options(L, a.at);
    check_batching(L, a.at);
    int64_t length = stream ? 0 : dataset_length(L, dataset);
    lua_createtable(L, 0, 12);
    luaL_setmetatable(L, LOADER);
    int self = lua_gettop(L);
    set_arguments(L, self, &a, 0);
    if (!a.at[BATCH_SAMPLER].none) {
        lua_pushnil(L);
        lua_setfield(L, self, "batch_size");
    } else if (!stream && a.at[SAMPLER].none) {
        set_sampler(L, self, length, !a.at[SHUFFLE].none && a.at[SHUFFLE].integer[0] != 0);
    }
    if (a.at[PIN_MEMORY].integer[0] != 0 && device_count(script_task(L)) == 0)
        lesson_warn(L, "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
                       "won't be used.");
    lua_settop(L, self);
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
      "utils.data.DataLoader(any dataset, int? batch_size=1, bool? shuffle=None, table? sampler=None, "
      "any? batch_sampler=None, int num_workers=0, function? collate_fn=None, bool pin_memory=False, "
      "bool drop_last=False, float timeout=0, function? worker_init_fn=None, Generator? generator=None, *, "
      "int? prefetch_factor=None, bool persistent_workers=False) -> any",
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

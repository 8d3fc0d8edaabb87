/* rs.utils.data: samplers. Objects are tables whose fields say all; a pass is drawn by data/sampler.c. They are walked
 * like parameters: `for i in sampler do`, indices from 0. */
#include <string.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "parallel/check_ranks.h"
#include "sched/task.h"

static const char SAMPLER[] = "ringside.sampler", PASSES[] = "ringside.sampler.passes",
                  COUNTED[] = "ringside.sampler.counted", LATEST[] = "ringside.sampler.latest";
enum { SAMPLES_MOST = 1 << 26, RNG_STATE = 5056 };
#define YIELDED_MOST (1LL << 53)          /* far beyond what a run reaches: sums of it stay integers */

bool
is_sampler(lua_State *L, int index)
{
    return has_class(L, index, SAMPLER);
}

static int
check_sampler(lua_State *L)
{
    if (!is_sampler(L, 1))
        arg_error(L, 1, "a sampler");
    return 1;
}

void
push_sampler(lua_State *L, const char *name, int64_t length)
{
    lua_createtable(L, 0, 8);
    luaL_setmetatable(L, SAMPLER);
    set_text(L, -1, "kind", name);
    set_integer(L, -1, "length", length);
}

static int64_t
sampler_number(lua_State *L, int table, const char *name, int64_t low, int64_t high)
{
    int64_t value = option_integer(L, table, name, 0);
    if (value < low || value > high)
        raise_error(L, "ValueError", "the sampler's %s is %lld", name, (long long)value);
    return value;
}

static struct sampler
read_sampler(lua_State *L, int index)
{
    index                  = lua_absindex(L, index);
    const char    *kind    = option_text(L, index, "kind", "");
    struct sampler sampler = { .length = sampler_number(L, index, "length", 0, SAMPLES_MOST) };
    if (strcmp(kind, "RandomSampler") == 0) {
        sampler.kind        = SAMPLER_RANDOM;
        sampler.samples     = sampler_number(L, index, "num_samples", 1, SAMPLES_MOST);
        sampler.replacement = option_bool(L, index, "replacement", false);
    } else if (strcmp(kind, "SubsetRandomSampler") == 0) {
        sampler.kind = SAMPLER_SUBSET;
    } else if (strcmp(kind, "DistributedSampler") == 0) {
        sampler.kind      = SAMPLER_DISTRIBUTED;
        sampler.replicas  = sampler_number(L, index, "num_replicas", 1, SAMPLES_MOST);
        sampler.rank      = sampler_number(L, index, "rank", 0, sampler.replicas - 1);
        sampler.shuffle   = option_bool(L, index, "shuffle", true);
        sampler.drop_last = option_bool(L, index, "drop_last", false);
        sampler.seed      = (uint64_t)option_integer(L, index, "seed", 0) +
                       (uint64_t)option_integer(L, index, "epoch", 0);
    }
    return sampler;
}

/* How many samplers were here before the one at `index`, and how many passes over it: by the order of first passes. */
static struct sampler_pass
count_pass(lua_State *L, int index)
{
    struct sampler_pass pass = { 0 };
    push_weak_table(L, COUNTED, "k");
    lua_pushvalue(L, index);
    if (lua_rawget(L, -2) == LUA_TNIL) {
        lua_pop(L, 1);
        pass.sampler = (int64_t)luaL_len(L, -1);
        lua_pushinteger(L, pass.sampler);
        lua_rawseti(L, -2, pass.sampler + 1);
    } else {
        pass.sampler = lua_tointeger(L, -1) >> 32;
        pass.pass    = lua_tointeger(L, -1) & UINT32_MAX;
        lua_pop(L, 1);
    }
    lua_pushvalue(L, index);
    lua_pushinteger(L, pass.sampler << 32 | (pass.pass + 1));
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return pass;
}

/* Under --check-ranks: who gives each rank its part must give them parts of one order. */
static void
check_pass(lua_State *L, int index, const struct sampler *sampler)
{
    struct task               *me      = script_task(L);
    const struct rank_context *context = rank_context(me);
    struct check_ranks        *check   = context != NULL ? world_check(context->world) : NULL;
    if (check == NULL || sampler->kind != SAMPLER_DISTRIBUTED || sampler->rank != context->rank ||
        sampler->replicas != world_size(context->world))
        return;
    struct sampler_pass pass = count_pass(L, index);
    pass.order = (struct sampler_order){ .length = sampler->length, .shuffle = sampler->shuffle,
                                         .drop_last = sampler->drop_last,
                                         .seed = sampler->shuffle ? (int64_t)sampler->seed : 0 };
    if (!check_sampler_pass(me, check, &pass))
        raise(L, me);
}

/* ---- where a pass stands ---- */

int64_t
check_yielded(lua_State *L, int state, const char *name)
{
    bool    number  = lua_getfield(L, state, name) == LUA_TNUMBER && lua_isinteger(L, -1);
    int64_t yielded = number ? lua_tointeger(L, -1) : -1;
    if (yielded < 0 || yielded > YIELDED_MOST)
        raise_error(L, "ValueError", "this is no state_dict: %s must be an integer of 0 or more", name);
    lua_pop(L, 1);
    return yielded;
}

static void
read_place(lua_State *L, int state, struct sampler_place *place)
{
    *place = (struct sampler_place){ .yielded = check_yielded(L, state, "yielded") };
    place->has_seed = lua_getfield(L, state, "seed") == LUA_TNUMBER;
    if (place->has_seed)
        place->seed = check_integer(L, -1);
    if (lua_getfield(L, state, "generator") != LUA_TNIL) {
        size_t      length = 0;
        const char *text   = luaL_tolstring(L, -1, &length);
        generator_seed(&place->generator, 0);
        if (length != RNG_STATE || !generator_set_state(&place->generator, (const unsigned char *)text))
            raise_error(L, "ValueError", "this is no state_dict: generator must be a generator's state");
        place->has_generator = true;
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
}

void
push_sampler_state(lua_State *L, int sampler, int stream, int64_t yielded)
{
    lua_createtable(L, 0, 3);
    int out = lua_gettop(L);
    if (option_push(L, sampler, "epoch"))
        lua_setfield(L, out, "epoch");
    push_weak_table(L, LATEST, "k");
    lua_pushvalue(L, sampler);
    lua_rawget(L, -2);
    const struct index_stream *pass = lua_touserdata(L, stream > 0 ? stream : -1);
    struct sampler_place place = { .yielded = 0 };
    if (pass != NULL)
        place = index_stream_place(pass);
    lua_settop(L, out);
    set_integer(L, out, "yielded", yielded >= 0 ? yielded : place.yielded);
    if (place.has_seed)
        set_integer(L, out, "seed", place.seed);
    if (place.has_generator) {
        unsigned char state[RNG_STATE];
        generator_state(&place.generator, state);
        lua_pushlstring(L, (const char *)state, sizeof state);
        lua_setfield(L, out, "generator");
    }
}

void
load_sampler_state(lua_State *L, int sampler, int state)
{
    struct sampler_place place;
    read_place(L, state, &place);
    if (option_push(L, state, "epoch")) {
        set_integer(L, sampler, "epoch", check_integer(L, -1));
        lua_pop(L, 1);
    }
    lua_pushvalue(L, state);
    lua_setfield(L, sampler, "resume");
}

/* The pass at the top is the sampler's last. */
static void
note_latest(lua_State *L, int sampler)
{
    push_weak_table(L, LATEST, "k");
    lua_pushvalue(L, sampler);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* The generator is kept alive by the stream's user value, the sampler. */
struct index_stream *
push_stream(lua_State *L, int index)
{
    index                       = lua_absindex(L, index);
    struct sampler    sampler   = read_sampler(L, index);
    struct generator *generator = NULL;
    check_pass(L, index, &sampler);
    if (option_push(L, index, "generator")) {
        generator = box_check(L, -1, BOX_GENERATOR);
        lua_pop(L, 1);
    }
    struct index_stream *stream = lua_newuserdatauv(L, sampler_room(&sampler), 1);
    index_stream_open(stream, &sampler, generator);
    lua_pushvalue(L, index);
    lua_setiuservalue(L, -2, 1);
    if (option_push(L, index, "resume")) {
        struct sampler_place place;
        read_place(L, lua_gettop(L), &place);
        index_stream_resume(stream, &place);
        lua_pushnil(L);
        lua_setfield(L, index, "resume");
        lua_pop(L, 1);
    }
    note_latest(L, index);
    return stream;
}

/* A SubsetRandomSampler's stream is of places in its list. */
static void
index_at_place(lua_State *L, int stream, int64_t *index)
{
    lua_getiuservalue(L, stream, 1);
    lua_getfield(L, -1, "indices");
    check_table(L, -1);
    if (lua_rawgeti(L, -1, *index + 1) != LUA_TNUMBER)
        raise_error(L, "IndexError", "the sampler's list of indices has no entry %lld", (long long)*index + 1);
    *index = check_integer(L, -1);
    lua_pop(L, 3);
}

bool
next_of_stream(lua_State *L, int at, int64_t *index)
{
    struct task         *me     = script_task(L);
    struct index_stream *stream = lua_touserdata(L, at);
    int                  more   = index_stream_next(me, stream, index);
    if (more < 0)
        raise(L, me);
    if (more > 0 && stream->sampler.kind == SAMPLER_SUBSET)
        index_at_place(L, at, index);
    return more > 0;
}

/* ---- walking ---- */

static int
push_next(lua_State *L, int stream)
{
    int64_t index = 0;
    if (!next_of_stream(L, stream, &index))
        return 0;
    lua_pushinteger(L, index);
    return 1;
}

static int
sampler_next(lua_State *L)
{
    return push_next(L, lua_upvalueindex(1));
}

static int
sampler_iter(lua_State *L)
{
    push_stream(L, check_sampler(L));
    lua_pushcclosure(L, sampler_next, 1);
    return 1;
}

/* The sampler itself as an iterator: called without a control it begins a pass. */
static int
sampler_call(lua_State *L)
{
    check_sampler(L);
    lua_settop(L, 3);
    push_weak_table(L, PASSES, "k");
    lua_pushvalue(L, 1);
    if (lua_isnil(L, 3)) {
        push_stream(L, 1);
        lua_pushvalue(L, -1);
        lua_insert(L, 5);
        lua_rawset(L, 4);
    } else {
        lua_rawget(L, 4);
    }
    if (lua_touserdata(L, 5) == NULL)
        raise_error(L, "RuntimeError", "this pass over the sampler is over");
    return push_next(L, 5);
}

static int
sampler_length(lua_State *L)
{
    struct sampler sampler = read_sampler(L, check_sampler(L));
    lua_pushinteger(L, sampler_count(&sampler));
    return 1;
}

static int
set_sampler_epoch(lua_State *L)
{
    check_sampler(L);
    set_integer(L, 1, "epoch", check_integer(L, 2));
    return 0;
}

/* As torchdata's StatefulDistributedSampler: how many indices its last pass has given; ours tells what it was shuffled
 * with, too. */
static int
sampler_state_dict(lua_State *L)
{
    push_sampler_state(L, check_sampler(L), 0, -1);
    return 1;
}

static int
sampler_load_state_dict(lua_State *L)
{
    check_table(L, 2);
    load_sampler_state(L, check_sampler(L), 2);
    return 0;
}

/* ---- making ---- */

static int
sequential_sampler(lua_State *L)
{
    push_sampler(L, "SequentialSampler", dataset_length(L, 1));
    return 1;
}

/* RandomSampler(dataset, replacement = false, num_samples, generator) */
static int
random_sampler(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    int64_t length = dataset_length(L, (int)a.at[0].integer[0]);
    int64_t samples = a.at[2].none ? length : a.at[2].integer[0];
    if (samples < 1)
        raise_error(L, "ValueError", "num_samples should be a positive integer value, but got num_samples=%lld",
                    (long long)samples);
    push_sampler(L, "RandomSampler", length);
    set_arguments(L, lua_gettop(L), &a, 1);
    set_integer(L, -1, "num_samples", samples);
    return 1;
}

/* SubsetRandomSampler(indices, generator) */
static int
subset_random_sampler(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    int list = (int)a.at[0].integer[0];
    list_only(L, list);
    if (lua_rawlen(L, list) > SAMPLES_MOST)
        raise_error(L, "ValueError", "a sampler of %llu indices is too long", (unsigned long long)lua_rawlen(L, list));
    push_sampler(L, "SubsetRandomSampler", (int64_t)lua_rawlen(L, list));
    set_arguments(L, lua_gettop(L), &a, 0);
    return 1;
}

/* num_replicas and rank of the sampler at the top: as given, else of the default group. */
static void
set_place(lua_State *L, const struct argument *num_replicas, const struct argument *num_rank)
{
    const struct rank_context  *context = rank_context(script_task(L));
    const struct process_group *group   = context != NULL ? context->group : NULL;
    if ((num_replicas->none || num_rank->none) && group == NULL)
        raise_error(L, "RuntimeError", "Default process group has not been initialized: give num_replicas and rank");
    int64_t replicas = num_replicas->none ? process_group_size(group) : num_replicas->integer[0];
    int64_t rank     = num_rank->none ? process_group_rank(group) : num_rank->integer[0];
    if (replicas < 1 || replicas > SAMPLES_MOST)
        raise_error(L, "ValueError", "num_replicas is %lld: expected 1 or more", (long long)replicas);
    if (rank < 0 || rank >= replicas)
        raise_error(L, "ValueError", "Invalid rank %lld, rank should be in the interval [0, %lld]", (long long)rank,
                    (long long)replicas - 1);
    set_integer(L, -1, "num_replicas", replicas);
    set_integer(L, -1, "rank", rank);
}

/* DistributedSampler(dataset, num_replicas, rank, shuffle = true, seed = 0, drop_last = false) */
static int
distributed_sampler(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    push_sampler(L, "DistributedSampler", dataset_length(L, (int)a.at[0].integer[0]));
    set_place(L, &a.at[1], &a.at[2]);
    set_arguments(L, lua_gettop(L), &a, 3);
    set_integer(L, -1, "epoch", 0);
    return 1;
}

static const struct lua_entry methods[] = {
    { "iter", sampler_iter, "sampler:iter()", "one pass: for i in sampler:iter() do; the sampler itself does, too" },
    { "set_epoch", set_sampler_epoch, "sampler:set_epoch(epoch)",
      "another order for every epoch (DistributedSampler)" },
    { "state_dict", sampler_state_dict, "sampler:state_dict()",
      "where its last pass stands: yielded indices, and what they were shuffled with" },
    { "load_state_dict", sampler_load_state_dict, "sampler:load_state_dict(dict)",
      "its next pass goes on where that one stood" },
};
static const struct lua_entry entries[] = {
    { "SequentialSampler", sequential_sampler, "utils.data.SequentialSampler(dataset)", "0, 1, 2, ..." },
    { "RandomSampler", random_sampler, "utils.data.RandomSampler(any dataset, bool replacement=False, "
      "int? num_samples=None, Generator? generator=None) -> any", "in random order" },
    { "SubsetRandomSampler", subset_random_sampler,
      "utils.data.SubsetRandomSampler(table indices, Generator? generator=None) -> any",
      "these indices in random order" },
    { "DistributedSampler", distributed_sampler,
      "utils.data.DistributedSampler(any dataset, int? num_replicas=None, int? rank=None, bool shuffle=True, "
      "int seed=0, bool drop_last=False) -> any",
      "this rank's part of the data set; set_epoch before each epoch" },
};

void
lua_open_sampler(lua_State *L)
{
    static const luaL_Reg metamethods[] = { { "__call", sampler_call }, { "__len", sampler_length }, { NULL, NULL } };
    open_class(L, SAMPLER, methods, countof(methods), metamethods);
    fill_namespace(L, "utils.data", entries, countof(entries));
}

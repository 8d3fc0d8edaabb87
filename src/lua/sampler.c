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
                  COUNTED[] = "ringside.sampler.counted";
enum { SAMPLES_MOST = 1 << 26 };

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
    return stream;
}

/* ---- walking ---- */

static int
push_next(lua_State *L, struct index_stream *stream)
{
    struct task *me    = script_task(L);
    int64_t      index = 0;
    int          more  = index_stream_next(me, stream, &index);
    if (more < 0)
        raise(L, me);
    if (more == 0)
        return 0;
    lua_pushinteger(L, index);
    return 1;
}

static int
sampler_next(lua_State *L)
{
    return push_next(L, lua_touserdata(L, lua_upvalueindex(1)));
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
    struct index_stream *stream = lua_touserdata(L, 5);
    if (stream == NULL)
        raise_error(L, "RuntimeError", "this pass over the sampler is over");
    return push_next(L, stream);
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
};
static const struct lua_entry entries[] = {
    { "SequentialSampler", sequential_sampler, "utils.data.SequentialSampler(dataset)", "0, 1, 2, ..." },
    { "RandomSampler", random_sampler, "utils.data.RandomSampler(any dataset, bool replacement=False, "
      "int? num_samples=None, Generator? generator=None) -> any", "in random order" },
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

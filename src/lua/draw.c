/* More random numbers: t:exponential_(), rs.bernoulli, rs.multinomial. */
#include "lua/internal.h"
#include "autograd/call.h"
#include "base/vec.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* The generator in a trailing table of options; NULL: the rank's own. */
static struct generator *
option_generator(lua_State *L, int table)
{
    struct generator *generator = NULL;
    if (option_push(L, table, "generator")) {
        generator = box_check(L, -1, BOX_GENERATOR);
        lua_pop(L, 1); /* the table keeps it */
    }
    return generator;
}

static int
last_table(lua_State *L, int from)
{
    int top = lua_gettop(L);
    return top >= from && lua_istable(L, top) ? option_table(L, top) : 0;
}

static int
exponential_(lua_State *L)
{
    struct task      *me = script_task(L);
    struct tensor    *tensor = check_tensor(L, 1);
    int               table = last_table(L, 2);
    double            rate = table == 2 ? option_number(L, table, "lambd", 1) : opt_number(L, 2, 1);
    struct generator *given = option_generator(L, table);
    option_known(L, table, "lambd generator");
    struct call       call = call_open(L, me, CALL_PLAIN);
    struct generator *generator = given != NULL ? given : default_generator(me);
    return call_self(&call, generator != NULL && inplace_allowed(me, tensor) &&
                            tensor_exponential(me, tensor, rate, generator));
}

/* rs.bernoulli(P), rs.bernoulli(t, p) */
static int
bernoulli(lua_State *L)
{
    struct task      *me = script_task(L);
    struct tensor    *tensor = check_tensor(L, 1);
    int               table = last_table(L, 2);
    bool              by_number = lua_type(L, 2) == LUA_TNUMBER;
    double            p = by_number ? lua_tonumber(L, 2) : 0;
    struct generator *given = option_generator(L, table);
    option_known(L, table, "generator");
    script_reserve(L, me, 8.0 * (double)tensor_count(tensor));
    struct call       call = call_open(L, me, CALL_PLAIN);
    struct generator *generator = given != NULL ? given : default_generator(me);
    if (!by_number)
        return call_tensor(&call, tensor_bernoulli_of(me, tensor, generator));
    struct tensor *out = tensor_empty(me, tensor->dtype, tensor_device(tensor), tensor->dims, tensor->size);
    bool           ok = out != NULL && generator != NULL && tensor_bernoulli(me, out, p, generator);
    return call_tensor(&call, ok ? out : NULL);
}

/* rs.multinomial(weights, num_samples, replacement) */
static int
multinomial(lua_State *L)
{
    struct task      *me = script_task(L);
    struct tensor    *weights = check_tensor(L, 1);
    int64_t           count = check_integer(L, 2);
    int               table = last_table(L, 3);
    bool              replacement = table == 3 ? option_bool(L, table, "replacement", false) : lua_toboolean(L, 3);
    struct generator *given = option_generator(L, table);
    option_known(L, table, "replacement generator");
    script_reserve(L, me, 8.0 * (double)count * (double)(tensor_dims(weights) == 2 ? tensor_size(weights, 0) : 1));
    struct call       call = call_open(L, me, CALL_PLAIN);
    struct generator *generator = given != NULL ? given : default_generator(me);
    return call_tensor(&call, tensor_multinomial(me, weights, count, replacement, generator));
}

static const struct lua_entry functions[] = {
    { "bernoulli", bernoulli, "rs.bernoulli(P, {generator})", "1 with the probability that stands in each element" },
    { "multinomial", multinomial, "rs.multinomial(weights, num_samples, {replacement = false, generator})",
      "numbers drawn by their weights, row by row" },
};
static const struct lua_entry methods[] = {
    { "exponential_", exponential_, "t:exponential_(lambd)", "drawn from the exponential distribution" },
    { "bernoulli", bernoulli, "t:bernoulli({generator})", "1 with the probability that stands in each element" },
    { "multinomial", multinomial, "t:multinomial(num_samples, {replacement = false, generator})",
      "numbers drawn by their weights" },
};

void
lua_open_draw(lua_State *L)
{
    open_namespace(L, "", functions, countof(functions));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_entries(L, -1, methods, countof(methods));
    lua_pop(L, 2);
}

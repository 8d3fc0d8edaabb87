/* What changes a tensor in place: t:add_(u) and the like, copies, random fills. Each answers the tensor itself. The
 * rules (leaves that require grad, versions, views) are autograd's: autograd/inplace.c. */
#include "lua/internal.h"
#include "autograd/call.h"
#include "base/rng.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

static int
fill_with(lua_State *L, double value)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_self(&call, tensor_fill_(me, tensor, value) != NULL);
}

static int
fill_(lua_State *L)
{
    return fill_with(L, lua_isboolean(L, 2) ? lua_toboolean(L, 2) : check_number(L, 2));
}

static int
zero_(lua_State *L)
{
    return fill_with(L, 0);
}

static int
copy_(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *from = check_tensor(L, 2);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_self(&call, tensor_copy_(me, tensor, from) != NULL);
}

/* ---- random fills: t:normal_(0, 1, {generator = g}) ---- */

/* Takes a trailing table of options away; NULL: this rank's own generator. */
static struct generator *
take_generator(lua_State *L)
{
    int table = lua_gettop(L);
    if (!lua_istable(L, table))
        return NULL;
    option_known(L, table, "generator");
    struct generator *generator = NULL;
    if (option_push(L, table, "generator"))
        generator = box_check(L, -1, BOX_GENERATOR);
    lua_settop(L, table); /* the table keeps the generator */
    return generator;
}

static struct generator *
some_generator(struct task *me, struct generator *given)
{
    return given != NULL ? given : default_generator(me);
}

static double
number_before_table(lua_State *L, int index, double otherwise)
{
    return lua_istable(L, index) ? otherwise : opt_number(L, index, otherwise);
}

static int
uniform_(lua_State *L)
{
    struct task      *me     = script_task(L);
    struct tensor    *tensor = check_tensor(L, 1);
    struct generator *given  = take_generator(L);
    double            low = number_before_table(L, 2, 0), high = number_before_table(L, 3, 1);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct generator *generator = some_generator(me, given);
    return call_self(&call, generator != NULL && inplace_allowed(me, tensor) &&
                            tensor_uniform(me, tensor, low, high, generator));
}

static int
normal_(lua_State *L)
{
    struct task      *me     = script_task(L);
    struct tensor    *tensor = check_tensor(L, 1);
    struct generator *given  = take_generator(L);
    double            mean = number_before_table(L, 2, 0), std = number_before_table(L, 3, 1);
    if (std < 0)
        raise_error(L, "RuntimeError", "normal_ expects a standard deviation of 0 or more, got %g", std);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct generator *generator = some_generator(me, given);
    return call_self(&call, generator != NULL && inplace_allowed(me, tensor) &&
                            tensor_normal(me, tensor, mean, std, generator));
}

static int
bernoulli_(lua_State *L)
{
    struct task      *me     = script_task(L);
    struct tensor    *tensor = check_tensor(L, 1);
    struct generator *given  = take_generator(L);
    double            p      = number_before_table(L, 2, 0.5);
    if (!(p >= 0 && p <= 1))
        raise_error(L, "RuntimeError", "bernoulli_ expects a probability of 0 to 1, got %g", p);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct generator *generator = some_generator(me, given);
    return call_self(&call, generator != NULL && inplace_allowed(me, tensor) &&
                            tensor_bernoulli(me, tensor, p, generator));
}

/* t:random_(), t:random_(high), t:random_(low, high): integers, high excluded. */
static int
random_(lua_State *L)
{
    struct task      *me     = script_task(L);
    struct tensor    *tensor = check_tensor(L, 1);
    struct generator *given  = take_generator(L);
    int               count  = lua_gettop(L) - 1 - lua_istable(L, -1);
    int64_t           low    = count == 2 ? check_integer(L, 2) : 0;
    int64_t           high   = count == 2 ? check_integer(L, 3) : count == 1 ? check_integer(L, 2) : 0;
    if (count > 0 && low >= high)
        raise_error(L, "RuntimeError", "random_ expects low < high, got %lld and %lld",
                    (long long)low, (long long)high);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct generator *generator = some_generator(me, given);
    return call_self(&call, generator != NULL && inplace_allowed(me, tensor) &&
                            tensor_random(me, tensor, (struct whole_range){ low, high, count == 0 }, generator));
}

static const struct lua_entry methods[] = {
    { "fill_", fill_, "t:fill_(value)", "every element becomes value" },
    { "zero_", zero_, "t:zero_()", "every element becomes 0" },
    { "copy_", copy_, "t:copy_(from)", "takes the elements of from, which may be stretched" },
    { "uniform_", uniform_, "t:uniform_(low, high)", "fractions drawn evenly from [low, high)" },
    { "normal_", normal_, "t:normal_(mean, std)", "drawn from a normal distribution" },
    { "bernoulli_", bernoulli_, "t:bernoulli_(p)", "1 with probability p, else 0" },
    { "random_", random_, "t:random_(low, high)", "whole numbers drawn evenly, high excluded" },
};

void
lua_open_inplace(lua_State *L)
{
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_entries(L, -1, methods, countof(methods));
    lua_pop(L, 2);
}
